"""What a pool profile asks for, before any cluster is asked."""

from __future__ import annotations

import pytest

from cluster.pools import PoolError, erasure_spec, name_problem, pool_spec


def test_a_profile_becomes_a_pool_with_the_customary_defaults() -> None:
    """An empty profile is the default one: 1024 PGs, the cluster's own number of replicas."""
    spec = pool_spec("p", "default", {}, {})
    assert (spec.kind, spec.pg_num, spec.pgp_num, spec.size, spec.fixed_pg_num) == (
        "replicated",
        1024,
        1024,
        None,
        True,
    )


def test_an_erasure_coded_data_pool_for_images_gets_overwrites() -> None:
    """RBD cannot write to an erasure coded pool without; the plan need not say so."""
    profile = {"replication": "erasure", "erasure_profile": "e", "pg_size": 8}
    spec = pool_spec("p", "ec", profile, {"e": {"erasure_k": 4, "erasure_m": 2}}, rbd_data=True)
    assert spec.erasure is not None
    assert (spec.kind, spec.ec_overwrites, spec.pgp_num, spec.erasure.chunks) == ("erasure", True, 8, 6)


def test_erasure_profiles_of_another_meaning_have_another_name_on_the_cluster() -> None:
    """A profile is never overwritten: its name holds a digest of what it says, not of how it is written."""
    base = {"erasure_k": 4, "erasure_m": 2, "plugin": "isa"}
    reordered = {"plugin": "isa", "erasure_m": "2", "erasure_k": "4", "technique": None}
    assert erasure_spec("e", base).ceph_name == erasure_spec("e", reordered).ceph_name
    assert erasure_spec("e", base).ceph_name != erasure_spec("e", {**base, "erasure_m": 3}).ceph_name
    assert erasure_spec("e", base).ceph_name.startswith("cbt-e-")


def test_failure_domain_of_the_plan_wins() -> None:
    """OSDs are the failure domain only where the plan names none."""
    assert erasure_spec("e", {}).values["crush-failure-domain"] == "osd"
    assert erasure_spec("e", {"crush-failure-domain": "rack"}).values["crush-failure-domain"] == "rack"


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({"replication": "erasure"}, "no erasure_profile is named"),
        ({"replication": "erasure", "erasure_profile": "x"}, "'x' is not among"),
        ({"replication": 0}, "must be a number from 1"),
        ({"replication": "three"}, "'three'"),
        ({"pg_size": 8, "pgp_size": 16}, "larger than pg_size"),
        ({"pg_size": 0}, "pg_size: must be"),
    ],
)
def test_what_a_profile_cannot_say_is_refused_by_its_place_in_the_plan(profile: dict[str, object], words: str) -> None:
    """The line names the profile, so that the plan can be mended."""
    with pytest.raises(PoolError, match=words) as caught:
        pool_spec("p", "mine", profile, {})
    assert "pool_profiles.mine" in str(caught.value)


@pytest.mark.parametrize("name", ["a b", "it's", '"q"', "$(x)", "a;b", "ü", "*", "#", "a:b", ".x", "a,b", "%", "a\\b"])
def test_names_that_work_are_allowed(name: str) -> None:
    """Tried with rbd and fio: none of these is in the way."""
    assert name_problem("image", name) is None
    assert (name_problem("pool", name) is None) == name.isascii()  # ceph's own commands refuse the rest


@pytest.mark.parametrize("name", ["a/b", "a@b", "a\nb", "", "\t"])
def test_names_that_rbd_takes_apart_are_refused(name: str) -> None:
    """A separator or a control character in a name would mean something else to rbd or to a line-wise protocol."""
    assert name_problem("image", name)


def test_a_pool_name_like_an_option_is_refused() -> None:
    """`ceph osd pool create --x` is read as an option; an image of that name is fine."""
    assert name_problem("pool", "--x")
    assert name_problem("image", "-x") is None
