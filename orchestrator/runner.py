"""The one loop: every point of the plan, one after the other, each launched on all its hosts at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from archive.files import space_checked
from archive.layout import idle_folder_name, json_output_name, output_name
from archive.manifest import PointManifest
from archive.writer import ArchiveWriter, StagedPoint
from benchmarks.model import Instance, InstanceCommand, LaunchContext, RunnableBenchmark, VolumeNeed
from benchmarks.options import Settings
from cluster.ceph import ClusterStatus
from cluster.command import HIDDEN, Command, Secret, quote_command
from cluster.launcher import (
    LaunchedInstance,
    LaunchResult,
    LaunchSpec,
    Limits,
    gate_command,
    launch,
)
from cluster.transports.base import CommandFailed, HostUnreachable, Transport
from orchestrator.causes import with_causes
from orchestrator.judge import Judged, judge_instance, judge_point
from orchestrator.model import RunPoint
from orchestrator.monitoring import Monitoring, Watching
from orchestrator.progress import Progress, point_title
from orchestrator.storage import SLOWEST_BYTES_PER_S, Storage, StorageError

CONNECT_LIMIT_S = 90.0
"""An exclusive lock left by a killed client can hold up an image for about 30 s (FACTS), so this is well above."""

GRACE_S = 30.0
"""How long past ramp and time an instance may take to finish before it is ended."""

KILL_GRACE_S = 5.0
SETTLE_LIMIT_S = 120.0
"""How long the cluster may take to settle after pools and images were made."""

HOST_POLL_S = 2.0
HOST_ANSWER_S = 10.0
SCRIPT_LIMIT_S = 3600.0
FETCHES_AT_ONCE = 16
OVERHEAD_S = 1.0
"""What launching and collecting add to a point, for the estimate of the time left only."""


class Interrupted(Exception):
    """The user asked to stop (Ctrl-C, SIGTERM)."""


class ClusterGone(Exception):
    """The Ceph cluster no longer answers, so no further point can run; one line."""


class HostGone(Exception):
    """A client host was lost and did not return; one line."""


class Health:
    """The cluster's health by the cheapest way there is; what was seen after one point is the "before" of the next."""

    def __init__(self, ask: Callable[[], Mapping[str, Any]]) -> None:
        self._ask = ask
        self._last: Mapping[str, Any] | None = None

    def before(self) -> Mapping[str, Any]:
        """Raises ClusterGone."""
        return self._last if self._last is not None else self.now()

    def now(self) -> Mapping[str, Any]:
        """Raises ClusterGone."""
        self._last = self._ask()
        return self._last

    def forget(self) -> None:
        """Something was done to the cluster since."""
        self._last = None


@dataclass(slots=True)
class Counts:
    """How the points of this plan stand."""

    complete: int = 0
    partial: int = 0
    failed: int = 0
    taken_over: int = 0

    def add(self, status: str) -> None:
        setattr(self, status, getattr(self, status) + 1)

    @property
    def whole(self) -> bool:
        return not self.partial and not self.failed


@dataclass(slots=True)
class Runner:
    """Everything a run has at hand. `directory` is this run's working folder on every host."""

    points: Sequence[RunPoint]
    iterations: int
    benchmarks: Mapping[str, RunnableBenchmark]
    clients: Sequence[str]
    transports: Mapping[str, Transport]
    storage: Storage
    health: Health
    archive: ArchiveWriter
    progress: Progress
    cancelled: threading.Event
    directory: str
    ceph_conf: str | None
    cluster_fsid: str | None
    versions: Mapping[str, Mapping[str, str]]
    selected: frozenset[str]
    """The ids of the points this runner may run; the others are another's (a cluster rebuilt for every test)."""
    rebuild_every_test: bool = False
    health_wait_s: float = 5.0
    clock_offsets_s: Mapping[str, float] = field(default_factory=dict)
    """How far each host's clock is ahead of the controller's."""
    on_host_lost: str = "stop"
    host_lost_timeout_s: float = 300.0
    counts: Counts = field(default_factory=Counts)
    monitoring: Monitoring = field(default_factory=Monitoring)
    _unready: dict[VolumeNeed, str] = field(default_factory=dict)
    _watched_idle: set[PurePosixPath] = field(default_factory=set)
    _combination: tuple[int, str] | None = None
    _lost: dict[str, str] = field(default_factory=dict)
    _failing: dict[str, str] = field(default_factory=dict)

    def run(self) -> Counts:
        """Runs what is missing. Raises Interrupted, ClusterGone, ArchiveError; what finished is archived."""
        for index, point in enumerate(self.points, 1):
            if is_complete(self.archive, point) and not self._precondition_again(point):
                self.counts.add("complete")
                self.counts.taken_over += 1
                continue
            if point.id not in self.selected:
                continue
            self._check_cancelled()
            self._run_point(index, point)
            self.archive.check()
        return self.counts

    def _precondition_again(self, point: RunPoint) -> bool:
        """Whether a preconditioning that is archived must be repeated: points that rest on it are still to run, and
        the volumes were made or filled anew since."""
        if point.reported or point.id not in self.selected:
            return False
        group = (point.iteration, point.benchmark, point.combination_id)
        waiting = (
            other
            for other in self.points
            if (other.iteration, other.benchmark, other.combination_id) == group
            and other.reported
            and other.id in self.selected
            and not is_complete(self.archive, other)
        )
        if next(waiting, None) is None:
            return False
        self._check_cancelled()
        benchmark = self.benchmarks[point.benchmark]
        unready = self._prepare(point, benchmark.need(point.settings, self.clients), benchmark)
        return unready is None and self.storage.made_anew

    def _run_point(self, index: int, point: RunPoint) -> None:
        title = point_title(point, self.iterations)
        benchmark = self.benchmarks[point.benchmark]
        this_s = self._expected_s(point)
        later_s = sum(
            self._expected_s(later)
            for later in self.points[index:]
            if later.id in self.selected and not is_complete(self.archive, later)
        )
        need = benchmark.need(point.settings, self.clients)
        reason = self._prepare(point, need, benchmark)
        self._check_cancelled()
        if reason is None:
            self._watch_idle(point)
        self.progress.point_begins(index, len(self.points), title, this_s, later_s)
        if reason is None:
            reason = self._pre_workload_script(point)
        manifest = self._failed(point, reason) if reason else self._measure(point, benchmark)
        self.counts.add(manifest.status)
        outcome = manifest.status + (f": {manifest.reason}" if manifest.reason else "")
        self.progress.point_ends(index, len(self.points), title, outcome)
        for note in manifest.notes:
            self.progress.say(f"      note: {note}")
        self.archive.log.note(f"point {point.id} {title}: {outcome}")
        if manifest.status != "complete" or manifest.health_after is None:
            self._await_lost_hosts()
            self._still_there()

    def _expected_s(self, point: RunPoint) -> float:
        return expected_s(self.benchmarks[point.benchmark], point)

    def _prepare(self, point: RunPoint, need: VolumeNeed, benchmark: RunnableBenchmark) -> str | None:
        """Gets the volumes ready; the reason why they cannot be, None when they are."""
        combination = (point.iteration, point.combination_id)
        if self.rebuild_every_test and self._combination not in (None, combination):
            self.storage.remove()
            self.health.forget()
        self._combination = combination
        if need in self._unready:
            return self._unready[need]
        try:
            before = self.health.before()
            if self.storage.make_ready(need, point.settings, benchmark):
                self._settle(before)
            if benchmark.empties_volumes(point.settings):
                self.storage.spoil()
        except StorageError as error:
            self._unready[need] = f"its volumes could not be made ready: {error}"
            return self._unready[need]
        return None

    def _settle(self, before: Mapping[str, Any]) -> None:
        """Waits until what making the volumes set off is over: the cluster is as healthy as it was before that.

        After the limit the run goes on; what the cluster is at then stands in every point.
        """
        deadline = time.monotonic() + SETTLE_LIMIT_S
        pause_s = 0.2
        while unsettled := _worse(before, self.health.now()):
            if time.monotonic() > deadline:
                self.progress.say(f"the cluster has not settled in {SETTLE_LIMIT_S:g} s: {unsettled}; going on")
                return
            self.progress.waiting(f"waiting for the cluster to settle: {unsettled}")
            if self.cancelled.wait(pause_s):
                raise Interrupted
            pause_s = min(2 * pause_s, max(self.health_wait_s, 0.2))

    def _pre_workload_script(self, point: RunPoint) -> str | None:
        words = point.settings.get("pre_workload_script")
        if not words:
            return None
        argv = tuple(str(word) for word in words) if isinstance(words, tuple) else (str(words),)
        directory = f"{point_directory(self.directory, point)}-script"
        hosts = [host for host in dict.fromkeys(self.clients) if host not in self._lost]
        # Through the launcher, so that it ends when the run is stopped or killed.
        result = launch(
            [LaunchSpec(host, directory, (LaunchedInstance(0, argv),)) for host in hosts],
            self.transports,
            Limits(connect_s=CONNECT_LIMIT_S, deadline_s=SCRIPT_LIMIT_S, kill_grace_s=KILL_GRACE_S),
            cancelled=self.cancelled,
            log=self.archive.log,
        )
        self._check_cancelled()
        self.health.forget()
        for host in hosts:
            if (problem := self._script_problem(result, host, directory)) is not None:
                return f"pre_workload_script failed on {problem}"
            self.transports[host].remove(directory)
        return None

    def _script_problem(self, result: LaunchResult, host: str, directory: str) -> str | None:
        if (failure := result.failures.get(host)) is not None:
            return str(failure)
        [ended] = result.outcomes[host].instances
        if ended.exit_status == 0:
            return None
        how = f"status {ended.exit_status}" if ended.ended_by == "itself" else f"ended by the {ended.ended_by}"
        tail = self.transports[host].run(Command(("tail", "-n", "2", f"{directory}/stderr.0"), timeout_s=20))
        words = " / ".join(tail.stdout.decode(errors="replace").split("\n")).strip(" /")
        self.transports[host].remove(directory)
        return f"{host}: {how}" + (f": {words}" if words else "")

    def _watch_idle(self, point: RunPoint) -> None:
        """Before the first point of a combination the monitors watch the idle cluster. Raises Interrupted."""
        seconds = point.combination.get("idle_monitor_sleep")
        folder = PurePosixPath(*point.folder.parts[:2])
        if (
            not self.monitoring.active
            or not isinstance(seconds, int)
            or seconds <= 0
            or not _monitored(point.combination)
        ):
            return
        if folder in self._watched_idle or self.archive.idle_was_watched(folder):
            return
        self._watched_idle.add(folder)
        self.health.forget()
        self.progress.waiting(
            f"watching the idle cluster for {seconds} s before {point.benchmark} (idle_monitor_sleep)"
        )
        staged = self.archive.stage(folder)
        try:
            with self.monitoring.watching(f"{self.directory}/cbt-idle-monitors") as watching:
                if self.cancelled.wait(seconds):
                    raise Interrupted
                watching.collect(staged.path, lambda monitor, host: f"{idle_folder_name(host)}/{monitor}")
            self.archive.add_idle(staged)
        finally:
            self.archive.discard(staged)
        for note in watching.notes:
            self.archive.log.note(f"idle cluster: {note}")
            self.progress.say(f"      note: {note}")

    def _measure(self, point: RunPoint, benchmark: RunnableBenchmark) -> PointManifest:
        """Launches the point, with the monitors beside it."""
        monitoring = self.monitoring if _monitored(point.settings) else Monitoring()
        with monitoring.watching(f"{point_directory(self.directory, point)}-monitors") as watching:
            self._check_cancelled()
            return self._measure_watched(point, benchmark, watching)

    def _measure_watched(self, point: RunPoint, benchmark: RunnableBenchmark, watching: Watching) -> PointManifest:
        need = self.storage.resolved
        instances = benchmark.instances(point.settings, need)
        directory = point_directory(self.directory, point)
        commands = instance_commands(benchmark, instances, point, directory, self.ceph_conf)
        health_before = self.health.before()
        started_s = time.time()
        result = launch(
            launch_specs(benchmark, [i for i in instances if i.host not in self._lost], commands, directory),
            self.transports,
            self._limits(point, benchmark),
            cancelled=self.cancelled,
            log=self.archive.log,
        )
        ended_s = time.time()
        watching.stop()
        staged = self.archive.stage(point.folder)
        try:
            if result.cancelled:
                raise Interrupted
            lost = {**self._lost, **self._collect(result, directory, staged)}
            self._failing = {host: why for host, why in lost.items() if host not in self._lost}
            watching.collect(staged.path)
            for note in watching.notes:
                self.archive.log.note(f"point {point.id}: {note}")
            judged = [
                self._judge(instance, commands[instance], result, lost.get(instance.host), staged, benchmark, point)
                for instance in instances
            ]
            judged = with_causes(judged, self.storage.ceph, self.transports, directory)
            manifest = self._manifest(point, benchmark, judged, started_s, ended_s, health_before, watching.notes)
            self.archive.commit(staged, manifest, _benchmark_config(point))
        finally:
            self.archive.discard(staged)
            self._remove_directories(result, directory)
        return manifest

    def _limits(self, point: RunPoint, benchmark: RunnableBenchmark) -> Limits:
        ramp_s, time_s = benchmark.ramp_and_time_s(point.settings)
        if time_s is not None:
            deadline_s = ramp_s + time_s + GRACE_S
        else:  # it ends when its volume is done, and a volume this slow is not going to be
            deadline_s = ramp_s + GRACE_S + self.storage.resolved.size_bytes / SLOWEST_BYTES_PER_S
        return Limits(connect_s=CONNECT_LIMIT_S, deadline_s=deadline_s, kill_grace_s=KILL_GRACE_S)

    def _collect(self, result: LaunchResult, directory: str, staged: StagedPoint) -> dict[str, str]:
        """Brings every host's files into the staged folder under their archive names; why a host was lost, by host."""

        def collect(host: str) -> str | None:
            failure = result.failures.get(host)
            trouble = str(failure) if failure is not None else None
            if failure is not None and not self._answers(host):
                return trouble
            arriving = staged.path / f".{host}"
            with space_checked(staged.path):
                arriving.mkdir()
                try:
                    self.transports[host].fetch(directory, arriving)
                except (HostUnreachable, CommandFailed) as error:
                    trouble = trouble or str(error)
                for file in sorted(arriving.iterdir()):
                    _keep(file, host, staged.path)
                arriving.rmdir()
            return trouble

        with ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="fetch") as pool:
            troubles = dict(zip(result.hosts, pool.map(collect, result.hosts), strict=True))
        return {host: trouble for host, trouble in troubles.items() if trouble is not None}

    def _judge(
        self,
        instance: Instance,
        command: InstanceCommand,
        result: LaunchResult,
        lost: str | None,
        staged: StagedPoint,
        benchmark: RunnableBenchmark,
        point: RunPoint,
    ) -> Judged:
        known = result.outcomes.get(instance.host)
        outcomes = {outcome.number: outcome for outcome in known.instances} if known is not None else {}
        output = staged.path / output_name(instance.number, instance.host)
        stderr = staged.path / f"stderr.{instance.number}.{instance.host}"
        judged = judge_instance(
            instance,
            quote_command(command.argv, command.env),
            outcomes.get(instance.number),
            lost,
            output.read_bytes() if output.exists() else None,
            stderr.read_text(encoding="utf-8", errors="replace") if stderr.exists() else "",
            benchmark,
            point.settings,
            self.clock_offsets_s.get(instance.host, 0.0),
        )
        if judged.document is not None:
            with space_checked(staged.path):
                (staged.path / json_output_name(instance.number, instance.host)).write_bytes(judged.document)
        return judged

    def _manifest(
        self,
        point: RunPoint,
        benchmark: RunnableBenchmark,
        judged: Sequence[Judged],
        started_s: float,
        ended_s: float,
        health_before: Mapping[str, Any],
        more_notes: Sequence[str],
    ) -> PointManifest:
        verdict = judge_point(judged, point.settings)
        try:
            health_after: Mapping[str, Any] | None = self.health.now()
        except ClusterGone:
            health_after = None
        return replace(
            self._unlaunched(point, benchmark, started_s),
            queue_depth=sum(j.record.numjobs * j.record.iodepth for j in judged),
            status=verdict.status,
            reason=verdict.reason,
            ended_s=ended_s,
            instances_expected=len(judged),
            overlap=verdict.overlap,
            start_skew_s=verdict.start_skew_s,
            instances=tuple(j.record for j in judged),
            health_before=health_before,
            health_after=health_after,
            notes=(*verdict.notes, *_health_notes(health_before, health_after), *more_notes),
        )

    def _unlaunched(self, point: RunPoint, benchmark: RunnableBenchmark, now_s: float) -> PointManifest:
        """The manifest of a point of which nothing has run."""
        ramp_s, time_s = benchmark.ramp_and_time_s(point.settings)
        planned = benchmark.instances(point.settings, benchmark.need(point.settings, self.clients))
        return PointManifest(
            point_id=point.id,
            iteration=point.iteration,
            benchmark=point.benchmark,
            workload=point.workload,
            reported=point.reported,
            settings=_plain(point.settings),
            setting=dict(point.setting),
            queue_depth=sum(instance.queue_depth for instance in planned),
            status="failed",
            reason=None,
            started_s=now_s,
            ended_s=now_s,
            ramp_s=ramp_s,
            time_s=time_s,
            instances_expected=len(planned),
            overlap=None,
            start_skew_s=None,
            instances=(),
            health_before=None,
            health_after=None,
            cluster_fsid=self.cluster_fsid,
            versions=self.versions,
        )

    def _failed(self, point: RunPoint, reason: str) -> PointManifest:
        """Archives a point that could not be launched at all."""
        manifest = replace(self._unlaunched(point, self.benchmarks[point.benchmark], time.time()), reason=reason)
        staged = self.archive.stage(point.folder)
        try:
            self.archive.commit(staged, manifest, _benchmark_config(point))
        finally:
            self.archive.discard(staged)
        return manifest

    def _remove_directories(self, result: LaunchResult, directory: str) -> None:
        for host in result.hosts:
            if host in self._failing:
                continue  # whatever is there goes when the host is back: the run's whole folder is removed at its end
            try:
                self.transports[host].remove(directory)
            except (HostUnreachable, CommandFailed) as error:
                self.archive.log.note(f"{host}: {directory} could not be removed: {error}")

    def _await_lost_hosts(self) -> None:
        """Waits for hosts that were lost during the point just run, as long as the plan says. Raises HostGone."""
        failing, self._failing = self._failing, {}
        deadline = time.monotonic() + self.host_lost_timeout_s
        for host, why in failing.items():
            self.progress.waiting(f"waiting up to {self.host_lost_timeout_s:g} s for {host} to return: {why}")
            while not self._answers(host):
                if self.cancelled.wait(HOST_POLL_S):
                    raise Interrupted
                if time.monotonic() > deadline:
                    self._give_up(host, why)
                    break

    def _answers(self, host: str) -> bool:
        try:
            return self.transports[host].run(Command(("true",), timeout_s=HOST_ANSWER_S)).ok
        except HostUnreachable:
            return False

    def _give_up(self, host: str, why: str) -> None:
        """Goes on without a host, or raises HostGone."""
        self._lost[host] = why
        if self.on_host_lost != "continue":
            raise HostGone(
                f"{why}; it did not return within {self.host_lost_timeout_s:g} s: give the same command again when it "
                "is back, or set cluster.on_host_lost: continue"
            )
        if set(self.clients) <= set(self._lost):
            raise HostGone(f"no client is left: {'; '.join(self._lost.values())}")
        self.progress.say(f"going on without {host} (on_host_lost: continue); its points are partial")

    def _still_there(self) -> None:
        """After a point that did not run whole, or without a word of the cluster: is it there? Raises ClusterGone."""
        self.health.now()

    def _check_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise Interrupted


def _monitored(settings: Settings) -> bool:
    return settings.get("monitor") is not False


def is_complete(archive: ArchiveWriter, point: RunPoint) -> bool:
    """Whether this very point stands whole in the archive."""
    manifest = archive.manifest(point.folder)
    return manifest is not None and manifest.status == "complete" and manifest.point_id == point.id


def expected_s(benchmark: RunnableBenchmark, point: RunPoint) -> float:
    """What a point should take (s); a run that ends by size alone is not foreseen."""
    ramp_s, time_s = benchmark.ramp_and_time_s(point.settings)
    return ramp_s + (time_s or 0.0) + OVERHEAD_S


def point_directory(directory: str, point: RunPoint) -> str:
    """Where a point's instances work on their hosts, below the run's own working folder."""
    return f"{directory}/cbt-{point.id}"


def instance_commands(
    benchmark: RunnableBenchmark,
    instances: Sequence[Instance],
    point: RunPoint,
    directory: str,
    ceph_conf: str | None,
) -> dict[Instance, InstanceCommand]:
    """The exact command of every instance of a point, as --dry-run shows it and the launcher runs it."""
    return {
        instance: benchmark.command(
            instance,
            point.settings,
            LaunchContext(
                directory=directory,
                ceph_conf=ceph_conf,
                gate=gate_command(directory, instance.number) if benchmark.ready_marks(instance) else None,
            ),
        )
        for instance in instances
    }


def launch_specs(
    benchmark: RunnableBenchmark,
    instances: Sequence[Instance],
    commands: Mapping[Instance, InstanceCommand],
    directory: str,
) -> list[LaunchSpec]:
    """One launch a host, hosts in the plan's order."""
    by_host: dict[str, list[LaunchedInstance]] = {}
    for instance in instances:
        command = commands[instance]
        launched = LaunchedInstance(instance.number, command.argv, command.env, benchmark.ready_marks(instance))
        by_host.setdefault(instance.host, []).append(launched)
    return [LaunchSpec(host, directory, tuple(launched)) for host, launched in by_host.items()]


def _keep(file: Path, host: str, into: Path) -> None:
    """Moves one file that came from a host to its archive name; empty by-products are dropped."""
    if file.stat().st_size == 0 and (file.name.startswith("stderr.") or file.name.endswith(".prerun.txt")):
        file.unlink()
        return
    file.rename(into / f"{file.name}.{host}")


def health_facts(status: ClusterStatus) -> dict[str, Any]:
    """What a manifest keeps of the cluster's state."""
    return {
        "health": status.health,
        "checks": dict(status.checks),
        "pgs_by_state": dict(status.pgs_by_state),
        "osds": {"total": status.num_osds, "up": status.num_up_osds, "in": status.num_in_osds},
        "background_work": list(status.background_work()),
    }


def _worse(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What of the cluster's state is worse than it was; None when nothing is."""
    new_checks = {name: text for name, text in now["checks"].items() if name not in before["checks"]}
    if new_checks:
        return "; ".join(f"{name}: {text}" for name, text in new_checks.items())
    unclean, before_unclean = _unclean(now), _unclean(before)
    if sum(unclean.values()) > sum(before_unclean.values()):
        return ", ".join(f"{count} PGs {state}" for state, count in unclean.items())
    return None


def _unclean(health: Mapping[str, Any]) -> dict[str, int]:
    states = health["pgs_by_state"].items()
    return {state: count for state, count in states if not {"active", "clean"} <= set(state.split("+"))}


def _health_notes(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What of the cluster's state puts a point in doubt (METHOD.md, checks)."""
    if after is None:
        return ("the cluster did not answer after this point",)
    notes = []
    for when, seen in (("before", before), ("after", after)):
        if seen and seen.get("health") != "HEALTH_OK":
            checks = "; ".join(f"{name}: {text}" for name, text in dict(seen.get("checks", {})).items())
            notes.append(f"{seen.get('health')} {when} this point" + (f" ({checks})" if checks else ""))
        if seen and seen.get("background_work"):
            notes.append(f"{when} this point the cluster was at work: {', '.join(seen['background_work'])}")
    return tuple(dict.fromkeys(notes))


def _benchmark_config(point: RunPoint) -> Mapping[str, Any]:
    """What benchmark_config.yaml shows, under the key where scripts written for the older tool look."""
    return {"cluster": {"benchmark": point.benchmark, "iteration": point.iteration, **_plain(point.combination)}}


def _plain(value: Any) -> Any:
    """As JSON and YAML hold it, secrets hidden."""
    if isinstance(value, Secret):
        return HIDDEN
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
