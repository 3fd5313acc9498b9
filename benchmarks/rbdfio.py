"""fio on file systems on kernel RBD devices. Its options; it cannot run yet."""

from __future__ import annotations

from benchmarks.common_options import (
    CMD_PATH,
    COMMON_OPTIONS,
    END_FSYNC,
    IODEPTH,
    LOG_AVG_MSEC,
    MODE,
    NUMJOBS,
    OP_SIZE,
    POOL_PROFILE,
    RAMP,
    RANDOM_DISTRIBUTION,
    RWMIXREAD,
    VOL_OBJECT_SIZE,
    time_option,
)
from benchmarks.options import Kind, Option
from benchmarks.options_only import OptionsOnly

OPTIONS: tuple[Option, ...] = (
    CMD_PATH,
    POOL_PROFILE,
    Option("concurrent_procs", Kind.INTEGER, default=1, minimum=1, description="fio processes on each client."),
    time_option(None),
    RAMP,
    IODEPTH,
    NUMJOBS,
    END_FSYNC,
    MODE,
    RWMIXREAD,
    LOG_AVG_MSEC,
    Option("ioengine", Kind.TEXT, default="libaio", description="fio's way to do I/O."),
    OP_SIZE,
    Option("vol_size", Kind.INTEGER, default=65536, unit="MiB", minimum=1, description="Size of each image."),
    VOL_OBJECT_SIZE,
    RANDOM_DISTRIBUTION,
    Option("client_ra", Kind.INTEGER, default=128, unit="KiB", minimum=0, description="Read-ahead of the devices."),
    Option("direct", Kind.INTEGER, default=1, minimum=0, maximum=1, description="1: go past the page cache."),
    *COMMON_OPTIONS,
    Option("pgs", Kind.INTEGER, no_effect="placement groups come from the pool profile"),
    Option("rbdadd_mons", Kind.TEXT, no_effect="the monitors come from ceph.conf"),
    Option("rbdadd_options", Kind.TEXT, no_effect="devices are mapped with the rbd command's own defaults"),
    Option("tmp_conf", Kind.TEXT, no_effect="conf_file of the cluster names the ceph.conf"),
)

BENCHMARK = OptionsOnly("rbdfio", OPTIONS)
