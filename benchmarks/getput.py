"""getput on Swift gateways. Its options; it cannot run yet."""

from __future__ import annotations

from benchmarks.common_options import COMMON_OPTIONS, OP_SIZE, POOL_PROFILE
from benchmarks.options import Kind, Option
from benchmarks.options_only import OptionsOnly

OPTIONS: tuple[Option, ...] = (
    Option("runtime", Kind.INTEGER, unit="s", minimum=1, description="Length of each test."),
    Option("container_prefix", Kind.TEXT, description="Prefix of the container names."),
    Option("object_prefix", Kind.TEXT, description="Prefix of the object names."),
    Option("procs", Kind.INTEGER, default=1, minimum=1, description="Processes of each instance."),
    Option("ops_per_proc", Kind.INTEGER, minimum=1, description="Operations of each process."),
    Option("test", Kind.TEXT, default="p", description="getput's tests in order: p put, g get, d delete."),
    OP_SIZE,
    Option("ctype", Kind.TEXT, description="How containers are shared between processes."),
    Option("debug", Kind.TEXT, description="getput's `debug`."),
    Option("logops", Kind.TEXT, description="getput's `logops`."),
    Option("grace", Kind.TEXT, description="getput's `grace`."),
    POOL_PROFILE,
    Option("cmd_path", Kind.COMMAND, default=("/usr/bin/getput",), sweep=False, description="The getput to run."),
    Option("user", Kind.TEXT, default="cbt", description="The gateway's user."),
    Option("key", Kind.TEXT, secret=True, description="The user's key; made when unset."),
    Option("auth", Kind.LIST, sweep=False, description="The gateways' authentication URLs; unset: the plan's rgws."),
    *COMMON_OPTIONS,
)

BENCHMARK = OptionsOnly("getput", OPTIONS)
