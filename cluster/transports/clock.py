"""How far a host's clock is from ours."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cluster.command import Command
from cluster.line_reader import LineReader
from cluster.transports.base import CommandFailed, Completed, HostUnreachable, Transport

ROUNDS = 9
_ROUND_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """`offset_s`: how much the host's clock is ahead of the controller's; true within ± `uncertainty_s`."""

    offset_s: float
    uncertainty_s: float


def measure_clock_offset(transport: Transport, rounds: int = ROUNDS) -> ClockOffset:
    """Asks the host for its time several times and keeps the quickest answer: the host read its clock somewhere
    between question and answer, so the middle is wrong by half the time between them at most (as NTP does, RFC 5905).

    Raises HostUnreachable, and CommandFailed when the host tells no time.
    """
    command = Command(("sh", "-c", "while IFS= read -r ask; do date +%s.%N || exit 1; done"), timeout_s=None)
    channel = transport.start(command)
    best: ClockOffset | None = None
    try:
        answers = LineReader(channel)
        for _ in range(rounds):
            asked_unix_s, asked = time.time(), time.perf_counter()
            channel.send("\n")
            answer = answers.next(_ROUND_LIMIT_S)
            half_s = (time.perf_counter() - asked) / 2
            if answer is None:
                break
            measured = ClockOffset(float(answer) - (asked_unix_s + half_s), half_s)
            if best is None or measured.uncertainty_s < best.uncertainty_s:
                best = measured
    except (TimeoutError, ValueError) as error:
        raise _no_time(transport.host, command, str(error)) from None
    finally:
        channel.close_input()
        channel.wait(_ROUND_LIMIT_S)
    if best is None:
        raise _no_time(transport.host, command, channel.stderr_text() or "it ended without an answer")
    return best


def _no_time(host: str, command: Command, why: str) -> CommandFailed | HostUnreachable:
    return CommandFailed(Completed(host, command, 1, b"", f"the clock cannot be read: {why}".encode(), 0.0))
