"""Makes small archives as this program writes them, from a queueing formula, so that every number is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

from archive.manifest import InstanceRecord, PointManifest, Status

START_S = 1_700_000_000.0
RUNTIME_S = 4.0


@dataclass(frozen=True)
class WorkloadSpec:
    """One workload. `latency_ms` gives the mean latency at a total queue depth; IOPS follow by Little's law."""

    name: str | None
    mode: str = "randread"
    op_size: int = 4096
    rwmixread: int = 50
    depths: Sequence[int] = (1, 2, 4, 8, 16, 32)
    latency_ms: Callable[[int], float] = lambda depth: 0.5 + 0.05 * depth
    numjobs: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    reported: bool = True
    setting_name: str = "total_iodepth"


@dataclass(frozen=True)
class Ran:
    """How a point went: what a test changes of a whole one. `alter` may change the JSON of each instance."""

    status: Status = "complete"
    reason: str | None = None
    failed_instances: frozenset[int] = frozenset()
    overlap: float | None = 0.99
    notes: tuple[str, ...] = ()
    alter: Callable[[dict[str, Any], int], dict[str, Any] | bytes | None] | None = None


def spread(count: int, mean_ns: float, bins: int = 40) -> dict[int, int]:
    """`count` I/Os over a log-normal shape with about that mean; the counts add up exactly."""
    quantiles = [NormalDist().inv_cdf((k + 0.5) / bins) for k in range(bins)]
    shape = [math.exp(0.6 * q) for q in quantiles]
    scale = mean_ns / (sum(shape) / bins)
    whole, rest = divmod(count, bins)
    histogram: dict[int, int] = {}
    for k, value in enumerate(shape):
        latency = round(value * scale)
        histogram[latency] = histogram.get(latency, 0) + whole + (1 if k < rest else 0)
    return {latency: number for latency, number in histogram.items() if number}


def direction(histogram: Mapping[int, int], op_size: int, runtime_s: float, *, bins: bool = True) -> dict[str, Any]:
    """One direction's section of fio's JSON, worked out from the I/Os themselves."""
    count = sum(histogram.values())
    mean = sum(latency * number for latency, number in histogram.items()) / count if count else 0.0
    squares = sum(number * (latency - mean) ** 2 for latency, number in histogram.items())
    stddev = math.sqrt(squares / (count - 1)) if count > 1 else 0.0
    latency: dict[str, Any] = {"min": min(histogram, default=0), "max": max(histogram, default=0)}
    latency |= {"mean": mean, "stddev": stddev, "N": count}
    ordered = sorted(histogram)
    percentile = {}
    for percent in (50.0, 95.0, 99.0, 99.9):
        reached = 0
        for value in ordered:
            reached += histogram[value]
            if reached >= percent / 100 * count:
                percentile[f"{percent:.6f}"] = value
                break
    return {
        "io_bytes": count * op_size,
        "bw_bytes": round(count * op_size / runtime_s),
        "bw": round(count * op_size / runtime_s / 1024),
        "iops": count / runtime_s,
        "runtime": round(runtime_s * 1000) if count else 0,
        "total_ios": count,
        "clat_ns": {
            **latency,
            "percentile": percentile,
            **({"bins": {str(k): histogram[k] for k in ordered}} if bins else {}),
        },
        "lat_ns": {**latency, "mean": mean + 1000 if count else 0.0},
    }


def fio_document(
    spec: WorkloadSpec, iodepth: int, histogram: Mapping[int, int], end_s: float, *, bins: bool = True
) -> dict[str, Any]:
    """What fio prints for one process."""
    empty = direction({}, spec.op_size, RUNTIME_S)
    sections = {"read": empty, "write": empty, "trim": empty}
    if spec.mode in ("randrw", "rw"):
        read = {k: n * spec.rwmixread // 100 for k, n in histogram.items()}
        write = {k: n - read[k] for k, n in histogram.items()}
        sections["read"] = direction({k: n for k, n in read.items() if n}, spec.op_size, RUNTIME_S, bins=bins)
        sections["write"] = direction({k: n for k, n in write.items() if n}, spec.op_size, RUNTIME_S, bins=bins)
    else:
        name = "write" if spec.mode.endswith("write") else "read"
        sections[name] = direction(histogram, spec.op_size, RUNTIME_S, bins=bins)
    options = {"rw": spec.mode, "bs": f"{spec.op_size}B", "iodepth": str(iodepth), "numjobs": str(spec.numjobs)}
    if spec.mode in ("randrw", "rw"):
        options["rwmixread"] = str(spec.rwmixread)
    return {
        "fio version": "fio-3.33",
        "timestamp": int(end_s),
        "timestamp_ms": int(end_s * 1000),
        "global options": options,
        "jobs": [{"jobname": "job", "error": 0, "job options": {"name": "job"}, **sections}],
    }


def share_of(total: int, index: int, volumes: int) -> int:
    """The queue depth of volume `index` when a total is spread as evenly as it goes."""
    return total // volumes + (1 if index < total % volumes else 0)


def write_archive(
    root: Path,
    workloads: Sequence[WorkloadSpec],
    *,
    volumes: int = 4,
    hosts: Sequence[str] = ("client-1",),
    iterations: int = 1,
    bins: bool = True,
    ran: Callable[[WorkloadSpec, int, int], Ran] = lambda *_: Ran(),
    session: Mapping[str, Any] | None = None,
    plan: str = "cluster:\n  clients: [client-1]\nbenchmarks:\n  librbdfio: {time: 4}\n",
) -> Path:
    """An archive of every workload at every depth; `ran(workload, depth, iteration)` says how each point went."""
    results = root / "results"
    results.mkdir(parents=True)
    (results / "run.json").write_text(json.dumps({"schema": 1, "plan_digest": "d", "created_unix_s": START_S}))
    (results / "cbt_config.yaml").write_text(plan)
    facts = (
        {"started_unix_s": START_S, "ended_unix_s": START_S + 600, "program_version": "0.1.0"}
        if session is None
        else session
    )
    (results / "session-01.json").write_text(json.dumps(facts))
    now = START_S
    for iteration in range(iterations):
        for number, spec in enumerate(workloads):
            for depth in spec.depths:
                now += 10
                folder = results / f"{iteration:08d}" / f"id-{number:08x}" / (spec.name or "").replace("/", "_")
                folder = folder / f"numjobs-{spec.numjobs:03d}" / f"{spec.setting_name}-{depth:03d}"
                folder.mkdir(parents=True)
                write_point(folder, spec, depth, iteration, now, volumes, hosts, ran(spec, depth, iteration), bins=bins)
    return root


def write_point(
    folder: Path,
    spec: WorkloadSpec,
    depth: int,
    iteration: int,
    now: float,
    volumes: int,
    hosts: Sequence[str],
    ran: Ran,
    *,
    bins: bool,
) -> None:
    """One point's folder: raw files and manifest."""
    latency_ns = spec.latency_ms(depth) * 1e6
    places = [(host, index) for host in hosts for index in range(volumes)]
    records = []
    for place, (host, index) in enumerate(places):
        share = share_of(depth, place, len(places)) if spec.setting_name == "total_iodepth" else depth
        if share == 0:
            continue
        outstanding = share * spec.numjobs
        count = max(1, round(outstanding / (latency_ns / 1e9) * RUNTIME_S))
        document = fio_document(spec, share, spread(count, latency_ns), now + RUNTIME_S, bins=bins)
        failed = place in ran.failed_instances or ran.status == "failed"
        written = json.dumps(document).encode()
        if ran.alter is not None:
            altered = ran.alter(document, place)
            written = (
                b"" if altered is None else altered if isinstance(altered, bytes) else json.dumps(altered).encode()
            )
        if not failed:
            (folder / f"output.{index}.{host}").write_bytes(b"note: something\n" + written)
            (folder / f"json_output.{index}.{host}").write_bytes(written)
        records.append(_record(host, index, share, spec, now, failed=failed))
    manifest = PointManifest(
        point_id=f"{abs(hash((spec.name, depth, iteration))):016x}"[:16],
        iteration=iteration,
        benchmark="librbdfio",
        workload=spec.name,
        reported=spec.reported,
        settings={
            "mode": spec.mode,
            "op_size": spec.op_size,
            "rwmixread": spec.rwmixread,
            "numjobs": spec.numjobs,
            "iodepth": 16,
            "total_iodepth": None,
            "time": RUNTIME_S,
            **spec.settings,
            spec.setting_name: depth,
        },
        setting={spec.setting_name: depth},
        queue_depth=sum(record.iodepth * record.numjobs for record in records),
        status=ran.status,
        reason=ran.reason,
        started_s=now - 2,
        ended_s=now + RUNTIME_S + 1,
        ramp_s=1.0,
        time_s=RUNTIME_S,
        instances_expected=len(records),
        overlap=None if ran.status == "failed" else ran.overlap,
        start_skew_s=0.02,
        instances=tuple(records),
        health_before={"health": "HEALTH_OK", "checks": {}},
        health_after={"health": "HEALTH_OK", "checks": {}},
        cluster_fsid="11111111-2222-3333-4444-555555555555",
        versions={host: {"fio": "fio-3.33"} for host in hosts},
        notes=ran.notes,
    )
    (folder / "point.json").write_text(manifest.to_json())


def _record(host: str, index: int, iodepth: int, spec: WorkloadSpec, now: float, *, failed: bool) -> InstanceRecord:
    whole = InstanceRecord(
        host=host,
        number=index,
        image=f"image-{host}-{index}",
        pool="pool",
        iodepth=iodepth,
        numjobs=spec.numjobs,
        command="fio …",
        pid=100 + index,
        started_s=now - 1.5,
        ended_s=now + RUNTIME_S + 0.1,
        exit_status=0,
        status="complete",
        reason=None,
        output=f"output.{index}.{host}",
        json_output=f"json_output.{index}.{host}",
        window_start_s=now,
        window_end_s=now + RUNTIME_S,
    )
    if not failed:
        return whole
    return replace(
        whole, exit_status=1, status="failed", reason="ended with status 1", json_output=None, window_start_s=None
    )
