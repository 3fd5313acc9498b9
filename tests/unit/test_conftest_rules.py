"""The rules of tests/conftest.py hold, seen from outside in a session of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"


def run_session(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest on `source` under our conftest."""
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "test_inner.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "source",
    [
        "import pytest\n@pytest.mark.skip(reason='no such tool')\ndef test_a(): pass\n",
        "import pytest\ndef test_a(): pytest.skip('no such tool')\n",
        "import pytest\npytest.skip('no such tool', allow_module_level=True)\n",
        "import pytest\n@pytest.mark.xfail(reason='no such tool')\ndef test_a(): assert False\n",
    ],
    ids=["mark", "call", "module", "xfail"],
)
def test_a_skipped_test_fails_with_its_reason(tmp_path: Path, source: str) -> None:
    """A missing tool can never turn into a green run."""
    result = run_session(tmp_path, source)
    assert result.returncode != 0
    assert "skipping is not allowed here" in result.stdout
    assert "no such tool" in result.stdout


def test_a_process_left_behind_fails_the_session_and_is_ended(tmp_path: Path) -> None:
    """A daemon that a test started and forgot is named, and does not survive."""
    source = (
        "import subprocess\n"
        "def test_a():\n"
        "    child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        f"    open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "    child.returncode = 0\n"
    )
    result = run_session(tmp_path, source)
    pid = int((tmp_path / "pid").read_text())
    assert result.returncode == 1
    assert f"pid {pid}: sleep 300" in result.stdout
    deadline = time.monotonic() + 5
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except (ProcessLookupError, FileNotFoundError):
        return False
