"""Pools made from pool profiles: what a profile asks for, whether the cluster can give it, making and removing them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal

from cluster.answers import Answer, Json, MalformedAnswer
from cluster.ceph import Ceph, CephError, ClusterStatus, NoSuchThing, PoolDetail
from cluster.ledger import Kind, Ledger, Thing

Waiting = Callable[[str], None]
CLEAN_LIMIT_S = 180.0
_POLL_S = 0.3
_SPARE_PROFILE_KEYS = frozenset({"erasure_k", "erasure_m"})


class PoolError(CephError):
    """A pool cannot be had as the plan wants it; one line."""


@dataclass(frozen=True, slots=True)
class ErasureSpec:
    """An erasure code profile as the plan describes it; `name` is the plan's, `values` what Ceph is told."""

    name: str
    values: Mapping[str, str]

    @property
    def ceph_name(self) -> str:
        """Our own name on the cluster: another meaning has another name, so none is ever overwritten."""
        text = json.dumps(sorted(self.values.items()))
        return f"cbt-{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def chunks(self) -> int:
        """k + m; plugins such as lrc add more."""
        return int(self.values["k"]) + int(self.values["m"])

    def shown(self) -> str:
        return f"{self.values.get('plugin', 'jerasure')} k={self.values['k']} m={self.values['m']}"


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """A pool as its profile describes it. `size` None: the cluster's own default. `fixed_pg_num`: the autoscaler is
    switched off for it, because it would change pg_num in the middle of a measurement."""

    name: str
    profile: str
    kind: Literal["replicated", "erasure"]
    pg_num: int
    pgp_num: int
    size: int | None = None
    erasure: ErasureSpec | None = None
    ec_overwrites: bool = False
    crush_rule: str | None = None
    fixed_pg_num: bool = True


def name_problem(what: str, name: str) -> str | None:
    """Why Ceph, rbd or fio could not be given this pool or image name; None when they can.

    Tried with 16.2 and fio 3.33: rbd and librbd read '/' and '@' as separators, wherever they stand; `ceph` reads a
    pool name that begins with '-' as an option. Spaces, quotes, '$', ';', '*' and the like are fine.
    """
    if not name:
        return f"the {what} has an empty name"
    bad = sorted({c for c in name if c in "/@" or not c.isprintable()})
    if bad:
        return f"{what} {name!r}: rbd cannot use {' or '.join(map(repr, bad))} in a name; choose another name"
    if what == "pool" and not name.isascii():
        return f"{what} {name!r}: `ceph pg ls-by-pool` takes ASCII only; choose another name"
    if what == "pool" and name.startswith("-"):
        return f"{what} {name!r}: the ceph command takes a name that begins with '-' for an option; choose another name"
    return None


def pool_spec(
    name: str,
    profile_name: str,
    profile: Mapping[str, object],
    erasure_profiles: Mapping[str, Mapping[str, object]],
    *,
    rbd_data: bool = False,
    autoscaled: bool = False,
) -> PoolSpec:
    """The pool that a profile describes. `rbd_data`: images keep their data in it, so an erasure coded one needs
    overwrites. Raises PoolError, naming the profile."""
    where = f"cluster.pool_profiles.{profile_name}"
    replication = profile.get("replication")
    pg_num = _whole(where, profile, "pg_size", 1024)
    pgp_num = _whole(where, profile, "pgp_size", pg_num)
    if pgp_num > pg_num:
        raise PoolError(f"{where}: pgp_size {pgp_num} is larger than pg_size {pg_num}: make them equal")
    rule = profile.get("crush_profile")
    common = {
        "name": name,
        "profile": profile_name,
        "pg_num": pg_num,
        "pgp_num": pgp_num,
        "crush_rule": None if rule is None else str(rule),
        "fixed_pg_num": not autoscaled,
    }
    if str(replication).lower() == "erasure":
        erasure_name = profile.get("erasure_profile")
        if erasure_name is None:
            raise PoolError(f"{where}: replication is 'erasure', but no erasure_profile is named")
        if str(erasure_name) not in erasure_profiles:
            raise PoolError(f"{where}: erasure_profile {erasure_name!r} is not among cluster.erasure_profiles")
        erasure = erasure_spec(str(erasure_name), erasure_profiles[str(erasure_name)])
        overwrites = rbd_data or bool(profile.get("ec_overwrites"))
        return PoolSpec(kind="erasure", erasure=erasure, ec_overwrites=overwrites, **common)  # type: ignore[arg-type] # values of one dict have one type
    if replication is not None and (not str(replication).isdigit() or int(str(replication)) < 1):
        raise PoolError(f"{where}: replication must be a number from 1 or 'erasure', not {replication!r}")
    size = None if replication is None else int(str(replication))
    return PoolSpec(kind="replicated", size=size, **common)  # type: ignore[arg-type] # as above


def erasure_spec(name: str, profile: Mapping[str, object]) -> ErasureSpec:
    """Ceph's words for a profile of the plan. Without a failure domain in it chunks are spread over OSDs, not hosts,
    so that test clusters of few hosts can hold them."""
    where = f"cluster.erasure_profiles.{name}"
    values = {
        "k": str(_whole(where, profile, "erasure_k", 6)),
        "m": str(_whole(where, profile, "erasure_m", 2)),
        "crush-failure-domain": "osd",
    }
    for key, value in profile.items():
        if key not in _SPARE_PROFILE_KEYS and value is not None:
            values[key.removeprefix("erasure_")] = str(value).lower() if isinstance(value, bool) else str(value)
    return ErasureSpec(name, values)


# Looking


def check_pools(ceph: Ceph, ledger: Ledger, specs: Sequence[PoolSpec]) -> list[str]:
    """What would stop `prepare_pools`, one line each; changes nothing.

    Raises CephError when the cluster does not answer.
    """
    problems = [problem for spec in specs if (problem := name_problem("pool", spec.name))]
    if problems:
        return problems
    with ThreadPoolExecutor(max_workers=4) as at_once:
        asked = (at_once.submit(ceph.pools), at_once.submit(ceph.crush_rules), at_once.submit(ceph.status))
        at_once.submit(ceph.fsid)
        pools, rules, status = asked[0].result(), asked[1].result(), asked[2].result()
    fsid = ceph.fsid()
    missing: list[PoolSpec] = []
    for spec in specs:
        if spec.crush_rule is not None and spec.crush_rule not in rules:
            known = ", ".join(sorted(rules))
            problems.append(
                f"pool {spec.name!r}: crush_profile {spec.crush_rule!r} is no CRUSH rule here (there are {known}): "
                "make the rule first, or leave crush_profile out"
            )
        pool = pools.get(spec.name)
        if pool is None:
            missing.append(spec)
        elif not is_ours(ledger, fsid, pool):
            problems += [
                f"pool {spec.name!r} exists, was not made by this run, and {difference}; change "
                f"pool_profiles.{spec.profile} to agree, or remove the pool, or use another name"
                for difference in _differences(ceph, spec, pool)
            ]
    for spec in missing:
        if problem := _placement_problem(ceph, spec, rules):
            problems.append(problem)
    problems += _limit_problems(ceph, missing, pools.values(), status)
    return problems


def is_ours(ledger: Ledger, fsid: str, pool: PoolDetail) -> bool:
    """Whether this very pool was made by this run (or meant to be, when the run ended in that moment)."""
    entry = ledger.find(Thing(fsid, "pool", pool.name))
    return entry is not None and (not entry.created or entry.ident == str(pool.pool_id))


def _differences(ceph: Ceph, spec: PoolSpec, pool: PoolDetail) -> Iterator[str]:
    """How a pool differs from its profile, all of it in one phrase; nothing when it agrees."""
    found: list[str] = []
    if pool.kind != spec.kind:
        found.append(f"is {pool.kind}, not {spec.kind}")
    else:
        if spec.size is not None and pool.size != spec.size:
            found.append(f"keeps {pool.size} replicas, not {spec.size}")
        if pool.pg_num_target != spec.pg_num and spec.fixed_pg_num:
            found.append(f"has pg_num {pool.pg_num_target}, not {spec.pg_num}")
        elif pool.pgp_num_target != spec.pgp_num and spec.fixed_pg_num:
            found.append(f"has pgp_num {pool.pgp_num_target}, not {spec.pgp_num}")
        if spec.erasure is not None:
            actual = ceph.erasure_profile(pool.erasure_profile)
            found += [
                f"has {key} {actual.get(key, 'unset')!r} in its erasure profile, not {value!r}"
                for key, value in spec.erasure.values.items()
                if actual.get(key) != value
            ]
            if spec.ec_overwrites and not pool.ec_overwrites:
                found.append("does not allow EC overwrites, which images need")
    if "rbd" not in pool.applications and not spec.erasure:
        found.append("is not enabled for rbd (`ceph osd pool application enable`)")
    if found:
        yield " and ".join(found)


def _placement_problem(ceph: Ceph, spec: PoolSpec, rules: Mapping[str, Json]) -> str | None:
    """Why the PGs of a pool could never be complete: fewer failure domains than copies or chunks."""
    if spec.erasure is not None and spec.crush_rule is None:
        values = spec.erasure.values
        if values.get("plugin") == "lrc" and "l" in values:
            return None  # how many chunks Ceph makes of it shows when the pool is there
        domain, root = values["crush-failure-domain"], values.get("crush-root", "default")
        return _domain_problem(ceph, spec, spec.erasure.chunks, domain, root, values.get("crush-device-class") or None)
    rule = rules.get(spec.crush_rule) if spec.crush_rule else next(iter(rules.values()), None)
    needed = spec.erasure.chunks if spec.erasure is not None else spec.size
    found = _rule_domain(rule)
    return None if needed is None or found is None else _domain_problem(ceph, spec, needed, *found)


def _domain_problem(
    ceph: Ceph, spec: PoolSpec, needed: int, domain: str, root: str, device_class: str | None
) -> str | None:
    available = ceph.failure_domains(domain, device_class, root)
    if available is None:
        return f"pool {spec.name!r}: there is no CRUSH root {root!r}"
    if available >= needed:
        return None
    of_class = f" with OSDs of class {device_class}" if device_class else ""
    what = f"chunks ({spec.erasure.shown()})" if spec.erasure is not None else "replicas"
    remedy = (
        "use a profile with smaller k and m, or set crush-failure-domain: osd in it"
        if spec.erasure is not None and domain != "osd"
        else ("use a profile with smaller k and m" if spec.erasure is not None else "use a smaller replication")
    )
    return (
        f"pool {spec.name!r}: its PGs can never be complete: {needed} {what}, each on another {domain}, but "
        f"the cluster has only {available} of them{of_class}; {remedy}, or add OSDs"
    )


def _rule_domain(rule: Json) -> tuple[str, str, str | None] | None:
    """Failure domain, root and device class of a plain rule; None when it is anything else."""
    try:
        steps = list(Answer(rule).at("steps").items())
        takes = [step.at("item_name").text() for step in steps if step.at("op").text() == "take"]
        chooses = [step for step in steps if step.at("op").text().startswith("choose")]
        if len(takes) != 1 or len(chooses) != 1 or chooses[0].at("num").integer() != 0:
            return None
        root, _, device_class = takes[0].partition("~")
        return chooses[0].at("type").text(), root, device_class or None
    except MalformedAnswer:
        return None


def _limit_problems(
    ceph: Ceph, specs: Sequence[PoolSpec], existing: Iterable[PoolDetail], status: ClusterStatus
) -> list[str]:
    if not specs:
        return []
    problems = []
    limits = _monitor_settings(ceph, status)
    num_in_osds = status.num_in_osds
    wanted = sum(spec.pg_num * _copies(spec) for spec in specs)
    present = sum(pool.pg_num * pool.size for pool in existing)
    limit = limits.get("mon_max_pg_per_osd")
    if limit is not None and limit.isdigit() and num_in_osds and wanted + present > int(limit) * num_in_osds:
        names = ", ".join(f"{spec.name!r} {spec.pg_num} × {_copies(spec)}" for spec in specs)
        problems.append(
            f"too many PGs: {names} and {present} that exist make {wanted + present} on {num_in_osds} OSDs, the "
            f"cluster allows {int(limit) * num_in_osds} (mon_max_pg_per_osd {limit}); lower pg_size in the pool profile"
        )
    if limits.get("mon_allow_pool_size_one") == "false":
        problems += [
            f"pool {spec.name!r}: the cluster does not allow replication 1; set it to 2 or more, or "
            "`ceph config set global mon_allow_pool_size_one true`"
            for spec in specs
            if spec.size == 1
        ]
    return problems


def _copies(spec: PoolSpec) -> int:
    return spec.erasure.chunks if spec.erasure is not None else (spec.size or 3)


def _monitor_settings(ceph: Ceph, status: ClusterStatus) -> Mapping[str, str]:
    """What a monitor itself says it uses, conf file included; empty when it cannot be asked."""

    def read(answer: Answer) -> Mapping[str, str]:
        return {option.at("name").text(): option.at("value").text() for option in answer.items()}

    try:
        return ceph.ask("ceph", "config", "show-with-defaults", f"mon.{status.quorum[0]}", read=read)
    except (CephError, IndexError):
        return {}  # needs rights that a plain client may lack: the cluster itself will refuse


# Making


def prepare_pools(
    ceph: Ceph,
    ledger: Ledger,
    specs: Sequence[PoolSpec],
    waiting: Waiting = lambda _: None,
    *,
    clean_limit_s: float = CLEAN_LIMIT_S,
    autoscaler_limit_s: int = -1,
) -> None:
    """Makes what is missing, and returns when every PG of every pool is active and clean.

    A pool of this run that was made from another profile is made anew: a sweep over profiles uses one name.
    Waits for the autoscaler as well when `autoscaler_limit_s` is 0 or more. Raises PoolError or CephError.
    """
    if problems := check_pools(ceph, ledger, specs):
        raise PoolError("; ".join(problems))
    fsid = ceph.fsid()
    for spec in specs:
        pool = ceph.pools().get(spec.name)
        entry = ledger.find(Thing(fsid, "pool", spec.name))
        if pool is not None and entry is not None and not entry.created:
            # The run ended between making the pool and saying so: what was left undone is done now.
            _finish(ceph, ledger, fsid, spec)
            pool = ceph.pools()[spec.name]
        if pool is not None and is_ours(ledger, fsid, pool) and any(_differences(ceph, spec, pool)):
            waiting(f"removing pool {spec.name!r}, made from another profile")
            if notices := remove_pool(ceph, ledger, fsid, spec.name):
                raise PoolError("; ".join(notices))
            pool = None
        if pool is None:
            waiting(f"creating pool {spec.name!r}")
            _create(ceph, ledger, fsid, spec)
    for spec in specs:
        wait_until_clean(ceph, spec, waiting, clean_limit_s)
    if autoscaler_limit_s >= 0:
        wait_for_autoscaler(ceph, [spec.name for spec in specs], waiting, autoscaler_limit_s)


def _create(ceph: Ceph, ledger: Ledger, fsid: str, spec: PoolSpec) -> None:
    thing = Thing(fsid, "pool", spec.name)
    if spec.erasure is None:
        ledger.intend(thing)
        ceph.pool_create_replicated(spec.name, spec.pg_num, spec.pgp_num, rule=spec.crush_rule)
    else:
        _set_erasure_profile(ceph, ledger, fsid, spec.erasure)
        if spec.crush_rule is None and spec.name not in ceph.crush_rules():
            # Ceph makes a rule named after the pool, and leaves it behind when the pool is deleted.
            ledger.intend(Thing(fsid, "crush_rule", spec.name))
        ledger.intend(thing)
        ceph.pool_create_erasure(spec.name, spec.pg_num, spec.pgp_num, spec.erasure.ceph_name, rule=spec.crush_rule)
    _finish(ceph, ledger, fsid, spec)


def _finish(ceph: Ceph, ledger: Ledger, fsid: str, spec: PoolSpec) -> None:
    """Everything after the bare creation; doing it twice does no harm."""
    pool = ceph.pools()[spec.name]
    if spec.fixed_pg_num:
        ceph.pool_set(spec.name, "pg_autoscale_mode", "off")
    if spec.size is not None and pool.size != spec.size:
        if spec.size == 1:
            ceph.pool_set_size_one(spec.name)
        else:
            ceph.pool_set(spec.name, "size", str(spec.size))
    if spec.ec_overwrites:
        ceph.pool_set(spec.name, "allow_ec_overwrites", "true")
    ceph.pool_enable_application(spec.name, "rbd")
    rule = Thing(fsid, "crush_rule", spec.name)
    if ledger.find(rule) is not None:
        ledger.created(rule, str(pool.crush_rule))
    ledger.created(Thing(fsid, "pool", spec.name), str(pool.pool_id))


def _set_erasure_profile(ceph: Ceph, ledger: Ledger, fsid: str, erasure: ErasureSpec) -> None:
    if erasure.ceph_name in ceph.erasure_profile_names():
        actual = ceph.erasure_profile(erasure.ceph_name)
        wrong = [key for key, value in erasure.values.items() if actual.get(key) != value]
        if wrong:
            raise PoolError(
                f"erasure code profile {erasure.ceph_name!r} exists with another {', '.join(wrong)}: remove it with "
                f"`ceph osd erasure-code-profile rm {erasure.ceph_name}`"
            )
        return
    thing = Thing(fsid, "erasure_profile", erasure.ceph_name)
    ledger.intend(thing)
    ceph.erasure_profile_set(erasure.ceph_name, erasure.values)
    ledger.created(thing, erasure.ceph_name)


def wait_until_clean(ceph: Ceph, spec: PoolSpec, waiting: Waiting, limit_s: float = CLEAN_LIMIT_S) -> None:
    """Returns when every PG of the pool is active and clean. Raises PoolError at once when that can never be, or with
    the states it ended in when the limit has passed."""
    pool = ceph.pools()[spec.name]
    rules = ceph.crush_rules()
    rule = next((r for r in rules.values() if _rule_id(r) == pool.crush_rule), None)
    if (domain := _rule_domain(rule)) is not None and (problem := _domain_problem(ceph, spec, pool.size, *domain)):
        raise PoolError(problem)
    deadline = time.monotonic() + limit_s
    said = ""
    while True:
        placement = ceph.pool_placement(spec.name)
        if placement.total >= pool.pg_num_target and placement.clean == placement.total:
            return
        missing = f"pool {spec.name!r}: {placement.clean} of {pool.pg_num_target} PGs active+clean"
        if time.monotonic() > deadline:
            raise PoolError(
                f"{missing} after {limit_s:g} s, states: {placement.shown()}; see `ceph health detail` and "
                f"`ceph pg dump_stuck`: too few OSDs for the pool, or some of them down"
            )
        if missing != said:
            waiting(f"waiting for {missing}")
            said = missing
        time.sleep(_POLL_S)


def wait_for_autoscaler(ceph: Ceph, names: Sequence[str], waiting: Waiting, limit_s: int) -> None:
    """Returns when the autoscaler wants no other pg_num for these pools and they have the one it set.

    Raises PoolError when it does not settle in time.
    """
    deadline = time.monotonic() + limit_s
    said = ""
    while True:
        wanting = [state for state in ceph.autoscale_status() if state.pool in names and not state.settled]
        pools = ceph.pools()
        moving = [pools[name] for name in names if pools[name].pg_num != pools[name].pg_num_target]
        if not wanting and not moving:
            return
        words = [f"pool {s.pool!r} from {s.pg_num_target} to {s.pg_num_final} PGs" for s in wanting]
        words += [f"pool {p.name!r} at {p.pg_num} of {p.pg_num_target} PGs" for p in moving]
        text = "; ".join(words)
        if time.monotonic() > deadline:
            raise PoolError(
                f"the PG autoscaler has not settled after {limit_s} s: {text}; raise wait_pgautoscaler_timeout, "
                "or set it to -1 for the pg_size of the profile"
            )
        if text != said:
            waiting(f"waiting for the PG autoscaler: {text}")
            said = text
        time.sleep(_POLL_S)


def _rule_id(rule: Json) -> int | None:
    try:
        return Answer(rule).at("rule_id").integer()
    except MalformedAnswer:
        return None


# Removing


def remove_created(ceph: Ceph, ledger: Ledger, waiting: Waiting = lambda _: None) -> list[str]:
    """Removes what the ledger says this run made on this cluster; one line for whatever had to stay.

    Something of the same name with another id than the one written down is somebody else's, and stays. So do
    what was only meant to be made, and a pool in which somebody else has made images.
    """
    fsid = ceph.fsid()
    notices: list[str] = []
    for thing in _things(ledger, fsid, "pool"):
        notices += _guarded(thing, partial(remove_pool, ceph, ledger, fsid, thing.name, waiting))
    for thing in _things(ledger, fsid, "image"):
        notices += _guarded(thing, partial(remove_image, ceph, ledger, thing, waiting))
    for thing in _things(ledger, fsid, "crush_rule"):
        notices += _guarded(thing, partial(_remove_rule, ceph, ledger, thing))
    for thing in _things(ledger, fsid, "erasure_profile"):
        notices += _guarded(thing, partial(_remove_profile, ceph, ledger, thing))
    return notices


def remove_pool(ceph: Ceph, ledger: Ledger, fsid: str, name: str, waiting: Waiting = lambda _: None) -> list[str]:
    """Removes one pool of this run with our images in it; lines that say why it had to stay. Raises CephError."""
    thing = Thing(fsid, "pool", name)
    pool = ceph.pools().get(name)
    if stays := _not_removable(ledger, thing, None if pool is None else str(pool.pool_id)):
        return [stays]
    if pool is not None:
        ours = {image.name for image in _things(ledger, fsid, "image") if image.pool == name}
        # The names of images are in the replicated pool; asking an erasure coded one that is not clean hangs.
        present = () if pool.kind == "erasure" else ceph.images(name)
        foreign = sorted(set(present) - ours)
        if foreign:
            return [
                f"{thing.shown()} stays: it holds images not made by this run ({', '.join(map(repr, foreign[:3]))})"
            ]
        waiting(f"removing {thing.shown()}")
        ceph.pool_delete(name)
    for image in _things(ledger, fsid, "image"):
        if image.pool == name:
            ledger.removed(image)
    ledger.removed(thing)
    rule = Thing(fsid, "crush_rule", name)
    return _remove_rule(ceph, ledger, rule) if ledger.find(rule) is not None else []


def remove_image(ceph: Ceph, ledger: Ledger, thing: Thing, waiting: Waiting = lambda _: None) -> list[str]:
    """Removes one image of this run; lines that say why it had to stay. Raises CephError."""
    try:
        actual = ceph.image(thing.pool, thing.name).image_id
    except NoSuchThing:
        actual = None
    if stays := _not_removable(ledger, thing, actual):
        return [stays]
    if actual is not None:
        waiting(f"removing {thing.shown()}")
        ceph.image_remove(thing.pool, thing.name)
    ledger.removed(thing)
    return []


def _remove_rule(ceph: Ceph, ledger: Ledger, thing: Thing) -> list[str]:
    rule = ceph.crush_rules().get(thing.name)
    if stays := _not_removable(ledger, thing, None if rule is None else str(_rule_id(rule))):
        return [stays]
    if rule is not None:
        ceph.crush_rule_remove(thing.name)
    ledger.removed(thing)
    return []


def _remove_profile(ceph: Ceph, ledger: Ledger, thing: Thing) -> list[str]:
    present = thing.name in ceph.erasure_profile_names()
    if stays := _not_removable(ledger, thing, thing.name if present else None):
        return [stays]
    if present:
        ceph.erasure_profile_remove(thing.name)
    ledger.removed(thing)
    return []


def _not_removable(ledger: Ledger, thing: Thing, actual_ident: str | None) -> str | None:
    """Why something may not be removed. `actual_ident`: what the cluster calls it now, None when it is not there."""
    entry = ledger.find(thing)
    if actual_ident is None:
        return None
    if entry is None:
        return f"{thing.shown()} stays: this run did not make it"
    if not entry.created:
        return f"{thing.shown()} stays: it is not certain that this run made it; remove it by hand if it is not needed"
    if entry.ident != actual_ident:
        return f"{thing.shown()} stays: it is not the one this run made (id {actual_ident}, not {entry.ident})"
    return None


def _things(ledger: Ledger, fsid: str, kind: Kind) -> list[Thing]:
    """Last made first."""
    return [entry.thing for entry in reversed(ledger.entries(fsid)) if entry.thing.kind == kind]


def _guarded(thing: Thing, remove: Callable[[], list[str]]) -> list[str]:
    try:
        return remove()
    except CephError as error:
        return [f"{thing.shown()} could not be removed: {error}"]


def _whole(where: str, profile: Mapping[str, object], key: str, default: int) -> int:
    value = profile.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not str(value).isdigit() or int(str(value)) < 1:
        raise PoolError(f"{where}.{key}: must be a whole number from 1, not {value!r}")
    return int(str(value))
