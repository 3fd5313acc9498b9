"""The table at the end of a run: what stands in the archive, by workload, from the same numbers as the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from post_processing.curve import read_curve
from post_processing.load import LoadedArchive
from post_processing.results import OVERLAP_WHOLE, ResponseCurve, ResultPoint

HEADER = ("workload", "operation", "complete", "partial", "failed", "peak throughput", "latency there", "at depth")

DOUBTFUL_MARK = " *"


def doubtful_peaks_line(loaded: LoadedArchive) -> str | None:
    """What the mark beside a peak means; None when no peak bears it."""
    peaks = [read_curve(curve).peak for curve in loaded.curves]
    if not any(peak is not None and peak.doubtful_overlap for peak in peaks):
        return None
    return (
        f"{DOUBTFUL_MARK.strip()} the instances of this point measured together for less than {OVERLAP_WHOLE:.0%} of "
        "the time: its throughput may be too high"
    )


def summary_rows(loaded: LoadedArchive) -> Iterator[tuple[str, ...]]:
    """One row a curve, preconditioning last. The peak is the whole points' best; "-" when no point is whole."""
    for curve in loaded.curves:
        counts = Counter(point.status for point in curve.points)
        name = curve.workload or curve.benchmark
        marks = [f"{key} {value}" for key, value in curve.variant.items()]
        marks += [f"numjobs {curve.numjobs}"] if curve.numjobs != 1 else []
        yield (
            " ".join([name, *marks]),
            curve.title if curve.block_size_bytes else "-",
            *(str(counts[status]) for status in ("complete", "partial", "failed")),
            *_peak(curve),
        )
    if loaded.facts.preconditioning:
        counts = Counter(point.status for point in loaded.facts.preconditioning)
        yield (
            "preconditioning",
            "not reported",
            *(str(counts[status]) for status in ("complete", "partial", "failed")),
            "-",
            "-",
            "-",
        )


def _peak(curve: ResponseCurve) -> tuple[str, str, str]:
    peak: ResultPoint | None = read_curve(curve).peak
    if peak is None or peak.numbers is None:
        return "-", "-", "-"
    throughput = curve.throughput(peak.numbers)
    figure = f"{throughput:,.1f}" if curve.in_bandwidth else f"{throughput:,.0f}"
    return (
        f"{figure} {curve.throughput_unit}{DOUBTFUL_MARK if peak.doubtful_overlap else ''}",
        f"{peak.numbers.latency_mean_ns / 1e6:.2f} ms",
        peak.label,
    )
