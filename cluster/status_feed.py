"""Asking one cluster again and again, without starting a `ceph` process (0.1–0.4 s of CPU) each time."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from types import TracebackType

from cluster.answers import Answer, MalformedAnswer
from cluster.ceph import Ceph, ClusterStatus
from cluster.line_reader import LineReader
from cluster.transports.base import Channel, HostUnreachable

_END_LIMIT_S = 5.0


class StatusFeed:
    """One `ceph` process that takes commands on its input; each answers in some milliseconds.

    When it does not answer within `limit_s` it is let go and every question becomes a call of its own, so a wrapper
    that passes no input on, or a release without the interactive mode, costs time but nothing else.
    """

    def __init__(self, ceph: Ceph, limit_s: float = 10.0) -> None:
        self._ceph = ceph
        self._limit_s = limit_s
        self._channel: Channel | None = None
        self._lines: LineReader | None = None
        self._given_up = False

    def __enter__(self) -> StatusFeed:
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
        if not self._given_up:
            with contextlib.suppress(HostUnreachable, TimeoutError, MalformedAnswer):
                return ClusterStatus.read(self._ask("status"))
            self._given_up = True
            self.close()
        return self._ceph.status(timeout_s=self._limit_s)

    def close(self) -> None:
        """Ends the process by closing its input."""
        channel, self._channel, self._lines = self._channel, None, None
        if channel is not None:
            with contextlib.suppress(HostUnreachable, OSError):
                channel.close_input()
                channel.wait(_END_LIMIT_S)

    def _ask(self, words: str) -> Answer:
        if self._channel is None:
            # Python buffers a pipe's output in blocks: without this the answer would come at the end.
            command = self._ceph.command("ceph", timeout_s=self._limit_s)
            env = (*command.env, ("PYTHONUNBUFFERED", "1"))
            self._channel = self._ceph.transport.start(replace(command, env=env, timeout_s=None))
            self._lines = LineReader(self._channel)
        lines = self._lines
        if lines is None:
            raise TimeoutError
        self._channel.send(words + "\n")
        text = ""
        while (line := lines.next(self._limit_s)) is not None:
            text += line
            if text.strip():
                with contextlib.suppress(MalformedAnswer):
                    return Answer.parse(text)
        raise MalformedAnswer("the output ended in the middle of an answer")
