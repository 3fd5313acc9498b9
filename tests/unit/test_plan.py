"""Reading plans: what is accepted, what it means, and every mistake at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.options import Value
from benchmarks.registry import all_benchmarks
from cluster.command import HIDDEN, Command, Secret
from cluster.hosts import Host
from orchestrator.model import TestPlan
from orchestrator.plan import PlanErrors, read_plan
from orchestrator.points import lay_out

PLANS = Path(__file__).parent / "data" / "plans"
WITH_ERRORS = sorted(path.stem for path in PLANS.glob("*.errors"))

MINIMAL = """
cluster: {{clients: [alpha]{cluster}}}
benchmarks:
  librbdfio: {{{benchmark}}}
"""


def plan_of(folder: Path, text: str) -> TestPlan:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return read_plan(path)


def minimal(folder: Path, *, cluster: str = "", benchmark: str = "") -> TestPlan:
    return plan_of(folder, MINIMAL.format(cluster=f", {cluster}" if cluster else "", benchmark=benchmark))


def errors_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(PlanErrors) as caught:
        plan_of(folder, text)
    prefix = f"{folder / 'plan.yaml'}:"
    assert all(line.startswith(prefix) for line in caught.value.lines)
    return [line.removeprefix(prefix) for line in caught.value.lines]


def value(folder: Path, setting: str) -> Value:
    """What `key: value` under librbdfio is read as."""
    plan = minimal(folder, benchmark=setting)
    return plan.benchmarks[0].values[setting.partition(":")[0]]


def mistake(folder: Path, setting: str) -> str:
    """The one mistake in `key: value` under librbdfio, without its place."""
    (line,) = errors_of(folder, MINIMAL.format(cluster="", benchmark=setting))
    return line.split(": ", 1)[1]


@pytest.mark.parametrize("name", WITH_ERRORS)
def test_every_mistake_of_a_plan_is_reported_with_its_place(name: str) -> None:
    """A broken plan prints all its mistakes in the file's order, one line each: where, what, how to mend."""
    with pytest.raises(PlanErrors) as caught:
        read_plan(PLANS / f"{name}.yaml")
    shown = str(caught.value).replace(str(PLANS / f"{name}.yaml"), "PLAN")
    assert shown + "\n" == (PLANS / f"{name}.errors").read_text()


def test_a_plan_with_three_errors_prints_three_lines() -> None:
    """One look at the plan's mistakes is enough to mend all of them."""
    with pytest.raises(PlanErrors) as caught:
        read_plan(PLANS / "three_errors.yaml")
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize("name", ["older_2025", "older_2026", "every_benchmark"])
def test_plans_that_people_have_load_unchanged(name: str) -> None:
    """Plans written for the older tool are read and laid out."""
    assert lay_out(read_plan(PLANS / f"{name}.yaml"))


def test_the_older_plan_means_what_it_says() -> None:
    """Hosts, tools, profiles, workloads and sweeps of an older plan arrive as typed values."""
    plan = read_plan(PLANS / "older_2026.yaml")
    assert plan.cluster.clients == (Host("vm"),)
    assert plan.cluster.head == Host("vm")
    assert plan.cluster.daemons["mons"] == {Host("vm"): ("a",)}
    assert plan.cluster.daemons["mgrs"] == {Host("vm"): ("x",)}
    assert plan.cluster.daemons["osds"] == {Host("vm"): ()}
    assert plan.cluster.commands["ceph-osd"] == ("/usr/bin/ceph-osd",)
    assert plan.cluster.pool_profiles["rbd"]["replication"] == 1
    assert plan.cluster.pool_profiles["rbd"]["pg_size"] == 64
    assert plan.cluster.settings.flag("use_existing") is True
    (benchmark,) = plan.benchmarks
    assert benchmark.values["time"] == 3
    assert benchmark.values["volumes_per_client"] == (4,)
    assert [workload.name for workload in benchmark.workloads][:2] == ["16k7030", "1Mseqwrite"]
    assert benchmark.workloads[0].values["total_iodepth"] == (1, 2, 4, 8, 16, 32)
    assert "--rawtoo" in plan.monitoring_profiles["collectl"].text("args")


def test_a_key_without_effect_is_reported_once(tmp_path: Path) -> None:
    """Known keys that do nothing here are said once, with line and reason, and change nothing."""
    text = """
cluster: {clients: a, pdsh_ssh_args: -x, fs: xfs}
benchmarks:
  librbdfio: {osd_ra: [4096, 128]}
  radosbench: {osd_ra: 0}
common: {pdsh_continue_on_error: true}
"""
    plan = plan_of(tmp_path, text)
    found = [(notice.where.rpartition(":")[2], notice.text.split()[0]) for notice in plan.notices]
    assert sorted(found) == [("2", "fs"), ("2", "pdsh_ssh_args"), ("4", "osd_ra"), ("6", "common")]
    assert all(" has no effect here: " in notice.text for notice in plan.notices)
    assert len(lay_out(plan)) == 2


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("time_based: False", False),
        ("time_based: 'false'", False),
        ("time_based: 'no'", False),
        ("time_based: no", False),
        ("time_based: off", False),
        ("time_based: 0", False),
        ("time_based: True", True),
        ("time_based: 'YES'", True),
        ("time: 60", 60),
        ("time: '60'", 60),
        ("time: '060'", 60),
        ("time: 1_000", 1000),
        ("wait_pgautoscaler_timeout: -1", -1),
        ("op_size: 4096", 4096),
        ("op_size: '4096'", 4096),
        ("op_size: 4096B", 4096),
        ("op_size: 4k", 4096),
        ("op_size: 4K", 4096),
        ("op_size: 4KiB", 4096),
        ("op_size: 4M", 4 << 20),
        ("op_size: 1G", 1 << 30),
        ("op_size: [4k, 4096, 8k]", (4096, 8192)),
        ("poolname: 123", "123"),
        ("poolname: 010", "010"),
        ("poolname: 1:30", "1:30"),
        ("poolname: 1e3", "1e3"),
        ("poolname: 'no'", "no"),
        ("poolname: 2024-01-01", "2024-01-01"),
        ("""poolname: 'a b "c" $(d);e'""", 'a b "c" $(d);e'),
        ("rbdname: ''", ""),
        ("time: ~", None),
        ("cmd_path: /opt/fio", ("/opt/fio",)),
        ("cmd_path: env 'A=b c' fio", ("env", "A=b c", "fio")),
        ("cmd_path: [/my tools/fio, --x]", ("/my tools/fio", "--x")),
        ("prefill: {blocksize: 1M}", {"blocksize": 1 << 20, "numjobs": 1}),
        ("prefill: {numjobs: '2'}", {"blocksize": 4 << 20, "numjobs": 2}),
        ("prefill: ~", {"blocksize": 4 << 20, "numjobs": 1}),
        ("prefill: false", None),
        ("acceptable: {iops: (greater)}", {"iops": "(greater)"}),
    ],
)
def test_values_are_what_people_mean(tmp_path: Path, setting: str, expected: Value) -> None:
    """Every customary spelling of a value ends in the same typed value."""
    read = value(tmp_path, setting)
    assert read == expected
    assert type(read) is type(expected)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("time: 1:30", "time: YAML reads 1:30 as the base-60 number 90; write 90 if that is meant"),
        ("time: '1:30'", "time: YAML reads 1:30 as the base-60 number 90; write 90 if that is meant"),
        ("time: 010", "time: YAML reads 010 as an octal number; write 10 without the leading zero"),
        ("time: 1e3", "time: 1e3 is not a plain number, and YAML takes the like for text; write 1000"),
        ("time: 1.5", "time: '1.5' is not a whole number; write it without a decimal point"),
        ("time: .nan", "time: .nan is not a usable number; write a finite number"),
        ("time: 0x10", "time: 0x10 is not a decimal number; write it in decimal"),
        ("time: 60s", "time: '60s' is not a whole number; write a number such as 16"),
        ("time: true", "time: 'true' is not a whole number; write a number such as 16"),
        ("time: 0", "time: 0 is too small; write 1 or more"),
        ("rwmixread: 101", "rwmixread: 101 is too large; write 100 or less"),
        (f"time: {'9' * 30}", f"time: '{'9' * 30}' is too large; write a number below 2^63"),
        ("time: {a: 1}", "time: is a mapping where one value belongs; write a single value on the line of the key"),
        ("op_size: 4KB", "op_size: '4KB' may mean multiples of 1000 or of 1024; write 4KiB for multiples of 1024"),
        ("op_size: 4.5k", "op_size: '4.5k' is not a size; write bytes, or a number with k, M, G or T, such as 4k"),
        ("poolname: no", "poolname: YAML reads no as true or false, text is expected; write it in quotes: 'no'"),
        ("time_based: maybe", "time_based: 'maybe' is neither true nor false; write true or false"),
        ("mode: [read, [write]]", "mode: is a list where one value belongs; write a single value; only swept options"),
        ("iodepth: []", "iodepth is an empty list; name at least one value, or remove the line"),
        ("iodepth:", "iodepth has no value; write one after the colon, or remove the line"),
        ("iodepth: [1, ~]", "iodepth: an entry of the list is empty; write a value or remove it"),
        ("iodpeth: 4", "unknown key 'iodpeth' in librbdfio; did you mean 'iodepth'?"),
        ("use-existing-volumes: 1", "unknown key 'use-existing-volumes' in librbdfio; did you mean 'use_existing_volu"),
        ("zzz: 4", "unknown key 'zzz' in librbdfio; docs/plan.md lists the keys; remove or correct it"),
        ("prefill: {bs: 4k}", "unknown key 'bs' in prefill; docs/plan.md lists the keys; remove or correct it"),
        ("prefill: {numjobs: [1, 2]}", "numjobs: is a list where one value belongs; write a single value; only swept"),
        (
            "fio_out_format: normal",
            "fio_out_format: 'normal' is not known; did you mean 'normal,json'? It is one of json, json+,",
        ),
        ("pool_profile: fast", "pool_profile: there is no 'fast' in pool_profiles; add 'fast' to pool_profiles in the"),
        ("workloads: {}", "workloads is empty; name a workload, or remove the line"),
        ("workloads: [a]", "workloads must hold keys and values; indent its 'key: value' lines below it"),
        ("acceptable: [a]", "acceptable: must hold keys and values; indent its 'key: value' lines below it"),
        ("iodepth: 1, total_iodepth: 2", "iodepth and total_iodepth are both given; keep iodepth for each volume, or"),
    ],
)
def test_mistakes_say_what_and_how_to_mend(tmp_path: Path, setting: str, message: str) -> None:
    """A value that cannot be meant is one line that names the key, the trap and the remedy."""
    assert mistake(tmp_path, setting).startswith(message)


def test_a_message_is_one_line_whatever_a_key_holds(tmp_path: Path) -> None:
    """Line breaks and terminal escapes in names cannot forge further messages."""
    text = """
cluster: {clients: a, pool_profiles: {"p\\nq": 5}, erasure_profiles: {e: {"k\\e[31m\\nx": [1]}}}
benchmarks: {nullbench: ~}
"""
    lines = errors_of(tmp_path, text)
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


def test_hosts_may_be_a_name_a_list_or_a_mapping(tmp_path: Path) -> None:
    """Every way to name hosts ends in hosts with users, ports and daemon ids, the head being the first monitor."""
    text = """
cluster:
  clients: root@alpha:2222
  mons: {m1: {a: "10.0.0.1:6789", b: "10.0.0.1:6790"}, m2: {c: ~}}
  mgrs: {m1: ~}
  osds: [o1, o2]
  rgws: {g1: {client.radosgw.gateway: {host: 127.0.0.1}}}
benchmarks: {nullbench: ~}
"""
    cluster = plan_of(tmp_path, text).cluster
    assert cluster.clients == (Host("alpha", "root", 2222),)
    assert cluster.daemons["mons"] == {Host("m1"): ("a", "b"), Host("m2"): ("c",)}
    assert cluster.daemons["mgrs"] == {Host("m1"): ()}
    assert list(cluster.daemons["osds"]) == [Host("o1"), Host("o2")]
    assert cluster.daemons["rgws"] == {Host("g1"): ("client.radosgw.gateway",)}
    assert cluster.daemons["mdss"] == {}
    assert cluster.head == Host("m1")


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("{}", "2:10: cluster has no clients; name the hosts that make the load: 'clients: [host]'"),
        ("{clients: []}", "2:11: clients names no host; name at least one: 'clients: [host]'"),
        ("{clients: [a, b, root@a]}", "2:27: clients: the host 'a' is named twice; name each host once"),
        ("{clients: 'a,b'}", "2:20: clients: 'a,b' names several hosts in one text; write a list: [host1, host2]"),
        ("{clients: [a b]}", "2:21: clients: 'a b' is not a host name; write host, user@host, host:port or user@host:"),
        (
            "{clients: [on]}",
            "2:21: clients: YAML reads on as true or false, text is expected; write it in quotes: 'on'",
        ),
        ("{clients: [[a]]}", "2:21: clients: a host name is expected; write the name of one host"),
        ("{clients: a, head: [b, c]}", "2:23: head names several hosts; name one host"),
        ("{clients: a, iterations: [1, 2]}", "2:35: iterations: is a list where one value belongs; write a single"),
        ("{clients: a, iterations: 0}", "2:35: iterations: 0 is too small; write 1 or more"),
        ("{clients: a, cehp_cmd: x}", "2:23: unknown key 'cehp_cmd' in cluster; did you mean 'ceph_cmd'?"),
        ("{clients: a, rbd_nbd_cmd: x}", "2:23: unknown key 'rbd_nbd_cmd' in cluster; did you mean 'rbd-nbd_cmd'?"),
        ("{clients: a, ceph_cmd: ''}", "2:33: ceph_cmd: is an empty command; name the program to run"),
    ],
)
def test_mistakes_in_the_cluster_section(tmp_path: Path, cluster: str, message: str) -> None:
    """Hosts and tools that cannot be meant are caught before any host is touched."""
    (line,) = errors_of(tmp_path, f"\ncluster: {cluster}\nbenchmarks: {{nullbench: ~}}\n")
    assert line.startswith(message)


def test_a_throwaway_cluster_runs_on_this_host_by_default(tmp_path: Path) -> None:
    """`use_existing: False` needs no host at all."""
    plan = plan_of(tmp_path, "cluster: {use_existing: False}\nbenchmarks: {librbdfio: {}}\n")
    assert plan.cluster.clients == (Host("localhost"),)
    assert plan.cluster.head == Host("localhost")
    assert plan.cluster.settings.text("osd_objectstore") == "bluestore"
    assert plan.cluster.settings.integer("osd_size") == 2 << 30


def test_tools_may_be_several_words_and_any_tool_is_taken(tmp_path: Path) -> None:
    """A tool inside a container or pod is one command of several words."""
    plan = minimal(tmp_path, cluster='ceph_cmd: "kubectl -n rook exec deploy/tools -- ceph", osdmaptool_cmd: [a b, c]')
    assert plan.cluster.commands == {
        "ceph": ("kubectl", "-n", "rook", "exec", "deploy/tools", "--", "ceph"),
        "osdmaptool": ("a b", "c"),
    }


def test_profiles_have_defaults_and_erasure_profiles_pass_anything_on(tmp_path: Path) -> None:
    """Profiles are whole, pgp_size follows pg_size, and unknown erasure keys stay as written."""
    profiles = """
      pool_profiles: {a: {pg_size: 8}, b: {replication: erasure, erasure_profile: e}, c: {replication: '3'},
                      d: {replication: replicated}, f: ~},
      erasure_profiles: {e: {erasure_k: 4, plugin: clay, d: 5, stripe_unit: 4K, crush-failure-domain: osd, x: no}}
    """
    cluster = minimal(tmp_path, cluster=profiles).cluster
    pools = cluster.pool_profiles
    assert set(pools) == {"default", "a", "b", "c", "d", "f"}
    assert (pools["a"]["pg_size"], pools["a"]["pgp_size"], pools["a"]["replication"]) == (8, 8, None)
    assert (pools["b"]["replication"], pools["c"]["replication"], pools["d"]["replication"]) == ("erasure", 3, None)
    assert pools["f"] == pools["default"]
    assert dict(cluster.erasure_profiles["e"]) == {
        "erasure_k": 4,
        "erasure_m": 2,
        "plugin": "clay",
        "d": "5",
        "stripe_unit": "4K",
        "crush-failure-domain": "osd",
        "x": "no",
    }


def test_a_recovery_test_and_older_names_are_taken(tmp_path: Path) -> None:
    """Keys of later features and older spellings are in the settings, whole."""
    cluster = minimal(tmp_path, cluster="recovery_test: {osds: [1, 2]}, ceph.conf: /a/ceph.conf, servers: [s1]").cluster
    assert cluster.settings["recovery_test"] == {"osds": (1, 2), "pre_time": 60, "post_time": 60, "repeat": False}
    assert cluster.settings["conf_file"] == "/a/ceph.conf"
    assert cluster.daemons["osds"] == {Host("s1"): ()}


SECRETS = """
cluster: {clients: [a]}
# secret_key: hunter0
client_endpoints:
  s3:
    driver: s3
    access_key: &key "hunter1"  # for the gateway
    secret_key: |
      hunter2
      hunter3
    urls: ["http://a:80"]
  other: {driver: s3, secret_key: *key}
benchmarks:
  getput: {key: hunter4, user: visible}
  cosbench: {auth: {config: username=x;password=hunter5}}
  hsbench: {client_endpoints: s3, max_keys: 10}
"""


def test_secrets_are_in_no_shown_text_but_in_the_plan(tmp_path: Path) -> None:
    """What goes into archives and screens has no secret, reads back as the same plan, and the run still has them."""
    plan = plan_of(tmp_path, SECRETS)
    assert "hunter" not in plan.shown_text
    assert "visible" in plan.shown_text
    assert "# for the gateway" in plan.shown_text
    assert plan.client_endpoints["s3"].text("secret_key").split() == ["hunter2", "hunter3"]
    key = plan.client_endpoints["other"]["secret_key"]
    assert isinstance(key, Secret)
    assert Command(("tool", key)).shown() == f"tool '{HIDDEN}'"
    again = plan_of(tmp_path, plan.shown_text)
    assert again.digest == plan.digest


def test_a_mistake_in_a_secret_does_not_print_it(tmp_path: Path) -> None:
    """Error messages end up in logs and chats; a secret must not."""
    lines = errors_of(
        tmp_path, SECRETS.replace("key: hunter4", "key: [hunter4, [hunter6]]").replace('"hunter1"', "[x]")
    )
    assert lines
    assert "hunter" not in "".join(lines)


def test_a_plan_without_secrets_is_shown_as_given(tmp_path: Path) -> None:
    """The archived plan is byte for byte the user's."""
    text = (PLANS / "older_2026.yaml").read_text()
    assert plan_of(tmp_path, text).shown_text == text


def test_the_digest_covers_meaning_not_spelling(tmp_path: Path) -> None:
    """Comments, order of keys, quotes and unit suffixes do not make another plan; a value does."""
    one = minimal(tmp_path, cluster="iterations: 2, user: x", benchmark="op_size: 4k, time: 60").digest
    two = minimal(
        tmp_path, cluster="user: 'x', iterations: '2'", benchmark="time: '60', op_size: 4096 } # comment"
    ).digest
    other = minimal(tmp_path, cluster="iterations: 2, user: x", benchmark="op_size: 4k, time: 61").digest
    assert one == two
    assert one != other


def test_the_digest_leaves_out_what_changes_no_result(tmp_path: Path) -> None:
    """Where files go, who logs in and which program is called may change between two calls with one archive; a
    benchmark's own program may not."""
    one = minimal(tmp_path).digest
    moved = (
        "tmp_dir: /var/tmp/x, archive_dir: /a, pid_dir: /p, health_wait: 5, user: me, on_host_lost: continue, "
        "host_lost_timeout: 7, ceph_cmd: /opt/ceph"
    )
    assert minimal(tmp_path, cluster=moved).digest == one
    assert minimal(tmp_path, benchmark="cmd_path: /opt/fio").digest != one


def test_passwords_in_urls_are_not_shown(tmp_path: Path) -> None:
    """A URL keeps everything but its password, wherever in the plan it stands."""
    text = "cluster: {clients: [localhost]}  # via http://me:hunter7@proxy:80/a\n"
    text += "benchmarks: {librbdfio: {rbdname: 'http://user:hunter8@host/x', op_size: 4096}}\n"
    shown = plan_of(tmp_path, text).shown_text
    assert "hunter" not in shown
    assert "http://me:REDACTED@proxy:80/a" in shown
    assert "'http://user:REDACTED@host/x'" in shown


def test_the_order_of_workloads_is_part_of_the_meaning(tmp_path: Path) -> None:
    """A precondition before a test is another plan than one after it."""
    one = minimal(tmp_path, benchmark="workloads: {a: {mode: read}, b: {mode: write}}").digest
    assert one != minimal(tmp_path, benchmark="workloads: {b: {mode: write}, a: {mode: read}}").digest


def test_repeated_values_of_a_list_are_measured_once_and_noted(tmp_path: Path) -> None:
    """`[4, 4]` would be the same measurement twice; the plan says so."""
    plan = minimal(tmp_path, benchmark="iodepth: [4, 4]")
    assert [notice.text.split()[0] for notice in plan.notices] == ["iodepth"]
    assert len(lay_out(plan)) == 1


def test_a_sweep_beyond_reason_is_a_mistake_and_is_found_at_once(tmp_path: Path) -> None:
    """A plan for more points than a lifetime has is refused without laying them out."""
    values = ", ".join(str(number) for number in range(1, 1001))
    lists = ", ".join(f"{key}: [{values}]" for key in ("time", "ramp", "iodepth", "vol_size", "numjobs"))
    assert "stands for up to 1000000000000000 points" in mistake(tmp_path, lists)


def test_every_benchmark_of_the_plan_reference_is_registered() -> None:
    """Plans for all benchmarks are understood, also for those that cannot run yet, which say so in one line."""
    known = all_benchmarks()
    assert set(known) >= {
        "librbdfio",
        "radosbench",
        "rawfio",
        "kvmrbdfio",
        "rbdfio",
        "fio",
        "hsbench",
        "getput",
        "cosbench",
        "cephtestrados",
        "nullbench",
    }
    assert known["librbdfio"].unavailable is None
    for benchmark in known.values():
        names = [option.name for option in (*benchmark.options, *(benchmark.workload_options or ()))]
        assert len(names) == len(set(names))
        assert "\n" not in (benchmark.unavailable or "")
