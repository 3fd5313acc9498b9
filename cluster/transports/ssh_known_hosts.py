"""Which host keys are known: the known_hosts files of OpenSSH."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import paramiko

_appending = threading.Lock()


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line of a known_hosts file that is about the host in question."""

    file: Path
    line: int
    kind: str
    blob: bytes
    revoked: bool


def known_keys(known_as: str, files: Iterable[Path]) -> tuple[KnownKey, ...]:
    """Every key on record for a host, by the name it is looked up under (`host` or `[host]:port`).

    Files that cannot be read hold nothing. Lines of certificate authorities are left out: host certificates are not
    supported, so such a host needs a line of its own.
    """
    return tuple(key for file in files for key in _read(file, known_as))


def key_types(keys: Sequence[KnownKey]) -> tuple[str, ...]:
    """The signature algorithms by which a host can prove the keys on record, so that it is asked for one of those."""
    kinds = dict.fromkeys(key.kind for key in keys if not key.revoked)
    return tuple(
        name for kind in kinds for name in (("rsa-sha2-512", "rsa-sha2-256") if kind == "ssh-rsa" else (kind,))
    )


def fingerprint(key: paramiko.PKey) -> str:
    """As OpenSSH prints it: SHA256:…"""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")


def known_hosts_line(known_as: str, key: paramiko.PKey) -> str:
    return f"{known_as} {key.get_name()} {base64.b64encode(key.asbytes()).decode()}"


def append(file: Path, known_as: str, key: paramiko.PKey) -> None:
    """Adds a host's key. Raises OSError."""
    with _appending:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "rb+") as known:
            size = known.seek(0, os.SEEK_END)
            known.seek(max(0, size - 1))
            start = b"" if known.read(1) in {b"", b"\n"} else b"\n"
            known.write(start + known_hosts_line(known_as, key).encode() + b"\n")


def _read(file: Path, known_as: str) -> Iterator[KnownKey]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for number, line in enumerate(lines, 1):
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#") or marker == "@cert-authority":
            continue
        if _names(words[0], known_as):
            try:
                blob = base64.b64decode(words[2], validate=True)
            except binascii.Error:
                continue
            yield KnownKey(file, number, words[1], blob, marker == "@revoked")


def _names(patterns: str, known_as: str) -> bool:
    """Whether the first field of a line means this host: hashed, or patterns with `*`, `?` and `!`."""
    if patterns.startswith("|1|"):
        try:
            salt, digest = (base64.b64decode(part, validate=True) for part in patterns[3:].split("|"))
        except (ValueError, binascii.Error):
            return False
        return hmac.compare_digest(hmac.new(salt, known_as.encode(), hashlib.sha1).digest(), digest)
    found = False
    for pattern in patterns.split(","):
        wanted = pattern.removeprefix("!").replace("[", "[[]").lower()
        if fnmatch.fnmatchcase(known_as.lower(), wanted):
            if pattern.startswith("!"):
                return False
            found = True
    return found
