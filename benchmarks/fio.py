"""fio on whatever `client_endpoints` attach. Its options; it cannot run yet."""

from __future__ import annotations

from benchmarks.common_options import (
    CLIENT_ENDPOINTS,
    CMD_PATH,
    COMMON_OPTIONS,
    END_FSYNC,
    IODEPTH,
    LOG_AVG_MSEC,
    MODE,
    NORANDOMMAP,
    NUMJOBS,
    OP_SIZE,
    RAMP,
    RANDOM_DISTRIBUTION,
    RATE_IOPS,
    RECOV_TEST_TYPE,
    RWMIXREAD,
    TIME_BASED,
    time_option,
)
from benchmarks.options import Kind, Option
from benchmarks.options_only import OptionsOnly

OPTIONS: tuple[Option, ...] = (
    CLIENT_ENDPOINTS,
    CMD_PATH,
    Option("direct", Kind.INTEGER, default=1, minimum=0, maximum=1, description="1: go past the page cache."),
    time_option(None),
    TIME_BASED,
    RAMP,
    IODEPTH,
    Option("prefill_iodepth", Kind.INTEGER, default=16, minimum=1, description="Outstanding I/Os while filling."),
    NUMJOBS,
    Option("sync", Kind.TEXT, description="fio's `sync`: how writes are made durable."),
    END_FSYNC,
    MODE,
    RWMIXREAD,
    Option("logging", Kind.FLAG, default=True, description="Keep time series of each instance."),
    LOG_AVG_MSEC,
    Option("ioengine", Kind.TEXT, default="libaio", description="fio's way to do I/O; librbd endpoints use rbd."),
    Option("bs", Kind.TEXT, description="fio's `bs`: block sizes of reads, writes, trims. Replaces `op_size`."),
    Option("bssplit", Kind.TEXT, description="fio's `bssplit`: a mix of block sizes. Replaces `op_size`."),
    Option("bsrange", Kind.TEXT, description="fio's `bsrange`: a range of block sizes. Replaces `op_size`."),
    OP_SIZE,
    Option("size", Kind.INTEGER, default=4096, unit="MiB", minimum=1, description="Data of each fio job."),
    Option("procs_per_endpoint", Kind.INTEGER, default=1, minimum=1, description="fio processes on each endpoint."),
    RANDOM_DISTRIBUTION,
    RATE_IOPS,
    Option("prefill", Kind.FLAG, default=True, description="Write the data once before the first point."),
    NORANDOMMAP,
    RECOV_TEST_TYPE,
    *COMMON_OPTIONS,
)

BENCHMARK = OptionsOnly("fio", OPTIONS)
