"""Combines the numbers of instances (or jobs, or directions) into those of a point.

The formulas are METHOD.md's; `docs/reading-a-curve.md` states them for readers. Sums use `math.fsum`, whose result is
exactly rounded, so the order of the parts cannot change a digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.model import Measurement

PERCENTS: Final = (50.0, 95.0, 99.0, 99.9)
"""The percentiles of a point that reports show."""


@dataclass(frozen=True, slots=True)
class Moments:
    """How many values, their mean, and their sample standard deviation (N−1), in one unit."""

    count: int
    mean: float
    stddev: float


@dataclass(frozen=True, slots=True)
class Numbers:
    """What several measurements that ran together amount to.

    `latency_*` is completion latency, `total_latency_*` includes submission. `percentiles_ns` is None when nothing is
    known; with `percentiles_are_bounds` each is the largest of the instances', an upper bound ("≤") of the true one.
    `latency_count` is the number of I/Os behind the latencies.
    """

    total_ios: int
    iops: float
    bandwidth_bytes_per_s: float
    runtime_s: float
    latency_count: int
    latency_mean_ns: float
    latency_stddev_ns: float
    total_latency_mean_ns: float | None
    total_latency_stddev_ns: float | None
    percentiles_ns: Mapping[float, float] | None
    percentiles_are_bounds: bool


def combine(measurements: Sequence[Measurement]) -> Numbers:
    """The numbers of measurements taken at the same time. Raises ValueError when there are none."""
    if not measurements:
        raise ValueError("nothing to combine")
    latency = combine_moments(Moments(_latency_count(m), m.latency_mean_ns, m.latency_stddev_ns) for m in measurements)
    total = _total_latency(measurements)
    percentiles, are_bounds = _percentiles(measurements)
    return Numbers(
        total_ios=sum(m.total_ios for m in measurements),
        iops=math.fsum(m.iops for m in measurements),
        bandwidth_bytes_per_s=math.fsum(m.bandwidth_bytes_per_s for m in measurements),
        runtime_s=max(m.runtime_s for m in measurements),
        latency_count=latency.count,
        latency_mean_ns=latency.mean,
        latency_stddev_ns=latency.stddev,
        total_latency_mean_ns=total.mean if total else None,
        total_latency_stddev_ns=total.stddev if total else None,
        percentiles_ns=percentiles,
        percentiles_are_bounds=are_bounds,
    )


def combine_moments(parts: Iterable[Moments]) -> Moments:
    """Mean and standard deviation over all values of all parts.

    M = Σ Nᵢ·mᵢ / Σ Nᵢ and s = sqrt((Σ (Nᵢ−1)·sᵢ² + Σ Nᵢ·(mᵢ−M)²) / (Σ Nᵢ − 1)), which keeps its digits when s ≪ M
    (Chan, Golub and LeVeque, 1983). Parts without values do not matter. Raises ValueError when no part has any.
    """
    known = [part for part in parts if part.count > 0]
    count = sum(part.count for part in known)
    if count == 0:
        raise ValueError("no values to combine")
    mean = math.fsum(part.count * part.mean for part in known) / count
    if count == 1:
        return Moments(1, mean, 0.0)
    squares = math.fsum(
        term for part in known for term in ((part.count - 1) * part.stddev**2, part.count * (part.mean - mean) ** 2)
    )
    return Moments(count, mean, math.sqrt(squares / (count - 1)))


def merge_histograms(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """The counts added up bin by bin; fio's bins are the same grid everywhere."""
    merged: dict[int, int] = {}
    for histogram in histograms:
        for latency_ns, count in histogram.items():
            merged[latency_ns] = merged.get(latency_ns, 0) + count
    return merged


def quantiles(histogram: Mapping[int, int], percents: Sequence[float]) -> dict[float, float]:
    """Percent → the smallest bin up to which at least that share of the I/Os lie, as fio itself takes it.

    A bin's value is its middle, so a percentile is right to within fio's bin width (0.8 % of the value).
    Raises ValueError for an empty histogram.
    """
    total = sum(histogram.values())
    if total == 0:
        raise ValueError("an empty histogram has no quantiles")
    ascending = sorted(percents)
    found: dict[float, float] = {}
    reached = 0
    for latency_ns in sorted(histogram):
        reached += histogram[latency_ns]
        while len(found) < len(ascending) and reached >= ascending[len(found)] / 100 * total:
            found[ascending[len(found)]] = float(latency_ns)
        if len(found) == len(ascending):
            break
    return {percent: found[percent] for percent in percents}


def _latency_count(measurement: Measurement) -> int:
    """The I/Os a mean was taken over weigh it; that is the tool's own count where it gives one.

    fio's clat N and total_ios differ by the few I/Os that were in flight when the ramp ended.
    """
    return measurement.total_ios if measurement.latency_count is None else measurement.latency_count


def _total_latency(measurements: Sequence[Measurement]) -> Moments | None:
    """None unless every measurement has a total latency: part of them would be no point's mean."""
    parts = []
    for measurement in measurements:
        mean, stddev = measurement.total_latency_mean_ns, measurement.total_latency_stddev_ns
        if mean is None or stddev is None:
            return None
        parts.append(Moments(_latency_count(measurement), mean, stddev))
    return combine_moments(parts)


def _percentiles(measurements: Sequence[Measurement]) -> tuple[dict[float, float] | None, bool]:
    """Of the merged histogram where every measurement has one; else the largest of each, a bound from above.

    That the largest is a bound: in every instance at least that share of the I/Os lie at or below it, so also in all.
    """
    histograms = [m.histogram for m in measurements if m.histogram]
    if len(histograms) == len(measurements):
        return quantiles(merge_histograms(histograms), PERCENTS), False
    bounds = {
        percent: max(m.percentiles_ns[percent] for m in measurements)
        for percent in PERCENTS
        if all(percent in m.percentiles_ns for m in measurements)
    }
    return (bounds, True) if bounds else (None, False)
