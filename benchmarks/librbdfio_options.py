"""What a plan may say under `librbdfio:` and in its workloads."""

from __future__ import annotations

from benchmarks.common_options import (
    CMD_PATH,
    COMMON_OPTIONS,
    END_FSYNC,
    LOG_AVG_MSEC,
    MODE,
    NO_RECOVERY_TEST,
    NORANDOMMAP,
    NUMJOBS,
    OP_SIZE,
    POOL_PROFILE,
    RAMP,
    RANDOM_DISTRIBUTION,
    RATE_IOPS,
    RECOV_TEST_TYPE,
    RWMIXREAD,
    TIME_BASED,
    VOL_OBJECT_SIZE,
    time_option,
)
from benchmarks.options import Kind, Option

FIO_FORMATS = ("json", "json+", "json,normal", "json+,normal", "normal,json", "normal,json+")

_ALWAYS_DIRECT = "the rbd engine has no page cache to go through or around"

OPTIONS: tuple[Option, ...] = (
    CMD_PATH,
    Option(
        "clientname", Kind.TEXT, default="admin", description="Ceph user that fio connects as, without the `client.`."
    ),
    POOL_PROFILE,
    Option(
        "data_pool_profile",
        Kind.TEXT,
        description="Profile of a second pool, `<poolname>-data`, for the images' data; erasure-coded pools need "
        "`ec_overwrites` there. Unset: data and metadata share one pool.",
    ),
    Option("recov_pool_profile", Kind.TEXT, no_effect=NO_RECOVERY_TEST),
    RECOV_TEST_TYPE,
    time_option(None),
    TIME_BASED,
    RAMP,
    Option(
        "iodepth",
        Kind.INTEGER,
        default=16,
        minimum=1,
        description="Outstanding I/Os of each job on every volume. Not together with `total_iodepth`.",
    ),
    Option(
        "total_iodepth",
        Kind.INTEGER,
        minimum=1,
        description="Outstanding I/Os shared by all volumes of all clients as evenly as it goes; with fewer I/Os than "
        "volumes only that many volumes run. Replaces `iodepth`.",
    ),
    NUMJOBS,
    END_FSYNC,
    MODE,
    RWMIXREAD,
    LOG_AVG_MSEC,
    OP_SIZE,
    Option(
        "pgs",
        Kind.INTEGER,
        default=2048,
        minimum=1,
        description="Placement groups.",
        no_effect="placement groups come from the pool profile",
    ),
    Option("vol_size", Kind.INTEGER, default=65536, unit="MiB", minimum=1, description="Size of each volume."),
    VOL_OBJECT_SIZE,
    Option("volumes_per_client", Kind.INTEGER, default=1, minimum=1, description="Volumes on each client host."),
    Option("procs_per_volume", Kind.INTEGER, default=1, minimum=1, description="fio processes on each volume."),
    RANDOM_DISTRIBUTION,
    RATE_IOPS,
    Option(
        "fio_out_format",
        Kind.TEXT,
        default="json+",
        choices=FIO_FORMATS,
        description="fio's output. Only `json+` has the histograms from which percentiles of several volumes are made.",
    ),
    Option(
        "use_existing_volumes",
        Kind.FLAG,
        default=False,
        description="Use images that are there; nothing is created, resized, filled or deleted.",
    ),
    Option(
        "no_sudo", Kind.FLAG, default=False, description="Start fio without sudo.", no_effect="fio never runs with sudo"
    ),
    Option(
        "idle_monitor_sleep",
        Kind.INTEGER,
        default=60,
        unit="s",
        minimum=0,
        description="How long the monitors watch the idle cluster before the first point.",
    ),
    Option("poolname", Kind.TEXT, default="cbt-librbdfio", description="Pool of the images."),
    Option("recov_pool_name", Kind.TEXT, no_effect=NO_RECOVERY_TEST),
    Option(
        "rbdname",
        Kind.TEXT,
        default="",
        description="Images are `<rbdname>-<host>-<n>`, n from 0; empty: `cbt-librbdfio-<host>-<n>`. With "
        "`use_existing_volumes` and one volume a client, an image called exactly this is used.",
    ),
    Option(
        "prefill",
        Kind.MAPPING,
        default={"blocksize": 4194304, "numjobs": 1},
        sweep=False,
        fields=(
            Option("blocksize", Kind.SIZE, default=4194304, unit="bytes", minimum=1, description="Size of one write."),
            Option("numjobs", Kind.INTEGER, default=1, minimum=1, description="Jobs that fill one volume together."),
        ),
        description="How new volumes are written once, whole, before the first point. `prefill: false` leaves them "
        "empty: unwritten data then reads much too fast.",
    ),
    NORANDOMMAP,
    Option(
        "wait_pgautoscaler_timeout",
        Kind.INTEGER,
        default=-1,
        unit="s",
        minimum=-1,
        description="Longest wait for the placement group autoscaler; -1: no wait.",
    ),
    Option("create_report", Kind.FLAG, default=False, description="Make the report when the run has ended."),
    *COMMON_OPTIONS,
    Option("procs_per_client", Kind.INTEGER, no_effect="volumes_per_client and procs_per_volume say how many run"),
    Option("vol_name", Kind.TEXT, no_effect="rbdname names the images"),
    Option("fio_cmd", Kind.TEXT, no_effect="librbdfio takes fio's path from cmd_path"),
    Option("fio_cpu_set", Kind.TEXT, no_effect="fio is not bound to CPUs"),
    Option("ioengine", Kind.TEXT, no_effect="librbdfio always uses the rbd engine"),
    Option("direct", Kind.INTEGER, no_effect=_ALWAYS_DIRECT),
    Option("buffered", Kind.INTEGER, no_effect=_ALWAYS_DIRECT),
)

WORKLOAD_OPTIONS: tuple[Option, ...] = (
    Option(
        "jobname",
        Kind.TEXT,
        description="Name of the fio jobs of this workload. A workload whose own name contains `precond` is "
        "preconditioning and is left out of reports.",
    ),
)
