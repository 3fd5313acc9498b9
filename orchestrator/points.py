"""From a plan to its points: every combination of its lists, in the plan's order. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from benchmarks.options import Option, Settings, Value
from benchmarks.registry import all_benchmarks
from orchestrator.canonical import canonical_json, digest
from orchestrator.model import BenchmarkPlan, ClusterPlan, RunPoint, TestPlan

ITERATION_DIGITS = 8
COMBINATION_ID_LENGTH = 8
POINT_ID_LENGTH = 16
PRECONDITION = "precond"
"""In a workload's name: it prepares the volumes and is not reported."""

NUMJOBS = "numjobs"
IODEPTH = "iodepth"
TOTAL_IODEPTH = "total_iodepth"
DEPTHS = (TOTAL_IODEPTH, IODEPTH)
WIDE_KEYS = frozenset({"op_size"})
MAX_FOLDER_VALUE = 100

CLUSTER_FACTS = (
    "use_existing",
    "osds_per_node",
    "osd_objectstore",
    "osd_size",
    "osd_devices",
    "disable_balancer",
    "recovery_test",
)
"""Cluster settings that a result depends on."""
POOL_PROFILE_KEYS = ("pool_profile", "data_pool_profile", "recov_pool_profile")


class PointClash(Exception):
    """Two points would share an id or a folder: a defect of this program, stopped before it mixes results."""


def lay_out(plan: TestPlan) -> tuple[RunPoint, ...]:
    """The points in the order in which they run: iterations, then benchmarks, then each benchmark's own lists (the
    plan's last key fastest), then workloads, then each workload's lists (numjobs slowest, queue depth fastest).

    A list that every workload overrides makes no further points. Raises PointClash.
    """
    combination_ids = _CombinationIds()
    points = [
        point
        for iteration in range(plan.cluster.settings.integer("iterations"))
        for benchmark in plan.benchmarks
        for point in _points_of(plan, benchmark, iteration, combination_ids)
    ]
    _check_unique("id", [point.id for point in points])
    _check_unique("folder", [str(point.folder) for point in points])
    return tuple(points)


def count_points(iterations: int, benchmarks: Sequence[BenchmarkPlan]) -> int:
    """An upper bound of the number of points, without laying them out."""
    total = 0
    for plan in benchmarks:
        levels = _Levels(plan)
        within = sum(math.prod(map(len, levels.axes(workload.values).values())) for workload in plan.workloads)
        total += math.prod(map(len, levels.axes(plan.values).values())) * (within if plan.workloads else 1)
    return iterations * total


class _Levels:
    """How a benchmark's options, its plan and a workload's values come together."""

    def __init__(self, plan: BenchmarkPlan) -> None:
        benchmark = all_benchmarks()[plan.name]
        self._own = _by_name(benchmark.options)
        self._all = _by_name((*benchmark.options, *(benchmark.workload_options or ())))

    def axes(self, values: Mapping[str, Value]) -> dict[str, tuple[Value, ...]]:
        """The lists among these values that are sweep axes, in the plan's order."""
        return {key: value for key, value in values.items() if isinstance(value, tuple) and self._all[key].takes_axis}

    def combination(self, chosen: Mapping[str, Value]) -> dict[str, Value]:
        """The benchmark's own level with every default."""
        return self._merge(self._own, chosen, {})

    def effective(self, chosen: Mapping[str, Value], workload: Mapping[str, Value]) -> dict[str, Value]:
        """What a point of a workload runs with: the workload's values over the benchmark's over the defaults."""
        return self._merge(self._all, chosen, workload)

    @staticmethod
    def _merge(
        options: Mapping[str, Option], lower: Mapping[str, Value], upper: Mapping[str, Value]
    ) -> dict[str, Value]:
        values = {name: option.default for name, option in options.items()}
        values.update(lower)
        values.update(upper)
        if all(key in options for key in DEPTHS):
            # Exactly one way to say the depth holds: the nearest one that is set.
            below = {key: value for key, value in lower.items() if key not in upper}
            given = [key for level in (upper, below) for key in DEPTHS if level.get(key) is not None]
            holds = given[0] if given else IODEPTH
            values[IODEPTH if holds == TOTAL_IODEPTH else TOTAL_IODEPTH] = None
            if values[holds] is None:
                values[holds] = options[holds].default
        return values


def _by_name(options: Sequence[Option]) -> dict[str, Option]:
    return {option.name: option for option in options if option.no_effect is None}


class _CombinationIds:
    """Gives equal combinations the same short id and different ones different ids."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, benchmark: str, combination: Mapping[str, Value]) -> str:
        meaning = canonical_json([benchmark, combination])
        known = self._ids.get(meaning)
        if known is not None:
            return known
        attempts = (
            digest([benchmark, combination, attempt] if attempt else [benchmark, combination])
            for attempt in itertools.count()
        )
        found = next(short for attempt in attempts if (short := attempt[:COMBINATION_ID_LENGTH]) not in self._taken)
        self._taken.add(found)
        self._ids[meaning] = found
        return found


def _points_of(
    plan: TestPlan, benchmark: BenchmarkPlan, iteration: int, combination_ids: _CombinationIds
) -> Iterator[RunPoint]:
    levels = _Levels(benchmark)
    seen: set[str] = set()
    for chosen in _choices(benchmark.values, levels.axes(benchmark.values)):
        combination = levels.combination(chosen)
        for workload, workload_values, swept in _workload_choices(benchmark, levels):
            settings = levels.effective(chosen, workload_values)
            meaning = canonical_json([workload, settings])
            if meaning in seen:
                continue
            seen.add(meaning)
            combination_id = combination_ids.of(benchmark.name, combination)
            folder = PurePosixPath(f"{iteration:0{ITERATION_DIGITS}d}", f"id-{combination_id}")
            if workload is not None:
                folder = folder.joinpath(workload, *_setting_folders(settings, swept))
            facts = [iteration, benchmark.name, workload, settings, _cluster_facts(plan.cluster, settings)]
            yield RunPoint(
                id=digest(facts)[:POINT_ID_LENGTH],
                iteration=iteration,
                benchmark=benchmark.name,
                combination_id=combination_id,
                workload=workload,
                settings=Settings(settings),
                combination=Settings(combination),
                setting=_setting(settings),
                folder=folder,
                reported=workload is None or PRECONDITION not in workload.lower(),
            )


def _choices(values: Mapping[str, Value], axes: Mapping[str, tuple[Value, ...]]) -> Iterator[dict[str, Value]]:
    """Every combination of the axes laid over the other values; the last axis changes fastest."""
    for combination in itertools.product(*axes.values()):
        yield {**values, **dict(zip(axes, combination, strict=True))}


def _workload_choices(
    benchmark: BenchmarkPlan, levels: _Levels
) -> Iterator[tuple[str | None, dict[str, Value], tuple[str, ...]]]:
    """(workload's name, its values, the keys it sweeps), one for each point that one combination has."""
    if not benchmark.workloads:
        yield None, {}, ()
        return
    for workload in benchmark.workloads:
        axes = _in_running_order(levels.axes(workload.values))
        swept = tuple(key for key, values in axes.items() if len(values) > 1)
        for values in _choices(workload.values, axes):
            yield workload.name, values, swept


def _in_running_order(axes: Mapping[str, tuple[Value, ...]]) -> dict[str, tuple[Value, ...]]:
    first = [key for key in axes if key == NUMJOBS]
    last = [key for key in axes if key in DEPTHS]
    between = [key for key in axes if key not in first and key not in last]
    return {key: axes[key] for key in (*first, *between, *last)}


def _setting_folders(settings: Mapping[str, Value], swept: Sequence[str]) -> Iterator[str]:
    if NUMJOBS in settings:
        yield _folder_name(NUMJOBS, settings[NUMJOBS])
    for key in swept:
        if key != NUMJOBS and key not in DEPTHS:
            yield _folder_name(key, settings[key])
    for key, value in _setting(settings):
        yield _folder_name(key, value)


def _folder_name(key: str, value: Value) -> str:
    """`key-value`, different for different values of one key."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, int):
        text = f"{value:08d}" if key in WIDE_KEYS else f"{value:03d}"
    else:
        # Percent-encoding keeps different texts apart, and "/" and control characters out.
        text = quote(str(value), safe=" +,:;=@()[]{}!$&'*")
        if len(text) > MAX_FOLDER_VALUE:
            text = text[: MAX_FOLDER_VALUE - POINT_ID_LENGTH] + digest(value)[:POINT_ID_LENGTH]
    return f"{key}-{text}"


def _setting(settings: Mapping[str, Value]) -> tuple[tuple[str, int], ...]:
    return tuple((key, value) for key in DEPTHS if isinstance(value := settings.get(key), int))


def _cluster_facts(cluster: ClusterPlan, settings: Mapping[str, Value]) -> dict[str, object]:
    names = sorted({name for key in POOL_PROFILE_KEYS if isinstance(name := settings.get(key), str)})
    pools = {name: cluster.pool_profiles[name] for name in names}
    erasures = sorted({name for pool in pools.values() if isinstance(name := pool["erasure_profile"], str)})
    return {
        "clients": [host.name for host in cluster.clients],
        "osds": sorted([host.name, *ids] for host, ids in cluster.daemons["osds"].items()),
        "pools": pools,
        "erasures": {name: cluster.erasure_profiles[name] for name in erasures},
        **{key: cluster.settings[key] for key in CLUSTER_FACTS},
    }


def _check_unique(what: str, values: Sequence[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise PointClash(f"two points have the {what} {value}; please report this as a defect")
        seen.add(value)
