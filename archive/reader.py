"""The only reader of archives. It reads; nothing is ever written into an archive."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from archive.found import FoundArchive, NotAnArchive, UnreadableFile, read_regular_file
from archive.layout import PLAN_NAME, RESULTS, RUN_NAME
from archive.layouts import all_layouts
from archive.manifest import MANIFEST_NAME
from archive.tree import walk

_ITERATION: Final = re.compile(r"\d{8}")
_MAX_LEVELS_UP: Final = 12
_MAX_REPORT_BYTES: Final = 64 * 1024 * 1024


def read_archive(path: Path) -> FoundArchive:
    """Reads the archive at `path`: its folder, its `results/`, one `id-…`, or the folder above it.

    A part (one iteration, one `id-…`) is read as that part alone. Raises NotAnArchive.
    """
    root, start = locate(path)
    tree = walk(root, start)
    for layout in all_layouts():
        if layout.recognises(tree):
            return layout.read(tree)
    raise NotAnArchive(
        f"{path}: no {MANIFEST_NAME} in it: this version reads only archives that this program has written"
    )


def locate(path: Path) -> tuple[Path, Path]:
    """The archive's own folder, and the folder within it that was meant. Raises NotAnArchive."""
    try:
        given = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotAnArchive(f"{path}: {reason}") from None
    if not given.is_dir():
        raise NotAnArchive(f"{path}: is a file; give the archive's folder")
    try:
        return _locate(path, given)
    except OSError as error:
        raise NotAnArchive(f"{path}: {error.strerror}") from None


def _locate(path: Path, given: Path) -> tuple[Path, Path]:
    if (given / RESULTS).is_dir():
        if not (given / RESULTS).resolve().is_relative_to(given):
            raise NotAnArchive(
                f"{path}: its {RESULTS} is a link out of the folder, not followed; give the link's target"
            )
        return given, given / RESULTS
    if _is_report(given):
        raise NotAnArchive(f"{path}: is the folder of a report, not an archive; give the archive it was made from")
    if given.name == RESULTS and _looks_like_results(given):
        return given.parent, given
    if _looks_like_results(given):
        return given, given
    inside = _results_above(given)
    if inside is not None:
        return inside.parent, given
    below = sorted(child for child in given.iterdir() if child.is_dir() and (child / RESULTS).is_dir())
    if len(below) == 1:
        return below[0], below[0] / RESULTS
    if below:
        names = ", ".join(child.name for child in below[:4]) + (", …" if len(below) > 4 else "")
        raise NotAnArchive(f"{path}: holds {len(below)} archives ({names}); give one of them")
    return given, given


def _looks_like_results(folder: Path) -> bool:
    return (
        (folder / RUN_NAME).is_file()
        or (folder / PLAN_NAME).is_file()
        or any(_ITERATION.fullmatch(child.name) and child.is_dir() for child in folder.iterdir())
    )


def _results_above(folder: Path) -> Path | None:
    """The `results` folder that this part of an archive lies in."""
    below = folder
    for _ in range(_MAX_LEVELS_UP):
        parent = below.parent
        if parent == below:
            return None
        if parent.name == RESULTS and _ITERATION.fullmatch(below.name):
            return parent
        below = parent
    return None


def _is_report(folder: Path) -> bool:
    """Whether a folder holds what the report tools write."""
    try:
        document = json.loads(read_regular_file(folder / "results.json", _MAX_REPORT_BYTES))
    except (UnreadableFile, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "curves" in document and "schema" in document
