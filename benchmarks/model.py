"""The types every benchmark module shares. No I/O happens in this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.options import Option, Settings


@dataclass(frozen=True, slots=True)
class Volume:
    """One RBD image that one client host drives. `index` counts from 0 on its host."""

    pool: str
    image: str
    host: str
    index: int


@dataclass(frozen=True, slots=True)
class VolumeNeed:
    """The pools and images a point runs on. Two points with equal needs share one preparation.

    `size_bytes` and `object_order` (log2 of the object size) describe each image. With `existing`, nothing is
    created, resized, filled or deleted, and `fallback_image` names the single image that may be meant
    when a client has only one volume.
    """

    pool: str
    pool_profile: str
    data_pool: str | None
    data_pool_profile: str | None
    size_bytes: int
    object_order: int
    volumes: tuple[Volume, ...]
    existing: bool
    fallback_image: str | None = None
    wait_pgautoscaler_s: int = -1


@dataclass(frozen=True, slots=True)
class Instance:
    """One process of a benchmark, bound to a host and a volume.

    `number` is the N of `output.N.<host>`: unique on its host, the volume's index when a volume has one process.
    """

    host: str
    number: int
    volume: Volume
    iodepth: int
    numjobs: int
    process: int = 0

    @property
    def queue_depth(self) -> int:
        """What this instance keeps outstanding: numjobs × iodepth (METHOD: queue depth of a point)."""
        return self.numjobs * self.iodepth


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """What an instance's command line needs to know about where it is launched.

    `directory` is the instance's working directory on its host (absolute). `gate` is a shell command that
    returns when the measurement may start, already quoted as one word of shell; None for no second barrier.
    """

    directory: str
    ceph_conf: str | None
    gate: str | None


@dataclass(frozen=True, slots=True)
class InstanceCommand:
    """An argument vector and the environment it wants, as (name, value) pairs."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Requirement:
    """A program that must answer on every client. `probe` must exit 0 and print `must_contain` on a line."""

    program: str
    probe: tuple[str, ...]
    must_contain: str | None
    remedy: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """One job's numbers in one direction. Latencies are of completion (clat) unless named total.

    `iops` and `bandwidth_bytes_per_s` are over the job's own `runtime_s`. `latency_stddev_ns` is the sample
    standard deviation (N−1). `histogram` maps completion latency (ns) to a count; None without bins.
    `percentiles_ns` are the job's own, by percent (99.0 → ns); they are never averaged (METHOD.md).
    `latency_count` is how many I/Os the latency figures were taken over; None when that is `total_ios`.
    """

    direction: str
    total_ios: int
    iops: float
    bandwidth_bytes_per_s: float
    runtime_s: float
    latency_mean_ns: float
    latency_stddev_ns: float
    total_latency_mean_ns: float | None
    total_latency_stddev_ns: float | None
    histogram: Mapping[int, int] | None
    percentiles_ns: Mapping[float, float]
    latency_count: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One instance's numbers: a Measurement per job and direction that did I/O.

    `operation` is fio's `rw` word or its likeness; `read_percent` only for mixed operations. `end_unix_s` is when
    the measurement window ended by the instance's own clock; the window's start is that less `runtime_s`.
    `error` is the tool's own error number.
    """

    operation: str
    read_percent: int | None
    block_size_bytes: int | None
    numjobs: int
    iodepth: int | None
    runtime_s: float
    end_unix_s: float | None
    error: int
    measurements: tuple[Measurement, ...]
    tool_version: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def total_ios(self) -> int:
        return sum(m.total_ios for m in self.measurements)


class OutputError(Exception):
    """An instance's output cannot be used; the message is the reason shown to the user, one line."""


class Benchmark(Protocol):
    """What a benchmark module offers as its `BENCHMARK`. Everything is pure."""

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> tuple[Option, ...]: ...

    @property
    def workload_options(self) -> tuple[Option, ...] | None:
        """Keys that only a workload may have; None when the benchmark takes no `workloads`."""
        ...

    @property
    def unavailable(self) -> str | None:
        """None when the benchmark can run, else why not, for preflight and --dry-run."""
        ...


class RunnableBenchmark(Benchmark, Protocol):
    """A benchmark that can be launched."""

    def settings_problems(self, settings: Settings) -> Sequence[str]:
        """What in these settings cannot work together, one sentence each."""
        ...

    def need(self, settings: Settings, clients: Sequence[str]) -> VolumeNeed: ...

    def instances(self, settings: Settings, need: VolumeNeed) -> tuple[Instance, ...]:
        """The instances of one point, hosts in the plan's order, volume 0 first."""
        ...

    def command(self, instance: Instance, settings: Settings, context: LaunchContext) -> InstanceCommand: ...

    def prefill(self, volume: Volume, settings: Settings, context: LaunchContext) -> InstanceCommand | None:
        """The command that writes the whole of a volume this run created; None when the plan wants none."""
        ...

    def empties_volumes(self, settings: Settings) -> bool:
        """Whether a point with these settings leaves volumes with data that is no longer there (trim)."""
        ...

    def ready_marks(self, instance: Instance) -> int:
        """How many times the instance reaches the gate (0: it has no second barrier)."""
        ...

    def requirements(self, settings: Settings) -> tuple[Requirement, ...]: ...

    def parse(self, output: bytes) -> tuple[Sample, bytes]:
        """The numbers, and the JSON document within the output. Raises OutputError."""
        ...

    def ramp_and_time_s(self, settings: Settings) -> tuple[float, float | None]:
        """Seconds before and of the measurement; None when it ends by size alone."""
        ...
