"""The images that points run on: made and filled by this run, or existing ones looked up and left as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from benchmarks.model import Volume, VolumeNeed
from cluster.ceph import Ceph, CephError, ImageInfo
from cluster.ledger import Ledger, Thing
from cluster.pools import PoolSpec, Waiting, name_problem, pool_spec, remove_image

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 8
_SMALLEST_ORDER, _LARGEST_ORDER = 12, 25
"""4 KiB to 32 MiB: what rbd takes as an object size."""


@dataclass(frozen=True, slots=True)
class PreparedVolume:
    """An image that is there. `filled`: it was seen to be written whole, so it need not be filled again."""

    volume: Volume
    filled: bool


@dataclass(frozen=True, slots=True)
class ExistingVolumes:
    """What was found of the images a plan wants to use. `need` names the actual images, when there is no problem."""

    need: VolumeNeed
    problems: tuple[str, ...]
    notices: tuple[str, ...]


def pools_needed(
    need: VolumeNeed,
    pool_profiles: Mapping[str, Mapping[str, object]],
    erasure_profiles: Mapping[str, Mapping[str, object]],
) -> tuple[PoolSpec, ...]:
    """The pools of a need, data pool last. Raises PoolError when a profile is not there or says what cannot be."""
    autoscaled = need.wait_pgautoscaler_s >= 0
    specs = [
        pool_spec(
            need.pool,
            need.pool_profile,
            _profile(pool_profiles, need.pool_profile),
            erasure_profiles,
            autoscaled=autoscaled,
        )
    ]
    if specs[0].kind == "erasure":
        raise CephError(
            f"cluster.pool_profiles.{need.pool_profile}: an erasure coded pool cannot hold an image's metadata: make "
            "it the data_pool_profile, and use a replicated pool_profile beside it"
        )
    if need.data_pool is not None and need.data_pool_profile is not None:
        specs.append(
            pool_spec(
                need.data_pool,
                need.data_pool_profile,
                _profile(pool_profiles, need.data_pool_profile),
                erasure_profiles,
                rbd_data=True,
                autoscaled=autoscaled,
            )
        )
    return tuple(specs)


def _profile(profiles: Mapping[str, Mapping[str, object]], name: str) -> Mapping[str, object]:
    if name not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise CephError(f"cluster.pool_profiles has no profile {name!r} (there are: {known}): add it or name another")
    return profiles[name]


# Images this run makes


def check_images(ceph: Ceph, ledger: Ledger, need: VolumeNeed) -> list[str]:
    """What would stop `prepare_images`, one line each; changes nothing. Raises CephError."""
    if problems := _name_problems(need):
        return problems
    if not _SMALLEST_ORDER <= need.object_order <= _LARGEST_ORDER:
        problems.append(
            f"vol_object_size {need.object_order}: it is the power of two of the object size, from {_SMALLEST_ORDER} "
            f"(4 KiB) to {_LARGEST_ORDER} (32 MiB)"
        )
    if need.pool not in ceph.pools():
        return problems
    fsid = ceph.fsid()
    present = set(ceph.images(need.pool))
    for volume in need.volumes:
        if volume.image in present and not _is_ours(ceph, ledger, fsid, volume):
            problems.append(
                f"image {volume.image!r} in pool {volume.pool!r} exists and was not made by this run: set "
                "use_existing_volumes: True to use it, or remove it"
            )
    return problems


def prepare_images(
    ceph: Ceph, ledger: Ledger, need: VolumeNeed, waiting: Waiting = lambda _: None
) -> tuple[PreparedVolume, ...]:
    """Makes the images that are missing, in the order of the need. The pools must be there.

    An image of this run that was made with another size, object size or data pool is made anew.
    Raises CephError for what `check_images` finds, and when an image cannot be made.
    """
    if problems := check_images(ceph, ledger, need):
        raise CephError("; ".join(problems))
    fsid = ceph.fsid()
    present = set(ceph.images(need.pool))
    waiting(f"making {len(need.volumes)} images in pool {need.pool!r}")

    def prepare(volume: Volume) -> PreparedVolume:
        thing = _thing(fsid, volume)
        if volume.image in present:
            found = ceph.image(volume.pool, volume.image)
            if _agrees(found, need):
                entry = ledger.find(thing)
                if entry is None or not entry.created:
                    ledger.created(thing, found.image_id)
                return PreparedVolume(volume, filled=entry is not None and entry.filled)
            if stays := remove_image(ceph, ledger, thing, waiting):
                raise CephError("; ".join(stays))
        ledger.intend(thing)
        ceph.image_create(volume.pool, volume.image, need.size_bytes, need.object_order, need.data_pool)
        ledger.created(thing, ceph.image(volume.pool, volume.image).image_id)
        return PreparedVolume(volume, filled=False)

    return tuple(_at_once(prepare, need.volumes))


def verify_filled(ceph: Ceph, ledger: Ledger, volume: Volume) -> None:
    """Sees that every object of an image is there, and writes that down. Raises CephError with the figures."""
    usage = ceph.image_usage(volume.pool, volume.image)
    if not usage.full:
        raise CephError(
            f"image {volume.image!r} in pool {volume.pool!r} is not full after prefill: {usage.used_bytes} of "
            f"{usage.provisioned_bytes} bytes are written; what was never written reads far too fast, so nothing is "
            "measured on it; look at the prefill's output"
        )
    ledger.filled(_thing(ceph.fsid(), volume))


def mark_emptied(ceph: Ceph, ledger: Ledger, volumes: Sequence[Volume]) -> None:
    """Writes down that these images of this run are full no longer, to be called before that comes true."""
    for volume in volumes:
        ledger.emptied(_thing(ceph.fsid(), volume))


def unwritten_bytes(ceph: Ceph, need: VolumeNeed) -> tuple[int, ...]:
    """How much each volume of a need will still take (bytes, one copy), what its image holds already taken off."""
    present = set(ceph.images(need.pool)) if need.pool in ceph.pools() else set()

    def look(volume: Volume) -> int:
        if volume.image not in present:
            return need.size_bytes
        return max(0, need.size_bytes - ceph.image_usage(volume.pool, volume.image).used_bytes)

    return tuple(_at_once(look, need.volumes))


def _is_ours(ceph: Ceph, ledger: Ledger, fsid: str, volume: Volume) -> bool:
    entry = ledger.find(_thing(fsid, volume))
    if entry is None:
        return False
    return not entry.created or ceph.image(volume.pool, volume.image).image_id == entry.ident


def _agrees(image: ImageInfo, need: VolumeNeed) -> bool:
    return (image.size_bytes, image.object_order, image.data_pool) == (
        need.size_bytes,
        need.object_order,
        need.data_pool,
    )


def _thing(fsid: str, volume: Volume) -> Thing:
    return Thing(fsid, "image", volume.image, volume.pool)


# Images that are there already


def resolve_existing(ceph: Ceph, need: VolumeNeed, hostnames: Mapping[str, str]) -> ExistingVolumes:
    """Finds the images a plan with use_existing_volumes means; looks only.

    `hostnames`: configured host → what `hostname -f` says there. An image may carry either name; with both, the
    configured one is meant. With one volume a client and an image called exactly `fallback_image`, it is that one.
    Raises CephError when the cluster does not answer.
    """
    if problems := _name_problems(need):
        return ExistingVolumes(need, tuple(problems), ())
    if need.pool not in ceph.pools():
        return ExistingVolumes(need, (f"there is no pool {need.pool!r}, which use_existing_volumes needs",), ())
    present = set(ceph.images(need.pool))
    found: list[str] = []
    missing: list[str] = []
    notices: list[str] = []
    single = need.fallback_image if _one_volume_each(need) and need.fallback_image in present else None
    for volume in need.volumes:
        candidates = _candidates(volume, hostnames)
        there = [name for name in candidates if name in present]
        if single is not None:
            found.append(single)
            if there:
                notices.append(f"{volume.host}: image {single!r} is used; {there[0]!r} is there too")
        elif there:
            found.append(there[0])
            if len(there) > 1:
                notices.append(f"{volume.host}: images {there[0]!r} and {there[1]!r} are there; the first is used")
        else:
            missing.append(" or ".join(map(repr, candidates)))
    if missing:
        also = f" (nor one called {need.fallback_image!r})" if need.fallback_image and _one_volume_each(need) else ""
        problems = [
            f"pool {need.pool!r} has no image {name}{also}: make it, or leave use_existing_volumes out"
            for name in missing
        ]
        return ExistingVolumes(need, tuple(problems), tuple(notices))
    volumes = tuple(replace(volume, image=image) for volume, image in zip(need.volumes, found, strict=True))
    problems, more = _look_at(ceph, need, list(dict.fromkeys(found)))
    for image, users in Counter(found).items():
        if users > 1:
            notices.append(f"image {image!r} is used by {users} clients at once: they share its lock")
    return ExistingVolumes(replace(need, volumes=volumes), tuple(problems), (*notices, *more))


def _candidates(volume: Volume, hostnames: Mapping[str, str]) -> list[str]:
    """The configured name, and the name the host gives itself in its place."""
    tail = f"-{volume.host}-{volume.index}"
    actual = hostnames.get(volume.host, volume.host)
    names = [volume.image]
    if volume.image.endswith(tail) and actual != volume.host:
        names.append(f"{volume.image.removesuffix(tail)}-{actual}-{volume.index}")
    return names


def _one_volume_each(need: VolumeNeed) -> bool:
    return max(Counter(volume.host for volume in need.volumes).values(), default=0) == 1


def _look_at(ceph: Ceph, need: VolumeNeed, images: Sequence[str]) -> tuple[list[str], list[str]]:
    """Problems and notices about size and contents."""

    def look(image: str) -> tuple[list[str], list[str]]:
        info = ceph.image(need.pool, image)
        if info.size_bytes < need.size_bytes:
            remedy = "lower vol_size, or use a larger image"
            return [
                f"image {image!r} in pool {need.pool!r} has {info.size_bytes} bytes, the plan wants {need.size_bytes}: "
                f"{remedy}"
            ], []
        usage = ceph.image_usage(need.pool, image)
        if not usage.full:
            return [], [
                f"image {image!r} in pool {need.pool!r}: {usage.used_bytes} of {usage.provisioned_bytes} bytes were "
                "ever written; reads of the rest are answered without any disk, far too fast"
            ]
        return [], []

    results = _at_once(look, images)
    return [p for problems, _ in results for p in problems], [n for _, notices in results for n in notices]


def _name_problems(need: VolumeNeed) -> list[str]:
    pools = [need.pool] if need.data_pool is None else [need.pool, need.data_pool]
    named = [("pool", name) for name in pools] + [("image", volume.image) for volume in need.volumes]
    return [problem for what, name in dict.fromkeys(named) if (problem := name_problem(what, name))]


def _at_once(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Some calls side by side: each costs a process that mostly waits. The first failure is raised."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return list(pool.map(work, items))
