"""What is read from a curve is known for queues with a formula, and does not move for what should not move it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from post_processing.combine import Numbers
from post_processing.curve import CurveReading, read_curve
from post_processing.results import ResponseCurve, ResultPoint, Status, size_text

MS = 1e6


def point(
    depth: float,
    iops: float,
    latency_ms: float,
    *,
    status: Status = "complete",
    iteration: int = 0,
    p99: float | None = None,
) -> ResultPoint:
    return ResultPoint(
        queue_depth=round(depth),
        setting={"total_iodepth": round(depth)},
        iteration=iteration,
        status=status,
        reason=None,
        instances_expected=1,
        instances_observed=1,
        numbers=Numbers(
            total_ios=1000,
            iops=iops,
            bandwidth_bytes_per_s=iops * 4096,
            runtime_s=1,
            latency_count=1000,
            latency_mean_ns=latency_ms * MS,
            latency_stddev_ns=0.1 * MS,
            total_latency_mean_ns=latency_ms * MS,
            total_latency_stddev_ns=0.1 * MS,
            percentiles_ns=None if p99 is None else {99.0: p99 * MS},
            percentiles_are_bounds=False,
        ),
        overlap=1.0,
        start_skew_s=0.0,
        started_s=0.0,
        ended_s=1.0,
        source="x",
    )


def curve(points: Sequence[ResultPoint], block_size: int = 4096) -> ResponseCurve:
    return ResponseCurve("w", "librbdfio", "randread", None, block_size, 1, tuple(points))


def reading(points: Sequence[ResultPoint]) -> CurveReading:
    return CurveReading(curve(points), 0)


def knee_depth(points: Sequence[ResultPoint]) -> int | None:
    knee = reading(points).knee()
    return None if knee is None else knee.point.queue_depth


def closed(latency_ms: Callable[[float], float], depths: Sequence[int]) -> list[ResultPoint]:
    """A closed loop: throughput follows from depth and latency by Little's law."""
    return [point(n, n / latency_ms(n) * 1000, latency_ms(n)) for n in depths]


DOUBLING = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SWEEP = (2, 4, 8, 12, 16, 24, 32, 64, 96, 128, 192, 288, 384)


def hockey(n: float) -> float:
    """0.5 ms until 32 outstanding, then saturated, with a round bend."""
    return 0.5 * math.pow(1 + math.pow(n / 32, 4), 0.25)


def mmc_latency(load: float, servers: int) -> float:
    """Mean time in an M/M/c system with service rate 1 per server, by Erlang's C formula."""
    offered = load
    queued = offered**servers / math.factorial(servers) * servers / (servers - offered)
    wait = queued / (sum(offered**k / math.factorial(k) for k in range(servers)) + queued)
    return wait / (servers - load) + 1


def test_the_knee_of_an_mm1_queue_is_at_half_its_capacity() -> None:
    """Kleinrock: power λ(μ−λ) is greatest at a utilisation of one half."""
    loads = [k / 20 for k in range(1, 20)]
    points = [point(k, 1000 * load, 1 / (1 - load)) for k, load in enumerate(loads)]
    knee = reading(points).knee()
    assert knee is not None
    assert knee.point.numbers is not None
    assert knee.point.numbers.iops == pytest.approx(500)


@pytest.mark.parametrize("servers", [2, 4, 16])
def test_the_knee_of_an_mmc_queue_is_where_power_is_greatest(servers: int) -> None:
    """For c servers the optimum is found on a grid a hundred times as fine."""
    step = servers / 40
    loads = [step * k for k in range(1, 40)]
    points = [point(k, load, mmc_latency(load, servers)) for k, load in enumerate(loads)]
    fine = [servers * k / 4000 for k in range(1, 4000)]
    optimum = max(fine, key=lambda load: load / mmc_latency(load, servers))
    knee = reading(points).knee()
    assert knee is not None
    assert knee.point.numbers is not None
    assert abs(knee.point.numbers.iops - optimum) <= step


def test_the_knee_of_a_hard_bend_is_the_bend() -> None:
    """Constant latency up to 32 outstanding, constant throughput beyond."""
    assert knee_depth(closed(lambda n: max(0.5, 0.5 * n / 32), DOUBLING)) == 32


@pytest.mark.parametrize("longest", range(9, 14))
def test_the_knee_does_not_move_when_the_sweep_goes_further(longest: int) -> None:
    """More points past saturation change nothing."""
    assert knee_depth(closed(hockey, SWEEP[:longest])) == knee_depth(closed(hockey, SWEEP)) == 32


@given(st.integers(0, len(SWEEP) - 1), st.floats(0.01, 100.0))
@settings(max_examples=300, deadline=None)
def test_one_noisy_point_moves_the_knee_to_a_neighbour_at_most(index: int, factor: float) -> None:
    """However wrong a single point's latency is, it cannot carry the knee away."""
    points = closed(hockey, SWEEP)
    true = SWEEP.index(32)
    wrong = hockey(SWEEP[index]) * factor
    points[index] = point(SWEEP[index], SWEEP[index] / wrong * 1000, wrong)
    found = knee_depth(points)
    assert found is None or abs(SWEEP.index(found) - true) <= 1


def test_a_curve_that_never_bends_has_no_knee() -> None:
    """The sweep ended too early: that is the answer, not its last point."""
    assert knee_depth(closed(lambda _: 0.5, DOUBLING)) is None


def test_a_curve_saturated_from_the_start_says_so() -> None:
    """The first point has the greatest power: the true knee may lie below it."""
    knee = reading(closed(lambda n: 0.5 * n, DOUBLING)).knee()
    assert knee is not None
    assert (knee.point.queue_depth, knee.at_first) == (1, True)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_points_have_no_knee(count: int) -> None:
    """Two points have no bend."""
    assert reading(closed(hockey, DOUBLING[:count])).knee() is None


def test_equal_points_give_figures_without_an_error() -> None:
    """A curve may be one place measured several times."""
    same = [point(n, 100, 1.0) for n in (1, 2, 4)]
    assert reading(same).at_share() is None
    assert reading(same).peak is same[0]


def test_latency_at_a_load_is_interpolated_between_two_points() -> None:
    """Half-way in throughput is half-way in latency, and in p99."""
    answer = reading([point(1, 100, 1.0, p99=2), point(2, 200, 3.0, p99=6)]).at_load(150)
    assert answer is not None
    assert (answer.latency_ns, answer.p99_ns) == (2 * MS, 4 * MS)


@pytest.mark.parametrize("load", [99.9, 200.1])
def test_outside_of_what_was_measured_there_is_no_answer(load: float) -> None:
    """Nothing is extrapolated."""
    assert reading([point(1, 100, 1.0), point(2, 200, 3.0)]).at_load(load) is None


def test_seventy_per_cent_of_the_peak_lies_on_the_rising_part() -> None:
    """A curve that bends back answers from below its peak, never from behind it."""
    points = [point(1, 50, 1.0), point(2, 100, 2.0), point(4, 60, 9.0), point(8, 70, 12.0)]
    answer = reading(points).at_share()
    assert answer is not None
    assert answer.throughput == pytest.approx(70)
    assert answer.latency_ns == pytest.approx(1.4 * MS)


def test_below_the_first_point_seventy_per_cent_has_no_answer() -> None:
    """The first point may already be above 70 % of the peak."""
    assert reading([point(1, 80, 1.0), point(2, 100, 2.0)]).at_share() is None


def test_a_point_that_fell_back_is_passed_over() -> None:
    """On the way up a dip of throughput does not make a load answer twice."""
    points = [point(1, 50, 1.0), point(2, 40, 5.0), point(4, 100, 2.0)]
    answer = reading(points).at_load(75)
    assert answer is not None
    assert answer.latency_ns == pytest.approx(1.5 * MS)


def test_most_within_a_latency_limit() -> None:
    """Between points by interpolation; a limit that never binds gives the peak and says so; none keeps: no answer."""
    found = reading([point(1, 100, 1.0), point(2, 200, 3.0), point(4, 190, 8.0)])
    half = found.within(2 * MS)
    assert half is not None
    assert half.throughput == pytest.approx(150)
    assert not half.is_peak
    free = found.within(5 * MS)
    assert free is not None
    assert (free.throughput, free.is_peak) == (200, True)
    assert found.within(0.5 * MS) is None


def test_partial_and_failed_points_enter_no_figure() -> None:
    """A partial point with the most throughput is not the peak."""
    points = [point(1, 100, 1.0), point(2, 900, 1.0, status="partial"), point(4, 200, 3.0)]
    found = reading(points)
    assert found.peak is points[2]
    answer = found.at_load(150)
    assert answer is not None
    assert answer.latency_ns == pytest.approx(2 * MS)


def test_a_curve_of_partial_points_has_no_figures() -> None:
    """No whole point, no answer."""
    found = reading([point(1, 100, 1.0, status="partial")])
    assert (found.peak, found.knee(), found.at_share(), found.within(MS), found.rising_range) == (None,) * 5


def test_repeats_are_read_by_the_median_peak_and_never_added() -> None:
    """Of three repeats the middle one is stated, of two the lower one."""
    repeats = [point(1, iops, 1.0, iteration=i) for i, iops in enumerate((300, 100, 200))]
    assert read_curve(curve(repeats)).peak is repeats[2]
    assert read_curve(curve(repeats[:2])).peak is repeats[1]


def test_a_peak_at_the_end_says_how_much_it_still_rose() -> None:
    """The system may do more than was measured."""
    assert reading([point(1, 100, 1.0), point(2, 150, 1.2)]).last_gain == pytest.approx(0.5)
    assert reading([point(1, 100, 1.0), point(2, 150, 1.2), point(4, 140, 2.0)]).last_gain is None


@pytest.mark.parametrize(
    ("operation", "percent", "size", "title"),
    [
        ("randread", None, 4096, "4K Random Read"),
        ("randrw", 70, 16384, "16K 70/30 Random Read/Write"),
        ("write", None, 1 << 20, "1M Sequential Write"),
        ("read", None, 65536, "64K Sequential Read"),
        ("randtrim", None, 512, "512B Random Trim"),
    ],
)
def test_titles_as_people_say_them(operation: str, percent: int | None, size: int, title: str) -> None:
    """A curve is called by its size and what it does."""
    assert ResponseCurve("w", "librbdfio", operation, percent, size, 1, ()).title == title


def test_throughput_is_iops_below_64_kib_and_megabytes_from_there_on() -> None:
    """1 MB is 10⁶ bytes."""
    numbers = point(1, 1000, 1.0).numbers
    assert numbers is not None
    assert curve([], 65535).throughput(numbers) == 1000
    assert curve([], 65536).throughput(numbers) == pytest.approx(4.096)
    assert size_text(1536) == "1536B"
