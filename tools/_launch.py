"""What every command does first, with the standard library alone: plain output, and a word about what is missing."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

OLDEST_PYTHON = (3, 11)
PACKAGES = (("yaml", "PyYAML"), ("paramiko", "paramiko"), ("reportlab", "reportlab"), ("tabulate", "tabulate"))
"""Module and the package it comes in: what the commands cannot start without."""
PROJECT = Path(__file__).resolve().parent.parent
_RESTARTED = "CBT_RESTARTED_IN_VENV"
"""Set for the restarted command, so that an incomplete .venv does not restart it for ever."""


def missing_packages_line(command: str, packages: Sequence[tuple[str, str]] = PACKAGES) -> str | None:
    """One line that says what this Python lacks and what to do; None when nothing is missing."""
    python = f"this Python ({sys.executable or 'of unknown path'}, {sys.version_info[0]}.{sys.version_info[1]})"
    remedy = "run 'make setup' in the project's folder and start the command with its .venv/bin/python"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return f"{command}: {python} is too old, {'.'.join(map(str, OLDEST_PYTHON))} is needed: {remedy}"
    lacking = [package for module, package in packages if find_spec(module) is None]
    if not lacking:
        return None
    return f"{command}: {python} lacks {', '.join(lacking)}: {remedy}, or pip install {' '.join(lacking)}"


def restart_in_project_environment(root: Path = PROJECT) -> None:
    """Goes on as the same command under the project's own .venv, which has what this Python lacks. Comes back when
    there is none, when this is it, or when it was tried already."""
    tried = os.environ.pop(_RESTARTED, None)
    python = root / ".venv/bin/python"
    if tried or not os.access(python, os.X_OK) or Path(sys.prefix).resolve() == (root / ".venv").resolve():
        return
    with suppress(OSError):
        os.execve(python, [str(python), *sys.orig_argv[1:]], {**os.environ, _RESTARTED: "1"})  # noqa: S606 - our own words, no shell


def plain_output() -> None:
    """Output comes line by line, also into a pipe, and no character can stop it; closed streams lead to nowhere."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # else the next file opened would take its place, and be written into
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as we live
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")


def put(text: object, stream: TextIO) -> OSError | None:
    """Prints a line. When it cannot be written (the reader is gone, the disk is full) says why, and the stream leads to
    nowhere from then on, so that what follows is neither half written nor complained about at the end."""
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        return error
    return None
