"""A response curve as a vector drawing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from reportlab.graphics.shapes import Circle, Drawing, Group, Line, Polygon, PolyLine, Rect, String
from reportlab.lib.colors import Color, HexColor
from reportlab.pdfbase.pdfmetrics import stringWidth

from post_processing.report import CurveReport, nice_step
from post_processing.results import ResultPoint

CURVE: Final = HexColor("#1B3A5C")
ERROR: Final = HexColor("#C8102E")
REPEAT: Final = HexColor("#8A9BAD")
GRID: Final = HexColor("#E4E7EB")
AXIS: Final = HexColor("#4A5058")
MARK: Final = HexColor("#6B7280")
WHITE: Final = HexColor("#FFFFFF")

_FONT, _BOLD = "Helvetica", "Helvetica-Bold"
_TICK_SIZE, _LABEL_SIZE, _TITLE_SIZE = 7.5, 7.0, 8.5
_RADIUS = 2.6
_LEFT, _RIGHT, _BOTTOM, _TOP = 52.0, 14.0, 36.0, 16.0
_TALLEST_BARS = 2.0
"""How much of the height error bars may claim: the axis ends at this many times the largest mean at most."""


@dataclass(frozen=True, slots=True)
class Features:
    """What of a plot needs a word of explanation below it."""

    error_bars: bool
    cut_bars: bool
    partial: bool
    repeats: bool
    knee: bool
    operating_load: bool


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.bottom < other.top and other.bottom < self.top
        )

    def within(self, other: _Box) -> bool:
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.bottom >= other.bottom
            and self.top <= other.top
        )

    def crossed_by(self, x1: float, y1: float, x2: float, y2: float) -> bool:
        """Whether a line comes through (Liang and Barsky's clipping)."""
        enter, leave = 0.0, 1.0
        for delta, distance in (
            (x1 - x2, x1 - self.left),
            (x2 - x1, self.right - x1),
            (y1 - y2, y1 - self.bottom),
            (y2 - y1, self.top - y1),
        ):
            if delta == 0:
                if distance < 0:
                    return False
            elif delta < 0:
                enter = max(enter, distance / delta)
            else:
                leave = min(leave, distance / delta)
        return enter <= leave


@dataclass(slots=True)
class _Plot:
    """The plotting area and its scales: throughput → x, latency in ms → y."""

    width: float
    height: float
    x_top: float
    y_top: float
    taken: list[_Box] = field(default_factory=list)
    lines: list[tuple[float, float, float, float]] = field(default_factory=list)

    @property
    def area(self) -> _Box:
        return _Box(_LEFT, _BOTTOM, self.width - _RIGHT, self.height - _TOP)

    def x(self, value: float) -> float:
        return self.area.left + value / self.x_top * (self.area.right - self.area.left)

    def y(self, latency_ms: float) -> float:
        return self.area.bottom + latency_ms / self.y_top * (self.area.top - self.area.bottom)


def draw_curve(item: CurveReport, *, width: float, height: float, error_bars: bool) -> tuple[Drawing, Features] | None:
    """The curve, and what is to be explained below it; None when no point has numbers."""
    shown = [point for point in item.curve.points if point.numbers is not None]
    if not shown:
        return None
    plot = _scaled(item, shown, width, height, error_bars=error_bars)
    drawing = Drawing(width, height)
    main = [p for p in shown if p.iteration == item.reading.iteration]
    others = [p for p in shown if p.iteration != item.reading.iteration]
    drawing.add(_axes(plot, item))
    operating = _operating_load(plot, item)
    if operating is not None:
        drawing.add(operating)
    for iteration in sorted({p.iteration for p in others}):
        drawing.add(_repeat(plot, item, [p for p in others if p.iteration == iteration]))
    cut = False
    if error_bars:
        for point in main:
            bar, is_cut = _error_bar(plot, item, point)
            drawing.add(bar)
            cut = cut or is_cut
    drawing.add(_main_line(plot, item, [p for p in main if p.status == "complete"]))
    for point in main:
        drawing.add(_marker(plot, item, point))
    drawing.add(_labels(plot, item, main))
    return drawing, Features(
        error_bars=error_bars,
        cut_bars=cut,
        partial=any(p.status == "partial" for p in shown),
        repeats=bool(others),
        knee=item.knee is not None,
        operating_load=operating is not None,
    )


def _value(item: CurveReport, point: ResultPoint) -> float:
    if point.numbers is None:
        raise ValueError("a point without numbers cannot be drawn")
    return item.curve.throughput(point.numbers)


def _mean_ms(point: ResultPoint) -> float:
    return 0.0 if point.numbers is None else point.numbers.latency_mean_ns / 1e6


def _stddev_ms(point: ResultPoint) -> float:
    return 0.0 if point.numbers is None else point.numbers.latency_stddev_ns / 1e6


def _scaled(item: CurveReport, shown: Sequence[ResultPoint], width: float, height: float, *, error_bars: bool) -> _Plot:
    """Both axes start at 0. The means decide the height; bars may double it, what goes on beyond is cut."""
    highest_mean = max(_mean_ms(p) for p in shown)
    highest = max(_mean_ms(p) + _stddev_ms(p) for p in shown) if error_bars else highest_mean
    y_top = min(highest, _TALLEST_BARS * highest_mean) * 1.06
    x_top = max(_value(item, p) for p in shown) * 1.06
    return _Plot(width, height, x_top or 1.0, y_top or 1.0)


def _ticks(top: float, about: int) -> list[float]:
    step = nice_step(top / about)
    return [step * k for k in range(math.floor(top / step * (1 + 1e-9)) + 1)]


def _tick_text(value: float, step: float) -> str:
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if step * 10**decimals % 1 > 1e-6:  # a step of 2.5 needs one more
        decimals += 1
    return f"{value:,.{decimals}f}"


def _axes(plot: _Plot, item: CurveReport) -> Group:
    group = Group()
    area = plot.area
    x_ticks, y_ticks = _ticks(plot.x_top, 7), _ticks(plot.y_top, 6)
    for value in y_ticks:
        y = plot.y(value)
        group.add(Line(area.left, y, area.right, y, strokeColor=GRID, strokeWidth=0.6))
        text = _tick_text(value, y_ticks[1] if len(y_ticks) > 1 else 1)
        group.add(_text(area.left - 5, y - 2.6, text, _TICK_SIZE, AXIS, anchor="end"))
    for value in x_ticks:
        x = plot.x(value)
        group.add(Line(x, area.bottom, x, area.top, strokeColor=GRID, strokeWidth=0.6))
        text = _tick_text(value, x_ticks[1] if len(x_ticks) > 1 else 1)
        group.add(_text(x, area.bottom - 11, text, _TICK_SIZE, AXIS, anchor="middle"))
    group.add(Line(area.left, area.bottom, area.right, area.bottom, strokeColor=AXIS, strokeWidth=0.9))
    group.add(Line(area.left, area.bottom, area.left, area.top, strokeColor=AXIS, strokeWidth=0.9))
    name = "Throughput (MB/s)" if item.curve.in_bandwidth else "Throughput (IOPS)"
    group.add(_text((area.left + area.right) / 2, 8, name, _TITLE_SIZE, AXIS, anchor="middle", font=_BOLD))
    side = Group(_text(0, 0, "Latency (ms)", _TITLE_SIZE, AXIS, anchor="middle", font=_BOLD))
    side.translate(11, (area.bottom + area.top) / 2)
    side.rotate(90)
    group.add(side)
    return group


def _operating_load(plot: _Plot, item: CurveReport) -> Group | None:
    at = item.at_70_percent
    if at is None:
        return None
    x, y, area = plot.x(at.throughput), plot.y(at.latency_ns / 1e6), plot.area
    group = Group()
    group.add(Line(x, area.bottom, x, area.top, strokeColor=MARK, strokeWidth=0.7, strokeDashArray=[2, 2.5]))
    group.add(Line(area.left, y, x, y, strokeColor=MARK, strokeWidth=0.5, strokeDashArray=[1, 2.5]))
    group.add(_text(x, area.top + 4, "70 % of peak", _LABEL_SIZE, MARK, anchor="middle"))
    plot.lines += [(x, area.bottom, x, area.top), (area.left, y, x, y)]
    return group


def _repeat(plot: _Plot, item: CurveReport, points: Sequence[ResultPoint]) -> Group:
    group = Group()
    whole = [p for p in points if p.status == "complete"]
    if len(whole) > 1:
        group.add(_line(plot, item, whole, REPEAT, 0.8, dashes=[4, 2]))
    for point in points:
        x, y = plot.x(_value(item, point)), plot.y(_mean_ms(point))
        fill = REPEAT if point.status == "complete" else WHITE
        group.add(Circle(x, y, 1.6, fillColor=fill, strokeColor=REPEAT, strokeWidth=0.7))
        plot.taken.append(_Box(x - 1.6, y - 1.6, x + 1.6, y + 1.6))
    return group


def _main_line(plot: _Plot, item: CurveReport, points: Sequence[ResultPoint]) -> Group:
    group = Group()
    if len(points) < 2:
        return group
    group.add(_line(plot, item, points, CURVE, 1.5))
    places = [(plot.x(_value(item, p)), plot.y(_mean_ms(p))) for p in points]
    plot.lines += [(*a, *b) for a, b in itertools.pairwise(places)]
    return group


def _line(
    plot: _Plot,
    item: CurveReport,
    points: Sequence[ResultPoint],
    colour: Color,
    width: float,
    dashes: list[float] | None = None,
) -> PolyLine:
    flat = [c for p in points for c in (plot.x(_value(item, p)), plot.y(_mean_ms(p)))]
    return PolyLine(flat, strokeColor=colour, strokeWidth=width, strokeDashArray=dashes, strokeLineJoin=1)


def _error_bar(plot: _Plot, item: CurveReport, point: ResultPoint) -> tuple[Group, bool]:
    """± one standard deviation, clipped at 0; a bar that leaves the plot ends in an arrow."""
    group = Group()
    x = plot.x(_value(item, point))
    mean, spread = _mean_ms(point), _stddev_ms(point)
    low, high = plot.y(max(0.0, mean - spread)), mean + spread
    cut = high > plot.y_top
    top = plot.area.top if cut else plot.y(high)
    dashes = [1.5, 1.5] if point.status == "partial" else None
    group.add(Line(x, low, x, top, strokeColor=ERROR, strokeWidth=0.9, strokeDashArray=dashes))
    if mean > spread:
        group.add(Line(x - 3, low, x + 3, low, strokeColor=ERROR, strokeWidth=0.9))
    if cut:
        group.add(Polygon([x - 3, top - 5, x + 3, top - 5, x, top], fillColor=ERROR, strokeColor=ERROR, strokeWidth=0))
    else:
        group.add(Line(x - 3, top, x + 3, top, strokeColor=ERROR, strokeWidth=0.9))
    plot.lines.append((x, low, x, top))
    return group, cut


def _marker(plot: _Plot, item: CurveReport, point: ResultPoint) -> Group:
    x, y = plot.x(_value(item, point)), plot.y(_mean_ms(point))
    group = Group()
    reach = _RADIUS
    if item.knee is not None and point is item.knee.point:
        reach = 5.5
        group.add(
            Polygon(
                [x - reach, y, x, y + reach, x + reach, y, x, y - reach],
                fillColor=WHITE,
                strokeColor=CURVE,
                strokeWidth=1.1,
            )
        )
    fill = CURVE if point.status == "complete" else WHITE
    group.add(Circle(x, y, _RADIUS, fillColor=fill, strokeColor=CURVE, strokeWidth=1.1))
    plot.taken.append(_Box(x - reach, y - reach, x + reach, y + reach))
    return group


def _labels(plot: _Plot, item: CurveReport, points: Sequence[ResultPoint]) -> Group:
    """What people call each point, where there is room: knee and peak first, then from the outside in."""
    group = Group()
    for point in _by_importance(item, points):
        words = point.label
        if item.knee is not None and point is item.knee.point:
            words += " (knee)"
        elif point is item.peak:
            words += " (peak)"
        important = point is item.peak or (item.knee is not None and point is item.knee.point)
        font = _BOLD if important else _FONT
        x, y = plot.x(_value(item, point)), plot.y(_mean_ms(point))
        box = _place(plot, x, y, stringWidth(words, font, _LABEL_SIZE), important=important)
        if box is not None:
            plot.taken.append(box)
            group.add(
                Rect(
                    box.left,
                    box.bottom,
                    box.right - box.left,
                    box.top - box.bottom,
                    fillColor=WHITE,
                    strokeColor=None,
                    fillOpacity=0.7,
                )
            )
            group.add(_text(box.left + 1, box.bottom + 1.6, words, _LABEL_SIZE, CURVE, font=font))
    return group


def _by_importance(item: CurveReport, points: Sequence[ResultPoint]) -> Iterator[ResultPoint]:
    first = [p for p in points if p is item.peak or (item.knee is not None and p is item.knee.point)]
    yield from first
    yield from (p for p in reversed(points) if all(p is not f for f in first))


def _place(plot: _Plot, x: float, y: float, width: float, *, important: bool) -> _Box | None:
    """The first free place around a point; an important label may lie across a line if there is none."""
    height, width = _LABEL_SIZE + 1.2, width + 2
    offsets = []
    for reach in (6.5, 11.0, 16.0):
        offsets += [
            (-reach - width, 1.0),
            (reach, -height - 1.0),
            (reach, 1.0),
            (-reach - width, -height - 1.0),
            (-width / 2, reach),
            (-width / 2, -reach - height),
        ]
    boxes = [_Box(x + dx, y + dy, x + dx + width, y + dy + height) for dx, dy in offsets]
    free = [b for b in boxes if b.within(plot.area) and not any(b.overlaps(t) for t in plot.taken)]
    clear = next((b for b in free if not any(b.crossed_by(*line) for line in plot.lines)), None)
    if clear is None and important:
        return next(iter(free), None)
    return clear


def _text(
    x: float, y: float, text: str, size: float, colour: Color, *, anchor: str = "start", font: str = _FONT
) -> String:
    return String(x, y, text, fontName=font, fontSize=size, fillColor=colour, textAnchor=anchor)
