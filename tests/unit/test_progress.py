"""The progress line and its plain form (orchestrator/progress.py)."""

from __future__ import annotations

import io
from pathlib import PurePosixPath

import pytest

from benchmarks.options import Settings
from orchestrator.model import RunPoint
from orchestrator.progress import Progress, duration_text, point_title


class Gone(io.StringIO):
    """A terminal whose other end was closed."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(text)


class Closed(io.StringIO):
    def flush(self) -> None:
        raise OSError("no space")


def test_a_pipe_gets_whole_plain_lines() -> None:
    """No carriage return, no escape, one line for each thing that happens."""
    stream = io.StringIO()
    clock = iter([0.0, 2.5]).__next__
    with Progress(stream, clock=clock) as progress:
        progress.waiting("filling")
        progress.point_begins(1, 2, "w depth 4", 3.0, 60.0)
        progress.point_ends(1, 2, "w depth 4", "complete")
    assert stream.getvalue().splitlines() == [
        "... filling",
        "[1/2] w depth 4: started, about 1 min 3 s left",
        "[1/2] w depth 4: complete (2.5 s)",
    ]


def test_a_terminal_has_one_line_that_makes_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live line never exceeds the terminal's width, and is wiped before a line that stays."""
    monkeypatch.setenv("COLUMNS", "30")
    stream = io.StringIO()
    now = 0.0
    with Progress(stream, live=True, clock=lambda: now) as progress:
        progress.point_begins(1, 1, "a workload with a long name", 3.0, 0.0)
        progress.say("kept")
        progress.point_ends(1, 1, "a workload with a long name", "complete")
    written = stream.getvalue()
    assert all(len(piece) <= 29 for piece in written.split("\r") if "\n" not in piece)
    assert "\r" + " " * 29 + "\rkept\n" in written
    assert written.endswith("complete (0.0 s)\n")


@pytest.mark.parametrize("stream", [Gone(), Closed()])
@pytest.mark.parametrize("live", [True, False])
def test_a_terminal_that_goes_away_stops_nothing(stream: io.StringIO, live: bool) -> None:
    """The run matters more than who watches it."""
    with Progress(stream, live=live) as progress:
        progress.waiting("x")
        progress.point_begins(1, 1, "p", 1.0, 0.0)
        progress.point_ends(1, 1, "p", "complete")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (200, "3 min 20 s"), (3600, "1 h"), (7500, "2 h 5 min")],
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    """Rounded once, never "60 s" or "1 min 60 s"."""
    assert duration_text(seconds) == text


def test_a_point_is_called_what_its_user_calls_it() -> None:
    """Workload, depth, and the iteration when there are several."""
    point = RunPoint(
        id="0" * 16,
        iteration=1,
        benchmark="librbdfio",
        combination_id="12345678",
        workload="4krandread",
        settings=Settings({"mode": "randread"}),
        combination=Settings({}),
        setting=(("total_iodepth", 16),),
        folder=PurePosixPath("00000001/id-12345678/4krandread/numjobs-002/total_iodepth-016"),
        reported=True,
    )
    assert point_title(point, 1) == "4krandread numjobs-002 total_iodepth 16"
    assert point_title(point, 3) == "4krandread numjobs-002 total_iodepth 16 iteration 2"
