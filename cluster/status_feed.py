"""Asking one cluster again and again, without starting a `ceph` process (0.1–0.4 s of CPU) each time."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from dataclasses import replace
from types import TracebackType

from cluster.answers import Answer, MalformedAnswer
from cluster.ceph import Ceph, ClusterStatus
from cluster.command_log import CommandLog, NullLog
from cluster.line_reader import LineReader
from cluster.transports.base import Channel, HostUnreachable

_END_LIMIT_S = 5.0
_POLL_S = 0.1
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.:+=-]+")
"""Words that the interactive `ceph` surely reads as they are; a question with others is a call of its own."""


class _Refused(Exception):
    """The cluster answered a question with an error: the call of its own will say which."""


class StatusFeed:
    """One `ceph` process that takes commands on its input; each answers in some milliseconds.

    When it does not answer within `limit_s` it is let go and every question becomes a call of its own, so a wrapper
    that passes no input on, or a release without the interactive mode, costs time but nothing else.
    """

    def __init__(self, ceph: Ceph, limit_s: float = 10.0, log: CommandLog | None = None) -> None:
        self._ceph = ceph
        self._limit_s = limit_s
        self._log = log or NullLog()
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._lines: LineReader | None = None
        self._given_up = False

    def __enter__(self) -> StatusFeed:
        """From here on the façade's own questions go the quick way too."""
        self._ceph.shortcut = self.answer
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def persistent(self) -> bool:
        """Whether the last answer came from the lasting process."""
        return self._channel is not None and not self._given_up

    def status(self) -> ClusterStatus:
        """Raises CephError."""
        if (answer := self.answer(("status",))) is not None:
            with contextlib.suppress(MalformedAnswer):
                return ClusterStatus.read(answer)
        shortcut, self._ceph.shortcut = self._ceph.shortcut, None
        try:
            return self._ceph.status(timeout_s=self._limit_s)
        finally:
            self._ceph.shortcut = shortcut

    def answer(self, words: tuple[str, ...]) -> Answer | None:
        """The answer of the lasting process; None when the question needs a call of its own."""
        if not all(_PLAIN_WORD.fullmatch(word) for word in words):
            return None
        with self._lock:
            if self._given_up:
                return None
            started, began = time.time(), time.monotonic()
            outcome = "no answer"
            try:
                answer = self._ask(" ".join(words))
                outcome = "0"
                return answer
            except _Refused:
                outcome = "refused"
                return None
            except (HostUnreachable, TimeoutError, MalformedAnswer):
                self._given_up = True
                self._end()
                return None
            finally:
                shown = f"{self._ceph.command('ceph', *words).shown()} (through the lasting process)"
                self._log.record(self._ceph.transport.host, shown, started, time.monotonic() - began, outcome)

    def close(self) -> None:
        """Ends the process by closing its input."""
        self._ceph.shortcut = None
        with self._lock:
            self._end()

    def _end(self) -> None:
        channel, self._channel, self._lines = self._channel, None, None
        if channel is not None:
            with contextlib.suppress(HostUnreachable, OSError):
                channel.close_input()
                channel.wait(_END_LIMIT_S)

    def _ask(self, words: str) -> Answer:
        channel, lines = self._started()
        complaints = channel.stderr_text()
        channel.send(words + "\n")
        text = ""
        until = time.monotonic() + self._limit_s
        while True:
            try:
                line = lines.next(_POLL_S)
            except TimeoutError:
                if "Error E" in channel.stderr_text()[len(complaints) :]:
                    raise _Refused from None
                if time.monotonic() > until:
                    raise
                continue
            if line is None:
                raise MalformedAnswer("the output ended in the middle of an answer")
            text += line
            if text.strip():
                with contextlib.suppress(MalformedAnswer):
                    return Answer.parse(text)

    def _started(self) -> tuple[Channel, LineReader]:
        if self._channel is None or self._lines is None:
            # Python buffers a pipe's output in blocks: without this the answer would come at the end.
            command = self._ceph.command("ceph", timeout_s=self._limit_s)
            env = (*command.env, ("PYTHONUNBUFFERED", "1"))
            self._channel = self._ceph.transport.start(replace(command, env=env, timeout_s=None))
            self._lines = LineReader(self._channel)
        return self._channel, self._lines
