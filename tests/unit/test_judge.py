"""Whether instances and points ran whole (orchestrator/judge.py), with fio's real ways of failing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from archive.manifest import InstanceRecord
from benchmarks.librbdfio import BENCHMARK
from benchmarks.model import Instance, Sample, Volume
from benchmarks.options import Settings, Value
from cluster.launcher import InstanceOutcome
from orchestrator.judge import Judged, judge_instance, judge_point, windows

INSTANCE = Instance("client", 0, Volume("pool", "image-0", "client", 0), 4, 1)
ENDED = InstanceOutcome(0, 1234, 100.0, 100.2, 111.0, 0, "itself")


def settings(**changes: Value) -> Settings:
    values = {option.name: option.default for option in BENCHMARK.options}
    return Settings({**values, "time": 10, "time_based": True, **changes})


def fio_output(runtime_ms: int = 10_000, total_ios: int = 1000, error: int = 0) -> bytes:
    clat = {"min": 1, "max": 9, "mean": 5.0, "stddev": 1.0, "N": total_ios}
    read = {
        "total_ios": total_ios,
        "iops": total_ios / max(runtime_ms / 1000, 0.001),
        "bw_bytes": 4096 if total_ios else 0,
        "runtime": runtime_ms,
        "clat_ns": clat,
        "lat_ns": clat,
    }
    nothing = {
        **read,
        "total_ios": 0,
        "iops": 0.0,
        "bw_bytes": 0,
        "runtime": 0,
        "clat_ns": {"N": 0},
        "lat_ns": {"N": 0},
    }
    job = {"jobname": "j", "error": error, "read": read, "write": nothing, "trim": nothing}
    document = {
        "fio version": "fio-3.33",
        "timestamp_ms": 111_000,
        "global options": {"rw": "randread", "bs": "4096B"},
        "jobs": [job],
    }
    return json.dumps(document).encode()


def judge(
    outcome: InstanceOutcome | None = ENDED,
    output: bytes | None = None,
    stderr: str = "",
    lost: str | None = None,
    **changes: Value,
) -> Judged:
    read = fio_output() if output is None else output
    return judge_instance(INSTANCE, "fio …", outcome, lost, read, stderr, BENCHMARK, settings(**changes))


def test_an_instance_that_ran_whole_has_its_window() -> None:
    """The window ends with fio's own time stamp and is as long as its runtime."""
    judged = judge()
    assert (judged.record.status, judged.record.reason) == ("complete", None)
    assert (judged.record.window_start_s, judged.record.window_end_s) == (101.0, 111.0)


@pytest.mark.parametrize(
    ("outcome", "output", "stderr", "lost", "words"),
    [
        (None, None, "", "client: the connection was lost", "client: the connection was lost"),
        (None, None, "", None, "its host did not say how it ended"),
        (replace(ENDED, started_s=None, exit_status=None), None, "", None, "it was never started"),
        (replace(ENDED, exit_status=1), None, "rbd_open failed.\n", None, "ended with status 1: rbd_open failed."),
        (replace(ENDED, exit_status=127), None, "", None, "could not be started (status 127)"),
        (replace(ENDED, exit_status=137), None, "", None, "was ended by SIGKILL"),
        (replace(ENDED, exit_status=255), None, "", None, "ended with status 255"),
        (replace(ENDED, exit_status=137, ended_by="deadline"), None, "", None, "still ran when its time and the grace"),
        (replace(ENDED, exit_status=137, ended_by="connect limit"), None, "", None, "did not connect to its volume"),
        (replace(ENDED, exit_status=143, ended_by="stopped"), None, "", None, "was stopped"),
        (replace(ENDED, exit_status=None, ended_by="lost"), None, "", "client: lost", "client: lost"),
        (ENDED, b"", "", None, "fio printed nothing"),
        (ENDED, b"fio: terminating on signal 15\n", "", None, "JSON"),
        (ENDED, fio_output()[:-40], "", None, "JSON"),
        (ENDED, fio_output(error=5), "", None, "reports error 5"),
        (ENDED, fio_output(total_ios=0), "", None, "did no I/O"),
        (ENDED, fio_output(runtime_ms=4000), "", None, "measured for 4.00 s of 10 s"),
    ],
)
def test_every_way_to_fail_has_its_reason(
    outcome: InstanceOutcome | None, output: bytes | None, stderr: str, lost: str | None, words: str
) -> None:
    """Exit status, signal, limits, fio's error, missing or broken JSON, no I/O, too short: none passes for whole, and a
    failed instance brings no numbers."""
    judged = judge(outcome, output, stderr, lost)
    assert judged.record.status == "failed"
    assert words in str(judged.record.reason)
    assert judged.sample is None


def test_output_that_did_not_arrive_is_a_failure() -> None:
    """An instance that ended well but whose file is missing has no result."""
    judged = judge_instance(INSTANCE, "fio …", ENDED, None, None, "", BENCHMARK, settings())
    assert judged.record.reason == "its output did not arrive"


def test_a_volume_that_is_done_early_is_whole_but_noted() -> None:
    """Without time_based fio ends with the volume: no failure, but sums over time may mislead."""
    judged = judge(output=fio_output(runtime_ms=4000), time_based=False)
    assert judged.record.status == "complete"
    verdict = judge_point([judged], settings(time_based=False))
    assert verdict.status == "complete"
    assert any("before the time of 10 s was up" in note for note in verdict.notes)


def made(status: str = "complete", start_s: float = 0.0, end_s: float = 10.0, image: str = "i") -> Judged:
    good = judge()
    record = replace(
        good.record,
        status=status,
        image=image,
        reason=None if status == "complete" else "broke",
        window_start_s=start_s,
        window_end_s=end_s,
    )
    return Judged(record, good.sample if status == "complete" else None, good.document)


@pytest.mark.parametrize(
    ("statuses", "status", "reason"),
    [
        (["complete", "complete"], "complete", None),
        (["complete", "failed"], "partial", "1 of 2 instances failed: client, image-1: broke"),
        (["failed", "failed"], "failed", "2 of 2 instances failed: client, image-0: broke (and 1 more)"),
        (["failed"], "failed", "the instance failed: client, image-0: broke"),
    ],
)
def test_a_point_is_as_whole_as_its_instances(statuses: list[str], status: str, reason: str | None) -> None:
    """Complete when all are, failed when none is, else partial; the first failure is named and the others counted."""
    judged = [made(one, image=f"image-{number}") for number, one in enumerate(statuses)]
    verdict = judge_point(judged, settings())
    assert (verdict.status, verdict.reason) == (status, reason)


@pytest.mark.parametrize(
    ("spans", "overlap", "skew"),
    [
        ([(0.0, 10.0), (0.0, 10.0)], 1.0, 0.0),
        ([(0.0, 10.0), (1.0, 11.0)], 0.9, 1.0),
        ([(0.0, 10.0), (2.0, 4.0)], 0.2, 2.0),
        ([(0.0, 10.0), (20.0, 30.0)], 0.0, 20.0),
        ([(5.0, 15.0)], 1.0, 0.0),
        ([], None, None),
    ],
)
def test_the_common_window(spans: list[tuple[float, float]], overlap: float | None, skew: float | None) -> None:
    """Earliest end less latest start, over the longest run (METHOD): never negative."""
    records: list[InstanceRecord] = [made(start_s=start, end_s=end).record for start, end in spans]
    found = windows(records)
    assert found == (pytest.approx(overlap) if overlap is not None else None, skew)


def test_instances_that_hardly_ran_together_are_noted() -> None:
    """Below 95 % common window the sum of IOPS is doubtful, and the point says so."""
    verdict = judge_point([made(), made(start_s=1.0, end_s=11.0)], settings())
    assert verdict.status == "complete"
    assert any("together for only 90%" in note for note in verdict.notes)
    assert judge_point([made(), made(start_s=0.1, end_s=10.1)], settings()).notes == ()


def test_a_failed_instance_has_no_say_in_the_window() -> None:
    """The window is that of the instances whose numbers count."""
    verdict = judge_point([made(), made("failed", start_s=500.0, end_s=501.0)], settings())
    assert (verdict.status, verdict.overlap) == ("partial", 1.0)


def test_a_sample_is_what_the_benchmark_read() -> None:
    """The numbers come from the benchmark's own parser, untouched."""
    sample = judge().sample
    assert isinstance(sample, Sample)
    assert (sample.total_ios, sample.runtime_s) == (1000, 10.0)
