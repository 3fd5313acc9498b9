"""The report command and what it writes: whole, traceable, and nothing else touched."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import venv
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from post_processing.load import load_archive
from post_processing.report import Report, build_report, nice_step
from post_processing.reports import all_formats
from post_processing.reports.results_json import document
from post_processing.summary import doubtful_peaks_line, summary_rows
from post_processing.words import latency_ms, share, significant, throughput, visible
from tests.unit.archive_factory import START_S, Ran, WorkloadSpec, write_archive
from tools.generate_performance_report import main

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "generate_performance_report.py"
NOW = datetime(2026, 11, 21, 10, 30, 5, tzinfo=UTC)
DEPTHS = (1, 2, 4, 8, 16, 32, 64)
HOCKEY = WorkloadSpec("4krandomread", depths=DEPTHS, latency_ms=lambda n: max(0.5, 0.5 * n / 16))
MIX = WorkloadSpec("16k7030", mode="randrw", op_size=16384, rwmixread=70)
LARGE = WorkloadSpec("1Mwrite", mode="write", op_size=1 << 20)


def report(root: Path, *specs: WorkloadSpec, **options: Any) -> Report:
    return build_report(load_archive(write_archive(root, specs or [HOCKEY], **options)), made_at=NOW)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_without_an_output_directory_a_new_folder_beside_the_archive_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints what it made, with date and time in the name, and the archive is as it was."""
    root = write_archive(tmp_path / "run", [HOCKEY])
    before = contents(root)
    assert main(["--archive", str(root)]) == 0
    made = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert {p.name for p in made} >= {"results.json", "results.csv"}
    assert sum(p.name.startswith("performance_report_2") and p.suffix == ".pdf" for p in made) == 1
    (folder,) = {p.parent for p in made}
    assert folder.parent == tmp_path
    assert folder.name.startswith("run_report_2")
    assert all(p.stat().st_size for p in made)
    assert contents(root) == before


def test_no_earlier_report_is_overwritten(tmp_path: Path) -> None:
    """Reports of the same second into the same folder stand side by side."""
    root, out = write_archive(tmp_path / "a", [HOCKEY]), tmp_path / "new" / "folder"
    assert main(["--archive", str(root), "--output_directory", str(out)]) == 0
    first = contents(out)
    assert main(["--archive", str(root), "--output-directory", str(out)]) == 0
    second = contents(out)
    assert len(second) == 2 * len(first)
    assert {name: second[name] for name in first} == first


@pytest.mark.parametrize("inside", ["", "results", "reports/new"])
def test_a_folder_inside_the_archive_is_refused(
    tmp_path: Path, inside: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The archive is only read, by whatever name it is reached."""
    root = write_archive(tmp_path / "a", [HOCKEY])
    link = tmp_path / "link"
    link.symlink_to(root)
    before = contents(root)
    assert main(["--archive", str(root / "results"), "--output_directory", str(link / inside)]) == 2
    assert "inside the archive" in capsys.readouterr().err
    assert contents(root) == before


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file stands where the folder should be."""
    root = write_archive(tmp_path / "a", [HOCKEY])
    (tmp_path / "file").write_text("x")
    assert main(["--archive", str(root), "--output_directory", str(tmp_path / "file" / "x")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_older_tools_options_all_work(tmp_path: Path) -> None:
    """With underscores and with hyphens."""
    root = write_archive(tmp_path / "a", [HOCKEY])
    for hyphen in "_-":
        flags = [f"--{option.replace('_', hyphen)}" for option in ("create_pdf", "no_error_bars", "force_refresh")]
        named = [f"--results{hyphen}file{hyphen}root", "json_output", f"--output{hyphen}directory"]
        assert main(["--archive", str(root), *flags, *named, str(tmp_path / f"out{hyphen}")]) == 0


def test_no_pdf_makes_none(tmp_path: Path) -> None:
    """JSON and CSV alone, for scripts."""
    root = write_archive(tmp_path / "a", [HOCKEY])
    assert main(["--archive", str(root), "--no-pdf", "--output_directory", str(tmp_path / "o")]) == 0
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == ["results.csv", "results.json"]


@pytest.mark.parametrize(
    "ran",
    [
        Ran("partial", "1 of 4 instances failed", frozenset({0})),
        Ran("failed", "the cluster is gone"),
        Ran(alter=lambda doc, number: None if number == 0 else doc),
    ],
)
def test_anything_not_whole_gives_status_1_and_a_line_on_stderr(
    tmp_path: Path, ran: Ran, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report is made, and nobody can take it for a whole one."""
    root = write_archive(tmp_path / "a", [HOCKEY], ran=lambda _, depth, __: ran if depth == 8 else Ran())
    assert main(["--archive", str(root), "--output_directory", str(tmp_path / "o")]) == 1
    captured = capsys.readouterr()
    assert "total_iodepth-008" in captured.err
    assert "results.json" in captured.out


@pytest.mark.parametrize("arguments", [[], ["--archive"], ["--archive", "x", "--arch"], ["--archive", "x", "extra"]])
def test_wrong_use_is_status_2(arguments: list[str]) -> None:
    """argparse says what is wrong."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_no_archive_is_status_2_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is made for a folder that is none."""
    assert main(["--archive", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("generate_performance_report.py: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["file", "interpreter", "module"])
def test_it_starts_from_any_folder_in_every_way(tmp_path: Path, how: str) -> None:
    """As tools/x.py, as python tools/x.py, and as a module of the project."""
    root = write_archive(tmp_path / "a", [WorkloadSpec("w", depths=(4,))])
    start = {
        "file": [str(TOOL)],
        "interpreter": [sys.executable, str(TOOL)],
        "module": [sys.executable, "-m", "tools.generate_performance_report"],
    }[how]
    folder = ROOT if how == "module" else tmp_path
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*start, "--archive", str(root), "--output_directory", str(tmp_path / "o")],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_python_without_the_packages_says_so_in_one_line(tmp_path: Path) -> None:
    """No traceback, and what to do."""
    done = with_a_bare_python(tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "lacks reportlab: run 'make setup'" in done.stderr


def test_a_python_without_the_packages_goes_on_with_the_projects_own(tmp_path: Path) -> None:
    """The same words reach the .venv's Python; one that lacks the packages too ends in the line, not in a loop."""
    project = tmp_path / "project/.venv/bin/python"
    project.parent.mkdir(parents=True)
    project.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    project.chmod(0o755)
    done = with_a_bare_python(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}/project/tools/{TOOL.name}|--archive|a b|"
    project.write_text(f'#!/bin/sh\nexec "{tmp_path}/bare/bin/python" "$@"\n')
    done = with_a_bare_python(tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "lacks reportlab" in done.stderr


def with_a_bare_python(folder: Path) -> subprocess.CompletedProcess[str]:
    """The tool from a copy of the project's tools, by a Python without any package."""
    if not (folder / "bare").exists():
        venv.create(folder / "bare", with_pip=False, symlinks=True)
        shutil.copytree(TOOL.parent, folder / "project/tools", ignore=shutil.ignore_patterns("__pycache__"))
    return subprocess.run(
        [str(folder / "bare/bin/python"), str(folder / "project/tools" / TOOL.name), "--archive", "a b"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_results_json_has_the_documented_keys(tmp_path: Path) -> None:
    """Other programs read it."""
    data = json.loads(json.dumps(document(report(tmp_path / "name", HOCKEY, MIX, LARGE))))
    assert (data["schema"], data["archive"], len(data["curves"])) == (1, "name", 3)
    by_name = {curve["workload"]: curve for curve in data["curves"]}
    hockey, mix = by_name["4krandomread"], by_name["16k7030"]
    assert {k: hockey[k] for k in ("benchmark", "operation", "read_percent", "block_size_bytes", "numjobs")} == {
        "benchmark": "librbdfio",
        "operation": "randread",
        "read_percent": None,
        "block_size_bytes": 4096,
        "numjobs": 1,
    }
    assert (mix["operation"], mix["read_percent"]) == ("randrw", 70)
    point = hockey["points"][4]
    assert point["queue_depth"] == 16
    assert point["setting"] == {"total_iodepth": 16}
    assert (point["iteration"], point["status"], point["reason"]) == (0, "complete", None)
    assert point["iops"] == pytest.approx(32000, rel=0.01)
    assert point["bandwidth_bytes_per_s"] == pytest.approx(32000 * 4096, rel=0.01)
    assert point["latency_mean_ns"] == pytest.approx(500_000, rel=0.01)
    assert set(point["latency_percentiles_ns"]) == {"50", "95", "99", "99.9"}
    assert (point["total_ios"], point["runtime_s"], point["overlap"]) == (round(point["iops"] * 4), 4.0, 0.99)
    assert hockey["knee"]["queue_depth"] == 16
    assert hockey["at_70_percent"]["throughput"] == pytest.approx(0.7 * hockey["peak"]["iops"])
    assert hockey["at_70_percent"]["latency_mean_ns"] == pytest.approx(500_000, rel=0.01)


def test_seventy_per_cent_of_large_blocks_is_in_megabytes(tmp_path: Path) -> None:
    """Throughput is in the curve's own unit, which is named."""
    (curve,) = document(report(tmp_path / "a", LARGE))["curves"]
    assert curve["throughput_unit"] == "MB/s"
    expected = 0.7 * curve["peak"]["bandwidth_bytes_per_s"] / 1e6
    assert curve["at_70_percent"]["throughput"] == pytest.approx(expected)


def test_a_failed_point_has_null_for_every_figure(tmp_path: Path) -> None:
    """Not zero: a zero would be a measurement."""
    (curve,) = document(report(tmp_path / "a", HOCKEY, ran=lambda *_: Ran("failed", "why")))["curves"]
    assert {curve["points"][0][key] for key in ("iops", "latency_mean_ns", "total_ios", "runtime_s")} == {None}
    assert (curve["peak"], curve["knee"], curve["at_70_percent"]) == (None, None, None)


def test_bounds_are_not_given_as_percentiles(tmp_path: Path) -> None:
    """Without histograms the percentiles are null and the bounds stand under a name of their own."""
    (curve,) = document(report(tmp_path / "a", HOCKEY, bins=False))["curves"]
    assert curve["points"][0]["latency_percentiles_ns"] is None
    assert set(curve["points"][0]["latency_percentile_bounds_ns"]) == {"50", "95", "99", "99.9"}


def test_results_csv_has_the_points_of_results_json(tmp_path: Path) -> None:
    """One row each, same numbers; text that a spreadsheet would run is made inert."""
    made = report(tmp_path / "a", WorkloadSpec("=1+1", depths=(1, 2)), MIX)
    path = tmp_path / "x.csv"
    with path.open("wb") as file:
        all_formats()["csv"].write(made, file)
    with path.open(newline="") as text:
        rows = list(csv.DictReader(text))
    points = [point for curve in document(made)["curves"] for point in curve["points"]]
    assert [float(row["iops"]) for row in rows] == [point["iops"] for point in points]
    assert [float(row["latency_p99_ns"]) for row in rows] == [p["latency_percentiles_ns"]["99"] for p in points]
    assert {row["workload"] for row in rows} == {"'=1+1", "16k7030"}


def test_checks_answer_whether_it_can_be_trusted(tmp_path: Path) -> None:
    """Overlap, health, cache, interruption: each is asked, and what was not recorded says so."""
    plain = {check.name: check for check in report(tmp_path / "a").checks}
    assert plain["Points"].verdict == "good"
    assert plain["Common window"].verdict == "good"
    assert plain["Little’s law"].verdict == "good"
    assert plain["Cluster health"].verdict == "good"
    assert plain["librbd cache"].verdict == "unknown"
    doubtful = report(
        tmp_path / "b",
        session={"started_unix_s": START_S, "volumes": [{"librbd_cache": {"enabled": True}}]},
        ran=lambda _, depth, __: Ran(overlap=0.61 if depth == 8 else 1.0),
    )
    found = {check.name: check for check in doubtful.checks}
    assert "1 of 7 points below 95 % (lowest 61.0 %)" in found["Common window"].text
    assert found["librbd cache"].text.startswith("on")
    assert found["Run"].verdict == "look"


def test_points_of_several_clusters_are_called_out(tmp_path: Path) -> None:
    """Figures of two clusters in one curve are no curve; the report and results.json name both."""
    archive = write_archive(tmp_path / "a", [WorkloadSpec("w", depths=(1, 2, 4))])
    built = build_report(load_archive(archive), made_at=NOW)
    assert {c.name: c.verdict for c in built.checks}["One cluster"] == "good"
    manifest = next(iter(archive.rglob("total_iodepth-002/point.json")))
    other = manifest.read_text().replace("11111111-2222-3333-4444-555555555555", "another-cluster")
    manifest.write_text(other)
    built = build_report(load_archive(archive), made_at=NOW)
    check = {c.name: c for c in built.checks}["One cluster"]
    assert check.verdict == "look"
    assert "2 different clusters (fsids 11111111-2222-3333-4444-555555555555, another-cluster)" in check.text
    assert document(built)["cluster_fsids"] == ["11111111-2222-3333-4444-555555555555", "another-cluster"]


def test_a_doubtful_peak_is_marked_in_the_table(tmp_path: Path) -> None:
    """A peak whose instances did not run together bears a mark, and a line says what it means."""
    spec = WorkloadSpec("w", depths=(1, 2, 4))
    sound = load_archive(write_archive(tmp_path / "a", [spec]))
    assert doubtful_peaks_line(sound) is None
    assert not any("*" in cell for row in summary_rows(sound) for cell in row)
    doubtful = load_archive(
        write_archive(tmp_path / "b", [spec], ran=lambda _, depth, __: Ran(overlap=0.6 if depth == 4 else 1.0))
    )
    assert [row[5].endswith("IOPS *") for row in summary_rows(doubtful)] == [True]
    line = doubtful_peaks_line(doubtful)
    assert line is not None
    assert "95%" in line


def test_round_loads_and_limits_need_no_computing(tmp_path: Path) -> None:
    """The first and third figure are tables of round values within what was measured."""
    (item,) = report(tmp_path / "a", WorkloadSpec("w", latency_ms=lambda n: 0.39 + 0.1 * n)).curves
    loads = [answer.throughput for answer in item.loads]
    assert loads == sorted(loads)
    assert len(loads) >= 2
    assert all(load % 250 == 0 for load in loads)
    assert [limit.limit_ns / 1e6 for limit in item.limits] == [0.5, 1, 2, 5]
    assert [limit.is_peak for limit in item.limits] == [False, False, False, True]


@pytest.mark.parametrize(
    ("raw", "step"), [(0.9, 1), (1, 1), (1.1, 2), (2.1, 2.5), (3, 5), (7, 10), (0.03, 0.05), (0, 1), (99_000, 100_000)]
)
def test_steps_of_axes_are_round(raw: float, step: float) -> None:
    """1, 2, 2.5 or 5 times a power of ten."""
    assert nice_step(raw) == pytest.approx(step)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (significant(0.09999), "0.100"),
        (significant(1234.5), "1,234"),
        (significant(0), "0"),
        (latency_ms(1000), "0.00100"),
        (latency_ms(100e9), "100,000"),
        (latency_ms(None), "–"),
        (throughput(12345.6), "12,346"),
        (throughput(5_892_861), "5.893 M"),
        (throughput(8.5), "8.50"),
        (share(0.94999), "94.9 %"),
        (visible("a\nb\x00"), "a\\nb\\x00"),
        (visible("x" * 50, 10), "x" * 9 + "…"),
    ],
)
def test_numbers_as_people_read_them(shown: str, text: str) -> None:
    """Three significant digits, separators, nothing rounded up past a limit."""
    assert shown == text
