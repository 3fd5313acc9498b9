"""One real Ceph cluster for all the tests that only need a healthy one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.ceph import Ceph
from cluster.deploy import ClusterSpec, DeployedCluster, ThrowawayCluster
from cluster.transports.local import LocalTransport


@pytest.fixture(scope="session")
def throwaway_cluster() -> Iterator[DeployedCluster]:
    """Monitor, manager and three memstore OSDs, shared by the session: leave it as healthy as it was, and name
    pools so that no other test's are meant."""
    # Not pytest's own folder: its paths are too long for a daemon's socket.
    with tempfile.TemporaryDirectory(prefix="cbt-e2e-") as base:
        cluster = ThrowawayCluster(LocalTransport("localhost"))
        try:
            yield cluster.deploy(ClusterSpec(base=Path(base), objectstore="memstore", osd_size_bytes=2 << 30))
        finally:
            left = cluster.stop_and_remove()
        assert left == []


@pytest.fixture
def shared_ceph(throwaway_cluster: DeployedCluster) -> Ceph:
    """The shared cluster, to look at."""
    return Ceph(LocalTransport("localhost"), str(throwaway_cluster.conf))


@pytest.fixture
def conf(throwaway_cluster: DeployedCluster, shared_ceph: Ceph) -> Iterator[Path]:
    """The shared cluster's ceph.conf. When the test is over the cluster has the pools that it had before."""
    before = set(shared_ceph.pools())
    yield throwaway_cluster.conf
    assert set(shared_ceph.pools()) == before
