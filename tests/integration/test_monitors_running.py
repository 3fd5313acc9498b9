"""Monitors with the real programs, watching this machine."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.options import Settings
from cluster.monitors.base import Monitor
from cluster.monitors.registry import all_monitors
from cluster.transports.local import LocalTransport
from orchestrator.monitoring import Monitoring, Watch

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
COLLECTL = '-c 18 -sCD -i 1 -P -oz -F0 --rawtoo --sep ";" -f {collectl_dir}'
PID_GLOB = {"pid_glob": "osd.*.pid"}


@pytest.fixture
def transport() -> Iterator[LocalTransport]:
    local = LocalTransport("h1")
    yield local
    local.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "a run; $(id)" / "cbt-point-monitors"


def monitoring(
    transport: LocalTransport, *profiles: tuple[Monitor, dict[str, str]], pid_dir: Path | None = None
) -> Monitoring:
    watches = tuple(
        Watch(monitor, Settings({**PID_GLOB, **profile}), (transport.host,)) for monitor, profile in profiles
    )
    return Monitoring(watches, {transport.host: transport}, str(pid_dir) if pid_dir else None)


def script(name: str, *words: str, args: str = "") -> tuple[Monitor, dict[str, str]]:
    """A monitor that is whatever the test needs."""
    return Monitor(name, words, args, ()), {}


def working_in(directory: Path) -> list[str]:
    """The command of every process whose working directory is in this folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if (process / "cwd").readlink().is_relative_to(directory):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return [command for command in found if command]


def until(reached: Callable[[], bool], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def watched(
    monitors: Monitoring, directory: Path, into: Path, seconds: float = 0.0, while_running: Sequence[str] = ()
) -> tuple[str, ...]:
    """Watches for so long, collects, and gives the notes; meanwhile these programs must be seen running."""
    with monitors.watching(str(directory)) as watching:
        assert until(lambda: all(any(n in c for c in working_in(directory)) for n in while_running), 5)
        time.sleep(seconds)
        watching.stop()
        watching.collect(into)
    assert until(lambda: working_in(directory) == [], 2), working_in(directory)
    assert not directory.exists()
    return watching.notes


def test_collectl_with_the_customary_arguments(transport: LocalTransport, directory: Path, tmp_path: Path) -> None:
    """collectl runs while the point does, and what it wrote is brought back whole: plot files and its raw data."""
    monitors = monitoring(transport, (all_monitors()["collectl"], {"args": COLLECTL}))
    notes = watched(monitors, directory, tmp_path, 3.2, ["collectl"])
    assert notes == ()
    files = {file.suffix: file for file in (tmp_path / "collectl.h1").iterdir()}
    header, *samples = [
        line for line in files[".cpu"].read_text().splitlines() if not line.startswith("# ") and line.strip("#")
    ]
    assert header.startswith("#Date;Time;[CPU:0]User%")
    assert len(samples) >= 1
    assert files[".dsk"].stat().st_size > 0
    assert gzip.decompress(files[".gz"].read_bytes()).startswith(b"####")


@pytest.fixture
def pid_dir(tmp_path: Path) -> Path:
    """Pid files as Ceph's daemons leave them; those of osd.0 and osd.1 name running processes."""
    folder = tmp_path / "pids"
    folder.mkdir()
    texts = {"osd.0": f"{os.getpid()}", "osd.1": f"{os.getppid()}\n", "osd.2": "4194399\n", "osd.3": "$(id)\n"}
    for name, text in {**texts, "osd.4": "", "mon.a": f"{os.getpid()}"}.items():
        (folder / f"{name}.pid").write_text(text)
    return folder


def test_the_daemons_of_pid_files_are_watched(
    transport: LocalTransport, directory: Path, tmp_path: Path, pid_dir: Path
) -> None:
    """top runs once for each running process of a pid file; stale and unreadable pid files are passed over."""
    top = (all_monitors()["top"], {"args": "-b -H -d 1 -p {pid} > {top_dir}/top.out"})
    monitors = monitoring(transport, top, pid_dir=pid_dir)
    assert watched(monitors, directory, tmp_path, 0.5, ["top"]) == ()
    pids = {os.getpid(), os.getppid()}
    assert {file.name for file in (tmp_path / "top.h1").iterdir()} == {f"top.out.{pid}" for pid in pids}
    for pid in pids:
        assert re.search(rf"^ *{pid} ", (tmp_path / f"top.h1/top.out.{pid}").read_text(), re.MULTILINE)


def perf_counts() -> bool:
    """Whether this user may count on this machine."""
    perf = shutil.which("perf")
    words = [str(perf), "stat", "-e", "task-clock", "-p", str(os.getpid()), "true"]
    return perf is not None and subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_perf_writes_its_counts_when_it_is_stopped(
    transport: LocalTransport, directory: Path, tmp_path: Path, pid_dir: Path
) -> None:
    """`perf stat` leaves one result for each daemon; where perf cannot count, each point says why."""
    perf = (all_monitors()["perf"], {"args": "stat -e task-clock -p {pid} -o {perf_dir}/perf_stat.{pid}"})
    notes = watched(monitoring(transport, perf, pid_dir=pid_dir), directory, tmp_path, 0.5)
    if not perf_counts():
        assert any("perf" in note and "ended early" in note for note in notes)
        return
    assert notes == ()
    results = {file.name: file.read_text() for file in (tmp_path / "perf.h1").iterdir()}
    assert set(results) == {f"perf_stat.{os.getpid()}", f"perf_stat.{os.getppid()}"}
    assert all("task-clock" in text for text in results.values())


def test_what_goes_wrong_with_a_monitor_is_a_note(transport: LocalTransport, directory: Path, tmp_path: Path) -> None:
    """A missing program, an early death and an absent pid_dir are told with the monitor's last words; the others run
    on, and one that took all the samples it was asked for is no trouble."""
    monitors = monitoring(
        transport,
        script("missing", "/no/such/program"),
        script("dying", "sh", "-c", args="'echo I die >&2; exit 3'"),
        script("finished", "echo", args="enough"),
        script("steady", "sleep", args="60"),
        script("lonely", "sleep", args="{pid}"),
        pid_dir=tmp_path / "none",
    )
    notes = watched(monitors, directory, tmp_path, 0.5, ["sleep 60"])
    text = "\n".join(notes)
    assert "missing: ended early with status 127" in text
    assert "/no/such/program" in text
    assert "dying: ended early with status 3: I die" in text
    assert "lonely: cluster.pid_dir" in text
    assert "finished" not in text
    assert (tmp_path / "finished.h1/finished.out").read_text() == "enough\n"
    assert "steady: ended" not in text


@pytest.mark.parametrize("shell", [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)])
def test_a_monitor_is_told_once_to_end(
    shell: str, transport: LocalTransport, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One signal, whatever shell the host has: a second would kill a program that is writing its results."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").symlink_to(str(shutil.which(shell)))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    told = "n=0; trap 'n=$((n+1))' TERM; until [ $n -gt 0 ]; do sleep 0.1; done; sleep 0.5; echo $n"
    assert watched(monitoring(transport, script("once", "bash", "-c", told)), directory, tmp_path, 0.3) == ()
    assert (tmp_path / "once.h1/once.out").read_text() == "1\n"


def test_a_monitor_that_does_not_listen_is_killed(transport: LocalTransport, directory: Path, tmp_path: Path) -> None:
    """What ignores its signal is killed after a grace, and the point says that its files may lack their end."""
    deaf = script("deaf", "bash", "-c", "trap '' TERM INT; while :; do sleep 0.2; done")
    notes = watched(monitoring(transport, deaf), directory, tmp_path, while_running=["trap"])
    assert [note for note in notes if "deaf" in note and "was killed" in note]


def test_stopping_the_run_stops_waiting_for_monitors(transport: LocalTransport, directory: Path) -> None:
    """Ctrl-C while monitors start does not wait for them, and leaves none."""
    cancelled = threading.Event()
    cancelled.set()
    began = time.monotonic()
    watches = monitoring(transport, script("steady", "sleep", "60")).watches
    with Monitoring(watches, {transport.host: transport}, cancelled=cancelled).watching(str(directory)):
        pass
    assert time.monotonic() - began < 3
    assert working_in(directory) == []


def test_no_monitor_outlives_its_controller(directory: Path) -> None:
    """kill -9 of the controller ends collectl within seconds."""
    controller = textwrap.dedent(
        """
        import sys, time
        from benchmarks.options import Settings
        from cluster.monitors.registry import all_monitors
        from cluster.transports.local import LocalTransport
        from orchestrator.monitoring import Monitoring, Watch

        host = LocalTransport("h1")
        watch = Watch(all_monitors()["collectl"], Settings({}), ("h1",))
        with Monitoring((watch,), {"h1": host}).watching(sys.argv[1]):
            print("running", flush=True)
            time.sleep(60)
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", controller, str(directory)], cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == b"running\n"
            assert until(lambda: any("collectl" in command for command in working_in(directory)), 5)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    assert until(lambda: working_in(directory) == [], 5), working_in(directory)
