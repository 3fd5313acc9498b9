"""One program on a host, and what flows to and from it."""

from __future__ import annotations

import contextlib
import math
import queue
import select
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import paramiko

from cluster.transports.base import HostUnreachable
from cluster.transports.ssh_connection import Connection
from cluster.transports.ssh_login import ConnectionBroke
from cluster.transports.ssh_programs import GROUP_MARK, PREAMBLE, encoded

DRAIN_S = 1.0
"""How long output may still come after a command ended, from what it left behind with its output open."""

NAMELESS_SIGNAL = 137
"""Stands for the end of a program by a signal that nobody reported: SIGKILL is the likeliest."""

_READ_BYTES = 1 << 16
_INLINE_BYTES = 1 << 16
_DEATH_NOTICE_S = 1.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit status, or None when it was still running at the time limit."""

    status: int | None
    stderr: bytes


def open_program(connection: Connection, program: str) -> paramiko.Channel:
    """Starts one of ssh_programs. Raises ConnectionBroke when nothing was started, HostUnreachable otherwise."""
    channel = connection.open_session()
    try:
        # Without a limit this would wait for ever; the watcher ends a connection whose host is silent.
        channel.exec_command(PREAMBLE)
        channel.sendall(encoded(program))
    except (paramiko.SSHException, EOFError, OSError) as error:
        connection.release(channel)
        if connection.alive:
            raise HostUnreachable(f"{connection.target.shown()}: sshd runs no commands here ({error})") from None
        raise ConnectionBroke(str(error)) from None
    except BaseException:
        connection.release(channel)
        raise
    return channel


def pump(
    connection: Connection,
    channel: paramiko.Channel,
    sink: Callable[[bytes], None],
    *,
    stdin: bytes = b"",
    limit_s: float | None,
    idle_limit_s: float | None = None,
) -> Ended:
    """Passes data to and from a program until it ends, or until a limit passes.

    Standard output goes to `sink` piece by piece. `idle_limit_s` is for how long nothing at all may come. Raises
    HostUnreachable when the connection is lost first.
    """
    clock = _Clock(limit_s, idle_limit_s)
    if stdin:
        _feed(channel, stdin)
    stderr: list[bytes] = []
    for piece, is_stderr in _pieces(channel, clock.passed):
        clock.heard()
        if is_stderr:
            stderr.append(piece)
        else:
            sink(piece)
    channel.status_event.wait(clock.left_s())
    if not channel.exit_status_ready():
        return Ended(None, b"".join(stderr))
    return Ended(status_of(connection, channel), b"".join(stderr))


def status_of(connection: Connection, channel: paramiko.Channel) -> int:
    """The exit status of a program that ended. Raises HostUnreachable when only the connection did."""
    if channel.exit_status >= 0:
        return channel.exit_status
    until = time.monotonic() + _DEATH_NOTICE_S
    while connection.alive and time.monotonic() < until:  # channels are closed just before the connection is
        time.sleep(0.02)
    if connection.alive:
        return NAMELESS_SIGNAL
    raise connection.lost()


class _Clock:
    """Two limits: for the whole, and for silence."""

    def __init__(self, limit_s: float | None, idle_limit_s: float | None) -> None:
        self._until = math.inf if limit_s is None else time.monotonic() + limit_s
        self._idle_limit_s = math.inf if idle_limit_s is None else idle_limit_s
        self._heard = time.monotonic()

    def heard(self) -> None:
        self._heard = time.monotonic()

    def passed(self) -> bool:
        left_s = self.left_s()
        return left_s is not None and left_s <= 0

    def left_s(self) -> float | None:
        left_s = min(self._until, self._heard + self._idle_limit_s) - time.monotonic()
        return None if math.isinf(left_s) else max(0.0, left_s)


def _pieces(
    channel: paramiko.Channel, given_up: Callable[[], bool], tick_ms: int = 200
) -> Iterator[tuple[bytes, bool]]:
    """What comes from a program, and whether it is stderr, until both end. Neither can block the other."""
    waiting = select.poll()
    waiting.register(channel.fileno(), select.POLLIN)
    ended_at: float | None = None
    while True:
        over = channel.eof_received or channel.closed  # asked first: what came before it is read below
        while channel.recv_ready():
            yield channel.recv(_READ_BYTES), False
        while channel.recv_stderr_ready():
            yield channel.recv_stderr(_READ_BYTES), True
        if over or given_up():
            return
        if ended_at is None and channel.exit_status_ready():
            ended_at = time.monotonic()
        if ended_at is not None and time.monotonic() > ended_at + DRAIN_S:
            return
        waiting.poll(tick_ms)


def _feed(channel: paramiko.Channel, data: bytes) -> None:
    if len(data) <= _INLINE_BYTES:  # fits into sshd's window whatever the program does
        _send_all(channel, data)
        return
    threading.Thread(target=_send_all, args=(channel, data), name="ssh stdin", daemon=True).start()


def _send_all(channel: paramiko.Channel, data: bytes) -> None:
    with contextlib.suppress(paramiko.SSHException, EOFError, OSError):  # the program read no more: its right
        channel.sendall(data)


class SshChannel:
    """A running program whose lines we hold. Its output is read all the time, so that it never blocks."""

    def __init__(self, connection: Connection, channel: paramiko.Channel, ended: Callable[[str], None]) -> None:
        self._connection = connection
        self._channel = channel
        self._ended = ended
        self._lines: queue.SimpleQueue[str | HostUnreachable | None] = queue.SimpleQueue()
        self._stderr = b""
        self._input_closed = False
        threading.Thread(target=self._read, name="ssh output", daemon=True).start()

    def send(self, text: str) -> None:
        """Writes at once. Raises HostUnreachable when the program or the host is gone."""
        if self._input_closed:
            raise HostUnreachable(f"{self._connection.target.name}: the program's input is closed")
        if not self._connection.alive:  # paramiko would drop the text without a word
            raise self._connection.lost()
        try:
            self._channel.sendall(text.encode(errors="surrogateescape"))
        except (paramiko.SSHException, EOFError, OSError) as error:
            if not self._connection.alive:
                raise self._connection.lost() from None
            raise HostUnreachable(f"{self._connection.target.name}: the program reads no more ({error})") from None

    def close_input(self) -> None:
        self._input_closed = True
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            self._channel.shutdown_write()

    def lines(self) -> Iterator[str]:
        """Its lines. Raises HostUnreachable at the end when it was the connection that ended."""
        while isinstance(line := self._lines.get(), str):
            yield line
        self._lines.put(line)  # whoever asks again gets the end again
        if line is not None:
            raise line

    def wait(self, timeout_s: float) -> int | None:
        """Its exit status; None while it runs, and when the connection was lost (nobody knows then)."""
        if not self._channel.status_event.wait(timeout_s):
            return None
        try:
            return status_of(self._connection, self._channel)
        except HostUnreachable:
            return None

    def stderr_text(self) -> str:
        text = self._stderr.decode(errors="replace")
        return text.partition("\n")[2] if text.startswith(GROUP_MARK) else text

    @property
    def group(self) -> int | None:
        """The process group that ends the program when signalled; None while it is not known."""
        first, newline, _ = self._stderr.partition(b"\n")
        mark = GROUP_MARK.encode()
        return int(first.removeprefix(mark)) if newline and first.startswith(mark) else None

    def _read(self) -> None:
        pending = b""
        for piece, is_stderr in _pieces(self._channel, lambda: False, tick_ms=1000):
            if is_stderr:
                self._stderr += piece
                continue
            *whole, pending = (pending + piece).split(b"\n")
            for line in whole:
                self._lines.put(line.decode(errors="surrogateescape"))
        if pending:
            self._lines.put(pending.decode(errors="surrogateescape"))
        how, loss = self._loss()
        self._lines.put(loss)
        if how is None:  # it has closed its output and runs on
            self._channel.status_event.wait()
            how, _ = self._loss()
        self._ended(how or "unknown")

    def _loss(self) -> tuple[str | None, HostUnreachable | None]:
        """How the program ended, for the log (None: it has not), and the connection's end if that was it."""
        if not self._channel.exit_status_ready():
            return None, None
        try:
            return str(status_of(self._connection, self._channel)), None
        except HostUnreachable as error:
            return "connection lost", error
