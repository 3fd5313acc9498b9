"""Where every command that runs on a host is written down."""

from __future__ import annotations

from typing import Protocol

from cluster.command import Command

LONGEST_SHOWN = 2000


class CommandLog(Protocol):
    """Receives one call for each command that ended (or could not be started). May be called from any thread."""

    def record(self, host: str, shown_command: str, started_unix_s: float, duration_s: float, status_text: str) -> None:
        """`shown_command` is one line with secrets hidden; `status_text` is e.g. "0", "137" or "no answer in 60 s"."""
        ...


class NullLog:
    """Keeps nothing."""

    def record(self, host: str, shown_command: str, started_unix_s: float, duration_s: float, status_text: str) -> None:
        del host, shown_command, started_unix_s, duration_s, status_text


def log_line(command: Command) -> str:
    """The command as one line for the log: secrets hidden, newlines as \\n, cut when it holds a whole program."""
    text = command.shown().replace("\n", "\\n")
    if len(text) <= LONGEST_SHOWN:
        return text
    return f"{text[:160]} … ({len(text)} characters)"
