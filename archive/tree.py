"""One walk through an archive's folders, without following links."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from archive.found import FoundProblem

MAX_DEPTH: Final = 24
MAX_FOLDERS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Tree:
    """Folders by their path relative to `root` ("" is the root), each with the names of its plain files."""

    root: Path
    folders: Mapping[str, tuple[str, ...]]
    problems: tuple[FoundProblem, ...]


def walk(root: Path, start: Path) -> Tree:
    """The folders from `start` on, which lies within `root`. Links that lead out are problems, never followed;
    a link within the tree leads to what the walk finds anyway. Hidden files and folders are passed over."""
    folders: dict[str, tuple[str, ...]] = {}
    problems: list[FoundProblem] = []
    pending = [(str(start), 0)]
    while pending:
        folder, depth = pending.pop()
        where = os.path.relpath(folder, root)
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            problems.append(FoundProblem(where, f"cannot be listed: {error.strerror}"))
            continue
        names = []
        for entry in listed:
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                if not _within(Path(entry.path), root):
                    problems.append(FoundProblem(os.path.relpath(entry.path, root), "a link out of the archive"))
            elif entry.is_dir(follow_symlinks=False):
                if depth >= MAX_DEPTH:
                    problems.append(FoundProblem(os.path.relpath(entry.path, root), "nested too deeply"))
                else:
                    pending.append((entry.path, depth + 1))
            else:
                names.append(entry.name)
        folders["" if where == "." else where] = tuple(names)
        if len(folders) > MAX_FOLDERS:
            problems.append(FoundProblem(where, f"more than {MAX_FOLDERS} folders: the rest is not read"))
            break
    return Tree(root, folders, tuple(problems))


def _within(link: Path, root: Path) -> bool:
    try:
        return link.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # dangling, or a loop
        return False
