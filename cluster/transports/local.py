"""The machine the program runs on, reached without a network."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from cluster.command import Command
from cluster.command_log import CommandLog, NullLog, log_line
from cluster.transports.base import Channel, CommandFailed, Completed, HostUnreachable

TERM_GRACE_S = 2.0
"""How long a command that ran into its time limit may take to end after SIGTERM, before SIGKILL."""

DRAIN_S = 1.0
"""How long output may still come after a command ended, from what it left behind with its output open."""

REMOVABLE_PREFIX = "cbt-"
"""Only folders named so are ever removed."""

_COPY_BYTES = 1 << 20


class LocalTransport:
    """Runs commands as children of this process, each in a session of its own, so that a Ctrl-C on the terminal or
    a closed terminal reaches none of them.

    Every process gets LC_ALL=C, so that messages and numbers read the same everywhere. put, fetch and remove raise
    CommandFailed for what goes wrong on the host; fetch lets the OSError of writing into the local folder pass.
    """

    def __init__(self, host: str, log: CommandLog | None = None) -> None:
        self.host = host
        self._log: CommandLog = log if log is not None else NullLog()
        self._channels: list[LocalChannel] = []

    def run(self, command: Command, stdin: bytes = b"") -> Completed:
        """Runs to the end or the time limit. Status 127 when there is no such program, 126 when it cannot be run."""
        started_unix_s, started = time.time(), time.monotonic()
        try:
            process = _popen(command, subprocess.PIPE if stdin else subprocess.DEVNULL)
        except (OSError, ValueError) as error:
            return self._finished(_not_started(self.host, command, error), started_unix_s)
        stdout, stderr = _Collector(process.stdout), _Collector(process.stderr)
        if process.stdin is not None:
            threading.Thread(target=_feed, args=(process.stdin, stdin), daemon=True).start()
        timed_out = False
        try:
            process.wait(command.timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            _end_group(process)
        except BaseException:  # Ctrl-C in this very moment: the child has its own session and would live on
            _end_group(process)
            raise
        completed = Completed(
            host=self.host,
            command=command,
            status=_status(process.returncode),
            stdout=stdout.result(DRAIN_S),
            stderr=stderr.result(DRAIN_S),
            duration_s=time.monotonic() - started,
            timed_out=timed_out,
        )
        return self._finished(completed, started_unix_s)

    def start(self, command: Command) -> Channel:
        """Starts a program and holds its input and output. A missing program is a channel that ended with 127."""
        started_unix_s, started = time.time(), time.monotonic()
        try:
            process = _popen(command, subprocess.PIPE)
        except (OSError, ValueError) as error:
            return EndedChannel(self._finished(_not_started(self.host, command, error), started_unix_s))

        def ended(status: int) -> None:
            duration_s = time.monotonic() - started
            self._log.record(self.host, log_line(command), started_unix_s, duration_s, str(status))

        channel = LocalChannel(self.host, process, ended)
        self._channels.append(channel)
        return channel

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Writes under a temporary name, brings it to the disk, then renames."""
        with self._noted("put", path):
            _write_whole(Path(path), data, mode)

    def fetch(self, directory: str, into: Path) -> tuple[str, ...]:
        """Copies the regular files directly in `directory` (no links, no folders) into `into`, made if missing.

        All of them appear under their names only after all were copied whole and brought to the disk.
        """
        with self._noted("fetch", directory):
            names = sorted(e.name for e in os.scandir(directory) if e.is_file(follow_symlinks=False))
        into.mkdir(parents=True, exist_ok=True)
        arriving = {name: into / f".{name}.{os.getpid()}.part" for name in names}
        try:
            for name, part in arriving.items():
                self._copy(Path(directory) / name, part)
            for part in arriving.values():
                _sync(part)
            for name, part in arriving.items():
                part.replace(into / name)
        finally:
            for part in arriving.values():
                part.unlink(missing_ok=True)
        _sync(into)
        return tuple(names)

    def remove(self, directory: str) -> None:
        """Removes a folder this run made; it may be gone already.

        Raises ValueError for any path that is not absolute with a last part that begins with 'cbt-'.
        """
        check_removable(directory)
        with self._noted("remove", directory):
            if Path(directory).is_symlink():
                raise OSError("is a symbolic link; not removed")
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(directory)

    def close(self) -> None:
        """Ends what was started here and still runs: end of input first, then SIGTERM, then SIGKILL."""
        running = [channel for channel in self._channels if channel.wait(0) is None]
        for channel in running:
            channel.close_input()
        for channel in running:
            if channel.wait(4.0) is None:
                channel.end()
        self._channels.clear()

    def _copy(self, source: Path, part: Path) -> None:
        with self._noted("fetch", str(source)):
            reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(reading, "rb") as from_file, part.open("xb") as to_file:
            shutil.copyfileobj(from_file, to_file, _COPY_BYTES)
            copied, expected = to_file.tell(), os.fstat(reading).st_size
        if copied != expected:
            with self._noted("fetch", str(source)):
                raise OSError(f"{copied} of {expected} bytes were copied: the file changed meanwhile")

    @contextlib.contextmanager
    def _noted(self, verb: str, path: str) -> Iterator[None]:
        """Logs the step; an OSError within becomes CommandFailed."""
        command = Command((verb, path))
        started_unix_s, started = time.time(), time.monotonic()
        try:
            yield
        except OSError as error:
            reason = f"{path}: {error.strerror or error}"
            failed = Completed(self.host, command, 1, b"", reason.encode(), time.monotonic() - started)
            raise CommandFailed(self._finished(failed, started_unix_s)) from None
        duration_s = time.monotonic() - started
        self._log.record(self.host, log_line(command), started_unix_s, duration_s, "0")

    def _finished(self, completed: Completed, started_unix_s: float) -> Completed:
        limit_s = completed.command.timeout_s
        how = f"no answer in {limit_s:g} s" if completed.timed_out and limit_s else str(completed.status)
        self._log.record(self.host, log_line(completed.command), started_unix_s, completed.duration_s, how)
        return completed


class LocalChannel:
    """A running child. Its output is read all the time, so that it never blocks on a full pipe."""

    def __init__(self, host: str, process: subprocess.Popen[bytes], ended: Callable[[int], None]) -> None:
        self._host = host
        self._process = process
        self._ended: Callable[[int], None] | None = ended
        self._lock = threading.Lock()
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._stderr = _Collector(process.stderr)
        threading.Thread(target=self._read_lines, daemon=True).start()

    def send(self, text: str) -> None:
        """Writes at once. Raises HostUnreachable when the program no longer reads."""
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            raise HostUnreachable(f"{self._host}: the program's input is closed")
        unsent = memoryview(text.encode(errors="surrogateescape"))
        try:
            while unsent:
                unsent = unsent[os.write(stdin.fileno(), unsent) :]
        except (OSError, ValueError) as error:  # ValueError: closed by another thread meanwhile
            raise HostUnreachable(f"{self._host}: the program reads no more ({error})") from None

    def close_input(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # what is still unsent cannot be sent any more
                self._process.stdin.close()

    def lines(self) -> Iterator[str]:
        while (line := self._lines.get()) is not None:
            yield line
        self._lines.put(None)  # whoever asks again gets the end again

    def wait(self, timeout_s: float) -> int | None:
        try:
            status = _status(self._process.wait(timeout_s))
        except subprocess.TimeoutExpired:
            return None
        self.close_input()
        with self._lock:
            ended, self._ended = self._ended, None
        if ended is not None:
            ended(status)
        return status

    def stderr_text(self) -> str:
        return self._stderr.so_far().decode(errors="replace")

    def end(self) -> None:
        """SIGTERM, then SIGKILL, to its process group."""
        _end_group(self._process)
        self.wait(0)

    def _read_lines(self) -> None:
        stdout = self._process.stdout
        if stdout is not None:
            with stdout:
                for line in stdout:
                    self._lines.put(line.decode(errors="surrogateescape").removesuffix("\n"))
        self._lines.put(None)


class EndedChannel:
    """The channel of a program that could not be started."""

    def __init__(self, completed: Completed) -> None:
        self._completed = completed

    def send(self, text: str) -> None:
        del text
        raise HostUnreachable(self._completed.problem())

    def close_input(self) -> None:
        """There is none."""

    def lines(self) -> Iterator[str]:
        return iter(())

    def wait(self, timeout_s: float) -> int | None:
        del timeout_s
        return self._completed.status

    def stderr_text(self) -> str:
        return self._completed.stderr.decode(errors="replace")


class _Collector:
    """Reads a pipe to its end in the background."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._chunks: list[bytes] = []
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def result(self, timeout_s: float) -> bytes:
        """What came, waiting at most `timeout_s` for the end of the pipe."""
        self._thread.join(timeout_s)
        return self.so_far()

    def so_far(self) -> bytes:
        return b"".join(self._chunks)

    def _read(self, pipe: IO[bytes] | None) -> None:
        if pipe is None:
            return
        with pipe:
            while chunk := os.read(pipe.fileno(), 65536):
                self._chunks.append(chunk)


def check_removable(directory: str) -> None:
    """Raises ValueError unless the path is absolute, without '..', and its last part begins with 'cbt-'."""
    path = PurePosixPath(directory)
    if not path.is_absolute() or ".." in path.parts or not path.name.startswith(REMOVABLE_PREFIX):
        raise ValueError(f"{directory!r} is not removed: not an absolute path to a folder named {REMOVABLE_PREFIX}…")


def _popen(command: Command, stdin: int) -> subprocess.Popen[bytes]:
    if not command.argv:
        raise ValueError("the command is empty")
    return subprocess.Popen(
        command.argv,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C", **dict(command.env)},
        start_new_session=True,
    )


def _not_started(host: str, command: Command, error: OSError | ValueError) -> Completed:
    missing = isinstance(error, FileNotFoundError)
    program = command.argv[0] if command.argv else "(nothing)"
    reason = "no such program" if missing else str(getattr(error, "strerror", None) or error)
    return Completed(host, command, 127 if missing else 126, b"", f"{program}: {reason}\n".encode(), 0.0)


def _status(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the session's first group, SIGKILL when it does not help; then the child is reaped."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None or signal_number is signal.SIGKILL:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TERM_GRACE_S)
    if process.returncode is None:  # in uninterruptible sleep: nothing can end it, and nobody may wait for it
        process.returncode = -signal.SIGKILL


def _feed(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(data)


def _write_whole(path: Path, data: bytes, mode: int) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
