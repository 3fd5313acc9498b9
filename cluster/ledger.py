"""What this run makes on a cluster, written down before it is made; nothing else is ever removed.

The file holds one JSON object a line and is only appended to. A line cut short by a crash counts for nothing, and
what it would have announced was not made yet.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

Kind = Literal["pool", "image", "erasure_profile", "crush_rule", "folder"]
Mark = Literal["intended", "created", "filled", "emptied", "removed"]


class LedgerError(Exception):
    """The ledger cannot be read or written; one line."""


@dataclass(frozen=True, slots=True)
class Thing:
    """Something on a cluster. `pool` only for images."""

    fsid: str
    kind: Kind
    name: str
    pool: str = ""

    def shown(self) -> str:
        where = f" in pool {self.pool!r}" if self.pool else ""
        return f"{self.kind.replace('_', ' ')} {self.name!r}{where}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A thing of this run. `ident` is what the cluster itself calls it (pool id, image id): a thing of the same name
    with another one is somebody else's. `created` is False while only the intention was written down; `filled` when
    the whole image was seen to be written, and nothing discarded from it since."""

    thing: Thing
    ident: str = ""
    created: bool = False
    filled: bool = False


class Ledger:
    """The list of one run, in one file. Safe to use from several threads. Every method may raise LedgerError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._entries: dict[Thing, Entry] = {}
        self._torn = False
        for document in self._read():
            self._apply(document)

    def intend(self, thing: Thing) -> None:
        """To be called after seeing that there is no such thing, and before making it."""
        self._append("intended", thing)

    def created(self, thing: Thing, ident: str) -> None:
        self._append("created", thing, ident)

    def filled(self, thing: Thing) -> None:
        self._append("filled", thing)

    def emptied(self, thing: Thing) -> None:
        """To be called before parts of a filled image are discarded: it counts as filled no longer."""
        self._append("emptied", thing)

    def removed(self, thing: Thing) -> None:
        self._append("removed", thing)

    def find(self, thing: Thing) -> Entry | None:
        """The entry of a thing that was not removed since."""
        with self._lock:
            return self._entries.get(thing)

    def entries(self, fsid: str | None = None) -> tuple[Entry, ...]:
        """Everything not removed, in the order it was made; of one cluster, or of all."""
        with self._lock:
            return tuple(entry for entry in self._entries.values() if fsid in (None, entry.thing.fsid))

    def _read(self) -> Iterator[dict[str, Any]]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise LedgerError(f"{self._path}: {error.strerror}") from None
        *whole, rest = data.split(b"\n")
        self._torn = bool(rest)
        for number, line in enumerate(whole, start=1):
            if not line.strip():
                continue
            try:
                document = json.loads(line)
                if not isinstance(document, dict):
                    raise ValueError("not an object")
            except ValueError as error:
                if self._is_torn_remainder(line):
                    continue
                raise LedgerError(f"{self._path}:{number}: not a line of a ledger ({error})") from None
            yield document

    @staticmethod
    def _is_torn_remainder(line: bytes) -> bool:
        """A line that a crash cut short and that a later run ended with a newline."""
        return line.startswith(b"{") and not line.rstrip().endswith(b"}")

    def _append(self, mark: Mark, thing: Thing, ident: str = "") -> None:
        document = {
            "mark": mark,
            "fsid": thing.fsid,
            "kind": thing.kind,
            "name": thing.name,
            "pool": thing.pool,
            "ident": ident,
            "time": round(time.time(), 3),
        }
        line = json.dumps(document) + "\n"
        with self._lock:
            try:
                descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
                try:
                    self._write_whole(descriptor, ("\n" + line if self._torn else line).encode())
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            except OSError as error:
                raise LedgerError(
                    f"{self._path}: {error.strerror}: what the run makes cannot be written down"
                ) from None
            self._torn = False
            self._apply(document)

    def _write_whole(self, descriptor: int, data: bytes) -> None:
        self._torn = True  # until all of it is there
        while data:
            data = data[os.write(descriptor, data) :]

    def _apply(self, document: dict[str, Any]) -> None:
        try:
            thing = Thing(document["fsid"], document["kind"], document["name"], document["pool"])
            mark, ident = document["mark"], document["ident"]
        except KeyError as error:
            raise LedgerError(f"{self._path}: a line without {error}") from None
        if mark == "removed":
            self._entries.pop(thing, None)
        elif mark == "intended":
            self._entries[thing] = Entry(thing)
        elif mark == "created":
            self._entries[thing] = Entry(thing, ident, created=True)
        elif mark == "filled" and (entry := self._entries.get(thing)) is not None:
            self._entries[thing] = Entry(thing, entry.ident, created=True, filled=True)
        elif mark == "emptied" and (entry := self._entries.get(thing)) is not None:
            self._entries[thing] = replace(entry, filled=False)
