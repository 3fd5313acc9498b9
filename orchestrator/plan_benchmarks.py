"""The `benchmarks:` section: each benchmark's own level and its workloads."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from benchmarks.model import Benchmark
from benchmarks.options import Option, Settings, Value
from benchmarks.registry import all_benchmarks
from orchestrator.model import BenchmarkPlan, Workload
from orchestrator.plan_cluster import NoticeBook, by_name, check_profile, read_level
from orchestrator.plan_values import ValueReader, nearest, shown
from orchestrator.yaml_source import Entry, ListNode, MappingNode, Node, ScalarNode, ScalarType

WORKLOADS = "workloads"
MAX_NAME_BYTES = 200
RESERVED_NAMES = frozenset({".", "..", "benchmark_config.yaml"})
"""Names that mean something else in the folder where a workload's results go."""
POOL_PROFILE_KEYS = ("pool_profile", "data_pool_profile", "recov_pool_profile")


@dataclass(frozen=True, slots=True)
class Names:
    """What benchmarks may refer to."""

    pool_profiles: Mapping[str, Settings]
    client_endpoints: Collection[str]


def read_benchmarks(
    reader: ValueReader, notices: NoticeBook, section: Entry, names: Names
) -> tuple[BenchmarkPlan, ...]:
    """The benchmarks in the plan's order; problems go to `reader`."""
    known = all_benchmarks()
    entries = reader.mapping(section).entries
    if not entries and isinstance(section.value, MappingNode | ScalarNode):
        reader.problem(section.position, "benchmarks is empty", f"name at least one: {', '.join(sorted(known))}")
    plans = []
    for entry in entries:
        benchmark = known.get(entry.key)
        if benchmark is None:
            guess = nearest(entry.key, known)
            remedy = f"did you mean {guess!r}?" if guess else f"the benchmarks are {', '.join(sorted(known))}"
            reader.problem(entry.position, f"unknown benchmark {shown(entry.key)}", remedy)
            continue
        plans.append(_Level(reader, notices, names, benchmark).read(entry))
    return tuple(plans)


@dataclass(frozen=True, slots=True)
class _Level:
    reader: ValueReader
    notices: NoticeBook
    names: Names
    benchmark: Benchmark

    def read(self, entry: Entry) -> BenchmarkPlan:
        mapping = self.reader.mapping(entry)
        workloads: Entry | None = None
        own: list[Entry] = []
        for item in mapping.entries:
            if item.key == WORKLOADS:
                workloads = item
            else:
                own.append(item)
        options = by_name(self.benchmark.options)
        elsewhere = {option.name: "in a workload" for option in self.benchmark.workload_options or ()}
        values = self._values(MappingNode(mapping.position, tuple(own)), options, self.benchmark.name, elsewhere)
        if "client_endpoints" in options and "client_endpoints" not in values:
            remedy = "add 'client_endpoints: NAME', a name from the section client_endpoints"
            self.reader.problem(entry.position, f"{entry.key} has no client_endpoints to run on", remedy)
        return BenchmarkPlan(entry.key, values, self._workloads(workloads))

    def _workloads(self, entry: Entry | None) -> tuple[Workload, ...]:
        if entry is None:
            return ()
        extra = self.benchmark.workload_options
        if extra is None:
            self.reader.problem(entry.position, f"{self.benchmark.name} takes no workloads", "remove them")
            return ()
        mapping = self.reader.mapping(entry)
        if not mapping.entries and (isinstance(entry.value, MappingNode) or _is_null(entry.value)):
            self.reader.problem(entry.position, "workloads is empty", "name a workload, or remove the line")
        options = by_name((*self.benchmark.options, *extra))
        folders: dict[str, str] = {}
        workloads = []
        for item in mapping.entries:
            self._check_name(item, folders)
            where = f"workload {shown(item.key)}"
            workloads.append(Workload(item.key, self._values(self.reader.mapping(item), options, where, {})))
        return tuple(workloads)

    def _check_name(self, entry: Entry, folders: dict[str, str]) -> None:
        name = entry.key
        reason = None
        if name in RESERVED_NAMES:
            reason = "that name has a meaning of its own"
        elif "/" in name:
            reason = "it contains '/'"
        elif any(unicodedata.category(char) == "Cc" for char in name):
            reason = "it contains a control character"
        elif len(name.encode()) > MAX_NAME_BYTES:
            reason = f"it is longer than {MAX_NAME_BYTES} bytes"
        if reason is not None:
            what = f"the workload name {shown(name)} cannot be a folder's name: {reason}"
            self.reader.problem(entry.position, what, "choose another name")
        folder = unicodedata.normalize("NFC", name)
        if folder in folders:
            what = f"the workload {shown(name)} would share a folder with {shown(folders[folder])}"
            self.reader.problem(entry.position, what, "choose another name")
        folders[folder] = name

    def _values(
        self, mapping: MappingNode, options: Mapping[str, Option], where: str, elsewhere: Mapping[str, str]
    ) -> dict[str, Value]:
        entries = self.reader.options(mapping, options, where, elsewhere)
        values = read_level(self.reader, self.notices, entries)
        for key in POOL_PROFILE_KEYS:
            for name in _texts(values.get(key)):
                position = entries[key][0].value.position
                check_profile(self.reader, position, key, name, self.names.pool_profiles, "pool_profiles")
        for name in _texts(values.get("client_endpoints")):
            if name not in self.names.client_endpoints:
                guess = nearest(name, self.names.client_endpoints)
                remedy = f"did you mean {guess!r}?" if guess else f"add {shown(name)} to the section client_endpoints"
                position = entries["client_endpoints"][0].value.position
                self.reader.problem(position, f"there is no {shown(name)} in client_endpoints", remedy)
        self._check_depths(entries)
        self._note_repeats(entries, values)
        return values

    def _check_depths(self, entries: Mapping[str, tuple[Entry, Option]]) -> None:
        given = [entries[key][0] for key in ("iodepth", "total_iodepth") if key in entries]
        given = [entry for entry in given if not _is_null(entry.value)]
        if len(given) == 2:
            position = max(entry.position for entry in given)
            what = "iodepth and total_iodepth are both given"
            self.reader.problem(position, what, "keep iodepth for each volume, or total_iodepth for all together")

    def _note_repeats(self, entries: Mapping[str, tuple[Entry, Option]], values: Mapping[str, Value]) -> None:
        for key, value in values.items():
            node = entries[key][0].value
            if entries[key][1].takes_axis and isinstance(node, ListNode) and isinstance(value, tuple):
                repeats = len(node.items) - len(value)
                if repeats > 0:
                    text = f"{key} names the same value more than once; each is measured once an iteration"
                    self.notices.once(f"{key}:{node.position}", entries[key][0].position, text)


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.type is ScalarType.NULL


def _texts(value: Value) -> tuple[str, ...]:
    items = value if isinstance(value, tuple) else (value,)
    return tuple(item for item in items if isinstance(item, str))
