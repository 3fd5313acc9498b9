"""Pools and images on a real cluster: made from profiles, found when they exist, removed only when they are ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.model import Volume, VolumeNeed
from cluster.ceph import Ceph, CephError, NoSuchThing
from cluster.deploy import ClusterSpec, DeployedCluster, ThrowawayCluster
from cluster.ledger import Ledger, Thing
from cluster.pools import PoolError, check_pools, pool_spec, prepare_pools, remove_created
from cluster.transports.local import LocalTransport
from cluster.volumes import check_images, pools_needed, prepare_images, resolve_existing, verify_filled

pytestmark = pytest.mark.e2e

MIB = 1 << 20
SMALL: dict[str, object] = {"pg_size": 4, "pgp_size": 4}
PROFILES: dict[str, dict[str, object]] = {
    "small": {**SMALL, "replication": 3},
    "two": {**SMALL, "replication": 2},
    "one": {**SMALL, "replication": 1},
    "ec": {**SMALL, "replication": "erasure", "erasure_profile": "ec21"},
    "wide": {**SMALL, "replication": "erasure", "erasure_profile": "ec42"},
    "lrc": {**SMALL, "replication": "erasure", "erasure_profile": "lrc423"},
    "huge": {"pg_size": 32768, "pgp_size": 32768, "replication": 3},
    "ruled": {**SMALL, "replication": 3, "crush_profile": "no such rule"},
}
ERASURE: dict[str, dict[str, object]] = {
    "ec21": {"erasure_k": 2, "erasure_m": 1},
    "ec42": {"erasure_k": 4, "erasure_m": 2},
    "lrc423": {"erasure_k": 4, "erasure_m": 2, "plugin": "lrc", "l": 3},
}
EVIL = 'it\'s $(touch pwned); a "name" `id` #*'


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedCluster]:
    cluster = ThrowawayCluster(LocalTransport("localhost"))
    yield cluster.deploy(ClusterSpec(base=tmp_path_factory.mktemp("cluster"), osd_size_bytes=1 << 30))
    assert cluster.stop_and_remove() == []


@pytest.fixture
def ceph(deployed: DeployedCluster) -> Ceph:
    return Ceph(LocalTransport("localhost"), str(deployed.conf))


@pytest.fixture
def ledger(ceph: Ceph, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger whose contents are removed from the cluster after the test."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    yield ledger
    remove_created(ceph, ledger)


def a_need(
    pool: str = "bench", profile: str = "small", *, data: str | None = None, images: int = 2, **changes: object
) -> VolumeNeed:
    need = VolumeNeed(
        pool=pool,
        pool_profile=profile,
        data_pool=None if data is None else f"{pool}-data",
        data_pool_profile=data,
        size_bytes=8 * MIB,
        object_order=22,
        volumes=tuple(Volume(pool, f"cbt-librbdfio-host-{n}", "host", n) for n in range(images)),
        existing=False,
    )
    return replace(need, **changes)  # type: ignore[arg-type] # the tests name fields of VolumeNeed


def made(ceph: Ceph, ledger: Ledger, need: VolumeNeed) -> None:
    prepare_pools(ceph, ledger, pools_needed(need, PROFILES, ERASURE))
    prepare_images(ceph, ledger, need)


def fill(deployed: DeployedCluster, pool: str, image: str) -> None:
    argv = ["fio", "--ioengine=rbd", "--clientname=admin", f"--pool={pool}", f"--rbdname={image}", "--name=fill"]
    argv += ["--rw=write", "--bs=4M"]
    env = {**os.environ, "CEPH_CONF": str(deployed.conf)}
    subprocess.run(argv, check=True, capture_output=True, timeout=60, env=env)


def foreign_image(deployed: DeployedCluster, pool: str, image: str, size: str = "8M") -> None:
    argv = ["rbd", "create", "--conf", str(deployed.conf), "--pool", pool, "--image", image, "--size", size]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)


def test_replicated_pool_and_images_follow_the_profile_and_go_again(ceph: Ceph, ledger: Ledger) -> None:
    """What a profile asks for is what the cluster has, and after removal nothing of it is left."""
    before = set(ceph.pools())
    need = a_need()
    said: list[str] = []
    prepare_pools(ceph, ledger, pools_needed(need, PROFILES, ERASURE), said.append)
    prepared = prepare_images(ceph, ledger, need)
    pool = ceph.pools()["bench"]
    assert (pool.kind, pool.size, pool.pg_num, pool.autoscale_mode) == ("replicated", 3, 4, "off")
    assert "rbd" in pool.applications
    assert [p.filled for p in prepared] == [False, False]
    assert ceph.image("bench", "cbt-librbdfio-host-1").size_bytes == 8 * MIB
    assert any("bench" in text for text in said)
    assert remove_created(ceph, ledger) == []
    assert set(ceph.pools()) == before
    assert ledger.entries() == ()


def test_erasure_coded_data_pool_keeps_the_data_and_leaves_no_rule_or_profile(ceph: Ceph, ledger: Ledger) -> None:
    """The image's data is in the erasure coded pool; its profile and CRUSH rule go with it."""
    rules, profiles = set(ceph.crush_rules()), set(ceph.erasure_profile_names())
    need = a_need(data="ec", images=1)
    made(ceph, ledger, need)
    data = ceph.pools()["bench-data"]
    assert (data.kind, data.size, data.ec_overwrites) == ("erasure", 3, True)
    assert ceph.image("bench", need.volumes[0].image).data_pool == "bench-data"
    assert remove_created(ceph, ledger) == []
    assert (set(ceph.crush_rules()), set(ceph.erasure_profile_names())) == (rules, profiles)


def test_a_pool_that_can_never_be_clean_is_refused_before_it_is_made(ceph: Ceph, ledger: Ledger) -> None:
    """Six chunks on three OSDs: said at once, with the figures, and nothing was made."""
    specs = pools_needed(a_need(data="wide"), PROFILES, ERASURE)
    with pytest.raises(PoolError, match=r"can never be complete: 6 chunks .*only 3"):
        prepare_pools(ceph, ledger, specs)
    assert "bench-data" not in ceph.pools()


def test_a_plugin_with_extra_chunks_is_caught_before_images_hang(ceph: Ceph, ledger: Ledger) -> None:
    """lrc makes more chunks than k+m; the pool is made, but no image on it, and the message counts them."""
    with pytest.raises(PoolError, match=r"can never be complete: 8 chunks"):
        prepare_pools(ceph, ledger, pools_needed(a_need(data="lrc"), PROFILES, ERASURE))


@pytest.mark.parametrize(
    ("profile", "words"),
    [("huge", "too many PGs.*mon_max_pg_per_osd.*lower pg_size"), ("ruled", "'no such rule' is no CRUSH rule")],
)
def test_what_the_cluster_would_refuse_is_a_problem_beforehand(
    ceph: Ceph, ledger: Ledger, profile: str, words: str
) -> None:
    """A limit or a missing rule is named by the look, without making anything."""
    with pytest.raises(PoolError, match=words):
        prepare_pools(ceph, ledger, pools_needed(a_need(profile=profile), PROFILES, ERASURE))
    assert "bench" not in ceph.pools()


def test_replication_one_works_where_the_cluster_allows_it(ceph: Ceph, ledger: Ledger) -> None:
    """A pool of one copy needs Ceph's own confirmation word; a plan that asks for it gets it."""
    prepare_pools(ceph, ledger, pools_needed(a_need(profile="one"), PROFILES, ERASURE))
    assert ceph.pools()["bench"].size == 1


def test_another_profile_for_the_same_pool_makes_it_anew(ceph: Ceph, ledger: Ledger) -> None:
    """A sweep over pool profiles measures each profile, not the first one again."""
    made(ceph, ledger, a_need(profile="two"))
    made(ceph, ledger, a_need(profile="small"))
    assert ceph.pools()["bench"].size == 3
    assert len(ceph.images("bench")) == 2


def test_foreign_pool_is_used_or_refused_but_never_changed_or_removed(
    ceph: Ceph, ledger: Ledger, tmp_path: Path
) -> None:
    """A pool that was there stays as it was, whether it agrees with the profile or not."""
    owner = Ledger(tmp_path / "owner.jsonl")
    made(ceph, owner, a_need(profile="two"))
    before = ceph.pools()["bench"].raw
    problems = check_pools(ceph, ledger, pools_needed(a_need(profile="small"), PROFILES, ERASURE))
    assert len(problems) == 1
    assert "keeps 2 replicas, not 3" in problems[0]
    assert check_pools(ceph, ledger, pools_needed(a_need(profile="two"), PROFILES, ERASURE)) == []
    image = a_need().volumes[0].image
    assert [p for p in check_images(ceph, ledger, a_need()) if image in p and "use_existing_volumes: True" in p]
    with pytest.raises(CephError, match="was not made by this run"):
        prepare_images(ceph, ledger, a_need())
    ours = a_need(volumes=(Volume("bench", "ours", "host", 0),))
    prepare_images(ceph, ledger, ours)
    assert remove_created(ceph, ledger) == []
    assert ceph.images("bench") == (image, a_need().volumes[1].image)
    assert {k: v for k, v in ceph.pools()["bench"].raw.items() if "snap" not in k} == {
        k: v for k, v in before.items() if "snap" not in k
    }
    remove_created(ceph, owner)


def test_foreign_image_in_our_pool_saves_the_pool(deployed: DeployedCluster, ceph: Ceph, ledger: Ledger) -> None:
    """Somebody's image in a pool of ours keeps the pool from being deleted; ours go."""
    made(ceph, ledger, a_need())
    foreign_image(deployed, "bench", "precious")
    notices = remove_created(ceph, ledger)
    assert len(notices) == 1
    assert "'precious'" in notices[0]
    assert ceph.images("bench") == ("precious",)
    ceph.image_remove("bench", "precious")


def test_same_name_with_another_id_is_not_removed(ceph: Ceph, ledger: Ledger) -> None:
    """A pool deleted and made again by somebody else is theirs."""
    fsid = ceph.fsid()
    made(ceph, ledger, a_need())
    ceph.pool_delete("bench")
    ceph.pool_create_replicated("bench", 4, 4)
    assert any("not the one this run made" in notice for notice in remove_created(ceph, ledger))
    assert "bench" in ceph.pools()
    ledger.created(Thing(fsid, "pool", "bench"), str(ceph.pools()["bench"].pool_id))


def test_words_of_a_shell_in_names_are_only_names(deployed: DeployedCluster, ceph: Ceph, ledger: Ledger) -> None:
    """Spaces, quotes, `$( )`, `;` in pool and image names work through the whole life of an image."""
    need = a_need(pool=EVIL, volumes=(Volume(EVIL, EVIL + " -0", "host", 0),))
    made(ceph, ledger, need)
    volume = need.volumes[0]
    with pytest.raises(CephError, match="0 of 8388608 bytes"):
        verify_filled(ceph, ledger, volume)
    fill(deployed, volume.pool, volume.image)
    verify_filled(ceph, ledger, volume)
    assert [p.filled for p in prepare_images(ceph, ledger, need)] == [True]
    assert ceph.librbd_cache(volume.pool, volume.image).options["rbd_cache"] in {"true", "false"}
    assert remove_created(ceph, ledger) == []
    assert EVIL not in ceph.pools()


@pytest.mark.parametrize("name", ["a/b", "a@b", "a\nb", ""])
def test_names_that_rbd_reads_otherwise_are_refused(ceph: Ceph, ledger: Ledger, name: str) -> None:
    """A name that rbd would take apart never reaches it."""
    assert check_images(ceph, ledger, a_need(volumes=(Volume("bench", name, "host", 0),)))
    spec = pool_spec(name, "small", PROFILES["small"], {})
    assert check_pools(ceph, ledger, [spec])


def test_existing_images_are_found_by_either_host_name(deployed: DeployedCluster, ceph: Ceph, ledger: Ledger) -> None:
    """Configured name, the host's own name, or the one image of the plan: whichever is there is used."""
    made(ceph, ledger, a_need(images=1, volumes=()))
    looking = a_need(images=1, existing=True, fallback_image="only")
    absent = resolve_existing(ceph, looking, {"host": "host.example"})
    assert len(absent.problems) == 1
    assert "'cbt-librbdfio-host.example-0'" in absent.problems[0]
    foreign_image(deployed, "bench", "cbt-librbdfio-host.example-0")
    found = resolve_existing(ceph, looking, {"host": "host.example"})
    assert [v.image for v in found.need.volumes] == ["cbt-librbdfio-host.example-0"]
    assert found.problems == ()
    assert any("0 of 8388608 bytes" in notice for notice in found.notices)
    foreign_image(deployed, "bench", "cbt-librbdfio-host-0", "4M")
    both = resolve_existing(ceph, looking, {"host": "host.example"})
    assert [v.image for v in both.need.volumes] == ["cbt-librbdfio-host-0"] or both.problems
    assert any("4194304 bytes, the plan wants 8388608" in problem for problem in both.problems)
    foreign_image(deployed, "bench", "only")
    fill(deployed, "bench", "only")
    single = resolve_existing(ceph, looking, {"host": "host.example"})
    assert [v.image for v in single.need.volumes] == ["only"]
    assert not [notice for notice in single.notices if "bytes were" in notice]
    for image in ceph.images("bench"):
        ceph.image_remove("bench", image)


def test_a_missing_image_is_told_from_a_failure(ceph: Ceph, ledger: Ledger) -> None:
    """Absence has an exception of its own, a cluster out of reach has not."""
    made(ceph, ledger, a_need(volumes=()))
    with pytest.raises(NoSuchThing):
        ceph.image("bench", "nothing")
