"""Connections to hosts: made with few attempts at once, watched, and shared where hosts lie behind another."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko

from cluster.hosts import Host
from cluster.transports import ssh_known_hosts
from cluster.transports.base import HostUnreachable
from cluster.transports.ssh_config import SshConfig, SshOptions, Target
from cluster.transports.ssh_login import ConnectionBroke, ask_for_known_keys, check_host_key, log_in

ATTEMPTS = 8
"""How often a connection that sshd drops while it is being made is tried; the waits between grow to some seconds."""

HANDSHAKE_S = 15.0
SESSION_WAIT_S = 30.0
"""How long to wait for a place among the sessions that sshd or our own limit allows."""

_WATCH_EVERY_S = 0.5

# What paramiko has to say reaches users through the exceptions; without a handler Python would print it as well.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class Connection:
    """One logged-in connection to one host. Ends itself when the host answers nothing any more."""

    def __init__(
        self, target: Target, transport: paramiko.Transport, options: SshOptions, via: Connection | None
    ) -> None:
        self.target = target
        self.transport = transport
        self.via = via
        self.users = 1
        self._slots = threading.BoundedSemaphore(options.channels)
        self._channels = options.channels
        self._lost: str | None = None
        self._ended = threading.Event()
        self.asked_at: float | None = None
        self._lost_after_s = options.lost_after_s
        threading.Thread(target=self._keep_alive, name=f"keep-alive {target.name}", daemon=True).start()
        _watcher.watch(self)

    @property
    def alive(self) -> bool:
        return self._lost is None and self.transport.is_active()

    @property
    def fell_silent(self) -> bool:
        """Whether it was given up because the host answered nothing any more."""
        return self._lost is not None

    def why_lost(self) -> str:
        """Why the connection is no more; for a message."""
        if self._lost is not None:
            return self._lost
        error = self.transport.get_exception()
        if error is None or isinstance(error, EOFError):
            return "the connection was closed by the host"
        return str(getattr(error, "strerror", None) or error)

    def lost(self) -> HostUnreachable:
        return HostUnreachable(f"{self.target.shown()}: connection lost: {self.why_lost()}")

    def open_session(self) -> paramiko.Channel:
        """A channel for one program; `release` it afterwards. Raises ConnectionBroke when the connection has died
        (nothing was started), HostUnreachable when no session is to be had."""
        if not self._slots.acquire(timeout=SESSION_WAIT_S):
            raise HostUnreachable(
                f"{self.target.shown()}: {self._channels} programs run over its connection already, and none has ended "
                f"for {SESSION_WAIT_S:g} s"
            )
        try:
            return self._open_session()
        except BaseException:
            self._slots.release()
            raise

    def release(self, channel: paramiko.Channel) -> None:
        """Closes a channel and gives its place back."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.close()
        self._slots.release()

    def close(self) -> None:
        """Ends the connection."""
        self._ended.set()
        self._drop()

    def fail(self, reason: str) -> None:
        """Ends the connection because the host is lost."""
        if self._lost is None and not self._ended.is_set():
            self._lost = reason
        self.close()

    def overdue_s(self) -> float:
        """For how long an answer has been missing."""
        asked_at = self.asked_at
        return 0.0 if asked_at is None else time.monotonic() - asked_at

    def check(self) -> bool:
        """For the watcher: False when there is nothing more to watch."""
        if self._ended.is_set() or not self.transport.is_active():
            self._ended.set()
            return False
        if self.overdue_s() >= self._answer_within_s:
            self.fail(f"it answered nothing for {self._lost_after_s:g} s")
            return False
        return True

    @property
    def _ask_every_s(self) -> float:
        return self._lost_after_s / 3

    @property
    def _answer_within_s(self) -> float:
        return self._lost_after_s - self._ask_every_s - _WATCH_EVERY_S

    def _open_session(self) -> paramiko.Channel:
        until = time.monotonic() + SESSION_WAIT_S
        wait_s = 0.02
        while True:
            try:
                return self.transport.open_session(timeout=SESSION_WAIT_S)
            except paramiko.ChannelException as error:  # sshd refuses: all its sessions are taken, or are just ending
                if time.monotonic() > until:
                    raise HostUnreachable(
                        f"{self.target.shown()}: sshd opens no further session ({error}); raise MaxSessions in its "
                        "sshd_config to 10 or more"
                    ) from None
                time.sleep(wait_s)
                wait_s = min(2 * wait_s, 1.0)
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise ConnectionBroke(str(error)) from None

    def _keep_alive(self) -> None:
        """Asks the host for a sign of life from time to time. Blocks until it answers; the watcher sees how long."""
        while not self._ended.wait(self._ask_every_s):
            self.asked_at = time.monotonic()
            try:
                self.transport.global_request("keepalive@openssh.com", wait=True)
            except (paramiko.SSHException, EOFError, OSError):
                return  # the connection has ended
            self.asked_at = None

    def _drop(self) -> None:
        sock = self.transport.sock
        if isinstance(sock, socket.socket):
            with contextlib.suppress(OSError):  # wakes whoever reads or writes
                sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self.transport.close()


class _Watcher:
    """One thread that ends connections whose hosts have fallen silent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: set[Connection] = set()
        self._running = False

    def watch(self, connection: Connection) -> None:
        with self._lock:
            self._watched.add(connection)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="ssh watcher", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(_WATCH_EVERY_S)
            with self._lock:
                watched = tuple(self._watched)
            done = {connection for connection in watched if not connection.check()}
            with self._lock:
                self._watched -= done
                if not self._watched:
                    self._running = False
                    return


_watcher = _Watcher()


@dataclass(slots=True)
class Connector:
    """Makes connections for many hosts. `notice` gets a line for what a user should know (a key that was accepted)."""

    options: SshOptions
    notice: Callable[[str], None]
    config: SshConfig = field(init=False)
    _gate: threading.BoundedSemaphore = field(init=False)
    _jumps: dict[tuple[Host, ...], Connection] = field(default_factory=dict)
    _jump_locks: dict[tuple[Host, ...], threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.config = SshConfig(self.options)
        self._gate = threading.BoundedSemaphore(self.options.connects_at_once)

    def connect(self, host: Host) -> Connection:
        """Logs in to a host, through its jump hosts. Raises HostUnreachable, one line."""
        self._refuse_circles(host)
        return self._connect(host, None)

    def release(self, connection: Connection) -> None:
        """Ends a connection, and those to jump hosts that nobody uses any more."""
        with self._lock:
            connection.users -= 1
            if connection.users > 0:
                return
            self._jumps = {chain: known for chain, known in self._jumps.items() if known is not connection}
        connection.close()
        if connection.via is not None:
            self.release(connection.via)

    def _refuse_circles(self, host: Host) -> None:
        """Before anybody waits for anybody."""
        first, passed = host, {host}
        while jumps := self.config.target(first).jumps:
            first = jumps[0]
            if first in passed:
                raise HostUnreachable(f"{host.name}: ProxyJump in the ssh configuration goes round in a circle")
            passed.add(first)

    def _connect(self, host: Host, jumps: tuple[Host, ...] | None) -> Connection:
        target = self.config.target(host)
        chain = target.jumps if jumps is None else jumps
        via = self._jump(chain, host) if chain else None
        try:
            return self._with_patience(target, via)
        except BaseException:
            if via is not None:
                self.release(via)
            raise

    def _jump(self, chain: tuple[Host, ...], host: Host) -> Connection:
        """The connection to the last host of `chain`, shared by all who lie behind it."""
        with self._lock:
            lock = self._jump_locks.setdefault(chain, threading.Lock())
        with lock:
            with self._lock:
                known = self._jumps.get(chain)
                if known is not None and known.alive:
                    known.users += 1
                    return known
            try:
                # The first of the chain is reached as its own configuration says.
                made = self._connect(chain[-1], chain[:-1] or None)
            except HostUnreachable as error:
                raise HostUnreachable(f"{host.name}: by way of {error}") from None
            with self._lock:
                self._jumps[chain] = made
            return made

    def _with_patience(self, target: Target, via: Connection | None) -> Connection:
        """sshd drops connections at random when many come at once (MaxStartups): then it is tried again."""
        reason = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(min(0.1 * 2**attempt, 3.0) * random.uniform(0.5, 1.5))  # noqa: S311 - not a secret
            with self._gate:
                try:
                    return self._attempt(target, via)
                except ConnectionBroke as error:
                    reason = str(error)
        raise HostUnreachable(
            f"{target.shown()}: the connection broke {ATTEMPTS} times before the login ({reason}); is that port an "
            "sshd, and does it accept so many connections (MaxStartups)?"
        )

    def _attempt(self, target: Target, via: Connection | None) -> Connection:
        sock = _tcp(target, self.options.connect_timeout_s) if via is None else _through(via, target, self.options)
        transport = paramiko.Transport(sock)
        try:
            self._log_in(transport, target)
        except BaseException:
            transport.close()
            sock.close()
            raise
        sock.settimeout(1.0)  # paramiko's 0.1 s would wake a thread ten times a second for every host
        return Connection(target, transport, self.options, via)

    def _log_in(self, transport: paramiko.Transport, target: Target) -> None:
        known = ssh_known_hosts.known_keys(target.known_as, (*target.user_known_hosts, *target.global_known_hosts))
        ask_for_known_keys(transport, known)
        transport.banner_timeout = HANDSHAKE_S
        transport.auth_timeout = HANDSHAKE_S
        _shake_hands(transport, target)
        check_host_key(
            target,
            transport.get_remote_server_key(),
            known,
            accept_new=self.options.accept_new_host_keys,
            notice=self.notice,
        )
        log_in(transport, target, use_agent=self.options.use_agent)


def _shake_hands(transport: paramiko.Transport, target: Target) -> None:
    done = threading.Event()
    transport.start_client(event=done)
    until = time.monotonic() + 2 * HANDSHAKE_S
    while transport.is_active() and not done.wait(0.1):
        if time.monotonic() > until:
            raise HostUnreachable(f"{target.shown()}: no SSH handshake within {2 * HANDSHAKE_S:g} s")
    if transport.is_active():
        return
    error = transport.get_exception()
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer) or "Indecipherable" in str(error):
        raise HostUnreachable(f"{target.shown()}: {error}")
    raise ConnectionBroke(str(error or "connection closed"))


def _tcp(target: Target, timeout_s: float) -> socket.socket:
    shown = target.shown()
    try:
        addresses = socket.getaddrinfo(target.address, target.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise HostUnreachable(
            f"{shown}: the name {target.address} cannot be resolved ({why}); check its spelling, /etc/hosts, or "
            "HostName in ~/.ssh/config"
        ) from None
    problem = ""
    for family, kind, protocol, _, address in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(timeout_s)
            sock.connect(address)
            # An order goes out at once, not when the last one was acknowledged.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            problem = _connect_problem(error, target, timeout_s)
    raise HostUnreachable(f"{shown}: {problem}")


def _connect_problem(error: OSError, target: Target, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {timeout_s:g} s; is the host up, and does a firewall block port {target.port}?"
    if isinstance(error, ConnectionRefusedError):
        return f"connection refused; does sshd run there, and at port {target.port}?"
    return f"cannot be reached: {error.strerror or error}"


def _through(via: Connection, target: Target, options: SshOptions) -> paramiko.Channel:
    try:
        return via.transport.open_channel(
            "direct-tcpip",
            dest_addr=(target.address, target.port),
            src_addr=("127.0.0.1", 0),
            timeout=options.connect_timeout_s,
        )
    except paramiko.ChannelException as error:
        raise HostUnreachable(f"{target.shown()}: cannot be reached from {via.target.shown()}: {error.text}") from None
    except (paramiko.SSHException, EOFError, OSError) as error:
        if via.alive:
            raise HostUnreachable(
                f"{target.shown()}: no answer in {options.connect_timeout_s:g} s from {via.target.shown()}"
            ) from None
        raise HostUnreachable(f"{target.name}: by way of {via.lost()} ({error})") from None
