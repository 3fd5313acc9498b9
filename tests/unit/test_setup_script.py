"""make/setup.sh, run with stand-ins for apt-get, pip and the Ceph programs, since the real ones change the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT_TOOLS = [
    "sh",
    "env",
    "cat",
    "cksum",
    "sort",
    "tr",
    "grep",
    "head",
    "id",
    "dirname",
    "cut",
    "rm",
    "mkdir",
    "cp",
    "chmod",
    "tee",
    "flock",
    "true",
    "printf",
    "touch",
    "ln",
    "basename",
]
SCRIPT = (ROOT / "make" / "setup.sh").read_text()
PROGRAMS = [line.split()[0] for line in SCRIPT.partition("needed_programs='")[2].partition("'")[0].split("\n") if line]

FAKE_PYTHON = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
case "$*" in
  "-m venv "*)
    mkdir -p .venv/bin
    cp "$0" .venv/bin/python
    printf '#!%s/.venv/bin/python\\n' "$PWD" > .venv/bin/pip ;;
  "-m pip install "*) exit "${PIP_STATUS:-0}" ;;
  "-m pip --version") exit 0 ;;
  "-m pip"*) exit 1 ;;
  *ensurepip*) [ ! -e "$STATE/no-ensurepip" ] ;;
  *version_info*) exec "$REAL_PYTHON" "$@" ;;
  --version) echo Python 3.11 ;;
esac
"""

FAKE_APT_GET = """#!/bin/sh
echo "apt-get $*" >> "$CALLS"
case "$*" in
  *update*) rm -f "$STATE/stale"; exit 0 ;;
esac
[ ! -e "$STATE/stale" ] || exit 100
for word in "$@"; do
  case "$word" in
    fio) cp "$STATE/fio" "$BIN/fio" ;;
    python3*-venv) rm -f "$STATE/no-ensurepip" ;;
  esac
done
"""

# Passes apt-get on; what would change the machine (the policy file) is only noted.
FAKE_SUDO = """#!/bin/sh
[ -e "$STATE/may-sudo" ] || exit 1
shift
echo "sudo $*" >> "$CALLS"
case "$*" in
  *apt-get*) exec "$@" ;;
  *tee*) cat > /dev/null ;;
esac
"""


class Machine:
    """A folder with a copy of the set-up, and a PATH on which everything is a stand-in."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.bin, self.state = folder / "tree", folder / "bin", folder / "state"
        self.calls_file = folder / "calls"
        for made in (self.tree / "make", self.tree / "orchestrator", self.bin, self.state):
            made.mkdir(parents=True)
        for name in ("make/setup.sh", "setup.py", "pyproject.toml", "orchestrator/version.py"):
            shutil.copy(ROOT / name, self.tree / name)
        for name in TEXT_TOOLS:
            if (found := shutil.which(name)) is not None:
                (self.bin / name).symlink_to(found)
        for name in PROGRAMS:
            self.install(name, "#!/bin/sh\necho rbd\n")
        self.install("python3", FAKE_PYTHON)
        self.install("sudo", FAKE_SUDO)
        self.install("id", "#!/bin/sh\necho 1000\n")  # never root, so that nothing of the machine can be changed
        shutil.copy(self.bin / "fio", self.state / "fio")

    def install(self, name: str, script: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(script)
        path.chmod(0o755)

    def offer_apt(self) -> None:
        """apt-get is there and may be used."""
        self.install("apt-get", FAKE_APT_GET)
        self.install("apt-cache", '#!/bin/sh\n[ ! -e "$STATE/no-lists" ]\n')
        (self.state / "may-sudo").touch()

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        self.calls_file.write_text("")
        return subprocess.run(
            [self.tree / "make" / "setup.sh"],
            env={
                "PATH": str(self.bin),
                "CALLS": str(self.calls_file),
                "STATE": str(self.state),
                "BIN": str(self.bin),
                "REAL_PYTHON": sys.executable,
                **environment,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self, words: str) -> list[str]:
        """What was called with these words in its command line."""
        return [line for line in self.calls_file.read_text().splitlines() if words in line]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_second_call_installs_nothing(machine: Machine) -> None:
    """Once everything is there, neither pip nor apt-get is called."""
    machine.offer_apt()
    first = machine.run()
    assert first.returncode == 0, first.stderr
    assert len(machine.calls("-m pip install")) == 1
    second = machine.run()
    assert second.returncode == 0
    assert machine.calls("pip") == machine.calls("apt-get") == machine.calls("sudo") == []


def test_a_changed_requirement_is_installed_into_the_same_environment(machine: Machine) -> None:
    """After an update of the tree the next make catches up, without making .venv anew."""
    assert machine.run().returncode == 0
    with (machine.tree / "setup.py").open("a") as setup:
        setup.write("# changed\n")
    assert machine.run().returncode == 0
    assert len(machine.calls("-m pip install")) == 1
    assert machine.calls("-m venv") == []


def test_missing_programs_without_rights_are_named_and_nothing_is_made(machine: Machine) -> None:
    """A user who cannot install packages is told which, for both families of distributions."""
    (machine.bin / "fio").unlink()
    (machine.bin / "ceph-osd").unlink()
    result = machine.run()
    assert result.returncode != 0
    assert "apt-get install ceph-osd fio" in result.stderr
    assert "dnf install ceph-osd fio" in result.stderr
    assert not (machine.tree / ".venv").exists()


def test_missing_programs_are_installed_and_no_service_is_started(machine: Machine) -> None:
    """Only what is missing is installed, without questions, and while starting services is forbidden."""
    machine.offer_apt()
    (machine.bin / "fio").unlink()
    result = machine.run()
    assert result.returncode == 0, result.stderr
    (install,) = machine.calls("sudo env DEBIAN_FRONTEND=noninteractive apt-get")
    assert install.endswith("install --no-install-recommends fio")
    assert machine.calls("update") == []
    if not Path("/usr/sbin/policy-rc.d").exists():
        calls = machine.calls_file.read_text()
        assert calls.index("tee /usr/sbin/policy-rc.d") < calls.index("apt-get")


@pytest.mark.parametrize("trouble", ["stale", "no-lists"])
def test_package_lists_are_renewed_only_when_they_do_not_do(machine: Machine, trouble: str) -> None:
    """A fresh container has no lists, an old one names files that are gone: one update, one more try."""
    machine.offer_apt()
    (machine.state / trouble).touch()
    (machine.bin / "fio").unlink()
    result = machine.run()
    assert result.returncode == 0, result.stdout + result.stderr
    assert len([call for call in machine.calls("apt-get") if call.endswith("update") and "sudo" not in call]) == 1


def test_a_distribution_python_without_venv_gets_its_package(machine: Machine) -> None:
    """Debian's python3 has no ensurepip until python3.X-venv is installed."""
    machine.offer_apt()
    (machine.state / "no-ensurepip").touch()
    result = machine.run()
    assert result.returncode == 0, result.stderr
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert machine.calls(f"install --no-install-recommends python{version}-venv")


def test_without_venv_module_and_rights_the_message_names_the_package(machine: Machine) -> None:
    """Where nothing can be installed, the one line says what would help."""
    (machine.state / "no-ensurepip").touch()
    result = machine.run()
    assert result.returncode != 0
    assert "-venv (Debian)" in result.stderr.splitlines()[-1]
    (machine.state / "no-ensurepip").unlink()
    assert machine.run().returncode == 0, "the half-made .venv of the failed try must not stand in the way"


def _empty_folder(machine: Machine) -> None:
    (machine.tree / ".venv").mkdir()


def _killed_set_up(machine: Machine) -> None:
    assert machine.run().returncode == 0
    (machine.tree / ".venv" / ".setup-unfinished").touch()


def _moved_here(machine: Machine) -> None:
    assert machine.run().returncode == 0
    moved = machine.tree.with_name("moved")
    machine.tree.rename(moved)
    machine.tree = moved


def _python_gone(machine: Machine) -> None:
    assert machine.run().returncode == 0
    (machine.tree / ".venv" / "bin" / "python").unlink()


@pytest.mark.parametrize("spoil", [_empty_folder, _killed_set_up, _moved_here, _python_gone])
def test_an_environment_that_is_not_whole_is_made_anew(machine: Machine, spoil: Callable[[Machine], None]) -> None:
    """Interrupted, moved or broken: the next call mends it without being asked."""
    spoil(machine)
    result = machine.run()
    assert result.returncode == 0, result.stderr
    assert len(machine.calls("-m venv")) == 1
    assert len(machine.calls("-m pip install")) == 1


def test_a_failing_pip_stops_the_set_up_and_is_tried_again(machine: Machine) -> None:
    """No stamp stands after a failure; the next call installs again, in the same environment."""
    result = machine.run(PIP_STATUS="1")
    assert result.returncode != 0
    assert "pip could not install" in result.stderr
    assert machine.run().returncode == 0
    assert len(machine.calls("-m pip install")) == 1
    assert machine.calls("-m venv") == []


def test_an_old_python_is_passed_over(machine: Machine) -> None:
    """The first Python that is new enough is taken, and none at all is said in one line."""
    machine.install("python3", "#!/bin/sh\nexit 1\n")
    result = machine.run()
    assert result.returncode != 0
    assert "no Python 3.11 or newer" in result.stderr
    machine.install("python3.12", FAKE_PYTHON)
    assert machine.run().returncode == 0
    assert machine.calls("python3.12 -m venv")


def test_a_python_asked_for_by_name_is_not_replaced_by_another(machine: Machine) -> None:
    """PYTHON= names the Python to use; an unfit one is an error, never passed over in silence."""
    machine.install("python2.7", "#!/bin/sh\nexit 1\n")
    result = machine.run(PYTHON="python2.7")
    assert result.returncode != 0
    assert "PYTHON=python2.7" in result.stderr


def test_the_script_reads_as_posix_shell() -> None:
    """Debian's sh is dash: no bash-only words."""
    for script in sorted((ROOT / "make").glob("*.sh")):
        result = subprocess.run(["sh", "-n", script], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        assert os.access(script, os.X_OK)
