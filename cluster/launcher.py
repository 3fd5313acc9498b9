"""Launches all instances of a point, on one host or many, and brings back how each of them ended.

The order of things: every host's launcher (launcher.sh) gets ready; all get GO at once; every instance connects and
reaches the gate; all gates open at once; the instances measure; each end is reported. Whatever goes wrong, nothing
is left running: the launcher ends its instances when told, when a time limit passes, and when its controller is gone.
"""

from __future__ import annotations

import functools
import math
import queue
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePosixPath

from cluster.command import Command, quote_command
from cluster.command_log import CommandLog, NullLog
from cluster.launch_model import (
    EndedBy,
    EventKind,
    HostLost,
    HostOutcome,
    HostResult,
    InstanceOutcome,
    LaunchedInstance,
    LaunchEvent,
    LaunchFailed,
    LaunchResult,
    LaunchSpec,
    Limits,
)
from cluster.transports.base import Channel, CommandFailed, HostUnreachable, Transport

__all__ = [
    "EndedBy",
    "EventKind",
    "HostLost",
    "HostOutcome",
    "HostResult",
    "InstanceOutcome",
    "LaunchEvent",
    "LaunchFailed",
    "LaunchResult",
    "LaunchSpec",
    "LaunchedInstance",
    "Limits",
    "gate_command",
    "launch",
]

SILENCE_S = 10.0
"""How much later than it promised a launcher may report before its host counts as lost."""

WIND_UP_S = 5.0
"""How long a launcher may take from its last order to its own end."""

ABANDON_S = 60.0
"""How long after the connect limit a launcher waits for its controller's decision before it ends everything."""

_POLL_S = 0.1


def gate_command(directory: str, number: int) -> str:
    """Shell text that reports instance `number` ready and returns when the gate opens; for fio's `exec_prerun`.

    Redirections may be appended to it. It opens the gate before it reports, so that no ready instance can miss the
    opening. Where no launcher is (someone repeats a command from an archive) it returns at once.
    """
    gate = shlex.quote(str(PurePosixPath(directory) / "launch" / "gate"))
    released = shlex.quote(str(PurePosixPath(directory) / "launch" / f"released.{number}."))
    pass_it = f"exec 4<{gate}; echo 'ready {number}' >&3; read -r go <&4; true >{released}$$"
    inner = f"if [ -e {gate} ]; then {pass_it}; fi; exit 0"
    return f"exec sh -c {shlex.quote(inner)}"


def launch(
    specs: Sequence[LaunchSpec],
    transports: Mapping[str, Transport],
    limits: Limits,
    *,
    on_event: Callable[[LaunchEvent], None] | None = None,
    cancelled: threading.Event | None = None,
    log: CommandLog | None = None,
) -> LaunchResult:
    """Runs all instances of `specs` (one spec a host) to their end.

    No failure of a host or an instance raises: see LaunchResult. When a host cannot get ready, no instance starts
    anywhere. Setting `cancelled` stops everything and returns soon. Every instance is written to `log` when it ends.
    Raises ValueError for specs or limits that make no sense.
    """
    _check(specs, transports, limits)
    launching = _Launch(
        [_HostRun(spec, transports[spec.host]) for spec in specs],
        limits,
        on_event or (lambda _: None),
        cancelled or threading.Event(),
        log or NullLog(),
    )
    with launching.nothing_left_behind():
        return launching.run()


@functools.cache
def _program() -> str:
    return resources.files("cluster").joinpath("launcher.sh").read_text(encoding="utf-8")


def _check(specs: Sequence[LaunchSpec], transports: Mapping[str, Transport], limits: Limits) -> None:
    hosts = [spec.host for spec in specs]
    if len(set(hosts)) != len(hosts):
        raise ValueError("two launch specs name the same host")
    for spec in specs:
        if spec.host not in transports:
            raise ValueError(f"no transport for {spec.host}")
        if not spec.directory.startswith("/") or "\n" in spec.directory or PurePosixPath(spec.directory).name == "":
            raise ValueError(f"{spec.directory!r} cannot be a working directory: not an absolute path on one line")
        numbers = [instance.number for instance in spec.instances]
        if not numbers or len(set(numbers)) != len(numbers) or min(numbers) < 0:
            raise ValueError(f"{spec.host}: instances need distinct numbers from 0")
        for instance in spec.instances:
            if not instance.argv or instance.ready_marks < 0:
                raise ValueError(f"{spec.host}: instance {instance.number} has no command or a negative ready_marks")
            if any("\0" in word for word in instance.argv):
                raise ValueError(f"{spec.host}: instance {instance.number} has a NUL byte in its command")
    seconds = [limits.connect_s, limits.kill_grace_s, limits.prepare_s]
    if limits.deadline_s is not None:
        seconds.append(limits.deadline_s)
    if not all(math.isfinite(s) and s > 0 for s in seconds):
        raise ValueError(f"every limit must be more than 0 s: {limits}")


@dataclass(slots=True)
class _InstanceRun:
    """What is known of one instance so far."""

    instance: LaunchedInstance
    group: int | None = None
    started_s: float | None = None
    marks: int = 0
    ready_s: float | None = None
    released_s: float | None = None
    ended_s: float | None = None
    exit_status: int | None = None
    ending: EndedBy = "itself"

    @property
    def ended(self) -> bool:
        return self.exit_status is not None

    @property
    def arrived(self) -> bool:
        """At the gate, through it, or not coming any more."""
        return self.ended or self.marks >= self.instance.ready_marks

    def outcome(self) -> InstanceOutcome:
        return InstanceOutcome(
            number=self.instance.number,
            pid=self.group,
            started_s=self.started_s,
            ready_s=self.ready_s,
            ended_s=self.ended_s,
            exit_status=self.exit_status,
            ended_by=self.ending if self.ended else "lost",
            released_s=self.released_s,
        )


class _Closed:
    """In place of a line: the launcher's output has ended."""


_Message = str | _Closed | HostUnreachable | CommandFailed


@dataclass(slots=True)
class _HostRun:
    """One host's launcher as the controller sees it."""

    spec: LaunchSpec
    transport: Transport
    channel: Channel | None = None
    prepared: bool = False
    closed: bool = False
    told_to_go: bool = False
    abandoned: bool = False
    quit_sent: bool = False
    failure: LaunchFailed | HostUnreachable | None = None
    clock_offset_s: float = 0.0
    go_s: float | None = None
    opened_s: float | None = None
    connect_limit_passed: bool = False
    deadline_passed: bool = False
    swept: int = 0
    unkillable: tuple[int, ...] = ()
    instances: dict[int, _InstanceRun] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.instances = {i.number: _InstanceRun(i) for i in self.spec.instances}

    @property
    def gated(self) -> bool:
        return any(i.ready_marks for i in self.spec.instances)

    @property
    def running(self) -> list[_InstanceRun]:
        return [run for run in self.instances.values() if not run.ended]

    @property
    def arrived(self) -> bool:
        return self.failure is not None or all(run.arrived for run in self.instances.values())

    @property
    def done(self) -> bool:
        return self.failure is not None or not self.running

    def send(self, order: str) -> None:
        """Passes an order on; a launcher that is gone becomes this host's failure."""
        if self.channel is None or self.failure is not None:
            return
        try:
            self.channel.send(order + "\n")
        except HostUnreachable as error:
            self.fail(self._why_it_ended() or str(error))

    def fail(self, message: str) -> None:
        if self.failure is None:
            self.failure = HostUnreachable(message)

    def _why_it_ended(self) -> str | None:
        """How the launcher itself ended, when it did."""
        status = self.channel.wait(1.0) if self.channel is not None else None
        if self.channel is None or status is None:
            return None
        words = " / ".join(self.channel.stderr_text().strip().splitlines()[-3:])
        return f"{self.spec.host}: the launcher ended with status {status}" + (f": {words}" if words else "")

    def output_ended(self) -> None:
        """The launcher's output ended: as expected after QUIT, else the host or its launcher is lost."""
        self.closed = True
        if self.quit_sent:
            return
        why = self._why_it_ended() or f"{self.spec.host}: the connection to the launcher was lost"
        if not self.prepared and self.failure is None:
            self.failure = LaunchFailed(why)
        self.fail(why)

    def result(self) -> HostResult:
        outcome = HostOutcome(
            host=self.spec.host,
            go_s=self.go_s,
            opened_s=self.opened_s,
            clock_offset_s=self.clock_offset_s,
            instances=tuple(run.outcome() for _, run in sorted(self.instances.items())),
            connect_limit_passed=self.connect_limit_passed,
            deadline_passed=self.deadline_passed,
            swept=self.swept,
            unkillable=self.unkillable,
        )
        if self.failure is None:
            return outcome
        if self.told_to_go:
            return HostLost(str(self.failure), outcome)
        return self.failure


@dataclass(slots=True)
class _Launch:
    """One launch over all hosts. Threads read the launchers' output into one inbox; everything else is one thread."""

    hosts: list[_HostRun]
    limits: Limits
    on_event: Callable[[LaunchEvent], None]
    cancelled: threading.Event
    log: CommandLog
    inbox: queue.SimpleQueue[tuple[_HostRun, _Message, float]] = field(default_factory=queue.SimpleQueue)
    stopped: bool = False

    def run(self) -> LaunchResult:
        if self.cancelled.is_set() or not self._prepare():
            return self._not_started()
        self._go()
        self._open()
        self._wait_for_ends()
        self._quit()
        return LaunchResult({h.spec.host: h.result() for h in self.hosts}, cancelled=self.stopped)

    @contextmanager
    def nothing_left_behind(self) -> Iterator[None]:
        """Whatever happens within, every launcher's input is closed at the end: that alone makes it clean up."""
        try:
            yield
        finally:
            for host in self.hosts:
                host.abandoned = True
                if host.channel is not None:
                    host.channel.close_input()
            until = time.monotonic() + WIND_UP_S
            for host in self.hosts:
                if host.channel is not None:
                    host.channel.wait(max(0.0, until - time.monotonic()))

    # ---- the phases ----

    def _prepare(self) -> bool:
        for host in self.hosts:
            threading.Thread(target=self._read, args=(host,), daemon=True).start()
        limit_s = self.limits.prepare_s
        self._receive_until(lambda: all(h.prepared or h.failure for h in self.hosts), limit_s)
        if self.cancelled.is_set():
            return False
        for host in self.hosts:
            if not host.prepared:
                host.fail(f"{host.spec.host}: the launcher did not get ready in {limit_s:g} s")
        return not any(host.failure for host in self.hosts)

    def _not_started(self) -> LaunchResult:
        failed = [host.spec.host for host in self.hosts if host.failure is not None]
        why = f"because {', '.join(failed)} failed" if failed else "because the run was stopped"
        results: dict[str, HostResult] = {}
        for host in self.hosts:
            results[host.spec.host] = host.failure or LaunchFailed(f"{host.spec.host}: not started, {why}")
        return LaunchResult(results, cancelled=self.cancelled.is_set())

    def _go(self) -> None:
        for host in self.hosts:
            host.told_to_go = True
            host.send("go")
        if self._receive_until(lambda: all(h.arrived for h in self.hosts), self.limits.connect_s):
            return
        for host in self.hosts:
            for run in host.instances.values():
                if not run.arrived and not self.stopped:
                    host.connect_limit_passed = True
                    run.ending = "connect limit"
                    host.send(f"stop {run.instance.number}")

    def _open(self) -> None:
        if self.stopped:
            return
        for host in self.hosts:
            if host.gated and host.running:
                host.send("open")

    def _wait_for_ends(self) -> None:
        limits = self.limits
        limit_s = None if limits.deadline_s is None else limits.deadline_s + limits.kill_grace_s + SILENCE_S
        self._receive_until(lambda: all(h.done for h in self.hosts), limit_s)
        for host in self.hosts:
            if not host.done:
                host.fail(f"{host.spec.host}: the launcher fell silent")

    def _quit(self) -> None:
        self._receive_until(lambda: all(h.closed or h.failure for h in self.hosts), WIND_UP_S, stoppable=False)
        for host in self.hosts:
            if not host.closed:
                host.fail(f"{host.spec.host}: the launcher did not end after all its instances had")
            elif host.channel is not None and host.failure is None:
                status = host.channel.wait(WIND_UP_S)
                if status != 0:
                    host.fail(f"{host.spec.host}: the launcher ended with status {status}")

    def _stop_all(self) -> None:
        self.stopped = True
        for host in self.hosts:
            for run in host.running:
                if run.ending == "itself":
                    run.ending = "stopped"
            host.send("stop")

    # ---- messages ----

    def _read(self, host: _HostRun) -> None:
        """The thread of one host."""
        try:
            channel = host.transport.start(Command(("sh", "-c", _program(), "cbt-launcher"), timeout_s=None))
            host.channel = channel
            if host.abandoned:  # the launch was over before this host answered
                channel.close_input()
                return
            channel.send(_header(host.spec, self.limits, secrets.token_hex(16)))
            for line in channel.lines():
                self.inbox.put((host, line, time.time()))
        except (HostUnreachable, CommandFailed) as error:
            self.inbox.put((host, error, time.time()))
        self.inbox.put((host, _Closed(), time.time()))

    def _receive_until(self, reached: Callable[[], bool], limit_s: float | None, *, stoppable: bool = True) -> bool:
        """Takes messages until the condition holds (True) or the time is over (False).

        A cancelled launch is stopped here, and is then given the time that stopping takes.
        """
        until = math.inf if limit_s is None else time.monotonic() + limit_s
        while not reached():
            if stoppable and not self.stopped and self.cancelled.is_set():
                self._stop_all()
                until = time.monotonic() + self.limits.kill_grace_s + WIND_UP_S
                continue
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            try:
                host, message, received_s = self.inbox.get(timeout=min(left_s, _POLL_S))
            except queue.Empty:
                continue
            self._take(host, message, received_s)
        return True

    def _take(self, host: _HostRun, message: _Message, received_s: float) -> None:
        match message:
            case str():
                self._take_line(host, message, received_s)
            case _Closed():
                host.output_ended()
            case HostUnreachable() | CommandFailed():
                if host.failure is None:
                    host.failure = message if isinstance(message, HostUnreachable) else LaunchFailed(str(message))
        if host.told_to_go and not host.running and not host.quit_sent and host.failure is None:
            host.send("quit")
            host.quit_sent = True

    def _take_line(self, host: _HostRun, line: str, received_s: float) -> None:
        kind, _, rest = line.partition(" ")
        words = rest.split()
        try:
            match kind, words:
                case "hello", [now]:
                    host.clock_offset_s = float(now) - received_s
                    return
                case "error", _:
                    host.failure = LaunchFailed(f"{host.spec.host}: {rest}")
                    return
                case "swept", [number]:
                    host.swept += int(number)
                    return
                case "unkillable", _:
                    host.unkillable = tuple(sorted({*host.unkillable, *map(int, words)}))
                    return
                case "prepared", []:
                    host.prepared = True
                    self._tell(host, "prepared", None, received_s)
                case "going", [at]:
                    host.go_s = float(at)
                    self._tell(host, "going", None, received_s)
                case "opened", [at]:
                    host.opened_s = float(at)
                    self._tell(host, "opened", None, received_s)
                case "start", [number, group, at]:
                    run = host.instances[int(number)]
                    run.group, run.started_s = int(group), float(at)
                    self._tell(host, "start", int(number), received_s)
                case "ready", [number]:
                    run = host.instances[int(number)]
                    run.marks += 1
                    run.ready_s = received_s + host.clock_offset_s
                    self._tell(host, "ready", int(number), received_s)
                case "released", [name, at]:
                    run = host.instances[int(name.split(".")[1])]
                    run.released_s = max(float(at), run.released_s or 0.0)
                case "exit", [number, status, at]:
                    run = host.instances[int(number)]
                    run.exit_status, run.ended_s = int(status), float(at)
                    self._log_end(host, run)
                    self._tell(host, "exit", int(number), received_s)
                case "connect-timeout", []:
                    self._tell(host, "connect-timeout", None, received_s)
                case "deadline", []:
                    host.deadline_passed = True
                    self._mark_ending(host, "deadline")
                    self._tell(host, "deadline", None, received_s)
                case "ending", []:
                    self._mark_ending(host, "stopped")
                    self._tell(host, "ending", None, received_s)
                case _:
                    host.fail(f"{host.spec.host}: the launcher said something unknown: {line[:200]!r}")
        except (ValueError, KeyError):
            host.fail(f"{host.spec.host}: the launcher said something unreadable: {line[:200]!r}")

    def _mark_ending(self, host: _HostRun, by: EndedBy) -> None:
        for run in host.running:
            if run.ending == "itself":
                run.ending = by

    def _tell(self, host: _HostRun, kind: EventKind, number: int | None, at_s: float) -> None:
        self.on_event(LaunchEvent(host.spec.host, kind, number, at_s))

    def _log_end(self, host: _HostRun, run: _InstanceRun) -> None:
        started_s, ended_s = run.started_s, run.ended_s
        if started_s is None or ended_s is None:
            return
        shown = Command(run.instance.argv, run.instance.env).shown().replace("\n", "\\n")
        how = str(run.exit_status) if run.ending == "itself" else f"{run.exit_status}, ended by: {run.ending}"
        self.log.record(host.spec.host, shown, started_s, ended_s - started_s, how)


def _header(spec: LaunchSpec, limits: Limits, token: str) -> str:
    """What the launcher reads first. Its format stands at the top of launcher.sh."""
    grace_s = math.ceil(limits.kill_grace_s)
    # The backstop ends an instance whose launcher and guard were both killed; it must never come first.
    backstop_s = (
        0.0 if limits.deadline_s is None else limits.connect_s + ABANDON_S + limits.deadline_s + 2 * grace_s + 30
    )
    lines = [
        f"token {token}",
        f"directory {spec.directory}",
        f"connect_s {limits.connect_s:.3f}",
        f"abandon_s {ABANDON_S:.3f}",
        f"deadline_s {limits.deadline_s or 0:.3f}",
        f"kill_grace_s {grace_s}",
        f"backstop_s {backstop_s:.3f}",
    ]
    for instance in spec.instances:
        words = quote_command(instance.argv, instance.env)
        lines += [f"instance {instance.number} {instance.ready_marks} {words.count(chr(10)) + 1}", words]
    return "\n".join([*lines, "end", ""])
