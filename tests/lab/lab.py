"""Real hosts on one machine: network, mount, uts, pid and ipc namespaces, each with its own sshd and host name.

The hosts hang on a bridge of the machine, in a subnet that is used for nothing else. Each has its own /tmp, /run,
/etc/ceph, /var/lib/ceph, /var/log/ceph, home of root, /etc/hosts, and an ordinary user `bench`. The machine's own files
are visible otherwise. A host's first process ends when its input closes, and everything on the host with it: a lab goes
away with the process that made it, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PRIVATE_FOLDERS = ("/tmp", "/run", "/root", "/etc/ceph", "/var/lib/ceph", "/var/log/ceph")  # noqa: S108 - inside a host
ORDINARY_USER = "bench"
START_LIMIT_S = 60.0
_BRIDGE_PREFIX = "cbtlab"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# bash, because it reaps the orphans of its namespace while it waits for a line; dash leaves them as zombies.
_INIT = r"""
set -e
hostname "$name"
mount --make-rprivate /
for folder in $folders; do
    mount --bind "$state$folder" "$folder"
done
mount --bind "$hosts_file" /etc/hosts
mount --bind "$state/passwd" /etc/passwd
ip link set lo up
echo namespaces
read -r _
ip addr add "$address/24" dev eth0
ip link set eth0 up
/usr/sbin/sshd -D -f "$state/sshd_config" -E "$state/sshd.log" <&- &
echo up
exec >/dev/null
read -r _ || true
"""


class LabImpossible(Exception):
    """Hosts cannot be made here; one line that says why."""


@dataclass(slots=True)
class LabHost:
    """One host. `state` holds its private folders, configuration and sshd log as the machine sees them."""

    name: str
    address: str
    state: Path
    link: str
    bridge: str
    process: subprocess.Popen[str]
    init_pid: int = 0

    @property
    def tmp(self) -> Path:
        """Its /tmp."""
        return self.state / "tmp"

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def crash(self) -> None:
        """Ends everything on the host at once; nobody is told: the other side of its connections hears nothing."""
        self.network_down()
        os.kill(self.init_pid, signal.SIGKILL)
        self.process.wait(10)

    def network_down(self) -> None:
        _ip("link", "set", self.link, "down")

    def network_up(self) -> None:
        _ip("link", "set", self.link, "up")

    def inside(self, *words: str, stdin: str | None = None) -> str:
        """Runs a command on the host, not over the network; its output. Raises CalledProcessError."""
        entering = ("nsenter", "-t", str(self.init_pid), "-m", "-u", "-i", "-n", "-p", "--")
        return subprocess.run([*entering, *words], input=stdin, capture_output=True, text=True, check=True).stdout

    def processes(self) -> dict[int, str]:
        """Pid (as the machine sees it) → command line of everything that runs on the host but its first process."""
        space = _pid_space(self.init_pid)
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.init_pid:
                continue
            with contextlib.suppress(OSError):
                if _pid_space(int(entry.name)) == space and (words := (entry / "cmdline").read_bytes()):
                    found[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace").strip()
        return found

    def benchmark_processes(self) -> dict[int, str]:
        """What runs on the host beside its sshd and its first process."""
        return {pid: words for pid, words in self.processes().items() if not _is_sshd(words)}

    def stop_sshd(self) -> None:
        """Kills sshd with the connections that it serves."""
        self._kill_sshd(lambda _: True)

    def drop_connections(self) -> None:
        """Kills what serves the connections of the moment; new ones are possible."""
        self._kill_sshd(lambda words: "[listener]" not in words)

    def _kill_sshd(self, which: Callable[[str], bool]) -> None:
        for pid, words in self.processes().items():
            if _is_sshd(words) and which(words):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def start_sshd(self, *, port: int = 22, host_key: Path | None = None, options: Sequence[str] = ()) -> None:
        """Starts sshd (again, or one more at another port), with another host key or further lines of configuration
        where given."""
        lines = (self.state / "sshd_config").read_text().splitlines()
        if host_key is not None:
            lines = [f"HostKey {host_key}" if line.startswith("HostKey ") else line for line in lines]
        lines = [line.replace(f"{self.address}:22", f"{self.address}:{port}") for line in lines]
        config = self.state / f"sshd_config.{port}"
        config.write_text("\n".join([*options, *lines, ""]))  # sshd takes the first value it finds
        self.inside("/usr/sbin/sshd", "-f", str(config), "-E", str(self.state / "sshd.log"))
        _wait_for_sshd(self.address, port, time.monotonic() + 10)


@dataclass(slots=True)
class Lab:
    """Some hosts and what an ssh client needs to reach them by name. Use `running_lab`."""

    base: Path
    subnet: str
    bridge: str
    hosts: list[LabHost] = field(default_factory=list)

    @property
    def key(self) -> Path:
        return self.base / "key"

    @property
    def known_hosts(self) -> Path:
        return self.base / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        """For `ssh -F` and SshOptions: names, user root, key and host keys of this lab."""
        return self.base / "ssh_config"

    def host(self, name: str) -> LabHost:
        [found] = [host for host in self.hosts if host.name == name]
        return found

    def new_key(self, name: str) -> Path:
        """Another key pair, of whatever use."""
        path = self.base / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)], check=True)
        return path


@contextlib.contextmanager
def running_lab(count: int, sshd_options: Sequence[str] = ()) -> Iterator[Lab]:
    """`count` hosts node1, node2, …; all is gone afterwards. `sshd_options` are lines that come first in sshd_config.

    Raises LabImpossible.
    """
    _check_possible(count)
    # Not under /tmp, which is another folder on the hosts.
    base = Path(tempfile.mkdtemp(prefix="cbt-lab-", dir="/var/tmp"))
    base.chmod(0o711)
    lab: Lab | None = None
    with contextlib.ExitStack() as cleaning:
        cleaning.callback(shutil.rmtree, base, ignore_errors=True)
        with _machine_lock():
            _remove_abandoned_bridges()
            subnet, bridge = _new_bridge()
            cleaning.callback(_ip, "link", "del", bridge)
        lab = Lab(base, subnet, bridge)
        _write_keys_and_names(lab, count)
        cleaning.callback(_end_hosts, lab)
        for number in range(1, count + 1):
            lab.hosts.append(_start_host(lab, number, sshd_options))
        _connect_hosts(lab)
        _write_client_files(lab)
        yield lab


def _check_possible(count: int) -> None:
    if not 0 < count <= 200:
        raise ValueError("a lab has from 1 to 200 hosts")
    if os.geteuid() != 0:
        raise LabImpossible("hosts made of namespaces need root; run the tests as root (in a container, for instance)")
    for tool in ("unshare", "nsenter", "ip", "ssh-keygen", "bash", "mount"):
        if shutil.which(tool) is None:
            raise LabImpossible(f"hosts made of namespaces need the program {tool!r}")
    if not Path("/usr/sbin/sshd").exists():
        raise LabImpossible("hosts made of namespaces need sshd; install openssh-server")
    trial = ("unshare", "--net", "--uts", "--mount", "--pid", "--ipc", "--fork", "--mount-proc", "true")
    result = subprocess.run(trial, capture_output=True, text=True, check=False)
    if result.returncode:
        raise LabImpossible(f"namespaces are not allowed here ({result.stderr.strip()}): no hosts can be made")


def _ip(*words: str) -> None:
    result = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if result.returncode and words[:2] != ("link", "del"):
        raise LabImpossible(f"ip {' '.join(words)}: {result.stderr.strip()}")


@contextlib.contextmanager
def _machine_lock() -> Iterator[None]:
    """One lab at a time makes or removes bridges."""
    with open("/proc/self/ns/net") as space:  # noqa: PTH123 - a descriptor to lock, of what every lab here shares
        fcntl.flock(space, fcntl.LOCK_EX)
        yield


def _new_bridge() -> tuple[str, str]:
    """Claims a subnet 10.A.B.0/24 that no route of this machine touches: (its first three numbers, the bridge)."""
    shown = subprocess.run(["ip", "-4", "route", "show", "table", "all"], capture_output=True, text=True, check=True)
    taken = []
    for word in shown.stdout.split():
        with contextlib.suppress(ValueError):
            taken.append(ipaddress.ip_network(word, strict=False))
    for _ in range(200):
        a, b = random.randint(64, 254), random.randint(0, 254)  # noqa: S311 - not a secret
        wanted = ipaddress.ip_network(f"10.{a}.{b}.0/24")
        if any(wanted.overlaps(network) for network in taken):
            continue
        bridge = f"{_BRIDGE_PREFIX}{a}-{b}"
        if subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], capture_output=True, check=False).returncode:
            break
        _ip("link", "set", "dev", bridge, "alias", f"pid {os.getpid()} started {_start_ticks(os.getpid())}")
        _ip("addr", "add", f"10.{a}.{b}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        return f"10.{a}.{b}", bridge
    raise LabImpossible("this machine lets nobody add a bridge (ip link add … type bridge)")


def _remove_abandoned_bridges() -> None:
    """Bridges of labs whose process was killed: their hosts ended by themselves."""
    for link in Path("/sys/class/net").glob(f"{_BRIDGE_PREFIX}*-*"):
        words = (link / "ifalias").read_text().split()
        if len(words) == 4 and words[0] == "pid" and _start_ticks(int(words[1])) != words[3]:
            _ip("link", "del", link.name)


def _start_ticks(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return "gone"


def _write_keys_and_names(lab: Lab, count: int) -> None:
    lab.new_key("key")
    names = [f"{lab.subnet}.{10 + k} node{k}.lab node{k}" for k in range(1, count + 1)]
    (lab.base / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
    (lab.base / "hosts").chmod(0o644)
    (lab.base / "key.pub").chmod(0o644)


def _start_host(lab: Lab, number: int, sshd_options: Sequence[str]) -> LabHost:
    name, address = f"node{number}", f"{lab.subnet}.{10 + number}"
    state = lab.base / name
    folders = [folder for folder in PRIVATE_FOLDERS if Path(folder).is_dir()]
    for folder in folders:
        (state / folder.lstrip("/")).mkdir(parents=True)
    (state / "tmp").chmod(0o1777)
    (state / "root").chmod(0o700)
    (state / "run" / "sshd").mkdir(mode=0o755)
    passwd = f"{ORDINARY_USER}:x:2001:2001::/tmp:/bin/sh\n"
    (state / "passwd").write_text(Path("/etc/passwd").read_text().rstrip("\n") + "\n" + passwd)
    (state / "passwd").chmod(0o644)
    host_key = lab.new_key(f"{name}.hostkey")
    config = [
        *sshd_options,
        f"ListenAddress {address}:22",
        f"HostKey {host_key}",
        f"AuthorizedKeysFile {lab.key}.pub",
        "StrictModes no",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "UseDNS no",
        "PidFile none",
        f"SetEnv PATH={_PATH}",
    ]
    (state / "sshd_config").write_text("\n".join([*config, ""]))
    values = {
        "name": name,
        "state": str(state),
        "folders": " ".join(folders),
        "hosts_file": str(lab.base / "hosts"),
        "address": address,
    }
    settings = "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())
    unshare = ("unshare", "--net", "--uts", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc")
    with (state / "init.log").open("w") as log:
        process = subprocess.Popen(
            [*unshare, "bash", "--norc", "-c", settings + _INIT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    prefix = lab.bridge.removeprefix(_BRIDGE_PREFIX)
    return LabHost(name, address, state, f"v{prefix}h{number}", lab.bridge, process)


def _connect_hosts(lab: Lab) -> None:
    lines = []
    for host in lab.hosts:
        _expect(host, "namespaces")
        [child] = Path(f"/proc/{host.process.pid}/task/{host.process.pid}/children").read_text().split()
        host.init_pid = int(child)
        lines.append(f"link add {host.link} type veth peer name eth0 netns {child}")
        lines.append(f"link set {host.link} master {lab.bridge} up")
    result = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False)
    if result.returncode:
        raise LabImpossible(f"no network links can be made: {result.stderr.strip()}")
    for host in lab.hosts:
        assert host.process.stdin is not None
        host.process.stdin.write("go\n")
        host.process.stdin.flush()
    until = time.monotonic() + START_LIMIT_S
    for host in lab.hosts:
        _expect(host, "up")
        _wait_for_sshd(host.address, 22, until)


def _expect(host: LabHost, word: str) -> None:
    assert host.process.stdout is not None
    if (line := host.process.stdout.readline()) != word + "\n":
        log = (host.state / "init.log").read_text().strip()
        raise LabImpossible(f"{host.name} did not come up ({log or line!r})")


def _wait_for_sshd(address: str, port: int, until: float) -> None:
    while True:
        try:
            with socket.create_connection((address, port), timeout=1):
                return
        except OSError as error:
            if time.monotonic() > until:
                raise LabImpossible(f"sshd at {address} does not answer: {error}") from None
            time.sleep(0.02)


def _write_client_files(lab: Lab) -> None:
    known, config = [], []
    for host in lab.hosts:
        kind, key, _ = Path(f"{lab.base / host.name}.hostkey.pub").read_text().split(maxsplit=2)
        known.append(f"{host.address} {kind} {key}")
        config.append(f"Host {host.name}\n    HostName {host.address}")
    lab.known_hosts.write_text("\n".join([*known, ""]))
    common = f"""\
Host *
    User root
    IdentityFile {lab.key}
    IdentitiesOnly yes
    UserKnownHostsFile {lab.known_hosts}
"""
    lab.ssh_config.write_text("\n".join([*config, common]))


def _end_hosts(lab: Lab) -> None:
    for host in lab.hosts:
        if host.process.stdin is not None:
            with contextlib.suppress(OSError):
                host.process.stdin.close()
    for host in lab.hosts:
        try:
            host.process.wait(5)
        except subprocess.TimeoutExpired:
            host.process.kill()
            host.process.wait()
        if host.process.stdout is not None:
            host.process.stdout.close()


def _pid_space(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


def _is_sshd(words: str) -> bool:
    return words.startswith(("sshd:", "/usr/sbin/sshd", "sshd "))
