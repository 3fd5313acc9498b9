"""Option models: what a plan key is called, what it holds, its default, its unit.

They are data, so that the plan reader, `--dry-run` and the plan reference in docs/ all say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Kind(Enum):
    """What a plan value is after it was read."""

    FLAG = "true or false"
    INTEGER = "whole number"
    NUMBER = "number"
    TEXT = "text"
    SIZE = "size in bytes (4096, 4k, 4M)"
    COMMAND = "command, one or several words"
    HOSTS = "host, list of hosts, or mapping host to daemons"
    LIST = "list"
    MAPPING = "mapping"
    ANY = "anything"


_SCALAR_KINDS = frozenset({Kind.FLAG, Kind.INTEGER, Kind.NUMBER, Kind.TEXT, Kind.SIZE})

Scalar: TypeAlias = bool | int | float | str | None
Value: TypeAlias = "Scalar | tuple[Value, ...] | Mapping[str, Value]"


@dataclass(frozen=True, slots=True)
class Option:
    """One key of a plan.

    `sweep` says whether a list makes a sweep axis (all combinations run). `fields` are the known keys of
    a MAPPING; with none, any key is taken. `no_effect` is the reason why a known key does nothing here;
    the plan reader reports it once.
    """

    name: str
    kind: Kind
    default: Value = None
    unit: str = ""
    description: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    sweep: bool = True
    fields: tuple[Option, ...] = ()
    no_effect: str | None = None
    secret: bool = False

    @property
    def takes_axis(self) -> bool:
        """Whether a list of values is a sweep axis here."""
        return self.sweep and self.kind in _SCALAR_KINDS


class Settings(Mapping[str, Value]):
    """The effective options of one point, each already of the kind its option model names.

    The typed getters raise TypeError when a value is not of that type: a bug in an option model, never
    a user's mistake (those end in the plan reader).
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Settings({self._values!r})"

    def flag(self, name: str) -> bool:
        value = self._values[name]
        if not isinstance(value, bool):
            raise TypeError(f"{name}: expected true or false, got {value!r}")
        return value

    def integer(self, name: str) -> int:
        value = self.optional_integer(name)
        if value is None:
            raise TypeError(f"{name}: expected a whole number, got nothing")
        return value

    def optional_integer(self, name: str) -> int | None:
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}: expected a whole number, got {value!r}")
        return value

    def text(self, name: str) -> str:
        value = self.optional_text(name)
        if value is None:
            raise TypeError(f"{name}: expected text, got nothing")
        return value

    def optional_text(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"{name}: expected text, got {value!r}")
        return value

    def mapping(self, name: str) -> Settings:
        value = self._values.get(name)
        if value is None:
            return Settings({})
        if not isinstance(value, Mapping):
            raise TypeError(f"{name}: expected a mapping, got {value!r}")
        return Settings(value)

    def changed(self, **values: Value) -> Settings:
        """A copy with some values replaced."""
        return Settings({**self._values, **values})
