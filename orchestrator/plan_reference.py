"""Writes the plan reference (docs/plan.md) from the option models: `python -m orchestrator.plan_reference`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchmarks.common_options import COMMON_OPTIONS
from benchmarks.model import Benchmark
from benchmarks.options import Kind, Option, Value
from benchmarks.registry import all_benchmarks
from orchestrator.plan_options import (
    CLUSTER_OPTIONS,
    ENDPOINT_OPTIONS,
    ERASURE_PROFILE_OPTIONS,
    HOST_OPTIONS,
    IGNORED_SECTIONS,
    KEY_ALIASES,
    KNOWN_TOOLS,
    MONITOR_NAMES,
    MONITOR_OPTIONS,
    POOL_PROFILE_OPTIONS,
    RECOVERY_TEST_OPTIONS,
)

INTRODUCTION = """\
# The test plan

*Made from the option models by `python -m orchestrator.plan_reference > docs/plan.md`; do not edit.*

A test plan is a YAML file. `cluster` says which hosts and which Ceph, `benchmarks` what to run there; both are
required. `monitoring_profiles` and `client_endpoints` are optional.

```yaml
cluster:
  clients: [client1, client2]
  head: admin1
  conf_file: /etc/ceph/ceph.conf
  pool_profiles:
    replicated3: {pg_size: 128, replication: 3}
benchmarks:
  librbdfio:
    pool_profile: replicated3
    vol_size: 10240
    volumes_per_client: 4
    time: 60
    ramp: 15
    time_based: true
    workloads:
      precondition: {mode: write, op_size: 1M, iodepth: 4, monitor: false}
      4krandomread: {mode: randread, op_size: 4k, total_iodepth: [1, 4, 16, 64, 256]}
```

`--dry-run` shows the points and commands a plan stands for without touching anything.

## Mistakes

Every mistake is reported at once, each as `file:line:column: what is wrong; how to mend it`. A key nobody knows is a
mistake, with the nearest known key as a suggestion. A known key that has no effect here is accepted, and said once.

## Lists make a sweep

Under `benchmarks`, a list where the tables have a single value is a sweep axis, and all combinations of all axes run.
Keys marked *no sweep* take no list; keys of the kind *list* hold one anyway. The order is: iterations, then benchmarks,
then the benchmark's own axes (the last key in the plan changes fastest), then workloads, then the axes of each workload
(`numjobs` slowest, queue depth fastest).

## Workloads

`workloads` under a benchmark maps names to settings. A workload may override any key of its benchmark, `time`, `ramp`
and `rwmixread` included; what it does not say it takes from the benchmark, and what neither says has the default.
A list at the benchmark's level that every workload overrides makes no further points. A workload's name is the name of
its folder in the archive; one with `precond` in its name prepares the volumes and is left out of reports.

## Queue depth

`iodepth: n` keeps n I/Os outstanding in every job on every volume. `total_iodepth: n` shares n among all volumes of all
clients as evenly as it goes: some volumes are one deeper, and when n is smaller than the number of volumes, only n
volumes run. Giving both at one level is a mistake. Across levels the workload's way replaces the benchmark's.

## What YAML does behind your back

YAML 1.1 reads some plain texts as something else than people do. These are caught:

| written | read by YAML as | what happens here |
|---|---|---|
| `1:30` | 90 (base 60) | a mistake where a number is expected |
| `010` | 8 (octal) | a mistake where a number is expected |
| `1e3` | text | a mistake where a number is expected |
| `.inf`, `.nan` | a number | a mistake |
| `no`, `on`, `off` | true or false | a mistake where text is expected: write quotes |
| the same key twice | the last one | a mistake, with both places |
| `123` as a name | a number | taken as the text `123` |

For true and false, `true`, `yes`, `on`, `1` and `false`, `no`, `off`, `0` are taken, in quotes or not. Numbers may
stand in quotes. Sizes are bytes, or a number with `k`, `M`, `G` or `T` for multiples of 1024 (`4k` and `4KiB` are 4096;
`4KB` is refused because people mean two things by it). Anchors, aliases and `<<` work; tags other than YAML's own do
not. Passwords and keys are replaced in the copy of the plan that goes into the archive.
"""


def reference() -> str:
    """The whole page, in Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    yield "## cluster"
    yield ""
    yield "Hosts are a name, a list of names, or a mapping host → daemons; a name may be `user@host:port`."
    yield "With `use_existing: true` only `clients` is needed, and `head` where ceph commands run elsewhere."
    yield ""
    yield from _table(HOST_OPTIONS + CLUSTER_OPTIONS)
    yield ""
    aliases = ", ".join(f"`{old}` for `{new}`" for old, new in KEY_ALIASES.items())
    yield f"Older names are taken too: {aliases}."
    yield ""
    yield "`<tool>_cmd` names the command of a tool, which may be several words, such as"
    yield "`cephadm shell -- ceph`; a list is taken as the words themselves. Tools in use:"
    yield ", ".join(f"`{tool}_cmd`" for tool in KNOWN_TOOLS) + "."
    yield ""
    yield from _section(
        "### cluster.pool_profiles.NAME", "`default` always exists, with these defaults.", POOL_PROFILE_OPTIONS
    )
    yield from _section(
        "### cluster.erasure_profiles.NAME",
        "Every other key is passed on to `ceph osd erasure-code-profile set` as written (`plugin`, `technique`, `d`, "
        "`l`, `stripe_unit`, `crush-failure-domain`, …).",
        ERASURE_PROFILE_OPTIONS,
    )
    yield from _section("### cluster.recovery_test", "", RECOVERY_TEST_OPTIONS)
    yield "## benchmarks"
    yield ""
    yield from _section("### Every benchmark", "", COMMON_OPTIONS)
    for name, benchmark in sorted(
        all_benchmarks().items(), key=lambda item: (item[1].unavailable is not None, item[0])
    ):
        yield from _benchmark(name, benchmark)
    monitors = ", ".join(f"`{name}`" for name in MONITOR_NAMES)
    yield from _section("## monitoring_profiles.NAME", f"NAME is one of {monitors}.", MONITOR_OPTIONS)
    yield from _section("## client_endpoints.NAME", "", ENDPOINT_OPTIONS)
    yield "## Sections without effect"
    yield ""
    yield from (f"- `{name}`: {reason}" for name, reason in IGNORED_SECTIONS.items())


def _benchmark(name: str, benchmark: Benchmark) -> Iterator[str]:
    common = {option.name for option in COMMON_OPTIONS}
    own = tuple(option for option in benchmark.options if option.name not in common)
    text = "Its plans are read and explained; running it is not available yet." if benchmark.unavailable else ""
    yield from _section(f"### benchmarks.{name}", text, own)
    for option in own:
        if option.fields:
            fields = tuple(replace(one, sweep=False) for one in option.fields)
            yield from _section(f"#### benchmarks.{name}.{option.name}", "No sweep here.", fields)
    if benchmark.workload_options is not None:
        text = "Any key of the benchmark, and:"
        yield from _section(f"#### benchmarks.{name}.workloads.NAME", text, benchmark.workload_options)


def _section(title: str, text: str, options: tuple[Option, ...]) -> Iterator[str]:
    yield title
    yield ""
    if text:
        yield text
        yield ""
    if options:
        yield from _table(options)
        yield ""


def _table(options: tuple[Option, ...]) -> Iterator[str]:
    working = [option for option in options if option.no_effect is None]
    idle = [option for option in options if option.no_effect is not None]
    if working:
        yield "| key | kind | default | unit | meaning |"
        yield "|---|---|---|---|---|"
        # Where something can be swept, say what cannot.
        marked = any(option.takes_axis for option in working)
        yield from (_row(option, marked) for option in working)
    if idle:
        yield ""
        yield "Accepted without effect:"
        yield ""
        yield from (f"- `{option.name}`: {option.no_effect}" for option in idle)


def _row(option: Option, marked: bool) -> str:
    kind = option.kind.value
    if option.choices:
        kind = "one of " + ", ".join(f"`{choice}`" for choice in option.choices)
    if marked and option.kind in _SCALARS and not option.sweep:
        kind += " (no sweep)"
    cells = (f"`{option.name}`", kind, _default(option.default), option.unit, option.description)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


_SCALARS = frozenset({Kind.FLAG, Kind.INTEGER, Kind.NUMBER, Kind.TEXT, Kind.SIZE})


def _default(value: Value) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"`{' '.join(str(item) for item in value)}`" if value else "none"
    if isinstance(value, Mapping):
        return f"`{', '.join(f'{key}: {item}' for key, item in value.items())}`" if value else "none"
    return f"`{value}`" if value != "" else "empty"


def main() -> None:
    """Prints the page."""
    sys.stdout.write(reference())


if __name__ == "__main__":
    main()
