"""How closely instances on many hosts start together over SSH, and what that costs, measured on a lab of real hosts.

    .venv/bin/python bench/run_start_spread.py            (as root: the hosts are namespaces of this machine)

Every instance is a light fio (null engine, 50 I/Os a second) that logs the time of its first I/O by the one clock that
all these hosts share. Beside our launcher: the same fio commands started by parallel `ssh`.

    spread     the latest first I/O of all instances less the earliest, in ms; median over the points, and the worst
    overhead   seconds for a point, from the order to the last result collected, less the time of fio; median
    connect    seconds until all hosts are connected, once for the whole run
    memory     the largest size of the controller (of all its ssh clients) in MB
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cluster.command import quote_words  # noqa: E402 - this file is started by its path
from cluster.hosts import Host  # noqa: E402
from cluster.launcher import HostOutcome, LaunchedInstance, LaunchSpec, Limits, gate_command, launch  # noqa: E402
from cluster.transports.ssh import SshOptions, SshTransport, connect_all  # noqa: E402
from tests.lab.lab import Lab, running_lab  # noqa: E402

SHAPES = ((8, 8), (64, 4))
AIMS_MS = {8: 40, 64: 150}
RUNTIME_S = 2
DIRECTORY = "/tmp/cbt-bench"  # noqa: S108 - inside a host
LIMITS = Limits(connect_s=120, deadline_s=60, prepare_s=60)


@dataclass(frozen=True, slots=True)
class Figures:
    """One way of starting. Spreads in ms, times in s, memory in MB."""

    spreads_ms: list[float]
    overheads_s: list[float]
    connect_s: float
    memory_mb: float

    def row(self, shape: str, way: str, aim_ms: int | None) -> list[str]:
        return [
            shape,
            way,
            f"{statistics.median(self.spreads_ms):.0f} (worst {max(self.spreads_ms):.0f})",
            "" if aim_ms is None else f"≤ {aim_ms}",
            f"{statistics.median(self.overheads_s):.2f}",
            f"{self.connect_s:.2f}" if self.connect_s else "in each point",
            f"{self.memory_mb:.0f}",
        ]


def fio(number: int, *first: str) -> tuple[str, ...]:
    """A light fio that writes the time of its first I/O at the head of log.NUMBER_clat.1.log."""
    return (
        *("fio", *first, "--name=light", "--ioengine=null", "--size=100T", "--rw=read", "--rate_iops=50"),
        *("--time_based", f"--runtime={RUNTIME_S}", "--log_unix_epoch=1", f"--write_lat_log=log.{number}"),
        *("--output-format=json", f"--output=json.{number}"),
    )


def first_io_ms(log: Path) -> int:
    return int(log.read_text().partition(",")[0])


def spread_ms(first: Sequence[int], expected: int) -> float:
    if len(first) != expected:
        raise SystemExit(f"only {len(first)} of {expected} instances measured")
    return max(first) - min(first)


def with_launcher(config: Path, names: Sequence[str], instances: int, points: int) -> Figures:
    """Our own way, in this very process."""
    started = time.monotonic()
    transports: dict[str, SshTransport] = {}
    for host, result in connect_all([Host(name) for name in names], SshOptions(config_file=config)).items():
        if not isinstance(result, SshTransport):
            raise SystemExit(str(result))
        transports[host.name] = result
    connect_s = time.monotonic() - started
    spreads, overheads = [], []
    for _ in range(points):
        with tempfile.TemporaryDirectory(prefix="cbt-bench-") as folder:
            started = time.monotonic()
            first = launched_point(transports, instances, Path(folder))
            overheads.append(time.monotonic() - started - RUNTIME_S)
            spreads.append(spread_ms(first, len(names) * instances))
    for transport in transports.values():
        transport.close()
    return Figures(spreads, overheads, connect_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def launched_point(transports: dict[str, SshTransport], instances: int, folder: Path) -> list[int]:
    """One point: launch, collect, remove. The times of the first I/Os."""
    numbers = range(instances)
    argvs = {n: fio(n, f"--exec_prerun={gate_command(DIRECTORY, n)}") for n in numbers}
    specs = [
        LaunchSpec(name, DIRECTORY, tuple(LaunchedInstance(n, argvs[n], ready_marks=1) for n in numbers))
        for name in transports
    ]
    result = launch(specs, transports, LIMITS)
    for outcome in result.hosts.values():
        if not isinstance(outcome, HostOutcome):
            raise SystemExit(str(outcome))

    def collect(name: str) -> None:
        transports[name].fetch(DIRECTORY, folder / name)
        transports[name].remove(DIRECTORY)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(collect, transports))
    return [first_io_ms(folder / name / f"log.{n}_clat.1.log") for name in transports for n in numbers]


def with_ssh(config: Path, names: Sequence[str], instances: int, points: int) -> Figures:
    """One `ssh` a host, all at once, each starting its instances in the background."""
    starts = " ".join(f"{quote_words(fio(n))} >/dev/null & " for n in range(instances))
    heads = "; ".join(f"head -n 1 log.{n}_clat.1.log" for n in range(instances))
    text = f"mkdir {shlex.quote(DIRECTORY)} && cd {shlex.quote(DIRECTORY)} && {{ {starts} wait; {heads}; rm -r $PWD; }}"
    spreads, overheads = [], []
    for _ in range(points):
        started = time.monotonic()
        clients = [
            subprocess.Popen(["ssh", "-F", str(config), name, text], stdout=subprocess.PIPE, text=True)
            for name in names
        ]
        lines = [line for client in clients for line in client.communicate()[0].splitlines()]
        overheads.append(time.monotonic() - started - RUNTIME_S)
        spreads.append(spread_ms([int(line.partition(",")[0]) for line in lines], len(names) * instances))
    largest_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return Figures(spreads, overheads, 0.0, largest_mb * len(names))


WAYS = {"our launcher": with_launcher, "parallel ssh": with_ssh}


def measured_apart(way: str, lab: Lab, instances: int, points: int) -> Figures:
    """Measures in a process of its own, so that its memory is its own."""
    words = [str(lab.ssh_config), ",".join(host.name for host in lab.hosts), str(instances), str(points)]
    child = subprocess.run(
        [sys.executable, __file__, "--as-controller", way, *words], stdout=subprocess.PIPE, text=True, check=False
    )
    if child.returncode:
        raise SystemExit(f"{way}: no figures")
    return Figures(**json.loads(child.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description="Start spread over many hosts.")
    parser.add_argument("--points", type=int, default=5, help="points for each way (5)")
    parser.add_argument("--hosts", type=int, nargs="*", choices=[hosts for hosts, _ in SHAPES], help="only these sizes")
    parser.add_argument("--as-controller", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_controller:
        way, config, names, instances, points = arguments.as_controller
        figures = WAYS[way](Path(config), names.split(","), int(instances), int(points))
        print(json.dumps(asdict(figures)))
        return
    rows = []
    for hosts, instances in SHAPES:
        if arguments.hosts and hosts not in arguments.hosts:
            continue
        with running_lab(hosts) as lab:
            for way in WAYS:
                figures = measured_apart(way, lab, instances, arguments.points)
                aim_ms = AIMS_MS[hosts] if way == "our launcher" else None
                rows.append(figures.row(f"{hosts} × {instances}", way, aim_ms))
    headers = ["hosts × instances", "started by", "spread [ms]", "aim", "overhead [s]", "connect [s]", "memory [MB]"]
    print(tabulate(rows, headers=headers, disable_numparse=True))


if __name__ == "__main__":
    main()
