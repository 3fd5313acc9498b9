"""One spelling for equal things, so that digests depend on meaning alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from cluster.command import HIDDEN, Secret
from cluster.hosts import Host


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces. Secrets are left out: a changed password is the same measurement."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, Secret):
        return HIDDEN
    if isinstance(value, Host):
        return [value.name, value.user, value.port]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
