"""The archive's only writer: one plan, one run at a time, points whole or not there."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path, PurePosixPath

import pytest

from archive import writer
from archive.files import ArchiveError, ArchiveFull, space_checked, write_whole
from archive.log import LogFile
from archive.manifest import ManifestError, PointManifest, Status
from archive.writer import ArchiveWriter

FOLDER = PurePosixPath("00000000/id-0123abcd/4krandread/numjobs-001/total_iodepth-016")


def manifest(status: Status = "complete", point_id: str = "ab" * 8) -> PointManifest:
    return PointManifest(
        point_id=point_id,
        iteration=0,
        benchmark="librbdfio",
        workload="4krandread",
        reported=True,
        settings={"mode": "randread"},
        setting={"total_iodepth": 16},
        queue_depth=16,
        status=status,
        reason=None if status == "complete" else "because",
        started_s=1.0,
        ended_s=2.0,
        ramp_s=0.0,
        time_s=1.0,
        instances_expected=1,
        overlap=1.0,
        start_skew_s=0.0,
        instances=(),
        health_before=None,
        health_after=None,
        cluster_fsid=None,
        versions={},
    )


def open_archive(root: Path, digest: str = "d1") -> ArchiveWriter:
    return ArchiveWriter.open(root, plan_text="cluster: {}\n", plan_digest=digest)


def commit(archive: ArchiveWriter, text: str, status: Status = "complete", folder: PurePosixPath = FOLDER) -> Path:
    staged = archive.stage(folder)
    (staged.path / "output.0.host").write_text(text)
    return archive.commit(staged, manifest(status), {"cluster": {"benchmark": "librbdfio"}})


def test_a_committed_point_is_found_again(tmp_path: Path) -> None:
    """What finished is there when the archive is opened again with the same plan."""
    with open_archive(tmp_path / "a") as archive:
        place = commit(archive, "numbers")
    with open_archive(tmp_path / "a") as archive:
        found = archive.manifest(FOLDER)
    assert found == manifest()
    assert (place / "output.0.host").read_text() == "numbers"
    assert (tmp_path / "a/results/00000000/id-0123abcd/benchmark_config.yaml").exists()
    assert not (tmp_path / "a/.cbt-staging").exists()


def test_a_failed_point_is_superseded_not_lost(tmp_path: Path) -> None:
    """A second try takes the place of a failed one, whose files remain under superseded/."""
    with open_archive(tmp_path) as archive:
        commit(archive, "first", "failed")
        place = commit(archive, "second")
        assert archive.manifest(FOLDER) == manifest()
    assert (place / "output.0.host").read_text() == "second"
    kept = list((tmp_path / "superseded").rglob("output.0.host"))
    assert [file.read_text() for file in kept] == ["first"]


def test_a_point_in_its_combinations_folder(tmp_path: Path) -> None:
    """Without workloads the point shares its folder with benchmark_config.yaml, and a second try replaces it too."""
    folder = PurePosixPath("00000000/id-0123abcd")
    with open_archive(tmp_path) as archive:
        commit(archive, "first", "partial", folder)
        place = commit(archive, "second", "complete", folder)
        found = archive.manifest(folder)
    assert found is not None
    assert found.status == "complete"
    assert (place / "benchmark_config.yaml").exists()
    assert (place / "output.0.host").read_text() == "second"


@pytest.mark.parametrize("folder", [FOLDER, PurePosixPath("00000000/id-0123abcd")])
def test_monitors_folders_go_with_their_point(tmp_path: Path, folder: PurePosixPath) -> None:
    """A second try replaces the folders of monitors too, also those an interrupted try left; what was seen of the idle
    cluster, and another point's folder, stay where they are."""
    combination = tmp_path / "results/00000000/id-0123abcd"
    with open_archive(tmp_path) as archive:
        for text in ("first", "second", "third"):
            staged = archive.stage(PurePosixPath("00000000/id-0123abcd"))
            (staged.path / "idle_monitoring.host/top").mkdir(parents=True)
            (staged.path / "idle_monitoring.host/top/top.out").write_text(text)
            archive.add_idle(staged)
            archive.discard(staged)
            staged = archive.stage(folder)
            (staged.path / "top.host").mkdir()
            (staged.path / f"top.host/{text}").write_text(text)
            place = archive.commit(staged, manifest("failed"), {})
            commit(archive, "other", folder=PurePosixPath("00000000/id-0123abcd/other"))
            if text == "second":
                (place / "point.json").unlink()  # as if the third try had been interrupted while it moved files
        assert archive.idle_was_watched(PurePosixPath("00000000/id-0123abcd"))
    assert [file.name for file in (place / "top.host").iterdir()] == ["third"]
    assert (combination / "idle_monitoring.host/top/top.out").read_text() == "first"
    assert (combination / "other/output.0.host").read_text() == "other"
    kept = [file.name for file in (tmp_path / "superseded").rglob("top.host/*")]
    assert kept == ["first"]


def test_another_plan_is_refused(tmp_path: Path) -> None:
    """An archive holds the results of one plan."""
    with open_archive(tmp_path) as archive:
        commit(archive, "numbers")
    with pytest.raises(ArchiveError, match="another plan"):
        open_archive(tmp_path, "d2")


def test_what_was_made_on_a_cluster_binds_the_archive_too(tmp_path: Path) -> None:
    """The ledger of a plan is needed to remove what it made, so another plan does not take its place."""
    with open_archive(tmp_path) as archive:
        archive.ledger_path.write_text('{"mark": "intended"}\n')
    with pytest.raises(ArchiveError, match="another plan"):
        open_archive(tmp_path, "d2")


def test_a_plan_without_any_result_makes_way_for_another(tmp_path: Path) -> None:
    """A plan that preflight refused is mended and given again with the same folder; what its call recorded is kept
    aside."""
    with open_archive(tmp_path) as archive:
        archive.write_session({"plan": "first"})
        archive.ledger_path.touch()
    with ArchiveWriter.open(tmp_path, plan_text="cluster: {a: 1}\n", plan_digest="d2") as archive:
        assert (tmp_path / "results/cbt_config.yaml").read_text() == "cluster: {a: 1}\n"
        assert json.loads((tmp_path / "results/run.json").read_text())["plan_digest"] == "d2"
        assert not list((tmp_path / "results").glob("session-*"))
        assert len(list((tmp_path / "superseded").rglob("session-01.json"))) == 1
        commit(archive, "numbers")
    with pytest.raises(ArchiveError, match="another plan"):
        open_archive(tmp_path)


@pytest.mark.parametrize("left", [[], [".run.json.tmp"], ["run.json"], ["run.json", ".cbt_config.yaml.tmp"]])
def test_an_archive_killed_while_it_was_begun_is_gone_on_with(tmp_path: Path, left: list[str]) -> None:
    """Whatever the first files look like when the program is killed, the next call goes on."""
    open_archive(tmp_path).close()
    results = tmp_path / "results"
    run = (results / "run.json").read_bytes()
    for entry in results.iterdir():
        entry.unlink()
    for name in left:
        (results / name).write_bytes(run if name == "run.json" else b"{")
    open_archive(tmp_path).close()
    assert (results / "cbt_config.yaml").read_text() == "cluster: {}\n"
    assert json.loads((results / "run.json").read_text())["plan_digest"] == "d1"


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    """The second run is told who holds the archive."""
    with open_archive(tmp_path), pytest.raises(ArchiveError, match=r"another run .*pid \d+"):
        open_archive(tmp_path)


@pytest.mark.parametrize("name", ["thesis.doc", "results/00000000/id-0a0b0c0d/output.0"])
def test_foreign_folders_are_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    """A folder with somebody's files, or an older tool's results, is never written to."""
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ArchiveError, match="folder"):
        open_archive(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_becomes_foreign_is_refused_without_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that appear between the first look and the lock are seen, and the lock file goes again."""
    take = writer._take_lock

    def take_late(root: Path) -> int:
        (root / "thesis.tex").touch()
        return take(root)

    monkeypatch.setattr(writer, "_take_lock", take_late)
    with pytest.raises(ArchiveError, match=r"thesis\.tex"):
        open_archive(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_path_that_is_not_utf8_is_an_archive_like_any(tmp_path: Path) -> None:
    """File names are bytes; log, run facts and points are written all the same."""
    root = tmp_path / os.fsdecode(b"a\xff")
    with open_archive(root) as archive:
        archive.write_session({"plan": f"{root}/plan.yaml"})
        archive.log.note(f"begin: {root}")
        commit(archive, "numbers")
    with open_archive(root) as archive:
        assert archive.manifest(FOLDER) is not None
    assert "a\\udcff" in (root / "cbt.log").read_text(encoding="utf-8")


def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    """ENOSPC is told apart from other trouble and says that what is archived is whole."""
    with pytest.raises(ArchiveFull, match="free some space"), space_checked(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_no_partial_file_under_the_final_name(tmp_path: Path) -> None:
    """When a write fails the old content stays and no temporary file is left."""
    file = tmp_path / "f"
    write_whole(file, b"old")
    file.with_name(".f.tmp").mkdir()
    with pytest.raises(ArchiveError):
        write_whole(file, b"new")
    assert file.read_bytes() == b"old"


def test_an_unknown_schema_is_refused() -> None:
    """A manifest of a later format is not guessed at."""
    document = json.loads(manifest().to_json())
    document["schema"] = 99
    with pytest.raises(ManifestError, match="schema 99"):
        PointManifest.from_json(json.dumps(document))


def test_the_log_keeps_one_line_a_command(tmp_path: Path) -> None:
    """A command with newlines in its words stays one line, with host, duration and status."""
    log = LogFile(tmp_path / "cbt.log")
    log.record("client1", "echo 'a\nb'", 0.0, 0.25, "0")
    log.close()
    lines = (tmp_path / "cbt.log").read_text().splitlines()
    assert len(lines) == 1
    assert "host=client1 duration=0.250s status=0: echo 'a\\nb'" in lines[0]
