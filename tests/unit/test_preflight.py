"""What preflight finds on hosts (orchestrator/preflight.py), on this very machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.model import Requirement
from cluster.transports.local import LocalTransport
from orchestrator.preflight import LOG_BYTES_PER_INSTANCE, Finding, check_clients, gather


def found(tmp_dir: Path, *requirements: Requirement, instances: int = 1) -> list[str]:
    findings, _ = check_clients({"h": LocalTransport("h")}, ["h"], requirements, str(tmp_dir), instances, None)
    return [str(finding) for finding in findings]


def program(path: Path, text: str) -> Requirement:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return Requirement(str(path), (str(path), "--enghelp"), "rbd", "install it")


def test_a_program_with_the_engine_passes(tmp_path: Path) -> None:
    """Only a whole word counts: an engine called `rbdx` is not `rbd`."""
    assert found(tmp_path, program(tmp_path / "good", "echo libaio; echo '  rbd'")) == []
    (problem,) = found(tmp_path, program(tmp_path / "other", "echo rbdx"))
    assert "has no rbd engine; install it" in problem


def test_missing_and_broken_programs_are_problems_of_their_host(tmp_path: Path) -> None:
    """The line says which host, which program, what happened and how to mend it."""
    missing = Requirement("/nowhere/fio", ("/nowhere/fio", "--enghelp"), "rbd", "install it")
    assert found(tmp_path, missing) == ["problem: host h: /nowhere/fio is not there; install it"]
    (problem,) = found(tmp_path, program(tmp_path / "broken", "echo no library >&2; exit 3"))
    assert "status 3" in problem
    assert "no library" in problem


def test_a_tmp_dir_that_is_not_there_yet_is_fine(tmp_path: Path) -> None:
    """It is made with the folders above it; nothing is made by looking."""
    assert found(tmp_path / "a b/c d") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_tmp_dir_that_cannot_be_is_a_problem(tmp_path: Path, name: str) -> None:
    """A file in the way is found before the run."""
    (tmp_path / "file").touch()
    (problem,) = found(tmp_path / name)
    assert "cannot be written; set cluster.tmp_dir" in problem


def test_a_tmp_dir_without_space_is_a_problem(tmp_path: Path) -> None:
    """Space is reckoned with for every instance."""
    (problem,) = found(tmp_path, instances=(1 << 60) // LOG_BYTES_PER_INSTANCE)
    assert "MiB free" in problem


def test_problems_come_before_warnings() -> None:
    """All checks in one list, what stops the run first."""
    warning, problem = Finding("a", "may matter", warning=True), Finding("b", "matters")
    assert gather(lambda: [warning], lambda: [problem]) == [problem, warning]
    assert [str(f) for f in (warning, problem)] == ["warning: a: may matter", "problem: b: matters"]


def test_a_client_without_the_ceph_conf_is_a_problem(tmp_path: Path) -> None:
    """fio reads the conf on its own host, so it must be there and readable."""
    findings, _ = check_clients({"h": LocalTransport("h")}, ["h"], (), str(tmp_path), 1, str(tmp_path / "ceph.conf"))
    assert [str(finding) for finding in findings] == [
        f"problem: host h: {tmp_path}/ceph.conf cannot be read there, and fio needs it: "
        "copy it and its keyring to this client"
    ]
