"""The launcher with real processes, real fio, and every shell that is here."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.command import Command
from cluster.launcher import (
    HostLost,
    HostOutcome,
    InstanceOutcome,
    LaunchedInstance,
    LaunchEvent,
    LaunchFailed,
    LaunchResult,
    LaunchSpec,
    Limits,
    gate_command,
    launch,
)
from cluster.transports.base import Channel, HostUnreachable
from cluster.transports.fake import FakeChannel, FakeTransport
from cluster.transports.local import LocalTransport

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
DEAF = "trap '' TERM INT HUP; while :; do sleep 0.2; done"
LIMITS = Limits(connect_s=20, deadline_s=20, kill_grace_s=1)


@pytest.fixture(params=SHELLS)
def any_shell(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """`sh` is this shell, for the launcher as well as for the gate."""
    program = shutil.which(request.param)
    assert program is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(program)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return str(request.param)


@pytest.fixture
def transport() -> Iterator[LocalTransport]:
    local = LocalTransport("h1")
    yield local
    local.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "a work folder; $(id)" / "cbt-point 'x'"


def shell_instance(number: int, text: str, ready_marks: int = 0) -> LaunchedInstance:
    return LaunchedInstance(number, ("sh", "-c", text), ready_marks=ready_marks)


def fio_instance(directory: Path, number: int, runtime_s: float = 1, jobs: int = 1, *more: str) -> LaunchedInstance:
    """A fio that needs no storage, with the gate before its measurement."""
    return LaunchedInstance(
        number,
        (
            "fio",
            f"--exec_prerun={gate_command(str(directory), number)}",
            *("--name=null", "--ioengine=null", "--size=100T", "--rw=read", "--rate_iops=200", "--time_based"),
            *(
                "--log_unix_epoch=1",
                "--output-format=json",
                f"--output=json.{number}",
                f"--write_iops_log=log.{number}",
            ),
            *("--log_avg_msec=0", f"--runtime={runtime_s}", f"--numjobs={jobs}", *more),
        ),
        ready_marks=jobs,
    )


def run(
    transport: LocalTransport,
    directory: Path,
    *instances: LaunchedInstance,
    limits: Limits = LIMITS,
    on_event: Callable[[LaunchEvent], None] | None = None,
    cancelled: threading.Event | None = None,
) -> LaunchResult:
    spec = LaunchSpec(transport.host, str(directory), instances)
    return launch([spec], {transport.host: transport}, limits, on_event=on_event, cancelled=cancelled)


def outcome_of(result: LaunchResult) -> HostOutcome:
    [outcome] = result.hosts.values()
    assert isinstance(outcome, HostOutcome), outcome
    return outcome


def by_number(result: LaunchResult) -> dict[int, InstanceOutcome]:
    return {instance.number: instance for instance in outcome_of(result).instances}


def living_in(directory: Path) -> list[int]:
    """Every process that works in this folder: instances do, wherever their session and parents went."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if (process / "cwd").resolve() == directory and (process / "stat").read_text().rpartition(")")[2][
                    1
                ] != "Z":
                    found.append(int(process.name))
    return found


def fio_in(directory: Path) -> list[int]:
    return [pid for pid in living_in(directory) if Path(f"/proc/{pid}/exe").resolve().name == "fio"]


def wait_for(condition: Callable[[], bool], limit_s: float = 10) -> bool:
    until = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def session_of(pid: int) -> int:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid)
    return -1


def test_every_exit_status_is_told_apart(any_shell: str, transport: LocalTransport, directory: Path) -> None:
    """Success, failure, death by a signal, and a program that does not exist each have their own status."""
    assert any_shell
    texts = ("exit 0", "exit 3", "kill -9 $$", "kill -TERM $$", "kill -SEGV $$")
    instances = [shell_instance(n, text) for n, text in enumerate(texts)]
    result = run(transport, directory, *instances, LaunchedInstance(5, ("/no/such/program",)))
    ended = by_number(result)
    assert [ended[n].exit_status for n in range(6)] == [0, 3, 137, 143, 139, 127]
    assert {instance.ended_by for instance in ended.values()} == {"itself"}
    assert "/no/such/program" in (directory / "stderr.5").read_text()


def test_output_and_errors_are_kept_apart_per_instance(transport: LocalTransport, directory: Path) -> None:
    """What an instance prints is in output.N and stderr.N of the working folder, and it reads no input."""
    run(transport, directory, shell_instance(0, "pwd; cat; echo bad >&2"), shell_instance(11, "echo eleven"))
    assert (directory / "output.0").read_text() == f"{directory}\n"
    assert (directory / "stderr.0").read_text() == "bad\n"
    assert (directory / "output.11").read_text() == "eleven\n"
    assert directory.stat().st_mode & 0o777 == 0o700


def test_words_reach_the_instance_unchanged(any_shell: str, transport: LocalTransport, directory: Path) -> None:
    """Spaces, quotes, expansions, newlines, non-ASCII and undecodable bytes arrive as they are."""
    assert any_shell
    words = (
        "a b",
        "",
        "it's",
        '"',
        "$(touch pwned)",
        "`id`",
        ";",
        "a\nb\n\nc\n",
        "ünï ☃ ÁÂÃ",
        "\\n",
        "*",
        "\x81\x88",
        "\udcff\udc81",
        "\t x ",
    )
    show = (
        "import os, sys; sys.stdout.buffer.write(b'\\0'.join(os.fsencode(w) for w in [os.environ['V'], *sys.argv[1:]]))"
    )
    environment = (("V", "v w; $(id)\n'"),)
    result = run(
        transport, directory, LaunchedInstance(0, (sys.executable, "-X", "utf8", "-c", show, *words), environment)
    )
    assert by_number(result)[0].exit_status == 0
    seen = (directory / "output.0").read_bytes().decode(errors="surrogateescape").split("\0")
    assert tuple(seen) == (environment[0][1], *words)
    assert not (directory / "pwned").exists()


def test_times_and_groups_are_recorded(transport: LocalTransport, directory: Path) -> None:
    """Each instance has its own process group and a start and an end by the host's clock."""
    before = time.time()
    ended = by_number(run(transport, directory, *(shell_instance(n, "sleep 0.1") for n in range(3))))
    after = time.time()
    assert len({instance.pid for instance in ended.values()}) == 3
    for instance in ended.values():
        assert instance.started_s is not None
        assert instance.ended_s is not None
        assert before <= instance.started_s < instance.ended_s <= after


def test_a_hundred_instances_on_a_host(any_shell: str, transport: LocalTransport, directory: Path) -> None:
    """No instance is lost, however many start at once."""
    assert any_shell
    ended = by_number(run(transport, directory, *(LaunchedInstance(n, ("true",)) for n in range(100))))
    assert sorted(ended) == list(range(100))
    assert {instance.exit_status for instance in ended.values()} == {0}


def test_more_gate_readers_than_a_pipe_holds_lines(transport: LocalTransport, directory: Path) -> None:
    """The gate lets everyone through at once, also those that come to it late or several times."""
    gate = gate_command(str(directory), 0)
    late = shell_instance(0, f"for i in 1 2 3; do ({gate}) & done; wait; ({gate} >prerun.txt 2>&1) && echo through", 3)
    result = run(transport, directory, late)
    assert by_number(result)[0].exit_status == 0
    assert (directory / "output.0").read_text() == "through\n"


def test_the_gate_passes_where_no_launcher_is(tmp_path: Path) -> None:
    """A command line from an archive can be repeated by hand: its gate waits for no launcher."""
    text = gate_command(str(tmp_path / "gone"), 0)
    assert subprocess.run(("sh", "-c", text), timeout=5, capture_output=True, check=True).stdout == b""


def test_a_hung_instance_is_killed_at_the_deadline(any_shell: str, transport: LocalTransport, directory: Path) -> None:
    """What ignores SIGTERM is killed, with all its children, even those that left its session."""
    assert any_shell
    hung = shell_instance(1, f'setsid sh -c "{DEAF}" & {DEAF}')
    result = run(
        transport,
        directory,
        shell_instance(0, "exit 0"),
        hung,
        limits=Limits(connect_s=5, deadline_s=1, kill_grace_s=1),
    )
    ended = by_number(result)
    assert (ended[0].exit_status, ended[0].ended_by) == (0, "itself")
    assert (ended[1].exit_status, ended[1].ended_by) == (137, "deadline")
    assert outcome_of(result).deadline_passed
    assert outcome_of(result).swept >= 1
    assert living_in(directory) == []


def test_a_hung_fio_is_killed_with_its_jobs(transport: LocalTransport, directory: Path) -> None:
    """fio's jobs run in sessions of their own and survive their parent; none is left, however deaf."""
    jobs: list[int] = []

    def freeze(event: LaunchEvent) -> None:
        if event.kind == "opened":
            jobs.extend(pid for pid in fio_in(directory) if session_of(pid) == pid)
            for pid in fio_in(directory):
                os.kill(pid, signal.SIGSTOP)

    limits = Limits(connect_s=10, deadline_s=1, kill_grace_s=1)
    result = run(transport, directory, fio_instance(directory, 0, 60, 2), limits=limits, on_event=freeze)
    assert len(jobs) == 2
    assert (by_number(result)[0].exit_status, by_number(result)[0].ended_by) == (137, "deadline")
    assert living_in(directory) == []


def test_nothing_is_left_of_an_instance_whose_leader_was_killed(transport: LocalTransport, directory: Path) -> None:
    """When somebody kills fio's first process, the launch still ends only after its orphaned jobs are gone."""

    def kill_leader(event: LaunchEvent) -> None:
        if event.kind == "opened":
            for pid in fio_in(directory):
                if session_of(pid) != pid:
                    os.kill(pid, signal.SIGKILL)

    result = run(transport, directory, fio_instance(directory, 0, 60), on_event=kill_leader)
    assert by_number(result)[0].exit_status == 137
    assert by_number(result)[0].ended_by == "itself"
    assert outcome_of(result).swept >= 1
    assert living_in(directory) == []


def test_sixteen_fio_measure_together(any_shell: str, transport: LocalTransport, directory: Path) -> None:
    """All instances get to the gate, pass it together, and measure at the same time."""
    assert any_shell
    result = run(transport, directory, *(fio_instance(directory, n, 3) for n in range(16)))
    outcome = outcome_of(result)
    assert {instance.exit_status for instance in outcome.instances} == {0}
    assert outcome.opened_s is not None
    logged = [first_and_last_s(log) for log in directory.glob("log.*.log")]
    reported = []
    for document in directory.glob("json.*"):
        read = json.loads(document.read_text())
        end_s, runtime_s = read["timestamp_ms"] / 1000, read["jobs"][0]["read"]["runtime"] / 1000
        reported.append((end_s - runtime_s, end_s))
    assert len(logged) == len(reported) == 16
    for name, windows in (("first to last log entry", logged), ("timestamp_ms - runtime", reported)):
        starts, ends = [w[0] for w in windows], [w[1] for w in windows]
        overlap = (min(ends) - max(starts)) / max(end - start for start, end in windows)
        print(
            f"{name}: spread of starts {1000 * (max(starts) - min(starts)):.0f} ms, overlap {100 * overlap:.1f} %, "
            f"first start {1000 * (min(starts) - outcome.opened_s):+.0f} ms after the gate opened"
        )
        assert overlap > 0.5
    assert min(start for start, _ in logged) > outcome.opened_s - 0.1
    released = [instance.released_s for instance in outcome.instances if instance.released_s is not None]
    print(f"releases: spread {1000 * (max(released) - min(released)):.0f} ms")
    assert len(released) == 16
    assert outcome.opened_s - 0.1 < min(released) <= max(released) < outcome.opened_s + 3


def first_and_last_s(log: Path) -> tuple[float, float]:
    stamps = [int(line.split(",")[0]) / 1000 for line in log.read_text().splitlines()]
    return stamps[0], stamps[-1]


def test_the_gate_waits_for_every_job(transport: LocalTransport, directory: Path) -> None:
    """fio with several jobs is ready when each of them is: no gate opens before the last mark."""
    events: list[str] = []
    result = run(
        transport,
        directory,
        fio_instance(directory, 0, 1, 3),
        shell_instance(1, f"sleep 1; {gate_command(str(directory), 1)}", 1),
        on_event=lambda event: events.append(event.kind),
    )
    assert {instance.exit_status for instance in by_number(result).values()} == {0}
    assert events.count("ready") == 4
    assert events.index("opened") > max(i for i, kind in enumerate(events) if kind == "ready")


def test_an_instance_that_fails_at_once_holds_up_nobody(transport: LocalTransport, directory: Path) -> None:
    """An instance that ends before it was ready counts as arrived; the others measure."""
    broken = LaunchedInstance(1, ("fio", "--no-such-option"), ready_marks=1)
    ended = by_number(run(transport, directory, fio_instance(directory, 0), broken))
    assert (ended[0].exit_status, ended[1].exit_status) == (0, 1)
    assert ended[0].ready_s is not None
    assert ended[0].released_s is not None
    assert ended[1].ready_s is None
    assert ended[1].released_s is None


def test_who_does_not_connect_in_time_is_stopped_and_the_rest_measures(
    transport: LocalTransport, directory: Path
) -> None:
    """After the connect limit the unready instances are ended, and named, and the gate opens for the others."""
    limits = Limits(connect_s=1, deadline_s=10, kill_grace_s=1)
    result = run(transport, directory, fio_instance(directory, 0), shell_instance(1, DEAF, 1), limits=limits)
    ended = by_number(result)
    assert (ended[0].exit_status, ended[0].ended_by) == (0, "itself")
    assert (ended[1].exit_status, ended[1].ended_by) == (137, "connect limit")
    assert outcome_of(result).connect_limit_passed
    assert living_in(directory) == []


@pytest.mark.parametrize("moment", ["start", "ready", "opened"])
def test_a_cancelled_launch_ends_soon_and_whole(moment: str, transport: LocalTransport, directory: Path) -> None:
    """Cancelled at any moment, everything is stopped, what ended is told, and nothing is left."""
    cancelled = threading.Event()

    def cancel(event: LaunchEvent) -> None:
        if event.kind == moment:
            cancelled.set()

    began = time.monotonic()
    instances = (fio_instance(directory, 0, 60), shell_instance(1, f"{gate_command(str(directory), 1)}", 1))
    slow = shell_instance(2, f"sleep 0.5; ({gate_command(str(directory), 2)}); exec sleep 60", 1)
    result = run(transport, directory, *instances, slow, on_event=cancel, cancelled=cancelled)
    assert result.cancelled
    assert time.monotonic() - began < 15
    assert {instance.ended_by for instance in by_number(result).values()} <= {"stopped", "itself"}
    assert by_number(result)[0].ended_by == "stopped"
    assert living_in(directory) == []


def test_a_cancelled_launch_that_never_started_starts_nothing(transport: LocalTransport, directory: Path) -> None:
    """Cancelled before GO, no instance runs, and the result says so."""
    cancelled = threading.Event()
    cancelled.set()
    result = run(transport, directory, shell_instance(0, "touch ran"), cancelled=cancelled)
    assert result.cancelled
    assert isinstance(result.hosts["h1"], LaunchFailed)
    assert not directory.exists()


def test_an_error_of_the_caller_leaves_nothing_running(transport: LocalTransport, directory: Path) -> None:
    """An exception out of the callback ends the launch and everything that was started."""

    def fail(event: LaunchEvent) -> None:
        if event.kind == "start":
            raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        run(transport, directory, shell_instance(0, DEAF), on_event=fail)
    assert living_in(directory) == []


CONTROLLER = """
    import sys
    from cluster.launcher import *
    from cluster.transports.local import LocalTransport

    directory, program = sys.argv[1], sys.argv[2:]
    gate = gate_command(directory, 1)
    fio = ("fio", "--name=n", "--ioengine=null", "--size=100T", "--rate_iops=100", "--time_based", "--runtime=99",
           f"--exec_prerun={gate}", "--numjobs=2")
    spec = LaunchSpec("h", directory, (LaunchedInstance(0, tuple(program)), LaunchedInstance(1, fio, ready_marks=2)))
    launch([spec], {"h": LocalTransport("h")}, Limits(60, 60), on_event=lambda e: print(e.kind, flush=True))
"""


@pytest.mark.parametrize("moment", ["start", "ready", "opened"])
def test_nothing_survives_a_controller_that_was_killed(any_shell: str, moment: str, directory: Path) -> None:
    """kill -9 of the controller, at any moment: five seconds later no process of the launch is there."""
    assert any_shell
    words = (
        sys.executable,
        "-c",
        textwrap.dedent(CONTROLLER),
        str(directory),
        "sh",
        "-c",
        f'setsid sh -c "{DEAF}" & {DEAF}',
    )
    controller = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert controller.stdout is not None
    with controller.stdout:
        assert any(line.strip() == moment for line in controller.stdout)
        assert living_in(directory)
        controller.kill()
        controller.wait()
        assert wait_for(lambda: living_in(directory) == [], 5)


def launcher_of(directory: Path) -> int:
    """The pid of the launcher's own shell: of all in the folder, the one whose parent is this process."""
    [pid] = (pid for pid in living_in(directory) if parent_of(pid) == os.getpid())
    return pid


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return -1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_launcher_that_is_signalled_still_cleans_up(
    any_shell: str, number: signal.Signals, transport: LocalTransport, directory: Path
) -> None:
    """Whatever ends the launcher, its instances end too, and the host counts as lost with what is known of it."""
    assert any_shell

    def hit(event: LaunchEvent) -> None:
        if event.kind == "opened":
            os.kill(launcher_of(directory), number)

    result = run(transport, directory, fio_instance(directory, 0, 60), shell_instance(1, DEAF), on_event=hit)
    lost = result.hosts["h1"]
    assert isinstance(lost, HostLost)
    assert [instance.ended_by for instance in lost.outcome.instances] == ["stopped", "stopped"]
    assert wait_for(lambda: living_in(directory) == [], 5)


def test_a_signal_to_the_whole_session_still_cleans_up(
    any_shell: str, transport: LocalTransport, directory: Path
) -> None:
    """A SIGTERM to the launcher and all its helpers at once (a session that is being closed) leaves nothing either."""
    assert any_shell

    def hit(event: LaunchEvent) -> None:
        if event.kind == "opened":
            os.killpg(launcher_of(directory), signal.SIGTERM)

    result = run(transport, directory, fio_instance(directory, 0, 60), shell_instance(1, DEAF), on_event=hit)
    assert isinstance(result.hosts["h1"], HostLost)
    assert living_in(directory) == []


def test_without_grep_nothing_survives_either(
    transport: LocalTransport, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a host without grep the processes that left their session are found all the same."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in (
        "sh",
        "cat",
        "date",
        "head",
        "mkdir",
        "mkfifo",
        "mv",
        "sleep",
        "stat",
        "timeout",
        "tr",
        "true",
        "setsid",
    ):
        program = shutil.which(tool)
        assert program is not None
        (tools / tool).symlink_to(program)
    monkeypatch.setenv("PATH", str(tools))
    hung = shell_instance(0, f'setsid sh -c "{DEAF}" & {DEAF}')
    result = run(transport, directory, hung, limits=Limits(connect_s=5, deadline_s=0.5, kill_grace_s=1))
    assert by_number(result)[0].ended_by == "deadline"
    assert outcome_of(result).swept >= 1
    assert living_in(directory) == []


def test_a_working_folder_that_exists_is_refused(transport: LocalTransport, directory: Path) -> None:
    """The launcher never works in a folder that somebody else may own; nothing starts."""
    directory.mkdir(parents=True)
    refused = run(transport, directory, shell_instance(0, "touch ran")).hosts["h1"]
    assert isinstance(refused, LaunchFailed)
    assert "File exists" in str(refused)
    assert list(directory.iterdir()) == []


def test_a_host_without_coreutils_is_told_what_to_install(
    transport: LocalTransport, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing program on the host is one clear line."""
    sh = shutil.which("sh")
    assert sh is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(sh)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    refused = run(transport, directory, shell_instance(0, "exit 0")).hosts["h1"]
    assert isinstance(refused, LaunchFailed)
    assert str(refused) == "h1: the program 'cat' is missing; install coreutils"


def test_several_hosts_open_their_gates_together(tmp_path: Path) -> None:
    """No host's gate opens before every host's instances are ready."""
    transports = {name: LocalTransport(name) for name in ("h1", "h2", "h3")}
    folders = {name: tmp_path / f"cbt-{name}" for name in transports}
    order: list[tuple[str, str]] = []
    specs = [
        LaunchSpec(
            name,
            str(folders[name]),
            (
                shell_instance(0, f"sleep {delay}; {gate_command(str(folders[name]), 0)}", 1),
                fio_instance(folders[name], 1),
            ),
        )
        for name, delay in (("h1", 0), ("h2", 0.7), ("h3", 0.2))
    ]
    result = launch(specs, transports, LIMITS, on_event=lambda event: order.append((event.kind, event.host)))
    assert not result.failures
    kinds = [kind for kind, _ in order]
    assert kinds.count("ready") == 6
    assert kinds.index("opened") > max(i for i, kind in enumerate(kinds) if kind == "ready")
    for transport in transports.values():
        transport.close()


def test_a_host_that_cannot_get_ready_keeps_the_others_from_starting(transport: LocalTransport, tmp_path: Path) -> None:
    """A point that cannot run whole does not run: each host says why."""
    gone = FakeTransport("h2")
    gone.unreachable = "connection refused"
    specs = [
        LaunchSpec(host, str(tmp_path / f"cbt-{host}"), (shell_instance(0, "touch ran"),)) for host in ("h1", "h2")
    ]
    result = launch(specs, {"h1": transport, "h2": gone}, LIMITS)
    assert str(result.hosts["h2"]) == "h2: connection refused"
    assert isinstance(result.hosts["h2"], HostUnreachable)
    assert str(result.hosts["h1"]) == "h1: not started, because h2 failed"
    assert not (tmp_path / "cbt-h1" / "ran").exists()


class DropsOrders:
    """A channel on which some orders get lost."""

    def __init__(self, channel: Channel, lost: tuple[str, ...]) -> None:
        self._channel = channel
        self._lost = lost
        self.close_input = channel.close_input
        self.lines = channel.lines
        self.wait = channel.wait
        self.stderr_text = channel.stderr_text

    def send(self, text: str) -> None:
        if not text.startswith(self._lost):
            self._channel.send(text)


class DropsOpen(LocalTransport):
    """The local host, reached over a line that loses what opens the gate."""

    def start(self, command: Command) -> Channel:
        return DropsOrders(super().start(command), ("open",))


def test_nothing_waits_for_ever_at_a_gate_that_nobody_opens(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """A controller that neither opens the gate nor goes away is given up after a time, and everything is ended."""
    monkeypatch.setattr("cluster.launcher.ABANDON_S", 1)
    transport = DropsOpen("h1")
    limits = Limits(connect_s=1, deadline_s=30, kill_grace_s=1)
    result = run(transport, directory, fio_instance(directory, 0), limits=limits)
    assert by_number(result)[0].ended_by == "stopped"
    assert by_number(result)[0].released_s is None
    assert living_in(directory) == []
    transport.close()


def test_a_launcher_that_falls_silent_does_not_hold_up_the_run(
    monkeypatch: pytest.MonkeyPatch, transport: LocalTransport, tmp_path: Path
) -> None:
    """A host that says nothing any more is lost after the time its launcher had; the other hosts' results stand."""
    monkeypatch.setattr("cluster.launcher.SILENCE_S", 0.2)

    def reply(text: str) -> tuple[str, ...]:
        if text.endswith("end\n"):
            return (f"hello {time.time()}", "prepared")
        return (f"going {time.time()}", f"start 0 4242 {time.time()}") if text == "go\n" else ()

    silent = FakeTransport("h2", channels=[FakeChannel(reply)])
    specs = [LaunchSpec(host, str(tmp_path / f"cbt-{host}"), (shell_instance(0, "exit 0"),)) for host in ("h1", "h2")]
    limits = Limits(connect_s=1, deadline_s=0.3, kill_grace_s=0.5)
    result = launch(specs, {"h1": transport, "h2": silent}, limits)
    lost = result.hosts["h2"]
    assert isinstance(lost, HostLost)
    assert str(lost) == "h2: the launcher fell silent"
    assert lost.outcome.instances[0].ended_by == "lost"
    assert isinstance(result.hosts["h1"], HostOutcome)
