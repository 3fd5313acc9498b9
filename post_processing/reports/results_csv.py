"""`results.csv`: the points of `results.json`, one row each, for spreadsheets."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from post_processing.combine import PERCENTS
from post_processing.report import CurveReport, Report
from post_processing.reports.results_json import point_figures
from post_processing.results import ResultPoint

_CURVE_COLUMNS: Final = ("workload", "benchmark", "operation", "read_percent", "block_size_bytes", "numjobs", "variant")
_POINT_COLUMNS: Final = (
    "queue_depth",
    "setting",
    "iteration",
    "status",
    "reason",
    "instances_expected",
    "instances_observed",
    "iops",
    "bandwidth_bytes_per_s",
    "latency_mean_ns",
    "latency_stddev_ns",
    "total_latency_mean_ns",
    *(f"latency_p{percent:g}_ns" for percent in PERCENTS),
    "percentiles_are_bounds",
    "total_ios",
    "runtime_s",
    "overlap",
    "folder",
)
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class ResultsCsv:
    """The format `csv`."""

    name: str = "csv"

    def file_name(self, stamp: str) -> str:  # noqa: ARG002  # this name is the contract that scripts rely on
        return "results.csv"

    def write(self, report: Report, file: BinaryIO) -> None:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow((*_CURVE_COLUMNS, *_POINT_COLUMNS))
        for curve in report.curves:
            for point in curve.curve.points:
                writer.writerow(_inert(value) for value in (*_curve_cells(curve), *_point_cells(point)))
        file.write(text.getvalue().encode("utf-8", "backslashreplace"))


FORMAT = ResultsCsv()


def _curve_cells(item: CurveReport) -> list[Any]:
    curve = item.curve
    variant = ";".join(f"{name}={value}" for name, value in curve.variant.items())
    return [*(getattr(curve, name) for name in _CURVE_COLUMNS if name != "variant"), variant]


def _point_cells(point: ResultPoint) -> list[Any]:
    figures = point_figures(point)
    numbers = point.numbers
    known = numbers.percentiles_ns if numbers and numbers.percentiles_ns else {}
    figures |= {f"latency_p{percent:g}_ns": known.get(percent) for percent in PERCENTS}
    figures["percentiles_are_bounds"] = numbers.percentiles_are_bounds if known and numbers else None
    figures["setting"] = ";".join(f"{name}={value}" for name, value in point.setting.items())
    return [figures[name] for name in _POINT_COLUMNS]


def _inert(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets a quote before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
