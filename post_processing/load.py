"""From an archive to response curves: reads the raw files, combines instances, groups points."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from archive.found import FoundArchive, FoundInstance, FoundPoint, NotAnArchive, UnreadableFile
from archive.reader import read_archive
from benchmarks.model import OutputError, RunnableBenchmark, Sample
from benchmarks.registry import all_benchmarks
from post_processing.combine import combine
from post_processing.results import (
    OPERATION_ORDER,
    InstanceResult,
    Problem,
    ResponseCurve,
    ResultPoint,
    Status,
)

__all__ = ["ArchiveFacts", "LoadedArchive", "NotAnArchive", "load_archive"]

JSON_ROOT: Final = "json_output"
"""How the raw files are called by default: json_output.N.<host>."""

_DEPTH_KEYS: Final = frozenset({"iodepth", "total_iodepth"})
_MIXED: Final = frozenset({"rw", "randrw"})


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What the archive tells about the run besides its points.

    `preconditioning` are the points that prepared the volumes; they are in no curve. `versions`: host → tool → version.
    """

    name: str
    sessions: tuple[Mapping[str, Any], ...]
    plan_text: str | None
    preconditioning: tuple[ResultPoint, ...]
    versions: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class LoadedArchive:
    """The curves of an archive, and every file or folder that could not be used."""

    curves: tuple[ResponseCurve, ...]
    problems: tuple[Problem, ...]
    facts: ArchiveFacts

    @property
    def whole(self) -> bool:
        """Whether nothing is missing, failed or partial, preconditioning included."""
        points = [point for curve in self.curves for point in curve.points]
        return not self.problems and all(p.status == "complete" for p in (*points, *self.facts.preconditioning))


def load_archive(path: Path, *, results_file_root: str = JSON_ROOT) -> LoadedArchive:
    """Reads an archive. `results_file_root` is the start of the raw files' names when they were renamed.

    Raises NotAnArchive when the folder is none; what is wrong with parts of it is in the problems.
    """
    found = read_archive(path)
    problems = [Problem(p.where, p.reason) for p in found.problems]
    loaded = [_load_point(point, results_file_root, problems) for point in found.points]
    problems += _missing_points(found)
    versions: dict[str, Mapping[str, str]] = {}
    for point in found.points:
        versions.update(point.versions or {})
    return LoadedArchive(
        curves=_curves(item for item in loaded if item.found.reported),
        problems=tuple(problems),
        facts=ArchiveFacts(
            name=found.name,
            sessions=found.sessions,
            plan_text=found.plan_text,
            preconditioning=tuple(item.point for item in loaded if not item.found.reported),
            versions=versions,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Loaded:
    found: FoundPoint
    point: ResultPoint
    operation: str
    read_percent: int | None
    block_size_bytes: int | None
    numjobs: int


@dataclass(frozen=True, slots=True)
class _Expected:
    """What the plan set, to hold the raw files against; None where it does not say."""

    operation: str | None
    read_percent: int | None
    block_size_bytes: int | None
    numjobs: int | None


def _load_point(found: FoundPoint, results_file_root: str, problems: list[Problem]) -> _Loaded:
    expected = _expected(found.settings)
    instances, samples = _load_instances(found, expected, results_file_root, problems)
    usable = [sample for sample in samples if sample is not None]
    status, reason = _status(found, instances)
    numbers = combine([m for s in usable for m in s.measurements]) if usable and status != "failed" else None
    first = usable[0] if usable else None
    notes = [*found.notes, *(note for sample in usable for note in sample.notes)]
    point = ResultPoint(
        queue_depth=_queue_depth(found),
        setting=dict(found.setting),
        iteration=found.iteration,
        status=status,
        reason=reason,
        instances_expected=found.instances_expected,
        instances_observed=sum(1 for instance in instances if instance.numbers is not None),
        numbers=numbers,
        overlap=found.overlap,
        start_skew_s=found.start_skew_s,
        started_s=found.started_s,
        ended_s=found.ended_s,
        source=found.folder,
        instances=instances,
        notes=tuple(dict.fromkeys(notes)),
        health_before=found.health_before,
        health_after=found.health_after,
        closed_loop=not found.settings.get("rate_iops"),
        cluster_fsid=found.cluster_fsid,
    )
    return _Loaded(
        found,
        point,
        operation=first.operation if first else expected.operation or "unknown",
        read_percent=first.read_percent if first else expected.read_percent,
        block_size_bytes=first.block_size_bytes if first else expected.block_size_bytes,
        numjobs=expected.numjobs or (first.numjobs if first else 1),
    )


def _load_instances(
    found: FoundPoint, expected: _Expected, results_file_root: str, problems: list[Problem]
) -> tuple[tuple[InstanceResult, ...], list[Sample | None]]:
    """Every instance of a point with its numbers, or why it has none. An instance that failed gives no numbers, even
    where its files hold some: they are of another length of time than the others'."""
    results: list[InstanceResult] = []
    samples: list[Sample | None] = []
    for instance in found.instances:
        sample, source, reason = None, None, instance.reason
        if instance.status not in (None, "complete"):
            reason = reason or "failed"
        elif found.status != "failed":
            sample, source, reason = _sample(found, instance, expected, results_file_root)
            if sample is None:
                problems.append(Problem(f"{found.folder}/{source}", reason or "unusable"))
        results.append(
            InstanceResult(
                host=instance.host,
                number=instance.number,
                source=f"{found.folder}/{source}" if source else None,
                queue_depth=instance.queue_depth or 0,
                numbers=combine(sample.measurements) if sample else None,
                reason=reason,
            )
        )
        samples.append(sample)
    return tuple(results), samples


def _sample(
    found: FoundPoint, instance: FoundInstance, expected: _Expected, results_file_root: str
) -> tuple[Sample | None, str, str | None]:
    """The numbers, the file they stand in, and why there are none."""
    parser = all_benchmarks().get(found.benchmark)
    if parser is None or not hasattr(parser, "parse"):
        return (
            None,
            next(iter(instance.files), ""),
            f"this version cannot read the output of the benchmark {found.benchmark!r}",
        )
    benchmark: RunnableBenchmark = parser  # type: ignore[assignment]  # it has parse, as checked
    names = _file_names(instance, results_file_root)
    failure: tuple[str, str] | None = None
    for name in names:
        try:
            sample, _ = benchmark.parse(found.read(name))
        except (UnreadableFile, OutputError) as error:
            failure = failure or (name, str(error))
            continue
        problem = _contradiction(sample, expected)
        return (None, name, problem) if problem else (sample, name, None)
    if failure is None:
        return None, "", "no raw file is named for it"
    return None, *failure


def _file_names(instance: FoundInstance, results_file_root: str) -> tuple[str, ...]:
    if results_file_root == JSON_ROOT:
        return instance.files
    suffixes = dict.fromkeys(name.removeprefix("json_output").removeprefix("output") for name in instance.files)
    return tuple(f"{results_file_root}{suffix}" for suffix in suffixes)


def _contradiction(sample: Sample, expected: _Expected) -> str | None:
    """Why the raw file cannot be this instance's, though it can be read."""
    if sample.error:
        return f"the instance reports error {sample.error}"
    if sample.total_ios == 0:
        return "the instance did no I/O"
    for name, got, want in (
        ("operation", sample.operation, expected.operation),
        ("block size", sample.block_size_bytes, expected.block_size_bytes),
        ("read share", sample.read_percent, expected.read_percent),
    ):
        if want is not None and got is not None and got != want:
            return f"holds another measurement: its {name} is {got}, the plan's is {want}"
    return None


def _status(found: FoundPoint, instances: Sequence[InstanceResult]) -> tuple[Status, str | None]:
    """The manifest's word, unless the files bear out less than it says."""
    observed = sum(1 for instance in instances if instance.numbers is not None)
    expected = found.instances_expected if found.instances_expected is not None else len(instances)
    if found.status == "failed":
        return "failed", found.reason or "failed"
    missing = next((i for i in instances if i.numbers is None), None)
    why = f": {missing.host}, instance {missing.number}: {missing.reason}" if missing else ""
    if observed == 0:
        return "failed", (found.reason if found.status == "partial" else None) or f"no instance has numbers{why}"
    if found.status == "partial":
        return "partial", found.reason or f"{observed} of {expected} instances ran whole{why}"
    if observed < expected:
        return "partial", f"{observed} of {expected} instances have usable numbers{why}"
    return "complete", None


def _queue_depth(found: FoundPoint) -> int:
    if found.queue_depth is not None:
        return found.queue_depth
    return sum(instance.queue_depth or 0 for instance in found.instances)


def _expected(settings: Mapping[str, Any]) -> _Expected:
    mode, size, jobs = settings.get("mode"), settings.get("op_size"), settings.get("numjobs")
    operation = {"readwrite": "rw"}.get(mode, mode) if isinstance(mode, str) else None
    percent = settings.get("rwmixread")
    return _Expected(
        operation=operation,
        read_percent=percent if operation in _MIXED and isinstance(percent, int) else None,
        block_size_bytes=size if isinstance(size, int) else None,
        numjobs=jobs if isinstance(jobs, int) else None,
    )


def _missing_points(found: FoundArchive) -> list[Problem]:
    """The points of the plan that have not run, where the run recorded how many there are."""
    planned = found.sessions[-1].get("points_planned") if found.sessions else None
    if isinstance(planned, int) and planned > len(found.points):
        missing = planned - len(found.points)
        return [Problem("results", f"{missing} of {planned} points of the plan are not there: the run did not finish")]
    return []


def _curves(loaded: Iterable[_Loaded]) -> tuple[ResponseCurve, ...]:
    """Points of equal settings, queue depth apart, are one curve; repeats of them too."""
    groups: dict[tuple[Any, ...], list[_Loaded]] = defaultdict(list)
    for item in loaded:
        groups[_curve_key(item)].append(item)
    curves = [
        ResponseCurve(
            workload=items[0].found.workload,
            benchmark=items[0].found.benchmark,
            operation=items[0].operation,
            read_percent=items[0].read_percent,
            block_size_bytes=items[0].block_size_bytes,
            numjobs=items[0].numjobs,
            points=tuple(sorted((i.point for i in items), key=lambda p: (p.iteration, p.queue_depth, p.source))),
        )
        for items in groups.values()
    ]
    settings = [_curve_settings(items[0].found) for items in groups.values()]
    curves = _with_variants(curves, settings)
    return tuple(sorted(curves, key=_curve_order))


def _curve_key(item: _Loaded) -> tuple[Any, ...]:
    return (
        item.found.benchmark,
        item.found.workload,
        item.operation,
        item.read_percent,
        item.block_size_bytes,
        item.numjobs,
        json.dumps(_curve_settings(item.found), sort_keys=True, default=str),
    )


def _curve_settings(found: FoundPoint) -> dict[str, Any]:
    """The settings that do not change along a curve."""
    along = _DEPTH_KEYS | set(found.setting)
    return {name: value for name, value in found.settings.items() if name not in along}


def _with_variants(curves: Sequence[ResponseCurve], settings: Sequence[Mapping[str, Any]]) -> list[ResponseCurve]:
    """Curves that would be called the same get the settings that tell them apart."""
    alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, curve in enumerate(curves):
        alike[
            (
                curve.benchmark,
                curve.workload,
                curve.operation,
                curve.read_percent,
                curve.block_size_bytes,
                curve.numjobs,
            )
        ].append(index)
    named = list(curves)
    for indices in alike.values():
        if len(indices) < 2:
            continue
        names = sorted({name for i in indices for name in settings[i]})
        differing = [n for n in names if len({json.dumps(settings[i].get(n), default=str) for i in indices}) > 1]
        for i in indices:
            named[i] = replace(curves[i], variant={name: str(settings[i].get(name)) for name in differing})
    return named


def _curve_order(curve: ResponseCurve) -> tuple[Any, ...]:
    known = curve.operation in OPERATION_ORDER
    return (
        OPERATION_ORDER.index(curve.operation) if known else len(OPERATION_ORDER),
        curve.block_size_bytes or 0,
        curve.read_percent if curve.read_percent is not None else -1,
        curve.numjobs,
        curve.benchmark,
        curve.workload or "",
        sorted(curve.variant.items()),
    )
