"""rados bench: objects written to and read from a pool. Its options; it cannot run yet."""

from __future__ import annotations

from benchmarks.common_options import COMMON_OPTIONS, OP_SIZE, POOL_PROFILE, time_option
from benchmarks.options import Kind, Option
from benchmarks.options_only import OptionsOnly

OPTIONS: tuple[Option, ...] = (
    time_option(300),
    Option("write_time", Kind.INTEGER, unit="s", minimum=1, description="Length of the write phase; unset: `time`."),
    Option("read_time", Kind.INTEGER, unit="s", minimum=1, description="Length of the read phase; unset: `time`."),
    Option("concurrent_procs", Kind.INTEGER, default=1, minimum=1, description="rados processes on each client."),
    Option("concurrent_ops", Kind.INTEGER, default=16, minimum=1, description="Outstanding operations a process."),
    Option("pool_per_proc", Kind.FLAG, default=False, description="Give each process a pool of its own."),
    Option("write_only", Kind.FLAG, default=False, description="Leave the read phase out."),
    Option("read_only", Kind.FLAG, default=False, description="Leave the write phase out; needs a prefill."),
    OP_SIZE,
    Option("object_set_id", Kind.TEXT, default="", description="Prefix of the run's object names."),
    POOL_PROFILE,
    Option("cmd_path", Kind.COMMAND, sweep=False, description="The rados to run; unset: `rados_cmd` of the cluster."),
    Option("target_pool", Kind.TEXT, default="rados-bench-cbt", description="Pool of the objects."),
    Option("readmode", Kind.TEXT, default="seq", choices=("seq", "rand"), description="Order of the reads."),
    Option("max_objects", Kind.INTEGER, minimum=1, description="Stop writing after this many objects."),
    Option("write_omap", Kind.FLAG, default=False, description="Write to the objects' omap."),
    Option("prefill_time", Kind.INTEGER, unit="s", minimum=1, description="Length of a write phase before the test."),
    Option("prefill_objects", Kind.INTEGER, minimum=1, description="Objects to write before the test."),
    Option("use_existing", Kind.FLAG, description="Use the pool that is there."),
    *COMMON_OPTIONS,
    Option("pgs_per_pool", Kind.INTEGER, no_effect="placement groups come from the pool profile"),
    Option("rados_cmd", Kind.COMMAND, no_effect="cmd_path here or rados_cmd of the cluster names rados"),
)

BENCHMARK = OptionsOnly("radosbench", OPTIONS)
