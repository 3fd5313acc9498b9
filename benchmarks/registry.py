"""Finds every benchmark module of this package; two with the same name are an error at start."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import MappingProxyType

import benchmarks
from benchmarks.model import Benchmark


class DuplicateName(Exception):
    """Two modules register the same name: a programming mistake, found at start."""


@cache
def all_benchmarks() -> MappingProxyType[str, Benchmark]:
    """Name → benchmark, from every module in this package that has a `BENCHMARK`."""
    found: dict[str, Benchmark] = {}
    for module_info in pkgutil.iter_modules(benchmarks.__path__):
        module = importlib.import_module(f"benchmarks.{module_info.name}")
        benchmark: Benchmark | None = getattr(module, "BENCHMARK", None)
        if benchmark is None:
            continue
        if benchmark.name in found:
            raise DuplicateName(f"two benchmark modules are called {benchmark.name!r}")
        found[benchmark.name] = benchmark
    return MappingProxyType(found)
