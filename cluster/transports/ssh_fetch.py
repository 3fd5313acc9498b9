"""Bringing files back: listed with size and digest, sent in one compressed stream, checked, and taken up again where
the connection breaks off."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

BATCH_FILES = 256
BATCH_BYTES = 256 << 20

_DIGEST_BYTES = 1 << 20
_LINE = re.compile(rb"\\?([0-9a-f]{64}) [ *]\./(.*)", re.DOTALL)


class BadListing(Exception):
    """What the host sent is not what was agreed on; one line."""


class Changed(Exception):
    """A file did not arrive as it was listed: it changed meanwhile."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    name: str
    size: int
    sha256: str


def read_listing(output: bytes) -> tuple[RemoteFile, ...]:
    """What ssh_programs.listing printed. Raises BadListing, also for names that would lead out of the folder."""
    parts = output.split(b"\0")
    if parts.pop() or len(parts) % 2:
        raise BadListing("the list of files is broken")
    half = len(parts) // 2
    files = []
    for size, line in zip(parts[:half], parts[half:], strict=True):
        found = _LINE.fullmatch(line)
        if found is None or not size.isdigit():
            raise BadListing(f"the list of files has an unreadable line: {line[:100]!r}")
        name = os.fsdecode(found[2])
        if name in {"", ".", ".."} or "/" in name:
            raise BadListing(f"refused to take a file of the name {name!r}")
        files.append(RemoteFile(name, int(size), found[1].decode("ascii")))
    if len({file.name for file in files}) != len(files):
        raise BadListing("two files in the list have one name")
    return tuple(files)


@dataclass(slots=True)
class Collection:
    """The files of one folder on their way into `into`. What has arrived whole stays through any number of streams."""

    into: Path
    _parts: dict[RemoteFile, Path] = field(default_factory=dict)

    def missing(self, files: Sequence[RemoteFile]) -> list[RemoteFile]:
        """Those that neither arrived before nor lie in `into` already. What arrived as it is no longer listed goes."""
        for stale in self._parts.keys() - set(files):
            self._parts.pop(stale).unlink(missing_ok=True)
        return [file for file in files if file not in self._parts and not _is_whole(self.into / file.name, file)]

    def receive(self, files: Sequence[RemoteFile]) -> _Receiver:
        """Takes a stream of these files; give it to `with` and feed it."""
        return _Receiver(files, self._part, self._parts)

    def settle(self) -> None:
        """Gives everything that arrived whole its name, on the disk."""
        for part in self._parts.values():
            _sync(part)
        for file, part in self._parts.items():
            part.replace(self.into / file.name)
        self._parts.clear()
        _sync(self.into)

    def drop(self) -> None:
        """Removes what was not settled."""
        for part in self._parts.values():
            part.unlink(missing_ok=True)
        self._parts.clear()

    def _part(self, file: RemoteFile) -> Path:
        return self.into / f".{file.name}.{os.getpid()}.part"


def batches(files: Sequence[RemoteFile]) -> Iterator[list[RemoteFile]]:
    """The files in groups that are worth a stream each."""
    batch: list[RemoteFile] = []
    size = 0
    for file in files:
        if batch and (len(batch) >= BATCH_FILES or size + file.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


class _Receiver:
    """Splits a stream into files and checks each. A context; on leaving, a file that is not whole is removed."""

    def __init__(
        self,
        files: Sequence[RemoteFile],
        part_of: Callable[[RemoteFile], Path],
        whole: dict[RemoteFile, Path],
    ) -> None:
        self._todo = list(reversed(files))
        self._part_of = part_of
        self._whole = whole
        self._head: bytes | None = b""
        self._unpack: zlib._Decompress | None = None
        self._out: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self._left = 0

    def __enter__(self) -> _Receiver:
        self._next()
        return self

    def __exit__(self, *_: object) -> None:
        if self._out is not None:
            self._out.close()
            self._part_of(self._todo[-1]).unlink(missing_ok=True)

    def feed(self, data: bytes) -> None:
        """Raises Changed, BadListing, and the OSError of writing."""
        if self._head is not None:
            self._head += data
            form, newline, data = self._head.partition(b"\n")
            if not newline:
                return
            self._head = None
            if form not in {b"gzip", b"plain"}:
                raise BadListing(f"the stream begins with something unknown: {form[:40]!r}")
            self._unpack = zlib.decompressobj(wbits=31) if form == b"gzip" else None
        if self._unpack is None:
            self._take(data)
            return
        try:
            while data:
                self._take(self._unpack.decompress(data, _DIGEST_BYTES))
                data = self._unpack.unconsumed_tail
        except zlib.error as error:
            raise BadListing(f"the compressed stream is broken: {error}") from None

    def finish(self) -> None:
        """To be called when the stream has ended well. Raises Changed when files are missing from it."""
        if self._todo:
            raise Changed(f"{self._todo[-1].name} is shorter than listed")

    def _take(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._out is None:
                raise Changed("the files are longer than listed")
            piece, view = view[: self._left], view[self._left :]
            self._out.write(piece)
            self._digest.update(piece)
            self._left -= len(piece)
            if self._left == 0:
                self._complete(self._out)
                self._next()

    def _next(self) -> None:
        """Opens the next file; one of no bytes is complete at once."""
        while self._todo:
            file = self._todo[-1]
            self._part_of(file).unlink(missing_ok=True)
            self._out = self._part_of(file).open("xb")
            self._digest, self._left = hashlib.sha256(), file.size
            if self._left:
                return
            self._complete(self._out)

    def _complete(self, out: BinaryIO) -> None:
        out.close()
        self._out = None
        file = self._todo.pop()
        if self._digest.hexdigest() != file.sha256:
            self._part_of(file).unlink(missing_ok=True)
            raise Changed(f"{file.name} has another digest than listed")
        self._whole[file] = self._part_of(file)


def _is_whole(path: Path, file: RemoteFile) -> bool:
    with contextlib.suppress(FileNotFoundError):
        if path.is_symlink() or path.stat().st_size != file.size:
            return False
        with path.open("rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest() == file.sha256
    return False


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
