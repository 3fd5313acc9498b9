"""ceph_test_rados: a random mix of object operations. Its options; it cannot run yet."""

from __future__ import annotations

from benchmarks.common_options import COMMON_OPTIONS, POOL_PROFILE
from benchmarks.options import Kind, Option
from benchmarks.options_only import OptionsOnly

# Operation → default weight; None leaves the operation out.
_OPERATIONS: tuple[tuple[str, int | None], ...] = (
    ("read", 100),
    ("write", 100),
    ("delete", 10),
    ("append", None),
    ("snap_create", None),
    ("snap_remove", None),
    ("rollback", None),
    ("setattr", None),
    ("rmattr", None),
    ("watch", None),
    ("copy_from", None),
    ("hit_set_list", None),
    ("is_dirty", None),
    ("cache_flush", None),
    ("cache_try_flush", None),
    ("cache_evict", None),
)

OPTIONS: tuple[Option, ...] = (
    Option("ec_pool", Kind.FLAG, default=False, description="The pool is erasure-coded: only what it can do."),
    Option("write_fadvise_dontneed", Kind.FLAG, default=False, description="Mark written data as not needed again."),
    Option("pool_snaps", Kind.FLAG, default=False, description="Use pool snapshots."),
    Option("write_append_excl", Kind.FLAG, default=True, description="Half of writes and appends are exclusive."),
    Option("object_size", Kind.SIZE, default=4000000, unit="bytes", minimum=1, description="Size of an object."),
    Option("ops", Kind.INTEGER, default=10000, minimum=1, description="Operations in all."),
    Option("objects", Kind.INTEGER, default=500, minimum=1, description="Objects in use."),
    Option("max_in_flight", Kind.INTEGER, default=16, minimum=1, description="Outstanding operations."),
    Option(
        "min_stride_size", Kind.SIZE, unit="bytes", minimum=1, description="Smallest write; unset: object_size / 10."
    ),
    Option("max_stride_size", Kind.SIZE, unit="bytes", minimum=1, description="Largest write; unset: object_size / 5."),
    Option("max_seconds", Kind.INTEGER, default=0, unit="s", minimum=0, description="Longest run; 0: no limit."),
    *(
        Option(f"{name}_weight", Kind.INTEGER, default=weight, minimum=0, description=f"Share of `{name}` operations.")
        for name, weight in _OPERATIONS
    ),
    POOL_PROFILE,
    Option(
        "cmd_path",
        Kind.COMMAND,
        default=("/usr/bin/ceph_test_rados",),
        sweep=False,
        description="The ceph_test_rados to run.",
    ),
    *COMMON_OPTIONS,
)

BENCHMARK = OptionsOnly("cephtestrados", OPTIONS)
