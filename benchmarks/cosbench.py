"""COSBench on an object gateway. Its options; it cannot run yet."""

from __future__ import annotations

from benchmarks.common_options import COMMON_OPTIONS
from benchmarks.options import Kind, Option
from benchmarks.options_only import OptionsOnly

OPTIONS: tuple[Option, ...] = (
    Option("cosbench_dir", Kind.TEXT, description="Where COSBench is installed on the controller."),
    Option("cosbench_xml_dir", Kind.TEXT, description="Where the workload's XML is written on the controller."),
    Option("controller", Kind.TEXT, description="The host of COSBench's controller."),
    Option(
        "auth",
        Kind.MAPPING,
        sweep=False,
        secret=True,
        description="COSBench's authentication: `config: username=…;password=…;url=…`.",
    ),
    Option("obj_size", Kind.TEXT, default="128KB", description="Object size as COSBench takes it."),
    Option("template", Kind.TEXT, default="default", description="Shape of the workload."),
    Option("mode", Kind.TEXT, description="Operation: read, write, delete, list."),
    Option("ratio", Kind.INTEGER, unit="%", minimum=0, maximum=100, description="Share of the operation."),
    Option("rampup", Kind.INTEGER, unit="s", minimum=0, description="Time before the measurement starts."),
    Option("runtime", Kind.INTEGER, unit="s", minimum=1, description="Length of the measurement."),
    Option("rampdown", Kind.INTEGER, unit="s", minimum=0, description="Time after the measurement."),
    Option("workers", Kind.INTEGER, minimum=1, description="Requests at once."),
    Option("containers", Kind.TEXT, description="Which containers, such as `u(1,100)`."),
    Option("objects", Kind.TEXT, description="Which objects, such as `u(1,100)`."),
    *COMMON_OPTIONS,
    Option("containers_max", Kind.INTEGER, no_effect="the range of 'containers' says how many there are"),
    Option("objects_max", Kind.INTEGER, no_effect="the range of 'objects' says how many there are"),
)

BENCHMARK = OptionsOnly("cosbench", OPTIONS)
