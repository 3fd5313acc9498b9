"""Options that every benchmark takes, and those that several share."""

from __future__ import annotations

from benchmarks.options import Kind, Option

FIO_MODES = (
    "read",
    "write",
    "randread",
    "randwrite",
    "rw",
    "readwrite",
    "randrw",
    "trim",
    "randtrim",
    "trimwrite",
    "randtrimwrite",
)

COMMON_OPTIONS: tuple[Option, ...] = (
    Option(
        "osd_ra",
        Kind.INTEGER,
        default=0,
        unit="KiB",
        minimum=0,
        description="Read-ahead of the OSDs' devices.",
        no_effect="BlueStore reads its devices with direct I/O, past any read-ahead",
    ),
    Option(
        "valgrind",
        Kind.TEXT,
        description="Valgrind tool to run the benchmark under.",
        no_effect="instances always run as they are: under valgrind they would measure valgrind",
    ),
    Option("log_iops", Kind.FLAG, default=True, description="Keep a time series of IOPS of each instance."),
    Option("log_bw", Kind.FLAG, default=True, description="Keep a time series of bandwidth of each instance."),
    Option("log_lat", Kind.FLAG, default=True, description="Keep a time series of latency of each instance."),
    Option(
        "acceptable",
        Kind.MAPPING,
        default={},
        sweep=False,
        description="Metric to an expression that a comparison must satisfy, such as `(or (greater) (near 0.05))`.",
    ),
    Option(
        "pre_workload_script",
        Kind.COMMAND,
        sweep=False,
        description="A command that is run on every client before each point; when it fails, so does the point.",
    ),
    Option("monitor", Kind.FLAG, default=True, description="Run the monitors of `monitoring_profiles` during a point."),
    Option(
        "iterations",
        Kind.INTEGER,
        minimum=1,
        description="Repeats, as some plans write them here.",
        no_effect="repeats are set by 'iterations' in the cluster section",
    ),
)

POOL_PROFILE = Option(
    "pool_profile",
    Kind.TEXT,
    default="default",
    description="The entry of `pool_profiles` that describes the pool; `default` always exists.",
)
RAMP = Option(
    "ramp",
    Kind.INTEGER,
    unit="s",
    minimum=0,
    description="Time before the measurement starts; its I/O is in none of the numbers.",
)
NUMJOBS = Option(
    "numjobs", Kind.INTEGER, default=1, minimum=1, description="Jobs within each fio; each has its own queue."
)
IODEPTH = Option("iodepth", Kind.INTEGER, default=16, minimum=1, description="Outstanding I/Os of each fio job.")
END_FSYNC = Option(
    "end_fsync", Kind.INTEGER, default=0, minimum=0, maximum=1, description="1: sync at the end of the writes."
)
MODE = Option("mode", Kind.TEXT, default="write", choices=FIO_MODES, description="What fio does (its `rw`).")
RWMIXREAD = Option(
    "rwmixread",
    Kind.INTEGER,
    default=50,
    unit="%",
    minimum=0,
    maximum=100,
    description="Share of reads in a mixed mode; the rest are writes.",
)
LOG_AVG_MSEC = Option(
    "log_avg_msec",
    Kind.INTEGER,
    unit="ms",
    minimum=0,
    description="Interval over which fio's time series are averaged; unset, every I/O is a line.",
)
OP_SIZE = Option("op_size", Kind.SIZE, default=4194304, unit="bytes", minimum=1, description="Size of one I/O.")
RANDOM_DISTRIBUTION = Option(
    "random_distribution", Kind.TEXT, description="How fio picks random offsets, such as `zipf:1.2`; unset: evenly."
)
RATE_IOPS = Option("rate_iops", Kind.INTEGER, unit="IOPS", minimum=1, description="Upper limit of each fio job.")
TIME_BASED = Option(
    "time_based",
    Kind.FLAG,
    default=False,
    description="Run for the whole of `time`, starting over when the volume's end is reached.",
)
NORANDOMMAP = Option(
    "norandommap",
    Kind.FLAG,
    default=False,
    description="Random offsets may repeat before every block was visited once.",
)
NO_RECOVERY_TEST = "tests with an OSD down are not available yet"
RECOV_TEST_TYPE = Option("recov_test_type", Kind.TEXT, choices=("blocking", "background"), no_effect=NO_RECOVERY_TEST)
CMD_PATH = Option(
    "cmd_path", Kind.COMMAND, default=("/usr/bin/fio",), sweep=False, description="The fio to run on clients."
)
VOL_OBJECT_SIZE = Option(
    "vol_object_size",
    Kind.INTEGER,
    default=22,
    unit="log2 of bytes",
    minimum=12,
    maximum=25,
    description="Object size of the images as a power of two; 22 is 4 MiB.",
)
CLIENT_ENDPOINTS = Option(
    "client_endpoints", Kind.TEXT, sweep=False, description="The entry of `client_endpoints` to run on (required)."
)


def time_option(default: int | None) -> Option:
    """`time`, whose default differs between benchmarks."""
    return Option("time", Kind.INTEGER, default=default, unit="s", minimum=1, description="Length of the measurement.")
