"""A scripted host for tests: for what cannot be provoked with real processes."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.command import Command
from cluster.command_log import CommandLog, NullLog, log_line
from cluster.transports.base import Channel, CommandFailed, Completed, HostUnreachable
from cluster.transports.local import check_removable


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command whose words begin with `words` gets back. With `once`, only the first such command does."""

    words: tuple[str, ...]
    stdout: bytes = b""
    stderr: bytes = b""
    status: int = 0
    duration_s: float = 0.0
    timed_out: bool = False
    once: bool = False


class FakeTransport:
    """Answers from a script, first match first; a command nobody foresaw ends with 127, as a missing program does.

    `commands`, `files` and `removed` hold what was asked for. While `unreachable` is set, everything raises
    HostUnreachable. `start` hands out `channels` in turn.
    """

    def __init__(
        self,
        host: str,
        answers: Sequence[Answer] = (),
        channels: Sequence[Channel] = (),
        log: CommandLog | None = None,
    ) -> None:
        self.host = host
        self.answers = list(answers)
        self.channels = list(channels)
        self.commands: list[Command] = []
        self.files: dict[str, bytes] = {}
        self.removed: list[str] = []
        self.closed = False
        self.unreachable: str | None = None
        self._log: CommandLog = log if log is not None else NullLog()

    def run(self, command: Command, stdin: bytes = b"") -> Completed:
        del stdin
        self._reach()
        self.commands.append(command)
        answer = self._answer(command)
        self._log.record(self.host, log_line(command), 0.0, answer.duration_s, str(answer.status))
        return Completed(
            host=self.host,
            command=command,
            status=answer.status,
            stdout=answer.stdout,
            stderr=answer.stderr,
            duration_s=answer.duration_s,
            timed_out=answer.timed_out,
        )

    def start(self, command: Command) -> Channel:
        self._reach()
        self.commands.append(command)
        if not self.channels:
            raise HostUnreachable(f"{self.host}: the script has no channel left")
        return self.channels.pop(0)

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        del mode
        self._reach()
        self.files[path] = data

    def fetch(self, directory: str, into: Path) -> tuple[str, ...]:
        self._reach()
        prefix = directory.rstrip("/") + "/"
        found = {p.removeprefix(prefix): data for p, data in self.files.items() if p.startswith(prefix)}
        direct = {name: data for name, data in found.items() if "/" not in name}
        if not direct:
            missing = Completed(self.host, Command(("fetch", directory)), 1, b"", b"No such file or directory", 0.0)
            raise CommandFailed(missing)
        into.mkdir(parents=True, exist_ok=True)
        for name, data in direct.items():
            (into / name).write_bytes(data)
        return tuple(sorted(direct))

    def remove(self, directory: str) -> None:
        check_removable(directory)
        self._reach()
        self.removed.append(directory)
        prefix = directory.rstrip("/") + "/"
        self.files = {path: data for path, data in self.files.items() if not path.startswith(prefix)}

    def close(self) -> None:
        self.closed = True

    def _reach(self) -> None:
        if self.unreachable is not None:
            raise HostUnreachable(f"{self.host}: {self.unreachable}")

    def _answer(self, command: Command) -> Answer:
        for answer in self.answers:
            if command.argv[: len(answer.words)] == answer.words:
                if answer.once:
                    self.answers.remove(answer)
                return answer
        return Answer((), stderr=f"{command.argv[0]}: no such program (in the script)\n".encode(), status=127)


class FakeChannel:
    """A program whose lines a test writes. `reply` gets each text sent and returns the lines that come back;
    None in their place ends the output."""

    def __init__(self, reply: Callable[[str], Sequence[str | None]] = lambda _: ()) -> None:
        self.sent: list[str] = []
        self.input_closed = False
        self.status: int | None = None
        self._reply = reply
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def say(self, line: str) -> None:
        """Adds an output line."""
        self._lines.put(line)

    def end(self, status: int = 0) -> None:
        """Ends the output and the program."""
        self.status = status
        self._lines.put(None)

    def send(self, text: str) -> None:
        if self.status is not None or self.input_closed:
            raise HostUnreachable("the scripted program reads no more")
        self.sent.append(text)
        for line in self._reply(text):
            if line is None:
                self.end()
            else:
                self.say(line)

    def close_input(self) -> None:
        self.input_closed = True

    def lines(self) -> Iterator[str]:
        while (line := self._lines.get()) is not None:
            yield line
        self._lines.put(None)

    def wait(self, timeout_s: float) -> int | None:
        del timeout_s
        return self.status

    def stderr_text(self) -> str:
        return ""
