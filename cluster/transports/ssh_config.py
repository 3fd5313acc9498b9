"""How a host is to be reached over SSH: what the plan says, then ~/.ssh/config, then the system's ssh_config."""

from __future__ import annotations

import getpass
import glob
import io
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import paramiko

from cluster.hosts import Host
from cluster.transports.base import HostUnreachable

DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
"""In ~/.ssh, where neither the options nor the configuration name keys."""

_DEEPEST_INCLUDE = 16


@dataclass(frozen=True, slots=True)
class SshOptions:
    """How hosts are reached. None for a file means where OpenSSH has it.

    `accept_new_host_keys` adds the key of a host that nobody knows yet to the user's known hosts; a changed key is
    refused all the same. `identity_files` are tried before those of the configuration. Times are in seconds;
    `connect_timeout_s` is for one attempt to reach a host. `connects_at_once` stays below the 10 at which an sshd with
    its default MaxStartups begins to drop connections. `channels` is how many programs run at once over a connection
    (sshd's MaxSessions is 10). A host counts as lost when it answers nothing for `lost_after_s`.
    """

    accept_new_host_keys: bool = False
    identity_files: tuple[Path, ...] = ()
    config_file: Path | None = None
    system_config_file: Path = Path("/etc/ssh/ssh_config")
    known_hosts_file: Path | None = None
    use_agent: bool = True
    connect_timeout_s: float = 10.0
    connects_at_once: int = 8
    channels: int = 8
    lost_after_s: float = 13.0


@dataclass(frozen=True, slots=True)
class Target:
    """Everything needed to log in. `name` is what the plan calls the host, `address` what is connected to."""

    name: str
    address: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    identities_only: bool
    user_known_hosts: tuple[Path, ...]
    global_known_hosts: tuple[Path, ...]
    known_as: str
    jumps: tuple[Host, ...]

    def shown(self) -> str:
        """`name`, or `name (address:port)` where the address says more."""
        where = self.address if self.port == 22 else f"{self.address}:{self.port}"
        return self.name if where == self.name else f"{self.name} ({where})"


class SshConfig:
    """The configuration files, read once."""

    def __init__(self, options: SshOptions) -> None:
        self._options = options
        user_file = options.config_file or Path("~/.ssh/config").expanduser()
        self._where = str(user_file)
        files = [user_file] if options.config_file else [user_file, options.system_config_file]
        try:
            # The first value found counts, so the user's file comes first; an empty `Host *` ends its last block.
            text = "\nHost *\n".join(_with_includes(file) for file in files)
            self._config = paramiko.SSHConfig.from_file(io.StringIO(text))
        except (OSError, UnicodeDecodeError) as error:
            raise HostUnreachable(f"the ssh configuration cannot be read: {error}") from None
        except paramiko.ssh_exception.ConfigParseError as error:
            raise HostUnreachable(f"{user_file}: {error}") from None

    def target(self, host: Host) -> Target:
        """Raises HostUnreachable for a configuration that cannot be followed."""
        found = self._lookup(host)
        if found.get("proxycommand") is not None:
            raise HostUnreachable(
                f"{host.name}: {self._where} has ProxyCommand for this host, which is not supported; use ProxyJump"
            )
        address = found.get("hostname", host.name)
        port = host.port or _number(found.get("port", "22"), host.name)
        files = [Path(name).expanduser() for name in found.get("identityfile", [])]
        given = self._options.known_hosts_file
        user_known = found.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
        return Target(
            name=host.name,
            address=address,
            port=port,
            user=host.user or found.get("user") or getpass.getuser(),
            identity_files=tuple(dict.fromkeys([*self._options.identity_files, *files])),
            identities_only=found.get("identitiesonly", "no").lower() == "yes",
            user_known_hosts=(given,) if given else _paths(user_known),
            global_known_hosts=_paths(
                found.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
            ),
            known_as=found.get("hostkeyalias") or (address if port == 22 else f"[{address}]:{port}"),
            jumps=self._jumps(found.get("proxyjump"), host),
        )

    def _lookup(self, host: Host) -> paramiko.SSHConfigDict:
        try:
            return self._config.lookup(host.name)
        except (paramiko.SSHException, OSError, ValueError, ImportError) as error:
            # ImportError: `Match exec` needs a library that is not here.
            raise HostUnreachable(f"{host.name}: {self._where} cannot be followed: {error}") from None

    def _jumps(self, text: str | None, host: Host) -> tuple[Host, ...]:
        if text is None or text.lower() == "none":
            return ()
        try:
            return tuple(Host.parse(part.strip().removeprefix("ssh://")) for part in text.split(","))
        except ValueError as error:
            raise HostUnreachable(f"{host.name}: ProxyJump in {self._where}: {error}") from None


def default_keys() -> tuple[Path, ...]:
    """The keys an ssh client tries by itself, those that exist."""
    home = Path("~/.ssh").expanduser()
    return tuple(path for name in DEFAULT_KEYS if (path := home / name).is_file())


def _number(text: str, name: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise HostUnreachable(f"{name}: the ssh configuration has Port {text}, which is no port")
    return int(text)


def _paths(text: str) -> tuple[Path, ...]:
    return () if text.lower() == "none" else tuple(Path(word).expanduser() for word in shlex.split(text))


def _with_includes(file: Path, depth: int = 0) -> str:
    """The file's text with every Include replaced by what it names; "" for a file that does not exist.

    After an included text the block that the Include stood in goes on. (OpenSSH also applies the blocks of an included
    file only where the block around the Include matches; here they apply as if they stood at the top.)
    """
    if depth > _DEEPEST_INCLUDE:
        raise HostUnreachable(f"{file}: Include goes deeper than {_DEEPEST_INCLUDE} files: does it include itself?")
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    lines: list[str] = []
    block = "Host *"
    for line in text.splitlines():
        word, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        if word.lower() in {"host", "match"}:
            block = line
        if word.lower() != "include":
            lines.append(line)
            continue
        for pattern in shlex.split(rest):
            folder = Path("~/.ssh").expanduser() if depth or file.name != "ssh_config" else file.parent
            for name in sorted(glob.glob(os.path.join(folder, os.path.expanduser(pattern)))):  # noqa: PTH111, PTH118, PTH207 - patterns may be absolute
                lines += [_with_includes(Path(name), depth + 1), block]
    return "\n".join(lines)
