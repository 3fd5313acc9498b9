"""The plan after it was read, and the points it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchmarks.options import Settings, Value
from cluster.hosts import Host


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know that stops nothing: an option without effect, say. One line."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


@dataclass(frozen=True, slots=True)
class Workload:
    """One entry of `workloads:`: its own settings (axes still as tuples), laid over the benchmark's."""

    name: str
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """One benchmark of the plan. `values` holds what the plan sets; a tuple under a sweep option is an axis."""

    name: str
    values: Mapping[str, Value]
    workloads: tuple[Workload, ...]


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The `cluster:` section: hosts by role, and every other key with its default filled in."""

    clients: tuple[Host, ...]
    head: Host | None
    daemons: Mapping[str, Mapping[Host, tuple[str, ...]]]
    """Role (mons, mgrs, osds, mdss, rgws) → host → daemon ids as given; () where the plan only names the host."""
    commands: Mapping[str, tuple[str, ...]]
    """Tool (`ceph`, `rbd`, `ceph-osd`, …) → the words that run it, only for `<tool>_cmd` keys the plan gives."""
    pool_profiles: Mapping[str, Settings]
    erasure_profiles: Mapping[str, Settings]
    settings: Settings
    """Every other key, defaults filled in: iterations, use_existing, tmp_dir, osds_per_node, …"""


@dataclass(frozen=True, slots=True)
class TestPlan:
    """A validated plan. `shown_text` is the plan as given with secrets replaced; `digest` covers its meaning, not its
    spelling (comments and order of unrelated keys do not change it)."""

    __test__ = False  # pytest would otherwise take the class for a test

    source: Path
    shown_text: str
    digest: str
    cluster: ClusterPlan
    benchmarks: tuple[BenchmarkPlan, ...]
    monitoring_profiles: Mapping[str, Settings]
    client_endpoints: Mapping[str, Settings]
    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class RunPoint:
    """One measurement.

    `id` (16 hex digits) digests everything that determines it. `folder` is relative to `results/`. `settings` are the
    effective options with every axis resolved; `combination` the benchmark's own level, as benchmark_config.yaml shows
    it. `setting` is what the sweep calls this point, e.g. (("total_iodepth", 16),). `reported` is False for
    preconditioning.
    """

    id: str
    iteration: int
    benchmark: str
    combination_id: str
    workload: str | None
    settings: Settings
    combination: Settings
    setting: tuple[tuple[str, int], ...]
    folder: PurePosixPath
    reported: bool
