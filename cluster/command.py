"""Commands as argument vectors, and the one place where words are quoted for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass


class Secret(str):
    """A word that is passed on as it is but never shown in a log, an archive or a message."""

    __slots__ = ()


HIDDEN = "<secret>"


@dataclass(frozen=True, slots=True)
class Command:
    """An argument vector with the environment variables it needs, as (name, value) pairs.

    `timeout_s` is the time after which the command is ended; None only for what has a guard of its own.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    timeout_s: float | None = 60.0

    def shell(self) -> str:
        """The command as one line of POSIX shell, every word quoted."""
        return quote_command(self.argv, self.env)

    def shown(self) -> str:
        """The same line for people, with secrets hidden."""
        return quote_command(
            tuple(HIDDEN if isinstance(word, Secret) else word for word in self.argv),
            tuple((name, HIDDEN if isinstance(value, Secret) else value) for name, value in self.env),
        )


def quote_words(words: Iterable[str]) -> str:
    """Words joined into shell text that reads back as exactly these words."""
    return " ".join(shlex.quote(word) for word in words)


def quote_command(argv: Iterable[str], env: Iterable[tuple[str, str]] = ()) -> str:
    """One line of POSIX shell; environment variables go through env(1), so that any command can follow."""
    assignments = [f"{name}={value}" for name, value in env]
    words = ["env", *assignments, *argv] if assignments else list(argv)
    return quote_words(words)
