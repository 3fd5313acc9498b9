"""Finds every monitor module of this package; two with the same name are an error at start."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from types import MappingProxyType

import cluster.monitors
from cluster.monitors.base import Monitor


class DuplicateName(Exception):
    """Two modules register the same name: a programming mistake, found at start."""


@cache
def all_monitors() -> MappingProxyType[str, Monitor]:
    """Name → monitor, from every module in this package that has a `MONITOR`."""
    modules = (
        importlib.import_module(f"{cluster.monitors.__name__}.{found.name}")
        for found in pkgutil.iter_modules(cluster.monitors.__path__)
    )
    return MappingProxyType(by_name(getattr(module, "MONITOR", None) for module in modules))


def by_name(monitors: Iterable[Monitor | None]) -> dict[str, Monitor]:
    """The monitors among these by name. Raises DuplicateName."""
    found: dict[str, Monitor] = {}
    for monitor in monitors:
        if monitor is None:
            continue
        if monitor.name in found:
            raise DuplicateName(f"two monitor modules are called {monitor.name!r}")
        found[monitor.name] = monitor
    return found
