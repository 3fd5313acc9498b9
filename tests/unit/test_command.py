"""Quoting: the one place where words become shell text."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.command import Command, Secret, quote_command, quote_words
from cluster.command_log import log_line

PRINT_WORDS = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(os.fsencode(w) for w in sys.argv[1:]))"

NASTY = (
    "",
    " ",
    "a b",
    "$(id)",
    "`id`",
    ";",
    "&",
    "'",
    '"',
    "\\",
    "a\nb",
    "*",
    "~",
    "#",
    "-n",
    "ünï☃",
    "$HOME",
    "!x",
    "\t",
)


def read_back(words: tuple[str, ...], shell: str) -> list[str]:
    text = quote_words((sys.executable, "-c", PRINT_WORDS, *words))
    done = subprocess.run((shell, "-c", text), capture_output=True, check=True)
    return done.stdout.decode(errors="surrogateescape").split("\0")


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_nasty_words_read_back_as_they_were(shell: str) -> None:
    """Words with spaces, quotes, expansions, newlines and non-ASCII letters come out of a shell unchanged."""
    assert read_back(NASTY, shell) == list(NASTY)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=6))
def test_any_words_read_back_as_they_were(words: list[str]) -> None:
    """No word whatsoever changes on its way through a shell."""
    assert read_back(tuple(words), "sh") == words


def test_environment_reaches_the_command() -> None:
    """Environment variables are set for the command, and their values are quoted too."""
    text = quote_command(("sh", "-c", 'printf %s "$A"'), (("A", "x y; $(id)"),))
    assert subprocess.run(("sh", "-c", text), capture_output=True, check=True).stdout == b"x y; $(id)"


def test_secrets_are_passed_on_but_not_shown() -> None:
    """A secret is in what runs and in nothing that is shown or logged."""
    command = Command(("s3", "--key", Secret("hunter2")), env=(("TOKEN", Secret("hunter3")),))
    assert "hunter2" in command.shell()
    assert "hunter3" in command.shell()
    assert "hunter" not in command.shown()
    assert "hunter" not in log_line(command)


def test_a_logged_command_is_one_line() -> None:
    """A command with newlines, or one that carries a whole program, still makes one line of bearable length."""
    assert "\n" not in log_line(Command(("printf", "a\nb")))
    assert len(log_line(Command(("sh", "-c", "echo\n" * 9999)))) < 300
