"""Points: which ones a plan stands for, in which order, under which ids and folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.model import RunPoint, TestPlan
from orchestrator.plan import read_plan
from orchestrator.points import count_points, lay_out


def plan_of(text: str) -> TestPlan:
    with TemporaryDirectory() as folder:
        path = Path(folder, "plan.yaml")
        path.write_text(text, encoding="utf-8")
        return read_plan(path)


def points_of(librbdfio: str, cluster: str = "") -> tuple[RunPoint, ...]:
    return lay_out(plan_of(f"cluster: {{clients: [a, b]{cluster}}}\nbenchmarks:\n  librbdfio: {{{librbdfio}}}\n"))


def below_combination(point: RunPoint) -> str:
    return "/".join(point.folder.parts[2:])


def test_the_order_is_iterations_benchmarks_combinations_workloads_numjobs_depth() -> None:
    """Points run in the documented order, so that a cut-off run has whole curves."""
    text = """
cluster: {clients: a, iterations: 2}
benchmarks:
  radosbench: {op_size: [8k, 4k], concurrent_ops: [1, 2]}
  librbdfio:
    vol_size: [1024, 2048]
    workloads:
      w: {total_iodepth: [1, 16], rwmixread: [70, 30], numjobs: [1, 2]}
      precondition: {mode: write}
"""
    points = lay_out(plan_of(text))
    assert [point.iteration for point in points] == [0] * 22 + [1] * 22
    assert [point.benchmark for point in points[:22]] == ["radosbench"] * 4 + ["librbdfio"] * 18
    rados = [(point.settings["op_size"], point.settings["concurrent_ops"]) for point in points[:4]]
    assert rados == [(8192, 1), (8192, 2), (4096, 1), (4096, 2)]
    rbd = points[4:22]
    assert [point.settings["vol_size"] for point in rbd] == [1024] * 9 + [2048] * 9
    assert [point.workload for point in rbd[:9]] == ["w"] * 8 + ["precondition"]
    within = [(p.settings["numjobs"], p.settings["rwmixread"], p.settings["total_iodepth"]) for p in rbd[:8]]
    assert within == [
        (1, 70, 1),
        (1, 70, 16),
        (1, 30, 1),
        (1, 30, 16),
        (2, 70, 1),
        (2, 70, 16),
        (2, 30, 1),
        (2, 30, 16),
    ]


def test_folders_carry_the_names_that_people_know() -> None:
    """Iteration, combination, workload, numjobs, other swept keys, depth, each zero-padded."""
    points = points_of(
        "workloads: {4k rw: {numjobs: [1, 2], op_size: [4k, 64k], mode: [read, write], total_iodepth: [1, 16]},"
        " plain: {iodepth: 4}}"
    )
    assert points[0].folder.parts[0] == "00000000"
    assert points[0].folder.parts[1] == f"id-{points[0].combination_id}"
    assert len(points[0].combination_id) == 8
    assert below_combination(points[1]) == "4k rw/numjobs-001/op_size-00004096/mode-read/total_iodepth-016"
    assert below_combination(points[-1]) == "plain/numjobs-001/iodepth-004"
    assert points[1].setting == (("total_iodepth", 16),)
    assert points[-1].setting == (("iodepth", 4),)


def test_without_workloads_a_point_is_a_combination() -> None:
    """Each combination has its own id and nothing below it."""
    points = points_of("op_size: [4k, 8k], iodepth: [1, 2]")
    assert [len(point.folder.parts) for point in points] == [2] * 4
    assert len({point.combination_id for point in points}) == 4
    assert [point.setting for point in points[:2]] == [(("iodepth", 1),), (("iodepth", 2),)]
    assert points[0].combination["op_size"] == 4096


def test_a_swept_text_cannot_leave_its_folder() -> None:
    """Values become one folder name each, whatever they contain, and different values different names."""
    points = points_of(
        """workloads: {w: {random_distribution: ["../../x", "a/b", "a%2Fb", "zipf:1.1", "é$(x);'"], iodepth: 1}}"""
    )
    names = [point.folder.parts[4] for point in points]
    assert len(set(names)) == 5
    assert all("/" not in name and name.startswith("random_distribution-") for name in names)
    assert "random_distribution-zipf:1.1" in names
    long = points_of(f"workloads: {{w: {{random_distribution: [{'a' * 300}, {'a' * 299}b]}}}}")
    assert len({point.folder for point in long}) == 2
    assert all(len(part) < 200 for point in long for part in point.folder.parts)


def test_an_axis_that_every_workload_overrides_makes_no_points() -> None:
    """A benchmark's list is a default for its workloads; where none uses it, nothing runs twice."""
    points = points_of("iodepth: [1, 4, 16], workloads: {a: {iodepth: [2, 8]}, b: {total_iodepth: 4}}")
    assert [(point.workload, point.setting[0]) for point in points] == [
        ("a", ("iodepth", 2)),
        ("a", ("iodepth", 8)),
        ("b", ("total_iodepth", 4)),
    ]
    assert len({point.combination_id for point in points}) == 1


def test_an_axis_that_some_workloads_use_runs_for_those_only() -> None:
    """The first combination has every workload, the others only those that differ there."""
    points = points_of("op_size: [4k, 8k], workloads: {a: {op_size: 1M}, b: {}}")
    assert [(point.workload, point.settings["op_size"]) for point in points] == [
        ("a", 1 << 20),
        ("b", 4096),
        ("b", 8192),
    ]


@pytest.mark.parametrize(
    ("plan", "iodepth", "total"),
    [
        ("iodepth: 4", 4, None),
        ("total_iodepth: 8", None, 8),
        ("time: 5", 16, None),
        ("iodepth: 4, workloads: {w: {total_iodepth: 8}}", None, 8),
        ("total_iodepth: 8, workloads: {w: {iodepth: 4}}", 4, None),
        ("total_iodepth: 8, workloads: {w: {}}", None, 8),
        ("total_iodepth: 8, workloads: {w: {total_iodepth: ~}}", 16, None),
        ("iodepth: 4, workloads: {w: {total_iodepth: ~}}", 4, None),
    ],
)
def test_exactly_one_way_to_say_the_depth_holds(plan: str, iodepth: int | None, total: int | None) -> None:
    """The nearest level that sets a depth decides, and the other key is unset."""
    (point,) = points_of(plan)
    assert (point.settings["iodepth"], point.settings["total_iodepth"]) == (iodepth, total)


def test_a_workload_overrides_any_key() -> None:
    """time, ramp, rwmixread and prefill of a workload are its own; the combination keeps the benchmark's."""
    (point,) = points_of("time: 60, ramp: 5, workloads: {w: {time: 10, ramp: 1, rwmixread: 70, jobname: j}}")
    assert [point.settings[key] for key in ("time", "ramp", "rwmixread", "jobname")] == [10, 1, 70, "j"]
    assert (point.combination["time"], point.combination["rwmixread"]) == (60, 50)
    assert point.settings.text("fio_out_format") == "json+"


def test_preconditioning_is_not_reported() -> None:
    """A workload with precond in its name runs but is kept out of reports; a jobname does not matter."""
    points = points_of("workloads: {precondition: {}, test: {jobname: precond1}}")
    assert [point.reported for point in points] == [False, True]


def test_what_determines_a_result_is_in_its_id() -> None:
    """A change of settings, clients, pool profile or OSDs is another point; of a user name or comment it is not."""
    profiles = ", pool_profiles: {p: {pg_size: 8}, q: {pg_size: 16}}"

    def first(librbdfio: str = "pool_profile: p", cluster: str = profiles) -> str:
        return points_of(librbdfio, cluster)[0].id

    base = first()
    assert len(base) == 16
    assert base == first(cluster=profiles + ", user: x, tmp_dir: /tmp/x")
    assert base == first(cluster=profiles.replace("pg_size: 16", "pg_size: 32"))
    assert base == first("pool_profile: p, osd_ra: 4096")
    different = {
        first("pool_profile: q"),
        first("pool_profile: p, time: 5"),
        first(cluster=profiles.replace("pg_size: 8", "pg_size: 4")),
        first(cluster=profiles + ", osds: [o1]"),
        first(cluster=profiles + ", use_existing: false"),
        first(cluster=profiles + ", osd_objectstore: memstore"),
    }
    assert len(different | {base}) == 7


def test_an_erasure_profile_determines_the_result() -> None:
    """Another k or m of the profile that a pool uses is another point."""
    pools = ", pool_profiles: {p: {replication: erasure, erasure_profile: e}}"
    ids = {
        points_of("pool_profile: p", f"{pools}, erasure_profiles: {{e: {{erasure_k: {k}}}}}")[0].id for k in (2, 3, 4)
    }
    assert len(ids) == 3


def test_colliding_short_ids_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two combinations never share a folder, even when their short digests start alike."""
    monkeypatch.setattr("orchestrator.points.COMBINATION_ID_LENGTH", 1)
    points = points_of("vol_size: [1, 2, 3, 4, 5, 6, 7, 8], op_size: [512, 1024]")
    assert len({point.combination_id for point in points}) == 16
    again = points_of("vol_size: [1, 2, 3, 4, 5, 6, 7, 8], op_size: [512, 1024]")
    assert [point.folder for point in again] == [point.folder for point in points]


AXES = {
    "op_size": st.integers(1, 5).map(lambda n: n * 512),
    "numjobs": st.integers(1, 12),
    "iodepth": st.integers(1, 2000),
    "total_iodepth": st.integers(1, 2000),
    "rwmixread": st.integers(0, 100),
    "mode": st.sampled_from(["read", "write", "randrw"]),
    "random_distribution": st.sampled_from(["zipf:1.1", "zipf/1.1", "zipf%2F1.1", "pareto:0.2", " "]),
    "time_based": st.booleans(),
    "vol_size": st.integers(1, 4),
}


def yaml_text(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


@st.composite
def levels(draw: st.DrawFn) -> str:
    keys: Sequence[str] = draw(st.lists(st.sampled_from(sorted(AXES)), unique=True, max_size=4))
    if "iodepth" in keys:
        keys = [key for key in keys if key != "total_iodepth"]
    parts = []
    for key in keys:
        values = draw(st.lists(AXES[key], min_size=1, max_size=3))
        parts.append(f"{key}: [{', '.join(map(yaml_text, values))}]")
    return ", ".join(parts)


@st.composite
def plans(draw: st.DrawFn) -> str:
    names = draw(st.lists(st.sampled_from(["a", "b", "precond", "4k read", "$(x);'\"", "é"]), unique=True, max_size=3))
    own = draw(levels())
    lines = [f"cluster: {{clients: [h], iterations: {draw(st.integers(1, 2))}}}", "benchmarks:", "  librbdfio:"]
    lines += [f"    {part}" for part in own.replace("], ", "]\n").splitlines()]
    if names:
        lines.append("    workloads:")
        for name in names:
            key = name.replace("'", "''")
            lines.append(f"      '{key}': {{{draw(levels())}}}")
    return "\n".join(lines) + "\n"


@given(plans())
@settings(max_examples=120, deadline=None)
def test_no_two_points_share_an_id_or_a_folder_and_comments_change_nothing(text: str) -> None:
    """For any plan: ids, folders and settings are unique, the bound holds, and spelling does not matter."""
    plan = plan_of(text)
    points = lay_out(plan)
    assert points
    assert len({point.id for point in points}) == len(points)
    assert len({point.folder for point in points}) == len(points)
    folders = {point.folder for point in points}
    assert not any(parent in folders for folder in folders for parent in folder.parents)
    assert len(points) <= count_points(plan.cluster.settings.integer("iterations"), plan.benchmarks)
    commented = plan_of("# a comment\n" + "\n".join(f"{line}  # note" for line in text.splitlines()))
    assert commented.digest == plan.digest
    assert lay_out(commented) == points
