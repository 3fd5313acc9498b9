"""The formats a report is written in: each is one module with a `FORMAT`; two of one name are an error at start."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import MappingProxyType
from typing import BinaryIO, Protocol

from post_processing.report import Report


class ReportFormat(Protocol):
    """One output format."""

    name: str

    def file_name(self, stamp: str) -> str:
        """What the file is called; `stamp` is the date and time of the report."""
        ...

    def write(self, report: Report, file: BinaryIO) -> None: ...


class DuplicateFormat(Exception):
    """Two modules register the same format: a programming mistake, found at start."""


@cache
def all_formats() -> MappingProxyType[str, ReportFormat]:
    """Name → format, from every module in this package that has a `FORMAT`."""
    found: dict[str, ReportFormat] = {}
    for module_info in pkgutil.iter_modules(__path__):
        report_format: ReportFormat | None = getattr(
            importlib.import_module(f"{__name__}.{module_info.name}"), "FORMAT", None
        )
        if report_format is None:
            continue
        if report_format.name in found:
            raise DuplicateFormat(f"two report formats are called {report_format.name!r}")
        found[report_format.name] = report_format
    return MappingProxyType(found)
