"""What a run recorded of itself, as rows for a report's first page.

The sessions are JSON that other versions may have written: whatever is absent or of another type is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from post_processing.load import ArchiveFacts
from post_processing.results import ResponseCurve, ResultPoint
from post_processing.words import bytes_text, count_of, duration, moment

_MAX_HOSTS_SHOWN: Final = 6


def run_rows(facts: ArchiveFacts, curves: Sequence[ResponseCurve]) -> list[tuple[str, str]]:
    """(what, its value): what ran where and when."""
    points = [*facts.preconditioning, *(point for curve in curves for point in curve.points)]
    rows = [*_when(facts, points)]
    if plan := _last(facts, "plan"):
        rows.append(("Plan", str(plan)))
    if version := _last(facts, "program_version"):
        rows.append(("Program", f"cbt {version}"))
    rows += _host_rows(facts, points)
    rows += _ceph_rows(facts)
    return rows


def cache_setting(facts: ArchiveFacts) -> bool | None:
    """Whether librbd's cache was on; None when it is not recorded, or not the same everywhere."""
    seen = {
        enabled
        for session in facts.sessions
        for volumes in _each(session.get("volumes"))
        if isinstance(enabled := _mapping(volumes.get("librbd_cache")).get("enabled"), bool)
    }
    return seen.pop() if len(seen) == 1 else None


def health_words(points: Sequence[ResultPoint]) -> tuple[int, int, list[str]]:
    """How many points saw only HEALTH_OK, how many recorded any health, and what the others saw."""
    good, known = 0, 0
    others: Counter[str] = Counter()
    for point in points:
        seen = [_health(h) for h in (point.health_before, point.health_after) if h]
        words = [word for word in seen if word]
        if not words:
            continue
        known += 1
        bad = [word for word in words if word != "HEALTH_OK"]
        good += not bad
        others.update(dict.fromkeys(bad))
    return good, known, [f"{word} ({count_of(count, 'point')})" for word, count in others.most_common(4)]


def interrupted(facts: ArchiveFacts) -> bool:
    """Whether the last call of the program did not come to its end."""
    return bool(facts.sessions) and _time(facts.sessions[-1].get("ended_unix_s")) is None


def _health(health: Mapping[str, Any]) -> str | None:
    word = health.get("health", health.get("status"))
    if not isinstance(word, str):
        return None
    checks = _mapping(health.get("checks"))
    if checks and word != "HEALTH_OK":
        word = f"{word}: {', '.join(sorted(str(name) for name in checks))}"
    return f"{word}, with background work" if health.get("background_work") else word


def _when(facts: ArchiveFacts, points: Sequence[ResultPoint]) -> Iterator[tuple[str, str]]:
    starts = [p.started_s for p in points if p.started_s is not None]
    ends = [p.ended_s for p in points if p.ended_s is not None]
    starts += [t for s in facts.sessions if (t := _time(s.get("started_unix_s"))) is not None]
    ends += [t for s in facts.sessions if (t := _time(s.get("ended_unix_s"))) is not None]
    if not starts or not ends:
        return
    sessions = f", in {len(facts.sessions)} sessions" if len(facts.sessions) > 1 else ""
    yield "Ran", f"{moment(min(starts))} to {moment(max(ends))} ({duration(max(ends) - min(starts))}{sessions})"


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e11 else None


def _host_rows(facts: ArchiveFacts, points: Sequence[ResultPoint]) -> Iterator[tuple[str, str]]:
    hosts: dict[str, Mapping[str, Any]] = {}
    for session in facts.sessions:
        for name, facts_of_host in _mapping(session.get("hosts")).items():
            hosts[str(name)] = _mapping(facts_of_host)
    clients = sorted({i.host for p in points for i in p.instances})
    if clients:
        shown = ", ".join(clients[:_MAX_HOSTS_SHOWN]) + (", …" if len(clients) > _MAX_HOSTS_SHOWN else "")
        volumes = max((len({(i.host, i.number) for i in p.instances}) for p in points if p.instances), default=0)
        yield "Clients", f"{count_of(len(clients), 'host')} ({shown}), up to {count_of(volumes, 'instance')} at once"
    machines = Counter(text for host in clients if (text := _machine(hosts.get(host, {}))))
    if machines:
        yield (
            "Client machines",
            "; ".join(
                text if len(machines) == 1 and count == len(clients) else f"{count} × {text}"
                for text, count in machines.most_common()
            ),
        )
    tools: dict[str, set[str]] = {}
    for host in hosts.values():
        for tool, version in _mapping(host.get("programs")).items():
            tools.setdefault(str(tool), set()).add(str(version))
    for of_host in facts.versions.values():
        for tool, version in _mapping(of_host).items():
            tools.setdefault(str(tool), set()).add(str(version))
    if tools:
        yield "Tools", "; ".join(_tool(tool, versions) for tool, versions in sorted(tools.items()))


def _tool(name: str, versions: set[str]) -> str:
    shown = ", ".join(sorted(versions))
    shown = shown if shown.startswith(name) else f"{name} {shown}"
    return f"{shown} (they differ!)" if len(versions) > 1 else shown


def _machine(host: Mapping[str, Any]) -> str:
    parts = []
    if isinstance(host.get("cpu_model"), str) and host["cpu_model"]:
        parts.append(host["cpu_model"])
    if isinstance(host.get("cpu_count"), int):
        parts.append(f"{host['cpu_count']} CPUs")
    if isinstance(host.get("memory_bytes"), int):
        parts.append(bytes_text(host["memory_bytes"]))
    parts += [host[name] for name in ("distribution", "kernel") if isinstance(host.get(name), str) and host[name]]
    return ", ".join(parts)


def _ceph_rows(facts: ArchiveFacts) -> Iterator[tuple[str, str]]:
    ceph: dict[str, Any] = {}
    for session in facts.sessions:
        ceph.update(_mapping(session.get("ceph")))
    overall = _mapping(_mapping(ceph.get("versions")).get("overall"))
    if overall:
        versions = "; ".join(f"{_short_version(str(v))} ({n} daemons)" for v, n in overall.items())
        yield "Ceph", versions + (" (they differ!)" if len(overall) > 1 else "")
    if isinstance(ceph.get("fsid"), str):
        yield "Cluster", ", ".join([ceph["fsid"], *_osds(ceph.get("osd_tree"))])
    pools: dict[str, Any] = {}
    profiles: dict[str, Any] = {}
    for volumes in (v for session in facts.sessions for v in _each(session.get("volumes"))):
        pools.update(_mapping(volumes.get("pools")))
        profiles.update(_mapping(volumes.get("erasure_profiles")))
    described = [text for pool in _each(pools) if (text := _pool(pool))]
    if described:
        yield "Pools", "; ".join(described)
    for name, profile in profiles.items():
        if isinstance(profile, Mapping):
            yield "Erasure profile", f"{name}: " + ", ".join(f"{k}={v}" for k, v in profile.items())


def _short_version(version: str) -> str:
    """ "ceph version 16.2.15 (6e6…) pacific (stable)" → "16.2.15 pacific (stable)"."""
    words = [word for word in version.removeprefix("ceph version ").split() if not _is_commit(word)]
    return " ".join(words)


def _is_commit(word: str) -> bool:
    inner = word.strip("()")
    return len(inner) >= 20 and all(c in "0123456789abcdef" for c in inner)


def _osds(tree: object) -> list[str]:
    nodes = _mapping(tree).get("nodes")
    if not isinstance(nodes, list):
        return []
    osds = [node for node in nodes if isinstance(node, Mapping) and node.get("type") == "osd"]
    hosts = sum(1 for node in nodes if isinstance(node, Mapping) and node.get("type") == "host")
    down = sum(1 for osd in osds if osd.get("status") != "up")
    classes = sorted({str(osd["device_class"]) for osd in osds if osd.get("device_class")})
    text = f"{count_of(len(osds), 'OSD')} on {count_of(hosts, 'host')}"
    return [text + (f" ({', '.join(classes)})" if classes else "") + (f", {down} down" if down else "")]


def _pool(pool: Mapping[str, Any]) -> str:
    name = pool.get("pool_name", pool.get("name"))
    if not isinstance(name, str):
        return ""
    kind = {1: "replicated", 3: "erasure"}.get(pool.get("type", 0), pool.get("kind"))
    parts = []
    if kind == "erasure":
        parts.append(f"erasure coded ({pool.get('erasure_code_profile') or pool.get('erasure_profile') or 'profile?'})")
    elif isinstance(pool.get("size"), int):
        parts.append(f"replication {pool['size']}")
    if isinstance(pool.get("pg_num"), int):
        parts.append(f"{pool['pg_num']} PGs")
    return f"{name}: {', '.join(parts)}" if parts else name


def _each(value: object) -> list[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        return [{"name": name, **item} for name, item in value.items() if isinstance(item, Mapping)]
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _last(facts: ArchiveFacts, name: str) -> Any:
    return next((session[name] for session in reversed(facts.sessions) if session.get(name)), None)
