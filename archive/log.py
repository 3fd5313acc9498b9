"""`cbt.log`: one line for every command, with host, duration and status, and for what the run did."""

from __future__ import annotations

import errno
import os
import threading
from datetime import UTC, datetime
from pathlib import Path


class LogFile:
    """Appends lines to the archive's log, from any thread.

    A full disk must stop the run with one line rather than with a traceback in some thread, so a failed write is
    kept in `failure` for the run loop to find.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace")
        self.failure: OSError | None = None

    def record(self, host: str, shown_command: str, started_unix_s: float, duration_s: float, status_text: str) -> None:
        """One command that ended."""
        command = shown_command.replace("\n", "\\n")
        self._write(started_unix_s, f"command host={host} duration={duration_s:.3f}s status={status_text}: {command}")

    def note(self, text: str) -> None:
        """Something the run did or found."""
        self._write(datetime.now(UTC).timestamp(), text.replace("\n", "\\n"))

    def close(self) -> None:
        with self._lock:
            try:
                self._file.close()
            except OSError as error:
                self.failure = self.failure or error

    def _write(self, at_unix_s: float, text: str) -> None:
        stamp = datetime.fromtimestamp(at_unix_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self._lock:
            if self._file.closed:
                return
            try:
                self._file.write(f"{stamp} {text}\n")
                self._file.flush()
            except OSError as error:
                self.failure = OSError(error.errno, os.strerror(error.errno or errno.EIO), str(self._path))
