"""Whether a plan's images fit, before anything is written."""

from __future__ import annotations

from cluster.capacity import Demand, capacity_findings, raw_per_byte, throwaway_capacity_problem
from cluster.ceph import ClusterSpace
from cluster.pools import erasure_spec, pool_spec

GIB = 1 << 30


def space(total_gib: int, available_gib: int, **pools_gib: int) -> ClusterSpace:
    return ClusterSpace(total_gib * GIB, available_gib * GIB, {name: size * GIB for name, size in pools_gib.items()})


def test_images_that_do_not_fit_are_a_problem_with_figures() -> None:
    """The sum over a pool's images is held against what Ceph says can still be written to it."""
    demands = [Demand("p", 20 * GIB, 3.0)] * 2
    problems, warnings = capacity_findings(demands, space(300, 200, p=30))
    assert warnings == []
    assert len(problems) == 1
    assert "'p' has room for 30.0 GiB" in problems[0]
    assert "40.0 GiB: lower vol_size" in problems[0]


def test_a_pool_still_to_be_made_is_reckoned_in_copies() -> None:
    """Without a pool there is only the raw space, less what Ceph keeps back at its full ratio."""
    assert capacity_findings([Demand("p", 31 * GIB, 3.0)], space(100, 100))[0] == []
    assert len(capacity_findings([Demand("p", 32 * GIB, 3.0)], space(100, 100))[0]) == 1


def test_two_pools_that_only_fit_one_by_one_do_not_fit() -> None:
    """Pools share the disks: each one's own room is not enough to know."""
    demands = [Demand("p", 20 * GIB, 3.0), Demand("q", 20 * GIB, 3.0)]
    assert len(capacity_findings(demands, space(100, 100, p=31, q=31))[0]) == 1


def test_a_cluster_near_full_afterwards_is_a_warning() -> None:
    """From 85 % on the cluster warns; before that nothing is said, nor when nothing is written."""
    assert capacity_findings([Demand("p", 27 * GIB, 3.0)], space(100, 100)) == ([], [])
    problems, warnings = capacity_findings([Demand("p", 30 * GIB, 3.0)], space(100, 100))
    assert problems == []
    assert "90%" in warnings[0]
    assert capacity_findings([Demand("p", 0, 3.0)], space(100, 1)) == ([], [])


def test_raw_bytes_follow_copies_or_chunks() -> None:
    """k + m chunks hold k chunks of data; without a number in the plan the pool's own or Ceph's default counts."""
    profiles = {"e": {"erasure_k": 4, "erasure_m": 2}}
    assert erasure_spec("e", profiles["e"]).chunks == 6
    coded = pool_spec("p", "c", {"replication": "erasure", "erasure_profile": "e"}, profiles)
    assert raw_per_byte(coded) == 1.5
    assert raw_per_byte(pool_spec("p", "r", {"replication": 2}, {})) == 2
    assert raw_per_byte(pool_spec("p", "r", {}, {}), 4) == 4
    assert raw_per_byte(pool_spec("p", "r", {}, {})) == 3


def test_a_throwaway_cluster_must_hold_all_copies() -> None:
    """Images × copies fit into 85 % of the OSDs, or the plan is refused before a cluster is made."""
    demands = [Demand("p", GIB, 2.0)] * 4
    assert throwaway_capacity_problem(demands, 1, 10 * GIB) is None
    problem = throwaway_capacity_problem(demands, 3, 3 * GIB)
    assert problem is not None
    assert "need 8.0 GiB" in problem
    assert "3 OSDs of 3.0 GiB hold 7.6 GiB" in problem
