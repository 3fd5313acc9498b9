"""What the program itself costs, measured from outside: make bench.

For 1, 4 and 16 volumes it runs cbt.py as a user would, on a throwaway cluster that is kept, reads the manifests of the
points, and then starts the same fio commands on the same images from a plain shell loop (`fio … & fio … & wait`).

    first point   seconds from the start of cbt.py to the first point: cluster, pool and images, but not the prefill
    overhead      seconds from the start of a point to the start of the next, less ramp and time; median
    overlap       share of the longest measurement window in which all instances measured; worst point
    skew          latest start of a measurement window less the earliest, in ms; median over the points

To compare like with like, the windows of both ways come from the time stamps in fio's JSON, which fio takes 20 to
140 ms late and differently for each volume: both look worse than they are. What the manifests say, from the gate's
opening (docs/archive.md), stands beside it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tabulate import tabulate

from archive.layout import RESULTS
from archive.manifest import MANIFEST_NAME, InstanceRecord, PointManifest
from benchmarks.fio_json import parse_fio
from orchestrator.judge import windows

ROOT = Path(__file__).resolve().parents[1]
RAMP_S = 1
TIME_S = 3
VOLUME_MB = 32

PLAN = """\
cluster:
  use_existing: False
  clients: localhost
  mons: localhost
  mgrs: localhost
  osds: localhost
  osds_per_node: 3
  osd_objectstore: memstore
  osd_size: 2G
  tmp_dir: {tmp_dir}
  iterations: {points}
  pool_profiles:
    replicated: {{pg_size: 32, pgp_size: 32, replication: 2}}
benchmarks:
  librbdfio:
    pool_profile: replicated
    volumes_per_client: {volumes}
    vol_size: {volume_mb}
    prefill: {{}}
    ramp: {ramp}
    time: {time}
    time_based: True
    fio_out_format: json+
    workloads:
      bench: {{mode: randwrite, op_size: 4096, numjobs: 1, iodepth: 1}}
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """One way of starting, over all its points. `overlaps` are shares, `skews_s` and `overheads_s` seconds."""

    overheads_s: tuple[float, ...]
    overlaps: tuple[float, ...]
    skews_s: tuple[float, ...]

    def shown(self) -> tuple[str, str, str]:
        return (
            f"{statistics.median(self.overheads_s):.2f}",
            f"{min(self.overlaps):.1%}",
            f"{statistics.median(self.skews_s) * 1000:.0f}",
        )


class BenchFailed(Exception):
    """A run that cannot be measured; one line."""


def main() -> int:
    """Prints the table; 0 when all could be measured."""
    arguments = _arguments()
    rows = []
    for volumes in arguments.volumes:
        print(f"{volumes} volumes …", flush=True)
        try:
            rows.append(_measure(volumes, arguments.points))
        except BenchFailed as failure:
            print(f"bench: {volumes} volumes: {failure}", file=sys.stderr)
            return 1
    headers = ["volumes", "first point less prefill (s)"]
    headers += [f"{figure}, {way}" for figure in ("overhead (s)", "overlap", "skew (ms)") for way in ("cbt", "loop")]
    headers += ["overlap, manifest", "skew (ms), manifest"]
    print(tabulate(rows, headers=headers, disable_numparse=True, stralign="right"))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--volumes", type=int, nargs="+", default=[1, 4, 16], help="numbers of volumes to measure with")
    parser.add_argument("--points", type=int, default=5, help="points per number of volumes (2 at least)")
    arguments = parser.parse_args()
    if arguments.points < 2:
        parser.error("--points: overhead is measured from point to point, so at least 2")
    return arguments


def _measure(volumes: int, points: int) -> list[str]:
    with _kept_cluster(volumes, points) as (started_s, found, folder):
        prefill_s = _prefill_s(folder / "archive")
        windows_by_fio = [_windows_by_fio(manifest.instances, path.parent) for path, manifest in found]
        manifests = [manifest for _, manifest in found]
        ours = Figures(
            overheads_s=tuple(
                after.started_s - before.started_s - RAMP_S - TIME_S for before, after in itertools.pairwise(manifests)
            ),
            overlaps=tuple(overlap for overlap, _ in windows_by_fio),
            skews_s=tuple(skew for _, skew in windows_by_fio),
        )
        overlap = min(_known(manifest.overlap) for manifest in manifests)
        skew_s = statistics.median(_known(manifest.start_skew_s) for manifest in manifests)
        loop = _shell_loop(manifests[0].instances, points, folder / "loop")
    pairs = zip(ours.shown(), loop.shown(), strict=True)
    first_s = manifests[0].started_s - started_s - prefill_s
    figures = [figure for pair in pairs for figure in pair]
    return [
        str(volumes),
        f"{first_s:.1f}",
        *figures,
        f"{overlap:.1%}",
        f"{skew_s * 1000:.0f}",
    ]


@contextmanager
def _kept_cluster(volumes: int, points: int) -> Iterator[tuple[float, list[tuple[Path, PointManifest]], Path]]:
    """Runs the plan; gives when it started, its points in order, and a scratch folder. Then ends the cluster."""
    with tempfile.TemporaryDirectory(prefix="cbt-bench-") as name:
        folder = Path(name)
        plan = folder / "plan.yaml"
        values = {"volumes": volumes, "points": points, "volume_mb": VOLUME_MB, "ramp": RAMP_S, "time": TIME_S}
        plan.write_text(PLAN.format(tmp_dir=folder / "tmp", **values))
        command = [sys.executable, str(ROOT / "cbt.py"), "--archive", str(folder / "archive"), str(plan)]
        started_s = time.time()
        try:
            _run([*command, "--keep-cluster", "--keep-volumes"])
            yield started_s, _manifests(folder / "archive", points), folder
        finally:
            for stop in folder.glob("tmp/cbt-cluster-*/stop.sh"):
                subprocess.run([stop], stdout=subprocess.DEVNULL, check=True)


def _run(command: Sequence[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        last = (result.stderr.strip() or result.stdout.strip()).splitlines()[-3:]
        raise BenchFailed(f"{shlex.join(command)}: status {result.returncode}: {' / '.join(last)}")


def _manifests(archive: Path, points: int) -> list[tuple[Path, PointManifest]]:
    """Each manifest with its path, in the order in which the points ran."""
    paths = (archive / RESULTS).rglob(MANIFEST_NAME)
    found = [(path, PointManifest.from_json(path.read_text())) for path in paths]
    if len(found) != points or any(point.status != "complete" for _, point in found):
        raise BenchFailed(f"{len(found)} of {points} points, {[point.reason for _, point in found if point.reason]}")
    return sorted(found, key=lambda pair: pair[1].started_s)


def _prefill_s(archive: Path) -> float:
    """How long the volumes took to fill, which is the cluster's work and not the program's."""
    sessions = (json.loads(path.read_text()) for path in (archive / RESULTS).glob("session-*.json"))
    return sum(float(volumes["prefill_s"]) for session in sessions for volumes in session["volumes"])


def _known(figure: float | None) -> float:
    if figure is None:
        raise BenchFailed("a point has no common window")
    return figure


def _shell_loop(instances: Sequence[InstanceRecord], points: int, folder: Path) -> Figures:
    """The same commands without barriers, as people start them by hand."""
    folder.mkdir()
    script = folder / "loop.sh"
    lines = [
        f"{_without_gate(record.command)} > {shlex.quote(record.output)} 2> err.{record.number} &"
        for record in instances
    ]
    script.write_text("\n".join([*lines, "wait", ""]))
    overheads, overlaps, skews = [], [], []
    for _ in range(points):
        started = time.monotonic()
        subprocess.run(["/bin/sh", script.name], cwd=folder, stdin=subprocess.DEVNULL, check=True)
        overheads.append(time.monotonic() - started - RAMP_S - TIME_S)
        overlap, skew = _windows_by_fio(instances, folder)
        overlaps.append(overlap)
        skews.append(skew)
    return Figures(tuple(overheads), tuple(overlaps), tuple(skews))


def _without_gate(command: str) -> str:
    return shlex.join(word for word in shlex.split(command) if not word.startswith("--exec_prerun"))


def _windows_by_fio(instances: Sequence[InstanceRecord], folder: Path) -> tuple[float, float]:
    """Overlap and start skew (s) of the instances whose outputs are in `folder`, by fio's time stamps."""
    overlap, skew_s = windows([_with_window(record, folder / record.output) for record in instances])
    return _known(overlap), _known(skew_s)


def _with_window(record: InstanceRecord, output: Path) -> InstanceRecord:
    sample, _ = parse_fio(output.read_bytes())
    end_s = _known(sample.end_unix_s)
    return replace(record, window_start_s=end_s - sample.runtime_s, window_end_s=end_s)


if __name__ == "__main__":
    sys.exit(main())
