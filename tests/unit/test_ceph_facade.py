"""The façade over `ceph` and `rbd`: what is run, what is read out of the answers, what a failure says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.ceph import Ceph, CephError, ClusterStatus, NoSuchThing
from cluster.command import Command
from cluster.transports.base import Channel, Completed

STATUS = {
    "fsid": "f",
    "health": {
        "status": "HEALTH_WARN",
        "checks": {"OSD_DOWN": {"severity": "HEALTH_WARN", "summary": {"message": "1 osds down", "count": 1}}},
    },
    "quorum_names": ["a"],
    "osdmap": {"num_osds": 3, "num_up_osds": 2, "num_in_osds": 3},
    "pgmap": {
        "num_pgs": 34,
        "pgs_by_state": [
            {"state_name": "active+clean", "count": 30},
            {"state_name": "active+clean+scrubbing+deep", "count": 2},
            {"state_name": "active+undersized+degraded+remapped+backfilling", "count": 2},
        ],
        "degraded_objects": 12,
        "degraded_ratio": 0.25,
    },
    "mgrmap": {"available": True},
}


class Canned:
    """A host on which every command ends in the same way."""

    host = "head"

    def __init__(self, stdout: str = "", status: int = 0, stderr: str = "", timed_out: bool = False) -> None:
        self._answer = (status, stdout.encode(), stderr.encode(), 0.1, timed_out)
        self.commands: list[Command] = []

    def run(self, command: Command, stdin: bytes = b"") -> Completed:
        del stdin
        self.commands.append(command)
        return Completed(self.host, command, *self._answer)

    def start(self, command: Command) -> Channel:
        raise AssertionError("only commands are asked of this host", command)

    def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        raise AssertionError("only commands are asked of this host", data, path, mode)

    def fetch(self, directory: str, into: Path) -> tuple[str, ...]:
        raise AssertionError("only commands are asked of this host", directory, into)

    def remove(self, directory: str) -> None:
        raise AssertionError("only commands are asked of this host", directory)

    def close(self) -> None: ...


def status_of(document: object) -> ClusterStatus:
    return Ceph(Canned(json.dumps(document))).status()


def test_figures_that_ceph_leaves_out_are_zero_and_states_are_counted_by_their_words() -> None:
    """Scrubbing, degraded and clean PGs are told apart although their states are glued words."""
    status = status_of(STATUS)
    assert (status.clean_pgs, status.num_pgs, status.scrubbing_pgs, status.all_clean) == (32, 34, 2, False)
    assert (status.degraded_objects, status.misplaced_objects, status.recovering_bytes_per_s) == (12, 0, 0.0)
    assert dict(status.checks) == {"OSD_DOWN": "1 osds down"}
    assert status.background_work() == ("2 PGs scrubbing", "2 PGs backfilling", "12 objects degraded")


def test_a_status_without_a_manager_is_never_called_clean() -> None:
    """Without a manager the PG figures mean nothing."""
    pgmap = {"num_pgs": 0, "pgs_by_state": []}
    assert not status_of({**STATUS, "pgmap": pgmap, "mgrmap": {"available": False}}).all_clean
    assert status_of({**STATUS, "pgmap": pgmap}).all_clean


@pytest.mark.parametrize(
    ("stdout", "words"),
    [
        ("", "not JSON"),
        ('{"fsid": "f"', "not JSON"),
        ("[]", "should be an object"),
        (json.dumps({**STATUS, "osdmap": {"num_osds": "3"}}), "osdmap.num_osds should be a whole number, is '3'"),
        (json.dumps({**STATUS, "pgmap": {}}), "pgmap.pgs_by_state is missing"),
    ],
)
def test_a_malformed_answer_names_command_and_place(stdout: str, words: str) -> None:
    """Nonsense from the tool ends in one line, never in a wrong figure."""
    with pytest.raises(CephError) as caught:
        Ceph(Canned(stdout)).status()
    assert words in str(caught.value)
    assert str(caught.value).startswith("head: ceph ")
    assert "\n" not in str(caught.value)


# What Ceph 16.2 wrote to stderr in each case.
@pytest.mark.parametrize(
    ("status", "stderr", "hint"),
    [
        (
            1,
            "2026-11-21T01:23:44.825+0000 7efd5921b6c0 -1 auth: unable to find a keyring on /x: (2) No such file\n"
            "[errno 2] RADOS object not found (error connecting to the cluster)\n",
            "name it with `keyring = FILE`",
        ),
        (2, "rbd: couldn't connect to the cluster!\nrbd: listing images failed: (2) No such file", "`keyring = FILE`"),
        (13, "[errno 13] RADOS permission denied (error connecting to the cluster)", "refuses this client"),
        (13, "Error EACCES: access denied", "refuses this client"),
        (1, "rbd: listing images failed: (1) Operation not permitted", "refuses this client"),
        (1, "timed out", "no monitor"),
        (
            110,
            "rbd: couldn't connect to the cluster!\nrbd: listing images failed: (110) Connection timed out",
            "no monitor",
        ),
        (1, "global_init: unable to open config file from search list /nonexist", "conf file cannot be read"),
        (127, "ceph: no such program", "install ceph-common"),
        (34, "Error ERANGE:  pg_num 1024 … exceeds max 750 (mon_max_pg_per_osd 250 * num_in_osds 3)", "lower pg_size"),
        (1, "Error EPERM: pool deletion is disabled; you must first set the mon_allow_pool_delete", "delete the pool"),
    ],
)
def test_known_failures_come_with_a_remedy(status: int, stderr: str, hint: str) -> None:
    """Each failure a newcomer meets says what to do, in one line without log stamps."""
    with pytest.raises(CephError) as caught:
        Ceph(Canned(status=status, stderr=stderr)).pool_delete("p")
    text = str(caught.value)
    assert hint in text
    assert "\n" not in text
    assert "7efd5921b6c0" not in text


def test_a_call_without_an_answer_in_time_is_a_failure_with_a_remedy() -> None:
    """A hung cluster is said to be one, with the limit."""
    with pytest.raises(CephError, match=r"no answer in 60 s.*no monitor"):
        Ceph(Canned(status=143, timed_out=True)).fsid()


def test_absence_is_told_from_failure() -> None:
    """Only `no such image` may be taken for absence."""
    with pytest.raises(NoSuchThing):
        Ceph(Canned(status=2, stderr="rbd: error opening image x: (2) No such file or directory")).image("p", "x")
    with pytest.raises(CephError) as caught:
        Ceph(Canned(status=2, stderr="rbd: couldn't connect to the cluster!\n(2) No such file")).image("p", "x")
    assert not isinstance(caught.value, NoSuchThing)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda ceph: ceph.pools(),
            "kubectl exec x -- ceph --conf '/a b/ceph.conf' --connect-timeout 15 --rados-mon-op-timeout 60 "
            "--format json",
        ),
        (
            lambda ceph: ceph.images("a b"),
            "rbd --conf '/a b/ceph.conf' --rados-mon-op-timeout 60 --rados-osd-op-timeout 60 "
            "ls --pool 'a b' --format json",
        ),
        (lambda ceph: ceph.image("p;", "$(i)"), "--pool 'p;' --image '$(i)' --format json"),
    ],
)
def test_calls_are_argument_vectors_with_format_limit_and_the_plans_words(
    call: Callable[[Ceph], object], expected: str
) -> None:
    """Words of the plan's ceph_cmd come first, names are words of their own, and every call asks for JSON."""
    host = Canned("not json")
    with pytest.raises(CephError):
        call(Ceph(host, "/a b/ceph.conf", {"ceph": ("kubectl", "exec", "x", "--", "ceph")}))
    assert expected in host.commands[0].shown()
    assert host.commands[0].timeout_s == 60.0


def test_secrets_of_the_configuration_database_do_not_get_out() -> None:
    """What looks like a key or password is replaced before anybody can write it down."""
    options = [
        {"section": "mgr", "name": "mgr/x/secret_key", "value": "abc"},
        {"section": "osd", "name": "osd_memory_target", "value": "1"},
    ]
    dump = json.dumps(Ceph(Canned(json.dumps(options))).config_dump())
    assert "abc" not in dump
    assert '"value": "1"' in dump


def test_failure_domains_count_only_what_can_hold_data() -> None:
    """An OSD that is out, a host without OSDs, and another device class do not count."""
    nodes = [
        {"id": -1, "name": "default", "type": "root", "children": [-2, -3, -4]},
        {"id": -2, "name": "h1", "type": "host", "children": [0, 1]},
        {"id": -3, "name": "h2", "type": "host", "children": [2]},
        {"id": -4, "name": "h3", "type": "host", "children": []},
        {"id": 0, "name": "osd.0", "type": "osd", "device_class": "ssd", "reweight": 1},
        {"id": 1, "name": "osd.1", "type": "osd", "device_class": "hdd", "reweight": 1},
        {"id": 2, "name": "osd.2", "type": "osd", "device_class": "hdd", "reweight": 0},
    ]
    ceph = Ceph(Canned(json.dumps({"nodes": nodes, "stray": []})))
    assert ceph.failure_domains("osd") == 2
    assert ceph.failure_domains("host") == 1
    assert ceph.failure_domains("osd", "ssd") == 1
    assert ceph.failure_domains("osd", root="elsewhere") is None
