"""Volumes on an existing cluster: whole when they are read, and refused when they or their client do not fit it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.e2e.run_helpers import cbt, write_plan

pytestmark = pytest.mark.e2e


def test_volumes_are_filled_again_after_a_trim(conf: Path, tmp_path: Path) -> None:
    """No point reads data that the point before it discarded; 18 MiB are filled whole with 4 MiB blocks."""
    workloads: dict[str, dict[str, object]] = {
        "trims": {"mode": "randtrim", "op_size": 65536},
        "reads": {"mode": "randread"},
    }
    plan = write_plan(tmp_path, {"vol_size": 18}, workloads, cluster={"use_existing": True})
    done = cbt("-a", tmp_path / "A", "-c", conf, "--keep-volumes", plan)
    assert done.status == 0, done.err
    ledger = (tmp_path / "A" / "results" / "created.jsonl").read_text().splitlines()
    marks = Counter(yaml.safe_load(line)["mark"] for line in ledger if '"image"' in line)
    assert marks == {"intended": 1, "created": 1, "filled": 2, "emptied": 1}
    assert yaml.safe_load(ledger[-1])["mark"] == "filled"
    assert cbt("--cleanup", "-a", tmp_path / "A", "-c", conf, plan).status == 0


@pytest.mark.parametrize(
    ("benchmark", "words"),
    [
        ({"vol_size": 1 << 20}, "copies counted; the cluster has"),
        ({"clientname": "ghost"}, "the benchmark's Ceph client 'ghost' (option clientname) does not get in"),
    ],
)
def test_a_check_finds_what_would_stop_the_volumes(
    conf: Path, tmp_path: Path, benchmark: dict[str, object], words: str
) -> None:
    """Images larger than the cluster, and a client without a key, are told before anything is made."""
    plan = write_plan(tmp_path, benchmark, cluster={"use_existing": True})
    done = cbt("--check", "-c", conf, plan)
    assert done.status != 0
    assert words in done.out + done.err
    assert "Traceback" not in done.err


def test_a_prefill_that_wrote_too_little_is_told_with_figures(conf: Path, tmp_path: Path) -> None:
    """A fio that ends well without writing the whole volume leaves nothing to measure on."""
    lazy = tmp_path / "lazy-fio"
    lazy.write_text('#!/bin/sh\ncase "$1" in --enghelp|--version) exec fio "$@";; esac\nexec fio --size=8M "$@"\n')
    lazy.chmod(0o755)
    plan = write_plan(tmp_path, {"cmd_path": str(lazy)}, cluster={"use_existing": True})
    done = cbt("-a", tmp_path / "A", "-c", conf, plan)
    assert done.status != 0
    assert f"{8 << 20} of {16 << 20} bytes were written (2 writes of {4 << 20} bytes, error 0)" in done.out + done.err
