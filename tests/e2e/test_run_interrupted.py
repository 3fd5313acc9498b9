"""Runs that are stopped half-way: nothing lives on, nothing finished is lost, and the same command goes on."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from pathlib import Path

import pytest

from cluster.ceph import Ceph
from tests.e2e.run_helpers import Running, by_setting, cbt, fingerprint, manifests, until, write_plan

pytestmark = pytest.mark.e2e

FAREWELL_S = 5.0
"""How long what a dead controller had started may live (issue 2)."""


def nothing_left(running: Running, limit_s: float = FAREWELL_S) -> None:
    until(lambda: not running.everything(), limit_s, f"{limit_s} s later still there: {running.everything()}")


def test_kill_9_leaves_no_process_and_the_same_command_completes_the_rest(tmp_path: Path, conf: Path) -> None:
    """After kill -9 in mid-point everything is gone within 5 s; finished points stay byte for byte, the rest is run on
    the images that are there, without filling them again."""
    plan = write_plan(
        tmp_path,
        {"volumes_per_client": 2, "poolname": "e2e-kill"},
        {"w": {"mode": "randwrite", "total_iodepth": [2, 4, 8]}},
    )
    archive = tmp_path / "A"
    with Running("-a", archive, "-c", conf, plan) as first:
        first.wait_for("[2/3]")
        first.wait_for_instances(2)
        first.process.kill()
        nothing_left(first)
    assert list(by_setting(archive, "w")) == [2]
    (folder,) = manifests(archive)
    finished = fingerprint(archive / "results" / folder)

    second = cbt("-a", archive, "-c", conf, plan)
    assert second.status == 0, second.err
    assert f"{archive}: 1 of 3 points are complete; going on with the others" in second.err
    assert "filling" not in second.err
    assert fingerprint(archive / "results" / folder) == finished
    assert {depth: point.status for depth, point in by_setting(archive, "w").items()} == dict.fromkeys(
        (2, 4, 8), "complete"
    )

    third = cbt("-a", archive, "-c", conf, plan)
    assert (third.status, "all 3 points are complete already" in third.err) == (0, True)


def test_an_interrupted_run_says_so_and_leaves_what_can_be_gone_on_with(
    tmp_path: Path, conf: Path, shared_ceph: Ceph
) -> None:
    """Ctrl-C and SIGTERM in mid-point end the run within seconds with 130 and a word on how to go on; --cleanup removes
    what is left on the cluster."""
    plan = write_plan(tmp_path, {"poolname": "e2e-stop", "time": 30, "iodepth": [1, 2]})
    archive = tmp_path / "A"
    for number in (signal.SIGINT, signal.SIGTERM):
        with Running("-a", archive, "-c", conf, plan) as running:
            running.wait_for_instances(1)
            began = time.monotonic()
            running.process.send_signal(number)
            done = running.finish()
        assert done.status == 130, done.err
        assert time.monotonic() - began < 8
        assert "Traceback" not in done.err
        assert done.err.splitlines()[-1] == (
            f"cbt.py: interrupted; what finished is safe in {archive}, and the same command goes on from there"
        )
        nothing_left(running)
        assert manifests(archive) == {}
        assert shared_ceph.images("e2e-stop") == ("cbt-librbdfio-localhost-0",)
    assert list((tmp_path / "tmp").iterdir()) == []
    cleaned = cbt("--cleanup", "-a", archive, "-c", conf, plan)
    assert cleaned.status == 0, cleaned.err
    assert "e2e-stop" not in shared_ceph.pools()


def test_a_throwaway_cluster_leaves_nothing_but_results() -> None:
    """Images whose data lie in an erasure-coded pool are measured on a bluestore cluster of our own; neither kill -9
    nor the end of the run leaves a daemon or a folder, and a run that was killed is gone on with on a new cluster."""
    with tempfile.TemporaryDirectory(prefix="cbt-e2e-") as base:  # short: pytest's own is too long for a socket
        folder = Path(base)
        plan = write_plan(
            folder,
            {
                "pool_profile": "small",
                "data_pool_profile": "ec",
                "volumes_per_client": 2,
                "poolname": "e2e-ec",
                "op_size": 16384,
            },
            {"mixed": {"mode": "randrw", "rwmixread": 70, "total_iodepth": [2, 3]}},
            cluster={
                "use_existing": False,
                "osd_objectstore": "bluestore",
                "osds_per_node": 3,
                "osd_size": "1G",
                "pool_profiles": {
                    "small": {"pg_size": 4, "pgp_size": 4, "replication": 2},
                    "ec": {"pg_size": 4, "pgp_size": 4, "replication": "erasure", "erasure_profile": "ec21"},
                },
                "erasure_profiles": {"ec21": {"erasure_k": 2, "erasure_m": 1}},
            },
        )
        archive = folder / "A"
        with Running("-a", archive, plan) as first:
            first.wait_for("[2/2]")
            first.wait_for_instances(2)
            first.process.kill()
            nothing_left(first, FAREWELL_S + 5)  # the daemons are given 5 s to end by themselves
        with Running("-a", archive, plan) as second:
            done = second.finish()
            assert done.status == 0, done.err
            nothing_left(second)
        assert "1 of 2 points are complete; going on with the others" in done.err
        assert list((folder / "tmp").iterdir()) == []
        assert {depth: point.status for depth, point in by_setting(archive, "mixed").items()} == {
            2: "complete",
            3: "complete",
        }
        facts = json.loads((archive / "results/session-02.json").read_text(encoding="utf-8"))
        (profile,) = facts["volumes"][0]["erasure_profiles"].values()
        assert (profile["k"], profile["m"]) == ("2", "1")
