"""Proving to a host who we are, and to ourselves who the host is."""

from __future__ import annotations

import contextlib
import functools
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from cluster.transports import ssh_known_hosts
from cluster.transports.base import HostUnreachable
from cluster.transports.ssh_config import Target, default_keys


class ConnectionBroke(Exception):
    """The connection ended while it was being made; another attempt may succeed."""


@dataclass(frozen=True, slots=True)
class _Key:
    shown: str
    key: paramiko.PKey


def ask_for_known_keys(transport: paramiko.Transport, known: tuple[ssh_known_hosts.KnownKey, ...]) -> None:
    """Makes the host prove one of the keys on record, where it has several. To be called before the handshake."""
    options = transport.get_security_options()
    offered = list(options.key_types)
    first = [name for name in ssh_known_hosts.key_types(known) if name in offered]
    options.key_types = [*first, *(name for name in offered if name not in first)]


def check_host_key(
    target: Target,
    key: paramiko.PKey,
    known: tuple[ssh_known_hosts.KnownKey, ...],
    *,
    accept_new: bool,
    notice: Callable[[str], None],
) -> None:
    """Raises HostUnreachable unless the key is on record, or is the first of this host and `accept_new`."""
    shown = target.shown()
    what = f"{key.get_name()} {ssh_known_hosts.fingerprint(key)}"
    same = [entry for entry in known if entry.blob == key.asbytes()]
    if revoked := [entry for entry in same if entry.revoked]:
        raise HostUnreachable(f"{shown}: its host key {what} is revoked by {revoked[0].file}, line {revoked[0].line}")
    if same:
        return
    if others := [entry for entry in known if not entry.revoked]:
        where = others[0]
        forget = f"ssh-keygen -R {shlex.quote(target.known_as)} -f {shlex.quote(str(where.file))}"
        raise HostUnreachable(
            f"{shown}: THE HOST KEY HAS CHANGED to {what}; {where.file}, line {where.line}, has another one. Somebody "
            f"may be posing as this host. Only if you know why it changed: {forget}"
        )
    file = target.user_known_hosts[0] if target.user_known_hosts else Path("~/.ssh/known_hosts").expanduser()
    if not accept_new:
        raise HostUnreachable(
            f"{shown}: its host key {what} is not known; compare it, then add it with "
            f"`{_adding(target, key, file)}`, or accept new keys with --accept-new-host-keys"
        )
    try:
        ssh_known_hosts.append(file, target.known_as, key)
    except OSError as error:
        raise HostUnreachable(f"{shown}: its new host key cannot be written to {file}: {error.strerror}") from None
    notice(f"{shown}: new host key {what} accepted and added to {file}")


def log_in(transport: paramiko.Transport, target: Target, *, use_agent: bool) -> None:
    """Tries the keys one after another: those of the configuration, the agent's, the usual ones.

    Raises HostUnreachable when none is accepted, ConnectionBroke when the connection ended meanwhile.
    """
    tried: list[str] = []
    passed_over: list[str] = []
    with _keys(target, passed_over, use_agent=use_agent) as keys:
        for key in keys:
            tried.append(key.shown)
            try:
                further = transport.auth_publickey(target.user, key.key)
            except paramiko.BadAuthenticationType as error:
                allowed = ", ".join(error.allowed_types) or "none"
                raise HostUnreachable(f"{_refused(target)}: sshd takes no keys, only: {allowed}") from None
            except paramiko.AuthenticationException:
                if not transport.is_active():
                    break
                continue
            except (paramiko.SSHException, EOFError, OSError) as error:
                if len(tried) < 2:
                    raise ConnectionBroke(str(error) or "connection closed") from None
                break
            if further:
                raise HostUnreachable(
                    f"{_refused(target)}: after the key, sshd also wants {', '.join(further)}, which is not supported"
                )
            return
    raise HostUnreachable(_no_key_accepted(target, tried, passed_over, closed=not transport.is_active()))


def _refused(target: Target) -> str:
    return f"{target.shown()}: login as {target.user} refused"


def _no_key_accepted(target: Target, tried: list[str], passed_over: list[str], *, closed: bool) -> str:
    port = "" if target.port == 22 else f"-p {target.port} "
    parts = [f"keys tried: {', '.join(tried)}" if tried else "no key to try was found"]
    if passed_over:
        parts.append(f"not tried: {', '.join(passed_over)}")
    if closed:
        parts.append("sshd hung up (MaxAuthTries?): name the right key with IdentityFile and set IdentitiesOnly yes")
    else:
        parts.append(f"`ssh-copy-id {port}{shlex.quote(f'{target.user}@{target.address}')}` installs yours")
    return f"{_refused(target)}; {'; '.join(parts)}"


def _adding(target: Target, key: paramiko.PKey, file: Path) -> str:
    """The command that makes a host's key known."""
    to_file = f">> {shlex.quote(str(file))}"
    usual_name = target.address if target.port == 22 else f"[{target.address}]:{target.port}"
    if target.jumps or target.known_as != usual_name:  # ssh-keyscan cannot get there, or would write another name
        return f"echo {shlex.quote(ssh_known_hosts.known_hosts_line(target.known_as, key))} {to_file}"
    kind = {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}.get(key.get_name(), "ecdsa")
    port = "" if target.port == 22 else f"-p {target.port} "
    return f"ssh-keyscan -t {kind} {port}{shlex.quote(target.address)} {to_file}"


@contextlib.contextmanager
def _keys(target: Target, passed_over: list[str], *, use_agent: bool) -> Iterator[Iterator[_Key]]:
    """The keys in the order of trying, each once, read when its turn comes. What cannot be used goes to
    `passed_over`."""
    # One agent connection a login: paramiko's has no lock, and logins run side by side.
    agent = _agent() if use_agent else None
    try:
        yield _in_order(target, agent.get_keys() if agent else (), passed_over)
    finally:
        if agent is not None:
            agent.close()


def _agent() -> paramiko.Agent | None:
    try:
        return paramiko.Agent()
    except (paramiko.SSHException, OSError):
        return None


def _in_order(target: Target, in_agent: tuple[paramiko.AgentKey, ...], passed_over: list[str]) -> Iterator[_Key]:
    held = {key.asbytes(): _Key(f"{key.comment or key.get_name()} (agent)", key) for key in in_agent}
    for path in target.identity_files:
        public = _public_blob(path)
        if public is not None and public in held:
            yield held.pop(public)
        else:
            yield from _from_file(path, passed_over)
    if not target.identities_only:
        yield from held.values()
    if not target.identity_files:
        for path in default_keys():
            if _public_blob(path) not in held:
                yield from _from_file(path, passed_over)


def _from_file(path: Path, passed_over: list[str]) -> Iterator[_Key]:
    loaded = _load(path)
    if isinstance(loaded, str):
        passed_over.append(f"{path} ({loaded})")
    else:
        yield _Key(str(path), loaded)


@functools.lru_cache(maxsize=64)
def _load(path: Path) -> paramiko.PKey | str:
    """The key, or why it cannot be used."""
    try:
        return paramiko.PKey.from_path(path)
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return error.strerror or str(error)
    except (TypeError, paramiko.PasswordRequiredException):
        return "has a passphrase: add it to your agent with ssh-add"
    except (paramiko.SSHException, paramiko.pkey.UnknownKeyType, ValueError):
        return "is no private key of a kind that is supported (ed25519, ecdsa, rsa)"


def _public_blob(path: Path) -> bytes | None:
    """What stands in the public half beside a private key file."""
    try:
        return paramiko.pkey.PublicBlob.from_file(f"{path}.pub").key_blob
    except (OSError, ValueError):
        return None
