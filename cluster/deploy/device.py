"""Block devices for the throwaway cluster: refuse whatever holds anything, and leave them empty again."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Sequence, Set
from pathlib import Path

from cluster.command import Command, quote_words
from cluster.deploy.spec import GIB, MIB
from cluster.transports.base import Transport

_LABEL = b"bluestore block device\n"
_UUID_LENGTH = 36
_SMALLEST = GIB
_CLAIM_ATTEMPTS = 5
_CLAIM_PAUSE_S = 0.2


def device_problems(devices: Sequence[str], transport: Transport, left_behind: Set[str] = frozenset()) -> list[str]:
    """Why these devices cannot be used, one line each; reads them only.

    `left_behind`: ids of OSDs of our own that a killed run left; they are stopped and their devices emptied before use.
    """
    problems = []
    seen: dict[int, str] = {}
    for device in devices:
        problem = None if _label(device) in left_behind else _device_problem(device, transport)
        if problem is None:
            number = Path(device).stat().st_rdev
            if number in seen:
                problem = f"is the same device as {seen[number]}: give every OSD its own"
            seen.setdefault(number, device)
        if problem is not None:
            problems.append(f"cluster.osd_devices: {device} {problem}")
    return problems


def wipe_label(device: str, osd_uuid: str) -> str | None:
    """Empties a device whose first bytes are the label of that very OSD; a notice when it is anything else."""
    try:
        with Path(device).open("r+b", buffering=0) as handle:
            head = handle.read(MIB)
            if not any(head):
                return None
            if not head.startswith(_LABEL + osd_uuid.encode("ascii")):
                return f"{device} was left as it is: it does not carry the label of OSD {osd_uuid}"
            handle.seek(0)
            handle.write(bytes(MIB))
            os.fsync(handle.fileno())
    except OSError as error:
        return (
            f"{device} could not be emptied: {error.strerror}; do so with `dd if=/dev/zero bs=1M count=1 of={device}`"
        )
    return None


def _label(device: str) -> str | None:
    """The OSD id in the BlueStore label at the start of a device; None without one."""
    try:
        with Path(device).open("rb", buffering=0) as handle:
            head = handle.read(len(_LABEL) + _UUID_LENGTH)
    except OSError:
        return None
    return head[len(_LABEL) :].decode("ascii", errors="replace") if head.startswith(_LABEL) else None


def _device_problem(device: str, transport: Transport) -> str | None:
    try:
        status = Path(device).stat()
    except OSError as error:
        return f"cannot be used: {error.strerror}"
    if not stat.S_ISBLK(status.st_mode):
        return "is not a block device"
    number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return _use_problem(device, number) or _content_problem(device, transport)


def _use_problem(device: str, number: str) -> str | None:
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    for fields in (line.split() for line in mounts):
        if fields[2] == number:
            return f"is mounted on {fields[4]}: refused"
    real = os.path.realpath(device)
    for line in Path("/proc/swaps").read_text(encoding="utf-8", errors="replace").splitlines()[1:]:
        if os.path.realpath(line.split()[0]) == real:
            return "is used as swap space: refused"
    kernel = Path("/sys/dev/block") / number
    holders = kernel / "holders"
    if holders.is_dir() and (names := sorted(entry.name for entry in holders.iterdir())):
        return f"is in use by {', '.join(names)} (LVM, RAID or device mapper): refused"
    if names := sorted(entry.parent.name for entry in kernel.glob("*/partition")):
        return f"is divided into partitions ({', '.join(names)}): refused"
    return None


def _content_problem(device: str, transport: Transport) -> str | None:
    try:
        descriptor = _opened_alone(device)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return "is in use: refused"
        return f"cannot be opened: {error.strerror} (run as a user who may write to it)"
    with os.fdopen(descriptor, "r+b", buffering=0) as handle:
        size = handle.seek(0, os.SEEK_END)
        handle.seek(0)
        head = handle.read(MIB)
    if size < _SMALLEST:
        return f"holds {size} bytes; an OSD needs at least {_SMALLEST}"
    if uuid := _label(device):
        return f"carries the Ceph BlueStore label of OSD {uuid}: refused; {_empty_by_hand(device)}"
    if kind := _signature(device, transport):
        return f"carries a {kind} signature: refused; {_empty_by_hand(device)}"
    if any(head):
        return f"is not empty (its first MiB is not all zero): refused; {_empty_by_hand(device)}"
    return None


def _opened_alone(device: str) -> int:
    """Opens a device that nobody has claimed: with O_EXCL the kernel refuses any other. Raises OSError.

    Tries for a moment, because the system itself looks at a device right after it was written to.
    """
    for attempt in range(_CLAIM_ATTEMPTS):
        if attempt:
            time.sleep(_CLAIM_PAUSE_S)
        try:
            return os.open(device, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), device)


def _empty_by_hand(device: str) -> str:
    wipe = quote_words(("wipefs", "--all", device))
    zero = quote_words(("dd", "if=/dev/zero", "bs=1M", "count=1", f"of={device}"))
    return f"if nothing on it is needed, empty it with `{wipe}` and `{zero}`"


def _signature(device: str, transport: Transport) -> str | None:
    """What blkid or wipefs recognise on it. Neither need be installed: the look at the first MiB stands by itself."""
    for argv in (
        ("blkid", "-p", "-o", "value", "-s", "TYPE", "-s", "PTTYPE", device),
        ("wipefs", "--no-act", "--noheadings", "--output", "TYPE", device),
    ):
        completed = transport.run(Command(argv, (("LC_ALL", "C"),), 20.0))
        if completed.ok and (words := completed.stdout.decode(errors="replace").split()):
            return words[0]
    return None
