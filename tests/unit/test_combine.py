"""Numbers of instances combine into what an independent computation over the single I/Os gives."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.model import Measurement
from post_processing.combine import PERCENTS, Moments, combine, combine_moments, merge_histograms, quantiles

RUNTIME_S = 3.0


def measured(ios_ns: Sequence[int], *, bins: bool = True, op_size: int = 4096) -> Measurement:
    """What a tool would report of these I/Os, by the textbook definitions."""
    ordered = sorted(ios_ns)
    return Measurement(
        direction="read",
        total_ios=len(ios_ns),
        iops=len(ios_ns) / RUNTIME_S,
        bandwidth_bytes_per_s=len(ios_ns) * op_size / RUNTIME_S,
        runtime_s=RUNTIME_S,
        latency_mean_ns=statistics.fmean(ios_ns),
        latency_stddev_ns=statistics.stdev(ios_ns) if len(ios_ns) > 1 else 0.0,
        total_latency_mean_ns=statistics.fmean(ios_ns) + 500,
        total_latency_stddev_ns=statistics.stdev(ios_ns) if len(ios_ns) > 1 else 0.0,
        histogram=Counter(ios_ns) if bins else None,
        percentiles_ns={p: float(ordered[math.ceil(p / 100 * len(ordered)) - 1]) for p in PERCENTS},
    )


IOS = st.lists(st.integers(1_000, 10**9), min_size=1, max_size=40)
VOLUMES = st.lists(IOS, min_size=1, max_size=6)


@given(VOLUMES)
@settings(deadline=None)
def test_combining_equals_computing_over_all_ios(volumes: list[list[int]]) -> None:
    """Mean, standard deviation, percentiles, counts and sums are those of all I/Os thrown together."""
    everything = [latency for volume in volumes for latency in volume]
    whole = measured(everything)
    numbers = combine([measured(volume) for volume in volumes])
    assert numbers.total_ios == len(everything)
    assert numbers.iops == pytest.approx(whole.iops)
    assert numbers.bandwidth_bytes_per_s == pytest.approx(whole.bandwidth_bytes_per_s)
    assert numbers.latency_mean_ns == pytest.approx(whole.latency_mean_ns)
    assert numbers.latency_stddev_ns == pytest.approx(whole.latency_stddev_ns, rel=1e-9, abs=1e-3)
    assert numbers.total_latency_mean_ns == pytest.approx(whole.latency_mean_ns + 500)
    assert numbers.percentiles_ns == whole.percentiles_ns
    assert not numbers.percentiles_are_bounds


def test_a_plain_mean_of_means_would_be_wrong() -> None:
    """A fast volume's many I/Os weigh more than a slow one's few."""
    numbers = combine([measured([100_000] * 900), measured([1_000_000] * 100)])
    assert numbers.latency_mean_ns == pytest.approx(190_000)


@given(VOLUMES, st.randoms())
@settings(deadline=None)
def test_the_order_of_volumes_does_not_matter(volumes: list[list[int]], rng: random.Random) -> None:
    """Not a digit changes when the files are read in another order."""
    shuffled = list(volumes)
    rng.shuffle(shuffled)
    for bins in (True, False):
        first = combine([measured(v, bins=bins) for v in volumes])
        assert combine([measured(v, bins=bins) for v in shuffled]) == first


@given(VOLUMES, VOLUMES)
@settings(deadline=None)
def test_merging_in_parts_equals_merging_at_once(one: list[list[int]], other: list[list[int]]) -> None:
    """Hosts may be combined before the point is."""

    def moments(volumes: list[list[int]]) -> list[Moments]:
        return [Moments(m.total_ios, m.latency_mean_ns, m.latency_stddev_ns) for m in map(measured, volumes)]

    parts = combine_moments([combine_moments(moments(one)), combine_moments(moments(other))])
    whole = combine_moments(moments(one + other))
    assert parts.count == whole.count
    assert parts.mean == pytest.approx(whole.mean)
    assert parts.stddev == pytest.approx(whole.stddev, rel=1e-9, abs=1e-3)
    histograms = [Counter(v) for v in one + other]
    halves = [merge_histograms(histograms[: len(one)]), merge_histograms(histograms[len(one) :])]
    assert merge_histograms(halves) == merge_histograms(histograms)


@given(IOS, st.integers(1, 8))
@settings(deadline=None)
def test_identical_volumes_change_no_mean(ios: list[int], copies: int) -> None:
    """n equal volumes have the mean and percentiles of one, and n times its throughput."""
    one, many = combine([measured(ios)]), combine([measured(ios)] * copies)
    assert many.latency_mean_ns == pytest.approx(one.latency_mean_ns)
    assert many.percentiles_ns == one.percentiles_ns
    assert many.iops == pytest.approx(copies * one.iops)


def test_the_deviation_keeps_its_digits_when_small_beside_the_mean() -> None:
    """s = 1 ns at a mean of 100 s: "sum of squares minus N·M²" would lose all of it."""
    parts = [Moments(1_000_000, 1e11, 1.0), Moments(1_000_000, 1e11, 1.0)]
    assert combine_moments(parts).stddev == pytest.approx(1.0, rel=1e-5)


def test_the_mean_is_weighted_by_the_ios_it_was_taken_over() -> None:
    """fio's clat N may differ from total_ios by what was in flight when the ramp ended; N is the mean's weight."""
    from dataclasses import replace

    one = replace(measured([1_000_000] * 10), latency_count=12)
    other = replace(measured([2_000_000] * 10), latency_count=10)
    numbers = combine([one, other])
    assert numbers.latency_mean_ns == pytest.approx((12 * 1e6 + 10 * 2e6) / 22)
    assert (numbers.total_ios, numbers.latency_count) == (20, 22)


@given(VOLUMES)
@settings(deadline=None)
def test_without_histograms_the_largest_percentile_bounds_the_true_one(volumes: list[list[int]]) -> None:
    """The bound is marked as one, and no true percentile is above it."""
    everything = measured([latency for volume in volumes for latency in volume])
    numbers = combine([measured(volume, bins=False) for volume in volumes])
    assert numbers.percentiles_are_bounds
    assert numbers.percentiles_ns is not None
    assert all(numbers.percentiles_ns[p] >= everything.percentiles_ns[p] for p in PERCENTS)


def test_one_volume_without_histogram_makes_all_percentiles_bounds() -> None:
    """Part of the I/Os give no percentile of all of them."""
    numbers = combine([measured([1000] * 10), measured([9000] * 10, bins=False)])
    assert numbers.percentiles_are_bounds


def test_a_total_latency_that_one_volume_lacks_is_none() -> None:
    """The mean over some volumes is not the point's."""
    from dataclasses import replace

    assert (
        combine([measured([1000]), replace(measured([1000]), total_latency_mean_ns=None)]).total_latency_mean_ns is None
    )


def test_quantiles_keep_the_order_they_were_asked_in() -> None:
    """The smallest value up to which the share lies, whatever the order of asking."""
    assert quantiles({10: 50, 20: 49, 30: 1}, (99.9, 50.0, 99.0)) == {99.9: 30.0, 50.0: 10.0, 99.0: 20.0}


def test_nothing_to_combine_is_an_error() -> None:
    """Zero must not be made up."""
    with pytest.raises(ValueError, match="nothing"):
        combine([])
    with pytest.raises(ValueError, match="no values"):
        combine_moments([Moments(0, 0.0, 0.0)])
    with pytest.raises(ValueError, match="empty"):
        quantiles({}, (50.0,))
