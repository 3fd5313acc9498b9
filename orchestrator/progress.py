"""What the user sees while it runs: one live line on a terminal, plain whole lines anywhere else."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TextIO

from tabulate import tabulate

from orchestrator.model import RunPoint

Clock = Callable[[], float]


class Progress:
    """Writes to `stream`. Lines that stay are `say`; the live line (terminal only) shows the point under way."""

    def __init__(self, stream: TextIO = sys.stderr, *, live: bool | None = None, clock: Clock = time.monotonic) -> None:
        self._stream = stream
        self._live = stream.isatty() if live is None else live
        self._clock = clock
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._ticker: threading.Thread | None = None
        self._shown = 0
        self._status: Callable[[float], str] | None = None
        self._point_began = 0.0

    def say(self, text: str) -> None:
        """A line that stays."""
        with self._lock:
            self._erase()
            try:
                print(text, file=self._stream, flush=True)
            except OSError:
                # The terminal or pipe went away; the run itself matters more, and cbt.log has it all.
                self._live = False

    def waiting(self, text: str) -> None:
        """What is being waited for. On a terminal it is replaced by what comes next."""
        if not self._live:
            self.say(f"... {text}")
            return
        began = self._clock()
        self._show(lambda now: f"... {text} ({now - began:.0f} s)")

    def point_begins(self, index: int, of: int, title: str, expected_s: float, later_s: float) -> None:
        """Point `index` (from 1) of `of` begins; `later_s` is what the points after it should take."""
        self._point_began = began = self._clock()

        def status(now: float) -> str:
            elapsed = now - began
            left = max(expected_s - elapsed, 0.0) + later_s
            return f"[{index}/{of}] {title}  {elapsed:.0f} s, about {duration_text(left)} left"

        if self._live:
            self._show(status)
        else:
            self.say(f"[{index}/{of}] {title}: started, about {duration_text(expected_s + later_s)} left")

    def point_ends(self, index: int, of: int, title: str, outcome: str) -> None:
        self._clear_status()
        self.say(f"[{index}/{of}] {title}: {outcome} ({self._clock() - self._point_began:.1f} s)")

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Takes the live line away; lines that stay can still be said."""
        self._clear_status()
        self._stopped.set()
        if self._ticker is not None:
            self._ticker.join(timeout=2)

    def _show(self, status: Callable[[float], str]) -> None:
        with self._lock:
            self._status = status
            self._draw()
            if self._ticker is None:
                self._ticker = threading.Thread(target=self._tick, daemon=True, name="progress")
                self._ticker.start()

    def _clear_status(self) -> None:
        with self._lock:
            self._status = None
            self._erase()

    def _tick(self) -> None:
        while not self._stopped.wait(1.0):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        if self._status is None or not self._live:
            return
        width = shutil.get_terminal_size().columns - 1
        text = self._status(self._clock())[:width]
        self._write("\r" + text.ljust(self._shown) + "\r" + text)
        self._shown = len(text)

    def _erase(self) -> None:
        if self._shown:
            self._write("\r" + " " * self._shown + "\r")
            self._shown = 0

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._live = False


def duration_text(seconds: float) -> str:
    """Seconds as people say them: "45 s", "3 min 20 s", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def point_title(point: RunPoint, iterations: int) -> str:
    """A point as its user would call it: "4krandomread total_iodepth 16"."""
    words = [point.workload or f"{point.settings.get('mode') or ''} {point.benchmark}".strip()]
    folder = point.folder.parts[3:-1] if point.workload else ()
    words += [part for part in folder if part != "numjobs-001"]
    words += [f"{name} {value}" for name, value in point.setting]
    if iterations > 1:
        words.append(f"iteration {point.iteration + 1}")
    return " ".join(words)


def table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    """A plain table for a terminal or a pipe."""
    return tabulate(rows, headers=list(header), tablefmt="simple", disable_numparse=True)
