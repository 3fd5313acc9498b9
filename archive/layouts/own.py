"""The layout this program writes: a manifest (`point.json`) in every point's folder says what its files are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from archive.found import (
    FoundArchive,
    FoundInstance,
    FoundPoint,
    FoundProblem,
    NotAnArchive,
    UnreadableFile,
    read_regular_file,
)
from archive.layout import PLAN_NAME, RESULTS, RUN_NAME, RUN_SCHEMA, SUPERSEDED
from archive.manifest import MANIFEST_NAME, InstanceRecord, ManifestError, PointManifest
from archive.tree import Tree

_MAX_MANIFEST_BYTES: Final = 32 * 1024 * 1024
_MAX_PLAN_BYTES: Final = 1024 * 1024
_RAW_PREFIXES: Final = ("output.", "json_output.")


@dataclass(frozen=True, slots=True)
class OwnLayout:
    """Written by this program, schema 1."""

    name: str = "own"
    order: int = 0

    def recognises(self, tree: Tree) -> bool:
        return any(MANIFEST_NAME in names for names in tree.folders.values()) or RUN_NAME in _result_files(tree)

    def read(self, tree: Tree) -> FoundArchive:
        problems = list(tree.problems)
        _refuse_unknown_schema(tree)
        points = []
        seen: dict[tuple[str, int, float], str] = {}
        for folder, names in sorted(tree.folders.items()):
            if PurePosixPath(folder).parts[:1] == (SUPERSEDED,):
                continue
            if MANIFEST_NAME in names:
                try:
                    manifest = _manifest(tree.root / folder)
                except (ManifestError, UnreadableFile) as error:
                    problems.append(FoundProblem(f"{folder}/{MANIFEST_NAME}", str(error)))
                    continue
                first = seen.setdefault((manifest.point_id, manifest.iteration, manifest.started_s), folder)
                if first == folder:
                    points.append(_point(tree.root, folder, manifest))
                else:
                    problems.append(FoundProblem(folder, f"a copy of {first}, which counts once"))
            elif any(name.startswith(_RAW_PREFIXES) for name in names):
                problems.append(
                    FoundProblem(
                        folder, f"has results but no {MANIFEST_NAME}: the point was not finished or copied whole"
                    )
                )
        return FoundArchive(
            name=tree.root.name,
            root=tree.root,
            layout=self.name,
            points=tuple(points),
            problems=tuple(problems),
            sessions=_sessions(tree, problems),
            plan_text=_plan_text(tree),
        )


LAYOUT = OwnLayout()


def _results(tree: Tree) -> Path:
    """Where the run's own files stand: the folder `results`, or the root of a part that was copied out."""
    results = tree.root / RESULTS
    return results if results.is_dir() else tree.root


def _result_files(tree: Tree) -> tuple[str, ...]:
    """Names in the results' own folder, which a part of an archive shares with the whole."""
    try:
        return tuple(sorted(entry.name for entry in _results(tree).iterdir()))
    except OSError:
        return ()


def _refuse_unknown_schema(tree: Tree) -> None:
    """An archive of a later version may mean other things by the same names: none of it is read."""
    try:
        document = json.loads(read_regular_file(_results(tree) / RUN_NAME, _MAX_MANIFEST_BYTES))
    except (UnreadableFile, ValueError, RecursionError):
        return  # a part of an archive has none; the manifests carry their own schema
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != RUN_SCHEMA:
        raise NotAnArchive(
            f"{tree.root}: its schema is {schema!r} and this version reads {RUN_SCHEMA}: "
            "use the version that wrote it, or a later one"
        )


def _point(root: Path, folder: str, manifest: PointManifest) -> FoundPoint:
    return FoundPoint(
        path=root / folder,
        folder=folder,
        iteration=manifest.iteration,
        benchmark=manifest.benchmark,
        workload=manifest.workload,
        reported=manifest.reported,
        settings=manifest.settings,
        setting=manifest.setting,
        queue_depth=manifest.queue_depth,
        status=manifest.status,
        reason=manifest.reason,
        started_s=manifest.started_s,
        ended_s=manifest.ended_s,
        instances_expected=manifest.instances_expected,
        overlap=manifest.overlap,
        start_skew_s=manifest.start_skew_s,
        instances=tuple(_instance(record) for record in manifest.instances),
        health_before=manifest.health_before,
        health_after=manifest.health_after,
        versions=manifest.versions,
        notes=manifest.notes,
        cluster_fsid=manifest.cluster_fsid if isinstance(manifest.cluster_fsid, str) else None,
    )


def _manifest(path: Path) -> PointManifest:
    """The manifest, with the types of what is computed with checked: a hand-edited one must not end in a traceback."""
    try:
        text = read_regular_file(path / MANIFEST_NAME, _MAX_MANIFEST_BYTES).decode("utf-8")
        manifest = PointManifest.from_json(text)
    except UnicodeDecodeError:
        raise ManifestError("not UTF-8") from None
    except RecursionError:
        raise ManifestError("nested too deeply") from None
    wrong = [
        name
        for name, fits in (
            ("iteration", _is_count(manifest.iteration)),
            ("benchmark", isinstance(manifest.benchmark, str)),
            ("workload", manifest.workload is None or isinstance(manifest.workload, str)),
            ("reported", isinstance(manifest.reported, bool)),
            ("point_id", isinstance(manifest.point_id, str)),
            ("settings", isinstance(manifest.settings, dict) and _is_shallow(manifest.settings)),
            (
                "setting",
                isinstance(manifest.setting, dict) and all(_is_count(value) for value in manifest.setting.values()),
            ),
            ("queue_depth", _is_count(manifest.queue_depth)),
            ("reason", manifest.reason is None or isinstance(manifest.reason, str)),
            ("started_s", _is_time(manifest.started_s)),
            ("ended_s", _is_time(manifest.ended_s)),
            ("instances_expected", _is_count(manifest.instances_expected)),
            ("overlap", manifest.overlap is None or (_is_time(manifest.overlap) and manifest.overlap <= 1)),
            ("start_skew_s", manifest.start_skew_s is None or _is_time(manifest.start_skew_s)),
            ("health_before", manifest.health_before is None or isinstance(manifest.health_before, dict)),
            ("health_after", manifest.health_after is None or isinstance(manifest.health_after, dict)),
            ("versions", isinstance(manifest.versions, dict)),
            ("notes", all(isinstance(note, str) for note in manifest.notes)),
            ("instances", all(_is_record(record) for record in manifest.instances)),
        )
        if not fits
    ]
    if wrong:
        raise ManifestError(f"not a whole manifest: {', '.join(wrong)} is not what it should be")
    places = [(record.host, record.number) for record in manifest.instances]
    if len(set(places)) < len(places) or len({record.output for record in manifest.instances}) < len(places):
        raise ManifestError("names an instance or its output twice")
    return manifest


def _is_shallow(value: object, levels: int = 16) -> bool:
    """Whether nothing is nested deeper than any plan nests."""
    if isinstance(value, dict):
        return levels > 0 and all(_is_shallow(item, levels - 1) for item in value.values())
    if isinstance(value, list):
        return levels > 0 and all(_is_shallow(item, levels - 1) for item in value)
    return True


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**9


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11


def _is_record(record: InstanceRecord) -> bool:
    return (
        isinstance(record.host, str)
        and _is_count(record.number)
        and _is_count(record.iodepth)
        and _is_count(record.numjobs)
        and isinstance(record.output, str)
        and (record.json_output is None or isinstance(record.json_output, str))
        and (record.reason is None or isinstance(record.reason, str))
    )


def _instance(record: InstanceRecord) -> FoundInstance:
    return FoundInstance(
        host=record.host,
        number=record.number,
        files=tuple(name for name in (record.json_output, record.output) if name),
        status=record.status,
        reason=record.reason,
        queue_depth=record.numjobs * record.iodepth,
    )


def _sessions(tree: Tree, problems: list[FoundProblem]) -> tuple[Mapping[str, Any], ...]:
    sessions: list[Mapping[str, Any]] = []
    results = _results(tree)
    for name in sorted(name for name in _result_files(tree) if name.startswith("session-") and name.endswith(".json")):
        try:
            document = json.loads(read_regular_file(results / name, _MAX_MANIFEST_BYTES))
        except UnreadableFile as error:
            problems.append(FoundProblem(name, str(error)))
        except (ValueError, RecursionError) as error:
            problems.append(FoundProblem(name, f"not JSON: {error}"))
        else:
            if isinstance(document, dict):
                sessions.append(document)
            else:
                problems.append(FoundProblem(name, "not a session's facts: the document is not an object"))
    return tuple(sessions)


def _plan_text(tree: Tree) -> str | None:
    try:
        return read_regular_file(_results(tree) / PLAN_NAME, _MAX_PLAN_BYTES).decode("utf-8", "replace")
    except UnreadableFile:
        return None
