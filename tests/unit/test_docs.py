"""What a user reads agrees with what the program says and with what is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = ("archive", "benchmarks", "cluster", "make", "orchestrator", "post_processing", "tools")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """A link to a file of the project names a file that is there."""
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def quoted_messages() -> list[str]:
    """The messages in the first column of the tables of the troubleshooting page."""
    rows = re.findall(r"^\| (.*?) \|", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row)]


@cache
def _said() -> tuple[str, ...]:
    """Every text in the code; what is filled in at run time reads `…`."""
    sources = [ROOT / "cbt.py", *(path for name in CODE for path in sorted((ROOT / name).rglob("*.py")))]
    scripts = [path.read_text() for name in CODE for path in sorted((ROOT / name).rglob("*.sh"))]
    return (*(text for path in sources for text in _texts(ast.parse(path.read_text()))), *scripts)


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


@pytest.mark.parametrize("message", quoted_messages())
def test_every_message_of_the_troubleshooting_page_exists(message: str) -> None:
    """A message that was reworded is found by nobody who searches for it."""
    assert any(message in text for text in _said())
