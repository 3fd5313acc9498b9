"""Why an instance failed, where it cannot tell: fio says that an image cannot be opened, but not that it is gone, and
nothing at all when it has no place to write to. The cluster and the host are asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cluster.ceph import Ceph, CephError, NoSuchThing
from cluster.transports.base import HostUnreachable, Transport
from orchestrator.facts import free_bytes
from orchestrator.judge import Judged

FULL_BYTES = 1 << 16
"""A filesystem with less than this is full: an instance's output is larger."""

SIGNALLED = 128


def with_causes(
    judged: Iterable[Judged], ceph: Ceph, transports: Mapping[str, Transport], directory: str
) -> list[Judged]:
    """The instances, with what is found out about the failed ones added to their reasons. `directory` is where they
    worked."""
    asked = _Asked(ceph, transports, directory)
    return [_with_cause(one, asked) for one in judged]


def _with_cause(judged: Judged, asked: _Asked) -> Judged:
    record = judged.record
    if record.reason is None or record.exit_status is None or record.exit_status >= SIGNALLED:
        return judged
    cause = asked.about_image(record.pool, record.image) if record.exit_status else None
    if cause is None and judged.document is None:
        cause = asked.about_space(record.host)
    return replace(judged, record=replace(record, reason=f"{record.reason}: {cause}")) if cause else judged


class _Asked:
    """Asks as little as possible: nothing more once the cluster did not answer, and every host once."""

    def __init__(self, ceph: Ceph, transports: Mapping[str, Transport], directory: str) -> None:
        self._ceph = ceph
        self._transports = transports
        self._directory = directory
        self._answers = True
        self._space: dict[str, str | None] = {}

    def about_image(self, pool: str, image: str) -> str | None:
        if not self._answers:
            return None
        try:
            self._ceph.image(pool, image)
        except NoSuchThing:
            return f"there is no image {image!r} in pool {pool!r} (No such file or directory)"
        except (CephError, HostUnreachable):
            self._answers = False
        return None

    def about_space(self, host: str) -> str | None:
        if host not in self._space:
            try:
                free = free_bytes(self._transports[host], self._directory)
            except HostUnreachable:
                free = None
            full = free is not None and free < FULL_BYTES
            self._space[host] = f"{self._directory}: No space left on device; free some in tmp_dir" if full else None
        return self._space[host]
