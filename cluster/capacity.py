"""Whether the images of a plan fit into a cluster: a full cluster stops every write, for everybody on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cluster.ceph import ClusterSpace
from cluster.pools import PoolSpec

FULL_RATIO = 0.95
"""Ceph's default mon_osd_full_ratio: beyond it nothing can be written."""
NEARFULL_RATIO = 0.85
"""Ceph's default mon_osd_nearfull_ratio: beyond it the cluster warns."""

DEFAULT_COPIES = 3
"""Ceph's default osd_pool_default_size."""

_REMEDY = "lower vol_size or volumes_per_client"


@dataclass(frozen=True, slots=True)
class Demand:
    """What one image will still take: `size_bytes` as clients count it, `raw_per_byte` bytes on disks for each."""

    pool: str
    size_bytes: int
    raw_per_byte: float

    @property
    def raw_bytes(self) -> float:
        return self.size_bytes * self.raw_per_byte


def raw_per_byte(spec: PoolSpec, existing_size: int | None = None) -> float:
    """Bytes on disks for each byte written: copies, or (k + m) / k. `existing_size`: of the pool, if it is there."""
    if spec.erasure is not None:
        return spec.erasure.chunks / int(spec.erasure.values["k"])
    return float(spec.size or existing_size or DEFAULT_COPIES)


def capacity_findings(demands: Iterable[Demand], space: ClusterSpace) -> tuple[list[str], list[str]]:
    """Problems and warnings, one line each, of writing all of these images to a cluster."""
    wanted = [demand for demand in demands if demand.size_bytes]
    if not wanted or not space.total_bytes:
        return [], []
    problems = []
    for pool, size_bytes in _by_pool(wanted).items():
        limit = space.pool_max_avail_bytes.get(pool)
        if limit is not None and size_bytes > limit:
            problems.append(
                f"pool {pool!r} has room for {_shown(limit)}, the images still to be written there are "
                f"{_shown(size_bytes)}: {_REMEDY}"
            )
    raw = sum(demand.raw_bytes for demand in wanted)
    room = space.available_bytes - (1 - FULL_RATIO) * space.total_bytes
    after = (space.total_bytes - space.available_bytes + raw) / space.total_bytes
    needs = f"the images still to be written need {_shown(raw)} on disks, copies counted"
    if problems:
        return problems, []
    if raw > room:
        return [f"{needs}; the cluster has {_shown(max(room, 0))} before it is full ({FULL_RATIO:.0%}): {_REMEDY}"], []
    if after > NEARFULL_RATIO:
        return [], [f"{needs}, which fills the cluster to {after:.0%}; it is near full from {NEARFULL_RATIO:.0%}"]
    return [], []


def throwaway_capacity_problem(demands: Iterable[Demand], osd_count: int, osd_size_bytes: int) -> str | None:
    """Why these images do not fit into a cluster that is still to be made; None when they do."""
    raw = sum(demand.raw_bytes for demand in demands)
    room = NEARFULL_RATIO * osd_count * osd_size_bytes
    if raw <= room:
        return None
    return (
        f"the images need {_shown(raw)} on disks, copies counted; {osd_count} OSDs of {_shown(osd_size_bytes)} hold "
        f"{_shown(room)} before they are near full ({NEARFULL_RATIO:.0%}): {_REMEDY}, or raise osd_size"
    )


def _by_pool(demands: Iterable[Demand]) -> Mapping[str, int]:
    sums: dict[str, int] = {}
    for demand in demands:
        sums[demand.pool] = sums.get(demand.pool, 0) + demand.size_bytes
    return sums


def _shown(size_bytes: float) -> str:
    """GiB, small sizes MiB."""
    return f"{size_bytes / 2**30:.1f} GiB" if size_bytes >= 2**30 else f"{size_bytes / 2**20:.0f} MiB"
