"""fio on block devices of the clients. Its options; it cannot run yet."""

from __future__ import annotations

from benchmarks.common_options import (
    COMMON_OPTIONS,
    IODEPTH,
    MODE,
    NUMJOBS,
    OP_SIZE,
    RATE_IOPS,
    RWMIXREAD,
    time_option,
)
from benchmarks.options import Kind, Option
from benchmarks.options_only import OptionsOnly

OPTIONS: tuple[Option, ...] = (
    Option(
        "block_devices",
        Kind.LIST,
        default=("/dev/vdb",),
        sweep=False,
        description="Devices on each client. What is on them is overwritten by write modes.",
    ),
    Option(
        "concurrent_procs",
        Kind.INTEGER,
        minimum=1,
        description="fio processes on each client; unset: one a device.",
    ),
    time_option(300),
    Option("ramp", Kind.INTEGER, default=0, unit="s", minimum=0, description="Time before the measurement starts."),
    Option("startdelay", Kind.INTEGER, unit="s", minimum=0, description="Delay between the starts of the processes."),
    RATE_IOPS,
    IODEPTH,
    Option("direct", Kind.INTEGER, default=1, minimum=0, maximum=1, description="1: go past the page cache."),
    NUMJOBS,
    MODE,
    RWMIXREAD,
    Option("ioengine", Kind.TEXT, default="libaio", description="fio's way to do I/O."),
    OP_SIZE,
    Option("vol_size", Kind.INTEGER, default=65536, unit="MiB", minimum=1, description="Part of each device to use."),
    Option("fio_cmd", Kind.COMMAND, default=("/usr/bin/fio",), sweep=False, description="The fio to run on clients."),
    *COMMON_OPTIONS,
    Option("client_ra", Kind.INTEGER, no_effect="the clients' read-ahead is left as it is"),
    Option("use_dir", Kind.FLAG, no_effect="rawfio takes block_devices only"),
    Option("client_dir", Kind.TEXT, no_effect="rawfio takes block_devices only"),
    Option("client_dev", Kind.TEXT, no_effect="rawfio takes block_devices only"),
    Option("client_mkfs", Kind.FLAG, no_effect="rawfio makes no file system"),
    Option("client_fs", Kind.TEXT, no_effect="rawfio makes no file system"),
)

BENCHMARK = OptionsOnly("rawfio", OPTIONS)
