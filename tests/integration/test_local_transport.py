"""The local transport with real processes and real files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from cluster.command import Command, Secret
from cluster.transports.base import CommandFailed, HostUnreachable
from cluster.transports.local import LocalTransport

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]


class ListLog:
    """Keeps what was recorded."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, str]] = []

    def record(self, host: str, shown_command: str, started_unix_s: float, duration_s: float, status_text: str) -> None:
        assert abs(time.time() - started_unix_s) < 60
        assert duration_s >= 0
        self.entries.append((host, shown_command, status_text))


@pytest.fixture
def log() -> ListLog:
    return ListLog()


@pytest.fixture
def local(log: ListLog) -> LocalTransport:
    return LocalTransport("h1", log)


def shell(text: str, timeout_s: float = 20) -> Command:
    return Command(("sh", "-c", text), timeout_s=timeout_s)


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_gone(pid: int, limit_s: float = 5) -> bool:
    until = time.monotonic() + limit_s
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


def test_a_command_brings_back_status_output_and_errors(local: LocalTransport) -> None:
    """Both outputs come back whole and apart, with the exit status."""
    done = local.run(shell("cat; echo bad >&2; exit 3"), stdin=b"in\0put")
    assert (done.status, done.stdout, done.stderr, done.timed_out, done.ok) == (3, b"in\0put", b"bad\n", False, False)
    assert done.host == "h1"


def test_large_input_and_outputs_do_not_block_each_other(local: LocalTransport) -> None:
    """Megabytes in both directions and on both outputs at once end in no deadlock."""
    data = b"x" * 3_000_000
    done = local.run(shell("tee /dev/stderr"), stdin=data)
    assert done.stdout == data
    assert done.stderr == data


def test_input_that_nobody_reads_is_no_error(local: LocalTransport) -> None:
    """A command that ends without reading its input has its own status, nothing else."""
    assert local.run(shell("exit 0"), stdin=b"x" * 1_000_000).ok


def test_death_by_a_signal_is_told(local: LocalTransport) -> None:
    """A killed command has status 128 + the signal's number."""
    assert local.run(shell("kill -9 $$")).status == 137


def test_a_missing_program_is_a_status_not_an_exception(local: LocalTransport, log: ListLog, tmp_path: Path) -> None:
    """No such program is 127 and one that cannot be run is 126, as in a shell, each with a line that says so."""
    done = local.run(Command(("no-such-program", "x")))
    assert done.status == 127
    assert done.stderr == b"no-such-program: no such program\n"
    (tmp_path / "plain").write_text("no program")
    assert local.run(Command((str(tmp_path / "plain"),))).status == 126
    assert [status for _, _, status in log.entries] == ["127", "126"]


def test_the_time_limit_ends_the_command_and_its_children(local: LocalTransport, tmp_path: Path) -> None:
    """After the limit a command and its children are ended, however deaf; the output so far is kept."""
    pid_file = tmp_path / "child"
    text = f"trap '' TERM; echo begun; sh -c 'trap \"\" TERM; while :; do sleep 0.2; done' & echo $! >{pid_file}; wait"
    began = time.monotonic()
    done = local.run(shell(text, timeout_s=0.5))
    assert done.timed_out
    assert not done.ok
    assert done.stdout == b"begun\n"
    assert "no answer in 0.5 s" in done.problem()
    assert time.monotonic() - began < 10
    assert wait_gone(int(pid_file.read_text()))


def test_what_a_command_leaves_in_the_background_does_not_hold_it_up(local: LocalTransport, tmp_path: Path) -> None:
    """A daemon that keeps the output open does not turn a command that succeeded into one without an answer."""
    pid_file = tmp_path / "daemon"
    done = local.run(shell(f"setsid sleep 30 & echo $! >{pid_file}; echo done"))
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    assert done.ok
    assert done.stdout == b"done\n"
    assert done.duration_s < 10


def test_commands_run_in_their_own_session_with_a_plain_locale(local: LocalTransport) -> None:
    """A Ctrl-C on the terminal reaches no command, and every tool speaks one language."""
    show = "import os; print(os.getsid(0) == os.getpid(), os.environ['LC_ALL'], os.environ['V'])"
    done = local.run(Command((sys.executable, "-c", show), env=(("V", "a b"),)))
    assert done.stdout == b"True C a b\n"


def test_every_command_is_logged_without_its_secrets(local: LocalTransport, log: ListLog, tmp_path: Path) -> None:
    """Host, command and how it ended are recorded for whatever was done, secrets hidden."""
    local.run(Command(("echo", Secret("hunter2"))))
    local.run(shell("sleep 9", timeout_s=0.1))
    channel = local.start(shell("exit 4"))
    assert channel.wait(10) == 4
    local.put(b"x", str(tmp_path / "file"))
    assert [status for _, _, status in log.entries] == ["0", "no answer in 0.1 s", "4", "0"]
    assert {host for host, _, _ in log.entries} == {"h1"}
    assert log.entries[0][1] == "echo '<secret>'"
    assert log.entries[3][1] == f"put {tmp_path / 'file'}"


def test_a_channel_talks_line_by_line(local: LocalTransport) -> None:
    """What is sent arrives at once, and each answer comes as a line while the program runs."""
    channel = local.start(shell("while read -r line; do echo got:$line; done; printf unfinished; exit 5"))
    lines = channel.lines()
    channel.send("one\n")
    assert next(lines) == "got:one"
    channel.send("zwö\n")
    assert next(lines) == "got:zwö"
    assert channel.wait(0.05) is None
    channel.close_input()
    assert list(lines) == ["unfinished"]
    assert channel.wait(10) == 5
    with pytest.raises(HostUnreachable):
        channel.send("too late\n")


def test_a_channel_nobody_reads_does_not_block_its_program(local: LocalTransport) -> None:
    """Output beyond what a pipe holds is taken off all the time, on both outputs."""
    channel = local.start(shell("head -c 500000 /dev/zero | tr '\\0' 'x' | fold | tee /dev/stderr"))
    assert channel.wait(20) == 0
    assert sum(map(len, channel.lines())) == 500_000
    assert len(channel.stderr_text().replace("\n", "")) == 500_000


def test_a_channel_to_a_missing_program_has_ended(local: LocalTransport) -> None:
    """It has no lines, status 127, and sending to it says what is missing."""
    channel = local.start(Command(("no-such-program",)))
    assert list(channel.lines()) == []
    assert channel.wait(0) == 127
    with pytest.raises(HostUnreachable, match="no such program"):
        channel.send("x\n")


def test_closing_the_transport_ends_what_was_started(local: LocalTransport) -> None:
    """Nothing that a channel holds outlives the transport, not even what ignores the end of its input."""
    polite = local.start(shell("cat"))
    deaf = local.start(shell("trap '' TERM; echo $$; while :; do sleep 0.2; done"))
    pid = int(next(deaf.lines()))
    local.close()
    assert polite.wait(0) == 0
    assert deaf.wait(0) == 137
    assert wait_gone(pid)


def test_an_interrupted_wait_leaves_no_command_behind(tmp_path: Path) -> None:
    """Ctrl-C while a command runs ends the command too, though it has a session of its own."""
    source = """
        import sys
        from cluster.command import Command
        from cluster.transports.local import LocalTransport
        text = 'echo $$ >"$1.new"; mv "$1.new" "$1"; exec sleep 60'
        LocalTransport("h").run(Command(("sh", "-c", text, "sh", sys.argv[1])))
    """
    pid_file = tmp_path / "pid"
    words = (sys.executable, "-c", textwrap.dedent(source), str(pid_file))
    controller = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while not pid_file.exists() and time.monotonic() < until:
        time.sleep(0.02)
    controller.send_signal(signal.SIGINT)
    controller.wait(20)
    assert wait_gone(int(pid_file.read_text()))


def test_put_shows_the_file_whole_or_not_at_all(local: LocalTransport, tmp_path: Path) -> None:
    """A reader sees the old content or the new one, never a part, and no temporary file stays."""
    path = tmp_path / "a file; $(id)"
    contents = {letter * 2_000_000 for letter in (b"a", b"b")}
    local.put(b"a" * 2_000_000, str(path), 0o640)
    seen: set[bytes] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for letter in (b"b", b"a", b"b"):
        local.put(letter * 2_000_000, str(path), 0o640)
    stop.set()
    reader.join()
    assert seen <= contents
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_put_into_a_missing_folder_fails_in_one_line(local: LocalTransport, tmp_path: Path) -> None:
    """What cannot be written on the host says which path and why."""
    with pytest.raises(CommandFailed, match="No such file or directory") as caught:
        local.put(b"x", str(tmp_path / "missing" / "file"))
    assert "\n" not in str(caught.value)


def test_fetch_brings_regular_files_only(local: LocalTransport, tmp_path: Path) -> None:
    """Files come over byte for byte; links, folders and FIFOs do not, and no temporary name stays."""
    source, into = tmp_path / "source", tmp_path / "new" / "into"
    source.mkdir()
    (source / "output.0").write_bytes(bytes(range(256)) * 9000)
    (source / "empty").write_bytes(b"")
    (source / "ünï cödé").write_bytes(b"x")
    (source / "link").symlink_to("/etc/passwd")
    (source / "folder").mkdir()
    os.mkfifo(source / "fifo")
    assert local.fetch(str(source), into) == ("empty", "output.0", "ünï cödé")
    assert sorted(path.name for path in into.iterdir()) == ["empty", "output.0", "ünï cödé"]
    assert (into / "output.0").read_bytes() == (source / "output.0").read_bytes()


def test_fetch_from_a_missing_folder_fails_in_one_line(local: LocalTransport, tmp_path: Path) -> None:
    """A folder that is gone on the host is that host's failure, with its path."""
    with pytest.raises(CommandFailed, match="No such file or directory"):
        local.fetch(str(tmp_path / "gone"), tmp_path / "into")


def test_a_full_local_disk_is_told_apart_from_a_failing_host(local: LocalTransport, tmp_path: Path) -> None:
    """Writing into the local folder fails as OSError, so that the caller can stop the run; nothing half stays."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").write_bytes(b"x")
    (tmp_path / "into").write_text("a file, not a folder")
    with pytest.raises(OSError, match="File exists"):
        local.fetch(str(tmp_path / "source"), tmp_path / "into")


def test_remove_takes_the_folder_and_follows_no_link(local: LocalTransport, tmp_path: Path) -> None:
    """What a link in the folder points to stays; removing twice is no error."""
    folder, precious = tmp_path / "cbt-work", tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "link").symlink_to(precious)
    local.remove(str(folder))
    local.remove(str(folder))
    assert not folder.exists()
    assert (precious / "data").exists()


def test_remove_refuses_a_link_in_place_of_the_folder(local: LocalTransport, tmp_path: Path) -> None:
    """A link with the right name leads nowhere."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / "cbt-link").symlink_to(precious)
    with pytest.raises(CommandFailed, match="symbolic link"):
        local.remove(str(tmp_path / "cbt-link"))
    assert precious.exists()


@pytest.mark.parametrize("path", ["", "/", "relative/cbt-x", "/home", "/a/cbt-x/..", "/a/../cbt-x", "/a/cbt-x/y"])
def test_remove_refuses_any_other_path(local: LocalTransport, path: str) -> None:
    """Only absolute paths to a folder that we named can be removed."""
    with pytest.raises(ValueError, match="is not removed"):
        local.remove(path)
