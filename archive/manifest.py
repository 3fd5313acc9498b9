"""The manifest of a point (`point.json`): what ran, where, when, how it ended, and whether it can be trusted.

History of the format:
  1  first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

SCHEMA = 1
MANIFEST_NAME = "point.json"

Status = Literal["complete", "partial", "failed"]
STATUSES: tuple[Status, ...] = ("complete", "partial", "failed")


class ManifestError(Exception):
    """A manifest that cannot be used; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """One instance. Times are Unix seconds by the instance's own host's clock; None for what did not happen.

    `output` and `json_output` are file names within the point's folder. `window_start_s`..`window_end_s` is the
    measurement window (ramp excluded); `clock_offset_s` is how far that clock is ahead of the controller's. `status` is
    "complete" or "failed", with the reason.
    """

    host: str
    number: int
    image: str
    pool: str
    iodepth: int
    numjobs: int
    command: str
    pid: int | None
    started_s: float | None
    ended_s: float | None
    exit_status: int | None
    status: str
    reason: str | None
    output: str
    json_output: str | None
    window_start_s: float | None
    window_end_s: float | None
    clock_offset_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PointManifest:
    """One point. `setting` is what the plan swept ({"total_iodepth": 16}); `queue_depth` what was outstanding in all.

    `overlap` is the common window over the longest run (0..1); `start_skew_s` the latest window start less the
    earliest. `health_before` and `health_after` hold the cluster's health and background work; `versions` the tools
    by host; `settings` the effective options.
    """

    point_id: str
    iteration: int
    benchmark: str
    workload: str | None
    reported: bool
    settings: Mapping[str, Any]
    setting: Mapping[str, int]
    queue_depth: int
    status: Status
    reason: str | None
    started_s: float
    ended_s: float
    ramp_s: float
    time_s: float | None
    instances_expected: int
    overlap: float | None
    start_skew_s: float | None
    instances: tuple[InstanceRecord, ...]
    health_before: Mapping[str, Any] | None
    health_after: Mapping[str, Any] | None
    cluster_fsid: str | None
    versions: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, sort_keys=False) + "\n"

    @staticmethod
    def from_json(text: str) -> PointManifest:
        """Reads a manifest. Raises ManifestError for anything that is not a manifest of a known schema."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise ManifestError(f"not JSON: {error}") from None
        if not isinstance(document, dict):
            raise ManifestError("not a manifest: the document is not an object")
        schema = document.pop("schema", None)
        if schema != SCHEMA:
            raise ManifestError(f"schema {schema!r} is unknown to this version, which knows {SCHEMA}; use a newer one")
        try:
            known = {f.name for f in fields(PointManifest)}
            values: dict[str, Any] = {name: value for name, value in document.items() if name in known}
            values["instances"] = tuple(_instance(item) for item in values["instances"])
            values["notes"] = tuple(values.get("notes", ()))
            manifest = PointManifest(**values)
        except (TypeError, KeyError, AttributeError) as error:
            raise ManifestError(f"not a whole manifest: {error}") from None
        if manifest.status not in STATUSES:
            raise ManifestError(f"unknown status {manifest.status!r}")
        return manifest


def _instance(item: Mapping[str, Any]) -> InstanceRecord:
    known = {f.name for f in fields(InstanceRecord)}
    return InstanceRecord(**{k: v for k, v in item.items() if k in known})
