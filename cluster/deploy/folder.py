"""The folder of a throwaway cluster: whose it is, what may be in it, and how it is stopped and removed again."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cluster.deploy.device import wipe_label
from cluster.deploy.guard import SHELL_FUNCTIONS, STOP_LIMIT_S
from cluster.deploy.spec import DeployError
from cluster.processes import ProcessId, boot_id

FOLDER_PREFIX = "cbt-cluster-"
MARKER = "cbt-cluster.json"
_RUN_PREFIX = "cbt-run-"
_LOCK = "lock"
_DAEMONS = "daemons.jsonl"
_OURS = re.compile(
    r"ceph\.conf|keyring|monmap|lock|cbt-cluster\.json(\.new)?|daemons\.jsonl|log|crash|run|start|(guard|stop)\.sh|mon\.a|mgr\.x|osd\.\d+"
)
_SOCKET_PATH_LIMIT = 107
_LONGEST_SOCKET_NAME = len("/osd.99999.asok")
_SUBFOLDERS = ("log", "crash", "start", "mon.a", "mgr.x")
_BAD_IN_CONF = re.compile(r"[#;$\"'\\\[\]\x00-\x1f\x7f]|^ | $")


@dataclass(frozen=True, slots=True)
class Device:
    """A block device given to an OSD, with the id that its label will carry."""

    path: str
    osd_uuid: str


@dataclass(frozen=True, slots=True)
class Marker:
    """What the folder's marker file says: written before anything else is made, so that a later run knows it."""

    fsid: str
    folder: str
    run_dir: str
    boot_id: str
    devices: tuple[Device, ...] = ()
    kept: bool = False
    schema: int = 1


class ClusterFolder:
    """A folder this program made, locked against others for as long as this object is open."""

    def __init__(self, path: Path, lock: int, marker: Marker) -> None:
        self.path = path
        self.marker = marker
        self._lock = lock

    @staticmethod
    def create(base: Path, exact: bool, fsid: str, devices: Sequence[Device]) -> ClusterFolder:
        """Makes and marks the folder. Raises DeployError when it is in use, or holds anything not put there by us."""
        if problem := folder_problem(base, exact):
            raise DeployError(problem)
        try:
            if exact:
                path = base
                if notices := reap(path)[1:]:
                    raise DeployError("; ".join(notices))
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            else:
                base.mkdir(parents=True, exist_ok=True)
                path = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=base))
            lock = _locked(path)
            if lock is None:
                raise DeployError(f"{path}: another run uses this folder")
            run_dir = _run_dir_for(path)
            folder = ClusterFolder(path, lock, Marker(fsid, str(path), str(run_dir), boot_id(), tuple(devices)))
            folder._write_marker()
            run_dir.mkdir(mode=0o700)
            for name in _SUBFOLDERS:
                (path / name).mkdir()
        except OSError as error:
            raise DeployError(
                f"{error.filename or base}: {error.strerror}: the cluster's folder cannot be made"
            ) from None
        return folder

    @staticmethod
    def take_over(path: Path) -> ClusterFolder | None:
        """The folder of an earlier run whose controller is gone; None when it is not ours or still in use."""
        marker = read_marker(path)
        if marker is None:
            return None
        lock = _locked(path)
        return None if lock is None else ClusterFolder(path, lock, marker)

    @property
    def conf(self) -> Path:
        return self.path / "ceph.conf"

    @property
    def run_dir(self) -> Path:
        return Path(self.marker.run_dir)

    def daemons(self) -> dict[str, ProcessId]:
        """Name → process, of every daemon the guard started here; a torn last line counts for nothing."""
        found = {}
        try:
            lines = (self.path / _DAEMONS).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                found[str(entry["name"])] = ProcessId(int(entry["pid"]), int(entry["start_ticks"]))
        return found

    def running(self) -> dict[str, ProcessId]:
        """The daemons that still live: same boot, same start time, and a command line that names this folder."""
        if self.marker.boot_id != boot_id():
            return {}
        inside = self.marker.folder + "/"
        return {
            name: process
            for name, process in self.daemons().items()
            if process.alive() and any(inside in word for word in process.arguments())
        }

    def stop_daemons(self) -> list[str]:
        """TERM, then KILL; the names of those that needed stopping."""
        running = self.running()
        _signal(running, signal.SIGTERM)
        deadline = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < deadline and any(process.alive() for process in running.values()):
            time.sleep(0.05)
        _signal(running, signal.SIGKILL)
        deadline = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < deadline and any(process.alive() for process in running.values()):
            time.sleep(0.05)
        return sorted(running)

    def mark_kept(self) -> Path:
        """Says in the marker that the cluster outlives the run, and writes `stop.sh`; its path."""
        daemons = " ".join(f"{p.pid}:{p.start_ticks}" for p in self.running().values())
        script = self.path / "stop.sh"
        script.write_text(_STOP_SCRIPT.format(boot=boot_id(), daemons=daemons, functions=SHELL_FUNCTIONS))
        script.chmod(0o700)
        self.marker = replace(self.marker, kept=True)
        self._write_marker()
        return script

    def remove(self) -> list[str]:
        """Empties the devices and removes the folder; one line for everything that had to stay."""
        if running := self.running():
            return [f"{self.path} stays: {', '.join(sorted(running))} cannot be stopped"]
        notices = [notice for device in self.marker.devices if (notice := wipe_label(device.path, device.osd_uuid))]
        _remove_run_dir(self.run_dir)
        try:
            foreign = _foreign_entries(self.path)
            # The marker goes last: a removal that is cut short can be taken up again.
            last = {MARKER, _LOCK}
            for entry in sorted(self.path.iterdir(), key=lambda entry: entry.name in last):
                if entry.name not in foreign and not (foreign and entry.name in last):
                    _remove_entry(entry)
            if foreign:
                notices.append(f"{self.path} stays: it holds {', '.join(foreign)}, not put there by this program")
            else:
                self.path.rmdir()
        except OSError as error:
            notices.append(f"{error.filename or self.path} could not be removed: {error.strerror}")
        return notices

    def close(self) -> None:
        """Gives up the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _write_marker(self) -> None:
        new = self.path / f"{MARKER}.new"
        with new.open("w", encoding="utf-8") as handle:
            json.dump({"what": "throwaway Ceph cluster", **asdict(self.marker)}, handle, indent=1)
            handle.write("\n")
            handle.flush()
            os.fsync(handle.fileno())
        new.replace(self.path / MARKER)


def folder_problem(base: Path, exact: bool) -> str | None:
    """Why a cluster cannot be made in (or with `exact`, as) this folder; reads only."""
    if not base.is_absolute():
        return f"{base}: the folder of a cluster must be an absolute path"
    if _BAD_IN_CONF.search(str(base)):
        return f"{str(base)!r}: ceph.conf cannot hold a path with # ; $ \" ' \\ [ ] or control characters in it"
    if exact and base.exists():
        return _used_folder_problem(base)
    parent = base
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        return f"{base}: {parent} is not a folder this user may write to: set tmp_dir to one that is"
    return None


def _used_folder_problem(path: Path) -> str | None:
    if not path.is_dir():
        return f"{path} is not a folder"
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return f"{path} may not be written to by this user"
    names = sorted(entry.name for entry in path.iterdir())
    if set(names) <= {_LOCK, f"{MARKER}.new"}:
        return None  # empty, or all that a run leaves when it is killed in its very first moment
    marker = read_marker(path)
    if marker is None:
        return f"{path} holds {_some(names)}, not put there by this program: give a folder that is empty or absent"
    if foreign := _foreign_entries(path):
        return f"{path} holds {_some(foreign)}, not put there by this program: remove it or use another folder"
    if marker.kept:
        return f"{path} holds a cluster that was kept: stop it with {path}/stop.sh, then remove the folder"
    lock = _locked(path)
    if lock is None:
        return f"{path}: another run uses this folder"
    os.close(lock)
    return None


def reap_leftovers(base: Path) -> list[str]:
    """Stops and removes the clusters in `base` whose run was killed; one line for each, and for what had to stay.

    Leaves alone what is in use, what was kept on purpose, and what belongs to another user.
    """
    notices: list[str] = []
    if not base.is_dir():
        return notices
    for path in sorted(base.glob(f"{FOLDER_PREFIX}*")):
        notices += reap(path)
    return notices


def left_behind_osds(base: Path, exact: bool) -> frozenset[str]:
    """The ids of the OSDs whose devices `reap` would empty before a cluster is made in (or as) `base`; reads only."""
    found: set[str] = set()
    for path in [base] if exact else sorted(base.glob(f"{FOLDER_PREFIX}*")):
        marker = read_marker(path)
        if marker is None or marker.kept or not marker.devices:
            continue
        if (lock := _locked(path)) is not None:
            os.close(lock)
            found |= {device.osd_uuid for device in marker.devices}
    return frozenset(found)


def reap(path: Path) -> list[str]:
    """As `reap_leftovers`, for one folder."""
    folder = ClusterFolder.take_over(path)
    if folder is None:
        return []
    try:
        if folder.marker.kept:
            return []
        stopped = folder.stop_daemons()
        notices = folder.remove()
    finally:
        folder.close()
    what = f"daemons stopped: {', '.join(stopped)}" if stopped else "no daemon of it was running"
    done = "stopped, not wholly removed" if notices else "removed"
    return [f"{path}: left behind by an earlier run, {done} ({what})", *notices]


def read_marker(path: Path) -> Marker | None:
    """The marker of a folder of ours; None when there is none, it is broken, or the folder is another user's."""
    try:
        status = path.lstat()
        document: dict[str, Any] = json.loads((path / MARKER).read_text(encoding="utf-8"))
        # Who could write the marker could make us remove things: only our own folders count.
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or document["schema"] != 1:
            return None
        return Marker(
            fsid=str(document["fsid"]),
            folder=str(document["folder"]),
            run_dir=str(document["run_dir"]),
            boot_id=str(document["boot_id"]),
            devices=tuple(Device(str(d["path"]), str(d["osd_uuid"])) for d in document["devices"]),
            kept=bool(document["kept"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


_STOP_SCRIPT = """#!/bin/sh
# Stops exactly the daemons of the cluster in this folder.
daemons='{daemons}'
if [ "$(cat /proc/sys/kernel/random/boot_id)" != '{boot}' ]; then
    echo 'the machine was started anew since; nothing of this cluster runs'
    exit 0
fi
{functions}
stop_all
if any_alive; then
    echo 'some daemons could not be stopped' >&2
    exit 1
fi
echo "stopped; the folder $(dirname "$0") can be removed"
"""


def _locked(path: Path) -> int | None:
    """An exclusive lock that lasts until it is closed or this process is gone; None when another has it."""
    descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _run_dir_for(path: Path) -> Path:
    """`run` in the folder, or a short folder elsewhere when a socket's path would be too long for the kernel."""
    if len(os.fsencode(path / "run")) + _LONGEST_SOCKET_NAME <= _SOCKET_PATH_LIMIT:
        return path / "run"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    base = Path(runtime) if runtime and os.access(runtime, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    for candidate in (base, Path("/tmp")):  # noqa: S108 - the shortest writable folder there is; the name is random
        run_dir = candidate / f"{_RUN_PREFIX}{os.urandom(8).hex()}"
        if len(os.fsencode(run_dir)) + _LONGEST_SOCKET_NAME <= _SOCKET_PATH_LIMIT:
            return run_dir
    raise DeployError(
        f"{path}: the path is too long for Unix sockets, and no shorter folder is there: use another tmp_dir"
    )


def _remove_run_dir(run_dir: Path) -> None:
    if not run_dir.name.startswith(_RUN_PREFIX):
        return  # within the folder, removed with it
    with contextlib.suppress(OSError):
        if run_dir.lstat().st_uid != os.geteuid():
            return
        for entry in run_dir.iterdir():
            if entry.suffix in {".asok", ".pid"}:
                entry.unlink()
        run_dir.rmdir()


def _foreign_entries(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if not _OURS.fullmatch(entry.name))


def _remove_entry(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def _signal(processes: dict[str, ProcessId], number: signal.Signals) -> None:
    for process in processes.values():
        if process.alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")
