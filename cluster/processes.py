"""Telling a process from another that later got the same number: start time and boot id, from /proc."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_STATE_FIELD = 0
_THREADS_FIELD = 17
_START_TIME_FIELD = 19


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process number, and when it started (clock ticks since boot, /proc/PID/stat field 22)."""

    pid: int
    start_ticks: int

    def alive(self) -> bool:
        """Whether this very process still runs. A zombie does not, unless it has threads left: they hold its files."""
        fields = _stat_fields(self.pid)
        if fields is None or int(fields[_START_TIME_FIELD]) != self.start_ticks:
            return False
        return fields[_STATE_FIELD] not in "ZX" or int(fields[_THREADS_FIELD]) > 1

    def arguments(self) -> tuple[str, ...]:
        """Its command line; () when it is gone."""
        try:
            data = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except OSError:
            return ()
        return tuple(word.decode(errors="surrogateescape") for word in data.rstrip(b"\0").split(b"\0"))


def boot_id() -> str:
    """Changes with every boot: a process number of another boot means nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may itself hold spaces and parentheses.
    return text[text.rindex(")") + 2 :].split()
