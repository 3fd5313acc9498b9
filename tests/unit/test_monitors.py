"""What is run to watch a host, and on which hosts; everything short of running it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.monitors.base import Monitor, TemplateError
from cluster.monitors.registry import DuplicateName, all_monitors, by_name
from cluster.transports.fake import Answer, FakeTransport
from orchestrator.model import TestPlan
from orchestrator.monitoring import Monitoring, check_profiles, find_watches
from orchestrator.plan import PlanErrors, read_plan

FOLDER = "/a folder/cbt-1-monitors/m"


def plan_with(folder: Path, profiles: Mapping[str, Any], **cluster: Any) -> TestPlan:
    document = {
        "cluster": {"clients": ["localhost"], **cluster},
        "benchmarks": {"librbdfio": {"time": 1}},
        "monitoring_profiles": dict(profiles),
    }
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(document))
    return read_plan(path)


def words(name: str, profile: Mapping[str, object], *pids: int) -> list[tuple[str, ...]]:
    return [command.words for command in all_monitors()[name].commands(profile, FOLDER, pids)]


def test_the_customary_collectl_arguments_become_words() -> None:
    """What plans have carried for years reaches collectl as a shell would pass it on, the folder as one word."""
    args = '-c 18 -sCD -i 1 -P -oz -F0 --rawtoo --sep ";" -f {collectl_dir}'
    expected = ["collectl", "-c", "18", "-sCD", "-i", "1", "-P", "-oz", "-F0", "--rawtoo", "--sep", ";", "-f"]
    assert words("collectl", {"args": args}) == [(*expected, FOLDER)]


def test_what_is_filled_in_is_never_shell_text() -> None:
    """Expansions in a template, and spaces in the folder's name, stay words of the monitor."""
    args = "$(reboot) `id` 'a;b' {output_dir}/x {other} {{"
    assert words("top", {"args": args}) == [("top", "$(reboot)", "`id`", "a;b", f"{FOLDER}/x", "{other}", "{{")]


def test_one_command_for_every_process() -> None:
    """`{pid}` makes a monitor run once for each process; without processes it does not run."""
    found = words("perf", {"perf_cmd": ("sudo", "perf")}, 11, 12)
    assert found == [("sudo", "perf", "stat", "-p", pid, "-o", f"{FOLDER}/perf_stat.{pid}") for pid in ("11", "12")]
    assert words("perf", {}) == []


def test_output_of_several_processes_goes_to_several_files() -> None:
    """The customary `> {top_dir}/top.out` loses nothing when there are several processes."""
    profile = {"args": "-b -p {pid} > {top_dir}/top.out"}
    commands = all_monitors()["top"].commands(profile, FOLDER, (11, 12))
    assert [command.words for command in commands] == [("top", "-b", "-p", "11"), ("top", "-b", "-p", "12")]
    assert all(f"{FOLDER}/top.out.{pid}" in command.argv for command, pid in zip(commands, (11, 12), strict=True))
    (single,) = all_monitors()["top"].commands(profile, FOLDER, (11,))
    assert f"{FOLDER}/top.out" in single.argv


def test_blktrace_traces_the_named_devices() -> None:
    """Each device of the profile is traced; without any there is nothing to run, and it says so."""
    profile = {"devices": ("/dev/vdb", "/dev/vdc")}
    assert words("blktrace", profile) == [("blktrace", "-D", FOLDER, "-d", "/dev/vdb", "-d", "/dev/vdc")]
    assert words("blktrace", {}) == []
    assert "devices" in str(all_monitors()["blktrace"].lacking({}))


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ("-b 'open", "quote"),
        ("-f {collectl_dir}", "{top_dir}"),
        ("-b | gzip", "not read by a shell"),
        ("-b > x > {top_dir}/y", "not read by a shell"),
        ("-b > /etc/passwd", "elsewhere"),
        ("-b > {top_dir}/../x", "elsewhere"),
        ("-b > ..", "elsewhere"),
        ("a\0b", "NUL"),
    ],
)
def test_impossible_arguments_stop_the_run_in_preflight(tmp_path: Path, args: str, told: str) -> None:
    """Arguments that no command can be made of are one problem that names profile and remedy."""
    with pytest.raises(TemplateError, match=told):
        all_monitors()["top"].check({"args": args})
    if "\0" not in args:  # YAML has none
        (finding,) = check_profiles(plan_with(tmp_path, {"top": {"args": args}}))
        assert not finding.warning
        assert finding.where == "monitoring_profiles.top"


def test_two_monitors_of_one_name_are_an_error() -> None:
    """A copied module that kept its name is found at start."""
    copied = Monitor("top", ("top",), "", ())
    with pytest.raises(DuplicateName, match="top"):
        by_name([copied, None, copied])


def test_a_monitors_keys_and_name_come_from_its_module(tmp_path: Path) -> None:
    """The plan reader knows every registered monitor with its own keys, and no other."""
    for monitor in all_monitors().values():
        keys = {key.name: "/bin/x" for key in monitor.profile_keys}
        assert monitor.name in plan_with(tmp_path, {monitor.name: keys}).monitoring_profiles
    with pytest.raises(PlanErrors, match="did you mean 'collectl'"):
        plan_with(tmp_path, {"colectl": {}})


def test_roles_select_the_hosts(tmp_path: Path) -> None:
    """`nodes` selects hosts by role, each watched once however many roles and names it has; others are named once."""
    transports = {"localhost": FakeTransport("localhost")}
    cluster = {"osds": ["far1", "far2"], "mons": {"localhost": {"a": "10.0.0.1"}}, "head": "127.0.0.1"}
    profiles = {"collectl": {}, "top": {"nodes": ["osds"]}, "perf": {"nodes": "mons, head"}}
    watches, findings = find_watches(plan_with(tmp_path, profiles, **cluster), transports)
    hosts = {watch.monitor.name: watch.hosts for watch in watches}
    assert hosts == {"collectl": ("localhost",), "top": (), "perf": ("localhost",)}
    assert [finding.where for finding in findings] == ["monitoring_profiles", "monitoring_profiles.top"]
    assert "far1, far2" in findings[0].text
    assert all(finding.warning for finding in findings)


def test_a_throwaway_clusters_daemons_are_here(tmp_path: Path) -> None:
    """On a throwaway cluster every daemon runs on this host, whatever hosts the plan names for it."""
    transports = {"localhost": FakeTransport("localhost")}
    plan = plan_with(tmp_path, {"perf": {"nodes": ["osds"]}}, use_existing=False, osds=["far1"])
    watches, findings = find_watches(plan, transports)
    assert [watch.hosts for watch in watches] == [("localhost",)]
    assert findings == []


def test_an_unknown_role_is_a_problem_with_a_remedy(tmp_path: Path) -> None:
    """A slip in a role does not leave hosts unwatched in silence."""
    (finding,) = check_profiles(plan_with(tmp_path, {"collectl": {"nodes": ["client"]}}))
    assert not finding.warning
    assert "did you mean 'clients'" in finding.text


def test_a_missing_program_is_a_warning(tmp_path: Path) -> None:
    """What a host lacks for a monitor does not stop the run, and is said in one line each with the host's name."""
    host = FakeTransport("localhost", [Answer(("perf",), status=0), Answer(("sh",), status=0)])
    plan = plan_with(tmp_path, {"collectl": {}, "perf": {}}, pid_dir="/run/ceph")
    watches, _ = find_watches(plan, {"localhost": host})
    findings = Monitoring(watches, {"localhost": host}, "/run/ceph").check(processes=True)
    assert all(finding.warning for finding in findings)
    assert [finding.where for finding in findings] == ["host localhost"] * 2
    assert "collectl is not there" in findings[0].text
    assert "no pid file osd.*.pid in /run/ceph" in findings[1].text


def test_no_monitors_touch_no_host(tmp_path: Path) -> None:
    """A plan without profiles starts nothing and asks nothing."""
    host = FakeTransport("localhost")
    watches, findings = find_watches(plan_with(tmp_path, {}), {"localhost": host})
    monitoring = Monitoring(watches, {"localhost": host})
    with monitoring.watching(f"{tmp_path}/cbt-x") as watching:
        watching.collect(tmp_path)
    assert (findings, monitoring.check(processes=True), host.commands, monitoring.active) == ([], [], [], False)
