"""The `cluster:` section: hosts by role, profiles, tools, and everything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.options import Kind, Option, Settings, Value
from cluster.hosts import Host
from orchestrator.model import ClusterPlan, Notice
from orchestrator.plan_options import (
    CLUSTER_OPTIONS,
    DAEMON_ROLES,
    ERASURE_PROFILE_OPTIONS,
    HOST_OPTIONS,
    KEY_ALIASES,
    KNOWN_TOOLS,
    POOL_PROFILE_OPTIONS,
    PROFILE_SECTIONS,
)
from orchestrator.plan_values import Rejected, ValueReader, nearest, raw_text, shown
from orchestrator.yaml_source import Entry, ListNode, MappingNode, Position, ScalarNode, ScalarType

TOOL_SUFFIX = "_cmd"
DEFAULT_PROFILE = "default"


@dataclass(slots=True)
class NoticeBook:
    """Notices in the order they came up, one for each key."""

    source: Path
    notices: dict[str, Notice] = field(default_factory=dict)

    def once(self, key: str, position: Position, text: str) -> None:
        self.notices.setdefault(key, Notice(f"{self.source}:{position.line}", text))

    def no_effect(self, option: Option, position: Position) -> None:
        self.once(option.name, position, f"{option.name} has no effect here: {option.no_effect}")


def by_name(options: tuple[Option, ...]) -> dict[str, Option]:
    return {option.name: option for option in options}


def defaults(options: tuple[Option, ...]) -> dict[str, Value]:
    """What every option holds that the plan does not set; options without effect hold nothing."""
    return {option.name: option.default for option in options if option.no_effect is None}


def read_level(
    reader: ValueReader,
    notices: NoticeBook,
    entries: Mapping[str, tuple[Entry, Option]],
) -> dict[str, Value]:
    """The values of one mapping's known keys, in the plan's order; keys without effect are reported and left out."""
    values: dict[str, Value] = {}
    for name, (entry, option) in entries.items():
        if option.no_effect is not None:
            notices.no_effect(option, entry.position)
        else:
            values[name] = reader.value(entry, option)
    return values


def read_cluster(reader: ValueReader, notices: NoticeBook, section: MappingNode) -> ClusterPlan:
    """The section with every default filled in; problems go to `reader`."""
    hosts: dict[str, Entry] = {}
    profiles: dict[str, Entry] = {}
    commands: dict[str, tuple[str, ...]] = {}
    others: dict[str, tuple[Entry, Option]] = {}
    host_names = by_name(HOST_OPTIONS)
    options = by_name(CLUSTER_OPTIONS)
    given = {entry.key for entry in section.entries}
    for entry in section.entries:
        name = KEY_ALIASES.get(entry.key, entry.key)
        if name != entry.key and name in given:
            continue  # the newer name of the same thing is there too
        if name in host_names:
            hosts[name] = entry
        elif name in PROFILE_SECTIONS:
            profiles[name] = entry
        elif name in options:
            others[name] = (entry, options[name])
        elif name.endswith(TOOL_SUFFIX) and _is_tool(name):
            commands[name.removesuffix(TOOL_SUFFIX)] = _command(reader, entry)
        else:
            tools = [tool + TOOL_SUFFIX for tool in KNOWN_TOOLS]
            reader.unknown_key(entry, [*host_names, *PROFILE_SECTIONS, *options, *tools], "cluster")

    settings = {**defaults(CLUSTER_OPTIONS), **read_level(reader, notices, others)}
    roles = {role: _hosts(reader, entry) for role, entry in hosts.items()}
    daemons = {role: roles.get(role, {}) for role in DAEMON_ROLES}
    clients = _clients(reader, hosts, roles, section.position, throwaway=settings["use_existing"] is False)
    erasure_profiles = _erasure_profiles(reader, profiles.get("erasure_profiles"))
    pool_profiles = _pool_profiles(reader, notices, profiles.get("pool_profiles"), erasure_profiles)
    for key in ("cephfs_pools", "rgw_pools"):
        if key in others:
            _check_pool_uses(reader, others[key][0], pool_profiles)
    return ClusterPlan(
        clients=clients,
        head=_head(reader, hosts, roles, clients),
        daemons=daemons,
        commands=commands,
        pool_profiles=pool_profiles,
        erasure_profiles=erasure_profiles,
        settings=Settings(settings),
    )


def check_profile(
    reader: ValueReader, position: Position, key: str, name: str, known: Mapping[str, Settings], section: str
) -> None:
    """Reports a profile that `section` does not have."""
    if name in known:
        return
    guess = nearest(name, known)
    remedy = f"did you mean {guess!r}?" if guess else f"add {shown(name)} to {section} in the cluster section"
    reader.problem(position, f"{key}: there is no {shown(name)} in {section}", remedy)


def _is_tool(key: str) -> bool:
    known = [tool + TOOL_SUFFIX for tool in KNOWN_TOOLS]
    # A near miss of a tool people use is a typo, not another tool.
    return key in known or (key != TOOL_SUFFIX and nearest(key, known, cutoff=0.87) is None)


def _command(reader: ValueReader, entry: Entry) -> tuple[str, ...]:
    words = reader.value(entry, Option(entry.key, Kind.COMMAND, default=(entry.key,), sweep=False))
    return tuple(str(word) for word in words) if isinstance(words, tuple) else ()


def _hosts(reader: ValueReader, entry: Entry) -> dict[Host, tuple[str, ...]]:
    """Host → daemon ids, from a name, a list of names, or a mapping host → daemons."""
    hosts: dict[Host, tuple[str, ...]] = {}
    for text, position, ids in _named_hosts(reader, entry):
        parsed = _host(reader, entry.key, text, position)
        if parsed is None:
            continue
        if any(parsed.name == host.name for host in hosts):
            reader.problem(
                position, f"{entry.key}: the host {shown(parsed.name)} is named twice", "name each host once"
            )
            continue
        hosts[parsed] = ids
    return hosts


def _named_hosts(reader: ValueReader, entry: Entry) -> Iterator[tuple[str, Position, tuple[str, ...]]]:
    node = entry.value
    if isinstance(node, MappingNode):
        for host in node.entries:
            yield host.key, host.position, _daemon_ids(reader, host)
        return
    if isinstance(node, ScalarNode) and node.type is ScalarType.NULL:
        return
    for item in node.items if isinstance(node, ListNode) else (node,):
        if isinstance(item, ScalarNode):
            yield from ((word, item.position, ()) for word in reader.words(item, entry.key))
        else:
            reader.problem(item.position, f"{entry.key}: a host name is expected", "write the name of one host")


def _daemon_ids(reader: ValueReader, host: Entry) -> tuple[str, ...]:
    node = host.value
    if isinstance(node, MappingNode):
        return tuple(daemon.key for daemon in node.entries)
    if isinstance(node, ScalarNode) and node.type is ScalarType.NULL:
        return ()
    return reader.words(node, host.key)


def _host(reader: ValueReader, key: str, text: str, position: Position) -> Host | None:
    if "," in text:
        reader.problem(
            position, f"{key}: {shown(text)} names several hosts in one text", "write a list: [host1, host2]"
        )
        return None
    try:
        return Host.parse(text)
    except ValueError as error:
        reader.problem(position, f"{key}: {error}", "write host, user@host, host:port or user@host:port")
        return None


def _clients(
    reader: ValueReader,
    entries: Mapping[str, Entry],
    roles: Mapping[str, Mapping[Host, tuple[str, ...]]],
    section: Position,
    *,
    throwaway: bool,
) -> tuple[Host, ...]:
    entry = entries.get("clients")
    if entry is None:
        if throwaway:
            return (Host("localhost"),)
        reader.problem(section, "cluster has no clients", "name the hosts that make the load: 'clients: [host]'")
        return ()
    clients = tuple(roles["clients"])
    if not clients and not _was_reported(reader, entry):
        reader.problem(entry.position, "clients names no host", "name at least one: 'clients: [host]'")
    return clients


def _was_reported(reader: ValueReader, entry: Entry) -> bool:
    return any(problem.what.startswith(f"{entry.key}:") for problem in reader.problems)


def _head(
    reader: ValueReader,
    entries: Mapping[str, Entry],
    roles: Mapping[str, Mapping[Host, tuple[str, ...]]],
    clients: tuple[Host, ...],
) -> Host | None:
    named = tuple(roles.get("head", {}))
    if len(named) > 1:
        reader.problem(entries["head"].position, "head names several hosts", "name one host")
    return next(iter((*named, *roles.get("mons", {}), *clients)), None)


def _pool_profiles(
    reader: ValueReader, notices: NoticeBook, entry: Entry | None, erasure_profiles: Mapping[str, Settings]
) -> dict[str, Settings]:
    base = defaults(POOL_PROFILE_OPTIONS)
    profiles = {DEFAULT_PROFILE: Settings(base)}
    if entry is None:
        return profiles
    for profile in reader.mapping(entry).entries:
        where = f"pool profile {shown(profile.key)}"
        entries = reader.options(reader.mapping(profile), by_name(POOL_PROFILE_OPTIONS), where)
        values = {**base, **read_level(reader, notices, entries)}
        _check_placement_groups(reader, values, entries)
        _check_replication(reader, values, entries, profile)
        erasure = values["erasure_profile"]
        if isinstance(erasure, str):
            position = entries["erasure_profile"][0].value.position
            check_profile(reader, position, "erasure_profile", erasure, erasure_profiles, "erasure_profiles")
        profiles[profile.key] = Settings(values)
    return profiles


def _check_placement_groups(
    reader: ValueReader, values: dict[str, Value], entries: Mapping[str, tuple[Entry, Option]]
) -> None:
    groups, placed = values["pg_size"], values["pgp_size"]
    if "pgp_size" not in entries:
        values["pgp_size"] = groups
    elif isinstance(groups, int) and isinstance(placed, int) and placed > groups:
        position = entries["pgp_size"][0].value.position
        reader.problem(position, f"pgp_size {placed} is larger than pg_size {groups}", f"write {groups} or less")


def _check_replication(
    reader: ValueReader, values: dict[str, Value], entries: Mapping[str, tuple[Entry, Option]], profile: Entry
) -> None:
    replication = values["replication"]
    if replication is None:
        return
    node = entries["replication"][0].value
    if isinstance(replication, str) and replication.isdecimal():
        replication = values["replication"] = int(replication)
    if replication == "erasure":
        if values["erasure_profile"] is None:
            remedy = "add 'erasure_profile: NAME', a name from erasure_profiles"
            reader.problem(
                node.position, f"pool profile {shown(profile.key)} is erasure without erasure_profile", remedy
            )
    elif replication == "replicated":
        values["replication"] = None
    elif isinstance(replication, bool) or not isinstance(replication, int) or replication < 1:
        text = node.text if isinstance(node, ScalarNode) else "this"
        reader.problem(node.position, f"replication: {shown(text)} is not known", "write a number of copies or erasure")


def _erasure_profiles(reader: ValueReader, entry: Entry | None) -> dict[str, Settings]:
    base = defaults(ERASURE_PROFILE_OPTIONS)
    profiles = {DEFAULT_PROFILE: Settings(base)}
    if entry is None:
        return profiles
    known = by_name(ERASURE_PROFILE_OPTIONS)
    for profile in reader.mapping(entry).entries:
        values = dict(base)
        for fact in reader.mapping(profile).entries:
            if fact.key in known:
                values[fact.key] = reader.value(fact, known[fact.key])
            elif fact.key in {"k", "m"}:
                what = f"unknown key {shown(fact.key)} in erasure profile {shown(profile.key)}"
                reader.problem(fact.position, what, f"did you mean 'erasure_{fact.key}'?")
            else:
                try:
                    values[fact.key] = raw_text(fact.value)
                except Rejected as rejected:
                    reader.problem(fact.value.position, f"{fact.key}: {rejected.what}", rejected.remedy)
        profiles[profile.key] = Settings(values)
    return profiles


def _check_pool_uses(reader: ValueReader, entry: Entry, pool_profiles: Mapping[str, Settings]) -> None:
    if not isinstance(entry.value, MappingNode):
        return
    for use in entry.value.entries:
        if isinstance(use.value, ScalarNode):
            name = use.value.text
            check_profile(reader, use.value.position, use.key, name, pool_profiles, "pool_profiles")
