"""An archive of this program is read as it stands: raw files give the numbers, manifests what was expected."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from archive.layouts import all_layouts
from archive.manifest import MANIFEST_NAME
from post_processing.load import LoadedArchive, NotAnArchive, load_archive
from post_processing.results import ResponseCurve, ResultPoint
from tests.unit.archive_factory import RUNTIME_S, Ran, WorkloadSpec, share_of, spread, write_archive

READ = WorkloadSpec("4krandomread")
SMALL = WorkloadSpec("small", depths=(4,))


def only_curve(loaded: LoadedArchive) -> ResponseCurve:
    (curve,) = loaded.curves
    return curve


def only_point(loaded: LoadedArchive) -> ResultPoint:
    (point,) = only_curve(loaded).points
    return point


def files(root: Path) -> dict[str, tuple[int, float]]:
    return {str(p): (p.stat().st_size, p.stat().st_mtime) for p in sorted(root.rglob("*")) if p.is_file()}


def test_every_point_has_the_numbers_of_its_raw_ios(tmp_path: Path) -> None:
    """IOPS, mean and percentiles are those of all the I/Os of all volumes thrown together."""
    loaded = load_archive(write_archive(tmp_path / "a", [READ]))
    curve = only_curve(loaded)
    assert loaded.whole
    assert [p.queue_depth for p in curve.points] == list(READ.depths)
    for point in curve.points:
        latency_ns = READ.latency_ms(point.queue_depth) * 1e6
        everything: list[int] = []
        for place in range(4):
            if share := share_of(point.queue_depth, place, 4):
                ios = spread(max(1, round(share / (latency_ns / 1e9) * RUNTIME_S)), latency_ns)
                everything += [latency for latency, number in ios.items() for _ in range(number)]
        assert point.numbers is not None
        assert point.numbers.total_ios == len(everything)
        assert point.numbers.iops == pytest.approx(len(everything) / RUNTIME_S)
        assert point.numbers.latency_mean_ns == pytest.approx(sum(everything) / len(everything))
        assert point.numbers.percentiles_ns is not None
        assert point.numbers.percentiles_ns[50.0] == sorted(everything)[(len(everything) + 1) // 2 - 1]
        assert point.instances_observed == point.instances_expected == min(4, point.queue_depth)


def test_reading_leaves_the_archive_as_it_was(tmp_path: Path) -> None:
    """No file is added, changed or touched."""
    root = write_archive(tmp_path / "a", [READ])
    before = files(root)
    load_archive(root)
    assert files(root) == before


@pytest.mark.parametrize("part", [".", "results", "results/00000000", "results/00000000/id-00000000", ".."])
def test_the_archive_a_part_of_it_or_the_folder_above_are_all_read(tmp_path: Path, part: str) -> None:
    """People pass any of them."""
    root = write_archive(tmp_path / "above" / "a", [READ])
    assert len(only_curve(load_archive(root / part)).points) == len(READ.depths)
    copy = tmp_path / "copied"
    (root / "results" / "00000000" / "id-00000000").rename(copy)
    assert len(only_curve(load_archive(copy)).points) == len(READ.depths)


def test_one_combination_is_read_as_that_one_alone(tmp_path: Path) -> None:
    """A part of an archive does not bring the rest with it."""
    root = write_archive(tmp_path / "a", [READ, WorkloadSpec("other", mode="randwrite")])
    assert only_curve(load_archive(root / "results" / "00000000" / "id-00000001")).workload == "other"


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda _: None, "No such file"),
        (lambda p: p.write_text("x"), "is a file"),
        (lambda p: p.mkdir(), "reads only archives that this program has written"),
        (lambda p: (p / "results" / "00000000" / "id-00000000").mkdir(parents=True), "reads only archives"),
        (lambda p: [write_archive(p / n, [SMALL]) for n in "ab"], "holds 2 archives (a, b)"),
    ],
)
def test_what_is_no_archive_is_refused_in_one_line(tmp_path: Path, make: Any, part: str) -> None:
    """The message says what was given and what to give."""
    path = tmp_path / "x"
    make(path)
    with pytest.raises(NotAnArchive, match=r"^[^\n]+$") as caught:
        load_archive(path)
    assert part in str(caught.value)


def test_a_reports_folder_is_not_taken_for_an_archive(tmp_path: Path) -> None:
    """People mix the two up."""
    (tmp_path / "results.json").write_text('{"schema": 1, "curves": []}')
    with pytest.raises(NotAnArchive, match="folder of a report"):
        load_archive(tmp_path)


def test_an_archive_of_a_later_version_is_refused(tmp_path: Path) -> None:
    """Another schema may mean other things by the same names."""
    root = write_archive(tmp_path / "a", [SMALL])
    (root / "results" / "run.json").write_text('{"schema": 2}')
    with pytest.raises(NotAnArchive, match="schema is 2"):
        load_archive(root)


def test_a_manifest_of_an_unknown_schema_is_left_out_with_its_reason(tmp_path: Path) -> None:
    """One strange point does not take the others with it."""
    root = write_archive(tmp_path / "a", [READ])
    manifest = next(root.rglob("total_iodepth-004/" + MANIFEST_NAME))
    manifest.write_text(manifest.read_text().replace('"schema": 1', '"schema": 9'))
    loaded = load_archive(root)
    assert [p.label for p in only_curve(loaded).points] == ["1", "2", "8", "16", "32"]
    (problem,) = loaded.problems
    assert "schema 9 is unknown" in problem.reason
    assert not loaded.whole


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        '{"schema": 1}',
        "\ud800",
        '{"schema": 1, "instances": [{}]}',
        "[" * 100_000,
        '{"schema": 1, "instances": 3}',
    ],
)
def test_a_broken_manifest_is_left_out_with_its_reason(tmp_path: Path, damage: str) -> None:
    """Whatever stands in it: no traceback, one line."""
    root = write_archive(tmp_path / "a", [SMALL])
    next(root.rglob(MANIFEST_NAME)).write_bytes(damage.encode("utf-8", "surrogatepass"))
    loaded = load_archive(root)
    assert loaded.curves == ()
    (problem,) = loaded.problems
    assert problem.where.endswith(MANIFEST_NAME)


@pytest.mark.parametrize(
    "key", ["queue_depth", "setting", "iteration", "overlap", "settings", "notes", "instances_expected"]
)
def test_a_manifest_with_a_value_of_another_kind_is_left_out(tmp_path: Path, key: str) -> None:
    """A hand-edited manifest must not put a wrong number into a curve."""
    root = write_archive(tmp_path / "a", [SMALL])
    manifest = next(root.rglob(MANIFEST_NAME))
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), key: [{}]}))
    (problem,) = load_archive(root).problems
    assert key in problem.reason


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (b"", "printed nothing"),
        (b'{"jobs": [', "truncated"),
        (b"NaN", "no JSON"),
    ],
)
def test_a_broken_raw_file_makes_the_point_partial(tmp_path: Path, damage: bytes, part: str) -> None:
    """What the manifest calls complete is no longer, when a file does not bear it out."""
    root = write_archive(tmp_path / "a", [SMALL], ran=lambda *_: Ran(alter=lambda doc, n: damage if n == 2 else doc))
    loaded = load_archive(root)
    point = only_point(loaded)
    assert (point.status, point.instances_observed, point.instances_expected) == ("partial", 3, 4)
    (problem,) = loaded.problems
    assert part in problem.reason
    assert "json_output.2.client-1" in problem.where


def test_a_missing_json_file_is_replaced_by_what_the_instance_printed(tmp_path: Path) -> None:
    """The same document stands in output.N."""
    root = write_archive(tmp_path / "a", [SMALL])
    for file in root.rglob("json_output.*"):
        file.unlink()
    loaded = load_archive(root)
    assert loaded.whole
    assert only_point(loaded).instances_observed == 4


def test_no_raw_file_left_makes_the_point_failed(tmp_path: Path) -> None:
    """A manifest alone is no measurement."""
    root = write_archive(tmp_path / "a", [SMALL])
    for file in [*root.rglob("json_output.*"), *root.rglob("output.*")]:
        file.unlink()
    point = only_point(load_archive(root))
    assert (point.status, point.numbers) == ("failed", None)


def test_a_partial_point_has_the_numbers_of_the_whole_instances_only(tmp_path: Path) -> None:
    """Three of four volumes: the throughput of three, marked."""
    whole = only_point(load_archive(write_archive(tmp_path / "a", [SMALL])))
    ran = Ran("partial", "1 of 4 instances failed", frozenset({1}))
    partial = only_point(load_archive(write_archive(tmp_path / "b", [SMALL], ran=lambda *_: ran)))
    assert (partial.status, partial.reason, partial.instances_observed) == ("partial", "1 of 4 instances failed", 3)
    assert whole.numbers is not None
    assert partial.numbers is not None
    assert partial.numbers.iops == pytest.approx(whole.numbers.iops * 3 / 4)


def test_a_failed_point_has_no_numbers_though_files_are_there(tmp_path: Path) -> None:
    """Its status is the manifest's."""
    root = write_archive(tmp_path / "a", [SMALL])
    manifest = next(root.rglob(MANIFEST_NAME))
    manifest.write_text(
        manifest.read_text().replace(
            '"status": "complete",\n "reason": null,\n "started',
            '"status": "failed",\n "reason": "cluster gone",\n "started',
        )
    )
    point = only_point(load_archive(root))
    assert (point.status, point.reason, point.numbers) == ("failed", "cluster gone", None)


def test_an_instance_without_io_is_not_summed(tmp_path: Path) -> None:
    """fio writes a valid document with error 0 when the image is missing."""

    def stalled(document: dict[str, Any], number: int) -> dict[str, Any]:
        if number == 0:
            document["jobs"][0]["read"] = {"iops": 0, "bw_bytes": 0, "runtime": 0, "total_ios": 0}
        return document

    loaded = load_archive(write_archive(tmp_path / "a", [SMALL], ran=lambda *_: Ran(alter=stalled)))
    assert only_point(loaded).status == "partial"
    assert "did no I/O" in loaded.problems[0].reason


def test_a_file_of_another_measurement_is_not_counted(tmp_path: Path) -> None:
    """A file copied into the wrong folder: its operation is not the plan's."""

    def swapped(document: dict[str, Any], number: int) -> dict[str, Any]:
        if number == 3:
            document["global options"]["bs"] = "8k"
        return document

    loaded = load_archive(write_archive(tmp_path / "a", [SMALL], ran=lambda *_: Ran(alter=swapped)))
    assert only_point(loaded).instances_observed == 3
    assert "block size is 8192, the plan's is 4096" in loaded.problems[0].reason


def test_repeats_stay_apart(tmp_path: Path) -> None:
    """Two iterations are two results of one curve, not one of twice the throughput."""
    once = only_point(load_archive(write_archive(tmp_path / "a", [SMALL])))
    twice = only_curve(load_archive(write_archive(tmp_path / "b", [SMALL], iterations=2)))
    assert [p.iteration for p in twice.points] == [0, 1]
    assert once.numbers is not None
    assert all(p.numbers is not None and p.numbers.iops == once.numbers.iops for p in twice.points)


def test_preconditioning_is_in_no_curve(tmp_path: Path) -> None:
    """It prepared the volumes; when it failed, the archive is not whole."""
    loads = [READ, WorkloadSpec("precondition", mode="randwrite", depths=(16,), reported=False)]
    loaded = load_archive(write_archive(tmp_path / "a", loads))
    assert [c.workload for c in loaded.curves] == ["4krandomread"]
    assert len(loaded.facts.preconditioning) == 1
    failed = load_archive(
        write_archive(tmp_path / "b", loads, ran=lambda s, *_: Ran() if s.reported else Ran("failed", "no"))
    )
    assert not failed.whole


def test_curves_of_one_name_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    """Settings swept beside the queue depth make curves of their own, and the difference is named."""
    loads = [WorkloadSpec("w", settings={"pool_profile": name}) for name in ("replicated", "ec")]
    curves = load_archive(write_archive(tmp_path / "a", loads)).curves
    assert [dict(c.variant) for c in curves] == [{"pool_profile": "ec"}, {"pool_profile": "replicated"}]
    assert all(len(c.points) == 6 for c in curves)


def test_an_uneven_depth_and_several_hosts_are_one_point(tmp_path: Path) -> None:
    """Queue depth 7 over two hosts of two volumes: 2, 2, 2, 1."""
    root = write_archive(tmp_path / "a", [WorkloadSpec("w", depths=(7,))], volumes=2, hosts=("h1", "h2"))
    point = only_point(load_archive(root))
    assert (point.queue_depth, point.instances_observed, point.status) == (7, 4, "complete")


def test_volume_ten_is_not_lost(tmp_path: Path) -> None:
    """File names may have more than one digit."""
    root = write_archive(tmp_path / "a", [WorkloadSpec("w", depths=(12,))], volumes=12)
    assert only_point(load_archive(root)).instances_observed == 12


def test_iodepth_per_volume_and_numjobs_give_what_was_outstanding(tmp_path: Path) -> None:
    """Four volumes of 3 jobs of depth 8 keep 96 I/Os outstanding; people call the point 8."""
    root = write_archive(tmp_path / "a", [WorkloadSpec("w", depths=(8,), numjobs=3, setting_name="iodepth")])
    point = only_point(load_archive(root))
    assert (point.queue_depth, point.label) == (96, "8")


def test_links_out_of_the_archive_are_not_followed(tmp_path: Path) -> None:
    """Neither a folder nor a raw file may lead elsewhere; both are named."""
    elsewhere = write_archive(tmp_path / "elsewhere", [READ])
    root = write_archive(tmp_path / "a", [SMALL])
    (root / "results" / "00000000" / "id-ffffffff").symlink_to(elsewhere / "results" / "00000000" / "id-00000000")
    raw, text = next(root.rglob("json_output.1.*")), next(root.rglob("output.1.*"))
    for file in (raw, text):
        file.unlink()
        file.symlink_to(next(elsewhere.rglob("json_output.0.*")))
    loaded = load_archive(root)
    assert only_curve(loaded).workload == "small"
    assert only_point(loaded).instances_observed == 3
    assert sum("link" in problem.reason for problem in loaded.problems) == 4  # the folder, two files, the instance


def test_a_pipe_in_place_of_a_raw_file_does_not_block(tmp_path: Path) -> None:
    """Opening a FIFO would wait for ever."""
    root = write_archive(tmp_path / "a", [SMALL])
    for file in (next(root.rglob("json_output.1.*")), next(root.rglob("output.1.*"))):
        file.unlink()
        os.mkfifo(file)
    loaded = load_archive(root)
    assert only_point(loaded).status == "partial"
    assert "not a plain file" in loaded.problems[0].reason


def test_a_huge_raw_file_is_refused_unread(tmp_path: Path) -> None:
    """200 MB are not an instance's output."""
    root = write_archive(tmp_path / "a", [SMALL])
    for file in (next(root.rglob("json_output.1.*")), next(root.rglob("output.1.*"))):
        os.truncate(file, 200_000_000)
    (problem,) = load_archive(root).problems
    assert "200000000 bytes" in problem.reason


def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    """A manifest is data, not a path."""
    root = write_archive(tmp_path / "a", [SMALL])
    manifest = next(root.rglob(MANIFEST_NAME))
    manifest.write_text(manifest.read_text().replace("output.1.client-1", "../../../../run.json"))
    assert any("leads out" in problem.reason for problem in load_archive(root).problems)
    manifest.write_text(manifest.read_text().replace("../../../../run.json", "\\ud800"))
    assert any("no file can have" in problem.reason for problem in load_archive(root).problems)


def test_a_copied_point_counts_once(tmp_path: Path) -> None:
    """The same measurement in two folders is one result, and the copy is named."""
    root = write_archive(tmp_path / "a", [SMALL])
    original = root / "results" / "00000000" / "id-00000000"
    shutil.copytree(original, original.with_name("id-00000001"))
    loaded = load_archive(root)
    assert only_point(loaded).instances_observed == 4
    assert "copy of" in loaded.problems[0].reason


def test_an_instance_named_twice_is_not_counted_twice(tmp_path: Path) -> None:
    """Such a manifest is none."""
    root = write_archive(tmp_path / "a", [SMALL])
    manifest = next(root.rglob(MANIFEST_NAME))
    value = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**value, "instances": value["instances"] + value["instances"][:1]}))
    assert "twice" in load_archive(root).problems[0].reason


def test_results_without_a_manifest_are_named(tmp_path: Path) -> None:
    """A point that was cut off is not passed over in silence."""
    root = write_archive(tmp_path / "a", [READ])
    next(root.rglob("total_iodepth-008/" + MANIFEST_NAME)).unlink()
    loaded = load_archive(root)
    assert len(only_curve(loaded).points) == 5
    assert [MANIFEST_NAME in problem.reason for problem in loaded.problems] == [True]


def test_superseded_tries_are_not_counted(tmp_path: Path) -> None:
    """What a run that was taken up again put aside is no result."""
    root = write_archive(tmp_path / "a", [SMALL])
    write_archive(root / "superseded" / "x", [READ])
    assert only_curve(load_archive(root)).workload == "small"


def test_missing_points_of_the_plan_are_a_problem(tmp_path: Path) -> None:
    """Where the run recorded how many points there are, what is missing is said."""
    loaded = load_archive(write_archive(tmp_path / "a", [READ], session={"points_planned": 9}))
    assert "3 of 9 points" in loaded.problems[0].reason


def test_raw_files_that_were_renamed_are_found_by_their_new_root(tmp_path: Path) -> None:
    """--results_file_root says how the names begin."""
    root = write_archive(tmp_path / "a", [SMALL])
    for file in root.rglob("json_output.*"):
        file.rename(file.with_name(file.name.replace("json_output", "renamed")))
    for file in root.rglob("output.*"):
        file.unlink()
    assert load_archive(root, results_file_root="renamed").whole


def test_layouts_have_names_of_their_own() -> None:
    """Each layout is one module that registers itself."""
    assert [layout.name for layout in all_layouts()][:1] == ["own"]
