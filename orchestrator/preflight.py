"""Everything that would stop a run, found before it starts, in one list. Nothing is created here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

from benchmarks.model import Benchmark, Requirement, RunnableBenchmark
from cluster.command import Command
from cluster.transports.base import HostUnreachable, Transport
from orchestrator.facts import FREE_FORMAT, free_bytes_in, requirement_problem, tool_version, version_differences
from orchestrator.model import RunPoint, TestPlan

HOSTS_AT_ONCE = 64
LOG_BYTES_PER_INSTANCE = 1 << 20
"""What one instance's output is reckoned at when looking for space in tmp_dir."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem stops the run; a warning is shown and recorded."""

    where: str
    text: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{'warning' if self.warning else 'problem'}: {self.where}: {self.text}"


def check_plan(
    plan: TestPlan, points: Sequence[RunPoint], benchmarks: Mapping[str, Benchmark], clients: Sequence[str]
) -> list[Finding]:
    """What in the plan cannot run in this version or cannot work."""
    findings = [
        Finding(f"benchmark {planned.name}", why)
        for planned in plan.benchmarks
        if (why := benchmarks[planned.name].unavailable) is not None
    ]
    if plan.cluster.settings.get("recovery_test"):
        findings.append(Finding("cluster.recovery_test", "tests with an OSD down are not available yet; leave it out"))
    seen: set[str] = set()
    for point in points:
        benchmark = benchmarks[point.benchmark]
        if benchmark.unavailable is not None:
            continue
        runnable = as_runnable(benchmark)
        for text in runnable.settings_problems(point.settings):
            where = f"benchmark {point.benchmark}" + (f", workload {point.workload}" if point.workload else "")
            if f"{where}{text}" not in seen:
                seen.add(f"{where}{text}")
                findings.append(Finding(where, text))
    if not plan.cluster.settings.flag("use_existing"):
        findings += [
            Finding(
                f"host {host.name}",
                "is another machine, but a throwaway cluster runs on this machine only, with it as client: "
                "name localhost, or use an existing cluster",
            )
            for host in (*plan.cluster.clients, *(h for hosts in plan.cluster.daemons.values() for h in hosts))
            if not host.is_local()
        ]
    if len(set(clients)) != len(clients):
        findings.append(Finding("cluster.clients", "a host is named twice"))
    return findings


def as_runnable(benchmark: Benchmark) -> RunnableBenchmark:
    """The benchmark as one that can be launched; only for those whose `unavailable` is None."""
    if benchmark.unavailable is not None:
        raise TypeError(f"{benchmark.name} cannot run: {benchmark.unavailable}")
    return benchmark  # type: ignore[return-value]  # an available benchmark offers all of RunnableBenchmark


@dataclass(frozen=True, slots=True)
class ClientCheck:
    """What preflight found on one client."""

    findings: tuple[Finding, ...]
    versions: Mapping[str, str]


def check_clients(
    transports: Mapping[str, Transport],
    clients: Sequence[str],
    requirements: Sequence[Requirement],
    tmp_dir: str,
    instances_per_client: int,
    ceph_conf: str | None,
) -> tuple[list[Finding], dict[str, dict[str, str]]]:
    """Programs, engines, tmp_dir and the ceph.conf on all clients at once; findings, and versions of programs by host.

    `ceph_conf` is None where the run brings its own cluster.
    """

    def check(host: str) -> ClientCheck:
        try:
            return _check_client(transports[host], host, requirements, tmp_dir, instances_per_client, ceph_conf)
        except HostUnreachable as error:
            return ClientCheck((Finding(f"host {host}", str(error)),), {})

    with ThreadPoolExecutor(min(HOSTS_AT_ONCE, max(len(clients), 1)), thread_name_prefix="preflight") as pool:
        checks = dict(zip(clients, pool.map(check, clients), strict=True))
    findings = list(chain.from_iterable(found.findings for found in checks.values()))
    versions = {host: dict(found.versions) for host, found in checks.items()}
    for program in dict.fromkeys(name for found in versions.values() for name in found):
        difference = version_differences({host: found.get(program) for host, found in versions.items()})
        if difference is not None:
            findings.append(Finding(program, difference, warning=True))
    return findings, versions


def _check_client(
    transport: Transport,
    host: str,
    requirements: Sequence[Requirement],
    tmp_dir: str,
    instances: int,
    ceph_conf: str | None,
) -> ClientCheck:
    findings: list[Finding] = []
    versions: dict[str, str] = {}
    for requirement in requirements:
        if (problem := requirement_problem(transport, requirement)) is not None:
            findings.append(Finding(f"host {host}", problem))
        elif (version := tool_version(transport, requirement.probe[:-1])) is not None:
            versions[requirement.program] = version
    if (problem := _tmp_dir_problem(transport, tmp_dir, instances * LOG_BYTES_PER_INSTANCE)) is not None:
        findings.append(Finding(f"host {host}", problem))
    if ceph_conf is not None and not transport.run(Command(("test", "-r", ceph_conf), timeout_s=20)).ok:
        text = f"{ceph_conf} cannot be read there, and fio needs it: copy it and its keyring to this client"
        findings.append(Finding(f"host {host}", text))
    return ClientCheck(tuple(findings), versions)


def _tmp_dir_problem(transport: Transport, tmp_dir: str, need_bytes: int) -> str | None:
    """Whether tmp_dir can be written and has space; it may not be there yet if the folder above can be written."""
    script = (
        'd=$1; until [ -e "$d" ] || [ "$d" = / ]; do d=$(dirname "$d"); done; '
        '[ -d "$d" ] && [ -w "$d" ] && stat -f -c "$2" "$d"'
    )
    done = transport.run(Command(("sh", "-c", script, "sh", tmp_dir, FREE_FORMAT), timeout_s=20))
    if not done.ok:
        return f"tmp_dir {tmp_dir} cannot be written; set cluster.tmp_dir to a folder that can"
    free = free_bytes_in(done.stdout)
    if free is not None and free < need_bytes:
        return (
            f"tmp_dir {tmp_dir} has {free >> 20} MiB free, {need_bytes >> 20} MiB are reckoned with; "
            "free some or set cluster.tmp_dir to another folder"
        )
    return None


def gather(*checks: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Every finding of every check, problems first."""
    findings = list(chain.from_iterable(check() for check in checks))
    return sorted(findings, key=lambda finding: finding.warning)
