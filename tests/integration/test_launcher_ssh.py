"""The launcher over SSH on several real hosts: together at once, and nothing left behind or lost when hosts go."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.hosts import Host
from cluster.launcher import (
    HostLost,
    HostOutcome,
    LaunchedInstance,
    LaunchEvent,
    LaunchFailed,
    LaunchResult,
    LaunchSpec,
    Limits,
    gate_command,
    launch,
)
from cluster.transports.ssh import SshOptions, SshTransport, connect_all
from tests.lab.lab import Lab, running_lab

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = "/tmp/cbt-point"  # noqa: S108 - inside a host
HOSTS = ("node1", "node2", "node3")
LIMITS = Limits(connect_s=20, deadline_s=20, kill_grace_s=1)

Transports = dict[str, SshTransport]


@pytest.fixture
def lab() -> Iterator[Lab]:
    with running_lab(len(HOSTS)) as hosts:
        yield hosts


@pytest.fixture
def transports(lab: Lab) -> Iterator[Transports]:
    connected: Transports = {}
    for host, result in connect_all([Host(name) for name in HOSTS], SshOptions(config_file=lab.ssh_config)).items():
        assert isinstance(result, SshTransport), result
        connected[host.name] = result
    yield connected
    for transport in connected.values():
        transport.close()


def fio(number: int, runtime_s: float) -> LaunchedInstance:
    """A fio that needs no storage, with the gate before its measurement."""
    return LaunchedInstance(
        number,
        (
            *("fio", f"--exec_prerun={gate_command(DIRECTORY, number)}", "--name=null", "--ioengine=null"),
            *("--size=100T", "--rw=read", "--rate_iops=200", "--time_based", f"--runtime={runtime_s}"),
            *("--output-format=json", f"--output=json.{number}"),
        ),
        ready_marks=1,
    )


def specs(runtime_s: float, per_host: int = 2) -> list[LaunchSpec]:
    return [LaunchSpec(name, DIRECTORY, tuple(fio(n, runtime_s) for n in range(per_host))) for name in HOSTS]


def when(kind: str, action: Callable[[], None], after_s: float = 0.5) -> Callable[[LaunchEvent], None]:
    """Does something once, a while after the first event of this kind."""
    done: list[str] = []

    def on_event(event: LaunchEvent) -> None:
        if event.kind == kind and not done:
            done.append(kind)
            threading.Timer(after_s, action).start()

    return on_event


def wait_for(condition: Callable[[], bool], limit_s: float) -> bool:
    until = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def nothing_runs(lab: Lab, *names: str) -> bool:
    return not any(lab.host(name).benchmark_processes() for name in names)


def fio_runs(lab: Lab, name: str) -> bool:
    return any(words.startswith("fio ") for words in lab.host(name).benchmark_processes().values())


def assert_whole(result: LaunchResult, transports: Transports, folder: Path, *names: str) -> None:
    """Every instance of these hosts ended by itself, and its results can be collected."""
    for name in names:
        outcome = result.hosts[name]
        assert isinstance(outcome, HostOutcome), outcome
        assert [(i.exit_status, i.ended_by) for i in outcome.instances] == [(0, "itself")] * len(outcome.instances)
        transports[name].fetch(DIRECTORY, folder / name)
        for instance in outcome.instances:
            [job] = json.loads((folder / name / f"json.{instance.number}").read_text())["jobs"]
            assert job["read"]["total_ios"] > 0


def test_all_hosts_measure_at_the_same_time(lab: Lab, transports: Transports, tmp_path: Path) -> None:
    """The gates of all hosts open together, every instance ends well, and its output comes back whole."""
    result = launch(specs(1), transports, LIMITS)
    assert_whole(result, transports, tmp_path, *HOSTS)
    released = [i.released_s or 0 for outcome in result.outcomes.values() for i in outcome.instances]
    assert len(released) == 6
    assert max(released) - min(released) < 0.5
    for name, transport in transports.items():
        assert nothing_runs(lab, name)
        transport.remove(DIRECTORY)
        assert not (lab.host(name).tmp / "cbt-point").exists()


def test_nothing_starts_when_one_host_cannot_get_ready(lab: Lab, transports: Transports) -> None:
    """A folder that is in the way on one host is named, and no instance starts anywhere."""
    (lab.host("node2").tmp / "cbt-point").mkdir()
    result = launch(specs(1), transports, LIMITS)
    assert all(isinstance(r, LaunchFailed) for r in result.hosts.values())
    assert "node2" in str(result.hosts["node2"])
    assert "because node2 failed" in str(result.hosts["node1"])
    assert wait_for(lambda: nothing_runs(lab, *HOSTS), 5)


def test_a_killed_controller_leaves_nothing_behind(lab: Lab) -> None:
    """Five seconds after kill -9 of the controller in mid-point no instance runs on any host."""
    program = textwrap.dedent(f"""
        from pathlib import Path
        from cluster.hosts import Host
        from cluster.launcher import LaunchedInstance, LaunchSpec, Limits, launch
        from cluster.transports.ssh import SshOptions, connect_all
        hosts = connect_all([Host(n) for n in {HOSTS!r}], SshOptions(config_file=Path({str(lab.ssh_config)!r})))
        deaf = ("sh", "-c", "trap '' TERM INT HUP; while :; do sleep 0.3; done")
        specs = [LaunchSpec(h.name, {DIRECTORY!r}, (LaunchedInstance(0, deaf),)) for h in hosts]
        transports = {{h.name: t for h, t in hosts.items()}}
        launch(specs, transports, Limits(20, 600, 1), on_event=lambda event: print(event.kind, flush=True))
    """)
    controller = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert controller.stdout is not None
    with controller.stdout as events:
        started = 0
        while started < len(HOSTS):
            started += events.readline() == "start\n"
        assert not nothing_runs(lab, HOSTS[0])
        controller.kill()
        controller.wait()
    assert wait_for(lambda: nothing_runs(lab, *HOSTS), 5)


def test_a_crashed_host_is_named_and_the_others_are_kept(lab: Lab, transports: Transports, tmp_path: Path) -> None:
    """A host that dies in mid-point is lost within 15 s; the others' measurements are whole."""
    result = launch(specs(3), transports, LIMITS, on_event=when("opened", lab.host("node2").crash))
    lost = result.hosts["node2"]
    assert isinstance(lost, HostLost)
    assert "node2" in str(lost)
    assert "answered nothing" in str(lost)
    assert [i.ended_by for i in lost.outcome.instances] == ["lost", "lost"]
    assert_whole(result, transports, tmp_path, "node1", "node3")


def test_a_lost_network_ends_the_launch_but_not_the_others(lab: Lab, transports: Transports, tmp_path: Path) -> None:
    """A host that nobody can reach is lost within 15 s, and its own launcher ends its instances at the deadline."""
    went: list[float] = []

    def cut() -> None:
        went.append(time.monotonic())
        lab.host("node3").network_down()

    limits = Limits(connect_s=20, deadline_s=8, kill_grace_s=1)
    endless = [
        LaunchSpec(spec.host, spec.directory, (fio(0, 60),) if spec.host == "node3" else spec.instances)
        for spec in specs(2)
    ]
    result = launch(endless, transports, limits, on_event=when("opened", cut))
    lost_after_s = time.monotonic() - went[0]
    assert isinstance(result.hosts["node3"], HostLost)
    assert "answered nothing" in str(result.hosts["node3"])
    assert fio_runs(lab, "node1") is False
    assert lost_after_s < 15 + 5  # the launch itself gives every launcher up to 5 s to wind up
    assert_whole(result, transports, tmp_path, "node1", "node2")
    # Its sshd has not noticed, so the launcher's own shell still waits for orders there.
    assert wait_for(lambda: not fio_runs(lab, "node3"), max(0.0, went[0] + 8 + 1 + 5 - time.monotonic()))
    lab.host("node3").network_up()


def test_a_reset_connection_ends_the_instances_of_its_host(lab: Lab, transports: Transports, tmp_path: Path) -> None:
    """When sshd dies under a point, its host is lost at once, its instances end, and the host can be used again."""
    started = time.monotonic()
    result = launch(specs(3), transports, LIMITS, on_event=when("opened", lab.host("node1").drop_connections))
    assert isinstance(result.hosts["node1"], HostLost)
    assert "connection lost" in str(result.hosts["node1"])
    assert time.monotonic() - started < 15
    assert_whole(result, transports, tmp_path, "node2", "node3")
    assert wait_for(lambda: nothing_runs(lab, "node1"), 5)
    transports["node1"].remove(DIRECTORY)
    transports["node2"].remove(DIRECTORY)
    transports["node3"].remove(DIRECTORY)
    assert_whole(launch(specs(1), transports, LIMITS), transports, tmp_path / "again", *HOSTS)
