"""perf: where the kernel counts what a process did."""

from __future__ import annotations

from cluster.monitors.base import Monitor

MONITOR = Monitor(
    name="perf",
    program=("perf",),
    default_args="stat -p {pid} -o {perf_dir}/perf_stat.{pid}",
    probe=("--version",),
    program_key="perf_cmd",
    stop_signal="INT",  # on SIGTERM `perf stat` ends without a result
)
