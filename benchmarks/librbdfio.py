"""fio on RBD images through librbd: one fio process a volume (or `procs_per_volume` of them)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.fio_json import parse_fio
from benchmarks.librbdfio_options import OPTIONS, WORKLOAD_OPTIONS
from benchmarks.model import (
    Instance,
    InstanceCommand,
    LaunchContext,
    Requirement,
    Sample,
    Volume,
    VolumeNeed,
)
from benchmarks.options import Option, Settings

MEBIBYTE = 1 << 20
DEFAULT_IMAGE_PREFIX = "cbt-librbdfio"
MIXED_MODES = frozenset({"rw", "readwrite", "randrw"})
MODES = MIXED_MODES | {"read", "write", "randread", "randwrite", "trim", "randtrim", "trimwrite", "randtrimwrite"}
PREFILL_IODEPTH = 16
SECTOR_BYTES = 512
JOB_NAME_LENGTH = 60
UNSAFE_IN_JOB_NAME = re.compile(r"[^\w.+=-]")


@dataclass(frozen=True, slots=True)
class LibrbdFio:
    """The benchmark `librbdfio`."""

    name: str = "librbdfio"
    options: tuple[Option, ...] = OPTIONS
    workload_options: tuple[Option, ...] | None = WORKLOAD_OPTIONS
    unavailable: str | None = None

    def settings_problems(self, settings: Settings) -> Sequence[str]:
        problems = []
        mode = settings.text("mode")
        if mode not in MODES:
            problems.append(f"mode {mode!r} is none of fio's: {', '.join(sorted(MODES))}")
        if settings.integer("op_size") % SECTOR_BYTES:
            problems.append(f"op_size {settings.integer('op_size')} is not a multiple of {SECTOR_BYTES} bytes")
        if settings.integer("op_size") > self._size_bytes(settings):
            problems.append(f"op_size {settings.integer('op_size')} is larger than the volume (vol_size)")
        if "json" not in settings.text("fio_out_format"):
            problems.append("fio_out_format must contain json or json+; nothing can be read from it otherwise")
        if settings.flag("time_based") and settings.optional_integer("time") is None:
            problems.append("time_based is set without time: the run would have no end")
        if settings.optional_text("recov_test_type") not in (None, "blocking", "background"):
            problems.append("recov_test_type must be 'blocking' or 'background'")
        return problems

    def need(self, settings: Settings, clients: Sequence[str]) -> VolumeNeed:
        pool = settings.text("poolname")
        rbdname = settings.optional_text("rbdname")
        count = settings.integer("volumes_per_client")
        volumes = tuple(
            Volume(pool, f"{rbdname or DEFAULT_IMAGE_PREFIX}-{client}-{index}", client, index)
            for client in clients
            for index in range(count)
        )
        data_profile = settings.optional_text("data_pool_profile")
        existing = settings.flag("use_existing_volumes")
        return VolumeNeed(
            pool=pool,
            pool_profile=settings.text("pool_profile"),
            data_pool=f"{pool}-data" if data_profile else None,
            data_pool_profile=data_profile,
            size_bytes=self._size_bytes(settings),
            object_order=settings.integer("vol_object_size"),
            volumes=volumes,
            existing=existing,
            fallback_image=rbdname if existing and count == 1 and rbdname else None,
            wait_pgautoscaler_s=settings.integer("wait_pgautoscaler_timeout"),
        )

    def instances(self, settings: Settings, need: VolumeNeed) -> tuple[Instance, ...]:
        processes = settings.integer("procs_per_volume")
        # Process 0 of every volume comes first, so that an uneven total depth is spread over volumes before
        # any volume gets a second share.
        places = [(volume, process) for process in range(processes) for volume in need.volumes]
        depths = self._depths(settings, len(places))
        instances = [
            Instance(
                host=volume.host,
                number=volume.index * processes + process,
                volume=volume,
                iodepth=depth,
                numjobs=settings.integer("numjobs"),
                process=process,
            )
            for (volume, process), depth in zip(places, depths, strict=True)
            if depth > 0
        ]
        hosts = list(dict.fromkeys(volume.host for volume in need.volumes))
        return tuple(sorted(instances, key=lambda instance: (hosts.index(instance.host), instance.number)))

    def command(self, instance: Instance, settings: Settings, context: LaunchContext) -> InstanceCommand:
        argv = [*self._fio(settings), *self._image(instance.volume, settings)]
        argv += [f"--rw={settings.text('mode')}"]
        if settings.text("mode") in MIXED_MODES:
            argv += [f"--rwmixread={settings.integer('rwmixread')}"]
        time_s = settings.optional_integer("time")
        if time_s is not None:
            argv += [f"--runtime={time_s}"]
        if settings.flag("time_based"):
            argv += ["--time_based"]
        ramp_s = settings.optional_integer("ramp")
        if ramp_s:
            argv += [f"--ramp_time={ramp_s}"]
        argv += [
            f"--numjobs={instance.numjobs}",
            "--direct=1",
            f"--bs={settings.integer('op_size')}B",
            f"--iodepth={instance.iodepth}",
            f"--end_fsync={settings.integer('end_fsync')}",
        ]
        if settings.flag("norandommap"):
            argv += ["--norandommap"]
        argv += [
            f"--{option}={value}"
            for option in ("random_distribution", "rate_iops")
            if (value := settings.get(option)) is not None
        ]
        argv += self._logs(instance, settings)
        argv += [f"--output-format={settings.text('fio_out_format')}"]
        if context.gate is not None:
            argv += [f"--exec_prerun={context.gate}"]
        argv += [f"--name={self._job_name(instance, settings)}"]
        return InstanceCommand(tuple(argv), self._environment(context))

    def prefill(self, volume: Volume, settings: Settings, context: LaunchContext) -> InstanceCommand | None:
        prefill = settings.mapping("prefill")
        if not prefill:
            return None
        size = self._size_bytes(settings)
        block = self._prefill_block(prefill.integer("blocksize"), size)
        jobs = prefill.integer("numjobs")
        argv = [*self._fio(settings), *self._image(volume, settings)]
        argv += ["--rw=write", "--direct=1", f"--bs={block}B", f"--iodepth={PREFILL_IODEPTH}"]
        if jobs > 1 and size % (jobs * block) == 0:
            argv += [f"--numjobs={jobs}", f"--size={size // jobs}", f"--offset_increment={size // jobs}"]
        argv += ["--end_fsync=1", "--output-format=json", f"--name=prefill-{volume.index}"]
        return InstanceCommand(tuple(argv), self._environment(context))

    def empties_volumes(self, settings: Settings) -> bool:
        return "trim" in settings.text("mode")

    def ready_marks(self, instance: Instance) -> int:
        return instance.numjobs

    def requirements(self, settings: Settings) -> tuple[Requirement, ...]:
        program = self._fio(settings)
        return (
            Requirement(
                program=" ".join(program),
                probe=(*program, "--enghelp"),
                must_contain="rbd",
                remedy="install a fio built with the rbd engine there, or set cmd_path to one",
            ),
        )

    def parse(self, output: bytes) -> tuple[Sample, bytes]:
        return parse_fio(output)

    def ramp_and_time_s(self, settings: Settings) -> tuple[float, float | None]:
        return float(settings.optional_integer("ramp") or 0), settings.optional_integer("time")

    @staticmethod
    def _size_bytes(settings: Settings) -> int:
        return settings.integer("vol_size") * MEBIBYTE

    @staticmethod
    def _prefill_block(wanted: int, size: int) -> int:
        """A block that divides the volume: fio leaves out a last piece that is smaller than a block."""
        block = math.gcd(wanted, size)
        # Odd sizes have nothing to speak of in common with the volume; a mebibyte always divides it.
        return block if block >= min(wanted, MEBIBYTE) else MEBIBYTE

    @staticmethod
    def _depths(settings: Settings, places: int) -> tuple[int, ...]:
        """Queue depth of each process; 0 where a small total leaves nothing."""
        total = settings.optional_integer("total_iodepth")
        if total is None:
            return (settings.integer("iodepth"),) * places
        share, deeper = divmod(total, places)
        return tuple(share + 1 if place < deeper else share for place in range(places))

    @staticmethod
    def _fio(settings: Settings) -> tuple[str, ...]:
        path = settings["cmd_path"]
        return tuple(str(word) for word in path) if isinstance(path, tuple) else (settings.text("cmd_path"),)

    @staticmethod
    def _image(volume: Volume, settings: Settings) -> list[str]:
        return [
            "--ioengine=rbd",
            f"--clientname={settings.text('clientname')}",
            f"--pool={volume.pool}",
            f"--rbdname={volume.image}",
            "--invalidate=0",
        ]

    @staticmethod
    def _logs(instance: Instance, settings: Settings) -> list[str]:
        kinds = ("iops", "bw", "lat")
        logs = [f"--write_{kind}_log=output.{instance.number}" for kind in kinds if settings.flag(f"log_{kind}")]
        interval_ms = settings.optional_integer("log_avg_msec")
        if logs and interval_ms is not None:
            logs.append(f"--log_avg_msec={interval_ms}")
        return logs

    @staticmethod
    def _job_name(instance: Instance, settings: Settings) -> str:
        # fio has a shell write the prerun's output to a file named after the job, without quotes: whatever a shell
        # could read something into becomes a dash, and the name must be unique on a host and fit a file name.
        prefix = settings.optional_text("jobname") or DEFAULT_IMAGE_PREFIX
        return f"{UNSAFE_IN_JOB_NAME.sub('-', prefix)[:JOB_NAME_LENGTH]}-{instance.number}"

    @staticmethod
    def _environment(context: LaunchContext) -> tuple[tuple[str, str], ...]:
        return (("CEPH_CONF", context.ceph_conf),) if context.ceph_conf else ()


BENCHMARK = LibrbdFio()
