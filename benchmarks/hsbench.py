"""hsbench on S3 endpoints. Its options; it cannot run yet."""

from __future__ import annotations

from benchmarks.common_options import CLIENT_ENDPOINTS, COMMON_OPTIONS
from benchmarks.options import Kind, Option
from benchmarks.options_only import OptionsOnly

OPTIONS: tuple[Option, ...] = (
    CLIENT_ENDPOINTS,
    Option(
        "cmd_path",
        Kind.COMMAND,
        default=("/usr/local/bin/hsbench",),
        sweep=False,
        description="The hsbench to run on clients.",
    ),
    Option(
        "per_client_object_prefix", Kind.FLAG, default=True, description="Keep each client's objects apart by name."
    ),
    Option("prefill", Kind.FLAG, default=False, description="Write the objects before the first point."),
    Option("prefill_modes", Kind.TEXT, default="cxip", description="hsbench's modes for the prefill."),
    Option("buckets", Kind.INTEGER, minimum=1, description="Buckets of each instance."),
    Option("bucket_prefix", Kind.TEXT, description="Prefix of the bucket names."),
    Option("duration", Kind.INTEGER, unit="s", minimum=-1, description="Longest time of each mode; -1: no limit."),
    Option("loop", Kind.INTEGER, minimum=1, description="How often the modes are gone through."),
    Option("modes", Kind.TEXT, description="hsbench's modes in order, such as `cxipgdx`."),
    Option("max_keys", Kind.INTEGER, minimum=1, description="Keys asked for in one listing."),
    Option("objects", Kind.INTEGER, minimum=-1, description="Objects to write; -1: as many as `duration` allows."),
    Option("object_prefix", Kind.TEXT, description="Prefix of the object names."),
    Option("region", Kind.TEXT, description="S3 region."),
    Option("report_intervals", Kind.NUMBER, unit="s", minimum=0, description="Interval of hsbench's own reports."),
    Option("threads", Kind.INTEGER, minimum=1, description="Requests at once of each instance."),
    Option("size", Kind.TEXT, description="Object size as hsbench takes it, such as `4K`."),
    *COMMON_OPTIONS,
    Option("report_interval", Kind.NUMBER, no_effect="the key is report_intervals"),
)

BENCHMARK = OptionsOnly("hsbench", OPTIONS)
