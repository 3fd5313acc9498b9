"""What every command does first, with the standard library alone: plain output, and a word about missing packages."""

from __future__ import annotations

import sys
from importlib.util import find_spec

PACKAGES = {"yaml": "PyYAML", "reportlab": "reportlab", "tabulate": "tabulate"}
"""Module → the package it comes in: what the commands cannot start without."""


def missing_packages_line(command: str) -> str | None:
    """One line that says which packages this Python lacks and what to do; None when all are there."""
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if not missing:
        return None
    return (
        f"{command}: this Python ({sys.executable}) lacks {', '.join(missing)}: run `make setup` in the project's folder "
        "and start the command with .venv/bin/python, or install them with `pip install`"
    )


def plain_output() -> None:
    """Output comes line by line, also into a pipe, and no character can stop it."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
