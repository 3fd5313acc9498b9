"""The directions between the packages (docs/architecture.md)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the contracts of pyproject.toml over the packages in `folder`."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_packages_import_in_the_allowed_directions_only() -> None:
    """No package imports one that stands above it."""
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_package_is_under_contract() -> None:
    """A package on disk that the contracts do not name would escape them."""
    on_disk = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}
    assert on_disk == set(CONFIG["root_packages"])


@pytest.mark.parametrize(
    ("package", "statement"),
    [
        ("benchmarks", "import cluster.command"),
        ("benchmarks", "import subprocess"),
        ("cluster", "import orchestrator.model"),
        ("cluster", "import archive.manifest"),
        ("archive", "import cluster.command"),
        ("orchestrator", "import post_processing"),
        ("orchestrator", "import paramiko"),
        ("post_processing", "import cluster.command"),
        ("post_processing", "import paramiko"),
        ("post_processing", "import tools"),
        ("tools", "import orchestrator.model"),
    ],
)
def test_a_wrong_direction_is_found(tmp_path: Path, package: str, statement: str) -> None:
    """The contracts are not vacuous: a planted import of each forbidden kind breaks one."""
    for name in CONFIG["root_packages"]:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / package / "planted.py").write_text(f"{statement}\n")
    result = lint_imports(tmp_path)
    assert result.returncode == 1
    assert f"{package}.planted -> {statement.split()[1].partition('.')[0]}" in result.stdout
