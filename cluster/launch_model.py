"""What a launch is given and what it brings back (see cluster.launcher)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cluster.transports.base import HostUnreachable

EndedBy = Literal["itself", "deadline", "connect limit", "stopped", "lost"]
"""What ended an instance; "lost": its host was lost, so that nobody knows."""

EventKind = Literal["prepared", "going", "start", "ready", "opened", "exit", "connect-timeout", "deadline", "ending"]


@dataclass(frozen=True, slots=True)
class LaunchedInstance:
    """One process to launch. `number` is unique on its host and names its files: output.N and stderr.N.

    `ready_marks` is how many times it runs its gate command (fio: once per job); 0: it has no second barrier.
    """

    number: int
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    ready_marks: int = 0


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What runs on one host. `directory` (absolute) must not exist; the launcher makes it, the caller removes it."""

    host: str
    directory: str
    instances: tuple[LaunchedInstance, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds.

    `connect_s`: from GO until every instance is ready. `deadline_s`: from the opening of the gate (from GO, where
    nothing has a gate) until all have ended: ramp + time + grace; None when they end by size alone. `kill_grace_s`:
    between SIGTERM and SIGKILL, rounded up to whole seconds. `prepare_s`: until a launcher is ready for GO.
    """

    connect_s: float
    deadline_s: float | None
    kill_grace_s: float = 5.0
    prepare_s: float = 30.0


@dataclass(frozen=True, slots=True)
class InstanceOutcome:
    """How one instance fared. Times are Unix seconds by its host's clock; None for what did not happen.

    `pid` is its process group, whose leader passes signals on and waits for the instance itself. `exit_status` is
    128 + the number of the signal that ended it. `ready_s` is when its last ready mark arrived (a network trip late).
    `released_s` is when the last of its gates let it through, good to a tick of the host's kernel (4 ms at 250 Hz): its
    ramp began a few milliseconds later, so `released_s` + ramp is the start of its measurement window.
    """

    number: int
    pid: int | None
    started_s: float | None
    ready_s: float | None
    ended_s: float | None
    exit_status: int | None
    ended_by: EndedBy
    released_s: float | None = None


@dataclass(frozen=True, slots=True)
class HostOutcome:
    """How the launch went on one host.

    `go_s` and `opened_s` (None: no gate was opened) are by the host's clock, which is `clock_offset_s` ahead of the
    controller's (good to a network trip). `connect_limit_passed` and `deadline_passed` say whether a limit was met.
    `swept` counts processes that had left their group and were killed; `unkillable` are those SIGKILL did not end.
    """

    host: str
    go_s: float | None
    opened_s: float | None
    clock_offset_s: float
    instances: tuple[InstanceOutcome, ...]
    connect_limit_passed: bool = False
    deadline_passed: bool = False
    swept: int = 0
    unkillable: tuple[int, ...] = ()


class LaunchFailed(Exception):
    """Nothing was started on a host; one line."""


class HostLost(HostUnreachable):
    """A host was lost after GO. Carries what is known."""

    def __init__(self, message: str, outcome: HostOutcome) -> None:
        super().__init__(message)
        self.outcome = outcome


HostResult = HostOutcome | LaunchFailed | HostUnreachable


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """Every host with its outcome or the exception in its place. `cancelled`: everything was stopped on demand."""

    hosts: Mapping[str, HostResult]
    cancelled: bool = False

    @property
    def outcomes(self) -> Mapping[str, HostOutcome]:
        """What is known of each host where instances were started, lost hosts included."""
        known: dict[str, HostOutcome] = {}
        for host, result in self.hosts.items():
            if isinstance(result, HostOutcome):
                known[host] = result
            elif isinstance(result, HostLost):
                known[host] = result.outcome
        return known

    @property
    def failures(self) -> Mapping[str, LaunchFailed | HostUnreachable]:
        return {host: result for host, result in self.hosts.items() if not isinstance(result, HostOutcome)}


@dataclass(frozen=True, slots=True)
class LaunchEvent:
    """Something that happened, for progress and monitors. `at_s` is by the controller's clock."""

    host: str
    kind: EventKind
    number: int | None
    at_s: float
