"""Load points, response curves, and what a reader takes from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from post_processing.combine import Numbers

Status = Literal["complete", "partial", "failed"]

BANDWIDTH_FROM_BYTES: Final = 64 * 1024
"""From this block size on, throughput is shown as bandwidth; below it as IOPS (METHOD.md)."""

OVERLAP_WHOLE: Final = 0.95
"""Below this share of common measuring time a point is flagged: its sums are doubtful (METHOD.md)."""


@dataclass(frozen=True, slots=True)
class InstanceResult:
    """One instance of a point: its numbers, or why it has none. `source` is its raw file within the archive."""

    host: str
    number: int
    source: str | None
    queue_depth: int
    numbers: Numbers | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class ResultPoint:
    """One point of a curve.

    `numbers` are of the instances that ran whole; None when the point failed. A partial point's numbers are too low by
    what is missing and never enter a figure. `setting` is what the plan swept ({"total_iodepth": 16}), `queue_depth`
    what was outstanding in all. `source` is the point's folder within the archive. Times are Unix seconds.
    """

    queue_depth: int
    setting: Mapping[str, int]
    iteration: int
    status: Status
    reason: str | None
    instances_expected: int | None
    instances_observed: int
    numbers: Numbers | None
    overlap: float | None
    start_skew_s: float | None
    started_s: float | None
    ended_s: float | None
    source: str
    instances: tuple[InstanceResult, ...] = ()
    notes: tuple[str, ...] = ()
    health_before: Mapping[str, Any] | None = None
    health_after: Mapping[str, Any] | None = None
    closed_loop: bool = True
    """False when the load was limited from outside (rate_iops), so that Little's law says nothing."""
    cluster_fsid: str | None = None
    """The cluster it was measured on; None when it is not recorded."""

    @property
    def label(self) -> str:
        """What people call the point: the number the plan swept, else the queue depth."""
        values = list(self.setting.values())
        return str(values[0]) if len(values) == 1 else str(self.queue_depth)

    @property
    def doubtful_overlap(self) -> bool:
        return self.overlap is not None and self.overlap < OVERLAP_WHOLE

    @property
    def littles_law_ratio(self) -> float | None:
        """IOPS × mean total latency over the queue depth offered; about 1 for a closed loop (Little, 1961)."""
        if self.numbers is None or self.status != "complete" or not self.closed_loop or self.queue_depth < 1:
            return None
        latency_ns = self.numbers.total_latency_mean_ns
        return None if latency_ns is None else self.numbers.iops * latency_ns / 1e9 / self.queue_depth


@dataclass(frozen=True, slots=True)
class ResponseCurve:
    """The points of one workload, by iteration and then by queue depth.

    `variant` holds the settings that tell this curve from others of the same workload. Repeats (iterations) stand side
    by side in `points`; nothing ever adds them up.
    """

    workload: str | None
    benchmark: str
    operation: str
    read_percent: int | None
    block_size_bytes: int | None
    numjobs: int
    points: tuple[ResultPoint, ...]
    variant: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_bandwidth(self) -> bool:
        """Whether throughput is bandwidth (MB/s) rather than IOPS."""
        return self.block_size_bytes is not None and self.block_size_bytes >= BANDWIDTH_FROM_BYTES

    @property
    def throughput_unit(self) -> str:
        return "MB/s" if self.in_bandwidth else "IOPS"

    @property
    def iterations(self) -> tuple[int, ...]:
        return tuple(sorted({point.iteration for point in self.points}))

    def throughput(self, numbers: Numbers) -> float:
        """IOPS, or MB/s (10⁶ bytes) for large blocks."""
        return numbers.bandwidth_bytes_per_s / 1e6 if self.in_bandwidth else numbers.iops

    def of_iteration(self, iteration: int) -> tuple[ResultPoint, ...]:
        return tuple(point for point in self.points if point.iteration == iteration)

    @property
    def title(self) -> str:
        """The curve as people say it: "4K Random Read", "16K 70/30 Random Read/Write"."""
        size = size_text(self.block_size_bytes) if self.block_size_bytes else "Varying Sizes"
        return f"{size} {operation_text(self.operation, self.read_percent)}"


def size_text(size_bytes: int) -> str:
    """A block size as people say it: 4096 → "4K", 1048576 → "1M", 512 → "512B"."""
    for factor, letter in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{letter}"
    return f"{size_bytes}B"


_OPERATION_WORDS: Final = {
    "read": "Sequential Read",
    "write": "Sequential Write",
    "randread": "Random Read",
    "randwrite": "Random Write",
    "rw": "Sequential Read/Write",
    "randrw": "Random Read/Write",
    "trim": "Sequential Trim",
    "randtrim": "Random Trim",
    "trimwrite": "Sequential Trim and Write",
    "randtrimwrite": "Random Trim and Write",
}

OPERATION_ORDER: Final = tuple(_OPERATION_WORDS)


def operation_text(operation: str, read_percent: int | None) -> str:
    """An operation as people say it; a mix leads with its shares: "70/30 Random Read/Write"."""
    words = _OPERATION_WORDS.get(operation, operation)
    return words if read_percent is None else f"{read_percent}/{100 - read_percent} {words}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something of the archive that could not be used or is not whole: what, and why. One line."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"
