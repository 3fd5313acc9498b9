"""What setup.py installs is what the tree holds."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_INSTALLED = {"tests", "bench", "demo", "build", "dist"}
NEVER_IMPORTED = {"pip", "setuptools"}


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What setup.py passes to setup()."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", seen.update)
    source = ROOT / "setup.py"
    exec(compile(source.read_text(), source, "exec"), {"__file__": str(source)})  # noqa: S102 - our own setup.py
    return seen


def source_files(*patterns: str) -> Iterator[Path]:
    """Files of the project's own folders, relative to its root."""
    for folder in sorted(path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")):
        if folder.name not in NOT_INSTALLED and not folder.name.endswith(".egg-info"):
            for pattern in patterns:
                yield from (path.relative_to(ROOT) for path in sorted(folder.rglob(pattern)))


def test_every_package_is_installed(arguments: dict[str, Any]) -> None:
    """A folder with Python files that setup.py does not list would be missing after installation."""
    on_disk = {".".join(path.parent.parts) for path in source_files("*.py")}
    assert on_disk == set(arguments["packages"])


def test_shell_scripts_are_installed_with_their_package(arguments: dict[str, Any]) -> None:
    """The launcher is a shell script that the program reads from its own package."""
    packages = {path.parts[0] for path in source_files("*.sh")} - {"make"}
    assert packages == {package for package, patterns in arguments["package_data"].items() if "*.sh" in patterns}


def test_dependencies_are_those_that_are_imported(arguments: dict[str, Any]) -> None:
    """Each installed package is imported somewhere, each imported one is installed, all with a lower bound."""
    requirements = arguments["install_requires"]
    assert all(">=" in requirement for requirement in requirements + arguments["extras_require"]["dev"])
    distributions = packages_distributions()
    ours = {path.name for path in ROOT.iterdir()} | {"cbt"}
    imported = {
        name
        for path in [Path("cbt.py"), *source_files("*.py")]
        for name in _imports(ROOT / path)
        if name not in sys.stdlib_module_names and name not in ours
    }
    wanted = {distribution.lower() for name in imported for distribution in distributions.get(name, [name])}
    assert wanted - NEVER_IMPORTED == {re.split("[><=]", requirement)[0].lower() for requirement in requirements}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_console_scripts_start_from_any_folder(arguments: dict[str, Any], tmp_path: Path) -> None:
    """After make setup each command answers --help wherever the user stands."""
    for script in arguments["entry_points"]["console_scripts"]:
        command = Path(sys.executable).with_name(script.partition(" = ")[0])
        result = subprocess.run([command, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        assert "usage" in result.stdout.lower()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", ["cbt.py", "tools/generate_performance_report.py"])
def test_commands_start_as_files_from_any_folder(script: str, tmp_path: Path) -> None:
    """`python path/to/x.py` and `path/to/x.py` work without installation, from any folder."""
    for command in ([sys.executable, str(ROOT / script)], [str(ROOT / script)]):
        environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
        result = subprocess.run(
            [*command, "--help"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        assert "usage" in result.stdout.lower()


@pytest.mark.parametrize(
    "command",
    [["cbt.py", "--archive", "results", "plan.yaml"], ["tools/generate_performance_report.py", "--archive", "results"]],
    ids=["cbt", "report"],
)
def test_a_python_without_the_dependencies_gets_one_clear_line(command: list[str], tmp_path: Path) -> None:
    """A newcomer who forgot the set-up is told what to do, without a traceback."""
    bare = [sys.executable, "-E", "-s", "-S", str(ROOT / command[0]), *command[1:]]
    result = subprocess.run(bare, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "make setup" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
