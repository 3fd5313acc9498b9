"""Whether an instance, and then a point, ran whole; pure functions of what came back from the hosts."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from archive.layout import json_output_name, output_name
from archive.manifest import InstanceRecord, Status
from benchmarks.model import Instance, OutputError, RunnableBenchmark, Sample
from benchmarks.options import Settings
from cluster.launcher import InstanceOutcome

RUNTIME_SHORT = 0.95
"""A time-based instance that measured for less than this share of the planned time did not run whole."""

OVERLAP_WHOLE = 0.95
"""Below this common window sums of IOPS are doubtful (METHOD.md), and the point says so."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An instance's record, with its numbers and its JSON document when it has them."""

    record: InstanceRecord
    sample: Sample | None
    document: bytes | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A point's status and window. `overlap` and `start_skew_s` are None where no instance has a window."""

    status: Status
    reason: str | None
    overlap: float | None
    start_skew_s: float | None
    notes: tuple[str, ...]


def judge_instance(
    instance: Instance,
    command_shown: str,
    outcome: InstanceOutcome | None,
    lost: str | None,
    output: bytes | None,
    stderr: str,
    benchmark: RunnableBenchmark,
    settings: Settings,
    clock_offset_s: float = 0.0,
) -> Judged:
    """`outcome` is None when the host was lost before it could say; `lost` then says why. `clock_offset_s` is how far
    the host's clock is ahead of the controller's."""
    sample: Sample | None = None
    document: bytes | None = None
    unread: str | None = "its output did not arrive"
    if output is not None:
        try:
            sample, document = benchmark.parse(output)
            unread = None
        except OutputError as error:
            unread = str(error)
    reason = _failure(outcome, lost, unread, sample, stderr, benchmark.ramp_and_time_s(settings)[1], settings)
    window = _window(outcome, sample, benchmark.ramp_and_time_s(settings)[0])
    record = InstanceRecord(
        host=instance.host,
        number=instance.number,
        image=instance.volume.image,
        pool=instance.volume.pool,
        iodepth=instance.iodepth,
        numjobs=instance.numjobs,
        command=command_shown,
        pid=outcome.pid if outcome else None,
        started_s=outcome.started_s if outcome else None,
        ended_s=outcome.ended_s if outcome else None,
        exit_status=outcome.exit_status if outcome else None,
        status="failed" if reason else "complete",
        reason=reason,
        output=output_name(instance.number, instance.host),
        json_output=json_output_name(instance.number, instance.host) if document is not None else None,
        window_start_s=window[0] if window else None,
        window_end_s=window[1] if window else None,
        clock_offset_s=clock_offset_s,
    )
    return Judged(record, sample if reason is None else None, document)


def judge_point(judged: Sequence[Judged], settings: Settings) -> Verdict:
    """Complete when every instance ran whole, failed when none did, else partial."""
    failed = [j.record for j in judged if j.record.status == "failed"]
    status: Status = "complete" if not failed else "failed" if len(failed) == len(judged) else "partial"
    reason = None
    if failed:
        first = f"{failed[0].host}, {failed[0].image}: {failed[0].reason}"
        count = f"{len(failed)} of {len(judged)} instances failed" if len(judged) > 1 else "the instance failed"
        reason = f"{count}: {first}" + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else "")
    whole = [j for j in judged if j.record.status == "complete"]
    overlap, skew = windows([j.record for j in whole])
    notes = []
    if overlap is not None and overlap < OVERLAP_WHOLE:
        notes.append(f"the instances ran together for only {overlap:.0%} of the longest run: sums are doubtful")
    time_s = settings.optional_integer("time")
    early = [j for j in whole if time_s and j.sample and j.sample.runtime_s < RUNTIME_SHORT * time_s]
    if early:
        notes.append(
            f"{len(early)} of {len(judged)} instances had done their volume before the time of {time_s} s was up"
        )
    notes += [note for j in whole if j.sample for note in j.sample.notes]
    return Verdict(status, reason, overlap, skew, tuple(dict.fromkeys(notes)))


def windows(records: Sequence[InstanceRecord]) -> tuple[float | None, float | None]:
    """Common window over the longest run, and latest start less earliest (s) (METHOD.md, combining instances)."""
    spans = [
        (r.window_start_s - r.clock_offset_s, r.window_end_s - r.clock_offset_s)
        for r in records
        if r.window_start_s is not None and r.window_end_s is not None
    ]
    if not spans or len(spans) < len(records):
        return None, None
    longest = max(end - start for start, end in spans)
    common = min(end for _, end in spans) - max(start for start, _ in spans)
    skew = max(start for start, _ in spans) - min(start for start, _ in spans)
    return (max(common, 0.0) / longest if longest > 0 else None), skew


def _window(outcome: InstanceOutcome | None, sample: Sample | None, ramp_s: float) -> tuple[float, float] | None:
    """When an instance measured, in Unix seconds of its host.

    The ramp begins when the gate lets the instance through. fio's own end time is taken after the engine has closed,
    20 to 140 ms late and differently for every volume (docs/archive.md), so it only serves where no gate was.
    """
    if sample is None:
        return None
    if outcome is not None and outcome.released_s is not None:
        start_s = outcome.released_s + ramp_s
        return start_s, start_s + sample.runtime_s
    if sample.end_unix_s is None:
        return None
    return sample.end_unix_s - sample.runtime_s, sample.end_unix_s


def _failure(
    outcome: InstanceOutcome | None,
    lost: str | None,
    unread: str | None,
    sample: Sample | None,
    stderr: str,
    time_s: float | None,
    settings: Settings,
) -> str | None:
    """The first thing that went wrong, None when nothing did."""
    said = _last_words(stderr)
    if outcome is None:
        return lost or "its host did not say how it ended"
    if outcome.exit_status is None and outcome.started_s is None:
        return lost or "it was never started"
    if outcome.ended_by == "connect limit":
        return f"did not connect to its volume within the limit and was ended{said}"
    if outcome.ended_by == "deadline":
        return f"still ran when its time and the grace after it had passed, and was ended{said}"
    if outcome.ended_by == "stopped":
        return f"was stopped{said}"
    if outcome.ended_by == "lost" or outcome.exit_status is None:
        return lost or "its host did not say how it ended"
    if outcome.exit_status != 0:
        return f"{_status_text(outcome.exit_status)}{said}"
    if unread is not None or sample is None:
        return f"{unread}{said}"
    if sample.error:
        return f"reports error {sample.error}{said}"
    if sample.total_ios == 0:
        return f"did no I/O{said}"
    if time_s and settings.get("time_based") is True and sample.runtime_s < RUNTIME_SHORT * time_s:
        return f"measured for {sample.runtime_s:.2f} s of {time_s:g} s{said}"
    return None


def _status_text(status: int) -> str:
    if status > 128:
        try:
            return f"was ended by {signal.Signals(status - 128).name}"
        except ValueError:
            pass
    if status == 127:
        return "could not be started (status 127)"
    return f"ended with status {status}"


def _last_words(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return f": {' / '.join(lines[-2:])[:300]}" if lines else ""
