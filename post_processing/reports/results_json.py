"""`results.json`: the curves as data, for other programs.

History of the format:
  1  first. Keys beyond the documented ones may be added; a reader passes over what it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from post_processing.combine import Numbers
from post_processing.curve import KNEE_METHOD, AtLoad
from post_processing.report import CurveReport, Report, cluster_fsids
from post_processing.results import ResultPoint

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class ResultsJson:
    """The format `json`."""

    name: str = "json"

    def file_name(self, stamp: str) -> str:  # noqa: ARG002  # this name is the contract that scripts rely on
        return "results.json"

    def write(self, report: Report, file: BinaryIO) -> None:
        file.write((json.dumps(document(report), indent=1, allow_nan=False) + "\n").encode())


FORMAT = ResultsJson()


def document(report: Report) -> dict[str, Any]:
    """The report's curves as JSON: throughput in the units of the names, latencies in ns."""
    return {
        "schema": SCHEMA,
        "archive": report.archive_name,
        "knee_method": KNEE_METHOD,
        "cluster_fsids": list(cluster_fsids([point for item in report.curves for point in item.curve.points])),
        "curves": [_curve(curve) for curve in report.curves],
        "problems": [{"where": problem.where, "reason": problem.reason} for problem in report.problems],
    }


def _curve(item: CurveReport) -> dict[str, Any]:
    curve = item.curve
    return {
        "workload": curve.workload,
        "benchmark": curve.benchmark,
        "operation": curve.operation,
        "read_percent": curve.read_percent,
        "block_size_bytes": curve.block_size_bytes,
        "numjobs": curve.numjobs,
        "variant": dict(curve.variant),
        "throughput_unit": curve.throughput_unit,
        "points": [point_figures(point) for point in curve.points],
        "peak": None if item.peak is None else point_figures(item.peak),
        "knee": None if item.knee is None else point_figures(item.knee.point),
        "at_70_percent": _at_load(item.at_70_percent),
    }


def point_figures(point: ResultPoint) -> dict[str, Any]:
    """One point's figures; those of a failed point are null."""
    numbers = point.numbers
    return {
        "queue_depth": point.queue_depth,
        "setting": dict(point.setting),
        "iteration": point.iteration,
        "status": point.status,
        "reason": point.reason,
        "instances_expected": point.instances_expected,
        "instances_observed": point.instances_observed,
        "iops": numbers.iops if numbers else None,
        "bandwidth_bytes_per_s": numbers.bandwidth_bytes_per_s if numbers else None,
        "latency_mean_ns": numbers.latency_mean_ns if numbers else None,
        "latency_stddev_ns": numbers.latency_stddev_ns if numbers else None,
        "total_latency_mean_ns": numbers.total_latency_mean_ns if numbers else None,
        "latency_percentiles_ns": _percentiles(numbers, bounds=False),
        "latency_percentile_bounds_ns": _percentiles(numbers, bounds=True),
        "total_ios": numbers.total_ios if numbers else None,
        "runtime_s": numbers.runtime_s if numbers else None,
        "overlap": point.overlap,
        "folder": point.source,
    }


def _percentiles(numbers: Numbers | None, *, bounds: bool) -> Mapping[str, float] | None:
    """Percentiles of the merged histogram, or, apart from them, upper bounds where there is no histogram."""
    if numbers is None or numbers.percentiles_ns is None or numbers.percentiles_are_bounds != bounds:
        return None
    return {f"{percent:g}": value for percent, value in numbers.percentiles_ns.items()}


def _at_load(answer: AtLoad | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    return {
        "throughput": answer.throughput,
        "latency_mean_ns": answer.latency_ns,
        "latency_p99_ns": answer.p99_ns,
    }
