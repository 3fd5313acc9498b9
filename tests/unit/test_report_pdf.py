"""The PDF can be read: real text, nothing over anything else, nothing out of the page, user text taken literally."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader
from reportlab.lib.pagesizes import A4
from reportlab.pdfbase.pdfmetrics import stringWidth

from post_processing.load import load_archive
from post_processing.report import build_report
from post_processing.reports import all_formats
from post_processing.reports.drawing import draw_curve
from tests.unit.archive_factory import Ran, WorkloadSpec, write_archive

SWEEP = (2, 4, 8, 12, 16, 24, 32, 64, 96, 128, 192, 288, 384)


def hockey(latency_ms: float, bend: float) -> Any:
    return lambda n: latency_ms * (1 + (n / bend) ** 3) ** (1 / 3)


LONG = "w" * 60
EVIL = "<b>bold</b> & | <para> ../x\n\x1b[31m ü 漢"
WORKLOADS = [
    WorkloadSpec("4krandomread", depths=SWEEP, latency_ms=hockey(0.4, 60)),
    WorkloadSpec(LONG, mode="randwrite", op_size=8192, depths=SWEEP, latency_ms=hockey(1.2, 30)),
    WorkloadSpec(EVIL, mode="randrw", op_size=16384, rwmixread=70, depths=SWEEP, latency_ms=hockey(90_000, 30)),
    WorkloadSpec("one point", mode="read", op_size=1 << 20, depths=(16,)),
    WorkloadSpec("failed", mode="write", op_size=1 << 20, depths=(1, 2)),
    WorkloadSpec("fast", mode="write", op_size=4096, depths=SWEEP, latency_ms=hockey(0.001, 30), numjobs=4),
    WorkloadSpec("equal", mode="read", op_size=4096, depths=(1, 2, 4), latency_ms=lambda n: 0.1 * n),
]


def ran(spec: WorkloadSpec, depth: int, _: int) -> Ran:
    if spec.name == "failed":
        return Ran("failed", f"<i>{EVIL}</i> " + "x" * 300)
    if spec.name == LONG and depth == 16:
        return Ran("partial", "1 of 4 instances failed: client-1: " + "y" * 120, frozenset({0}))
    if spec.name == "4krandomread" and depth == 24:
        return Ran(overlap=0.7, notes=("overlap of 70 %",))
    return Ran()


def pdf_of(archive: Path, *, error_bars: bool = True) -> PdfReader:
    report = build_report(load_archive(archive), made_at=datetime(2026, 11, 21, tzinfo=UTC), error_bars=error_bars)
    file = io.BytesIO()
    all_formats()["pdf"].write(report, file)
    return PdfReader(file)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> PdfReader:
    folder = tmp_path_factory.mktemp("pdf")
    plan = f"cluster: {{clients: [{LONG * 5}]}}\nbenchmarks:\n\tlibrbdfio: '<b>&</b> {EVIL}'\n" + "line\n" * 150
    return pdf_of(write_archive(folder / ("a" * 100), WORKLOADS, ran=ran, iterations=1, plan=plan))


@dataclass(frozen=True)
class Piece:
    """One run of text on a page."""

    text: str
    left: float
    base: float
    right: float
    size: float


def pieces(page: Any) -> Iterator[Piece]:
    found: list[Piece] = []
    origins: list[tuple[float, float]] = []

    def visit(text: str, cm: list[float], tm: list[float], font: Any, size: float) -> None:
        shown = text.strip("\n")
        if not shown.strip() or font is None or tm[1] or cm[1]:  # turned text is the name of an axis
            return
        x = tm[4] * cm[0] + cm[4]
        y = tm[5] * cm[3] + cm[5]
        if origins and origins[-1] == (x, y):  # the same line goes on in another font; pypdf repeats where it began
            x = found[-1].right
        origins.append((tm[4] * cm[0] + cm[4], y))
        width = stringWidth(shown.rstrip(), font["/BaseFont"].lstrip("/"), size)
        found.append(Piece(shown, x, y, x + width, size))

    page.extract_text(visitor_text=visit)
    yield from found


def text_of(reader: PdfReader) -> str:
    return "\n".join(page.extract_text() for page in reader.pages)


def test_no_text_leaves_the_page_or_runs_into_other_text(reader: PdfReader) -> None:
    """Names of 60 characters, latencies of 100 s and of 1 µs, long reasons: everything keeps to its place."""
    for number, page in enumerate(reader.pages, start=1):
        found = list(pieces(page))
        assert found, f"page {number} is empty"
        for piece in found:
            assert piece.left >= 20, (number, piece)
            assert piece.right <= A4[0] - 20, (number, piece)
            assert 15 <= piece.base <= A4[1] - 15, (number, piece)
        for i, one in enumerate(found):
            for other in found[i + 1 :]:
                if abs(one.base - other.base) < 0.6 * min(one.size, other.size):
                    apart = one.right <= other.left + 0.8 or other.right <= one.left + 0.8
                    assert apart, (number, one, other)


def test_user_text_is_taken_literally(reader: PdfReader) -> None:
    """Markup in names is shown, not obeyed; what cannot be drawn is shown as an escape."""
    text = text_of(reader)
    assert "<b>bold</b> & | <para> ../x\\n\\x1b[31m ü \\u6f22" in text.replace("\n", " ").replace("  ", " ")
    assert LONG in text


def test_the_first_page_answers_what_when_and_whether_to_trust(reader: PdfReader) -> None:
    """Verdict, checks, and a row for every workload stand before anything else."""
    text = reader.pages[0].extract_text()
    assert "Performance report" in text
    assert "not whole" in text
    assert "Can it be trusted?" in text
    for title in ("4K Random Read", "8K Random Write", "16K 70/30 Random Read/Write", "1M Sequential Read"):
        assert title in text


def test_every_curve_states_the_five_figures(reader: PdfReader) -> None:
    """A reader finds each without computing."""
    pages = [text for page in reader.pages if "4krandomread" in (text := page.extract_text()) and "Overlap" in text]
    (page,) = [text for text in pages if "Throughput (IOPS)" in text]
    for figure in (
        "Latency at a given load",
        "The most it does (peak)",
        "The most within a latency",
        "A safe maximum (knee)",
        "70 % of the peak",
    ):
        assert figure in page
    assert "one standard deviation" in page
    assert "64 (knee)" in page
    assert "384 (peak)" in page
    assert "! 70.0 %" in page


def test_partial_points_are_marked_and_explained(reader: PdfReader) -> None:
    """The page says hollow, how many instances, and why."""
    (page,) = [t for p in reader.pages if LONG in (t := p.extract_text()) and "Throughput (IOPS)" in t]
    assert "Hollow: partial points" in page
    assert "partial 3/4" in page
    assert "1 of 4 instances failed" in page


def test_pages_are_numbered_and_bookmarked(reader: PdfReader) -> None:
    """Page n of m, and a bookmark for every curve that leads to its page."""
    total = len(reader.pages)
    for number, page in enumerate(reader.pages, start=1):
        assert f"Page {number} of {total}" in page.extract_text()
    outline = {str(entry["/Title"]): entry for entry in reader.outline if not isinstance(entry, list)}
    title = next(title for title in outline if title.startswith("4K Random Read (4krandomread"))
    place = reader.get_destination_page_number(outline[title])
    assert place is not None
    assert "4krandomread" in reader.pages[place].extract_text()
    assert {"Can it be trusted?", "Summary", "Method and units", "Plan"} <= outline.keys()


def test_no_page_is_nearly_empty_but_the_last(reader: PdfReader) -> None:
    """A workload without numbers does not take a page of its own."""
    for page in reader.pages[:-1]:
        assert min(piece.base for piece in pieces(page) if "Page " not in piece.text) < 0.62 * A4[1]


def test_pages_are_a4(reader: PdfReader) -> None:
    """Portrait, 210 by 297 mm."""
    assert {tuple(round(float(v)) for v in page.mediabox[2:]) for page in reader.pages} == {(595, 842)}


def test_an_archive_without_points_gives_a_report_that_says_so(tmp_path: Path) -> None:
    """Nothing to report is an answer too."""
    text = text_of(pdf_of(write_archive(tmp_path / "a", [])))
    assert "nothing to report" in text
    assert "The archive holds no plan" not in text


def test_an_archive_that_recorded_nothing_at_all_gives_a_report(tmp_path: Path) -> None:
    """Refused by preflight: no session, no point, and yet a report that says that there are no points."""
    archive = write_archive(tmp_path / "a", [])
    (archive / "results/session-01.json").unlink()
    assert "holds no points" in text_of(pdf_of(archive))


def test_bounds_are_marked_as_such(tmp_path: Path) -> None:
    """Without histograms the table shows ≤, and interpolates no percentile."""
    text = text_of(pdf_of(write_archive(tmp_path / "a", [WorkloadSpec("w")], bins=False)))
    assert "≤" in text
    assert "p99 about" not in text


def plotted(archive: Path, *, error_bars: bool = True) -> Any:
    (item,) = build_report(load_archive(archive), made_at=datetime(2026, 11, 21, tzinfo=UTC)).curves
    drawn = draw_curve(item, width=500, height=300, error_bars=error_bars)
    assert drawn is not None
    return drawn


def wide(document: dict[str, Any], _: int) -> dict[str, Any]:
    document["jobs"][0]["read"]["clat_ns"]["stddev"] *= 50
    return document


def test_a_large_deviation_does_not_squash_the_curve(tmp_path: Path) -> None:
    """Bars that leave the plot end in an arrow, and the caption is told."""
    tame = plotted(write_archive(tmp_path / "a", [WorkloadSpec("w")]))[1]
    wild = plotted(write_archive(tmp_path / "b", [WorkloadSpec("w")], ran=lambda *_: Ran(alter=wide)))[1]
    assert (tame.cut_bars, wild.cut_bars) == (False, True)


def test_error_bars_can_be_left_out(tmp_path: Path) -> None:
    """--no_error_bars."""
    root = write_archive(tmp_path / "a", [WorkloadSpec("w")])
    with_bars, without = plotted(root), plotted(root, error_bars=False)
    assert (with_bars[1].error_bars, without[1].error_bars) == (True, False)
    assert len(with_bars[0].contents) == len(without[0].contents) + 6


def test_repeats_are_drawn_beside_the_one_that_is_read(tmp_path: Path) -> None:
    """Two iterations: one line each."""
    features = plotted(write_archive(tmp_path / "a", [WorkloadSpec("w")], iterations=2))[1]
    assert features.repeats
