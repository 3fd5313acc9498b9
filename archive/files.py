"""Writing files such that each appears whole or not at all, even when the power goes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class ArchiveError(Exception):
    """The archive cannot be used or written; one line."""


class ArchiveFull(ArchiveError):
    """No space is left where the archive is."""


def is_out_of_space(error: OSError) -> bool:
    """Whether it was for want of space, or of what a quota allows."""
    return error.errno in _NO_SPACE


@contextmanager
def space_checked(path: Path) -> Iterator[None]:
    """Turns an operating system's refusal to write at `path` into an ArchiveError of one line."""
    try:
        yield
    except OSError as error:
        if is_out_of_space(error):
            raise ArchiveFull(
                f"{path}: {os.strerror(error.errno or 0)}; free some space and give the same command again: "
                "what is archived so far is whole"
            ) from error
        raise ArchiveError(f"{error.filename or path}: {error.strerror or error}") from error


def temporary_name(name: str) -> str:
    """What a file is called while `write_whole` writes it."""
    return f".{name}.tmp"


def write_whole(path: Path, data: bytes) -> None:
    """Writes `path` by way of a temporary name, fsync and rename. Raises ArchiveError."""
    temporary = path.with_name(temporary_name(path.name))
    with space_checked(path):
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_directory(path.parent)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Makes the names in a folder survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
