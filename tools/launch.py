"""What every command does before anything else. Standard library only, so that it works in any Python 3."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib.util import find_spec

OLDEST_PYTHON = (3, 11)
PACKAGES = (("yaml", "PyYAML"), ("reportlab", "reportlab"), ("tabulate", "tabulate"))
"""Module → the package that brings it."""


def missing_packages_line(command: str, packages: Sequence[tuple[str, str]] = PACKAGES) -> str | None:
    """One line saying what this Python lacks and what to do; None when it has everything."""
    python = f"this Python ({sys.executable or 'unknown'}, {sys.version_info[0]}.{sys.version_info[1]})"
    remedy = "run 'make setup' in the project's folder and use its .venv/bin/python"
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        return f"{command}: {python} is too old, {oldest} or later is needed: {remedy}"  # type: ignore[unreachable]  # not for an older Python
    lacking = [package for module, package in packages if find_spec(module) is None]
    if not lacking:
        return None
    return f"{command}: {python} lacks {', '.join(lacking)}: {remedy}, or pip install {' '.join(lacking)}"


def plain_output() -> None:
    """Makes output come line by line, also into a pipe, and never fail for a character the terminal cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
