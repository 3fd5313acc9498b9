#!/usr/bin/env python3
"""Runs the benchmarks of a test plan against a Ceph cluster and archives what came out.

The parts are put together here: plan → points → session (hosts, cluster, run) → archive → table. See
docs/architecture.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.version import VERSION
from tools._launch import missing_packages_line, plain_output, put, restart_in_project_environment

if TYPE_CHECKING:
    import threading

    from archive.writer import ArchiveWriter
    from orchestrator.model import RunPoint, TestPlan
    from orchestrator.progress import Progress
    from orchestrator.session import Session

EXIT_COMPLETE = 0
EXIT_NOT_WHOLE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Exit status: 0 all points complete, 1 something failed or is partial, 2 plan, archive or usage
    wrong, 130 interrupted."""
    plain_output()
    arguments = _parser().parse_args(argv)
    if (line := missing_packages_line("cbt.py")) is not None:
        if argv is None:
            restart_in_project_environment()
        put(line, sys.stderr)
        return EXIT_USAGE
    try:
        return _carry_out(arguments)
    except KeyboardInterrupt:
        put("cbt.py: interrupted", sys.stderr)
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cbt.py",
        description="Runs the benchmarks of a test plan against a Ceph cluster and archives what came out. "
        "The same command given again goes on with the points that are missing or failed.",
        epilog="Exit status: 0 all points complete, 1 something failed or is partial, 2 plan, archive or usage wrong, "
        "130 interrupted.",
    )
    parser.add_argument("plan", type=Path, metavar="test.yaml", help="the test plan (docs/plan.md)")
    parser.add_argument("-a", "--archive", type=Path, help="folder for the results: new, empty, or of the same plan")
    parser.add_argument("-c", "--conf", type=Path, help="the cluster's ceph.conf (default: the plan's conf_file)")
    parser.add_argument("--dry-run", "--dry_run", action="store_true", help="say what would run, touching nothing")
    parser.add_argument("--check", action="store_true", help="say everything that would stop the run, and stop")
    parser.add_argument(
        "--keep-cluster", "--keep_cluster", action="store_true", help="leave the throwaway cluster running at the end"
    )
    parser.add_argument(
        "--keep-volumes", "--keep_volumes", action="store_true", help="leave the pools and images this run made"
    )
    parser.add_argument(
        "--cleanup", action="store_true", help="remove the pools and images earlier calls left behind, and stop"
    )
    parser.add_argument(
        "--allow-unhealthy", "--allow_unhealthy", action="store_true", help="run although the cluster is in HEALTH_ERR"
    )
    parser.add_argument(
        "--accept-new-host-keys",
        "--accept_new_host_keys",
        action="store_true",
        help="trust hosts whose SSH key is not known yet, and remember it; a changed key is refused all the same",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    return parser


def _carry_out(arguments: argparse.Namespace) -> int:
    from orchestrator.plan import PlanErrors, read_plan
    from orchestrator.points import PointClash, lay_out
    from orchestrator.session import Choices, Session
    from orchestrator.stopping import stopping_signals

    try:
        plan = read_plan(arguments.plan)
        points = lay_out(plan)
    except (PlanErrors, PointClash) as error:
        put(error, sys.stderr)
        return EXIT_USAGE
    if (line := _usage_problem(arguments, plan)) is not None:
        put(f"cbt.py: {line}", sys.stderr)
        return EXIT_USAGE
    with _progress() as progress, stopping_signals(progress.say) as cancelled:
        choices = Choices(
            conf=arguments.conf,
            keep_cluster=arguments.keep_cluster,
            keep_volumes=arguments.keep_volumes,
            allow_unhealthy=arguments.allow_unhealthy,
            accept_new_host_keys=arguments.accept_new_host_keys,
        )
        session = Session(plan, points, choices, progress, cancelled)
        if arguments.dry_run:
            return _dry_run(session, _archive_path(arguments, plan))
        if arguments.check:
            return _check(session)
        return _run(session, arguments, cancelled)


def _progress() -> Progress:
    from orchestrator.progress import Progress

    return Progress(sys.stderr)


def _archive_path(arguments: argparse.Namespace, plan: TestPlan) -> Path | None:
    """-a, else the plan's archive_dir."""
    if arguments.archive is not None:
        return Path(arguments.archive)
    named = plan.cluster.settings.optional_text("archive_dir")
    return Path(named) if named else None


def _usage_problem(arguments: argparse.Namespace, plan: TestPlan) -> str | None:
    if not (arguments.dry_run or arguments.check) and _archive_path(arguments, plan) is None:
        return "where shall the results go? Give a folder with -a"
    conf = arguments.conf
    here = any(host.is_local() for host in plan.cluster.clients)
    if conf is not None and here and plan.cluster.settings.flag("use_existing") and not conf.is_file():
        return f"{conf}: there is no such ceph.conf; check the path given with -c"
    if arguments.keep_cluster and plan.cluster.settings.flag("use_existing"):
        return "--keep-cluster is for a throwaway cluster, but the plan uses an existing one (use_existing)"
    return None


def _dry_run(session: Session, archive: Path | None) -> int:
    from orchestrator.explain import explain

    conf = str(session.conf) if session.use_existing else "<throwaway cluster>/ceph.conf"
    for line in explain(
        session.plan,
        session.points,
        session.benchmarks,
        session.runnable,
        session.clients,
        session.working_directory(archive),
        conf,
    ):
        if (error := put(line, sys.stdout)) is not None:
            return _unwritten(error)
    return EXIT_COMPLETE


def _unwritten(error: OSError) -> int:
    """Standard output cannot be written. A reader that has seen enough (`| head`) is nothing to complain about."""
    if isinstance(error, BrokenPipeError):
        return EXIT_COMPLETE
    put(f"cbt.py: standard output: {error.strerror}", sys.stderr)
    return EXIT_NOT_WHOLE


def _check(session: Session) -> int:
    findings = session.check()
    for finding in findings:
        put(finding, sys.stdout)
    problems = sum(not finding.warning for finding in findings)
    if problems:
        put(f"{problems} problem{'s' if problems > 1 else ''} would stop this run", sys.stdout)
        return EXIT_NOT_WHOLE
    put(f"nothing would stop this run of {len(session.points)} points", sys.stdout)
    return EXIT_COMPLETE


def _run(session: Session, arguments: argparse.Namespace, cancelled: threading.Event) -> int:
    from archive.files import ArchiveError, ArchiveFull
    from archive.writer import ArchiveWriter
    from cluster.ceph import CephError
    from cluster.deploy import DeployError
    from cluster.transports.base import CommandFailed, HostUnreachable
    from orchestrator.runner import ClusterGone, HostGone, Interrupted
    from orchestrator.session import PreflightFailed
    from orchestrator.storage import StorageError

    root = _archive_path(arguments, session.plan)
    if root is None:
        raise TypeError("the archive's path was checked before")
    say = session.progress.say
    try:
        opened = ArchiveWriter.open(root, plan_text=session.plan.shown_text, plan_digest=session.plan.digest)
    except ArchiveError as error:
        say(f"cbt.py: {error}")
        return EXIT_NOT_WHOLE if isinstance(error, ArchiveFull) else EXIT_USAGE
    try:
        with opened as archive:
            session.archive = archive
            archive.log.note(f"begin: cbt.py {VERSION}, plan {session.plan.source}")
            if arguments.cleanup:
                session.clean_up()
                return EXIT_COMPLETE
            if _all_there(archive, session.points):
                say(f"{root}: all {len(session.points)} points are complete already; nothing is run again")
                _print_table(root)
                _make_report(session, root)
                return EXIT_COMPLETE
            counts = session.run()
            archive.log.note(f"end: {counts.complete} complete, {counts.partial} partial, {counts.failed} failed")
        session.progress.close()
        _print_table(root)
        _make_report(session, root)
        return EXIT_COMPLETE if counts.whole else EXIT_NOT_WHOLE
    except PreflightFailed as error:
        for finding in error.findings:
            say(str(finding))
        say(f"cbt.py: {error} would stop this run; nothing was started")
    except Interrupted:
        say(f"cbt.py: interrupted; what finished is safe in {root}, and the same command goes on from there")
        return EXIT_INTERRUPTED
    except (
        ArchiveError,
        CephError,
        ClusterGone,
        CommandFailed,
        DeployError,
        HostGone,
        HostUnreachable,
        StorageError,
    ) as error:
        say(f"cbt.py: {error}")
    return EXIT_INTERRUPTED if cancelled.is_set() else EXIT_NOT_WHOLE


def _all_there(archive: ArchiveWriter, points: Sequence[RunPoint]) -> bool:
    """Whether nothing is left to run; says so when something is there already."""
    from orchestrator.runner import is_complete

    done = sum(is_complete(archive, point) for point in points)
    if 0 < done < len(points):
        put(f"{archive.root}: {done} of {len(points)} points are complete; going on with the others", sys.stderr)
    return done == len(points)


def _make_report(session: Session, root: Path) -> None:
    """The report beside the archive, where the plan asks for it (create_report)."""
    if any(point.settings.get("create_report") for point in session.points):
        from tools.generate_performance_report import main as make_report

        make_report(["--archive", str(root)])


def _print_table(root: Path) -> None:
    from orchestrator.progress import table
    from post_processing.load import NotAnArchive, load_archive
    from post_processing.summary import HEADER, doubtful_peaks_line, summary_rows

    try:
        loaded = load_archive(root)
    except NotAnArchive as error:
        put(f"cbt.py: {error}", sys.stderr)
        return
    put("\n" + table(list(summary_rows(loaded)), HEADER), sys.stdout)
    if (line := doubtful_peaks_line(loaded)) is not None:
        put(line, sys.stdout)
    for problem in loaded.problems:
        put(f"problem: {problem}", sys.stdout)
    put(f"\nresults: {root}", sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
