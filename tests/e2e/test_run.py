"""The main job, from a plan to an archive and its report, on a real cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archive.manifest import PointManifest
from cluster.ceph import Ceph
from tests.e2e.run_helpers import (
    CBT,
    ROOT,
    Running,
    by_setting,
    cbt,
    manifests,
    plain_lines,
    write_plan,
)

pytestmark = pytest.mark.e2e


@pytest.fixture
def foreign(shared_ceph: Ceph) -> Iterator[tuple[str, str]]:
    """A pool and an image that are somebody else's, under names a careless run would take for its own."""
    pool = "cbt-librbdfio"
    shared_ceph.pool_create_replicated(pool, 4, 4, size=2)
    shared_ceph.pool_enable_application(pool, "rbd")
    shared_ceph.image_create(pool, "cbt-librbdfio-localhost-0", 1 << 20, 22)
    yield pool, "cbt-librbdfio-localhost-0"
    shared_ceph.pool_delete(pool)


def documents(folder: Path, manifest: PointManifest) -> list[dict[str, Any]]:
    return [json.loads((folder / str(record.json_output)).read_bytes()) for record in manifest.instances]


def summed_iops(folder: Path) -> float:
    """IOPS of a point by the simplest reading of its raw files."""
    return sum(
        float(job[direction]["iops"])
        for path in folder.glob("json_output.*")
        for job in json.loads(path.read_bytes())["jobs"]
        for direction in ("read", "write")
    )


def test_a_plan_becomes_an_archive_and_a_report(
    tmp_path: Path, conf: Path, shared_ceph: Ceph, foreign: tuple[str, str]
) -> None:
    """A run with workloads starts the very commands that --dry-run shows (which touches nothing) and leaves every
    documented file, consistent figures, a report that adds up, and of the cluster only what is somebody else's."""
    plan = write_plan(
        tmp_path,
        {"volumes_per_client": 4, "poolname": "e2e-main"},
        {
            "precondition": {"mode": "randwrite", "op_size": 65536, "total_iodepth": [4]},
            "mixed": {"mode": "randrw", "rwmixread": 70, "op_size": 16384, "total_iodepth": [1, 6, 16]},
        },
    )
    archive = tmp_path / "A"
    foreign_image = shared_ceph.image(*foreign)
    before = sorted(tmp_path.iterdir())
    dry = cbt("--dry-run", "-a", archive, "-c", conf, plan, env={"PATH": str(tmp_path / "no programs")})
    assert dry.status == 0, dry.err
    assert sorted(tmp_path.iterdir()) == before
    done = cbt("-a", archive, "-c", conf, plan)
    assert done.status == 0, done.err
    assert "mixed" in done.out
    assert set(shared_ceph.pools()) & {"e2e-main"} == set()
    assert shared_ceph.image(*foreign) == foreign_image

    assert {path.name for path in (archive / "results").iterdir()} == {
        "cbt_config.yaml",
        "run.json",
        "session-01.json",
        "created.jsonl",
        "00000000",
    }
    (combination,) = (archive / "results/00000000").iterdir()
    assert re.fullmatch(r"id-[0-9a-f]{8}", combination.name)
    assert (combination / "benchmark_config.yaml").is_file()
    assert "fio" in (archive / "cbt.log").read_text(encoding="utf-8")

    points = by_setting(archive, "mixed")
    assert set(points) == {1, 6, 16}
    assert {depth: [i.iodepth for i in p.instances] for depth, p in points.items()} == {
        1: [1],
        6: [2, 2, 1, 1],
        16: [4, 4, 4, 4],
    }
    for depth, point in points.items():
        folder = combination / f"mixed/numjobs-001/total_iodepth-{depth:03d}"
        assert point.status == "complete"
        assert point.queue_depth == depth
        assert point.instances_expected == len(point.instances)
        assert point.overlap is not None
        assert 0.5 < point.overlap <= 1
        assert {path.name for path in folder.iterdir()} == {"point.json"} | {
            f"{kind}.{record.number}.localhost" for kind in ("output", "json_output") for record in point.instances
        }
        for record, document in zip(point.instances, documents(folder, point), strict=True):
            assert document["global options"]["iodepth"] == str(record.iodepth)
            assert document["global options"]["rbdname"] == record.image
            assert document["jobs"][0]["read"]["clat_ns"]["bins"]
    planned = [line.strip() for line in dry.out.splitlines() if "--ioengine" in line]
    ran = sorted(manifests(archive).values(), key=lambda point: point.started_s)
    assert [record.command for point in ran for record in point.instances] == planned
    (precondition,) = [p for p in manifests(archive).values() if p.workload == "precondition"]
    assert not precondition.reported
    facts = json.loads((archive / "results/session-01.json").read_text(encoding="utf-8"))
    assert facts["volumes"][0]["librbd_cache"]["enabled"] in (True, False)
    assert facts["ceph"]["versions"]

    report = tmp_path / "report"
    tool = [sys.executable, str(ROOT / "tools/generate_performance_report.py"), "--archive", str(archive)]
    subprocess.run([*tool, "--output-directory", str(report)], check=True, capture_output=True)
    assert next(report.glob("*.pdf")).read_bytes().startswith(b"%PDF")
    results = json.loads((report / "results.json").read_text(encoding="utf-8"))
    (curve,) = results["curves"]
    assert (curve["workload"], curve["read_percent"], curve["block_size_bytes"]) == ("mixed", 70, 16384)
    shown = {point["setting"]["total_iodepth"]: point["iops"] for point in curve["points"]}
    raw = {depth: summed_iops(combination / f"mixed/numjobs-001/total_iodepth-{depth:03d}") for depth in points}
    assert shown == pytest.approx(raw, rel=1e-6)


def test_every_combination_of_a_plan_without_workloads_runs(tmp_path: Path, conf: Path) -> None:
    """Without workloads the benchmark's own lists are swept, iterations included, and time series come along; a pipe
    gets plain whole lines while the run goes on."""
    plan = write_plan(
        tmp_path,
        {
            "volumes_per_client": 2,
            "procs_per_volume": 2,
            "numjobs": [1, 2],
            "iodepth": 2,
            "poolname": "e2e-plain",
            "fio_out_format": "json",
            "log_lat": True,
            "log_avg_msec": 200,
        },
        cluster={"iterations": 2},
    )
    with Running("-a", tmp_path / "A", "-c", conf, plan) as running:
        running.wait_for("[1/4]")
        assert running.process.poll() is None
        assert running.err.endswith("\n")
        done = running.finish()
    assert done.status == 0, done.err
    plain_lines(done.out)
    said = plain_lines(done.err)
    assert [sum(f": {word}" in line for line in said) for word in ("started", "complete")] == [4, 4]
    points = manifests(tmp_path / "A")
    assert sorted((p.iteration, p.instances[0].numjobs) for p in points.values()) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    for folder, point in points.items():
        numjobs = point.instances[0].numjobs
        place = tmp_path / "A/results" / folder
        assert [record.number for record in point.instances] == [0, 1, 2, 3]
        assert point.queue_depth == 4 * 2 * numjobs
        assert point.status == "complete"
        assert [len(document["jobs"]) for document in documents(place, point)] == [numjobs] * 4
        assert "bins" not in documents(place, point)[0]["jobs"][0]["read"]["clat_ns"]
        series = {f"output.{n}_clat.{job}.log.localhost" for n in range(4) for job in range(1, numjobs + 1)}
        assert series <= {path.name for path in place.iterdir()}


def test_a_terminal_gets_a_live_line(tmp_path: Path, conf: Path) -> None:
    """On a terminal one line is rewritten while a point runs, with its number, its time and the time left; fio's text
    beside its JSON is kept and does no harm."""
    plan = write_plan(tmp_path, {"poolname": "e2e-pty", "iodepth": 1, "time": 2, "fio_out_format": "json,normal"})
    terminal, far_end = os.openpty()
    process = subprocess.Popen(
        [sys.executable, str(CBT), "-a", str(tmp_path / "A"), "-c", str(conf), str(plan)],
        stdin=far_end,
        stdout=far_end,
        stderr=far_end,
        start_new_session=True,
    )
    os.close(far_end)
    seen = bytearray()
    try:
        while chunk := os.read(terminal, 65536):
            seen += chunk
    except OSError:  # how a terminal says that nobody is there any more
        pass
    finally:
        os.close(terminal)
    assert process.wait(60) == 0, seen.decode()
    assert re.search(rb"\r\[1/1\] randread librbdfio [^\r\n]*\d s, about \d+ s left", seen), seen.decode()
    assert b": complete" in seen
    ((folder, point),) = manifests(tmp_path / "A").items()
    place = tmp_path / "A/results" / folder
    assert b"clat percentiles" in (place / "output.0.localhost").read_bytes()
    assert documents(place, point)[0]["jobs"][0]["read"]["total_ios"] > 0
