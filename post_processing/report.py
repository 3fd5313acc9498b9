"""The report as an object: what every output format shows, worked out once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from post_processing.curve import AtLoad, CurveReading, Knee, WithinLimit, read_curve
from post_processing.facts import cache_setting, health_words, interrupted, run_rows
from post_processing.load import LoadedArchive
from post_processing.results import OVERLAP_WHOLE, Problem, ResponseCurve, ResultPoint
from post_processing.words import count_of, share

Verdict = Literal["good", "look", "bad", "unknown"]

LITTLE_TOLERANCE: Final = 0.1
"""How far IOPS × latency may be from the queue depth offered before a point is called out."""

_LOADS_SHOWN: Final = 7
_LIMITS_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class Check:
    """One question about the run's trustworthiness and its answer."""

    name: str
    verdict: Verdict
    text: str


@dataclass(frozen=True, slots=True)
class CurveReport:
    """A curve with what is read from it: METHOD.md's five figures. `loads` and `limits` are round values within the
    measured range, so that a reader finds the latency at a load and the load within a latency without computing.

    `repeats` are the peaks of all iterations, in the curve's unit.
    """

    curve: ResponseCurve
    reading: CurveReading
    peak: ResultPoint | None
    knee: Knee | None
    at_70_percent: AtLoad | None
    loads: tuple[AtLoad, ...]
    limits: tuple[WithinLimit, ...]
    repeats: tuple[float, ...]

    @property
    def title(self) -> str:
        return self.curve.title

    @property
    def subtitle(self) -> str:
        """What sets this curve apart: the workload's name, numjobs, and differing settings."""
        parts = [] if self.curve.workload is None else [self.curve.workload]
        parts.append(self.curve.benchmark)
        if self.curve.numjobs != 1:
            parts.append(f"numjobs {self.curve.numjobs}")
        parts += [f"{name} {value}" for name, value in self.curve.variant.items()]
        return " · ".join(parts)


@dataclass(frozen=True, slots=True)
class Report:
    """A performance report of one archive. `rows` say what ran where and when, `checks` whether it can be trusted."""

    archive_name: str
    made_at: datetime
    rows: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    curves: tuple[CurveReport, ...]
    problems: tuple[Problem, ...]
    plan_text: str | None
    whole: bool
    error_bars: bool = True


def build_report(loaded: LoadedArchive, *, made_at: datetime, error_bars: bool = True) -> Report:
    """Works out everything a report says about an archive."""
    return Report(
        archive_name=loaded.facts.name,
        made_at=made_at,
        rows=tuple(run_rows(loaded.facts, loaded.curves)),
        checks=tuple(_checks(loaded)),
        curves=tuple(_curve_report(curve) for curve in loaded.curves),
        problems=loaded.problems,
        plan_text=loaded.facts.plan_text,
        whole=loaded.whole,
        error_bars=error_bars,
    )


def _curve_report(curve: ResponseCurve) -> CurveReport:
    reading = read_curve(curve)
    readings = [CurveReading(curve, iteration) for iteration in curve.iterations]
    return CurveReport(
        curve=curve,
        reading=reading,
        peak=reading.peak,
        knee=reading.knee(),
        at_70_percent=reading.at_share(),
        loads=_loads(reading),
        limits=_limits(reading),
        repeats=tuple(
            curve.throughput(r.peak.numbers) for r in readings if r.peak is not None and r.peak.numbers is not None
        ),
    )


def _loads(reading: CurveReading) -> tuple[AtLoad, ...]:
    span = reading.rising_range
    if span is None or span[1].throughput <= span[0].throughput:
        return ()
    low, high = span[0].throughput, span[1].throughput
    step = nice_step((high - low) / _LOADS_SHOWN)
    first = int(low // step) + 1
    values = [step * k for k in range(first, int(high // step) + 1)]
    return tuple(answer for value in values if (answer := reading.at_load(value)) is not None)


def _limits(reading: CurveReading) -> tuple[WithinLimit, ...]:
    """Latency limits of the series 1, 2, 5 that bind somewhere on the rising part, and the next one that does not."""
    span = reading.rising_range
    if span is None:
        return ()
    series = [mantissa * 10.0**exponent for exponent in range(3, 12) for mantissa in (1, 2, 5)]
    answers = [answer for limit in series if (answer := reading.within(limit)) is not None]
    binding = [answer for answer in answers if not answer.is_peak]
    beyond = [answer for answer in answers if answer.is_peak][:1]
    return tuple([*binding, *beyond][-_LIMITS_SHOWN:])


def nice_step(raw: float) -> float:
    """The smallest of 1, 2, 2.5 or 5 times a power of ten that is at least `raw`."""
    if not raw > 0:
        return 1.0
    power = 1.0
    while power > raw:
        power /= 10
    while power * 10 <= raw:
        power *= 10
    return next((power * m for m in (1, 2, 2.5, 5) if power * m >= raw * (1 - 1e-9)), power * 10)


def _checks(loaded: LoadedArchive) -> list[Check]:
    points = [point for curve in loaded.curves for point in curve.points]
    checks = [_points_check(points)]
    if loaded.problems:
        checks.append(Check("Left out", "bad", f"{count_of(len(loaded.problems), 'item')}, listed below"))
    if interrupted(loaded.facts):
        checks.append(Check("Run", "look", "its last call did not come to its end, or is still running"))
    if loaded.facts.preconditioning:
        checks.append(_preconditioning_check(loaded.facts.preconditioning))
    checks += [
        _cluster_check(points),
        _overlap_check(points),
        _little_check(points),
        _health_check(points),
        _cache_check(loaded),
    ]
    return checks


def _points_check(points: Sequence[ResultPoint]) -> Check:
    counts = {status: sum(1 for p in points if p.status == status) for status in ("complete", "partial", "failed")}
    if not points:
        return Check("Points", "bad", "the archive holds no point to report")
    if counts["complete"] == len(points):
        return Check("Points", "good", f"all {len(points)} ran whole")
    text = f"{counts['complete']} of {len(points)} ran whole, {counts['partial']} partial, {counts['failed']} failed"
    return Check("Points", "bad", f"{text}; only whole points enter the figures")


def _preconditioning_check(points: Sequence[ResultPoint]) -> Check:
    bad = [p for p in points if p.status != "complete"]
    if not bad:
        return Check("Preconditioning", "good", f"{count_of(len(points), 'point')} ran whole")
    return Check("Preconditioning", "bad", f"{len(bad)} of {len(points)} did not run whole: {bad[0].reason}")


def cluster_fsids(points: Sequence[ResultPoint]) -> tuple[str, ...]:
    """The clusters that these points were measured on, in the points' order; failed points measured nothing."""
    return tuple(dict.fromkeys(p.cluster_fsid for p in points if p.cluster_fsid and p.status != "failed"))


def _cluster_check(points: Sequence[ResultPoint]) -> Check:
    fsids = cluster_fsids(points)
    if not fsids:
        return Check("One cluster", "unknown", "not recorded")
    if len(fsids) > 1:
        where = f"points were measured on {len(fsids)} different clusters (fsids {', '.join(fsids)})"
        return Check("One cluster", "look", f"{where}: a curve may mix them")
    unknown = sum(1 for p in points if not p.cluster_fsid and p.status != "failed")
    if unknown:
        return Check("One cluster", "unknown", f"{fsids[0]}, but not recorded for {count_of(unknown, 'point')}")
    return Check("One cluster", "good", f"every point was measured on {fsids[0]}")


def _overlap_check(points: Sequence[ResultPoint]) -> Check:
    known = [(p.overlap, p) for p in points if p.overlap is not None and p.status != "failed"]
    if not known:
        return Check(
            "Common window", "unknown", "not recorded: whether all instances ran at the same time is not known"
        )
    lowest = min(overlap for overlap, _ in known)
    low = [p for _, p in known if p.doubtful_overlap]
    limit = f"{OVERLAP_WHOLE:.0%}".replace("%", " %")
    if not low:
        return Check("Common window", "good", f"instances ran together for at least {share(lowest)} of the time")
    return Check(
        "Common window",
        "look",
        f"{len(low)} of {len(known)} points below {limit} (lowest {share(lowest)}): their sums may be too high; "
        "marked “!” in the tables",
    )


def _little_check(points: Sequence[ResultPoint]) -> Check:
    ratios = [ratio for p in points if (ratio := p.littles_law_ratio) is not None]
    if not ratios:
        return Check("Little’s law", "unknown", "not possible: no closed-loop point with a total latency")
    spread = f"IOPS × latency is {min(ratios):.2f} to {max(ratios):.2f} times the queue depth offered"
    off = sum(1 for ratio in ratios if abs(ratio - 1) > LITTLE_TOLERANCE)
    if off:
        return Check("Little’s law", "look", f"{spread}; {count_of(off, 'point')} off by more than 10 %")
    return Check("Little’s law", "good", spread)


def _health_check(points: Sequence[ResultPoint]) -> Check:
    good, known, others = health_words(points)
    if not known:
        return Check("Cluster health", "unknown", "not recorded")
    if good == known:
        return Check("Cluster health", "good", "HEALTH_OK and no background work before and after every point")
    return Check(
        "Cluster health", "look", f"HEALTH_OK and at rest at {good} of {known} points; else {'; '.join(others)}"
    )


def _cache_check(loaded: LoadedArchive) -> Check:
    cache = cache_setting(loaded.facts)
    if cache is None:
        return Check("librbd cache", "unknown", "not recorded")
    if cache:
        return Check("librbd cache", "look", "on: the client’s memory may answer, most of all at small queue depths")
    return Check("librbd cache", "good", "off: every I/O went to the cluster")
