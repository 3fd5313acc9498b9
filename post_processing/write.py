"""Puts a report into a folder: every file whole, nothing overwritten, nothing inside the archive."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from archive.reader import locate
from post_processing.report import Report
from post_processing.reports import ReportFormat


class OutputRefused(Exception):
    """The report cannot be written there; one line."""


def stamp(moment: datetime) -> str:
    """Date and time as they stand in file names."""
    return moment.strftime("%Y%m%d_%H%M%S")


def output_directory(archive: Path, given: Path | None, made_at: datetime) -> Path:
    """The folder for a report, made if need be: the one given, or a new one beside the archive.

    Raises OutputRefused (inside the archive, not a folder, not writable) and NotAnArchive.
    """
    root, _ = locate(archive)
    try:
        if given is None:
            return _new_beside(root, f"{root.name}_report_{stamp(made_at)}")
        target = given.resolve()
        if target.is_relative_to(root):
            raise OutputRefused(f"{given}: lies inside the archive, which is only read; give a folder outside of it")
        target.mkdir(parents=True, exist_ok=True)
        return target
    except OSError as error:
        raise OutputRefused(
            f"{error.filename or given or root.parent}: {error.strerror}; give a folder with --output_directory"
        ) from None


def write_report(report: Report, directory: Path, formats: Iterable[ReportFormat]) -> dict[str, Path]:
    """Writes the report in each format; format name → file. Raises OutputRefused."""
    written = {}
    for report_format in formats:
        try:
            written[report_format.name] = _write_new(report, directory, report_format)
        except OSError as error:
            raise OutputRefused(f"{error.filename or directory}: {error.strerror}") from None
    return written


def _new_beside(root: Path, name: str) -> Path:
    for attempt in range(1, 1000):
        folder = root.parent / (name if attempt == 1 else f"{name}_{attempt}")
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise OutputRefused(f"{root.parent}: holds too many reports of this second")


def _write_new(report: Report, directory: Path, report_format: ReportFormat) -> Path:
    """Writes under a temporary name, then links it to the first name that is free: a name never holds half a file."""
    descriptor, temporary = tempfile.mkstemp(prefix=".report-", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            report_format.write(report, file)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        for name in _names(report_format.file_name(stamp(report.made_at)), stamp(report.made_at)):
            with suppress(FileExistsError):
                _place(Path(temporary), directory / name)
                return directory / name
        raise OutputRefused(f"{directory}: holds too many reports of this second")
    finally:
        Path(temporary).unlink(missing_ok=True)


def _place(temporary: Path, final: Path) -> None:
    """Gives a file its name unless that is taken. Raises FileExistsError."""
    try:
        os.link(temporary, final)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: take the name first, then fill it in one step
        final.touch(exist_ok=False)
        temporary.replace(final)


def _names(name: str, when: str) -> Iterable[str]:
    """The name itself; if that is taken, the same with date and time, then numbered."""
    path = Path(name)
    yield name
    stem = path.stem if when in path.stem else f"{path.stem}_{when}"
    if stem != path.stem:
        yield f"{stem}{path.suffix}"
    for number in range(2, 1000):
        yield f"{stem}_{number}{path.suffix}"
