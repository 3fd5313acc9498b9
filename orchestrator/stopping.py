"""Ctrl-C and SIGTERM: the run winds up, what is under way is ended, what is made is put away."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopping_signals(say: Callable[[str], None]) -> Iterator[threading.Event]:
    """An event that is set when the user asks to stop; asked again, KeyboardInterrupt is raised where we are."""
    cancelled = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        if cancelled.is_set():
            raise KeyboardInterrupt
        cancelled.set()
        # Printing takes a lock that the interrupted code may hold, so another thread does it.
        text = f"{signal.Signals(number).name}: stopping; once more to stop at once"
        threading.Thread(target=say, args=(text,), daemon=True).start()

    # A signal that is ignored (nohup) stays ignored.
    heeded = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield cancelled
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
