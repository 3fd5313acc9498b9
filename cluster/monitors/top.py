"""top: the busy threads of a host, or of the daemons whose pid files the plan names."""

from __future__ import annotations

from cluster.monitors.base import Monitor

MONITOR = Monitor(
    name="top",
    program=("top",),
    default_args="-b -H -i -d 1 -w 200",  # every second, the threads that are not idle, on lines that are not cut
    probe=("-b", "-n", "1"),
    program_key="top_cmd",
)
