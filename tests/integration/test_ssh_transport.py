"""Hosts over SSH, against real sshds: commands, files, keys, and everything that goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.command import Command
from cluster.hosts import Host
from cluster.transports.base import CommandFailed, HostUnreachable
from cluster.transports.clock import measure_clock_offset
from cluster.transports.ssh import SshOptions, SshTransport, connect_all
from cluster.transports.ssh_fetch import BadListing, RemoteFile, batches, read_listing
from tests.lab.lab import Lab, LabHost, running_lab

pytestmark = pytest.mark.integration

TMP = "/tmp"  # noqa: S108 - inside a host
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running_lab(3) as hosts:
        yield hosts


@pytest.fixture
def options(lab: Lab) -> SshOptions:
    return SshOptions(config_file=lab.ssh_config, use_agent=False)


class Journal:
    """Keeps what the command log receives."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, str]] = []

    def record(self, host: str, shown_command: str, started_unix_s: float, duration_s: float, status_text: str) -> None:
        del started_unix_s, duration_s
        self.entries.append((host, shown_command, status_text))


Connect = Callable[..., SshTransport]


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def connect(options: SshOptions, journal: Journal) -> Iterator[Connect]:
    """Connects to one host, and closes it in the end; raises what connect_all returned instead."""
    made: list[SshTransport] = []

    def connect(name: str, chosen: SshOptions | None = None, **more: object) -> SshTransport:
        [result] = connect_all([Host.parse(name)], replace(chosen or options, **more), journal).values()  # type: ignore[arg-type] # fields by name
        if isinstance(result, HostUnreachable):
            raise result
        made.append(result)
        return result

    yield connect
    for transport in made:
        transport.close()


@pytest.fixture
def node1(connect: Connect) -> SshTransport:
    return connect("node1")


def shell(text: str, *words: str, timeout_s: float | None = 30) -> Command:
    return Command(("sh", "-c", text, "sh", *words), timeout_s=timeout_s)


def wait_for(condition: Callable[[], bool], limit_s: float) -> bool:
    until = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


# ---- commands --------------------------------------------------------------------------------------------------------


def test_words_arrive_as_they_are(node1: SshTransport, journal: Journal) -> None:
    """No character of a word or of the environment means anything to a shell on the way; every command is logged."""
    words = ["two words", "$(id)", "`id`", "a;b|c&", "'\"\\", "*", "", "new\nline", "-n", "ü€", "!x"]
    command = Command(("printf", "%s\\0", *words), env=(("A B", "c'd"),))
    completed = node1.run(command)
    assert completed.ok
    assert completed.stdout.decode().split("\0")[:-1] == words
    assert node1.run(Command(("printenv", "X"), env=(("X", "it's $HOME"),))).stdout == b"it's $HOME\n"
    assert [entry[0] for entry in journal.entries] == ["node1", "node1"]
    assert journal.entries[1][1:] == ("env 'X=it'\"'\"'s $HOME' printenv X", "0")


def test_a_command_runs_on_the_host_in_a_fixed_locale(node1: SshTransport) -> None:
    """Commands run on the host, with LC_ALL=C, without a terminal."""
    completed = node1.run(shell('hostname; echo "$LC_ALL"; test -t 0 || echo no terminal'))
    assert completed.stdout == b"node1\nC\nno terminal\n"


def test_exit_statuses(node1: SshTransport) -> None:
    """An exit status, a missing program and a death by signal read as on this machine; stderr is the command's own."""
    assert node1.run(shell("echo why >&2; exit 3")).problem().endswith("status 3: why")
    assert node1.run(Command(("no-such-program",))).status == 127
    assert node1.run(Command(("/etc/passwd",))).status == 126
    killed = node1.run(shell("kill -SEGV $$"))
    assert (killed.status, killed.stderr) == (128 + signal.SIGSEGV, b"")
    assert node1.run(shell("read -r x; exit 124"), stdin=b"x\n").status == 124


def test_large_output_and_input_do_not_block(node1: SshTransport) -> None:
    """Megabytes on stdin, stdout and stderr at once all arrive."""
    data = os.urandom(5_000_000)
    completed = node1.run(shell("tee /dev/stderr"), stdin=data)
    assert completed.stdout == data
    assert completed.stderr == data
    assert node1.run(shell("exit 5"), stdin=data).status == 5


@pytest.mark.parametrize(("stdin", "trap", "status"), [(b"", "", 143), (b"x", "", 143), (b"", "trap '' TERM;", 137)])
def test_a_time_limit_ends_the_command_on_the_host(
    lab: Lab, node1: SshTransport, stdin: bytes, trap: str, status: int
) -> None:
    """A command past its limit is ended there, children included, however deaf it is."""
    completed = node1.run(shell(f"{trap} echo begun; sleep 77 & sleep 78; sleep 79", timeout_s=0.5), stdin=stdin)
    assert completed.timed_out
    assert completed.status == status
    assert completed.stdout == b"begun\n"
    assert wait_for(lambda: not lab.host("node1").benchmark_processes(), 3), lab.host("node1").benchmark_processes()


def test_what_a_command_leaves_behind_does_not_hold_it_up(lab: Lab, node1: SshTransport) -> None:
    """A daemon that keeps the output open does not make its starter hang."""
    started = time.monotonic()
    completed = node1.run(shell("sleep 30 & echo $!"))
    assert completed.ok
    assert time.monotonic() - started < 5
    node1.run(Command(("sh", "-c", f"kill {int(completed.stdout)}")))
    assert wait_for(lambda: not lab.host("node1").benchmark_processes(), 3)


def test_many_commands_share_one_connection(node1: SshTransport) -> None:
    """More commands at once than sshd's MaxSessions allows wait for each other; none fails."""
    with ThreadPoolExecutor(30) as threads:
        results = list(threads.map(lambda n: node1.run(shell(f"sleep 0.2; echo {n}; echo $SSH_CONNECTION")), range(30)))
    assert [int(r.stdout.split()[0]) for r in results] == list(range(30))
    assert len({r.stdout.split(b"\n")[1] for r in results}) == 1


def test_a_started_program_is_held_by_its_lines(node1: SshTransport, journal: Journal) -> None:
    """Lines go both ways at once, its end and stderr are seen, and nothing follows the end of its input."""
    channel = node1.start(shell('echo up >&2; while read -r x; do echo "got $x"; done; exit 7', timeout_s=None))
    channel.send("one\n")
    lines = channel.lines()
    assert next(lines) == "got one"
    assert channel.wait(0.1) is None
    channel.close_input()
    assert list(lines) == []
    assert channel.wait(5) == 7
    assert channel.stderr_text() == "up\n"
    with pytest.raises(HostUnreachable):
        channel.send("late\n")
    assert wait_for(lambda: bool(journal.entries), 2)
    assert journal.entries[-1][2] == "7"
    assert node1.start(Command(("no-such-program",))).wait(5) == 127


def test_closing_ends_what_was_started(lab: Lab, connect: Connect) -> None:
    """A program that ignores the end of its input is ended with the connection."""
    transport = connect("node2")
    channel = transport.start(Command(("sleep", "1000"), timeout_s=None))
    assert wait_for(lambda: bool(lab.host("node2").benchmark_processes()), 3)
    transport.close()
    assert channel.wait(1) == 143
    assert not lab.host("node2").benchmark_processes()
    with pytest.raises(HostUnreachable, match="was closed"):
        transport.run(Command(("true",)))


def test_an_ordinary_user_is_enough(connect: Connect) -> None:
    """Everything works without root: commands, files and their removal."""
    transport = connect("bench@node1")
    assert transport.run(Command(("id", "-un"))).stdout == b"bench\n"
    transport.put(b"x", f"{TMP}/cbt-ordinary.txt")
    with pytest.raises(CommandFailed, match="Permission denied"):
        transport.put(b"x", "/etc/cbt-not-allowed")


# ---- files -----------------------------------------------------------------------------------------------------------


def test_put_writes_whole_files(lab: Lab, node1: SshTransport) -> None:
    """A file appears with its content and mode, replaces the one before, and leaves no temporary one."""
    folder = lab.host("node1").tmp / "it's a folder"
    folder.mkdir()
    data = os.urandom(3_000_000)
    node1.put(b"old", f"{TMP}/it's a folder/f $x")
    node1.put(data, f"{TMP}/it's a folder/f $x", 0o640)
    assert [path.name for path in folder.iterdir()] == ["f $x"]
    assert (folder / "f $x").read_bytes() == data
    assert (folder / "f $x").stat().st_mode & 0o7777 == 0o640
    node1.put(b"", f"{TMP}/it's a folder/empty")
    assert (folder / "empty").read_bytes() == b""
    with pytest.raises(CommandFailed, match="node1: put /tmp/none/f: status"):
        node1.put(b"x", f"{TMP}/none/f")


def make_files(host: LabHost, folder: str, sizes: dict[str, int]) -> dict[str, bytes]:
    (host.tmp / folder).mkdir()
    contents = {name: os.urandom(size) for name, size in sizes.items()}
    for name, data in contents.items():
        (host.tmp / folder / name).write_bytes(data)
    return contents


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("gzip", [True, False])
def test_fetch_brings_the_regular_files(lab: Lab, connect: Connect, tmp_path: Path, *, gzip: bool) -> None:
    """Regular files arrive byte for byte, whatever they are called, and nothing else; with and without gzip there."""
    host = lab.host("node1")
    sizes = {"output.1": 300_000, "empty": 0, ".hidden": 5, "-n": 3, "a b'$(id)": 70_000, "new\nline": 9, "ü\\": 1}
    contents = make_files(host, f"cbt-f{gzip:d}", sizes)
    (host.tmp / f"cbt-f{gzip:d}" / "link").symlink_to("/etc/passwd")
    os.mkfifo(host.tmp / f"cbt-f{gzip:d}" / "fifo")
    (host.tmp / f"cbt-f{gzip:d}" / "folder").mkdir()
    transport = connect("node1")
    if not gzip:
        host.inside("mount", "--bind", "/dev/null", "/usr/bin/gzip")
        host.inside("mount", "--bind", "/dev/null", "/bin/gzip")
    try:
        names = transport.fetch(f"{TMP}/cbt-f{gzip:d}", tmp_path / "in" / "to")
    finally:
        if not gzip:
            host.inside("umount", "/usr/bin/gzip", "/bin/gzip")
    assert names == tuple(sorted(contents))
    assert read_files(tmp_path / "in" / "to") == contents


def test_fetch_of_nothing(lab: Lab, node1: SshTransport, tmp_path: Path) -> None:
    """An empty folder is no error, a missing one is."""
    make_files(lab.host("node1"), "cbt-nothing", {})
    assert node1.fetch(f"{TMP}/cbt-nothing", tmp_path) == ()
    with pytest.raises(CommandFailed, match="No such folder"):
        node1.fetch(f"{TMP}/cbt-missing", tmp_path)


def test_a_collection_that_breaks_off_is_taken_up_again(lab: Lab, connect: Connect, tmp_path: Path) -> None:
    """Connections killed while files arrive cost time and nothing else; what was there already is not sent again."""
    host = lab.host("node2")
    contents = make_files(host, "cbt-broken", {f"output.{n}": 4_000_000 for n in range(30)})
    transport = connect("node2")
    into = tmp_path / "into"
    breaks = 0

    def interrupt() -> None:
        nonlocal breaks
        for count in (2, 12):
            wait_for(lambda: into.exists() and len(list(into.iterdir())) >= count, 20)  # noqa: B023 - called at once
            host.drop_connections()
            breaks += 1

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    names = transport.fetch(f"{TMP}/cbt-broken", into)
    interrupting.join()
    assert breaks == 2
    assert names == tuple(sorted(contents))
    assert read_files(into) == contents
    (into / "output.3").write_bytes(b"damaged")
    started = time.monotonic()
    transport.fetch(f"{TMP}/cbt-broken", into)
    assert read_files(into) == contents
    assert time.monotonic() - started < 5


def test_a_file_that_keeps_changing_is_not_taken(
    lab: Lab, node1: SshTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that does not arrive as it was listed never gets its name; when it comes to rest, it is taken."""
    folder = lab.host("node1").tmp / "cbt-changing"
    contents = make_files(lab.host("node1"), "cbt-changing", {"a": 10, "restless": 10, "z": 10})
    changes = 0

    def change_after_listing(files: Sequence[RemoteFile]) -> Iterator[list[RemoteFile]]:
        nonlocal changes
        changes += 1
        (folder / "restless").write_bytes(os.urandom(8 + changes))
        yield from batches(files)

    monkeypatch.setattr("cluster.transports.ssh.COLLECTION_WAITS_S", (0.1, 0.1))
    monkeypatch.setattr("cluster.transports.ssh.batches", change_after_listing)
    with pytest.raises(CommandFailed, match="restless"):
        node1.fetch(f"{TMP}/cbt-changing", tmp_path / "into")
    assert changes == 3
    assert read_files(tmp_path / "into") == {"a": contents["a"]}
    monkeypatch.setattr("cluster.transports.ssh.batches", batches)
    assert len(node1.fetch(f"{TMP}/cbt-changing", tmp_path / "into")) == 3
    assert read_files(tmp_path / "into") == read_files(folder)


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "."])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    """A host cannot make the controller write outside the folder."""
    listing = b"1\0" + b"0" * 64 + b"  ./" + name.encode() + b"\0"
    with pytest.raises(BadListing, match="refused to take"):
        read_listing(listing)


@pytest.mark.parametrize("output", [b"x", b"1\0", b"1\0zz  ./a\0", b"-1\0" + b"0" * 64 + b"  ./a\0"])
def test_a_broken_listing_is_refused(output: bytes) -> None:
    """Whatever is not a list of sizes and digests is an error."""
    with pytest.raises(BadListing):
        read_listing(output)


def test_remove_takes_only_what_is_ours(lab: Lab, node1: SshTransport) -> None:
    """Only a folder named cbt-… goes, a link to one stays, and a missing one is no error."""
    make_files(lab.host("node1"), "cbt-to remove", {"x": 1})
    node1.remove(f"{TMP}/cbt-to remove")
    assert not (lab.host("node1").tmp / "cbt-to remove").exists()
    node1.remove(f"{TMP}/cbt-to remove")
    (lab.host("node1").tmp / "cbt-link").symlink_to("/etc")
    with pytest.raises(CommandFailed, match="symbolic link"):
        node1.remove(f"{TMP}/cbt-link")
    for directory in (TMP, f"{TMP}/cbt-x/..", "tmp/cbt-x"):
        with pytest.raises(ValueError, match="not removed"):
            node1.remove(directory)


# ---- configuration, keys, agent --------------------------------------------------------------------------------------


def test_the_plan_overrides_the_configuration(lab: Lab, connect: Connect, tmp_path: Path) -> None:
    """User and port of the plan count before those of the configuration, which may come by Include."""
    lab.host("node1").start_sshd(port=2222)
    included = tmp_path / "more.conf"
    included.write_text(f"Host other\n    HostName {lab.host('node1').address}\n    Port 1\n    User nobody\n")
    config = tmp_path / "config"
    config.write_text(f"Include {included}\n" + lab.ssh_config.read_text())
    kind, key, *_ = Path(f"{lab.base}/node1.hostkey.pub").read_text().split()
    known = tmp_path / "known_hosts"
    known.write_text(f"[{lab.host('node1').address}]:2222 {kind} {key}\n")
    transport = connect("bench@other:2222", config_file=config, known_hosts_file=known)
    assert transport.host == "other"
    assert transport.run(shell("id -un; echo ${SSH_CONNECTION##* }")).stdout == b"bench\n2222\n"


def test_jump_hosts_are_used_and_shared(lab: Lab, options: SshOptions, tmp_path: Path) -> None:
    """ProxyJump leads through the other hosts, a chain too, over one connection to each; losing one is named."""
    config = tmp_path / "config"
    jumps = "Host node2 far\n    ProxyJump node1\nHost far\n    HostName node3\n    HostKeyAlias node3-key\n"
    config.write_text(jumps + "Host node3\n    ProxyJump node1,node2\n" + lab.ssh_config.read_text())
    kind, key, *_ = Path(f"{lab.base}/node3.hostkey.pub").read_text().split()
    known = tmp_path / "known_hosts"
    known.write_text(lab.known_hosts.read_text() + f"node3-key {kind} {key}\n")
    chosen = replace(options, config_file=config, known_hosts_file=known)
    hosts = connect_all([Host("node2"), Host("node3"), Host("far")], chosen)
    try:
        came_from = {}
        for host, transport in hosts.items():
            assert isinstance(transport, SshTransport), transport
            came_from[host.name] = transport.run(shell("echo ${SSH_CONNECTION%% *}")).stdout.decode().strip()
        node1, node2 = lab.host("node1"), lab.host("node2")
        assert came_from == {"node2": node1.address, "node3": node2.address, "far": node1.address}
        assert sum(words.startswith("sshd: root") for words in node1.processes().values()) == 1
    finally:
        for transport in hosts.values():
            if isinstance(transport, SshTransport):
                transport.close()
    assert wait_for(lambda: not any(words.startswith("sshd: root") for words in node1.processes().values()), 5)


def test_an_unknown_host_key_is_refused_with_what_mends_it(connect: Connect, tmp_path: Path) -> None:
    """Nobody logs in to a host nobody knows; the line of the message makes it known."""
    known = tmp_path / "known hosts"
    with pytest.raises(HostUnreachable, match=r"is not known.*--accept-new-host-keys") as refused:
        connect("node1", known_hosts_file=known)
    line = str(refused.value).split("`")[1]
    assert line.startswith("ssh-keyscan -t ed25519 ")
    subprocess.run(["sh", "-c", line], check=True, capture_output=True)
    assert connect("node1", known_hosts_file=known).run(Command(("true",))).ok


def test_new_keys_are_accepted_on_demand_and_changed_ones_never(
    lab: Lab, options: SshOptions, connect: Connect, tmp_path: Path
) -> None:
    """--accept-new-host-keys writes the key down and says so; afterwards another key is refused all the same."""
    known = tmp_path / "known_hosts"
    known.write_text("# no newline at the end")
    accepting = replace(options, known_hosts_file=known, accept_new_host_keys=True)
    notices: list[str] = []
    [transport] = connect_all([Host("node3")], accepting, notice=notices.append).values()
    assert isinstance(transport, SshTransport)
    transport.close()
    [notice] = notices
    assert "node3" in notice
    assert str(known) in notice
    connect("node3", known_hosts_file=known)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
    connect("node3", known_hosts_file=known)  # hashed names are understood
    node3 = lab.host("node3")
    node3.stop_sshd()
    node3.start_sshd(host_key=lab.new_key("another"))
    try:
        with pytest.raises(HostUnreachable, match=r"HOST KEY HAS CHANGED.*line 2.*ssh-keygen -R"):
            connect("node3", accepting)
    finally:
        node3.stop_sshd()
        node3.start_sshd()


def test_a_refused_login_names_the_keys(lab: Lab, connect: Connect, tmp_path: Path) -> None:
    """The message says which keys were tried, which could not be, and how to install one."""
    wrong = lab.new_key("wrong")
    locked = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(locked)], check=True)
    config = tmp_path / "config"
    config.write_text(
        f"Host node1\n    HostName {lab.host('node1').address}\n    UserKnownHostsFile {lab.known_hosts}\n"
        f"    IdentityFile {wrong}\n    IdentityFile {locked}\n    IdentityFile /no/such/key\n    IdentitiesOnly yes\n"
    )
    with pytest.raises(HostUnreachable) as refused:
        connect("root@node1", config_file=config)
    message = str(refused.value)
    assert f"keys tried: {wrong};" in message
    assert f"{locked} (has a passphrase: add it to your agent with ssh-add)" in message
    assert "/no/such/key (does not exist)" in message
    assert f"ssh-copy-id root@{lab.host('node1').address}" in message
    assert "\n" not in message


def test_the_agent_is_asked(lab: Lab, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that only the agent can use opens the door."""
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.DEVNULL)
    try:
        assert wait_for((tmp_path / "agent").exists, 5)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        subprocess.run(["ssh-add", "-q", str(lab.key)], check=True)
        config = tmp_path / "config"
        config.write_text(f"Host node1\n    HostName {lab.host('node1').address}\n    User root\n")
        chosen = SshOptions(config_file=config, known_hosts_file=lab.known_hosts)
        assert connect("node1", chosen).run(Command(("true",))).ok
    finally:
        agent.terminate()
        agent.wait()


# ---- hosts that cannot be reached, or are lost -----------------------------------------------------------------------


def test_every_unreachable_host_is_one_clear_line(lab: Lab, options: SshOptions, tmp_path: Path) -> None:
    """Name, address, port and firewall troubles are told apart, side by side, with the good hosts connected."""
    config = tmp_path / "config"
    config.write_text(
        f"Host refused\n    HostName {lab.subnet}.1\n    Port 9\nHost silent\n    HostName {lab.subnet}.250\n"
        "Host proxied\n    ProxyCommand nc %h %p\nHost circle\n    ProxyJump circle\n" + lab.ssh_config.read_text()
    )
    names = ["nowhere.invalid", "refused", "silent", "proxied", "circle", "node1"]
    chosen = replace(options, config_file=config, connect_timeout_s=1)
    started = time.monotonic()
    found = {host.name: result for host, result in connect_all([Host(name) for name in names], chosen).items()}
    assert time.monotonic() - started < 15
    good = found.pop("node1")
    assert isinstance(good, SshTransport)
    good.close()
    wanted = {
        "nowhere.invalid": "cannot be resolved",
        "refused": f"refused ({lab.subnet}.1:9): connection refused",
        "silent": "no answer in 1 s",
        "proxied": "use ProxyJump",
        "circle": "in a circle",
    }
    for name, words in wanted.items():
        assert isinstance(found[name], HostUnreachable)
        assert words in str(found[name])
        assert name in str(found[name])
        assert "\n" not in str(found[name])


def test_many_connects_to_one_sshd(lab: Lab, options: SshOptions, tmp_path: Path) -> None:
    """An sshd that drops connections at random (MaxStartups) gets them all in the end."""
    node3 = lab.host("node3")
    node3.stop_sshd()
    node3.start_sshd(options=["MaxStartups 2:50:4"])
    try:
        config = tmp_path / "config"
        aliases = " ".join(f"alias{n}" for n in range(16))
        config.write_text(f"Host {aliases}\n    HostName {node3.address}\n" + lab.ssh_config.read_text())
        chosen = replace(options, config_file=config, connects_at_once=16)
        results = connect_all([Host(alias) for alias in aliases.split()], chosen)
        for result in results.values():
            assert isinstance(result, SshTransport), result
            result.close()
        assert "MaxStartups" in (node3.state / "sshd.log").read_text()
    finally:
        node3.stop_sshd()
        node3.start_sshd()


def test_a_restarted_sshd_is_found_again(lab: Lab, connect: Connect) -> None:
    """A connection that was lost between two commands is made again; one that is lost in a command is named."""
    transport = connect("node2")
    assert transport.run(Command(("true",))).ok
    lab.host("node2").stop_sshd()
    with pytest.raises(HostUnreachable, match="connection refused"):
        transport.run(Command(("true",)))
    lab.host("node2").start_sshd()
    assert transport.run(Command(("true",))).ok
    threading.Timer(0.5, lab.host("node2").drop_connections).start()
    started = time.monotonic()
    with pytest.raises(HostUnreachable, match=r"^node2 .*connection lost"):
        transport.run(Command(("sleep", "20")))
    assert time.monotonic() - started < 5
    assert wait_for(lambda: not lab.host("node2").benchmark_processes(), 5)
    assert transport.run(Command(("true",))).ok


def test_a_lost_network_is_noticed(lab: Lab, connect: Connect) -> None:
    """A host that falls silent is lost within 15 s, in a command and in a channel; when it is back, so are we."""
    transport = connect("node2")
    channel = transport.start(Command(("cat",), timeout_s=None))
    channel.send("x\n")
    lines = channel.lines()
    assert next(lines) == "x"
    started = time.monotonic()
    lab.host("node2").network_down()
    try:
        with pytest.raises(HostUnreachable, match=r"node2.*answered nothing for 13 s"):
            transport.run(Command(("sleep", "60")))
        assert time.monotonic() - started < 15
        with pytest.raises(HostUnreachable):
            next(lines)
        assert channel.wait(1) is None
        with pytest.raises(HostUnreachable):
            channel.send("y\n")
    finally:
        lab.host("node2").network_up()
    assert transport.run(Command(("true",))).ok
    lab.host("node2").drop_connections()  # its sshd has not noticed anything


def test_nothing_runs_on_when_the_controller_is_killed(lab: Lab) -> None:
    """kill -9 of the controller ends the command it waited for."""
    program = textwrap.dedent(f"""
        from pathlib import Path
        from cluster.command import Command
        from cluster.hosts import Host
        from cluster.transports.ssh import SshOptions, connect_all
        [transport] = connect_all([Host("node1")], SshOptions(config_file=Path({str(lab.ssh_config)!r}))).values()
        transport.run(Command(("sleep", "1000"), timeout_s=None))
    """)
    controller = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    host = lab.host("node1")
    try:
        assert wait_for(lambda: any("sleep 1000" in words for words in host.benchmark_processes().values()), 10)
    finally:
        controller.kill()
        controller.wait()
    assert wait_for(lambda: not host.benchmark_processes(), 5), host.benchmark_processes()


def test_the_clock_offset_is_measured(node1: SshTransport) -> None:
    """Hosts that share one clock are found to, within the uncertainty that is stated."""
    measured = measure_clock_offset(node1)
    assert abs(measured.offset_s) <= measured.uncertainty_s + 0.001
    assert 0 < measured.uncertainty_s < 0.1
