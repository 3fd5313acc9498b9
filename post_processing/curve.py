"""What people read from a response curve: its peak, its knee, latency at a load, load within a latency (METHOD.md).

Only complete points count. A load between two points is answered by linear interpolation along the rising part, from
the first point to the peak; where nothing was measured there is no answer (None).

The knee is the point of greatest power, throughput over latency (L. Kleinrock, "Power and deterministic rules of thumb
for probabilistic problems in computer communications", ICC 1979). By Little's law it is where doubling the queue
depth stops to give more than √2 times the throughput. Points beyond saturation have less and less power, so a sweep
that goes further does not move it (Kneedle, which scales by the largest values, would). Against a single noisy point
a power counts only as far as one of the point's neighbours bears it out: a lone spike is worth no more than what
stands beside it, so one wrong point can carry the knee to a neighbouring point at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from post_processing.results import ResponseCurve, ResultPoint

KNEE_METHOD = (
    "greatest ratio of throughput to latency (Kleinrock's power, 1979), as far as a neighbouring point bears it out"
)
OPERATING_SHARE = 0.7
"""The share of the peak where most people operate."""


@dataclass(frozen=True, slots=True)
class Place:
    """A point of a curve as a place: throughput in the curve's own unit, latency in ns."""

    throughput: float
    latency_ns: float


@dataclass(frozen=True, slots=True)
class AtLoad:
    """The latency to expect at a load, between two measured points. `p99_ns` is between theirs; None without."""

    throughput: float
    latency_ns: float
    p99_ns: float | None


@dataclass(frozen=True, slots=True)
class WithinLimit:
    """The most throughput whose mean latency keeps within a limit.

    `is_peak`: the limit is not reached within the rising part, so this is the peak and the limit did not bind.
    """

    limit_ns: float
    throughput: float
    is_peak: bool


@dataclass(frozen=True, slots=True)
class Knee:
    """The last point before the curve bends up. `at_first`: power falls from the first point on, so the true knee may
    lie below what was measured."""

    point: ResultPoint
    at_first: bool


class CurveReading:
    """One pass of a curve (one iteration), ready to be asked.

    Points join in order of queue depth. The rising part holds, up to the peak, the points that set a new greatest
    throughput: a point that fell back through noise is passed over.
    """

    def __init__(self, curve: ResponseCurve, iteration: int) -> None:
        self.curve = curve
        self.iteration = iteration
        self.points = tuple(
            p for p in curve.of_iteration(iteration) if p.status == "complete" and p.numbers is not None
        )
        self._places = [self._place(point) for point in self.points]
        self._peak_index = max(range(len(self.points)), key=lambda i: self._places[i].throughput, default=None)
        self._rising = self._rising_indices()

    @property
    def peak(self) -> ResultPoint | None:
        """The complete point of greatest throughput."""
        return None if self._peak_index is None else self.points[self._peak_index]

    @property
    def last_gain(self) -> float | None:
        """By what share throughput still rose at the last step when the peak is the last point; None when the sweep
        went past the peak. A large one means that the system may do more than was measured."""
        if self._peak_index is None or self._peak_index < len(self.points) - 1 or len(self.points) < 2:
            return None
        return self._places[-1].throughput / self._places[-2].throughput - 1

    def knee(self) -> Knee | None:
        """None with fewer than three points, and when power still rises at the end: the curve has not bent up."""
        if len(self._places) < 3 or self._peak_index is None:
            return None
        power = [math.log(place.throughput / place.latency_ns) for place in self._places]
        top = _top(_borne_out(power), power)
        if top == len(power) - 1:
            return None
        return Knee(self.points[top], at_first=top == 0)

    def at_load(self, throughput: float) -> AtLoad | None:
        """The latency to expect at a throughput; None below the first point and above the peak."""
        for low, high in pairwise(self._rising):
            a, b = self._places[low], self._places[high]
            if a.throughput <= throughput <= b.throughput:
                share = (throughput - a.throughput) / (b.throughput - a.throughput)
                p99 = _between(_p99(self.points[low]), _p99(self.points[high]), share)
                return AtLoad(throughput, a.latency_ns + share * (b.latency_ns - a.latency_ns), p99)
        if len(self._rising) == 1 and throughput == self._places[self._rising[0]].throughput:
            only = self._rising[0]
            return AtLoad(throughput, self._places[only].latency_ns, _p99(self.points[only]))
        return None

    def at_share(self, share: float = OPERATING_SHARE) -> AtLoad | None:
        """The latency at a share of the peak."""
        if self._peak_index is None:
            return None
        return self.at_load(share * self._places[self._peak_index].throughput)

    def within(self, limit_ns: float) -> WithinLimit | None:
        """The most throughput at a mean latency of at most `limit_ns`; None when no measured load keeps within it."""
        if self._peak_index is None:
            return None
        peak = self._places[self._peak_index]
        if peak.latency_ns <= limit_ns:
            return WithinLimit(limit_ns, peak.throughput, is_peak=True)
        for low, high in reversed(list(pairwise(self._rising))):
            a, b = self._places[low], self._places[high]
            if a.latency_ns <= limit_ns < b.latency_ns:
                share = (limit_ns - a.latency_ns) / (b.latency_ns - a.latency_ns)
                return WithinLimit(limit_ns, a.throughput + share * (b.throughput - a.throughput), is_peak=False)
            if b.latency_ns <= limit_ns:
                return WithinLimit(limit_ns, b.throughput, is_peak=False)
        return None

    @property
    def rising_range(self) -> tuple[Place, Place] | None:
        """The first and the last place between which loads can be answered."""
        if not self._rising:
            return None
        return self._places[self._rising[0]], self._places[self._rising[-1]]

    def _place(self, point: ResultPoint) -> Place:
        if point.numbers is None:
            raise ValueError("a point without numbers has no place on a curve")
        return Place(self.curve.throughput(point.numbers), point.numbers.latency_mean_ns)

    def _rising_indices(self) -> list[int]:
        if self._peak_index is None:
            return []
        rising: list[int] = []
        for index in range(self._peak_index + 1):
            if not rising or self._places[index].throughput > self._places[rising[-1]].throughput:
                rising.append(index)
        return rising


def read_curve(curve: ResponseCurve) -> CurveReading:
    """The reading a report states for a curve.

    With repeats it is the iteration whose peak is the median of all (the lower one of two): a measured curve, neither
    the lucky one nor a sum.
    """
    readings = [CurveReading(curve, iteration) for iteration in curve.iterations]
    known = [(curve.throughput(r.peak.numbers), r) for r in readings if r.peak is not None and r.peak.numbers]
    if not known:
        return readings[0] if readings else CurveReading(curve, 0)
    known.sort(key=lambda item: item[0])
    return known[(len(known) - 1) // 2][1]


def _borne_out(values: Sequence[float]) -> list[float]:
    """Each value, but no more than the larger of its neighbours."""
    last = len(values) - 1
    return [min(value, max(values[j] for j in (i - 1, i + 1) if 0 <= j <= last)) for i, value in enumerate(values)]


def _top(borne_out: Sequence[float], power: Sequence[float]) -> int:
    """The index of the greatest value that a neighbour bears out.

    The top and its higher neighbour bear each other out to the same value, and the measured power decides between
    the two. Three are equal when a spike stands beside such a pair: then it is the middle one.
    """
    best = max(borne_out)
    equal = [i for i, value in enumerate(borne_out) if value == best]
    middle = {equal[(len(equal) - 1) // 2], equal[len(equal) // 2]}
    return max(middle, key=lambda i: power[i])


def _p99(point: ResultPoint) -> float | None:
    """A point's 99th percentile; None where only a bound is known."""
    numbers = point.numbers
    if numbers is None or numbers.percentiles_ns is None or numbers.percentiles_are_bounds:
        return None
    return numbers.percentiles_ns.get(99.0)


def _between(low: float | None, high: float | None, share: float) -> float | None:
    return None if low is None or high is None else low + share * (high - low)
