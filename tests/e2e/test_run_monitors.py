"""Runs with monitors, on a real cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.deploy import DeployedCluster
from post_processing.load import load_archive
from tests.e2e.run_helpers import Running, by_setting, cbt, command_of, until, write_plan

pytestmark = pytest.mark.e2e

COLLECTL = {"args": '-c 18 -sCD -i 1 -P -oz -F0 --rawtoo --sep ";" -f {collectl_dir}'}


def monitored_plan(
    folder: Path, benchmark: dict[str, Any], workloads: dict[str, Any], profiles: dict[str, Any], pid_dir: Path
) -> Path:
    plan = write_plan(folder, benchmark, workloads, cluster={"pid_dir": str(pid_dir)})
    document = {**yaml.safe_load(plan.read_text()), "monitoring_profiles": profiles}
    plan.write_text(yaml.safe_dump(document, sort_keys=False))
    return plan


def test_monitors_watch_every_point_that_wants_them(
    tmp_path: Path, conf: Path, throwaway_cluster: DeployedCluster
) -> None:
    """What monitors write stands in folders of its own with the point, and once for the idle cluster; `monitor: false`
    has none; a monitor that cannot run is a note and fails nothing; the report reads the archive as any other."""
    plan = monitored_plan(
        tmp_path,
        {"poolname": "e2e-monitors", "idle_monitor_sleep": 1, "time": 3},
        {
            "precondition": {"mode": "randwrite", "total_iodepth": [1], "time": 1, "monitor": False},
            "w": {"total_iodepth": [2]},
        },
        {
            "collectl": COLLECTL,
            "top": {"nodes": ["osds"], "args": "-b -H -d 1 -p {pid}"},
            "perf": {"perf_cmd": str(tmp_path / "no such perf"), "args": "stat"},
        },
        throwaway_cluster.run_dir,
    )
    document = yaml.safe_load(plan.read_text())
    document["cluster"]["osds"] = ["localhost", "elsewhere"]
    plan.write_text(yaml.safe_dump(document))
    archive = tmp_path / "A"
    done = cbt("-a", archive, "-c", conf, plan)
    assert done.status == 0, done.err
    assert done.err.count("elsewhere: not reached by this version") == 1
    assert "... watching the idle cluster for 1 s" in done.err

    (combination,) = (archive / "results/00000000").iterdir()
    (point,) = combination.glob("w/**/point.json")
    collected = {path.name for path in point.parent.iterdir() if path.is_dir()}
    assert collected == {"collectl.localhost", "top.localhost", "perf.localhost"}  # of perf, its last words
    for suffix in (".cpu", ".dsk", ".raw.gz"):
        (file,) = (point.parent / "collectl.localhost").glob(f"*{suffix}")
        assert file.stat().st_size > 0
    daemons = {name: process.pid for name, process in throwaway_cluster.processes.items() if name.startswith("osd")}
    tops = {path.name for path in (point.parent / "top.localhost").iterdir()}
    assert tops == {f"top.{pid}.out" for pid in daemons.values()}
    assert {path.name for path in combination.glob("idle_monitoring.localhost/*")} == {"collectl", "top", "perf"}
    assert not [path for path in combination.glob("precondition/**/*.localhost") if path.is_dir()]

    manifest = by_setting(archive, "w")[2]
    assert manifest.status == "complete"
    assert [note for note in manifest.notes if "perf: ended early with status 127" in note]
    assert not [note for note in manifest.notes if "collectl" in note or "top" in note]
    assert "perf: ended early with status 127" in (archive / "cbt.log").read_text()
    assert not list((tmp_path / "tmp").rglob("*-monitors"))
    loaded = load_archive(archive)
    assert list(loaded.problems) == []


def test_no_monitor_outlives_a_killed_run(tmp_path: Path, conf: Path, throwaway_cluster: DeployedCluster) -> None:
    """kill -9 in mid-point leaves neither collectl nor anything else behind; the same command completes the run."""
    plan = monitored_plan(
        tmp_path,
        {"poolname": "e2e-monitors-kill", "idle_monitor_sleep": 0},
        {"w": {"total_iodepth": [1], "time": 3}},
        {"collectl": COLLECTL},
        throwaway_cluster.run_dir,
    )
    archive = tmp_path / "A"
    with Running("-a", archive, "-c", conf, plan) as running:
        running.wait_for_instances(1)
        assert [pid for pid in running.everything() if any("collectl" in word for word in command_of(pid)[:3])]
        running.process.kill()
        until(lambda: not running.everything(), 5, f"still there: {running.everything()}")
    done = cbt("-a", archive, "-c", conf, plan)
    assert done.status == 0, done.err
    assert list((archive / "results").glob("**/collectl.localhost/*.cpu"))
