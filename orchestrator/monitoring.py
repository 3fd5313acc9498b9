"""The plan's monitors: which runs on which host, and running them while a point is measured.

A monitor never makes a point fail: whatever goes wrong with one is a note.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from archive.files import space_checked
from archive.layout import monitor_folder_name
from benchmarks.options import Settings
from cluster.command import Command
from cluster.command_log import CommandLog, NullLog
from cluster.hosts import Host
from cluster.launcher import (
    InstanceOutcome,
    LaunchedInstance,
    LaunchEvent,
    LaunchResult,
    LaunchSpec,
    Limits,
    launch,
)
from cluster.monitors.base import Monitor, MonitorCommand, TemplateError
from cluster.monitors.registry import all_monitors
from cluster.transports.base import CommandFailed, HostUnreachable, Transport
from orchestrator.model import ClusterPlan, TestPlan
from orchestrator.plan_options import DAEMON_ROLES, HEAD_ROLE, MONITORED_ROLES
from orchestrator.plan_values import nearest, shown
from orchestrator.preflight import Finding

START_LIMIT_S = 15.0
"""How long a point waits for its monitors to be running."""

KILL_GRACE_S = 5.0
"""How long a monitor may take to write its results before it is killed."""

END_LIMIT_S = 4 * KILL_GRACE_S
HOSTS_AT_ONCE = 64
KILLED = 137

Item = TypeVar("Item")
Result = TypeVar("Result")
Commands: TypeAlias = "tuple[list[tuple[str, MonitorCommand]], list[str]]"
"""What runs on one host, each command with its monitor's name; and why other monitors do not."""

_READ_PIDS = r"""
cd -- "$1" 2>/dev/null || exit 3
IFS=
for file in $2; do
    pid=
    [ -f "$file" ] && read -r pid <"$file"
    case $pid in
        '' | *[!0-9]*) ;;
        *) kill -0 "$pid" 2>/dev/null || [ -d "/proc/$pid" ] && echo "$pid" ;;
    esac
done
exit 0
"""


@dataclass(frozen=True, slots=True)
class Watch:
    """One monitoring profile: a monitor, its settings, and the hosts it watches (each has a transport)."""

    monitor: Monitor
    profile: Settings
    hosts: tuple[str, ...]


def check_profiles(plan: TestPlan) -> list[Finding]:
    """What in the monitoring profiles cannot work, whatever the hosts; unknown roles and impossible arguments stop the
    run."""
    findings = []
    for name, profile in plan.monitoring_profiles.items():
        where = f"monitoring_profiles.{name}"
        for role in _roles(profile):
            if role not in MONITORED_ROLES:
                guess = nearest(role, MONITORED_ROLES)
                remedy = f"did you mean {guess!r}?" if guess else f"the roles are {', '.join(MONITORED_ROLES)}"
                findings.append(Finding(where, f"nodes: {shown(role)} is not a role; {remedy}"))
        monitor = all_monitors()[name]
        try:
            monitor.check(profile)
        except TemplateError as error:
            findings.append(Finding(where, str(error)))
            continue
        if (lacking := monitor.lacking(profile)) is not None:
            findings.append(Finding(where, f"{lacking}; {name} will not run", warning=True))
    return findings


def find_watches(plan: TestPlan, transports: Mapping[str, Transport]) -> tuple[tuple[Watch, ...], list[Finding]]:
    """Every profile that can run with the hosts it watches, and one warning for the hosts that cannot be reached."""
    found: list[Watch] = []
    missing: dict[str, None] = {}
    for name, profile in plan.monitoring_profiles.items():
        if all_monitors()[name].lacking(profile) is not None:
            continue  # check_profiles says so
        hosts: dict[str, None] = {}
        for host in _hosts(plan.cluster, _roles(profile) or MONITORED_ROLES):
            reached = _reached_as(host, transports)
            if reached is None:
                missing[host.name] = None
            else:
                hosts[reached] = None
        found.append(Watch(all_monitors()[name], profile, tuple(hosts)))
    findings = []
    if missing:
        text = f"{', '.join(missing)}: not reached by this version, and so not watched"
        findings.append(Finding("monitoring_profiles", text, warning=True))
    for watch in found:
        if not watch.hosts:
            text = "its nodes name no host of this plan, so it watches nothing"
            findings.append(Finding(f"monitoring_profiles.{watch.monitor.name}", text, warning=True))
    return tuple(found), findings


def _roles(profile: Settings) -> tuple[str, ...]:
    nodes = profile.get("nodes")
    words = nodes if isinstance(nodes, tuple) else ()
    return tuple(role.strip() for word in words for role in str(word).split(",") if role.strip())


def _hosts(cluster: ClusterPlan, roles: Iterable[str]) -> Iterator[Host]:
    for role in roles:
        if role == HEAD_ROLE:
            yield from (cluster.head,) if cluster.head is not None else cluster.clients[:1]
        elif role in DAEMON_ROLES:
            # A throwaway cluster's daemons all run on this host, whatever hosts are named for them.
            yield from cluster.daemons.get(role, ()) if cluster.settings.flag("use_existing") else (Host("localhost"),)
        elif role == "clients":
            yield from cluster.clients


def _reached_as(host: Host, transports: Mapping[str, Transport]) -> str | None:
    """The name under which there is a transport to the host; this machine may have several names."""
    if host.name in transports:
        return host.name
    return next((name for name in transports if Host(name).is_local()), None) if host.is_local() else None


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Starts the watches, once for every point. Without any it does nothing and takes no time.

    `pid_dir`: where the daemons' pid files are, on every host.
    """

    watches: tuple[Watch, ...] = ()
    transports: Mapping[str, Transport] = field(default_factory=dict)
    pid_dir: str | None = None
    log: CommandLog = field(default_factory=NullLog)
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def active(self) -> bool:
        return any(watch.hosts for watch in self.watches)

    def check(self, *, processes: bool) -> list[Finding]:
        """What the hosts lack for the monitors to work: warnings, since the numbers do not need them.

        `processes`: also whether there are any of those that are to be watched.
        """

        def look(host: str) -> list[Finding]:
            try:
                return [finding for watch in self._of(host) for finding in self._check_host(watch, host, processes)]
            except HostUnreachable as error:
                return [Finding(f"host {host}", f"monitors: {error}", warning=True)]

        found = [finding for findings in _on_all(look, self._hosts()) for finding in findings]
        return list(dict.fromkeys(found))

    def _check_host(self, watch: Watch, host: str, processes: bool) -> Iterator[Finding]:
        monitor = watch.monitor
        for probe in monitor.probes(watch.profile):
            done = self.transports[host].run(Command(probe.argv, timeout_s=20))
            if done.ok:
                continue
            missing = f"{probe.argv[0]} is not there; install it, or leave the profile out"
            text = missing if done.status == 127 else probe.lacking or done.problem()
            yield Finding(f"host {host}", f"monitor {monitor.name} will not run: {text}", warning=True)
            return
        if processes and monitor.per_process(watch.profile):
            _, problem = self._pids(watch, host)
            if problem is not None:
                yield Finding(f"host {host}", f"monitor {monitor.name}: {problem}", warning=True)

    @contextmanager
    def watching(self, directory: str) -> Iterator[Watching]:
        """Monitors run from here on; they are stopped, and `directory` on every host is removed, at the end at the
        latest."""
        running = Watching(directory, self.transports, self.cancelled)
        try:
            for host in self._hosts():
                running.begin(host, partial(self._commands, host, directory), self.log)
            running.wait_until_running()
            yield running
        finally:
            running.stop()
            running.wait_until_ended()
            running.remove()

    def _hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(host for watch in self.watches for host in watch.hosts))

    def _of(self, host: str) -> list[Watch]:
        return [watch for watch in self.watches if host in watch.hosts]

    def _commands(self, host: str, directory: str) -> Commands:
        """Raises HostUnreachable."""
        commands: list[tuple[str, MonitorCommand]] = []
        problems: list[str] = []
        for watch in self._of(host):
            monitor: Monitor = watch.monitor
            pids: tuple[int, ...] = ()
            if monitor.per_process(watch.profile):
                pids, problem = self._pids(watch, host)
                if problem is not None:
                    problems.append(f"{monitor.name}: {problem}")
            made = monitor.commands(watch.profile, monitor_directory(directory, monitor.name), pids)
            commands += [(monitor.name, command) for command in made]
        return commands, problems

    def _pids(self, watch: Watch, host: str) -> tuple[tuple[int, ...], str | None]:
        """The processes a monitor watches on a host, or why there are none. Raises HostUnreachable."""
        if self.pid_dir is None:
            return (), "it watches processes ({pid}), and cluster.pid_dir does not say where their pid files are"
        pattern = watch.profile.text("pid_glob")
        done = self.transports[host].run(Command(("sh", "-c", _READ_PIDS, "sh", self.pid_dir, pattern), timeout_s=20))
        if done.status == 3:
            return (), f"cluster.pid_dir {self.pid_dir} is not there, so no process is watched"
        pids = tuple(dict.fromkeys(int(word) for word in done.stdout.split() if word.isdigit()))
        return pids, None if pids else f"no pid file {pattern} in {self.pid_dir} names a running process"


def monitor_directory(directory: str, monitor: str) -> str:
    """The folder of one monitor below the monitors' working directory."""
    return f"{directory}/{monitor}"


@dataclass(slots=True)
class _HostWatch:
    """The monitors of one host, launched by a thread of their own."""

    host: str
    stop: threading.Event
    running: threading.Event = field(default_factory=threading.Event)
    """All have started, or nothing more will."""
    commands: list[tuple[str, MonitorCommand]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    thread: threading.Thread | None = None

    def note(self, text: str) -> None:
        self.notes.append(f"monitors on {self.host}: {text}")


@dataclass(slots=True)
class Watching:
    """Monitors at work on all hosts, in `directory` of each."""

    directory: str
    transports: Mapping[str, Transport]
    cancelled: threading.Event
    _hosts: list[_HostWatch] = field(default_factory=list)

    @property
    def notes(self) -> tuple[str, ...]:
        """What went wrong, one line each; whole once the files were collected."""
        return tuple(note for host in self._hosts for note in host.notes)

    def begin(self, host: str, commands: Callable[[], Commands], log: CommandLog) -> None:
        """Launches what `commands` answers on one host."""
        watch = _HostWatch(host, threading.Event())
        watch.thread = threading.Thread(target=self._run, args=(watch, commands, log), name=f"monitors {host}")
        self._hosts.append(watch)
        watch.thread.start()

    def wait_until_running(self) -> None:
        """Returns when every monitor runs or will not."""
        attempts = int(START_LIMIT_S / 0.05)
        for host in self._hosts:
            while not host.running.wait(0.05) and not self.cancelled.is_set() and attempts > 0:
                attempts -= 1
            if not host.running.is_set() and not self.cancelled.is_set():
                host.note(f"were not running after {START_LIMIT_S:g} s, when the point began")

    def stop(self) -> None:
        """Tells all to end; returns at once."""
        for host in self._hosts:
            host.stop.set()

    def wait_until_ended(self) -> None:
        for host in self._hosts:
            thread, host.thread = host.thread, None
            if thread is not None:
                thread.join(END_LIMIT_S)
                if thread.is_alive():
                    host.note("did not end in time")

    def collect(self, into: Path, place: Callable[[str, str], str] = monitor_folder_name) -> None:
        """Brings the files of every monitor that ended to `into`/`place(monitor, host)`. Raises ArchiveError."""
        self.stop()
        self.wait_until_ended()

        def collect_host(host: _HostWatch) -> None:
            for monitor in dict.fromkeys(name for name, _ in host.commands):
                self._collect_monitor(host, monitor, into / place(monitor, host.host))

        with space_checked(into):
            _on_all(collect_host, self._hosts)

    def _collect_monitor(self, host: _HostWatch, monitor: str, folder: Path) -> None:
        try:
            self.transports[host.host].fetch(monitor_directory(self.directory, monitor), folder)
        except (HostUnreachable, CommandFailed) as error:
            host.note(f"{monitor}: its files could not be fetched: {error}")
        if not folder.is_dir():
            return
        for file in folder.iterdir():
            if file.stat().st_size == 0 and file.suffix in {".out", ".err"}:
                file.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()
            host.note(f"{monitor}: left no data")

    def remove(self) -> None:
        """Removes the working directory everywhere."""

        def remove_on(host: _HostWatch) -> None:
            try:
                self.transports[host.host].remove(self.directory)
            except (HostUnreachable, CommandFailed) as error:
                host.note(f"{self.directory} could not be removed: {error}")

        _on_all(remove_on, self._hosts)

    def _run(
        self,
        host: _HostWatch,
        commands: Callable[[], Commands],
        log: CommandLog,
    ) -> None:
        """The thread of one host."""
        try:
            found, problems = commands()
            for problem in problems:
                host.note(problem)
            if found:
                host.commands = found
                self._launch(host, log)
        except HostUnreachable as error:
            host.note(str(error))
        finally:
            host.running.set()

    def _launch(self, host: _HostWatch, log: CommandLog) -> None:
        started: set[int | None] = set()

        def on_event(event: LaunchEvent) -> None:
            if event.kind == "start":
                started.add(event.number)
                if len(started) == len(host.commands):
                    host.running.set()

        instances = [LaunchedInstance(number, command.argv) for number, (_, command) in enumerate(host.commands)]
        result = launch(
            [LaunchSpec(host.host, self.directory, tuple(instances))],
            self.transports,
            Limits(connect_s=30.0, deadline_s=None, kill_grace_s=KILL_GRACE_S),
            on_event=on_event,
            cancelled=host.stop,
            log=NullLog(),  # it would show the whole wrapper
        )
        for outcome in _outcomes(result):
            name, command = host.commands[outcome.number]
            _record(log, host.host, command, outcome)
            if (problem := self._problem(host.host, name, command, outcome)) is not None:
                host.note(f"{command.name}: {problem}")
        for failure in result.failures.values():
            host.note(str(failure))

    def _problem(self, host: str, monitor: str, command: MonitorCommand, outcome: InstanceOutcome) -> str | None:
        """What was wrong with a monitor's end; None when it watched for as long as it was meant to."""
        if outcome.ended_by == "stopped":
            if outcome.exit_status == KILLED:
                return f"did not end within {KILL_GRACE_S:g} s and was killed; its files may lack their end"
            return None
        if outcome.ended_by == "itself" and outcome.exit_status == 0:
            return None  # it was told to take so many samples and no more
        how = f"ended early with status {outcome.exit_status}" if outcome.ended_by == "itself" else "was lost"
        words = self._last_words(host, monitor, command, outcome.number)
        return how + (f": {words}" if words else "")

    def _last_words(self, host: str, monitor: str, command: MonitorCommand, number: int) -> str:
        folder = monitor_directory(self.directory, monitor)
        files = (f"{folder}/{command.name}.err", f"{self.directory}/stderr.{number}")
        try:
            done = self.transports[host].run(Command(("tail", "-q", "-n", "2", *files), timeout_s=20))
        except HostUnreachable:
            return ""
        lines = done.stdout.decode(errors="replace").splitlines()
        return " / ".join(line.strip() for line in lines if line.strip())


def _outcomes(result: LaunchResult) -> list[InstanceOutcome]:
    return [instance for outcome in result.outcomes.values() for instance in outcome.instances]


def _record(log: CommandLog, host: str, command: MonitorCommand, outcome: InstanceOutcome) -> None:
    if outcome.started_s is None or outcome.ended_s is None:
        return
    how = (
        str(outcome.exit_status)
        if outcome.ended_by == "itself"
        else f"{outcome.exit_status}, ended by: {outcome.ended_by}"
    )
    log.record(host, Command(command.words).shown(), outcome.started_s, outcome.ended_s - outcome.started_s, how)


def _on_all(do: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Does it for all at once; the answers in the items' order."""
    if len(items) < 2:
        return [do(item) for item in items]
    with ThreadPoolExecutor(min(HOSTS_AT_ONCE, len(items)), thread_name_prefix="monitors") as pool:
        return list(pool.map(do, items))
