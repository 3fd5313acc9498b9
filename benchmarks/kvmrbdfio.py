"""fio on block devices inside guests, which are the plan's clients. Its options; it cannot run yet."""

from __future__ import annotations

from benchmarks.options_only import OptionsOnly
from benchmarks.rawfio import OPTIONS

BENCHMARK = OptionsOnly("kvmrbdfio", OPTIONS)
