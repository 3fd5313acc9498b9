"""The report as a PDF: a first page to decide by, a page for each curve, the method, the plan. Vectors, real text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final
from xml.sax.saxutils import escape

from reportlab.lib.colors import Color, HexColor
from reportlab.lib.enums import TA_CENTER, TA_LEFT, TA_RIGHT
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import cm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    CondPageBreak,
    Flowable,
    Frame,
    KeepTogether,
    PageBreak,
    PageTemplate,
    Paragraph,
    Preformatted,
    Spacer,
    Table,
)

from post_processing.combine import PERCENTS
from post_processing.curve import AtLoad
from post_processing.report import Check, CurveReport, Report
from post_processing.reports.drawing import Features, draw_curve
from post_processing.results import ResultPoint
from post_processing.words import count_of, latency_ms, percent_name, share, throughput, visible

_INK, _QUIET = HexColor("#1F2933"), HexColor("#5A6470")
_RULE, _SHADE = HexColor("#C9CFD6"), HexColor("#F1F3F5")
_HEAD = HexColor("#1B3A5C")
_MARGIN = 1.6 * cm
_WIDTH = A4[0] - 2 * _MARGIN
_TALLEST_PLOT, _LOWEST_PLOT, _TABLE_ROW = 11.5 * cm, 8.4 * cm, 0.47 * cm
_ROWS_BESIDE_TALLEST: Final = 9

_BODY = ParagraphStyle("body", fontName="Helvetica", fontSize=9, leading=12, textColor=_INK)
_SMALL = ParagraphStyle("small", parent=_BODY, fontSize=7.5, leading=9.6)
_CAPTION = ParagraphStyle("caption", parent=_SMALL, textColor=_QUIET, spaceAfter=5)
_CELL = ParagraphStyle("cell", parent=_BODY, fontSize=7.5, leading=9, splitLongWords=1)
_HEADER = ParagraphStyle("header", parent=_CELL, fontName="Helvetica-Bold", textColor=_HEAD, alignment=TA_RIGHT)
_LEFT_HEADER = ParagraphStyle("left header", parent=_HEADER, alignment=TA_LEFT)
_GROUP_HEADER = ParagraphStyle("group header", parent=_HEADER, alignment=TA_CENTER)
_RIGHT_CELL = ParagraphStyle("right", parent=_CELL, alignment=TA_RIGHT)
_TITLE = ParagraphStyle("title", parent=_BODY, fontName="Helvetica-Bold", fontSize=18, leading=22, textColor=_HEAD)
_SECTION = ParagraphStyle(
    "section", parent=_TITLE, fontSize=11.5, leading=14, spaceBefore=8, spaceAfter=3, keepWithNext=1
)
_CURVE_TITLE = ParagraphStyle("curve", parent=_TITLE, fontSize=14, leading=17)
_CODE = ParagraphStyle("code", fontName="Courier", fontSize=7, leading=8.4, textColor=_INK)
_CODE_COLUMNS: Final = 118

_VERDICTS: Final = {"good": "OK", "look": "LOOK", "bad": "NOT WHOLE", "unknown": "?"}
_VERDICT_COLOURS: Final = {
    "good": HexColor("#2F6F3E"),
    "look": HexColor("#9A5B00"),
    "bad": HexColor("#A4161A"),
    "unknown": _QUIET,
}
_MAX_PROBLEMS: Final = 200
_LINES_TOGETHER: Final = 12
_STILL_RISING: Final = 0.05
"""A peak at the end of the sweep that rose by this much at the last step is not the system's limit."""
_LESS_OR_EQUAL: Final = '<font name="Symbol">≤</font>'
_FEW_BEYOND: Final = 10
"""With fewer I/Os than this beyond a percentile, its value says little (marked "~")."""


@dataclass(frozen=True, slots=True)
class Pdf:
    """The format `pdf`."""

    name: str = "pdf"

    def file_name(self, stamp: str) -> str:
        return f"performance_report_{stamp}.pdf"

    def write(self, report: Report, file: BinaryIO) -> None:
        document = _Document(file, report)
        document.build(list(_story(report)), canvasmaker=_CountingCanvas)


FORMAT = Pdf()


class _Document(BaseDocTemplate):  # type: ignore[misc]  # ReportLab has no types
    """A4 with a running head; headings become bookmarks."""

    def __init__(self, file: BinaryIO, report: Report) -> None:
        super().__init__(
            file,
            pagesize=A4,
            leftMargin=_MARGIN,
            rightMargin=_MARGIN,
            topMargin=1.7 * cm,
            bottomMargin=1.6 * cm,
            title=f"Performance report: {visible(report.archive_name, 200)}",
            author="cbt",
            subject="Response curves of a Ceph cluster",
        )
        frame = Frame(self.leftMargin, self.bottomMargin, self.width, self.height, 0, 0, 0, 0, id="page")
        self.addPageTemplates(PageTemplate(id="page", frames=[frame], onPage=self._running_head))
        self._head = f"{_printable(report.archive_name, 90)}   ·   {report.made_at:%Y-%m-%d %H:%M}"

    def _running_head(self, canvas: Canvas, _: BaseDocTemplate) -> None:
        canvas.saveState()
        canvas.setFont("Helvetica", 7)
        canvas.setFillColor(_QUIET)
        canvas.drawString(_MARGIN, A4[1] - 1.1 * cm, self._head)
        canvas.restoreState()

    def afterFlowable(self, flowable: Flowable) -> None:  # noqa: N802  # ReportLab's name
        bookmark = getattr(flowable, "bookmark", None)
        if bookmark is not None:
            key, text, level = bookmark
            self.canv.bookmarkPage(key)
            self.canv.addOutlineEntry(text, key, level, closed=False)


class _CountingCanvas(Canvas):  # type: ignore[misc]  # ReportLab has no types
    """Writes "page n of m" once m is known."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._pages: list[dict[str, Any]] = []

    def showPage(self) -> None:  # noqa: N802  # ReportLab's name
        self._pages.append(dict(vars(self)))
        self._startPage()

    def save(self) -> None:
        for number, page in enumerate(self._pages, start=1):
            self.__dict__.update(page)
            self.setFont("Helvetica", 7)
            self.setFillColor(_QUIET)
            self.drawRightString(A4[0] - _MARGIN, 0.95 * cm, f"Page {number} of {len(self._pages)}")
            super().showPage()
        super().save()


def _story(report: Report) -> Iterator[Flowable]:
    yield _heading("Performance report", _TITLE, "top", 0)
    yield Paragraph(f"Archive <b>{_markup(report.archive_name)}</b>: {_in_short(report)}", _BODY)
    yield Spacer(1, 6)
    if report.rows:
        yield _rows_table(report.rows)
    yield _heading("Can it be trusted?", _SECTION, "trust", 0)
    if report.checks:
        yield _checks_table(report.checks)
    yield _heading("Summary", _SECTION, "summary", 0)
    if report.curves:
        yield _summary_table(report.curves)
        yield Paragraph(_SUMMARY_NOTE, _CAPTION)
    else:
        yield Paragraph("The archive holds no points: nothing was measured, or nothing was archived yet.", _BODY)
    yield from _problems(report)
    indexed = list(enumerate(report.curves))
    for index, item in indexed:
        if _drawable_curve(item):
            yield PageBreak()
            yield from _curve_page(item, index, error_bars=report.error_bars)
    for index, item in indexed:  # what has no curve shares pages, at the end
        if not _drawable_curve(item):
            yield CondPageBreak(5 * cm)
            yield Spacer(1, 14)
            yield from _curve_page(item, index, error_bars=report.error_bars)
    yield CondPageBreak(7 * cm)
    yield _heading("Method and units", _SECTION, "method", 0)
    for text in _METHOD:
        yield Paragraph(text, _SMALL)
        yield Spacer(1, 3)
    yield from _plan(report.plan_text)


_SUMMARY_NOTE: Final = (
    "Latency is the mean completion latency (clat). <b>70 %</b>: where most people operate, with headroom for bursts. "
    "<b>Knee</b>: the last point before latency grows faster than throughput, a safe maximum. <b>Peak</b>: the "
    "right-most point; close to it a little more load can cost a great deal of latency. “–”: outside of what was "
    "measured, or without histograms. Depth: the plan’s number for the point."
)

_METHOD: Final = (
    "<b>Throughput</b> is the sum over all instances, reads and writes of a mix together: IOPS for block sizes below "
    "64 KiB, else MB/s (1 MB = 10<super rise=3 size=5>6</super> bytes). The ramp is not in any number.",
    "<b>Latency</b> is completion latency, from submission to completion, in milliseconds. The mean is weighted by the "
    "number of I/Os behind each instance’s mean; the standard deviation is that of all I/Os together, from the "
    "instances’ own and the distances of their means.",
    "<b>Error bars</b> are ± one standard deviation of the latency of the I/Os of a point: the spread that a user’s "
    "I/O sees. They are no confidence interval of the mean; that would need repeats.",
    "<b>Percentiles</b> are taken from the instances’ histograms added bin by bin (fio’s json+; right to 0.8 %). "
    f"Without histograms the largest of the instances stands there, marked {_LESS_OR_EQUAL}: the true one is no "
    f"larger. “~” marks percentiles with fewer than {_FEW_BEYOND} I/Os beyond them. Percentiles are never averaged.",
    "<b>Between points</b> figures lie on the straight line between two measured points, on the rising part of the "
    "curve up to its peak. Outside of what was measured there is no answer.",
    "<b>Knee</b>: the point with the greatest ratio of throughput to latency (Kleinrock’s power: L. Kleinrock, “Power "
    "and deterministic rules of thumb for probabilistic problems in computer communications”, ICC 1979). Up to it, "
    "doubling the queue depth gives more than 1.41 times the throughput. Points past saturation cannot move it. A "
    "point’s ratio counts only as far as a neighbouring point bears it out, so that one noisy point cannot carry it "
    "away.",
    "<b>Overlap</b>: the time in which all instances measured, over the longest measurement. Below 95 % the sum holds "
    "I/Os that were never in flight together; such points are marked “!”.",
    "<b>Little’s law</b>: in a closed loop IOPS × mean total latency equals the queue depth; a point far from it was "
    "measured wrongly.",
    "<b>Partial and failed points</b>: a partial point’s numbers are those of the instances that ran whole, too low by "
    "what is missing; it is drawn hollow, not joined, and in no figure. A failed point has no numbers. <b>Repeats</b> "
    "(iterations) are never added up: the figures are of the repeat whose peak is the median.",
)


def _drawable_curve(item: CurveReport) -> bool:
    return any(point.numbers is not None for point in item.curve.points)


def _in_short(report: Report) -> str:
    points = [point for item in report.curves for point in item.curve.points]
    not_whole = sum(1 for point in points if point.status != "complete")
    if not points:
        return "it holds no points, so there is nothing to report."
    said = f"{count_of(len(report.curves), 'workload')}, {count_of(len(points), 'point')}, "
    return said + ("all whole." if not not_whole else f"<b>{not_whole} of them not whole</b>.")


def _heading(text: str, style: ParagraphStyle, key: str, level: int) -> Paragraph:
    heading = Paragraph(f'<a name="{key}"/>{_markup(text)}', style)
    heading.bookmark = (key, _bookmark_text(text), level)
    return heading


def _rows_table(rows: Sequence[tuple[str, str]]) -> Table:
    cells = [[Paragraph(f"<b>{_markup(name)}</b>", _CELL), Paragraph(_markup(text), _CELL)] for name, text in rows]
    return _table(cells, [3.0 * cm, _WIDTH - 3.0 * cm], [("LINEBELOW", (0, 0), (-1, -1), 0.3, _RULE)])


def _checks_table(checks: Sequence[Check]) -> Table:
    cells = [
        [
            Paragraph(f"<b>{_markup(check.name)}</b>", _CELL),
            Paragraph(
                f'<font color="{_hex(_VERDICT_COLOURS[check.verdict])}"><b>{_VERDICTS[check.verdict]}</b></font>', _CELL
            ),
            Paragraph(_markup(check.text), _CELL),
        ]
        for check in checks
    ]
    return _table(cells, [3.0 * cm, 2.1 * cm, _WIDTH - 5.1 * cm], [("LINEBELOW", (0, 0), (-1, -1), 0.3, _RULE)])


def _summary_table(curves: Sequence[CurveReport]) -> Table:
    top = ["Workload", "Unit", "At 70 % of peak", "", "", "Knee", "", "", "", "Peak", "", "", "Whole"]
    below = ["", "", "load", "ms", "p99", "load", "ms", "p99", "depth", "load", "ms", "depth", "points"]
    rows: list[list[Any]] = [_header_cells(top, _GROUP_HEADER), _header_cells(below, _HEADER)]
    rows += [_summary_row(item, index) for index, item in enumerate(curves)]
    numeric = [1.25, 1.05, 1.1, 1.25, 1.05, 1.1, 1.0, 1.3, 1.15, 1.0, 1.15]
    widths = [_WIDTH - (1.0 + sum(numeric)) * cm, 1.0 * cm, *(w * cm for w in numeric)]
    style = [
        ("SPAN", (2, 0), (4, 0)),
        ("SPAN", (5, 0), (8, 0)),
        ("SPAN", (9, 0), (11, 0)),
        ("LINEBELOW", (0, 1), (-1, 1), 0.8, _HEAD),
        ("LINEBELOW", (0, 2), (-1, -1), 0.3, _RULE),
        ("LINEBEFORE", (2, 0), (2, -1), 0.3, _RULE),
        ("LINEBEFORE", (5, 0), (5, -1), 0.3, _RULE),
        ("LINEBEFORE", (9, 0), (9, -1), 0.3, _RULE),
        ("LINEBEFORE", (12, 0), (12, -1), 0.3, _RULE),
        ("ALIGN", (2, 2), (-1, -1), "RIGHT"),
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
    ]
    return _table(rows, widths, style, repeat=2)


def _header_cells(texts: Sequence[str], style: ParagraphStyle) -> list[Any]:
    return [
        Paragraph(f"<b>{text}</b>", _LEFT_HEADER if i < 2 else style) if text else "" for i, text in enumerate(texts)
    ]


def _summary_row(item: CurveReport, index: int) -> list[Any]:
    name = (
        f'<a href="#curve-{index}" color="{_hex(_HEAD)}"><b>{_markup(item.title)}</b></a><br/>{_markup(item.subtitle)}'
    )
    at, knee, peak = item.at_70_percent, item.knee, item.peak
    points = item.curve.points
    whole = sum(1 for p in points if p.status == "complete")
    return [
        Paragraph(name, _CELL),
        item.curve.throughput_unit,
        *_at_load_cells(at),
        *(_point_cells(item, knee.point) if knee else ("–", "–", "–", "–")),
        *(_peak_cells(item, peak) if peak else ("–", "–", "–")),
        f"{whole} of {len(points)}",
    ]


def _at_load_cells(at: AtLoad | None) -> tuple[str, str, str]:
    if at is None:
        return "–", "–", "–"
    return throughput(at.throughput), latency_ms(at.latency_ns), latency_ms(at.p99_ns)


def _point_cells(item: CurveReport, point: ResultPoint) -> tuple[str, Any, Any, str]:
    return _load(item, point), _mean(point), _percentile(point, 99.0), point.label


def _peak_cells(item: CurveReport, point: ResultPoint) -> tuple[str, str, str]:
    return _load(item, point), _mean(point), point.label


def _load(item: CurveReport, point: ResultPoint) -> str:
    return "–" if point.numbers is None else throughput(item.curve.throughput(point.numbers))


def _mean(point: ResultPoint) -> str:
    return "–" if point.numbers is None else latency_ms(point.numbers.latency_mean_ns)


def _percentile(point: ResultPoint, percent: float) -> Any:
    numbers = point.numbers
    if numbers is None or numbers.percentiles_ns is None or percent not in numbers.percentiles_ns:
        return "–"
    text = latency_ms(numbers.percentiles_ns[percent])
    if numbers.percentiles_are_bounds:
        return Paragraph(f"{_LESS_OR_EQUAL} {text}", _RIGHT_CELL)
    few = numbers.latency_count * (100 - percent) / 100 < _FEW_BEYOND
    return f"~ {text}" if few else text


def _problems(report: Report) -> Iterator[Flowable]:
    if not report.problems:
        return
    yield _heading("Left out", _SECTION, "problems", 0)
    shown = report.problems[:_MAX_PROBLEMS]
    cells = [[Paragraph(_markup(p.where), _CELL), Paragraph(_markup(p.reason), _CELL)] for p in shown]
    yield _table(cells, [_WIDTH * 0.5, _WIDTH * 0.5], [("LINEBELOW", (0, 0), (-1, -1), 0.3, _RULE)])
    if len(report.problems) > _MAX_PROBLEMS:
        more = len(report.problems) - _MAX_PROBLEMS
        yield Paragraph(f"and {more} more, all of them in results.json.", _CAPTION)


def _curve_page(item: CurveReport, index: int, *, error_bars: bool) -> Iterator[Flowable]:
    yield _heading_of_curve(item, index)
    yield Paragraph(_markup(item.subtitle), _CAPTION)
    rows = len(item.curve.points)
    height = max(_LOWEST_PLOT, _TALLEST_PLOT - max(0, rows - _ROWS_BESIDE_TALLEST) * _TABLE_ROW)
    drawn = draw_curve(item, width=_WIDTH, height=height, error_bars=error_bars)
    if drawn is None:
        yield Paragraph("<b>No point of this workload has numbers</b>; the reasons stand below.", _BODY)
        yield Spacer(1, 8)
    else:
        drawing, features = drawn
        yield drawing
        yield Paragraph(_caption(item, features), _CAPTION)
        yield _figures_table(item)
        yield Spacer(1, 8)
    yield from _points_tables(item)


def _heading_of_curve(item: CurveReport, index: int) -> Paragraph:
    heading = Paragraph(f'<a name="curve-{index}"/>{_markup(item.title)}', _CURVE_TITLE)
    heading.bookmark = (f"curve-{index}", _bookmark_text(f"{item.title} ({item.subtitle})"), 0)
    return heading


def _caption(item: CurveReport, features: Features) -> str:
    words = [f"Mean completion latency over throughput; the number beside a point is its {_markup(_depth_name(item))}."]
    if features.error_bars:
        words.append(
            "<b>Red bars: ± one standard deviation of the latency of the point’s I/Os</b> (the spread an I/O sees, "
            "no confidence interval), clipped at 0."
        )
    if features.cut_bars:
        words.append("A bar with an arrow goes on beyond the plot; its length is in the table.")
    if features.knee:
        words.append("Diamond: knee.")
    if features.operating_load:
        words.append("Dotted: 70 % of the peak.")
    if features.partial:
        words.append("<b>Hollow: partial points, too low by what is missing, not joined.</b>")
    if features.repeats:
        words.append(f"Dark: iteration {item.reading.iteration}; grey and dashed: the other iterations.")
    return " ".join(words)


def _depth_name(item: CurveReport) -> str:
    names = {name for point in item.curve.points for name in point.setting}
    return names.pop() if len(names) == 1 else "queue depth"


def _figures_table(item: CurveReport) -> Table:
    cells = [
        [Paragraph(f"<b>{number}</b>", _CELL), Paragraph(f"<b>{name}</b>", _CELL), Paragraph(text, _CELL)]
        for number, (name, text) in enumerate(_five_figures(item), start=1)
    ]
    return _table(
        cells,
        [0.6 * cm, 4.0 * cm, _WIDTH - 4.6 * cm],
        [("BACKGROUND", (0, 0), (-1, -1), _SHADE), ("LINEBELOW", (0, 0), (-1, -2), 0.3, _RULE)],
    )


def _five_figures(item: CurveReport) -> list[tuple[str, str]]:
    """The five things people read from a curve (METHOD.md), in words."""
    unit = item.curve.throughput_unit
    if item.peak is None or item.peak.numbers is None:
        return [("No figures", "no point of this workload ran whole")]
    loads = " · ".join(f"{throughput(a.throughput)} {unit}: <b>{latency_ms(a.latency_ns)} ms</b>" for a in item.loads)
    limits = " · ".join(
        f"{w.limit_ns / 1e6:,g} ms: <b>{throughput(w.throughput)} {unit}</b>" + (" (the peak)" if w.is_peak else "")
        for w in item.limits
    )
    peak = f"<b>{_load(item, item.peak)} {unit}</b> at {_depth(item.peak)}, mean latency {_mean(item.peak)} ms"
    gain = item.reading.last_gain
    if len(item.reading.points) == 1:
        peak += "; only one point was measured, so the system may do more"
    elif gain is not None and gain >= _STILL_RISING:
        peak += f"; it still rose by {gain:.0%} at the last step of the sweep, so the system may do more"
    if len(item.repeats) > 1:
        low, high = min(item.repeats), max(item.repeats)
        peak += f"; peaks of the {len(item.repeats)} repeats: {throughput(low)} to {throughput(high)} {unit}"
    return [
        ("Latency at a given load", loads or "one load only was measured"),
        ("The most it does (peak)", peak),
        ("The most within a latency", limits or "no round latency limit lies within what was measured"),
        ("A safe maximum (knee)", _knee_words(item)),
        ("70 % of the peak", _operating_words(item)),
    ]


def _knee_words(item: CurveReport) -> str:
    if item.knee is None:
        whole = len(item.reading.points)
        return (
            "none: with fewer than three whole points no bend can be told"
            if whole < 3
            else "not reached: throughput still grew faster than latency at the end of the sweep"
        )
    point = item.knee.point
    load = f"{_load(item, point)} {item.curve.throughput_unit}"
    words = f"<b>{load}</b> at {_depth(point)}, mean latency <b>{_mean(point)} ms</b>"
    if point.numbers is not None and point.numbers.percentiles_ns and not point.numbers.percentiles_are_bounds:
        words += f", p99 {latency_ms(point.numbers.percentiles_ns.get(99.0))} ms"
    if item.knee.at_first:
        words += "; this is the first point: the curve bends from the start, the true knee may lie lower"
    return words


def _operating_words(item: CurveReport) -> str:
    at = item.at_70_percent
    if at is None:
        return "not measured: the first whole point is already above that load, or there is one point only"
    p99 = "" if at.p99_ns is None else f", p99 about {latency_ms(at.p99_ns)} ms"
    load = f"{throughput(at.throughput)} {item.curve.throughput_unit}"
    return f"<b>{load}</b>, mean latency <b>{latency_ms(at.latency_ns)} ms</b>{p99}"


def _depth(point: ResultPoint) -> str:
    if len(point.setting) == 1:
        name, value = next(iter(point.setting.items()))
        return f"{_markup(name)} {value}"
    return f"queue depth {point.queue_depth}"


def _points_tables(item: CurveReport) -> Iterator[Flowable]:
    curve = item.curve
    repeats = len(curve.iterations) > 1
    outstanding = any(point.label != str(point.queue_depth) for point in curve.points)
    header = [
        *(["Run"] if repeats else []),
        _markup(_depth_name(item)).replace("_", "_<br/>") if _depth_name(item) != "queue depth" else "Depth",
        *(["Out-<br/>standing"] if outstanding else []),
        "IOPS",
        "MB/s",
        "Mean<br/>ms",
        "Std dev<br/>ms",
        *(f"{percent_name(p)}<br/>ms" for p in PERCENTS),
        "Overlap",
        "Status",
    ]
    rows: list[list[Any]] = [
        [Paragraph(text, _HEADER if i < len(header) - 1 else _LEFT_HEADER) for i, text in enumerate(header)]
    ]
    shaded = []
    for point in curve.points:
        first = [*([str(point.iteration)] if repeats else []), point.label]
        rows.append([*first, *([str(point.queue_depth)] if outstanding else []), *_points_row(item, point)])
        if point.status != "complete":
            shaded.append(("BACKGROUND", (0, len(rows) - 1), (-1, len(rows) - 1), _SHADE))
    numeric = [
        *([0.9] if repeats else []),
        1.35,
        *([1.35] if outstanding else []),
        1.5,
        1.5,
        1.25,
        1.35,
        *([1.3] * len(PERCENTS)),
        1.4,
    ]
    widths = [*(w * cm for w in numeric), _WIDTH - sum(numeric) * cm]
    yield _table(
        rows,
        widths,
        [
            ("LINEBELOW", (0, 0), (-1, 0), 0.8, _HEAD),
            ("LINEBELOW", (0, 1), (-1, -1), 0.3, _RULE),
            ("ALIGN", (0, 0), (-2, -1), "RIGHT"),
            ("VALIGN", (0, 0), (-1, 0), "BOTTOM"),
            *shaded,
        ],
        repeat=1,
    )
    remarks = list(_remarks(item))
    if remarks:
        yield Spacer(1, 4)
        yield KeepTogether([Paragraph("<b>Remarks</b>", _SMALL), *remarks[:2]])
        yield from remarks[2:]


def _points_row(item: CurveReport, point: ResultPoint) -> list[Any]:
    numbers = point.numbers
    status: str = point.status
    if status == "partial" and point.instances_expected:
        status = f"{status} {point.instances_observed}/{point.instances_expected}"
    tags = []
    if item.knee is not None and point is item.knee.point:
        tags.append("knee")
    if point is item.peak:
        tags.append("peak")
    shown = " · ".join([status, *tags])
    if numbers is None:
        return [*(["–"] * (5 + len(PERCENTS))), shown]
    return [
        throughput(numbers.iops),
        throughput(numbers.bandwidth_bytes_per_s / 1e6),
        latency_ms(numbers.latency_mean_ns),
        latency_ms(numbers.latency_stddev_ns),
        *(_percentile(point, percent) for percent in PERCENTS),
        ("! " if point.doubtful_overlap else "") + share(point.overlap),
        shown,
    ]


def _remarks(item: CurveReport) -> Iterator[Paragraph]:
    """Why points are not whole, and what else was noted of them; equal remarks of several points are one line."""
    said: dict[str, list[str]] = {}
    for point in item.curve.points:
        where = point.label + (f" (iteration {point.iteration})" if len(item.curve.iterations) > 1 else "")
        reasons = [f"{point.status}: {point.reason}"] if point.reason else []
        for text in (*reasons, *point.notes):
            said.setdefault(text, []).append(where)
    for text, places in said.items():
        shown = ", ".join(places[:12]) + (", …" if len(places) > 12 else "")
        yield Paragraph(f"<b>{_markup(shown)}</b>: {_markup(text)}", _SMALL)


def _plan(plan_text: str | None) -> Iterator[Flowable]:
    yield CondPageBreak(4 * cm)
    yield _heading("Plan", _SECTION, "plan", 0)
    if plan_text is None:
        yield Paragraph("The archive holds no plan.", _SMALL)
        return
    lines = list(_code_lines(plan_text))
    for first in range(0, len(lines), _LINES_TOGETHER):  # in parts, or the heading would keep all of it together
        yield Preformatted("\n".join(lines[first : first + _LINES_TOGETHER]), _CODE)


def _code_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        shown = _printable(line.expandtabs(4), 100_000)
        yield shown[:_CODE_COLUMNS]
        rest = shown[_CODE_COLUMNS:]
        while rest:
            yield "    " + rest[: _CODE_COLUMNS - 4]
            rest = rest[_CODE_COLUMNS - 4 :]


def _table(
    cells: Sequence[Sequence[Any]], widths: Sequence[float], style: Sequence[tuple[Any, ...]], repeat: int = 0
) -> Table:
    common = [
        ("FONT", (0, 0), (-1, -1), "Helvetica", 7.5, 9),
        ("TEXTCOLOR", (0, 0), (-1, -1), _INK),
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("LEFTPADDING", (0, 0), (-1, -1), 3),
        ("RIGHTPADDING", (0, 0), (-1, -1), 3),
        ("TOPPADDING", (0, 0), (-1, -1), 2),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 2.2),
    ]
    return Table(cells, colWidths=widths, style=[*common, *style], repeatRows=repeat, hAlign="LEFT")


def _hex(colour: Color) -> str:
    return f"#{colour.hexval()[2:]}"


def _printable(text: str, limit: int = 2000) -> str:
    """Text the standard fonts can draw; other characters are shown as escapes, so nothing vanishes."""
    shown = visible(text, limit)
    return "".join(c if _drawable(c) else c.encode("unicode_escape").decode("ascii") for c in shown)


def _drawable(character: str) -> bool:
    try:
        character.encode("cp1252")
    except UnicodeEncodeError:
        return False
    return True


def _markup(text: str) -> str:
    """User text for a Paragraph: drawable, and with markup taken literally."""
    return escape(_printable(text))


def _bookmark_text(text: str) -> str:
    return visible(text, 120)
