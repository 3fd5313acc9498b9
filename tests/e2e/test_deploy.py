"""The throwaway cluster: it comes up healthy, ends with its controller, and touches nothing that is not its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster.ceph import Ceph
from cluster.deploy import ClusterSpec, DeployError, ThrowawayCluster, bringup, check_deploy, reap_leftovers
from cluster.deploy.spec import Addresses
from cluster.processes import ProcessId
from cluster.status_feed import StatusFeed
from cluster.transports.local import LocalTransport

pytestmark = pytest.mark.e2e

GIB = 1 << 30
ROOT = Path(__file__).parents[2]
NOBODY = 65534
LOOP_DEVICES = os.geteuid() == 0 and os.access("/dev/loop-control", os.W_OK)


@pytest.fixture
def base() -> Iterator[Path]:
    """A short folder: in pytest's own the paths are too long for a daemon's socket."""
    with tempfile.TemporaryDirectory(prefix="cbt-test-") as folder:
        yield Path(folder)


def a_spec(base: Path, **changes: object) -> ClusterSpec:
    values: dict[str, object] = {"osd_count": 1, "objectstore": "memstore", "osd_size_bytes": GIB, **changes}
    return ClusterSpec(base, **values)  # type: ignore[arg-type] # the tests name fields of ClusterSpec


def a_cluster() -> ThrowawayCluster:
    return ThrowawayCluster(LocalTransport("localhost"))


def all_gone(processes: dict[str, ProcessId], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while any(process.alive() for process in processes.values()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def open_files(processes: dict[str, ProcessId]) -> set[str]:
    links = [entry for process in processes.values() for entry in Path(f"/proc/{process.pid}/fd").iterdir()]
    targets = {str(link.readlink()) for link in links if link.is_symlink()}
    return {target for target in targets if target.startswith("/")}


def first_mib(device: str) -> bytes:
    with Path(device).open("rb") as handle:
        return handle.read(1 << 20)


CONTROLLER = """
    import codecs, concurrent.futures.thread, json, os, sys, time
    from pathlib import Path
    from cluster.ceph import Ceph
    from cluster.deploy import ClusterSpec, ThrowawayCluster
    from cluster.status_feed import StatusFeed
    from cluster.transports.local import LocalTransport
    if user := int(sys.argv[2]):
        codecs.lookup("ascii")  # what is loaded late must be loaded before root's files are out of reach
        os.setgroups([]); os.setgid(user); os.setuid(user)
    cluster = ThrowawayCluster(LocalTransport("localhost"))
    spec = ClusterSpec(Path(sys.argv[1]), osd_count=1, objectstore="memstore", osd_size_bytes=1 << 30,
                       devices=tuple(sys.argv[4:]))
    if spec.devices:
        spec = ClusterSpec(spec.base, osd_count=1, devices=spec.devices)
    deployed = cluster.deploy(spec)
    daemons = {name: [p.pid, p.start_ticks] for name, p in deployed.processes.items()}
    health = Ceph(LocalTransport("localhost"), str(deployed.conf)).status().health
    print(json.dumps({"folder": str(deployed.folder), "daemons": daemons, "health": health}), flush=True)
    if sys.argv[3] == "wait":
        time.sleep(600)
    assert cluster.stop_and_remove() == []
"""


def controller(base: Path, *words: str, user: int = 0, then: str = "wait") -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", textwrap.dedent(CONTROLLER), str(base), str(user), then, *words]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def what_it_says(process: subprocess.Popen[str]) -> tuple[Path, dict[str, ProcessId], str]:
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    return Path(said["folder"]), {name: ProcessId(*p) for name, p in said["daemons"].items()}, said["health"]


def killed(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def guard_of(processes: dict[str, ProcessId]) -> int:
    return int(Path(f"/proc/{processes['mon.a'].pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_cluster_is_healthy_and_leaves_no_trace(base: Path) -> None:
    """HEALTH_OK with every OSD in; every file is in its folder; afterwards neither daemons nor folder are there."""
    cluster = a_cluster()
    said: list[str] = []
    deployed = cluster.deploy(a_spec(base, osd_count=3), said.append)
    status = Ceph(LocalTransport("localhost"), str(deployed.conf)).status()
    assert (status.health, status.num_up_osds, status.num_in_osds, status.fsid) == ("HEALTH_OK", 3, 3, deployed.fsid)
    assert set(deployed.processes) == {"mon.a", "mgr.x", "osd.0", "osd.1", "osd.2"}
    ours, devices = str(deployed.folder), ("/dev/", "/proc/", "/sys/", "/usr/")
    assert [f for f in open_files(deployed.processes) if not f.startswith((ours, *devices))] == []
    assert any("OSDs to come up" in text for text in said)
    assert cluster.stop_and_remove() == []
    assert all_gone(deployed.processes, 0.0)
    assert list(base.iterdir()) == []


def test_bluestore_on_a_file_is_healthy(base: Path) -> None:
    """The other object store comes up and goes in the same way."""
    cluster = a_cluster()
    deployed = cluster.deploy(a_spec(base, objectstore="bluestore"))
    assert (deployed.folder / "osd.0" / "block").stat().st_size == GIB
    assert cluster.stop_and_remove() == []
    assert list(base.iterdir()) == []


def test_status_feed_answers_from_one_process_and_survives_its_loss(base: Path) -> None:
    """Repeated health questions cost no process each; when the process is lost the answer still comes."""
    cluster = a_cluster()
    try:
        deployed = cluster.deploy(a_spec(base))
        with StatusFeed(Ceph(LocalTransport("localhost"), str(deployed.conf))) as feed:
            assert feed.status().health == "HEALTH_OK"
            assert feed.persistent
            started = time.monotonic()
            for _ in range(5):
                feed.status()
            assert time.monotonic() - started < 2.0
        deaf = Ceph(
            LocalTransport("localhost"), str(deployed.conf), {"ceph": ("sh", "-c", 'exec ceph "$@" </dev/null', "x")}
        )
        with StatusFeed(deaf, limit_s=5.0) as feed:
            assert feed.status().health == "HEALTH_OK"
            assert not feed.persistent
    finally:
        cluster.stop_and_remove()


def test_two_clusters_in_one_base_do_not_meet(base: Path) -> None:
    """Deployed at the same moment each has ports and a folder of its own, and is no leftover to the other."""
    clusters = (a_cluster(), a_cluster())
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda cluster: cluster.deploy(a_spec(base)), clusters)
    assert first.fsid != second.fsid
    assert reap_leftovers(base) == []
    assert clusters[0].stop_and_remove() == []
    assert Ceph(LocalTransport("localhost"), str(second.conf)).status().health == "HEALTH_OK"
    assert clusters[1].stop_and_remove() == []


def test_killed_controller_takes_the_daemons_along_and_the_folder_is_reaped(base: Path) -> None:
    """After kill -9 no daemon is left within 10 s, and the next run removes the folder."""
    process = controller(base)
    folder, daemons, health = what_it_says(process)
    assert health == "HEALTH_OK"
    killed(process)
    assert all_gone(daemons, 10.0)
    assert folder.exists()
    assert [notice for notice in reap_leftovers(base) if "removed" in notice]
    assert list(base.iterdir()) == []


def test_daemons_whose_guard_was_killed_too_are_stopped_by_the_next_run(base: Path) -> None:
    """With controller and guard gone the daemons live on; only the next run's look at the folder can end them."""
    process = controller(base)
    folder, daemons, _ = what_it_says(process)
    os.kill(guard_of(daemons), signal.SIGKILL)
    killed(process)
    time.sleep(0.5)
    assert all(daemon.alive() for daemon in daemons.values())
    notices = reap_leftovers(base)
    assert "mon.a" in notices[0]
    assert "osd.0" in notices[0]
    assert all_gone(daemons, 0.0)
    assert not folder.exists()


def test_a_process_that_only_has_the_number_is_left_alone(base: Path) -> None:
    """A pid in the folder's list whose start time differs belongs to somebody else now."""
    process = controller(base)
    folder, daemons, _ = what_it_says(process)
    killed(process)
    assert all_gone(daemons, 10.0)
    bystander = subprocess.Popen(["sh", "-c", "sleep 60; :", str(folder / "x")], start_new_session=True)
    try:
        entry = {"name": "osd.7", "pid": bystander.pid, "start_ticks": 1}
        with (folder / "daemons.jsonl").open("a") as handle:
            handle.write(json.dumps(entry) + "\n{torn")
        reap_leftovers(base)
        assert bystander.poll() is None
        assert not folder.exists()
    finally:
        os.killpg(bystander.pid, signal.SIGKILL)
        bystander.wait()


def test_a_folder_with_something_of_others_is_refused_and_untouched(base: Path) -> None:
    """Neither a foreign folder is used, nor a foreign file in a leftover folder removed."""
    (base / "thesis.tex").write_text("years of work")
    problems = check_deploy(a_spec(base, exact=True), LocalTransport("localhost"))
    assert len(problems) == 1
    assert "'thesis.tex'" in problems[0]
    with pytest.raises(DeployError, match="thesis"):
        a_cluster().deploy(a_spec(base, exact=True))
    assert [entry.name for entry in base.iterdir()] == ["thesis.tex"]
    process = controller(base)
    folder, daemons, _ = what_it_says(process)
    (folder / "notes").mkdir()
    killed(process)
    assert all_gone(daemons, 10.0)
    assert any("notes" in notice for notice in reap_leftovers(base))
    assert (folder / "notes").is_dir()
    (folder / "notes").rmdir()
    reap_leftovers(base)
    assert [entry.name for entry in base.iterdir()] == ["thesis.tex"]


def test_kept_cluster_lives_on_and_its_own_script_stops_it(base: Path) -> None:
    """After keep() the daemons run without us, no later run reaps them, and stop.sh ends exactly these."""
    cluster = a_cluster()
    deployed = cluster.deploy(a_spec(base))
    assert "stop.sh" in cluster.keep()
    assert cluster.stop_and_remove() == []
    assert reap_leftovers(base) == []
    assert Ceph(LocalTransport("localhost"), str(deployed.conf)).status().health == "HEALTH_OK"
    stopped = subprocess.run([str(deployed.folder / "stop.sh")], capture_output=True, text=True, timeout=30, check=True)
    assert "stopped" in stopped.stdout
    assert all_gone(deployed.processes, 0.0)


def test_a_deep_folder_gets_a_short_one_for_its_sockets(base: Path) -> None:
    """A socket's path may have 107 bytes; the folder for them is elsewhere then, and is removed as well."""
    deep = base / "a folder with spaces" / ("d" * 90)
    cluster = a_cluster()
    deployed = cluster.deploy(a_spec(deep, exact=True))
    assert deployed.folder == deep
    assert len(str(deployed.run_dir)) < 60
    assert (deployed.run_dir / "osd.0.pid").exists()
    assert cluster.stop_and_remove() == []
    assert not deployed.run_dir.exists()
    assert not deep.exists()


@pytest.mark.parametrize("order", ["--mkfs", "-f"])
def test_a_daemon_that_fails_is_named_with_its_last_words(base: Path, order: str) -> None:
    """What went wrong is in one line, and nothing that was started before stays."""
    script = f'for w; do [ "$w" != {order} ] || {{ echo "the disk is on fire" >&2; exit 3; }}; done; exec ceph-osd "$@"'
    spec = a_spec(base, commands={"ceph-osd": ("sh", "-c", script, "osd")})
    with pytest.raises(DeployError, match=r"osd\.0.*the disk is on fire") as caught:
        a_cluster().deploy(spec)
    assert "\n" not in str(caught.value)
    assert list(base.iterdir()) == []


def test_a_port_taken_at_the_last_moment_costs_only_another_try(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look for a free port and the monitor's bind somebody else may take it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        tried = iter([Addresses(port, port, 20_000, 21_000)])
        free_addresses = bringup._free_addresses
        monkeypatch.setattr(bringup, "_free_addresses", lambda address: next(tried, None) or free_addresses(address))
        cluster = a_cluster()
        deployed = cluster.deploy(a_spec(base))
        assert Ceph(LocalTransport("localhost"), str(deployed.conf)).status().health == "HEALTH_OK"
        assert next(tried, None) is None
    assert cluster.stop_and_remove() == []
    assert list(base.iterdir()) == []


def test_what_is_missing_is_said_beforehand(base: Path) -> None:
    """A missing program, too large an OSD and an impossible path each have a line, all at once."""
    spec = a_spec(base, objectstore="bluestore", osd_size_bytes=1 << 60, commands={"ceph-mgr": ("no-such-mgr",)})
    problems = check_deploy(spec, LocalTransport("localhost"))
    assert [word for word in ("no-such-mgr", "osd_size") if not any(word in line for line in problems)] == []
    assert check_deploy(a_spec(base / "a;b"), LocalTransport("localhost"))
    assert not (base / "a;b").exists()


if os.geteuid() == 0:  # as an ordinary user every other test here shows it

    def test_works_as_an_ordinary_user(base: Path) -> None:
        """No right of root is needed."""
        base.chmod(0o755)
        home = base / "home"
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        process = controller(home, user=NOBODY, then="stop")
        _, daemons, health = what_it_says(process)
        assert health == "HEALTH_OK"
        assert process.wait(30) == 0
        assert all_gone(daemons, 0.0)
        assert list(home.iterdir()) == []
        killed(process)


if LOOP_DEVICES:  # needs root and a kernel with loop devices; elsewhere there is no device to test on

    @pytest.fixture
    def device(base: Path) -> Iterator[str]:
        image = base / "disk"
        with image.open("wb") as handle:
            handle.truncate(2 * GIB)
        argv = ["losetup", "--show", "--find", str(image)]
        name = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
        yield name
        subprocess.run(["losetup", "--detach", name], check=True)

    def device_spec(base: Path, device: str) -> ClusterSpec:
        return a_spec(base / "clusters", objectstore="bluestore", devices=(device,))

    def test_an_empty_device_is_used_and_left_empty(base: Path, device: str) -> None:
        """Bluestore on the device itself; afterwards the same device is accepted again."""
        cluster = a_cluster()
        deployed = cluster.deploy(device_spec(base, device))
        assert os.path.realpath(deployed.folder / "osd.0" / "block") == os.path.realpath(device)
        assert [p for p in check_deploy(device_spec(base, device), LocalTransport("localhost")) if "refused" in p]
        assert cluster.stop_and_remove() == []
        assert check_deploy(device_spec(base, device), LocalTransport("localhost")) == []

    def test_a_device_left_by_a_killed_run_is_taken_back(base: Path, device: str) -> None:
        """The label is ours by the folder's record: no refusal, and the next cluster comes up on it."""
        (base / "clusters").mkdir()
        process = controller(base / "clusters", device)
        _, daemons, _ = what_it_says(process)
        killed(process)
        assert all_gone(daemons, 10.0)
        assert check_deploy(device_spec(base / "elsewhere", device), LocalTransport("localhost"))
        assert check_deploy(device_spec(base, device), LocalTransport("localhost")) == []
        assert reap_leftovers(base / "clusters")
        assert check_deploy(device_spec(base / "elsewhere", device), LocalTransport("localhost")) == []

    @pytest.mark.parametrize("content", ["ext4", "text", "mounted", "twice"])
    def test_a_device_that_holds_anything_is_refused(base: Path, device: str, content: str) -> None:
        """A filesystem, bytes in the first MiB, a mount, or one device for two OSDs: a line, and no byte changed."""
        spec = device_spec(base, device)
        if content in ("ext4", "mounted"):
            subprocess.run(["mkfs.ext4", "-q", device], check=True, capture_output=True)
        if content == "text":
            with Path(device).open("r+b") as handle:
                handle.seek(700_000)
                handle.write(b"x")
        if content == "twice":
            spec = a_spec(base, osd_count=2, objectstore="bluestore", devices=(device, device))
        if content == "mounted":
            (base / "mnt").mkdir()
            subprocess.run(["mount", device, str(base / "mnt")], check=True)
        try:
            before = first_mib(device) if content != "twice" else b""
            problems = check_deploy(spec, LocalTransport("localhost"))
            expected = {"ext4": "ext4", "text": "not empty", "mounted": "is mounted on", "twice": "same device"}[
                content
            ]
            assert len(problems) == 1
            assert expected in problems[0]
            with pytest.raises(DeployError):
                a_cluster().deploy(spec)
            assert content == "twice" or first_mib(device) == before
        finally:
            if content == "mounted":
                subprocess.run(["umount", str(base / "mnt")], check=True)
