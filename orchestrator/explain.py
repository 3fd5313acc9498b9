"""`--dry-run`: what a plan would do, touching nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.model import Benchmark, RunnableBenchmark
from cluster.command import quote_command
from orchestrator.model import RunPoint, TestPlan
from orchestrator.progress import duration_text, point_title, table
from orchestrator.runner import expected_s, instance_commands, point_directory


def explain(
    plan: TestPlan,
    points: Sequence[RunPoint],
    benchmarks: Mapping[str, Benchmark],
    runnable: Mapping[str, RunnableBenchmark],
    clients: Sequence[str],
    directory: str,
    ceph_conf: str | None,
) -> Iterator[str]:
    """The lines of the explanation: points, instances with queue depth, exact commands, expected duration."""
    iterations = plan.cluster.settings.integer("iterations")
    yield f"Plan {plan.source}: {len(points)} points on {', '.join(clients)}"
    yield f"Cluster: {_cluster_text(plan)}"
    for notice in plan.notices:
        yield f"note: {notice}"
    for planned in plan.benchmarks:
        if (why := benchmarks[planned.name].unavailable) is not None:
            yield f"note: benchmark {planned.name} cannot run: {why}"
    known = [point for point in points if point.benchmark in runnable]
    for index, point in enumerate(points, 1):
        yield ""
        yield f"[{index}/{len(points)}] {point_title(point, iterations)}"
        yield f"  archived in  results/{point.folder}"
        if point.benchmark not in runnable:
            yield f"  settings     {', '.join(f'{k} {v}' for k, v in point.settings.items() if v is not None)}"
            continue
        yield from _launch_lines(point, runnable[point.benchmark], clients, directory, ceph_conf)
    yield ""
    yield from _summary(points, known, runnable)


def _launch_lines(
    point: RunPoint, benchmark: RunnableBenchmark, clients: Sequence[str], directory: str, ceph_conf: str | None
) -> Iterator[str]:
    for problem in benchmark.settings_problems(point.settings):
        yield f"  problem      {problem}"
    need = benchmark.need(point.settings, clients)
    instances = benchmark.instances(point.settings, need)
    ramp_s, time_s = benchmark.ramp_and_time_s(point.settings)
    measured = f"{time_s:g} s measured" if time_s is not None else "until its size is done"
    yield f"  time         {ramp_s:g} s ramp, {measured}{'' if point.reported else ' (preconditioning: not reported)'}"
    yield f"  queue depth  {sum(i.queue_depth for i in instances)} in all, over {len(instances)} instances"
    commands = instance_commands(benchmark, instances, point, point_directory(directory, point), ceph_conf)
    for instance in instances:
        yield (
            f"  {instance.host} output.{instance.number}: "
            f"image {instance.volume.image} in pool {instance.volume.pool}, "
            f"queue depth {instance.queue_depth} ({instance.numjobs} x {instance.iodepth})"
        )
        yield f"    {quote_command(commands[instance].argv, commands[instance].env)}"


def _summary(
    points: Sequence[RunPoint], known: Sequence[RunPoint], runnable: Mapping[str, RunnableBenchmark]
) -> Iterator[str]:
    rows: dict[tuple[str, str], list[RunPoint]] = {}
    for point in points:
        rows.setdefault((point.benchmark, point.workload or "-"), []).append(point)
    body = []
    for (benchmark, workload), group in rows.items():
        depths = list(dict.fromkeys(str(value) for point in group for _, value in point.setting))
        seconds = sum(expected_s(runnable[benchmark], point) for point in group) if benchmark in runnable else None
        expected = duration_text(seconds) if seconds is not None else "unknown"
        body.append((benchmark, workload, str(len(group)), ", ".join(depths) or "-", expected))
    yield table(body, ("benchmark", "workload", "points", "depths", "expected"))
    total = sum(expected_s(runnable[point.benchmark], point) for point in known)
    yield ""
    yield (
        f"Expected duration: {duration_text(total)} of measuring, "
        "and the time it takes to make ready and fill the volumes"
    )


def _cluster_text(plan: TestPlan) -> str:
    if plan.cluster.settings.flag("use_existing"):
        return "the existing one that the configuration file names"
    settings = plan.cluster.settings
    return (
        f"a throwaway one on this host: {settings.integer('osds_per_node')} OSDs, "
        f"{settings.text('osd_objectstore')}, removed at the end"
    )
