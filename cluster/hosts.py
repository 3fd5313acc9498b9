"""Hosts by the name the plan gives them; that name is their identity (what `hostname` answers is only recorded)."""

from __future__ import annotations

import socket
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Host:
    """One machine as the plan names it: `user@name:port`, user and port optional."""

    name: str
    user: str | None = None
    port: int | None = None

    @staticmethod
    def parse(text: str) -> Host:
        """Reads `name`, `user@name`, `name:port`, `user@name:port`, `user@[v6]:port`. Raises ValueError."""
        user, at, rest = text.rpartition("@")
        if at and not user:
            raise ValueError(f"{text!r} has an empty user name before '@'")
        name, port = _split_port(rest)
        if not name or any(c.isspace() for c in name) or name.startswith("-") or "/" in name:
            raise ValueError(f"{text!r} is not a host name")
        return Host(name, user or None, port)

    def is_local(self) -> bool:
        """Whether this name means the machine the program runs on."""
        return self.name in {"localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()}


def _split_port(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        name, bracket, tail = text[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise ValueError(f"{text!r} is not a host name")
        port_text = tail[1:]
    elif text.count(":") == 1:
        name, _, port_text = text.partition(":")
    else:
        name, port_text = text, ""
    if not port_text:
        return name, None
    if not port_text.isdigit() or not 0 < int(port_text) < 65536:
        raise ValueError(f"{text!r}: the port must be a number from 1 to 65535")
    return name, int(port_text)
