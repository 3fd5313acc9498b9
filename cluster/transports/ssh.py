"""Hosts reached over SSH: one connection each, made again when it was lost between two commands."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import paramiko

from cluster.command import Command
from cluster.command_log import CommandLog, NullLog, log_line
from cluster.hosts import Host
from cluster.transports import ssh_programs
from cluster.transports.base import CommandFailed, Completed, HostUnreachable
from cluster.transports.local import check_removable
from cluster.transports.ssh_channel import Ended, SshChannel, open_program, pump
from cluster.transports.ssh_config import SshOptions
from cluster.transports.ssh_connection import Connection, Connector
from cluster.transports.ssh_fetch import BadListing, Changed, Collection, batches, read_listing
from cluster.transports.ssh_login import ConnectionBroke

__all__ = ["SshOptions", "SshTransport", "connect_all"]

ANSWER_S = 10.0
"""How much later than its time limit a command may still be heard of: it is ended on the host itself."""

FILE_LIMIT_S = 120.0
"""For putting and removing; for fetching, how long nothing at all may arrive."""

COLLECTION_WAITS_S = (0.5, 2.0, 5.0, 10.0)
"""The waits before a collection that broke off is taken up again."""

_CONNECT_THREADS = 64


def connect_all(
    hosts: Sequence[Host],
    options: SshOptions | None = None,
    log: CommandLog | None = None,
    notice: Callable[[str], None] | None = None,
) -> dict[Host, SshTransport | HostUnreachable]:
    """Connects to all hosts side by side; each with its transport, or why it cannot be reached.

    `notice` gets a line for each host key that was accepted. Close every transport in the end.
    """
    unique = list(dict.fromkeys(hosts))
    try:
        connector = Connector(options or SshOptions(), notice or (lambda _: None))
    except HostUnreachable as error:
        return {host: HostUnreachable(f"{host.name}: {error}") for host in unique}

    def connect(host: Host) -> SshTransport | HostUnreachable:
        transport = SshTransport(host, connector, log)
        try:
            transport.connect()
        except HostUnreachable as error:
            return error
        return transport

    if not unique:
        return {}
    with ThreadPoolExecutor(min(_CONNECT_THREADS, len(unique)), thread_name_prefix="ssh connect") as threads:
        return dict(zip(unique, threads.map(connect, unique), strict=True))


class SshTransport:
    """One host over SSH. Needs sh and coreutils there, and gzip where there is one.

    Commands run with LC_ALL=C in a plain `sh`, without a terminal and without a login shell of its own. A command's
    time limit is kept on the host itself; a command without input also ends when the connection does. A program that
    was started must end when its input does. put, fetch and remove raise CommandFailed for what goes wrong on the host;
    fetch lets the OSError of writing into the local folder pass.
    """

    def __init__(self, host: Host, connector: Connector, log: CommandLog | None = None) -> None:
        self.host = host.name
        self._address = host
        self._connector = connector
        self._log: CommandLog = log if log is not None else NullLog()
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._channels: list[SshChannel] = []
        self._closed = False

    def connect(self) -> None:
        """Makes sure that the host is connected. Raises HostUnreachable."""
        self._connected()

    def run(self, command: Command, stdin: bytes = b"") -> Completed:
        """Runs to the end or the time limit. Status 127 when there is no such program, 126 when it cannot be run."""
        started_unix_s, started = time.time(), time.monotonic()
        if not command.argv or any(
            "\0" in word for word in (*command.argv, *(v for pair in command.env for v in pair))
        ):
            refused = Completed(self.host, command, 126, b"", b"the command is empty or has a NUL byte in it\n", 0.0)
            return self._finished(refused, started_unix_s)
        output: list[bytes] = []
        limit_s = command.timeout_s
        try:
            ended = self._exec(
                ssh_programs.running(command, len(stdin)),
                output.append,
                stdin=stdin,
                limit_s=None if limit_s is None else limit_s + ANSWER_S,
            )
        except HostUnreachable:
            self._log.record(
                self.host, log_line(command), started_unix_s, time.monotonic() - started, "connection lost"
            )
            raise
        duration_s = time.monotonic() - started
        status, timed_out = ended.status, ended.status is None
        if limit_s is not None and duration_s >= limit_s and status in {124, 137}:  # as timeout(1) ended it
            timed_out = True
            status = 143 if status == 124 else status
        completed = Completed(
            host=self.host,
            command=command,
            status=137 if status is None else status,
            stdout=b"".join(output),
            stderr=ended.stderr,
            duration_s=duration_s,
            timed_out=timed_out,
        )
        return self._finished(completed, started_unix_s)

    def start(self, command: Command) -> SshChannel:
        """Starts a program and holds its input and output. A missing program is a channel that ends with 127."""
        started_unix_s, started = time.time(), time.monotonic()
        connection, channel = self._open(ssh_programs.holding(command))

        def ended(how: str) -> None:
            connection.release(channel)
            self._log.record(self.host, log_line(command), started_unix_s, time.monotonic() - started, how)

        held = SshChannel(connection, channel, ended)
        with self._lock:
            self._channels = [*(known for known in self._channels if known.wait(0) is None), held]
        return held

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Writes under a temporary name, brings it to the disk, then renames."""
        with self._noted("put", path) as command:
            program = ssh_programs.putting(path, len(data), mode, secrets.token_hex(6))
            self._exec_well(command, program, stdin=data)

    def fetch(self, directory: str, into: Path) -> tuple[str, ...]:
        """Copies the regular files directly in `directory` (no links, no folders) into `into`, made if missing.

        Files that lie there already with the same size and digest are not sent again. When the connection breaks off,
        the collection goes on after a while; when it cannot, what has arrived whole keeps its name, and HostUnreachable
        is raised: another fetch brings the rest.
        """
        into.mkdir(parents=True, exist_ok=True)
        collection = Collection(into)
        waits_s = iter(COLLECTION_WAITS_S)
        try:
            with self._noted("fetch", directory) as command:
                while True:
                    try:
                        return self._collect(command, directory, collection)
                    except BadListing as error:
                        self._give_up(command, collection, error)
                    except (HostUnreachable, Changed) as error:
                        wait_s = next(waits_s, None)
                        if wait_s is None:
                            self._give_up(command, collection, error)
                        else:
                            time.sleep(wait_s)
        finally:
            collection.drop()

    def remove(self, directory: str) -> None:
        """Removes a folder this run made; it may be gone already.

        Raises ValueError for any path that is not absolute with a last part that begins with 'cbt-'.
        """
        check_removable(directory)
        with self._noted("remove", directory) as command:
            self._exec_well(command, ssh_programs.removing(directory))

    def close(self) -> None:
        """Ends what was started here and still runs: end of input first, then SIGTERM, then SIGKILL; then the
        connection."""
        with self._lock:
            channels, self._channels = self._channels, []
            self._closed = True
        for channel in channels:
            channel.close_input()
        until = time.monotonic() + 4.0
        running = [channel for channel in channels if channel.wait(max(0.0, until - time.monotonic())) is None]
        for channel in running:
            self._end(channel)
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            self._connector.release(connection)

    def _collect(self, command: Command, directory: str, collection: Collection) -> tuple[str, ...]:
        output: list[bytes] = []
        listed = self._exec(ssh_programs.listing(directory), output.append, limit_s=None, idle_limit_s=FILE_LIMIT_S)
        self._check(command, listed)
        files = read_listing(b"".join(output))
        for batch in batches(collection.missing(files)):
            with collection.receive(batch) as receiver:
                program = ssh_programs.sending(directory, [file.name for file in batch])
                sent = self._exec(program, receiver.feed, limit_s=None, idle_limit_s=FILE_LIMIT_S)
                self._check(command, sent)
                receiver.finish()
        collection.settle()
        return tuple(sorted(file.name for file in files))

    def _give_up(
        self, command: Command, collection: Collection, error: HostUnreachable | Changed | BadListing
    ) -> NoReturn:
        collection.settle()
        if isinstance(error, HostUnreachable):
            raise error
        raise CommandFailed(Completed(self.host, command, 1, b"", str(error).encode(), 0.0))

    def _exec_well(self, command: Command, program: str, stdin: bytes = b"") -> None:
        self._check(command, self._exec(program, lambda _: None, stdin=stdin, limit_s=FILE_LIMIT_S))

    def _check(self, command: Command, ended: Ended) -> None:
        if ended.status is None:
            timed = Command(command.argv, timeout_s=FILE_LIMIT_S)
            raise CommandFailed(Completed(self.host, timed, 137, b"", ended.stderr, FILE_LIMIT_S, timed_out=True))
        if ended.status:
            raise CommandFailed(Completed(self.host, command, ended.status, b"", ended.stderr, 0.0))

    def _exec(
        self,
        program: str,
        sink: Callable[[bytes], None],
        *,
        stdin: bytes = b"",
        limit_s: float | None,
        idle_limit_s: float | None = None,
    ) -> Ended:
        connection, channel = self._open(program)
        try:
            return pump(connection, channel, sink, stdin=stdin, limit_s=limit_s, idle_limit_s=idle_limit_s)
        finally:
            connection.release(channel)

    def _open(self, program: str) -> tuple[Connection, paramiko.Channel]:
        """Starts a program, over a new connection when the present one turns out to be dead."""
        for last in (False, True):
            connection = self._connected()
            try:
                return connection, open_program(connection, program)
            except ConnectionBroke:
                if last or connection.fell_silent:  # trying again would only wait once more
                    raise connection.lost() from None
                connection.close()
        raise AssertionError("not reached")

    def _connected(self) -> Connection:
        with self._lock:
            if self._closed:
                raise HostUnreachable(f"{self.host}: its connection was closed")
            if self._connection is not None and self._connection.alive:
                return self._connection
            if self._connection is not None:
                self._connector.release(self._connection)
                self._connection = None
            self._connection = self._connector.connect(self._address)
            return self._connection

    def _end(self, channel: SshChannel) -> None:
        group, connection = channel.group, self._connection
        if group is None or connection is None:
            return
        with contextlib.suppress(HostUnreachable, ConnectionBroke):
            ending = open_program(connection, ssh_programs.ending_group(group))
            try:
                pump(connection, ending, lambda _: None, limit_s=ANSWER_S)
            finally:
                connection.release(ending)
        channel.wait(1.0)

    @contextlib.contextmanager
    def _noted(self, verb: str, path: str) -> Iterator[Command]:
        """Logs a step with files, however it ends."""
        command = Command((verb, path))
        started_unix_s, started = time.time(), time.monotonic()
        how = "failed"
        try:
            yield command
            how = "0"
        except CommandFailed as error:
            how = str(error.completed.status)
            raise
        except HostUnreachable:
            how = "connection lost"
            raise
        finally:
            self._log.record(self.host, log_line(command), started_unix_s, time.monotonic() - started, how)

    def _finished(self, completed: Completed, started_unix_s: float) -> Completed:
        limit_s = completed.command.timeout_s
        how = f"no answer in {limit_s:g} s" if completed.timed_out and limit_s else str(completed.status)
        self._log.record(self.host, log_line(completed.command), started_unix_s, completed.duration_s, how)
        return completed
