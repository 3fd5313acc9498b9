"""collectl: CPU, disk, network and memory of the whole host, sampled at an interval."""

from __future__ import annotations

from cluster.monitors.base import Monitor

MONITOR = Monitor(
    name="collectl",
    program=("collectl",),
    # Every second: CPUs, disks, network and memory, as raw data that collectl -p plays back; flushed at every sample.
    default_args="-s+CDNM -i 1 -F0 -f {collectl_dir}",
    probe=("--version",),
)
