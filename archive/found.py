"""What a reader finds in an archive, whatever its layout. Raw files are read when asked for; nothing is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MAX_RAW_BYTES: Final = 64 * 1024 * 1024
"""No instance's output is larger; what is, is something else."""


class NotAnArchive(Exception):
    """The folder cannot be read as an archive; the message says what was given and how to mend it, one line."""


class UnreadableFile(Exception):
    """A file of the archive cannot be used; the message is the reason, without the file's name."""


@dataclass(frozen=True, slots=True)
class FoundProblem:
    """A file or folder that could not be used. `where` is relative to the archive."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class FoundInstance:
    """One instance of a point. `files` are names within the point's folder that may hold its numbers, best first.

    `status` and `reason` are the manifest's; None where no manifest says. `queue_depth` is numjobs × iodepth.
    """

    host: str
    number: int
    files: tuple[str, ...]
    status: str | None
    reason: str | None
    queue_depth: int | None


@dataclass(frozen=True, slots=True)
class FoundPoint:
    """One point as it stands on disk. What a layout does not tell is None; `folder` is relative to the archive.

    `settings` are the effective options, `setting` what the plan swept. Times are Unix seconds.
    """

    path: Path
    folder: str
    iteration: int
    benchmark: str
    workload: str | None
    reported: bool
    settings: Mapping[str, Any]
    setting: Mapping[str, int]
    queue_depth: int | None
    status: str | None
    reason: str | None
    started_s: float | None
    ended_s: float | None
    instances_expected: int | None
    overlap: float | None
    start_skew_s: float | None
    instances: tuple[FoundInstance, ...]
    health_before: Mapping[str, Any] | None = None
    health_after: Mapping[str, Any] | None = None
    versions: Mapping[str, Mapping[str, str]] | None = None
    notes: tuple[str, ...] = ()
    cluster_fsid: str | None = None

    def read(self, name: str) -> bytes:
        """A raw file of the point. Raises UnreadableFile."""
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise UnreadableFile("its name leads out of the point's folder")
        return read_regular_file(self.path / name, MAX_RAW_BYTES)


@dataclass(frozen=True, slots=True)
class FoundArchive:
    """An archive: its points in no particular order, and what of it could not be used.

    `sessions` are the facts that each call of the program recorded, oldest first. `plan_text` is the plan as given.
    """

    name: str
    root: Path
    layout: str
    points: tuple[FoundPoint, ...]
    problems: tuple[FoundProblem, ...]
    sessions: tuple[Mapping[str, Any], ...]
    plan_text: str | None


def read_regular_file(path: Path, limit_bytes: int) -> bytes:
    """The bytes of a plain file of at most `limit_bytes`; no symlink, no device, no pipe. Raises UnreadableFile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UnreadableFile("is missing") from None
    except ValueError:  # a name that no file can have
        raise UnreadableFile("has a name that no file can have") from None
    except OSError as error:
        if path.is_symlink():
            raise UnreadableFile("is a symbolic link; links are not followed") from None
        raise UnreadableFile(f"cannot be opened: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile("is not a plain file")
        if status.st_size > limit_bytes:
            raise UnreadableFile(f"has {status.st_size} bytes, more than the {limit_bytes} that are read")
        try:
            return file.read(limit_bytes)
        except OSError as error:
            raise UnreadableFile(f"cannot be read: {error.strerror}") from None
