"""Bringing the throwaway cluster up: monitor, manager and OSDs on this host, in as few seconds as it goes."""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cluster.ceph import Ceph, CephError, ClusterStatus, failure
from cluster.command import Command, quote_words
from cluster.deploy.device import device_problems
from cluster.deploy.folder import ClusterFolder, Device, folder_problem, left_behind_osds, reap_leftovers
from cluster.deploy.guard import Guard
from cluster.deploy.spec import (
    MGR_SETTINGS,
    MIB,
    Addresses,
    ClusterSpec,
    DeployError,
    ceph_conf,
    keyring,
    new_key,
    osd_names,
)
from cluster.processes import ProcessId
from cluster.status_feed import StatusFeed
from cluster.transports.base import HostUnreachable, Transport

MON = "mon.a"
MGR = "mgr.x"
_TOOLS = {
    "ceph": "ceph-common",
    "monmaptool": "ceph-base",
    "ceph-mon": "ceph-mon",
    "ceph-mgr": "ceph-mgr",
    "ceph-osd": "ceph-osd",
}
_OVERHEAD_BYTES = 512 * MIB
"""Disk for the monitor's store and the logs."""
_ATTEMPTS = 3
_POLL_S = 0.1
_CONNECT_S = 3
# What the environment of the user could bend: none of it is meant for this cluster.
_CLEAN_ENV = (("CEPH_ARGS", ""),)


@dataclass(frozen=True, slots=True)
class DeployedCluster:
    """A cluster that is healthy. `processes` maps a daemon's name to its process; `run_dir` holds the admin sockets
    and `<name>.pid` files."""

    fsid: str
    folder: Path
    conf: Path
    keyring: Path
    run_dir: Path
    log_dir: Path
    processes: dict[str, ProcessId]
    notices: tuple[str, ...]
    deploy_s: float


class _AddressInUse(Exception):
    """The monitor's port was taken between the probe and the bind."""


def check_deploy(spec: ClusterSpec, transport: Transport) -> list[str]:
    """Everything that would stop `deploy`, one line each; touches nothing."""
    problems = []
    if spec.osd_count < 1:
        problems.append(f"a cluster needs at least one OSD, not {spec.osd_count}")
    if spec.devices and spec.objectstore != "bluestore":
        problems.append(f"cluster.osd_devices: devices are for bluestore, not for {spec.objectstore}")
    if spec.devices and len(spec.devices) < spec.osd_count:
        problems.append(
            f"cluster.osd_devices: {len(spec.devices)} devices for {spec.osd_count} OSDs: one each is needed"
        )
    if not spec.devices and spec.osd_size_bytes < 256 * MIB:
        problems.append(f"osd_size: {spec.osd_size_bytes} bytes an OSD are too few: give at least {256 * MIB}")
    for tool, package in _TOOLS.items():
        program = spec.words(tool)[0]
        if shutil.which(program) is None:
            remedy = f"install the package {package}, or name the program with `{tool}_cmd`"
            problems.append(f"{transport.host}: {program} is not on the PATH: {remedy}")
    if problem := folder_problem(spec.base, spec.exact):
        problems.append(problem)
    else:
        problems += _space_problems(spec)
    if spec.devices:
        left_behind = left_behind_osds(spec.base, spec.exact)
        problems += device_problems(spec.devices[: spec.osd_count], transport, left_behind)
    return problems


class ThrowawayCluster:
    """A cluster of our own on this host. Every daemon ends when this program does, unless `keep` was called."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._folder: ClusterFolder | None = None
        self._guard: Guard | None = None
        self._processes: dict[str, ProcessId] = {}

    def deploy(self, spec: ClusterSpec, waiting: Callable[[str], None] = lambda _: None) -> DeployedCluster:
        """Brings the cluster up and waits until it is healthy. What was started is stopped when this fails.

        Clusters in the same base folder whose run was killed are stopped and removed first. Raises DeployError.
        """
        started = time.monotonic()
        notices = tuple([] if spec.exact else reap_leftovers(spec.base))
        if problems := check_deploy(spec, self._transport):
            raise DeployError("; ".join(problems))
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                fsid = self._bring_up(spec, waiting)
                break
            except _AddressInUse as error:
                self.stop_and_remove()
                if attempt == _ATTEMPTS:
                    raise DeployError(f"{MON}: {error}") from None
            except BaseException:
                # Also on Ctrl-C: nothing half made may stay.
                self.stop_and_remove()
                raise
        folder = self._made_folder()
        return DeployedCluster(
            fsid=fsid,
            folder=folder.path,
            conf=folder.conf,
            keyring=folder.path / "keyring",
            run_dir=folder.run_dir,
            log_dir=folder.path / "log",
            processes=dict(self._processes),
            notices=notices,
            deploy_s=time.monotonic() - started,
        )

    def stop_and_remove(self) -> list[str]:
        """Stops the daemons and removes what was made; one line for everything that had to stay. Safe to call twice."""
        guard, folder = self._guard, self._folder
        self._guard = self._folder = None
        self._processes = {}
        if guard is not None:
            guard.stop()
        if folder is None:
            return []
        try:
            folder.stop_daemons()  # nothing, unless the guard was lost
            return folder.remove()
        finally:
            folder.close()

    def keep(self) -> str:
        """Lets the cluster live on after this program; how to use and how to stop it, in lines. Raises DeployError."""
        folder = self._made_folder()
        guard = self._guard
        if guard is None:
            raise DeployError(f"{folder.path}: the cluster was kept already")
        script = folder.mark_kept()
        guard.keep()
        self._guard = self._folder = None
        self._processes = {}
        folder.close()
        use = quote_words((f"CEPH_CONF={folder.conf}",)) if " " in str(folder.conf) else f"CEPH_CONF={folder.conf}"
        return (
            f"the cluster in {folder.path} was kept\n"
            f"use it:  export {use}; ceph status\n"
            f"stop it: {quote_words(('sh', str(script)))}"
        )

    # Steps

    def _bring_up(self, spec: ClusterSpec, waiting: Callable[[str], None]) -> str:
        fsid = str(uuid.uuid4())
        osds = {name: str(uuid.uuid4()) for name in osd_names(spec)}
        devices = [Device(path, osd_uuid) for path, osd_uuid in zip(spec.devices, osds.values(), strict=False)]
        self._folder = folder = ClusterFolder.create(spec.base, spec.exact, fsid, devices)
        addresses = _free_addresses(spec.address)
        _write_files(folder, spec, fsid, osds, addresses)
        self._guard = guard = Guard(self._transport, folder.path)
        ceph = Ceph(
            self._transport,
            str(folder.conf),
            {"ceph": spec.words("ceph")},
            connect_timeout_s=_CONNECT_S,
            env=(*_CLEAN_ENV, ("CEPH_KEYRING", str(folder.path / "keyring"))),
        )
        deadline = time.monotonic() + spec.ready_timeout_s
        waiting(f"throwaway cluster: making the stores of {len(osds)} OSDs")
        with ThreadPoolExecutor(max_workers=min(9, len(osds) + 1)) as pool:
            self._run(_monmap(spec, folder, fsid, addresses), MON)
            monitor = pool.submit(self._run, _mon_mkfs(spec, folder, fsid), MON)
            stores = {
                name: pool.submit(self._run, _osd_mkfs(spec, folder, name, osd_uuid), name)
                for name, osd_uuid in osds.items()
            }
            monitor.result()
            self._start(guard, MON)
            self._start(guard, MGR)
            self._register(ceph, osds, deadline)
            self._start_when_made(guard, stores)
        self._wait_until_ready(spec, ceph, deadline, waiting)
        return fsid

    def _start(self, guard: Guard, name: str) -> None:
        self._processes[name] = guard.start(name)

    def _start_when_made(self, guard: Guard, stores: dict[str, Future[None]]) -> None:
        left = dict(stores)
        while left:
            for name in [name for name, store in left.items() if store.done()]:
                left.pop(name).result()
                self._start(guard, name)
            time.sleep(0.01)

    def _run(self, command: Command, daemon: str) -> None:
        try:
            completed = self._transport.run(command)
        except HostUnreachable as error:
            raise DeployError(f"{daemon}: {error}") from None
        if not completed.ok:
            last = completed.stderr.decode(errors="replace").strip().splitlines()[-2:]
            log = self._log_tail(daemon) or " / ".join(last) or "no message"
            raise DeployError(f"{daemon}: its store could not be made (status {completed.status}): {log}")

    def _register(self, ceph: Ceph, osds: dict[str, str], deadline: float) -> None:
        """Tells the monitor of every OSD and of the manager's settings through one `ceph` process.

        That process waits for the monitor by itself, but not for long: a monitor that died is noticed in between.
        """
        # Forced, because the manager has not said yet which options its modules have.
        lines = [f"config set mgr {name} {value} --force" for name, value in MGR_SETTINGS.items()]
        lines += [f"osd new {osd_uuid} {name.partition('.')[2]}" for name, osd_uuid in osds.items()]
        orders = "".join(line + "\n" for line in lines)
        command = ceph.command("ceph", timeout_s=30.0)
        while True:
            completed = self._transport.run(command, stdin=orders.encode("ascii"))
            self._check_daemons()
            if completed.ok and b"Error" not in completed.stderr:
                return
            if b"timed out" not in completed.stderr or time.monotonic() > deadline:
                raise DeployError(f"the OSDs could not be registered: {failure(completed)}")

    def _wait_until_ready(self, spec: ClusterSpec, ceph: Ceph, deadline: float, waiting: Callable[[str], None]) -> None:
        said = ""
        missing = "an answer of the monitor"
        with StatusFeed(ceph) as feed:
            while time.monotonic() < deadline:
                self._check_daemons()
                try:
                    missing = _missing(feed.status(), spec.osd_count)
                except CephError as error:
                    missing = str(error)
                if not missing:
                    return
                if missing != said:
                    waiting(f"throwaway cluster: waiting for {missing}")
                    said = missing
                time.sleep(_POLL_S)
        logs = "; ".join(f"{name}: {tail}" for name in self._processes if (tail := self._log_tail(name)))
        raise DeployError(
            f"the throwaway cluster was not ready after {spec.ready_timeout_s:g} s: still waiting for {missing}; {logs}"
        )

    def _check_daemons(self) -> None:
        for name, process in self._processes.items():
            if not process.alive():
                tail = self._log_tail(name) or "no message in its log"
                if name == MON and ("ddress already in use" in tail or "unable to bind" in tail):
                    raise _AddressInUse(tail)
                raise DeployError(f"{name} ended by itself: {tail}; {_remedy(tail)}")

    def _log_tail(self, name: str) -> str:
        """The last words of a daemon as one line: of its standard error, and the last errors in its log."""
        if self._folder is None:
            return ""
        logs = self._folder.path / "log"
        errors = [line for line in _last_lines(logs / f"{name}.log") if " -1 " in line]
        words = [_LOG_STAMP.sub("", line) for line in (*errors[-2:], *_last_lines(logs / f"{name}.out")[-2:])]
        return " / ".join(dict.fromkeys(words))

    def _made_folder(self) -> ClusterFolder:
        if self._folder is None:
            raise DeployError("there is no throwaway cluster")
        return self._folder


_LOG_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\S+ [0-9a-f]+ +-?\d+ ")


def _last_lines(path: Path) -> list[str]:
    """What stands at the end of a log, without empty lines; () when there is none."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - 16_384))
            text = handle.read().decode(errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def _missing(status: ClusterStatus, osd_count: int) -> str:
    """What a healthy cluster lacks yet; empty when nothing."""
    if status.num_up_osds < osd_count:
        return f"{osd_count - status.num_up_osds} of {osd_count} OSDs to come up"
    if status.num_in_osds < osd_count:
        return f"{osd_count - status.num_in_osds} of {osd_count} OSDs to come in"
    if not status.mgr_available:
        return "the manager"
    if not status.total_bytes:
        return "the manager to hear from the OSDs"
    if not status.all_clean:
        return f"{status.num_pgs - status.clean_pgs} of {status.num_pgs} PGs to become active+clean"
    if status.health != "HEALTH_OK":
        return f"HEALTH_OK: {', '.join(f'{name} ({text})' for name, text in status.checks.items())}"
    return ""


def _remedy(tail: str) -> str:
    if "No space left" in tail or "ENOSPC" in tail:
        return "make room, or set tmp_dir to a larger filesystem"
    if "ermission denied" in tail:
        return "check who owns the files named there"
    if "annot allocate memory" in tail or "bad_alloc" in tail:
        return "there is too little memory: use fewer or smaller OSDs"
    return "check that all Ceph programs here are of one version (`ceph-osd --version`) and that there is memory enough"


def _space_problems(spec: ClusterSpec) -> list[str]:
    existing = spec.base
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    data = spec.osd_count * spec.osd_size_bytes
    on_disk = data if spec.objectstore == "bluestore" and not spec.devices else 0
    problems = []
    if free < on_disk + _OVERHEAD_BYTES:
        problems.append(
            f"{existing}: {free // MIB} MiB free, {(on_disk + _OVERHEAD_BYTES) // MIB} MiB are needed for "
            f"{spec.osd_count} OSDs: make osd_size smaller, or set tmp_dir to a larger filesystem"
        )
    if spec.objectstore == "memstore" and (available := _memory_available()) is not None and available < data:
        problems.append(
            f"{available // MIB} MiB of memory are available, {spec.osd_count} memstore OSDs of "
            f"{spec.osd_size_bytes // MIB} MiB may take {data // MIB}: make osd_size smaller, or use bluestore"
        )
    return problems


def _memory_available() -> int | None:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _write_files(
    folder: ClusterFolder, spec: ClusterSpec, fsid: str, osds: dict[str, str], addresses: Addresses
) -> None:
    path = folder.path
    folder.conf.write_text(ceph_conf(spec, path, folder.run_dir, fsid, addresses), encoding="utf-8")
    keys = {entity: new_key() for entity in ("mon.", "client.admin", MGR, *osds)}
    try:
        _write_secret(path / "keyring", keyring(keys))
        _write_secret(path / MGR / "keyring", keyring({MGR: keys[MGR]}))
        for name in osds:
            (path / name).mkdir()
            _write_secret(path / name / "keyring", keyring({name: keys[name]}))
        for name in (MON, MGR, *osds):
            (path / "start" / f"{name}.sh").write_text(_start_script(spec, folder, name), encoding="utf-8")
    except OSError as error:
        raise DeployError(f"{error.filename or path}: {error.strerror}") from None


def _write_secret(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text)


def _start_script(spec: ClusterSpec, folder: ClusterFolder, name: str) -> str:
    kind, _, number = name.partition(".")
    words = (*spec.words(f"ceph-{kind}"), "-f", "-c", str(folder.conf), "-i", number)
    return f"cd / && unset CEPH_ARGS CEPH_KEYRING && exec {quote_words(words)}\n"


def _mon_mkfs(spec: ClusterSpec, folder: ClusterFolder, fsid: str) -> Command:
    files = ("--keyring", str(folder.path / "keyring"), "--monmap", str(folder.path / "monmap"))
    words = ("--mkfs", "-c", str(folder.conf), "-i", "a", "--fsid", fsid)
    return Command((*spec.words("ceph-mon"), *words, *files), _CLEAN_ENV, 60.0)


def _monmap(spec: ClusterSpec, folder: ClusterFolder, fsid: str, addresses: Addresses) -> Command:
    address = f"[v2:{spec.address}:{addresses.mon_v2},v1:{spec.address}:{addresses.mon_v1}]"
    words = ("--create", "--fsid", fsid, "--addv", "a", address, str(folder.path / "monmap"))
    return Command((*spec.words("monmaptool"), *words), _CLEAN_ENV, 20.0)


def _osd_mkfs(spec: ClusterSpec, folder: ClusterFolder, name: str, osd_uuid: str) -> Command:
    number = name.partition(".")[2]
    # Without the monitors' configuration the store can be made before there is a monitor.
    words = ("--mkfs", "--no-mon-config", "-c", str(folder.conf), "-i", number, "--osd-uuid", osd_uuid)
    secret = ("--keyring", str(folder.path / name / "keyring"))
    return Command((*spec.words("ceph-osd"), *words, *secret), _CLEAN_ENV, 120.0)


def _free_addresses(address: str) -> Addresses:
    """Two neighbouring free ports for the monitor, and a range for the rest; the daemons try one port of it after
    the other. Below 32768, where the kernel takes no ports for outgoing connections."""
    for _ in range(200):
        first = random.randrange(10_000, 31_000, 2)  # noqa: S311 - no secret
        if _free(address, first) and _free(address, first + 1):
            return Addresses(first + 1, first, first + 2, first + 1002)
    raise DeployError(f"no free TCP port was found on {address}")


def _free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
