"""Starting `cbt.py` the way a user does, and looking at what it leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import yaml

from archive.manifest import PointManifest

ROOT = Path(__file__).resolve().parents[2]
CBT = ROOT / "cbt.py"

MARKER = f"CBT_TEST_SESSION={os.environ.get('CBT_TEST_SESSION')}"
"""Everything the tests start carries it (tests/conftest.py)."""

RUN_LIMIT_S = 120.0
"""No run of these tests takes longer; more means that something hangs."""

QUIET: Mapping[str, Any] = {"log_iops": False, "log_bw": False, "log_lat": False}
"""For points whose time series nobody looks at."""


def write_plan(
    folder: Path,
    benchmark: Mapping[str, Any],
    workloads: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    cluster: Mapping[str, Any] | None = None,
    name: str = "plan.yaml",
) -> Path:
    """A small plan: volumes of 16 MiB, 1 s without ramp, unless the test says otherwise."""
    small = {"pg_size": 4, "pgp_size": 4, "replication": 2}
    keys: dict[str, Any] = {
        "time": 1,
        "time_based": True,
        "vol_size": 16,
        "mode": "randread",
        "op_size": 4096,
        "pool_profile": "small",
        **QUIET,
        **benchmark,
    }
    if workloads is not None:
        keys["workloads"] = {name: dict(values) for name, values in workloads.items()}
    document = {
        "cluster": {
            "clients": ["localhost"],
            "tmp_dir": str(folder / "tmp"),
            "pool_profiles": {"small": small},
            **(cluster or {}),
        },
        "benchmarks": {"librbdfio": keys},
    }
    path = folder / name
    path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


@dataclass(frozen=True, slots=True)
class Done:
    """How a call ended."""

    status: int
    out: str
    err: str
    duration_s: float


class Running:
    """A `cbt.py` under way. Everything it starts carries a mark of its own, by which it is found again."""

    def __init__(self, *words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._mark = f"CBT_TEST_RUN={uuid.uuid4().hex}"
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, str(CBT), *map(str, words)],
            cwd=cwd,
            env={**os.environ, **(env or {}), **dict([self._mark.split("=")])},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._out = _Reader(self.process.stdout)
        self._err = _Reader(self.process.stderr)

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def err(self) -> str:
        return self._err.text()

    def wait_for(self, text: str, limit_s: float = 60.0) -> None:
        """Until `text` stands in what it said on stderr."""
        until(lambda: text in self.err or self.process.poll() is not None, limit_s, f"no {text!r} in: {self.err}")
        assert text in self.err, self.err

    def wait_for_instances(self, count: int, limit_s: float = 60.0) -> list[int]:
        """Until `count` instances of a point measure; their pids."""
        until(
            lambda: len(self.instances()) >= count or self.process.poll() is not None,
            limit_s,
            f"not {count} instances: {self.err}",
        )
        assert self.process.poll() is None, self.err
        return self.instances()

    def instances(self) -> list[int]:
        """The fio processes of a point that are through the gate; a prefill has none."""
        return [pid for pid in self.everything() if is_instance(command_of(pid)) and _measures(pid)]

    def everything(self) -> list[int]:
        """Every process of this call but itself."""
        return [pid for pid in marked(self._mark) if pid != self.process.pid]

    def finish(self, limit_s: float = RUN_LIMIT_S) -> Done:
        status = self.process.wait(limit_s)
        return Done(status, self._out.end(), self._err.end(), time.monotonic() - self._began)


def cbt(*words: object, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Done:
    """One call to its end."""
    with Running(*words, cwd=cwd, env=env) as running:
        return running.finish()


def manifests(archive: Path) -> dict[str, PointManifest]:
    """Every point of an archive by its folder below results."""
    results = archive / "results"
    return {
        str(path.parent.relative_to(results)): PointManifest.from_json(path.read_text(encoding="utf-8"))
        for path in sorted(results.rglob("point.json"))
    }


def by_setting(archive: Path, workload: str | None) -> dict[int, PointManifest]:
    """The points of one workload by the depth the plan swept."""
    found = {}
    for manifest in manifests(archive).values():
        if manifest.workload == workload:
            (depth,) = manifest.setting.values()
            found[depth] = manifest
    return found


def fingerprint(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder with its time of change and content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def until(reached: Callable[[], bool], limit_s: float, otherwise: str) -> None:
    deadline = time.monotonic() + limit_s
    while not reached():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def marked(mark: str) -> list[int]:
    """Every process that has `mark` (NAME=VALUE) in its environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if mark.encode() in environment.split(b"\0"):
                found.append(int(entry.name))
    return found


def command_of(pid: int) -> list[str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return []
    return words.rstrip("\0").split("\0")


def is_instance(words: Sequence[str]) -> bool:
    return words[:1] == ["/usr/bin/fio"] and any(word.startswith("--exec_prerun") for word in words)


def _measures(pid: int) -> bool:
    """Whether the gate of this instance's point is open: a plain file then, a FIFO before (cluster/launcher.sh)."""
    try:
        return Path(f"/proc/{pid}/cwd/launch/gate").is_file()
    except OSError:
        return False


def plain_lines(text: str) -> Sequence[str]:
    """The lines of a text that must hold nothing but plain whole lines."""
    assert "\r" not in text
    assert "\x1b" not in text
    assert not text or text.endswith("\n")
    return text.splitlines()


class _Reader:
    """Collects a stream in the background."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._chunks: list[bytes] = []
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes] | None) -> None:
        if stream is not None:
            with stream:
                while chunk := os.read(stream.fileno(), 65536):
                    self._chunks.append(chunk)

    def text(self) -> str:
        return b"".join(self._chunks).decode()

    def end(self) -> str:
        self._thread.join(10)
        return self.text()
