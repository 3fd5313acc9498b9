"""What is recorded of hosts and programs, so that a result can be trusted years later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.model import Requirement
from cluster.ceph import Ceph, CephError
from cluster.command import Command
from cluster.transports.base import HostUnreachable, Transport

_HOST_SCRIPT = """
echo "hostname $(hostname -f 2>/dev/null || hostname)"
echo "kernel $(uname -srm)"
echo "cpu_count $(nproc)"
while IFS=: read -r key value; do
  case "$key" in "model name"*) echo "cpu_model$value"; break;; esac
done </proc/cpuinfo
while read -r key value unit; do
  case "$key" in MemTotal:) echo "memory_kib $value"; break;; esac
done </proc/meminfo
read -r one rest </proc/loadavg && echo "load_1min $one"
. /etc/os-release 2>/dev/null && echo "distribution $PRETTY_NAME"
exit 0
"""

FREE_FORMAT = "%a %S"
"""For `stat -f`: free blocks and the size of one. Unlike the columns of df, no file system's name can garble it."""


def host_facts(transport: Transport) -> dict[str, Any]:
    """Host name as the host gives it, kernel, CPU, memory (bytes), load; what cannot be had is absent.

    Raises HostUnreachable.
    """
    done = transport.run(Command(("sh", "-c", _HOST_SCRIPT), timeout_s=20))
    facts: dict[str, Any] = {}
    for line in done.stdout.decode(errors="replace").splitlines():
        name, _, value = line.partition(" ")
        facts[name] = value.strip()
    if (kib := str(facts.pop("memory_kib", ""))).isdigit():
        facts["memory_bytes"] = int(kib) * 1024
    if (count := str(facts.get("cpu_count", ""))).isdigit():
        facts["cpu_count"] = int(count)
    return facts


def requirement_problem(transport: Transport, requirement: Requirement) -> str | None:
    """Why a required program does not serve on this host; None when it does. Raises HostUnreachable."""
    done = transport.run(Command(requirement.probe, timeout_s=20))
    if done.status == 127:
        return f"{requirement.program} is not there; {requirement.remedy}"
    if not done.ok:
        return f"{done.problem()}; {requirement.remedy}"
    lines = (done.stdout + b"\n" + done.stderr).decode(errors="replace").splitlines()
    if requirement.must_contain is not None and not any(
        requirement.must_contain in line.replace(",", " ").split() for line in lines
    ):
        return f"{requirement.program} has no {requirement.must_contain} engine; {requirement.remedy}"
    return None


def tool_version(transport: Transport, program: Sequence[str]) -> str | None:
    """The first line a program prints for --version. Raises HostUnreachable."""
    done = transport.run(Command((*program, "--version"), timeout_s=20))
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return lines[0].strip() if done.ok and lines else None


def free_bytes(transport: Transport, directory: str) -> int | None:
    """Bytes an ordinary user may still write there; None when that cannot be told. Raises HostUnreachable."""
    done = transport.run(Command(("stat", "-f", "-c", FREE_FORMAT, directory), timeout_s=20))
    return free_bytes_in(done.stdout) if done.ok else None


def free_bytes_in(stat_answer: bytes) -> int | None:
    """What `stat -f -c FREE_FORMAT` says."""
    numbers = stat_answer.split()
    return int(numbers[0]) * int(numbers[1]) if len(numbers) == 2 and all(map(bytes.isdigit, numbers)) else None


def version_differences(versions: Mapping[str, str | None]) -> str | None:
    """One line when hosts run different versions of a tool; None when all agree."""
    kinds: dict[str | None, list[str]] = {}
    for host, version in versions.items():
        kinds.setdefault(version, []).append(host)
    if len(kinds) < 2:
        return None
    return "different versions: " + "; ".join(
        f"{version or 'unknown'} on {', '.join(hosts)}" for version, hosts in kinds.items()
    )


def ceph_facts(ceph: Ceph) -> dict[str, Any]:
    """The cluster's versions, health, OSD tree, pools, EC profiles and configuration. What is not answered is named.

    Secrets are replaced by the façade (cluster/ceph.py).
    """
    questions: dict[str, Callable[[], object]] = {
        "versions": ceph.versions,
        "health": lambda: ceph.raw("health", "detail"),
        "osd_tree": ceph.osd_tree,
        "osd_df": lambda: ceph.raw("osd", "df"),
        "df": ceph.df,
        "pools": lambda: ceph.raw("osd", "pool", "ls", "detail"),
        "erasure_profiles": ceph.erasure_profiles,
        "crush_rules": ceph.crush_rules,
        "config": ceph.config_dump,
    }

    def ask(question: Callable[[], object]) -> object:
        try:
            return question()
        except (CephError, HostUnreachable) as error:
            return {"not_answered": str(error)}

    with ThreadPoolExecutor(4, thread_name_prefix="facts") as pool:
        return dict(zip(questions, pool.map(ask, questions.values()), strict=True))
