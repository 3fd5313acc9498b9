"""What a throwaway cluster is made of, and the ceph.conf that says so."""

from __future__ import annotations

import base64
import os
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ObjectStore = Literal["bluestore", "memstore"]

MIB = 1 << 20
GIB = 1 << 30


class DeployError(Exception):
    """The throwaway cluster cannot be had; one line with what failed and what to do."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """`base` is where a new folder `cbt-cluster-<id>` is made, or with `exact` the folder itself, which must be absent,
    empty, or left over from an earlier run. Sizes are in bytes. `devices` (bluestore only): one block device an OSD;
    without them bluestore lives on a sparse file of `osd_size_bytes` in the folder.
    `address` is the IPv4 address of this host that all daemons bind; loopback keeps the cluster to this host.
    `extra_conf` is more `[global]` settings; they win over ours."""

    base: Path
    exact: bool = False
    osd_count: int = 3
    objectstore: ObjectStore = "bluestore"
    osd_size_bytes: int = 4 * GIB
    osd_memory_target_bytes: int = 896 * MIB
    devices: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extra_conf: Mapping[str, str] = field(default_factory=dict)
    ready_timeout_s: float = 120.0
    address: str = "127.0.0.1"

    def words(self, tool: str) -> tuple[str, ...]:
        return self.commands.get(tool, (tool,))


@dataclass(frozen=True, slots=True)
class Addresses:
    """The monitor's two ports (protocol v2 and v1) and the range the other daemons bind in."""

    mon_v2: int
    mon_v1: int
    range_first: int
    range_last: int


def new_key() -> str:
    """A cephx key: type 1 (AES), creation time, length, 16 random bytes."""
    secret = os.urandom(16)
    now = time.time()
    header = struct.pack("<HIIH", 1, int(now), int(now % 1 * 1e9), len(secret))
    return base64.b64encode(header + secret).decode("ascii")


def osd_names(spec: ClusterSpec) -> tuple[str, ...]:
    return tuple(f"osd.{number}" for number in range(spec.osd_count))


_CAPS = {
    "mon": {"mon": "allow *"},
    "client": {"mon": "allow *", "osd": "allow *", "mds": "allow *", "mgr": "allow *"},
    "mgr": {"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"},
    "osd": {"mon": "allow profile osd", "mgr": "allow profile osd", "osd": "allow *"},
}


def keyring(keys: Mapping[str, str]) -> str:
    """Entity name → key, as a keyring file with each entity's capabilities."""
    lines = []
    for entity, key in keys.items():
        lines += [f"[{entity}]", f"\tkey = {key}"]
        lines += [f'\tcaps {daemon} = "{allowed}"' for daemon, allowed in _CAPS[entity.partition(".")[0]].items()]
    return "\n".join(lines) + "\n"


def ceph_conf(spec: ClusterSpec, folder: Path, run_dir: Path, fsid: str, addresses: Addresses) -> str:
    """The cluster's whole configuration. Every path is inside the folder (or the short run folder)."""
    size = max(1, min(3, spec.osd_count))
    settings: dict[str, dict[str, str]] = {
        "global": {
            "fsid": fsid,
            "mon host": f"[v2:{spec.address}:{addresses.mon_v2},v1:{spec.address}:{addresses.mon_v1}]",
            "mon initial members": "a",
            "public addr": spec.address,
            "cluster addr": spec.address,
            "ms bind ipv6": "false",
            "ms bind port min": str(addresses.range_first),
            "ms bind port max": str(addresses.range_last),
            "auth cluster required": "cephx",
            "auth service required": "cephx",
            "auth client required": "cephx",
            "auth allow insecure global id reclaim": "false",
            "keyring": f"{folder}/keyring",
            "run dir": f"{run_dir}",
            "crash dir": f"{folder}/crash",
            "osd pool default size": str(size),
            "osd pool default min size": str(max(1, size - 1)),
            # One host: replicas on different OSDs are all there is to have.
            "osd crush chooseleaf type": "0",
            # Nothing may move data while something is measured.
            "osd pool default pg autoscale mode": "off",
            "osd pool default pg num": "32",
            "osd scrub auto repair": "false",
            "mon allow pool delete": "true",
            "mon allow pool size one": "true",
            "mon warn on pool no redundancy": "false",
            "mon max pg per osd": "2000",
            # Changes of the maps are gathered for this long before they take effect.
            "paxos propose interval": "0.1",
            # How old PG states may be when they are waited for.
            "mgr stats period": "1",
            "mon data avail warn": "1",
            "mon data avail crit": "0",
        },
        # The cache would answer from the client's memory what the cluster is to be measured by.
        "client": {"log file": "", "admin socket": "", "rbd cache": "false"},
        # A port that somebody else has is not worth waiting for: another one is tried.
        "mon": {"mon data": f"{folder}/mon.$id", "ms bind retry delay": "0", "ms bind retry count": "1"},
        "mgr": {
            "mgr data": f"{folder}/mgr.$id",
            "mgr initial modules": "",
            "mgr disabled modules": " ".join(_UNUSED_MGR_MODULES),
        },
        "osd": {
            "osd data": f"{folder}/osd.$id",
            "keyring": f"{folder}/osd.$id/keyring",
            "osd objectstore": spec.objectstore,
            # At the end all daemons are told to stop at once: an OSD need not wait 5 s for a monitor that is gone.
            "osd mon shutdown timeout": "0.5",
            "osd memory target": str(spec.osd_memory_target_bytes),
            "memstore device bytes": str(spec.osd_size_bytes),
            "memstore page set": "true",
        },
    }
    for daemon in ("mon", "mgr", "osd"):
        settings[daemon] |= {
            "log file": f"{folder}/log/$name.log",
            "log to stderr": "false",
            "mon cluster log file": f"{folder}/log/cluster.log",
            "admin socket": f"{run_dir}/$name.asok",
            "pid file": f"{run_dir}/$name.pid",
        }
    if spec.objectstore == "bluestore":
        settings["osd"] |= {"bluestore block path": "", "bluestore block size": str(spec.osd_size_bytes)}
        for name, device in zip(osd_names(spec), spec.devices, strict=False):
            settings[name] = {"bluestore block path": device}
    settings["global"] |= spec.extra_conf
    sections = (
        f"[{section}]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
        for section, values in settings.items()
    )
    return "\n".join(sections)


# Options of manager modules cannot be set in ceph.conf. Neither of these two may work while something is measured:
# one moves data, the other makes a pool of its own as soon as there are three OSDs.
MGR_SETTINGS = {"mgr/balancer/active": "false", "mgr/devicehealth/enable_monitoring": "false"}

# Modules a benchmark has no use for; loading each costs the manager start-up time and memory.
_UNUSED_MGR_MODULES = (
    "alerts",
    "cephadm",
    "dashboard",
    "diskprediction_local",
    "influx",
    "insights",
    "iostat",
    "k8sevents",
    "localpool",
    "mirroring",
    "nfs",
    "osd_perf_query",
    "osd_support",
    "prometheus",
    "restful",
    "rook",
    "selftest",
    "snap_schedule",
    "stats",
    "telegraf",
    "test_orchestrator",
    "zabbix",
)
