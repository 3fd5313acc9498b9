"""How closely instances on many hosts start together over SSH, and what that costs, measured on a lab of real hosts.

    .venv/bin/python bench/run_start_spread.py            (as root: the hosts are namespaces of this machine)

All hosts share the cores of this machine, so at the larger size the figures tell how long these cores take to wake all
instances. An instance is therefore something light, a shell that notes the time and sleeps for 2 s; with --fio it is a
fio (null engine), whose own start costs about 0.15 s of processor time. Beside our launcher: the same, started by
parallel `ssh`, one client a host.

    spread     when the last instance began less when the first did, in ms; median over the points, and the worst. It
               began when its gate let it through, with fio when it did its first I/O; by the one clock that all share
    orders     how long the controller takes to tell all hosts to open their gates, in ms; the worst
    overhead   seconds for a point, from the order to the last result collected, less the 2 s; median
    connect    seconds until all hosts are connected, once for the whole run
    memory     the largest size of the controller in MB
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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cluster.command import Command, quote_words  # noqa: E402 - this file is started by its path
from cluster.hosts import Host  # noqa: E402 - as above
from cluster.launcher import HostOutcome, LaunchedInstance, LaunchSpec, Limits, gate_command, launch  # noqa: E402 - as above
from cluster.transports.base import Channel, Transport  # noqa: E402 - as above
from cluster.transports.ssh import SshOptions, SshTransport, connect_all  # noqa: E402 - as above
from tests.lab.lab import Lab, running_lab  # noqa: E402 - as above

SHAPES = ((8, 8), (64, 4))
AIMS_MS = {8: 40, 64: 150}
RUNTIME_S = 2
DIRECTORY = "/tmp/cbt-bench"  # noqa: S108 - inside a host
LIMITS = Limits(connect_s=120, deadline_s=60, prepare_s=60)


@dataclass(frozen=True, slots=True)
class Figures:
    """One way of starting. Spreads and orders in ms, times in s, memory in MB; None where there is no such thing."""

    spreads_ms: list[float]
    overheads_s: list[float]
    orders_ms: float | None = None
    connect_s: float | None = None
    memory_mb: float | None = None

    def row(self, shape: str, way: str, aim_ms: int | None) -> list[str]:
        return [
            shape,
            way,
            f"{statistics.median(self.spreads_ms):.0f} (worst {max(self.spreads_ms):.0f})",
            "" if aim_ms is None else f"≤ {aim_ms}",
            "" if self.orders_ms is None else f"{self.orders_ms:.1f}",
            f"{statistics.median(self.overheads_s):.2f}",
            "" if self.connect_s is None else f"{self.connect_s:.2f}",
            "" if self.memory_mb is None else f"{self.memory_mb:.0f}",
        ]


@dataclass(frozen=True, slots=True)
class Work:
    """What is started: `instances` on each host, of fio or of the light thing."""

    instances: int
    fio: bool

    def argv(self, number: int, gate: str | None) -> tuple[str, ...]:
        """One instance; `gate` is shell text that waits."""
        if not self.fio:
            wait = "" if gate is None else f"sh -c {shlex.quote(gate)}; "
            return ("sh", "-c", f"{wait}true >began.{number}; exec sleep {RUNTIME_S}")
        return (
            *("fio", *(() if gate is None else (f"--exec_prerun={gate}",)), "--name=light", "--ioengine=null"),
            *("--size=100T", "--rw=read", "--rate_iops=50", "--time_based", f"--runtime={RUNTIME_S}"),
            *("--log_unix_epoch=1", f"--write_lat_log=log.{number}"),
            *("--output-format=json", f"--output=json.{number}"),
        )

    def began(self) -> str:
        """Shell text that prints for each instance in this folder when it began, in ms."""
        if self.fio:
            return "; ".join(f"head -n 1 log.{n}_clat.1.log | cut -d, -f1" for n in range(self.instances))
        return "for file in began.*; do date -r $file +%s%3N; done"


def spread_ms(began_ms: Sequence[int], expected: int) -> float:
    if len(began_ms) != expected:
        raise SystemExit(f"only {len(began_ms)} of {expected} instances began")
    return max(began_ms) - min(began_ms)


def with_launcher(config: Path, names: Sequence[str], work: Work, points: int) -> Figures:
    """Our own way, in this very process."""
    started = time.monotonic()
    transports: dict[str, SshTransport] = {}
    for host, result in connect_all([Host(name) for name in names], SshOptions(config_file=config)).items():
        if not isinstance(result, SshTransport):
            raise SystemExit(str(result))
        transports[host.name] = result
    connect_s = time.monotonic() - started
    spreads, overheads, orders = [], [], []
    for _ in range(points):
        with tempfile.TemporaryDirectory(prefix="cbt-bench-") as folder:
            timed = {name: _Timed(transport) for name, transport in transports.items()}
            started = time.monotonic()
            began_ms = launched_point(timed, work, Path(folder))
            overheads.append(time.monotonic() - started - RUNTIME_S)
            spreads.append(spread_ms(began_ms, len(names) * work.instances))
            opened = [transport.opened_at for transport in timed.values()]
            orders.append(1000 * (max(opened) - min(opened)))
    for transport in transports.values():
        transport.close()
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Figures(spreads, overheads, max(orders), connect_s, memory_mb)


def launched_point(transports: Mapping[str, Transport], work: Work, folder: Path) -> list[int]:
    """One point: launch, collect, remove. When each instance began, in ms."""
    numbers = range(work.instances)
    instances = tuple(LaunchedInstance(n, work.argv(n, gate_command(DIRECTORY, n)), ready_marks=1) for n in numbers)
    specs = [LaunchSpec(name, DIRECTORY, instances) for name in transports]
    for outcome in launch(specs, transports, LIMITS).hosts.values():
        if not isinstance(outcome, HostOutcome):
            raise SystemExit(str(outcome))

    def collect(name: str) -> list[int]:
        began = transports[name].run(Command(("sh", "-c", f"cd {DIRECTORY} && {work.began()}")))
        transports[name].fetch(DIRECTORY, folder / name)
        transports[name].remove(DIRECTORY)
        return [int(word) for word in began.stdout.split()]

    with ThreadPoolExecutor(8) as threads:
        return [began_ms for host in threads.map(collect, transports) for began_ms in host]


class _Timed:
    """A transport that notes when the launcher is told to open the gate."""

    def __init__(self, transport: SshTransport) -> None:
        self._transport = transport
        self.host = transport.host
        self.opened_at = 0.0
        self.run, self.put, self.fetch = transport.run, transport.put, transport.fetch
        self.remove, self.close = transport.remove, transport.close

    def start(self, command: Command) -> Channel:
        channel = self._transport.start(command)
        send = channel.send

        def timed_send(text: str) -> None:
            send(text)
            if text == "open\n":
                self.opened_at = time.monotonic()

        vars(channel)["send"] = timed_send
        return channel


def with_ssh(config: Path, names: Sequence[str], work: Work, points: int) -> Figures:
    """One `ssh` a host, all at once, each starting its instances in the background."""
    starts = " ".join(f"{quote_words(work.argv(n, None))} >/dev/null & " for n in range(work.instances))
    text = f"mkdir {DIRECTORY} && cd {DIRECTORY} && {{ {starts} wait; {work.began()}; rm -r {DIRECTORY}; }}"
    spreads, overheads = [], []
    for _ in range(points):
        started = time.monotonic()
        clients = [
            subprocess.Popen(["ssh", "-F", str(config), name, text], stdout=subprocess.PIPE, text=True)
            for name in names
        ]
        began = [int(word) for client in clients for word in client.communicate()[0].split()]
        overheads.append(time.monotonic() - started - RUNTIME_S)
        spreads.append(spread_ms(began, len(names) * work.instances))
    return Figures(spreads, overheads)


WAYS = {"our launcher": with_launcher, "parallel ssh": with_ssh}


def measured_apart(way: str, lab: Lab, work: Work, points: int) -> Figures:
    """Measures in a process of its own, so that its memory is its own."""
    words = [str(lab.ssh_config), ",".join(host.name for host in lab.hosts), json.dumps(asdict(work)), str(points)]
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
    parser.add_argument("--fio", action="store_true", help="start fio instead of something light")
    parser.add_argument("--as-controller", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_controller:
        way, config, names, work, points = arguments.as_controller
        figures = WAYS[way](Path(config), names.split(","), Work(**json.loads(work)), int(points))
        print(json.dumps(asdict(figures)))
        return
    rows = []
    for hosts, instances in SHAPES:
        if arguments.hosts and hosts not in arguments.hosts:
            continue
        with running_lab(hosts) as lab:
            for way in WAYS:
                figures = measured_apart(way, lab, Work(instances, arguments.fio), arguments.points)
                aim_ms = AIMS_MS[hosts] if way == "our launcher" else None
                rows.append(figures.row(f"{hosts} × {instances}", way, aim_ms))
    headers = ["hosts", "started by", "spread [ms]", "aim", "orders [ms]", "overhead [s]", "connect [s]", "memory [MB]"]
    print(tabulate(rows, headers=headers, disable_numparse=True))


if __name__ == "__main__":
    main()
