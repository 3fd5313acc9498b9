"""A benchmark whose plans are understood but which cannot run yet."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.options import Option

NOT_AVAILABLE = "this benchmark is not available yet in this version"


@dataclass(frozen=True, slots=True)
class OptionsOnly:
    """Options without a way to launch them. Preflight shows `unavailable` and stops there."""

    name: str
    options: tuple[Option, ...]
    unavailable: str | None = NOT_AVAILABLE
    workload_options: tuple[Option, ...] | None = None
