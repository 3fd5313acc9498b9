"""The only writer of archives: one run at a time, one plan an archive, every point whole or not there."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any

import yaml

from archive.files import ArchiveError, is_out_of_space, space_checked, sync_directory, temporary_name, write_whole
from archive.layout import (
    BALANCER_OFF_NAME,
    BENCHMARK_CONFIG_NAME,
    IDLE_PREFIX,
    LEDGER_NAME,
    LOCK_NAME,
    LOG_NAME,
    PLAN_NAME,
    RESULTS,
    RUN_NAME,
    RUN_SCHEMA,
    STAGING,
    SUPERSEDED,
    session_name,
)
from archive.log import LogFile
from archive.manifest import MANIFEST_NAME, ManifestError, PointManifest

_OURS = frozenset({LOG_NAME, RESULTS, LOCK_NAME, STAGING, SUPERSEDED})
_WORK_PREFIX = "cbt-"  # people give one folder as archive and as tmp_dir; these are a run's working folders


@dataclass(frozen=True, slots=True)
class StagedPoint:
    """A folder beside the results in which a point's files gather until the point is whole."""

    path: Path
    folder: PurePosixPath


class ArchiveWriter:
    """An archive opened for writing; holds its lock until closed. Use as a context manager."""

    def __init__(self, root: Path, lock: int, log: LogFile) -> None:
        self.root = root
        self.results = root / RESULTS
        self.log = log
        self._lock = lock
        self._session: Path | None = None

    @classmethod
    def open(cls, root: Path, *, plan_text: str, plan_digest: str) -> ArchiveWriter:
        """Makes the archive, or goes on with one of the same plan. A plan under which nothing was measured or made
        binds nobody: another one takes its place.

        Raises ArchiveError when the folder holds something else, another plan, or another run that is under way.
        """
        with space_checked(root):
            _make_root(root)
            _refuse_foreign(root)  # before the lock file is made, so that a foreign folder stays as it is
            was_there = (root / LOCK_NAME).exists()
            lock = _take_lock(root)
            try:
                try:
                    _refuse_foreign(root)  # again: it may have changed before the lock was ours
                except ArchiveError:
                    if not was_there:
                        (root / LOCK_NAME).unlink(missing_ok=True)
                    raise
                _bind_to_plan(root, plan_text, plan_digest)
                shutil.rmtree(root / STAGING, ignore_errors=True)
                return cls(root, lock, LogFile(root / LOG_NAME))
            except BaseException:
                os.close(lock)
                raise

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        shutil.rmtree(self.root / STAGING, ignore_errors=True)
        self.log.close()
        with suppress(OSError):
            os.close(self._lock)

    @property
    def ledger_path(self) -> Path:
        """Where the run writes down what it creates."""
        return self.results / LEDGER_NAME

    @property
    def balancer_is_off(self) -> bool:
        """Whether a run of this archive switched Ceph's balancer off and has not switched it on again."""
        return (self.results / BALANCER_OFF_NAME).exists()

    def note_balancer_off(self) -> None:
        """To be called before switching it off."""
        write_whole(self.results / BALANCER_OFF_NAME, b"")

    def note_balancer_on(self) -> None:
        with space_checked(self.results):
            (self.results / BALANCER_OFF_NAME).unlink(missing_ok=True)

    def check(self) -> None:
        """Raises ArchiveFull or ArchiveError when the log could not be written."""
        if self.log.failure is not None:
            with space_checked(self.root / LOG_NAME):
                raise self.log.failure

    def manifest(self, folder: PurePosixPath) -> PointManifest | None:
        """The manifest of a point that is there. None when there is none, or none that can be read."""
        try:
            return PointManifest.from_json((self.results / folder / MANIFEST_NAME).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ManifestError):
            return None

    def write_session(self, facts: Mapping[str, Any]) -> None:
        """Writes the facts of this call: versions, configuration, hosts. Written again, it replaces them."""
        if self._session is None:
            numbers = range(1, len(list(self.results.glob("session-*.json"))) + 2)
            self._session = next(p for n in numbers if not (p := self.results / session_name(n)).exists())
        write_whole(self._session, _json(facts))

    def stage(self, folder: PurePosixPath) -> StagedPoint:
        """A new empty folder for a point's files."""
        path = self.root / STAGING / "point"
        with space_checked(path):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        return StagedPoint(path, folder)

    def commit(self, staged: StagedPoint, manifest: PointManifest, benchmark_config: Mapping[str, Any]) -> Path:
        """Moves a staged point to its place with its manifest; an earlier try at it is kept under `superseded/`.

        Raises ArchiveFull or ArchiveError; the results are then as they were.
        """
        write_whole(staged.path / MANIFEST_NAME, manifest.to_json().encode())
        place = self.results / staged.folder
        with space_checked(place):
            _sync_tree(staged.path)
            place.parent.mkdir(parents=True, exist_ok=True)
            self._write_benchmark_config(staged.folder, benchmark_config)
            if manifest_is_at(place):
                self._supersede(place, staged.folder)
            if place.exists():
                # Without workloads a point's folder is its combination's and holds benchmark_config.yaml already.
                for entry in _manifest_last(staged.path):
                    _put_in_place(entry, place / entry.name)
                staged.path.rmdir()
            else:
                staged.path.rename(place)
            sync_directory(place)
            sync_directory(place.parent)
        return place

    def idle_was_watched(self, folder: PurePosixPath) -> bool:
        """Whether what monitors saw of the idle cluster stands in a combination's folder."""
        return any((self.results / folder).glob(f"{IDLE_PREFIX}*"))

    def add_idle(self, staged: StagedPoint) -> None:
        """Moves staged folders (idle_folder_name) into a combination's folder, each whole; those already there stay.

        Raises ArchiveFull or ArchiveError.
        """
        place = self.results / staged.folder
        with space_checked(place):
            _sync_tree(staged.path)
            place.mkdir(parents=True, exist_ok=True)
            for entry in staged.path.iterdir():
                if not (place / entry.name).exists():
                    entry.rename(place / entry.name)
            sync_directory(place)
            sync_directory(place.parent)

    def discard(self, staged: StagedPoint) -> None:
        shutil.rmtree(staged.path, ignore_errors=True)

    def _write_benchmark_config(self, folder: PurePosixPath, config: Mapping[str, Any]) -> None:
        path = self.results.joinpath(*folder.parts[:2]) / BENCHMARK_CONFIG_NAME
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, yaml.safe_dump(dict(config), default_flow_style=False).encode())

    def _supersede(self, place: Path, folder: PurePosixPath) -> None:
        target = _new_superseded(self.root) / folder
        target.mkdir(parents=True)
        # The manifest goes last: whatever interrupts this, the next try finds it and moves the rest.
        for entry in _manifest_last(place):
            if _belongs_to_point(entry):
                entry.rename(target / entry.name)


def _manifest_last(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=lambda entry: entry.name == MANIFEST_NAME)


def _belongs_to_point(entry: Path) -> bool:
    """Whether this is part of the point in whose folder it stands, rather than of the combination or another point."""
    if entry.is_dir() and not entry.is_symlink():
        return not entry.name.startswith(IDLE_PREFIX) and not any(entry.rglob(MANIFEST_NAME))
    return entry.name != BENCHMARK_CONFIG_NAME


def _put_in_place(entry: Path, target: Path) -> None:
    """Renames a file or folder; a folder that an interrupted try left there, without a manifest, makes way for it."""
    if entry.is_dir() and target.is_dir():
        shutil.rmtree(target)
    entry.replace(target)


def manifest_is_at(place: Path) -> bool:
    """Whether a point was archived in this folder."""
    return (place / MANIFEST_NAME).exists()


def _make_root(root: Path) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ArchiveError(f"{root}: is a file, or lies below one, and cannot be an archive; give a folder") from None
    except OSError as error:
        if is_out_of_space(error):
            raise
        raise ArchiveError(
            f"{root}: the folder cannot be made ({error.strerror}); give one where you may write"
        ) from None


def _refuse_foreign(root: Path) -> None:
    names = {entry.name for entry in root.iterdir() if not entry.name.startswith(_WORK_PREFIX)}
    results = root / RESULTS
    if results.exists() and not (results / RUN_NAME).exists() and not _is_barely_begun(results):
        raise ArchiveError(
            f"{root}: holds results that this program did not write; nothing is added to them: give another folder"
        )
    if foreign := sorted(names - _OURS):
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise ArchiveError(
            f"{root}: is not an archive of this program, it holds {', '.join(foreign[:3])}{more}: "
            "give a new or an empty folder"
        )


def _is_barely_begun(results: Path) -> bool:
    """Whether the results hold no more than what a run leaves that is killed while it writes its first file."""
    return {entry.name for entry in results.iterdir()} <= {temporary_name(RUN_NAME)}


def _take_lock(root: Path) -> int:
    lock = os.open(root / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(lock, 100).decode(errors="replace").strip()
        os.close(lock)
        raise ArchiveError(
            f"{root}: another run is writing this archive ({holder or 'unknown'}); wait for it, or give another folder"
        ) from None
    os.ftruncate(lock, 0)
    os.write(lock, f"pid {os.getpid()} on {os.uname().nodename}".encode())
    return lock


def _bind_to_plan(root: Path, plan_text: str, plan_digest: str) -> None:
    """Writes the plan and its digest, or checks that they are this archive's. Killed anywhere, the next call mends it:
    run.json comes first, and without points the text is written again where it is not this plan's."""
    results = root / RESULTS
    results.mkdir(exist_ok=True)
    run, plan = results / RUN_NAME, results / PLAN_NAME
    data = plan_text.encode()
    begun_with = _plan_digest(run) if run.exists() else None
    if begun_with == plan_digest and plan.exists() and plan.read_bytes() == data:
        return
    if begun_with is not None and _is_bound(root):
        if begun_with != plan_digest:
            raise ArchiveError(
                f"{root}: was begun with another plan (its own is {RESULTS}/{PLAN_NAME}); "
                "give that plan again to go on, or another folder for this one"
            )
        if plan.exists():
            return  # the same plan in another spelling
    elif begun_with not in (None, plan_digest):
        _set_aside(root)
    if begun_with != plan_digest:
        document = {"schema": RUN_SCHEMA, "plan_digest": plan_digest, "created_unix_s": time.time()}
        write_whole(run, _json(document))
    write_whole(plan, data)


def _is_bound(root: Path) -> bool:
    """Whether anything was measured, or made on a cluster, under the archive's plan."""
    ledger = root / RESULTS / LEDGER_NAME
    if ledger.exists() and ledger.stat().st_size > 0:
        return True
    return any(any((root / name).rglob(MANIFEST_NAME)) for name in (RESULTS, SUPERSEDED) if (root / name).exists())


def _set_aside(root: Path) -> None:
    """Moves what calls with another plan recorded (sessions, the idle cluster) out of the results."""
    ours = {RUN_NAME, PLAN_NAME, LEDGER_NAME, temporary_name(RUN_NAME), temporary_name(PLAN_NAME)}
    entries = [entry for entry in (root / RESULTS).iterdir() if entry.name not in ours]
    if not entries:
        return
    target = _new_superseded(root)
    target.mkdir(parents=True)
    for entry in entries:
        entry.rename(target / entry.name)


def _new_superseded(root: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return root / SUPERSEDED / f"{stamp}-{time.time_ns() % 1_000_000_000:09d}"


def _plan_digest(run: Path) -> str:
    try:
        document = json.loads(run.read_text(encoding="utf-8"))
        schema, digest = document["schema"], str(document["plan_digest"])
    except (ValueError, KeyError, TypeError) as error:
        raise ArchiveError(f"{run}: cannot be read ({error}); give another folder") from None
    if schema != RUN_SCHEMA:
        raise ArchiveError(f"{run}: schema {schema!r} is unknown to this version, which knows {RUN_SCHEMA}")
    return digest


def _sync_tree(path: Path) -> None:
    """Brings every file below a folder to the disk, and the names in the folders within it."""
    for entry in path.iterdir():
        if entry.is_symlink():
            continue
        if entry.is_dir():
            _sync_tree(entry)
            sync_directory(entry)
        elif entry.is_file():
            descriptor = os.open(entry, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, default=str) + "\n").encode()
