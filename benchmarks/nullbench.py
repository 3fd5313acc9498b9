"""No load at all: what the monitors see of an idle cluster. It cannot run yet."""

from __future__ import annotations

from benchmarks.common_options import COMMON_OPTIONS
from benchmarks.options_only import OptionsOnly

BENCHMARK = OptionsOnly("nullbench", COMMON_OPTIONS)
