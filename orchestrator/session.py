"""One call of the program: hosts, cluster, preflight, the run, and putting away what was made."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from archive.files import ArchiveError
from archive.writer import ArchiveWriter
from benchmarks.model import Benchmark, Requirement, RunnableBenchmark, VolumeNeed
from benchmarks.registry import all_benchmarks
from cluster.ceph import Ceph, CephError
from cluster.command_log import CommandLog, NullLog
from cluster.deploy import ClusterSpec, DeployedCluster, DeployError, ThrowawayCluster, check_deploy, reap_leftovers
from cluster.hosts import Host
from cluster.ledger import Ledger
from cluster.status_feed import StatusFeed
from cluster.transports.base import CommandFailed, HostUnreachable, Transport
from cluster.transports.clock import measure_clock_offset
from cluster.transports.local import LocalTransport
from cluster.transports.ssh import SshOptions, connect_all
from orchestrator.facts import ceph_facts, host_facts
from orchestrator.model import RunPoint, TestPlan
from orchestrator.monitoring import Monitoring, check_profiles, find_watches
from orchestrator.preflight import HOSTS_AT_ONCE, Finding, as_runnable, check_clients, check_plan, gather
from orchestrator.progress import Progress
from orchestrator.runner import ClusterGone, Counts, Health, Interrupted, Runner, health_facts, is_complete
from orchestrator.storage import Storage, throwaway_capacity
from orchestrator.version import VERSION

DEFAULT_CONF = Path("/etc/ceph/ceph.conf")
UNHEALTHY = "HEALTH_ERR"


class PreflightFailed(Exception):
    """Something would stop the run; the findings are all there is."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        count = sum(not finding.warning for finding in findings)
        super().__init__(f"{count} problem{'' if count == 1 else 's'}")
        self.findings = tuple(findings)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the command line chose."""

    conf: Path | None = None
    keep_cluster: bool = False
    keep_volumes: bool = False
    allow_unhealthy: bool = False
    accept_new_host_keys: bool = False


@dataclass(slots=True)
class Session:
    """Puts the parts together for one plan. `archive` is None for --check, which keeps nothing."""

    plan: TestPlan
    points: Sequence[RunPoint]
    choices: Choices
    progress: Progress
    cancelled: threading.Event
    archive: ArchiveWriter | None = None
    _transports: dict[str, Transport] = field(default_factory=dict)
    _versions: dict[str, dict[str, str]] = field(default_factory=dict)
    _facts: dict[str, Any] = field(default_factory=dict)

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(host.name for host in self.plan.cluster.clients)

    @property
    def benchmarks(self) -> Mapping[str, Benchmark]:
        return all_benchmarks()

    @property
    def runnable(self) -> Mapping[str, RunnableBenchmark]:
        return {name: as_runnable(found) for name, found in self.benchmarks.items() if found.unavailable is None}

    @property
    def use_existing(self) -> bool:
        return self.plan.cluster.settings.flag("use_existing")

    @property
    def conf(self) -> Path:
        """The existing cluster's configuration file: -c, else the plan's, else Ceph's own place."""
        if self.choices.conf is not None:
            return self.choices.conf.absolute()
        named = self.plan.cluster.settings.optional_text("conf_file")
        return Path(named).absolute() if named else DEFAULT_CONF

    @property
    def tmp_dir(self) -> Path:
        named = self.plan.cluster.settings.optional_text("tmp_dir")
        return Path(named).absolute() if named else Path(tempfile.gettempdir())

    def working_directory(self, archive: Path | None) -> str:
        """This run's folder on every host: the same for the same archive, so that a later call finds what a killed one
        left there."""
        place = f"{os.uname().nodename}\0{archive.absolute() if archive else ''}\0{self.plan.digest}"
        return str(self.tmp_dir / f"cbt-{hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}")

    # ---- preflight ----

    def check(self) -> list[Finding]:
        """Everything that would stop the run, and what should be known; creates nothing."""
        try:
            return self._preflight(self._connect())
        finally:
            self._disconnect()

    def _preflight(self, unreachable: Sequence[Finding]) -> list[Finding]:
        findings = gather(
            lambda: unreachable,
            lambda: check_plan(self.plan, self.points, self.benchmarks, self.clients),
            lambda: check_profiles(self.plan),
        )
        if any(not finding.warning for finding in findings):
            return findings  # hosts that cannot be reached need not be asked
        return gather(lambda: findings, self._check_clients, self._check_monitors, self._check_cluster)

    def _check_clients(self) -> list[Finding]:
        requirements: list[Requirement] = []
        instances = 1
        for point in self.points:
            benchmark = self.runnable[point.benchmark]
            requirements += benchmark.requirements(point.settings)
            need = benchmark.need(point.settings, self.clients)
            instances = max(instances, len(benchmark.instances(point.settings, need)))
        findings, self._versions = check_clients(
            self._transports,
            self.clients,
            tuple(dict.fromkeys(requirements)),
            str(self.tmp_dir),
            instances,
            str(self.conf) if self.use_existing else None,
        )
        return findings

    def _check_monitors(self) -> list[Finding]:
        watches, findings = find_watches(self.plan, self._transports)
        pid_dir = self.plan.cluster.settings.optional_text("pid_dir")
        # A throwaway cluster's pid files are not there yet.
        needs_pid_dir = self.use_existing or pid_dir is not None
        return findings + self._monitoring(pid_dir).check(processes=needs_pid_dir) if watches else findings

    def _monitoring(self, pid_dir: str | None) -> Monitoring:
        watches, _ = find_watches(self.plan, self._transports)
        return Monitoring(watches, self._transports, pid_dir, self._log(), self.cancelled)

    def _check_cluster(self) -> list[Finding]:
        if not self.use_existing:
            deploy = [Finding("throwaway cluster", text) for text in check_deploy(self._spec(), self._head)]
            return deploy + self._check_throwaway_capacity()
        ceph = self._ceph(str(self.conf))
        try:
            status = ceph.status()
        except CephError as error:
            return [Finding("ceph", str(error))]
        except HostUnreachable as error:
            return [Finding(f"host {self._head.host}", str(error))]
        findings = []
        checks = "; ".join(f"{name}: {text}" for name, text in status.checks.items())
        if status.health == UNHEALTHY and not self.choices.allow_unhealthy:
            findings.append(
                Finding("ceph health", f"{UNHEALTHY}: {checks}; mend the cluster, or give --allow-unhealthy")
            )
        elif status.checks:
            findings.append(Finding("ceph health", f"{status.health}: {checks}", warning=True))
        if work := status.background_work():
            findings.append(Finding("ceph", f"the cluster is busy with itself: {', '.join(work)}", warning=True))
        return findings + self._storage(ceph, str(self.conf), self.working_directory(None)).check(
            self._needs(), self._ceph_clients(), together=not self.plan.cluster.settings.flag("rebuild_every_test")
        )

    def _needs(self) -> tuple[VolumeNeed, ...]:
        """Every different need for volumes, in the plan's order."""
        needs = (self.runnable[point.benchmark].need(point.settings, self.clients) for point in self.points)
        return tuple(dict.fromkeys(needs))

    def _ceph_clients(self) -> tuple[tuple[str, str], ...]:
        """The Ceph clients that the load comes from, each with the pools it uses."""
        return tuple(
            dict.fromkeys(
                (name, self.runnable[point.benchmark].need(point.settings, self.clients).pool)
                for point in self.points
                if (name := point.settings.optional_text("clientname")) is not None
            )
        )

    def _check_throwaway_capacity(self) -> list[Finding]:
        spec, cluster = self._spec(), self.plan.cluster
        if spec.devices:
            return []  # their size is not known here
        return throwaway_capacity(
            self._needs(),
            cluster.pool_profiles,
            cluster.erasure_profiles,
            spec.osd_count,
            spec.osd_size_bytes,
            together=not cluster.settings.flag("rebuild_every_test"),
        )

    # ---- the run ----

    def run(self) -> Counts:
        """Preflight, then every point that is missing. Raises PreflightFailed, DeployError, CephError, HostUnreachable,
        ClusterGone, Interrupted, ArchiveError."""
        archive = self._archive()
        with ExitStack() as stack:
            unreachable = self._connect()
            stack.callback(self._disconnect)
            findings = self._preflight(unreachable)
            for finding in findings:
                archive.log.note(str(finding))
            if any(not finding.warning for finding in findings):
                raise PreflightFailed(findings)
            for finding in findings:
                self.progress.say(str(finding))
            directory = self.working_directory(archive.root)
            self._remove_directory(directory)
            stack.callback(self._remove_directory, directory)
            if self.use_existing:
                return self._run_on(str(self.conf), directory, self.points)
            return self._run_on_throwaway(directory)

    def _run_on_throwaway(self, directory: str) -> Counts:
        """All points on one cluster, or with rebuild_every_test each combination on a cluster of its own."""
        groups: dict[object, list[RunPoint]] = {}
        rebuild = self.plan.cluster.settings.flag("rebuild_every_test")
        for point in self.points:
            groups.setdefault((point.iteration, point.combination_id) if rebuild else None, []).append(point)
        counts = Counts()
        for group in groups.values():
            if all(is_complete(self._archive(), point) for point in group):
                continue
            with self._throwaway() as cluster:
                counts = self._run_on(str(cluster.conf), directory, group, str(cluster.run_dir))
        return self._counted(counts)

    def _counted(self, last: Counts) -> Counts:
        """How all points of the plan stand, from the archive: each runner only knows its own."""
        counts = Counts(taken_over=last.taken_over)
        for point in self.points:
            manifest = self._archive().manifest(point.folder)
            counts.add(manifest.status if manifest is not None else "failed")
        return counts

    def _run_on(
        self, conf: str, directory: str, points: Sequence[RunPoint], daemons_pid_dir: str | None = None
    ) -> Counts:
        archive = self._archive()
        ceph = self._ceph(conf)
        storage = self._storage(ceph, conf, directory)
        with StatusFeed(ceph, log=archive.log) as feed, self._balancer_off(ceph):
            fsid = ceph.fsid()
            self._check_same_cluster(fsid)
            self._record(ceph, conf, fsid)
            self._idle()
            runner = Runner(
                points=self.points,
                iterations=self.plan.cluster.settings.integer("iterations"),
                benchmarks=self.runnable,
                clients=self.clients,
                transports=self._transports,
                storage=storage,
                health=Health(lambda: _ask_health(feed)),
                archive=archive,
                progress=self.progress,
                cancelled=self.cancelled,
                directory=directory,
                ceph_conf=conf,
                cluster_fsid=fsid,
                versions=self._versions,
                selected=frozenset(point.id for point in points),
                rebuild_every_test=self.plan.cluster.settings.flag("rebuild_every_test"),
                monitoring=self._monitoring(self.plan.cluster.settings.optional_text("pid_dir") or daemons_pid_dir),
                clock_offsets_s={
                    name: float(facts.get("clock_offset_s", 0.0)) for name, facts in self._facts["hosts"].items()
                },
                on_host_lost=self.plan.cluster.settings.text("on_host_lost"),
                host_lost_timeout_s=float(self.plan.cluster.settings.integer("host_lost_timeout")),
                health_wait_s=float(self.plan.cluster.settings.integer("health_wait")),
            )
            try:
                counts = runner.run()
            finally:
                self._facts["ended_unix_s"] = time.time()
                archive.write_session(self._facts)
            if not self.choices.keep_volumes and self.use_existing:
                storage.remove()
            return counts

    @contextmanager
    def _throwaway(self) -> Iterator[DeployedCluster]:
        cluster = ThrowawayCluster(self._head)
        try:
            deployed = cluster.deploy(self._spec(), self._waiting)
            for notice in deployed.notices:
                self.progress.say(notice)
            self.progress.say(
                f"throwaway cluster: {self._spec().osd_count} OSDs ({self._spec().objectstore}) "
                f"healthy after {deployed.deploy_s:.1f} s"
            )
            yield deployed
            if self.choices.keep_cluster:
                self.progress.say(cluster.keep())
        finally:
            for line in cluster.stop_and_remove():
                self.progress.say(line)

    def clean_up(self) -> None:
        """Removes what earlier calls with this archive left on an existing cluster. Raises StorageError, CephError."""
        if unreachable := self._connect():
            raise PreflightFailed(unreachable)
        try:
            directory = self.working_directory(self._archive().root)
            self._remove_directory(directory)
            if self.use_existing:
                ceph = self._ceph(str(self.conf))
                if self._archive().balancer_is_off:
                    self._balancer_on(ceph)
                self._storage(ceph, str(self.conf), directory).remove()
                self.progress.say("what this archive's runs had made on the cluster is removed")
            for line in reap_leftovers(self.tmp_dir):
                self.progress.say(line)
        finally:
            self._disconnect()

    def _spec(self) -> ClusterSpec:
        settings = self.plan.cluster.settings
        objectstore = settings.text("osd_objectstore")
        devices = settings.get("osd_devices")
        hosts = max(len(self.plan.cluster.daemons.get("osds", {})), 1)
        return ClusterSpec(
            base=self.tmp_dir,
            osd_count=settings.integer("osds_per_node") * hosts,
            objectstore="memstore" if objectstore == "memstore" else "bluestore",
            osd_size_bytes=settings.integer("osd_size"),
            devices=tuple(str(device) for device in devices) if isinstance(devices, tuple) else (),
            commands=self.plan.cluster.commands,
        )

    def _check_same_cluster(self, fsid: str) -> None:
        """One archive holds one cluster. Throwaway clusters are alike but never the same, which the report says.

        Raises ArchiveError.
        """
        archive = self._archive()
        whole = (archive.manifest(point.folder) for point in self.points if is_complete(archive, point))
        seen = {manifest.cluster_fsid for manifest in whole if manifest is not None}
        others = sorted(other for other in seen if other is not None and other != fsid)
        if not others:
            return
        if self.use_existing:
            raise ArchiveError(
                f"{archive.root}: its points were measured on cluster {', '.join(others)}, but {self.conf} leads to "
                f"cluster {fsid}; give another archive"
            )
        self.progress.say(
            "the points that are there were measured on an earlier throwaway cluster: made alike, but not the same one"
        )

    @contextmanager
    def _balancer_off(self, ceph: Ceph) -> Iterator[None]:
        """Switches the balancer off for the run if the plan asks for it, and on again if it was on."""
        left_off = self._archive().balancer_is_off
        if not self.plan.cluster.settings.flag("disable_balancer"):
            yield
            return
        if not ceph.balancer_status().active and not left_off:
            yield
            return
        self._archive().note_balancer_off()
        ceph.balancer_off()
        try:
            yield
        finally:
            self._balancer_on(ceph)

    def _balancer_on(self, ceph: Ceph) -> None:
        try:
            ceph.balancer_on()
        except (CephError, HostUnreachable) as error:
            self.progress.say(f"the balancer could not be switched on again, run `ceph balancer on`: {error}")
        else:
            self._archive().note_balancer_on()

    def _idle(self) -> None:
        seconds = self.plan.cluster.settings.integer("idle_duration")
        if seconds:
            self._waiting(f"idle for {seconds} s, as the plan says")
            if self.cancelled.wait(seconds):
                raise Interrupted

    def _record(self, ceph: Ceph, conf: str, fsid: str) -> None:
        """Writes what is needed to trust the results later into the archive, before the first point."""
        self._waiting("recording the cluster's configuration")
        hosts = self._host_facts()
        for name, versions in self._versions.items():
            hosts[name]["programs"] = versions
        self._facts = {
            "schema": 1,
            "program_version": VERSION,
            "started_unix_s": time.time(),
            "plan": str(self.plan.source),
            "points_planned": len(self.points),
            "conf": conf,
            "hosts": hosts,
            "ceph": {"fsid": fsid, **ceph_facts(ceph)},
        }
        self._archive().write_session(self._facts)

    def _host_facts(self) -> dict[str, dict[str, Any]]:
        """Each host's facts and how far its clock is from ours, all hosts at once."""

        def ask(name: str) -> dict[str, Any]:
            transport = self._transports[name]
            facts = host_facts(transport)
            if not isinstance(transport, LocalTransport):
                clock = measure_clock_offset(transport)
                facts |= {"clock_offset_s": clock.offset_s, "clock_uncertainty_s": clock.uncertainty_s}
            return facts

        with ThreadPoolExecutor(HOSTS_AT_ONCE, thread_name_prefix="facts") as pool:
            return dict(zip(self._transports, pool.map(ask, self._transports), strict=True))

    def _record_volumes(self, facts: Mapping[str, Any]) -> None:
        """Pools, profiles and librbd's cache as they are for the points that follow."""
        self._facts.setdefault("volumes", []).append({"unix_s": time.time(), **facts})
        self._archive().write_session(self._facts)

    # ---- parts ----

    def _archive(self) -> ArchiveWriter:
        if self.archive is None:
            raise TypeError("a run needs an archive")
        return self.archive

    @property
    def _head(self) -> Transport:
        head = self.plan.cluster.head
        return self._transports[head.name if head is not None and head.name in self._transports else self.clients[0]]

    def _log(self) -> CommandLog:
        return self.archive.log if self.archive is not None else NullLog()

    def _connect(self) -> list[Finding]:
        """A transport for every host that has a part in the run; why a host cannot be reached."""
        user = self.plan.cluster.settings.optional_text("user")
        hosts = {host.name: host if host.user else replace(host, user=user) for host in self._hosts()}
        self._transports = {name: LocalTransport(name, self._log()) for name, host in hosts.items() if host.is_local()}
        remote = [host for host in hosts.values() if not host.is_local()]
        options = SshOptions(accept_new_host_keys=self.choices.accept_new_host_keys)
        findings = []
        needed = {*self.clients, self.plan.cluster.head.name if self.plan.cluster.head else None}
        for host, reached in connect_all(remote, options, self._log(), self.progress.say).items():
            if isinstance(reached, HostUnreachable):
                text = str(reached).removeprefix(f"{host.name}: ")
                # A host that is only watched by monitors is not worth a run.
                findings.append(Finding(f"host {host.name}", text, warning=host.name not in needed))
            else:
                self._transports[host.name] = reached
        return findings

    def _hosts(self) -> Iterator[Host]:
        """Clients and head, and the daemons' hosts where monitors watch them."""
        cluster = self.plan.cluster
        yield from cluster.clients
        if cluster.head is not None and self.use_existing:
            yield cluster.head
        if cluster.settings.flag("use_existing") and self.plan.monitoring_profiles:
            yield from (host for hosts in cluster.daemons.values() for host in hosts)

    def _disconnect(self) -> None:
        for transport in self._transports.values():
            transport.close()

    def _ceph(self, conf: str) -> Ceph:
        return Ceph(self._head, conf, self.plan.cluster.commands)

    def _storage(self, ceph: Ceph, conf: str, directory: str) -> Storage:
        return Storage(
            ceph=ceph,
            ledger=Ledger(self.archive.ledger_path if self.archive is not None else Path(os.devnull)),
            pool_profiles=self.plan.cluster.pool_profiles,
            erasure_profiles=self.plan.cluster.erasure_profiles,
            transports=self._transports,
            directory=directory,
            ceph_conf=conf,
            waiting=self._waiting,
            notice=self.progress.say,
            cancelled=self.cancelled,
            log=self._log(),
            on_ready=self._record_volumes,
        )

    def _waiting(self, text: str) -> None:
        if self.cancelled.is_set():
            raise Interrupted
        self.progress.waiting(text)

    def _remove_directory(self, directory: str) -> None:
        for transport in self._transports.values():
            with suppress(HostUnreachable, CommandFailed):
                transport.remove(directory)


def _ask_health(feed: StatusFeed) -> Mapping[str, Any]:
    try:
        return health_facts(feed.status())
    except (CephError, HostUnreachable) as error:
        raise ClusterGone(f"the Ceph cluster no longer answers: {error}") from None


__all__ = ["Choices", "DeployError", "PreflightFailed", "Session"]
