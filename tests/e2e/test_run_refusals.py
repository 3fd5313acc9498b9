"""What is refused before anything is started, and how it is said."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cluster.ceph import Ceph
from tests.e2e.run_helpers import ROOT, Running, cbt, fingerprint, manifests, write_plan

pytestmark = pytest.mark.e2e

EVIL = 'it\'s $(cbt-trap) `cbt-trap`; cbt-trap & "a" | cbt-trap'


@pytest.fixture
def existing(shared_ceph: Ceph, conf: Path) -> Iterator[str]:
    """A pool of the user's with one image of 16 MiB."""
    del conf  # its check that all pools are gone must come after this fixture's end
    shared_ceph.pool_create_replicated("e2e-refusals", 4, 4, size=2)
    shared_ceph.pool_enable_application("e2e-refusals", "rbd")
    shared_ceph.image_create("e2e-refusals", "mine-localhost-0", 16 << 20, 22)
    yield "e2e-refusals"
    shared_ceph.pool_delete("e2e-refusals")


def test_three_errors_in_a_plan_are_three_lines(tmp_path: Path) -> None:
    """Every error of a plan is told at once with its place, and nothing else is."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "cluster:\n  clients: [localhost]\n  iterrations: 2\n"
        "benchmarks:\n  librbdfio:\n    time: soon\n    vol_siz: 16\n    workloads:\n      a: {mode: randread}\n"
    )
    done = cbt("-a", tmp_path / "A", plan)
    assert (done.status, done.out) == (2, "")
    assert [line.removeprefix(str(plan)).split(" ")[0] for line in done.err.splitlines()] == [
        ":3:3:",
        ":6:11:",
        ":7:5:",
    ]
    assert not (tmp_path / "A").exists()


def test_wrong_use_is_told_in_one_line_and_makes_nothing(tmp_path: Path) -> None:
    """A missing -a, an unknown -c, a plan that is none, an archive that cannot be one: one line each, and no folder."""
    plan = write_plan(tmp_path, {})
    (tmp_path / "a file").touch()
    (tmp_path / "empty.yaml").touch()
    archive = tmp_path / "A"
    calls = {
        "where shall the results go?": (2, plan),
        "nowhere.conf: there is no such ceph.conf": (2, "-a", archive, "-c", tmp_path / "nowhere.conf", plan),
        "there is no such file": (2, "-a", archive, tmp_path / "nowhere.yaml"),
        "is a folder, not a file": (2, "-a", archive, tmp_path),
        "is empty": (2, "-a", archive, tmp_path / "empty.yaml"),
        "--keep-cluster is for a throwaway cluster": (2, "--keep-cluster", "-a", archive, plan),
        "cannot be an archive; give a folder": (2, "-a", tmp_path / "a file", plan),
        "the folder cannot be made": (2, "-a", "/proc/archive", plan),
    }
    for text, (status, *words) in calls.items():
        done = cbt(*words)
        assert (done.status, len(done.err.splitlines()), done.out) == (status, 1, ""), done.err
        assert text in done.err
    assert not archive.exists()


def test_a_benchmark_that_cannot_run_yet_is_explained_but_not_run(tmp_path: Path) -> None:
    """--dry-run explains a plan whose benchmark has no module; --check and the run say in a line that it cannot."""
    plan = tmp_path / "plan.yaml"
    keys = {"clients": ["localhost"]}
    plan.write_text(yaml.safe_dump({"cluster": keys, "benchmarks": {"radosbench": {"op_size": [4096]}}}))
    dry = cbt("--dry-run", plan)
    assert dry.status == 0
    assert "benchmark radosbench cannot run" in dry.out
    check = cbt("--check", plan)
    assert check.status == 1
    assert check.out.count("problem: benchmark radosbench") == 1
    run = cbt("-a", tmp_path / "A", plan)
    assert run.status == 1
    assert [line.split(":")[0] for line in run.err.splitlines()] == ["problem", "cbt.py"]
    assert manifests(tmp_path / "A") == {}


def test_an_archive_belongs_to_one_plan_and_one_run_at_a_time(tmp_path: Path, conf: Path, existing: str) -> None:
    """Another plan, a second run at the same time, and a folder with somebody's files are refused, and nothing in
    them is changed."""
    keys = {"use_existing_volumes": True, "poolname": existing, "rbdname": "mine", "mode": "randwrite"}
    plan = write_plan(tmp_path, {**keys, "time": 3, "iodepth": 1})
    other = write_plan(tmp_path, {**keys, "time": 4, "iodepth": 1}, name="other.yaml")
    archive = tmp_path / "A"
    with Running("-a", archive, "-c", conf, plan) as first:
        first.wait_for_instances(1)
        second = cbt("-a", archive, "-c", conf, plan)
        assert (second.status, len(second.err.splitlines())) == (2, 1), second.err
        assert f"another run is writing this archive (pid {first.process.pid} on " in second.err
        assert first.finish().status == 0
    before = fingerprint(archive / "results")
    refused = cbt("-a", archive, "-c", conf, other)
    assert (refused.status, len(refused.err.splitlines())) == (2, 1)
    assert "was begun with another plan" in refused.err
    assert fingerprint(archive / "results") == before

    foreign = tmp_path / "home"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    refused = cbt("-a", foreign, "-c", conf, plan)
    assert (refused.status, len(refused.err.splitlines())) == (2, 1)
    assert "thesis.tex" in refused.err
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]


def test_check_lists_everything_that_would_stop_the_run_at_once(tmp_path: Path, conf: Path, existing: str) -> None:
    """Program, tmp_dir and images in one list, each with its place; nothing is made."""
    plan = write_plan(
        tmp_path,
        {"use_existing_volumes": True, "poolname": existing, "rbdname": "mine", "volumes_per_client": 3},
        {"a": {"cmd_path": "/nowhere/fio", "iodepth": [1]}, "b": {"cmd_path": "/bin/true", "iodepth": [1]}},
        cluster={"tmp_dir": "/proc/cbt"},
    )
    done = cbt("--check", "-a", tmp_path / "A", "-c", conf, plan)
    assert done.status == 1, done.out
    problems = [line for line in done.out.splitlines() if line.startswith("problem: ")]
    for text in ("/nowhere/fio is not there", "/bin/true has no rbd engine", "tmp_dir /proc/cbt "):
        assert sum(text in line for line in problems) == 1, done.out
    for missing in ("mine-localhost-1", "mine-localhost-2"):
        assert any(missing in line for line in problems), done.out
    assert done.out.splitlines()[-1].endswith("problems would stop this run")
    assert not (tmp_path / "A").exists()


def test_names_are_never_given_to_a_shell(tmp_path: Path, conf: Path, shared_ceph: Ceph) -> None:
    """A pool and an image named with spaces, quotes, semicolons and command substitutions work as any other, and none
    of it is ever executed."""
    trap = tmp_path / "programs/cbt-trap"
    trap.parent.mkdir()
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(trap.stat().st_mode | stat.S_IXUSR)
    plan = write_plan(
        tmp_path,
        {"poolname": EVIL, "rbdname": f"ü {EVIL}", "volumes_per_client": 2},
        {"w $(cbt-trap); 'x'": {"mode": "randwrite", "iodepth": [2], "jobname": EVIL}},
        cluster={"tmp_dir": str(tmp_path / "temporary $(cbt-trap); 'x'")},
    )
    work = tmp_path / "it's a $(cbt-trap) folder"
    work.mkdir()
    path = {"PATH": f"{trap.parent}:{os.environ['PATH']}"}
    done = cbt("-a", "A", "-c", conf, plan, cwd=work, env=path)
    assert done.status == 0, done.err
    ((_, point),) = manifests(work / "A").items()
    assert point.status == "complete"
    assert [record.image for record in point.instances] == [f"ü {EVIL}-localhost-{number}" for number in range(2)]
    assert EVIL not in shared_ceph.pools()
    assert not (tmp_path / "sprung").exists()
    assert not list(ROOT.glob("*cbt-trap*"))
