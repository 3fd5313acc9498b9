"""Runs that are stopped half-way: nothing lives on, nothing finished is lost, and the same command goes on."""

from __future__ import annotations

import signal
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
    first = Running("-a", archive, "-c", conf, plan)
    first.wait_for("[2/3]")
    first.wait_for_instances(2)
    first.process.kill()
    nothing_left(first)
    first.finish()
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
    """Ctrl-C and SIGTERM in mid-point end the run within seconds with 130 and a word about how to go on; --cleanup removes
    what is left on the cluster."""
    plan = write_plan(tmp_path, {"poolname": "e2e-stop", "time": 30, "iodepth": [1, 2]})
    archive = tmp_path / "A"
    for number in (signal.SIGINT, signal.SIGTERM):
        running = Running("-a", archive, "-c", conf, plan)
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


def test_a_throwaway_cluster_with_an_ec_pool_survives_nothing_but_its_results(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Images whose data lie in an erasure-coded pool are measured on a cluster of our own; neither kill -9 nor the end of
    the run leaves a daemon or a folder behind."""
