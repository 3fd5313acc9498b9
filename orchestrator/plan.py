"""Reads a test plan: YAML in, a validated `TestPlan` out, or every mistake at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.options import Option, Settings
from orchestrator.canonical import digest
from orchestrator.model import BenchmarkPlan, ClusterPlan, TestPlan
from orchestrator.plan_benchmarks import Names, read_benchmarks
from orchestrator.plan_cluster import NoticeBook, by_name, check_profile, defaults, read_cluster, read_level
from orchestrator.plan_options import (
    ENDPOINT_OPTIONS,
    IGNORED_SECTIONS,
    MONITOR_NAMES,
    MONITOR_OPTIONS,
    REQUIRED_SECTIONS,
    TOP_LEVEL,
)
from orchestrator.plan_secrets import redacted
from orchestrator.plan_values import ValueReader, nearest, shown
from orchestrator.points import count_points
from orchestrator.yaml_source import Entry, MappingNode, Position, Problem, read_document

MAX_POINTS = 100_000
"""More points than anybody has cluster time for: a plan with more has a slip in its lists."""


_WITHOUT_EFFECT_ON_RESULTS = frozenset(
    {"tmp_dir", "archive_dir", "pid_dir", "health_wait", "user", "on_host_lost", "host_lost_timeout"}
)
"""Cluster settings that may change between two calls with one archive; so may the `<tool>_cmd` keys."""


class PlanErrors(Exception):
    """Everything wrong with a plan, in the file's order. `str()` is one line a problem: `file:line:column: what; how to
    mend`."""

    def __init__(self, source: Path, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.position))
        self.lines = tuple(
            _on_one_line(
                f"{source}:{problem.position.line}:{problem.position.column}: {problem.what}; {problem.remedy}"
            )
            for problem in self.problems
        )
        super().__init__("\n".join(self.lines))


def _on_one_line(text: str) -> str:
    """Keys and names of a plan may hold line breaks and terminal escapes; a message shows them as escapes."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def read_plan(path: Path) -> TestPlan:
    """The plan in this file. Raises PlanErrors."""
    document = read_document(path)
    reader = ValueReader(list(document.problems))
    if document.root is None:
        raise PlanErrors(path, reader.problems)
    if not isinstance(document.root, MappingNode):
        remedy = "write the sections 'cluster:' and 'benchmarks:'"
        reader.problem(document.root.position, "a test plan holds sections", remedy)
        raise PlanErrors(path, reader.problems)

    notices = NoticeBook(path)
    sections = _sections(reader, notices, document.root)
    # A missing section is one mistake; what it then lacks is not reported again.
    cluster_reader = reader if "cluster" in sections else ValueReader()
    cluster = read_cluster(cluster_reader, notices, _mapping_of(reader, sections, "cluster"))
    monitors = _monitoring_profiles(reader, notices, _mapping_of(reader, sections, "monitoring_profiles"))
    endpoints = _client_endpoints(reader, notices, _mapping_of(reader, sections, "client_endpoints"), cluster)
    benchmarks: tuple[BenchmarkPlan, ...] = ()
    if "benchmarks" in sections:
        names = Names(cluster.pool_profiles, endpoints)
        benchmarks = read_benchmarks(reader, notices, sections["benchmarks"], names)
        _check_size(reader, sections["benchmarks"].position, cluster, benchmarks)
    if reader.problems:
        raise PlanErrors(path, reader.problems)
    return TestPlan(
        source=path,
        shown_text=redacted(document),
        digest=_digest(cluster, benchmarks, monitors, endpoints),
        cluster=cluster,
        benchmarks=benchmarks,
        monitoring_profiles=monitors,
        client_endpoints=endpoints,
        notices=tuple(notices.notices.values()),
    )


def _sections(reader: ValueReader, notices: NoticeBook, root: MappingNode) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for entry in root.entries:
        if entry.key in IGNORED_SECTIONS:
            notices.once(entry.key, entry.position, f"{entry.key} has no effect here: {IGNORED_SECTIONS[entry.key]}")
        elif entry.key in TOP_LEVEL:
            found[entry.key] = entry
        else:
            guess = nearest(entry.key, TOP_LEVEL)
            remedy = f"did you mean {guess!r}?" if guess else f"the sections are {', '.join(TOP_LEVEL)}"
            reader.problem(entry.position, f"unknown section {shown(entry.key)}", remedy)
    for name in REQUIRED_SECTIONS:
        if name not in found:
            reader.problem(Position(1, 1), f"the section {name!r} is missing", f"add '{name}:' at the left margin")
    return found


def _mapping_of(reader: ValueReader, sections: Mapping[str, Entry], name: str) -> MappingNode:
    return reader.mapping(sections[name]) if name in sections else MappingNode(Position(1, 1), ())


def _monitoring_profiles(reader: ValueReader, notices: NoticeBook, section: MappingNode) -> dict[str, Settings]:
    profiles: dict[str, Settings] = {}
    for entry in section.entries:
        if entry.key not in MONITOR_NAMES:
            guess = nearest(entry.key, MONITOR_NAMES)
            remedy = f"did you mean {guess!r}?" if guess else f"the monitors are {', '.join(MONITOR_NAMES)}"
            reader.problem(entry.position, f"unknown monitor {shown(entry.key)}", remedy)
            continue
        profiles[entry.key] = _settings(reader, notices, entry, MONITOR_OPTIONS, f"monitoring profile {entry.key}")
    return profiles


def _client_endpoints(
    reader: ValueReader, notices: NoticeBook, section: MappingNode, cluster: ClusterPlan
) -> dict[str, Settings]:
    endpoints: dict[str, Settings] = {}
    for entry in section.entries:
        where = f"client endpoints {shown(entry.key)}"
        settings = _settings(reader, notices, entry, ENDPOINT_OPTIONS, where)
        given = {item.key: item.value.position for item in reader.mapping(entry).entries}
        if "driver" not in given:
            reader.problem(entry.position, f"{where} has no driver", "add 'driver: librbd' or another one")
        for key in ("pool_profile", "data_pool_profile", "recov_pool_profile"):
            name = settings[key]
            if key in given and isinstance(name, str):
                check_profile(reader, given[key], key, name, cluster.pool_profiles, "pool_profiles")
        endpoints[entry.key] = settings
    return endpoints


def _settings(
    reader: ValueReader, notices: NoticeBook, entry: Entry, options: tuple[Option, ...], where: str
) -> Settings:
    entries = reader.options(reader.mapping(entry), by_name(options), where)
    return Settings({**defaults(options), **read_level(reader, notices, entries)})


def _check_size(
    reader: ValueReader, position: Position, cluster: ClusterPlan, benchmarks: tuple[BenchmarkPlan, ...]
) -> None:
    points = count_points(cluster.settings.integer("iterations"), benchmarks)
    if points > MAX_POINTS:
        what = f"the plan stands for up to {points} points, more than {MAX_POINTS}"
        reader.problem(position, what, "shorten the lists: every combination of their values is run")


def _digest(
    cluster: ClusterPlan,
    benchmarks: tuple[BenchmarkPlan, ...],
    monitors: Mapping[str, Settings],
    endpoints: Mapping[str, Settings],
) -> str:
    return digest(
        {
            "cluster": {
                "clients": cluster.clients,
                "head": cluster.head,
                "daemons": {
                    role: sorted(([host.name, host.user, host.port], ids) for host, ids in hosts.items())
                    for role, hosts in cluster.daemons.items()
                },
                "pool_profiles": cluster.pool_profiles,
                "erasure_profiles": cluster.erasure_profiles,
                "settings": {
                    name: value for name, value in cluster.settings.items() if name not in _WITHOUT_EFFECT_ON_RESULTS
                },
            },
            # The order of benchmarks and workloads is meant: one may prepare the next.
            "benchmarks": [
                [plan.name, plan.values, [[workload.name, workload.values] for workload in plan.workloads]]
                for plan in benchmarks
            ],
            "monitoring_profiles": monitors,
            "client_endpoints": endpoints,
        }
    )
