"""Rules for every test: nothing is skipped, and nothing a test started outlives the session."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Generator
from pathlib import Path

import pytest

MARKER_NAME = "CBT_TEST_SESSION"
MARKER = f"{MARKER_NAME}={os.getpid()}-{uuid.uuid4().hex}"
"""Stands in the environment of everything the tests start, daemons that detach included."""

FAREWELL_S = 5.0
"""How long processes that are on their way out may take."""


def pytest_configure() -> None:
    os.environ[MARKER_NAME] = MARKER.partition("=")[2]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test has tested nothing, so it fails, with its reason."""
    report = yield
    if report.skipped:
        report.longrepr = f"{item.nodeid}: skipping is not allowed here: {_reason(report, call)}"
        report.outcome = "failed"
        vars(report).pop("wasxfail", None)  # an expected failure counts as a skip, and would not count as a failure
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module that skips itself."""
    report = yield
    if report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid}: skipping is not allowed here: {report.longrepr}"
    return report


def _reason(report: pytest.TestReport, call: pytest.CallInfo[None]) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    return str(getattr(report, "wasxfail", "") or (call.excinfo.value if call.excinfo else report.longrepr))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of the tests that is still there is a bug: it is named, ended, and the session fails."""
    deadline = time.monotonic() + FAREWELL_S
    while (left := _left_over()) and time.monotonic() < deadline:
        time.sleep(0.1)
    if not left:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    for pid, command in left.items():
        if reporter is not None:
            reporter.write_line(f"left over by the tests, now ended: pid {pid}: {command}", red=True)
        _kill(pid)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _left_over() -> dict[int, str]:
    """Pid → command of every other process that has this session's marker in its environment."""
    return {
        int(entry.name): command
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and int(entry.name) != os.getpid() and (command := _marked_command(entry))
    }


def _marked_command(process: Path) -> str | None:
    try:
        if MARKER.encode() not in (process / "environ").read_bytes().split(b"\0"):
            return None
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:  # it ended meanwhile, or belongs to another user and so was not started by us
        return None


def _kill(pid: int) -> None:
    """Ends the process behind `pid` unless it is no longer the marked one."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _marked_command(Path(f"/proc/{pid}")):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)
