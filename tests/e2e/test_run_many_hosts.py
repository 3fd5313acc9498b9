"""One whole run with clients that are other machines, over real SSH, against a real Ceph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from archive.manifest import PointManifest
from cluster.deploy import ClusterSpec, DeployedCluster, ThrowawayCluster
from cluster.transports.local import LocalTransport
from tests.lab.lab import Lab, running_lab

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]

PLAN = """\
cluster:
  user: root
  clients: [node1, node2]
  head: localhost
  tmp_dir: /tmp
  host_lost_timeout: {host_lost_timeout}
  on_host_lost: {on_host_lost}
  pool_profiles:
    small: {{pg_size: 16, pgp_size: 16, replication: 2}}
benchmarks:
  librbdfio:
    poolname: {pool}
    pool_profile: small
    volumes_per_client: 2
    vol_size: 16
    time: {time}
    time_based: True
    log_iops: False
    log_bw: False
    log_lat: False
    workloads:
      mix: {{mode: randrw, rwmixread: 70, op_size: 4096, numjobs: 1, total_iodepth: [1, 6]}}
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running_lab(2) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def ceph(lab: Lab) -> Iterator[DeployedCluster]:
    """A cluster on the bridge's address, which the lab's hosts reach."""
    cluster = ThrowawayCluster(LocalTransport("localhost"))
    spec = ClusterSpec(
        base=lab.base / "ceph", objectstore="memstore", osd_size_bytes=1 << 30, address=f"{lab.subnet}.1"
    )
    spec.base.mkdir()
    try:
        yield cluster.deploy(spec)
    finally:
        cluster.stop_and_remove()


@pytest.fixture
def home(lab: Lab, tmp_path: Path) -> Path:
    """A home whose ~/.ssh/config knows the lab, as a user's would know theirs."""
    ssh = tmp_path / "home" / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    (ssh / "config").write_text(lab.ssh_config.read_text())
    return ssh.parent


@contextmanager
def cbt(home: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "cbt.py"), *words],
        env={**os.environ, "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def write_plan(path: Path, pool: str, *, time_s: int = 1, lost: str = "stop", timeout_s: int = 300) -> Path:
    path.write_text(PLAN.format(pool=pool, time=time_s, on_host_lost=lost, host_lost_timeout=timeout_s))
    return path


def manifests(archive: Path) -> list[PointManifest]:
    found = (PointManifest.from_json(path.read_text()) for path in (archive / "results").rglob("point.json"))
    return sorted(found, key=lambda point: point.setting["total_iodepth"])


def test_a_whole_run_on_two_client_hosts(lab: Lab, ceph: DeployedCluster, home: Path, tmp_path: Path) -> None:
    """Both clients drive their own volumes at once, a total depth is shared over all of them, and what was made on
    the hosts is gone afterwards."""
    plan = write_plan(tmp_path / "plan.yaml", "two-hosts")
    with cbt(home, "-a", str(tmp_path / "A"), "-c", str(ceph.conf), str(plan)) as run:
        output, _ = run.communicate(timeout=120)
    assert run.returncode == 0, output
    one, six = manifests(tmp_path / "A")
    assert [(i.host, i.iodepth) for i in one.instances] == [("node1", 1)]
    assert [(i.host, i.image, i.iodepth) for i in six.instances] == [
        ("node1", "cbt-librbdfio-node1-0", 2),
        ("node1", "cbt-librbdfio-node1-1", 2),
        ("node2", "cbt-librbdfio-node2-0", 1),
        ("node2", "cbt-librbdfio-node2-1", 1),
    ]
    assert six.queue_depth == 6
    assert six.overlap is not None
    assert six.overlap > 0.5
    point = next((tmp_path / "A" / "results").rglob("total_iodepth-006"))
    assert len(list(point.glob("json_output.*.node1"))) == len(list(point.glob("json_output.*.node2"))) == 2
    facts = json.loads((tmp_path / "A" / "results" / "session-01.json").read_text())
    assert facts["hosts"]["node2"]["hostname"].startswith("node2")
    assert abs(facts["hosts"]["node2"]["clock_offset_s"]) < 1
    for host in lab.hosts:
        assert host.benchmark_processes() == {}
        assert not list(host.tmp.glob("cbt-*"))


def test_a_host_that_cannot_be_reached_is_one_line(ceph: DeployedCluster, home: Path, tmp_path: Path) -> None:
    """An unknown host key stops the run before anything is made, and the line says how to mend it."""
    config = home / ".ssh" / "config"
    nobody = home / ".ssh" / "nobody"
    nobody.write_text("")
    lines = [f"    UserKnownHostsFile {nobody}" if "KnownHosts" in s else s for s in config.read_text().splitlines()]
    config.write_text("\n".join(lines) + "\n")
    plan = write_plan(tmp_path / "plan.yaml", "unreached")
    with cbt(home, "--check", "-c", str(ceph.conf), str(plan)) as run:
        output, _ = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "problem: host node1: " in output
    assert "problem: host node2: " in output
    assert "--accept-new-host-keys" in output
    assert "Traceback" not in output


def test_a_host_that_crashes_in_mid_point(lab: Lab, ceph: DeployedCluster, home: Path, tmp_path: Path) -> None:
    """The point becomes partial and names the host, the other host's data is kept, and the run goes on without it
    when the plan says so. (The last test here: the host does not come back.)"""
    plan = write_plan(tmp_path / "plan.yaml", "crash", time_s=5, lost="continue", timeout_s=3)
    with cbt(home, "-a", str(tmp_path / "A"), "-c", str(ceph.conf), str(plan)) as run:
        victim = lab.host("node2")
        _until(lambda: len(manifests(tmp_path / "A")) == 1, 60)
        _until(lambda: any("--rw=randrw" in words for words in victim.processes().values()), 30)
        time.sleep(2)
        victim.crash()
        output, _ = run.communicate(timeout=120)
    assert run.returncode == 1, output
    six = manifests(tmp_path / "A")[1]
    assert six.status == "partial"
    assert six.reason is not None
    assert "node2" in six.reason
    assert [i.host for i in six.instances if i.status == "complete"] == ["node1", "node1"]
    assert "Traceback" not in output


def _until(reached: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not reached():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.1)
