"""Reading a running program's output lines with a time limit."""

from __future__ import annotations

import queue
import threading
import time

from cluster.transports.base import Channel, HostUnreachable


class LineReader:
    """Takes a channel's lines as they come, so that waiting for the next one can have an end."""

    def __init__(self, channel: Channel) -> None:
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._ended = False
        thread = threading.Thread(target=self._read, args=(channel,), name="line reader", daemon=True)
        thread.start()

    def next(self, timeout_s: float) -> str | None:
        """The next line; None when the output has ended. Raises TimeoutError when none came in time."""
        if self._ended:
            return None
        try:
            line = self._lines.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            raise TimeoutError(f"no line in {timeout_s:g} s") from None
        self._ended = line is None
        return line

    def wait_for(self, prefix: str, timeout_s: float) -> str | None:
        """The next line that starts with `prefix`, others dropped; None when the output ended without it.

        Raises TimeoutError.
        """
        deadline = time.monotonic() + timeout_s
        while (line := self.next(deadline - time.monotonic())) is not None:
            if line.startswith(prefix):
                return line
        return None

    def _read(self, channel: Channel) -> None:
        try:
            for line in channel.lines():
                self._lines.put(line)
        except (OSError, ValueError, HostUnreachable):
            pass  # the channel was closed under us: the same as its end
        finally:
            self._lines.put(None)
