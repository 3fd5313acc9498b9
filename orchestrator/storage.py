"""The pools and images a point runs on: made, filled and verified, or only looked up; put away at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from benchmarks.model import LaunchContext, OutputError, RunnableBenchmark, Volume, VolumeNeed
from benchmarks.options import Settings
from cluster.capacity import Demand, capacity_findings, raw_per_byte, throwaway_capacity_problem
from cluster.ceph import Ceph, CephError
from cluster.command import Command
from cluster.command_log import CommandLog
from cluster.launcher import HostOutcome, InstanceOutcome, LaunchedInstance, LaunchSpec, Limits, launch
from cluster.ledger import Ledger, LedgerError
from cluster.pools import check_pools, prepare_pools, remove_created
from cluster.transports.base import CommandFailed, HostUnreachable, Transport
from cluster.volumes import (
    ExistingVolumes,
    PreparedVolume,
    check_images,
    mark_emptied,
    pools_needed,
    prepare_images,
    resolve_existing,
    unwritten_bytes,
    verify_filled,
)
from orchestrator.preflight import Finding

FILL_CONNECT_S = 90.0
SLOWEST_BYTES_PER_S = 1 << 19
"""A volume that fills more slowly than this has stopped for good; sets the deadline of what ends by size alone."""

VERIFY_AT_ONCE = 8


class StorageError(Exception):
    """The volumes cannot be made ready, or put away; one line."""


@dataclass(slots=True)
class Storage:
    """Keeps one need for volumes ready at a time. `ledger` is None for --check, which makes nothing."""

    ceph: Ceph
    ledger: Ledger
    pool_profiles: Mapping[str, Settings]
    erasure_profiles: Mapping[str, Settings]
    transports: Mapping[str, Transport]
    directory: str
    ceph_conf: str
    waiting: Callable[[str], None]
    notice: Callable[[str], None]
    cancelled: threading.Event
    log: CommandLog
    on_ready: Callable[[Mapping[str, Any]], None]
    stale: bool = False
    """A point emptied the volumes that are ready: they are filled again before the next one."""
    _prefill_s: float = 0.0
    _trim_noticed: bool = False
    made_anew: bool = False
    """Whether any volume of the need that is ready was made or filled since this call of the program began."""
    _wanted: VolumeNeed | None = None
    _resolved: VolumeNeed | None = None

    @property
    def resolved(self) -> VolumeNeed:
        """The need that is ready, with the images as they are really called."""
        if self._resolved is None:
            raise TypeError("nothing was made ready yet")
        return self._resolved

    def check(
        self, needs: Sequence[VolumeNeed], clients: Iterable[tuple[str, str]] = (), *, together: bool = True
    ) -> list[Finding]:
        """What would stop `make_ready` for these needs; changes nothing.

        `clients`: name and pool of the Ceph clients that the load comes from. `together`: the images of all needs are
        there at the same time; otherwise each need's are removed before the next.
        """
        findings: dict[str, Finding] = {}
        try:
            findings |= {text: Finding("clientname", text) for text in self._client_problems(clients)}
            for need in needs:
                problems, notices = self._look(need)
                findings |= {text: Finding("volumes", text) for text in problems}
                findings |= {text: Finding("volumes", text, warning=True) for text in notices}
            if all(finding.warning for finding in findings.values()):
                for group in [needs] if together else [[need] for need in needs]:
                    problems, notices = capacity_findings(self._demands(group), self.ceph.space())
                    findings |= {text: Finding("capacity", text) for text in problems}
                    findings |= {text: Finding("capacity", text, warning=True) for text in notices}
        except (CephError, HostUnreachable, LedgerError) as error:
            findings[str(error)] = Finding("volumes", str(error))
        return list(findings.values())

    def _look(self, need: VolumeNeed) -> tuple[Sequence[str], Sequence[str]]:
        if need.existing:
            found = self._existing(need)
            return found.problems, found.notices
        specs = pools_needed(need, self.pool_profiles, self.erasure_profiles)
        return [*check_pools(self.ceph, self.ledger, specs), *check_images(self.ceph, self.ledger, need)], ()

    def _client_problems(self, clients: Iterable[tuple[str, str]]) -> list[str]:
        """Whether the benchmark's own Ceph clients get in: this program asks as another one."""
        pools = self.ceph.pools()
        problems = []
        for name, pool in clients:
            try:
                if pool in pools or name != "admin":
                    self.ceph.ask_as(name, pool if pool in pools else None)
            except CephError as error:
                problems.append(f"the benchmark's Ceph client {name!r} (option clientname) does not get in: {error}")
        return problems

    def _demands(self, needs: Iterable[VolumeNeed]) -> list[Demand]:
        """What the images of these needs will still take; of needs that share an image, the greater."""
        pools = self.ceph.pools()
        demands: dict[tuple[str, str], Demand] = {}
        for need in needs:
            if need.existing:
                continue
            spec = pools_needed(need, self.pool_profiles, self.erasure_profiles)[-1]
            present = pools.get(spec.name)
            factor = raw_per_byte(spec, None if present is None else present.size)
            sizes = unwritten_bytes(self.ceph, need)
            for volume, size_bytes in zip(need.volumes, sizes, strict=True):
                _keep_greater(demands, volume, Demand(spec.name, size_bytes, factor))
        return list(demands.values())

    def spoil(self) -> None:
        """To be called before a point that discards data (trim): what is ready now counts as full no longer.

        Raises StorageError.
        """
        need = self.resolved
        if need.existing:
            if not self._trim_noticed:
                self.notice("reads after this trim are of unwritten data: existing images are not filled again")
            self._trim_noticed = True
            return
        try:
            mark_emptied(self.ceph, self.ledger, need.volumes)
        except (CephError, LedgerError, HostUnreachable) as error:
            raise StorageError(str(error)) from None
        self.stale = True

    def make_ready(self, need: VolumeNeed, settings: Settings, benchmark: RunnableBenchmark) -> bool:
        """Makes, fills and verifies what the need names; False when it was ready already. Raises StorageError."""
        if need == self._wanted and not self.stale:
            return False
        self._wanted = self._resolved = None
        self._prefill_s = 0.0
        self.made_anew = False
        try:
            self._resolved = self._look_up(need) if need.existing else self._make(need, settings, benchmark)
            self.on_ready({**self._facts_of(self._resolved, settings), "prefill_s": self._prefill_s})
        except (CephError, LedgerError, CommandFailed, HostUnreachable) as error:
            raise StorageError(str(error)) from None
        self._wanted = need
        self.stale = False
        return True

    def remove(self) -> None:
        """Removes the pools and images this run made, and nothing else. Raises StorageError."""
        self._wanted = self._resolved = None
        try:
            for line in remove_created(self.ceph, self.ledger, self.waiting):
                self.notice(line)
        except (CephError, LedgerError, HostUnreachable) as error:
            raise StorageError(f"what this run made could not be removed: {error}") from None

    def _look_up(self, need: VolumeNeed) -> VolumeNeed:
        found = self._existing(need)
        if found.problems:
            raise StorageError("; ".join(found.problems))
        for line in found.notices:
            self.notice(line)
        return found.need

    def _existing(self, need: VolumeNeed) -> ExistingVolumes:
        return resolve_existing(self.ceph, need, self._own_names({volume.host for volume in need.volumes}))

    def _own_names(self, hosts: Iterable[str]) -> Mapping[str, str]:
        """What each host calls itself: images may carry that name."""
        names = {}
        for host in hosts:
            done = self.transports[host].run(Command(("hostname", "-f"), timeout_s=20))
            if done.ok:
                names[host] = done.stdout.decode(errors="replace").strip()
        return names

    def _make(self, need: VolumeNeed, settings: Settings, benchmark: RunnableBenchmark) -> VolumeNeed:
        specs = pools_needed(need, self.pool_profiles, self.erasure_profiles)
        prepare_pools(self.ceph, self.ledger, specs, self.waiting, autoscaler_limit_s=need.wait_pgautoscaler_s)
        prepared = prepare_images(self.ceph, self.ledger, need, self.waiting)
        self._prefill(need, prepared, settings, benchmark)
        return need

    def _prefill(
        self, need: VolumeNeed, prepared: Sequence[PreparedVolume], settings: Settings, benchmark: RunnableBenchmark
    ) -> None:
        """Writes the whole of every volume that is not known to be full, all at once, and verifies it."""
        empty = [found.volume for found in prepared if not found.filled]
        self.made_anew = bool(empty)
        directory = f"{self.directory}/cbt-prefill"
        context = LaunchContext(directory, self.ceph_conf, gate=None)
        by_host: dict[str, list[LaunchedInstance]] = {}
        for volume in empty:
            command = benchmark.prefill(volume, settings, context)
            if command is None:
                self.notice("prefill is off: data that was never written is read far too fast")
                return
            by_host.setdefault(volume.host, []).append(LaunchedInstance(volume.index, command.argv, command.env))
        if not by_host:
            return
        self.waiting(f"filling {len(empty)} volumes of {need.size_bytes >> 20} MiB")
        for host in by_host:
            self.transports[host].remove(directory)
        began = time.monotonic()
        result = launch(
            [LaunchSpec(host, directory, tuple(instances)) for host, instances in by_host.items()],
            self.transports,
            Limits(connect_s=FILL_CONNECT_S, deadline_s=120 + need.size_bytes / SLOWEST_BYTES_PER_S),
            cancelled=self.cancelled,
            log=self.log,
        )
        self._prefill_s = time.monotonic() - began
        self.waiting("verifying that the volumes are full")  # raises when the run was stopped
        for host, outcome in result.hosts.items():
            if not isinstance(outcome, HostOutcome):
                raise StorageError(f"prefill: {outcome}")
            for instance in outcome.instances:
                if instance.exit_status != 0:
                    raise StorageError(self._why_not_filled(directory, host, instance, need))
                self._verify_written(directory, host, instance.number, need, benchmark)
        for host in by_host:
            self.transports[host].remove(directory)
        with ThreadPoolExecutor(VERIFY_AT_ONCE, thread_name_prefix="verify") as pool:
            list(pool.map(lambda volume: verify_filled(self.ceph, self.ledger, volume), empty))

    def _verify_written(
        self, directory: str, host: str, number: int, need: VolumeNeed, benchmark: RunnableBenchmark
    ) -> None:
        """Sees from the prefill's own account that it wrote every byte: Ceph only tells which objects are there, and
        one byte makes an object. Raises StorageError with the figures."""
        volume = next(v for v in need.volumes if v.host == host and v.index == number)
        output = self.transports[host].run(Command(("cat", f"{directory}/output.{number}"), timeout_s=60))
        if not output.ok:
            raise StorageError(f"filling {volume.image} from {host}: {output.problem()}")
        try:
            sample, _ = benchmark.parse(output.stdout)
        except OutputError as error:
            raise StorageError(f"filling {volume.image} from {host}: {error}") from None
        ios = sum(m.total_ios for m in sample.measurements if m.direction == "write")
        written = ios * (sample.block_size_bytes or 0)
        if written != need.size_bytes or sample.error:
            raise StorageError(
                f"filling {volume.image} from {host}: {written} of {need.size_bytes} bytes were written "
                f"({ios} writes of {sample.block_size_bytes} bytes, error {sample.error}); nothing is measured on it"
            )

    def _why_not_filled(self, directory: str, host: str, instance: InstanceOutcome, need: VolumeNeed) -> str:
        volume = next(v for v in need.volumes if v.host == host and v.index == instance.number)
        how = f"status {instance.exit_status}" if instance.ended_by == "itself" else f"ended by the {instance.ended_by}"
        tail = self.transports[host].run(Command(("tail", "-n", "2", f"{directory}/stderr.{instance.number}")))
        words = " / ".join(tail.stdout.decode(errors="replace").split("\n")).strip(" /")
        return f"filling {volume.image} from {host}: {how}" + (f": {words}" if words else "")

    def _facts_of(self, need: VolumeNeed, settings: Settings) -> dict[str, Any]:
        """What a reader must know of the volumes: the pools' details, EC profiles, and librbd's cache, which can turn a
        curve upside down."""
        first: Volume = need.volumes[0]
        names = [name for name in (need.pool, need.data_pool) if name is not None]
        pools = {name: pool for name, pool in self.ceph.pools().items() if name in names}
        cache = self.ceph.librbd_cache(first.pool, first.image, settings.text("clientname"))
        return {
            "images": [f"{volume.host}: {volume.image}" for volume in need.volumes],
            "size_bytes": need.size_bytes,
            "existing": need.existing,
            "pools": {name: dict(pool.raw) for name, pool in pools.items()},
            "erasure_profiles": {
                pool.erasure_profile: dict(self.ceph.erasure_profile(pool.erasure_profile))
                for pool in pools.values()
                if pool.kind == "erasure"
            },
            "librbd_cache": {
                "enabled": cache.enabled,
                "policy": cache.policy,
                "options": dict(cache.options),
                "sources": dict(cache.sources),
            },
        }


def throwaway_capacity(
    needs: Sequence[VolumeNeed],
    pool_profiles: Mapping[str, Settings],
    erasure_profiles: Mapping[str, Settings],
    osd_count: int,
    osd_size_bytes: int,
    *,
    together: bool,
) -> list[Finding]:
    """Whether images fit into a throwaway cluster that is still to be made. `together` as in Storage.check."""
    found: dict[str, Finding] = {}
    for group in [needs] if together else [[need] for need in needs]:
        demands: dict[tuple[str, str], Demand] = {}
        for need in (need for need in group if not need.existing):
            try:
                spec = pools_needed(need, pool_profiles, erasure_profiles)[-1]
            except CephError as error:
                return [Finding("volumes", str(error))]
            for volume in need.volumes:
                _keep_greater(demands, volume, Demand(spec.name, need.size_bytes, raw_per_byte(spec)))
        if (text := throwaway_capacity_problem(demands.values(), osd_count, osd_size_bytes)) is not None:
            found[text] = Finding("capacity", text)
    return list(found.values())


def _keep_greater(demands: dict[tuple[str, str], Demand], volume: Volume, demand: Demand) -> None:
    """An image that two needs share is made anew between them: it takes room once."""
    key = (volume.pool, volume.image)
    if key not in demands or demands[key].raw_bytes < demand.raw_bytes:
        demands[key] = demand
