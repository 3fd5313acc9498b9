"""What goes wrong in mid-run: each point says what happened to it, and the run goes on as long as the cluster does."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import cbt
from archive.manifest import PointManifest
from cluster.ceph import Ceph
from cluster.deploy import ClusterSpec, DeployedCluster, ThrowawayCluster
from cluster.transports.local import LocalTransport
from tests.e2e.run_helpers import (
    CBT,
    MARKER,
    Running,
    by_setting,
    command_of,
    fingerprint,
    is_instance,
    manifests,
    marked,
    until,
    write_plan,
)
from tests.e2e.run_helpers import cbt as call

pytestmark = pytest.mark.e2e

MIB = 1 << 20


@pytest.fixture
def own_cluster() -> Iterator[DeployedCluster]:
    """A cluster that the test may break."""
    with tempfile.TemporaryDirectory(prefix="cbt-e2e-") as base:
        cluster = ThrowawayCluster(LocalTransport("localhost"))
        yield cluster.deploy(ClusterSpec(base=Path(base), objectstore="memstore", osd_size_bytes=1 << 30))
        assert cluster.stop_and_remove() == []


@pytest.fixture
def own_images(shared_ceph: Ceph, conf: Path) -> Iterator[str]:
    """A pool with two images of 16 MiB that the user made, named as with use_existing_volumes."""
    del conf  # its check that all pools are gone must come after this fixture's end
    pool = "e2e-own"
    shared_ceph.pool_create_replicated(pool, 4, 4, size=2)
    shared_ceph.pool_enable_application(pool, "rbd")
    for number in range(2):
        shared_ceph.image_create(pool, f"mine-localhost-{number}", 16 * MIB, 22)
    yield pool
    shared_ceph.pool_delete(pool)


def on_own_images(pool: str, **more: object) -> dict[str, object]:
    return {
        "use_existing_volumes": True,
        "poolname": pool,
        "rbdname": "mine",
        "volumes_per_client": 2,
        "mode": "randwrite",
        **more,
    }


def by_workload(archive: Path) -> dict[str | None, PointManifest]:
    return {point.workload: point for point in manifests(archive).values()}


def test_a_run_outlives_an_osd_but_not_the_cluster(own_cluster: DeployedCluster, tmp_path: Path) -> None:
    """An OSD that dies is noted with the points it touched and the run goes on; when nothing answers any more the run
    stops with one line, and what was measured is safe."""
    plan = write_plan(
        tmp_path,
        {"volumes_per_client": 2, "poolname": "e2e-osd", "time": 2, "mode": "randwrite"},
        {"w": {"iodepth": [1, 2]}},
        cluster={"pool_profiles": {"small": {"pg_size": 4, "pgp_size": 4, "replication": 3}}},
    )
    archive = tmp_path / "A"
    with Running("-a", archive, "-c", own_cluster.conf, plan) as running:
        running.wait_for_instances(2)
        os.kill(own_cluster.processes["osd.2"].pid, signal.SIGKILL)
        running.wait_for("[2/2]")
        running.wait_for_instances(2)
        os.kill(own_cluster.processes["mon.a"].pid, signal.SIGKILL)
        done = running.finish()
    assert done.status == 1
    assert "Traceback" not in done.err
    assert "the Ceph cluster no longer answers" in done.err.splitlines()[-1]
    points = by_setting(archive, "w")
    assert points[1].status == "complete"
    assert any("HEALTH_WARN" in note and "OSD_DOWN" in note for note in points[1].notes)
    assert points[1].health_after is not None
    assert points[1].health_after["osds"] == {"total": 3, "up": 2, "in": 3}
    assert list((tmp_path / "tmp").iterdir()) == []


def test_existing_images_are_used_and_nothing_else_happens_to_them(
    tmp_path: Path, conf: Path, shared_ceph: Ceph, own_images: str
) -> None:
    """use_existing_volumes neither makes, resizes, fills nor removes; an image that vanishes half-way costs only the
    points that need it, and the same command runs just those again."""
    gone = f"mine-localhost-{1}"
    rbd = ["rbd", "--conf", str(conf), "-p", own_images]
    plan = write_plan(
        tmp_path,
        on_own_images(own_images),
        {
            "before": {"iodepth": [1]},
            "without": {"iodepth": [1], "pre_workload_script": shlex.join([*rbd, "rm", "--no-progress", gone])},
            "after": {
                "iodepth": [1],
                "pre_workload_script": shlex.join([*rbd, "create", "--size", "16M", gone]),
            },
        },
    )
    archive = tmp_path / "A"
    before = shared_ceph.image(own_images, "mine-localhost-0")
    first = call("-a", archive, "-c", conf, plan)
    assert first.status == 1, first.err
    points = by_workload(archive)
    assert {name: point.status for name, point in points.items()} == {
        "before": "complete",
        "without": "partial",
        "after": "complete",
    }
    assert "1 of 2 instances failed" in str(points["without"].reason)
    assert gone in str(points["without"].reason)
    assert "No such file" in str(points["without"].reason)
    assert shared_ceph.image(own_images, "mine-localhost-0") == before
    assert shared_ceph.images(own_images) == ("mine-localhost-0", "mine-localhost-1")

    whole = [name for name, point in manifests(archive).items() if point.workload != "without"]
    finished = {name: fingerprint(archive / "results" / name) for name in whole}
    second = call("-a", archive, "-c", conf, plan)
    assert second.status == 1  # the image is removed again by the workload's own script
    assert "2 of 3 points are complete" in second.err
    assert {name: fingerprint(archive / "results" / name) for name in whole} == finished
    (superseded,) = (archive / "superseded").rglob("point.json")
    assert PointManifest.from_json(superseded.read_text(encoding="utf-8")) == points["without"]

    third = call("-a", archive, "-c", conf, plan)
    assert third.status == 1
    assert gone in third.err
    assert "nothing was started" in third.err


def test_a_hung_instance_is_ended_and_the_next_point_runs(
    tmp_path: Path, conf: Path, own_images: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An instance that reacts to nothing is ended at the deadline; its point is partial and names it."""
    monkeypatch.setattr("orchestrator.runner.GRACE_S", 1.0)
    monkeypatch.setattr("orchestrator.runner.KILL_GRACE_S", 1.0)
    plan = write_plan(tmp_path, on_own_images(own_images, time=2), {"w": {"iodepth": [1, 2]}})

    def hang() -> None:
        """Stops the second instance of the first point."""

        def victims() -> list[int]:
            found = [pid for pid in marked(MARKER) if is_instance(command_of(pid))]
            return [pid for pid in found if "--rbdname=mine-localhost-1" in command_of(pid)]

        until(lambda: bool(victims()), 60, "no instance was started")
        threading.Event().wait(1.0)
        for pid in victims():
            os.kill(pid, signal.SIGSTOP)

    thread = threading.Thread(target=hang)
    thread.start()
    status = cbt.main(["-a", str(tmp_path / "A"), "-c", str(conf), str(plan)])
    thread.join()
    assert status == 1, capfd.readouterr().err
    points = by_setting(tmp_path / "A", "w")
    assert (points[1].status, points[2].status) == ("partial", "complete")
    assert [record.status for record in points[1].instances] == ["complete", "failed"]
    assert "mine-localhost-1: still ran when its time and the grace after it had passed" in str(points[1].reason)


def in_small_filesystems(tmp_path: Path, steps: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Runs shell steps in a mount namespace of their own, in which `small` (300 KiB) and `tmp` (8 MiB) are filesystems;
    what is to be looked at later must be copied out. `"$@"` is cbt.py's command line."""
    for name in ("small", "tmp", "kept"):
        (tmp_path / name).mkdir()
    script = f"""
        cd {shlex.quote(str(tmp_path))} &&
        mount -t tmpfs -o size=300k none small && mount -t tmpfs -o size=8m none tmp && {{ {steps}
        }}"""
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *own, "--mount", "sh", "-c", script, "sh", sys.executable, str(CBT), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_a_full_disk_stops_the_run_and_what_is_archived_stays_valid(
    tmp_path: Path, conf: Path, own_images: str
) -> None:
    """No space in the archive: one line, status 1, every point there is whole; with space again it goes on."""
    plan = write_plan(tmp_path, on_own_images(own_images), {"w": {"iodepth": list(range(1, 7))}})
    done = in_small_filesystems(
        tmp_path,
        """
        "$@" 2>first.err >/dev/null; echo $?
        cp -a small/A kept/first
        mount -o remount,size=20m small
        "$@" 2>second.err >/dev/null; echo $?
        cp -a small/A kept/second""",
        *("-a", "small/A", "-c", conf, plan),
    )
    first, second = ((tmp_path / name).read_text() for name in ("first.err", "second.err"))
    assert done.stdout.split() == ["1", "0"], first + second + done.stderr
    assert "Traceback" not in first
    assert "No space left on device; free some space and give the same command again" in first.splitlines()[-1]
    early = manifests(tmp_path / "kept/first")
    assert 0 < len(early) < 6
    assert {point.status for point in early.values()} == {"complete"}
    assert f"small/A: {len(early)} of 6 points are complete" in second
    late = manifests(tmp_path / "kept/second")
    assert len(late) == 6
    assert {name: late[name] for name in early} == early


def test_a_full_tmp_dir_costs_only_the_points_that_met_it(tmp_path: Path, conf: Path, own_images: str) -> None:
    """No space in tmp_dir: the point fails and says so, and the next one runs when there is space again."""
    fill = tmp_path / "tmp/filled"
    plan = write_plan(
        tmp_path,
        on_own_images(own_images),
        {
            "full": {"iodepth": [1], "pre_workload_script": f"sh -c 'dd if=/dev/zero of={fill} bs=1M 2>/dev/null; :'"},
            "after": {"iodepth": [1], "pre_workload_script": f"rm {fill}"},
        },
    )
    done = in_small_filesystems(tmp_path, '"$@"; echo $?', "-a", "kept/A", "-c", conf, plan)
    assert "Traceback" not in done.stderr
    points = by_workload(tmp_path / "kept/A")
    assert (points["full"].status, points["after"].status) == ("failed", "complete"), done.stderr
    assert "No space left on device" in str(points["full"].reason)
    assert done.stdout.split()[-1] == "1"
