"""The layouts that can be read: each is one module with a `LAYOUT`; two of one name are an error at start."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Protocol

from archive.found import FoundArchive
from archive.tree import Tree


class Layout(Protocol):
    """A way in which an archive's files are laid out."""

    name: str
    order: int
    """Lower is asked first."""

    def recognises(self, tree: Tree) -> bool: ...

    def read(self, tree: Tree) -> FoundArchive:
        """Raises NotAnArchive when the whole cannot be read; what is wrong in parts is in the problems."""
        ...


class DuplicateLayout(Exception):
    """Two modules register the same layout: a programming mistake, found at start."""


@cache
def all_layouts() -> tuple[Layout, ...]:
    """Every layout of this package, in the order in which they are asked."""
    found: dict[str, Layout] = {}
    for module_info in pkgutil.iter_modules(__path__):
        layout: Layout | None = getattr(importlib.import_module(f"{__name__}.{module_info.name}"), "LAYOUT", None)
        if layout is None:
            continue
        if layout.name in found:
            raise DuplicateLayout(f"two layout modules are called {layout.name!r}")
        found[layout.name] = layout
    return tuple(sorted(found.values(), key=lambda layout: (layout.order, layout.name)))
