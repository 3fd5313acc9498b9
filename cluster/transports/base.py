"""What every way to reach a host offers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cluster.command import Command


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended. `status` is its exit status, or 128 + signal number; `timed_out` when we ended it."""

    host: str
    command: Command
    status: int
    stdout: bytes
    stderr: bytes
    duration_s: float
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.status == 0 and not self.timed_out

    def problem(self) -> str:
        """One line: what failed, how, and the last words of its stderr."""
        how = f"no answer in {self.command.timeout_s:g} s" if self.timed_out else f"status {self.status}"
        words = self.stderr.decode(errors="replace").strip().splitlines()[-3:]
        detail = ": " + " / ".join(line.strip() for line in words) if words else ""
        return f"{self.host}: {self.command.shown()}: {how}{detail}"


class CommandFailed(Exception):
    """A command whose success was needed did not succeed. Carries the result; prints as one line."""

    def __init__(self, completed: Completed) -> None:
        super().__init__(completed.problem())
        self.completed = completed


class HostUnreachable(Exception):
    """A host could not be reached or was lost; one line."""


class Channel(Protocol):
    """A running program on a host whose input and output lines we hold."""

    def send(self, text: str) -> None:
        """Writes to its standard input at once. Raises HostUnreachable when it is gone."""
        ...

    def close_input(self) -> None: ...

    def lines(self) -> Iterator[str]:
        """Its output lines as they come, without the newline; ends when it closes its output."""
        ...

    def wait(self, timeout_s: float) -> int | None:
        """Its exit status (128 + signal when killed), None when it is still running after that time."""
        ...

    def stderr_text(self) -> str: ...


class Transport(Protocol):
    """One host. Every command that runs is written to the command log by the transport."""

    host: str

    def run(self, command: Command, stdin: bytes = b"") -> Completed:
        """Runs to the end. Never raises for an exit status; raises HostUnreachable when the host is lost."""
        ...

    def start(self, command: Command) -> Channel: ...

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Writes a small file whole: no partial file is ever seen under that name."""
        ...

    def fetch(self, directory: str, into: Path) -> tuple[str, ...]:
        """Copies the regular files directly in `directory` into the local folder `into`; their names."""
        ...

    def remove(self, directory: str) -> None:
        """Removes a folder this run made, with what is in it."""
        ...

    def close(self) -> None: ...
