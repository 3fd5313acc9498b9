"""What librbdfio runs: commands, queue depths and names (benchmarks/librbdfio.py)."""

from __future__ import annotations

import pytest

from benchmarks.librbdfio import BENCHMARK, MODES
from benchmarks.model import Instance, LaunchContext, VolumeNeed
from benchmarks.options import Settings, Value

CONTEXT = LaunchContext("/tmp/work", "/etc/it's/ceph.conf", "wait at the gate")  # noqa: S108 - nothing is written


def settings(**changes: Value) -> Settings:
    values = {option.name: option.default for option in BENCHMARK.options}
    return Settings({**values, "time": 60, "time_based": True, **changes})


def planned(*clients: str, **changes: Value) -> tuple[Instance, ...]:
    chosen = settings(**changes)
    need: VolumeNeed = BENCHMARK.need(chosen, clients or ("a",))
    return BENCHMARK.instances(chosen, need)


def command(**changes: Value) -> list[str]:
    (instance, *_) = planned(**changes)
    return list(BENCHMARK.command(instance, settings(**changes), CONTEXT).argv)


def test_the_command_of_a_mixed_workload() -> None:
    """Every option that determines the numbers stands on the command line, the job's name last."""
    shown = command(
        mode="randrw", rwmixread=70, op_size=16384, total_iodepth=6, volumes_per_client=4, ramp=5, log_avg_msec=100
    )
    assert shown == [
        "/usr/bin/fio",
        "--ioengine=rbd",
        "--clientname=admin",
        "--pool=cbt-librbdfio",
        "--rbdname=cbt-librbdfio-a-0",
        "--invalidate=0",
        "--rw=randrw",
        "--rwmixread=70",
        "--runtime=60",
        "--time_based",
        "--ramp_time=5",
        "--numjobs=1",
        "--direct=1",
        "--bs=16384B",
        "--iodepth=2",
        "--end_fsync=0",
        "--write_iops_log=output.0",
        "--write_bw_log=output.0",
        "--write_lat_log=output.0",
        "--log_avg_msec=100",
        f"--output-format={settings()['fio_out_format']}",
        "--exec_prerun=wait at the gate",
        "--name=cbt-librbdfio-0",
    ]


@pytest.mark.parametrize(
    ("changes", "words", "absent"),
    [
        ({"mode": "randread"}, [], "--rwmixread"),
        ({"mode": "rw", "rwmixread": 0}, ["--rwmixread=0"], ""),
        ({"time": None, "time_based": False}, [], "--runtime"),
        ({"ramp": 0}, [], "--ramp_time"),
        (
            {"norandommap": True, "random_distribution": "zipf:1.2"},
            ["--norandommap", "--random_distribution=zipf:1.2"],
            "",
        ),
        ({"rate_iops": 100}, ["--rate_iops=100"], ""),
        ({"log_iops": False, "log_bw": False, "log_lat": False, "log_avg_msec": 100}, [], "log"),
        ({"cmd_path": ("sudo", "-n", "/opt/fio")}, ["sudo", "-n", "/opt/fio"], "/usr/bin/fio"),
        ({"clientname": "bench"}, ["--clientname=bench"], ""),
        ({"fio_out_format": "json"}, ["--output-format=json"], ""),
    ],
)
def test_what_a_key_does_to_the_command(changes: dict[str, Value], words: list[str], absent: str) -> None:
    """A key that is set is on the command line; one that is not leaves no trace, least of all a None."""
    shown = command(**changes)
    assert [word for word in words if word not in shown] == []
    assert not absent or not [word for word in shown if absent in word]
    assert not [word for word in shown if "None" in word]


@pytest.mark.parametrize(
    ("changes", "depths"),
    [
        ({"total_iodepth": 1, "volumes_per_client": 4}, {("a", 0): 1}),
        ({"total_iodepth": 6, "volumes_per_client": 4}, {("a", 0): 2, ("a", 1): 2, ("a", 2): 1, ("a", 3): 1}),
        ({"total_iodepth": 3, "volumes_per_client": 2, "procs_per_volume": 2}, {("a", 0): 1, ("a", 1): 1, ("a", 2): 1}),
        ({"iodepth": 5, "volumes_per_client": 2}, {("a", 0): 5, ("a", 1): 5}),
        ({"iodepth": 5, "procs_per_volume": 2}, {("a", 0): 5, ("a", 1): 5}),
    ],
)
def test_queue_depths(changes: dict[str, Value], depths: dict[tuple[str, int], int]) -> None:
    """`iodepth` is each instance's; `total_iodepth` is spread over the volumes, deeper ones first, and volumes that get
    nothing have no instance."""
    assert {(i.host, i.number): i.iodepth for i in planned(**changes)} == depths


def test_a_total_depth_is_shared_among_all_clients() -> None:
    """Five over two clients of two volumes: nobody is left out, and the sum is the plan's number."""
    instances = planned("a", "b", total_iodepth=5, volumes_per_client=2)
    assert [(i.host, i.number, i.iodepth) for i in instances] == [("a", 0, 2), ("a", 1, 1), ("b", 0, 1), ("b", 1, 1)]


@pytest.mark.parametrize("total", range(1, 40))
def test_a_total_depth_is_never_lost_nor_exceeded(total: int) -> None:
    """Whatever the number, the depths add up to it and differ by one at most."""
    depths = [i.iodepth for i in planned("a", "b", "c", total_iodepth=total, volumes_per_client=3, procs_per_volume=2)]
    assert sum(depths) == total
    assert max(depths) - min(depths) <= 1


def test_images_are_named_as_always() -> None:
    """`<rbdname or cbt-librbdfio>-<host>-<n>`: data of earlier runs and people's scripts go by these names."""
    names = [v.image for v in BENCHMARK.need(settings(volumes_per_client=2), ("a", "b")).volumes]
    assert names == [f"cbt-librbdfio-{host}-{number}" for host in "ab" for number in range(2)]
    need = BENCHMARK.need(settings(rbdname="mine", use_existing_volumes=True), ("a",))
    assert ([v.image for v in need.volumes], need.fallback_image) == (["mine-a-0"], "mine")


@pytest.mark.parametrize(
    ("jobname", "shown"),
    [
        ("../../x", "..-..-x-0"),
        ("a $(b) `c`; d & 'e' | \"f\" > g", "a---b---c---d----e-----f----g-0"),
        ("lesen_4k.ü", "lesen_4k.ü-0"),
        ("x" * 500, "x" * 60 + "-0"),
    ],
)
def test_a_job_name_is_harmless(jobname: str, shown: str) -> None:
    """fio lets a shell redirect the prerun's output to a file named after the job: nothing in it may be executed, or
    lead elsewhere, or be too long."""
    assert BENCHMARK.command(planned()[0], settings(jobname=jobname), CONTEXT).argv[-1] == f"--name={shown}"


def test_ceph_conf_reaches_fio_by_its_environment() -> None:
    """fio's rbd engine has no option for it."""
    made = BENCHMARK.command(planned()[0], settings(), CONTEXT)
    assert made.env == (("CEPH_CONF", "/etc/it's/ceph.conf"),)


def test_a_prefill_writes_every_byte_once() -> None:
    """Several jobs share the volume without overlap; where it does not divide, one job writes it all."""
    volume = BENCHMARK.need(settings(), ("a",)).volumes[0]

    def words(size_mib: int, jobs: int) -> list[str]:
        prefill: dict[str, Value] = {"blocksize": 4 << 20, "numjobs": jobs}
        made = BENCHMARK.prefill(volume, settings(vol_size=size_mib, prefill=Settings(prefill)), CONTEXT)
        assert made is not None
        return list(made.argv)

    assert {"--numjobs=2", f"--size={8 << 20}", f"--offset_increment={8 << 20}"} <= set(words(16, 2))
    assert not [word for word in words(20, 2) if word.startswith(("--numjobs", "--size"))]
    assert "--bs=2097152B" in words(2, 1)
    assert all("--rw=write" in words(size, jobs) for size, jobs in ((16, 2), (20, 2), (2, 1)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mode": "randomread"}, "none of fio's"),
        ({"op_size": 1000}, "not a multiple of 512"),
        ({"op_size": 2 << 20, "vol_size": 1}, "larger than the volume"),
        ({"fio_out_format": "terse"}, "must contain json"),
        ({"time": None}, "no end"),
    ],
)
def test_settings_that_cannot_work_are_told(changes: dict[str, Value], words: str) -> None:
    """What fio would refuse, or never finish, is told before the run."""
    assert any(words in problem for problem in BENCHMARK.settings_problems(settings(**changes)))
    assert not BENCHMARK.settings_problems(settings())


@pytest.mark.parametrize(
    ("vol_size_mib", "blocksize", "block"),
    [
        (34, 4 << 20, 2 << 20),
        (33, 4 << 20, 1 << 20),
        (64, 4 << 20, 4 << 20),
        (1, 4 << 20, 1 << 20),
        (64, 4096, 4096),
        (34, 4_000_001, 1 << 20),
        (34, 5000, 1 << 20),
        (64, 3 << 20, 1 << 20),
    ],
)
def test_the_block_of_a_prefill_divides_the_volume(vol_size_mib: int, blocksize: int, block: int) -> None:
    """No end of a volume stays unwritten, however odd the block that the plan asks for."""
    prefill: dict[str, Value] = {"blocksize": blocksize, "numjobs": 1}
    changed = settings(vol_size=vol_size_mib, prefill=Settings(prefill))
    made = BENCHMARK.prefill(BENCHMARK.need(changed, ("a",)).volumes[0], changed, CONTEXT)
    assert made is not None
    assert f"--bs={block}B" in made.argv
    assert (vol_size_mib << 20) % block == 0


def test_trimming_modes_empty_volumes() -> None:
    """What discards data is known, so that it is written again before the next point."""
    modes = {mode for mode in MODES if BENCHMARK.empties_volumes(settings(mode=mode))}
    assert modes == {"trim", "randtrim", "trimwrite", "randtrimwrite"}
