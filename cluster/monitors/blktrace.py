"""blktrace: every request to the block devices below the OSDs, as the kernel traces them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster.monitors.base import Monitor, MonitorCommand, Probe, ProfileKey

_DEBUGFS = "/sys/kernel/debug"


@dataclass(frozen=True, slots=True)
class Blktrace(Monitor):
    """blktrace needs to be told the devices, and a kernel that traces them."""

    def lacking(self, profile: Mapping[str, object]) -> str | None:
        if self._devices(profile) or self._names_devices(self._arguments(profile, "/folder", "1")[0]):
            return None
        return "no device is named; add 'devices: [/dev/…]' to the profile, the block devices to trace"

    def probes(self, profile: Mapping[str, object]) -> tuple[Probe, ...]:
        tracing = Probe(
            ("test", "-d", f"{_DEBUGFS}/block"),
            f"{_DEBUGFS}/block is not there or may not be read: blktrace needs root, a kernel with block tracing, "
            f"and debugfs mounted (mount -t debugfs none {_DEBUGFS})",
        )
        devices = (
            Probe(("test", "-b", device), f"{device} is not a block device; correct 'devices'")
            for device in self._devices(profile)
        )
        return (Probe((*self.command(profile), *self.probe)), tracing, *devices)

    def commands(
        self, profile: Mapping[str, object], directory: str, pids: Sequence[int] = ()
    ) -> tuple[MonitorCommand, ...]:
        # The base class by name: super() does not work in a class that was made anew to have slots.
        return () if self.lacking(profile) is not None else Monitor.commands(self, profile, directory, pids)

    def added_arguments(self, profile: Mapping[str, object], args: Sequence[str]) -> tuple[str, ...]:
        if self._names_devices(args):
            return ()
        return tuple(word for device in self._devices(profile) for word in ("-d", device))

    @staticmethod
    def _devices(profile: Mapping[str, object]) -> tuple[str, ...]:
        given = profile.get("devices")
        return tuple(str(device) for device in given) if isinstance(given, tuple) else ()

    @staticmethod
    def _names_devices(args: Sequence[str]) -> bool:
        return any(word.startswith(("-d", "--dev", "/dev/", "-I")) for word in args)


MONITOR = Blktrace(
    name="blktrace",
    program=("blktrace",),
    default_args="-D {blktrace_dir}",
    probe=("-V",),
    program_key="blktrace_cmd",
    more_keys=(ProfileKey("devices", "list", "blktrace: the block devices to trace."),),
)
