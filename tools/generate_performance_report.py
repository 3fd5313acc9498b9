#!/usr/bin/env python3
"""Makes a performance report of one archive: response curves as PDF, and the figures as JSON and CSV."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if __package__ in (None, ""):  # started as a file: the project's folder takes the place of tools/
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tools._arguments import parser, spellings
from tools._launch import missing_packages_line, plain_output, restart_in_project_environment

if TYPE_CHECKING:
    from post_processing.load import LoadedArchive

COMMAND = "generate_performance_report.py"
EXIT_WHOLE, EXIT_NOT_WHOLE, EXIT_USAGE = 0, 1, 2
_MAX_LINES = 50


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Exit status: 0 everything in the archive is in the report and whole, 1 something was left out,
    partial or failed, 2 wrong use."""
    plain_output()
    arguments = _parser().parse_args(argv)
    if (line := missing_packages_line(COMMAND, (("reportlab", "reportlab"),))) is not None:
        if argv is None:
            restart_in_project_environment()
        print(line, file=sys.stderr)
        return EXIT_USAGE
    return _make(arguments)


def _parser() -> argparse.ArgumentParser:
    options = parser(
        COMMAND,
        "Makes a performance report of one archive. The archive is only read; no earlier report is overwritten.",
        "Exit status: 0 everything is in the report and whole, 1 something was left out, is partial or failed, "
        "2 wrong use.",
    )
    options.add_argument(*spellings("archive"), type=Path, required=True, help="the archive, or a part of it")
    options.add_argument(
        *spellings("output_directory"), type=Path, help="folder for the report (default: a new one beside the archive)"
    )
    pdf = options.add_mutually_exclusive_group()
    pdf.add_argument(*spellings("create_pdf"), action="store_true", help="make the PDF, as is done anyway")
    pdf.add_argument(*spellings("no_pdf"), action="store_true", help="make no PDF, only JSON and CSV")
    options.add_argument(
        *spellings("results_file_root"),
        default="json_output",
        help="how the raw files' names begin, when they were renamed",
    )
    options.add_argument(*spellings("no_error_bars"), action="store_true", help="draw curves without error bars")
    options.add_argument(
        *spellings("force_refresh"), action="store_true", help="no effect: the raw files are read afresh every time"
    )
    return options


def _make(arguments: argparse.Namespace) -> int:
    from post_processing.load import NotAnArchive, load_archive
    from post_processing.report import build_report
    from post_processing.reports import all_formats
    from post_processing.write import OutputRefused, output_directory, write_report

    made_at = datetime.now().astimezone()
    formats = [f for f in all_formats().values() if not (arguments.no_pdf and f.name == "pdf")]
    try:
        loaded = load_archive(arguments.archive, results_file_root=arguments.results_file_root)
        directory = output_directory(arguments.archive, arguments.output_directory, made_at)
        report = build_report(loaded, made_at=made_at, error_bars=not arguments.no_error_bars)
        written = write_report(report, directory, formats)
    except (NotAnArchive, OutputRefused) as error:
        print(f"{COMMAND}: {error}", file=sys.stderr)
        return EXIT_USAGE
    _say_what_is_not_whole(loaded)
    for path in written.values():
        print(path)
    return EXIT_WHOLE if loaded.whole else EXIT_NOT_WHOLE


def _say_what_is_not_whole(loaded: LoadedArchive) -> None:
    """One line on stderr for everything that is left out, partial or failed."""
    lines = list(_lines(loaded))
    for line in lines[:_MAX_LINES]:
        print(line, file=sys.stderr)
    if len(lines) > _MAX_LINES:
        print(f"and {len(lines) - _MAX_LINES} more, all in results.json", file=sys.stderr)


def _lines(loaded: LoadedArchive) -> Iterator[str]:
    from post_processing.words import visible

    for problem in loaded.problems:
        yield visible(f"left out: {problem}")
    reported = [point for curve in loaded.curves for point in curve.points]
    for point in (*reported, *loaded.facts.preconditioning):
        if point.status != "complete":
            yield visible(f"{point.status}: {point.source}: {point.reason}")


if __name__ == "__main__":
    sys.exit(main())
