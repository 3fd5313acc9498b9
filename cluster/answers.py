"""Reading JSON answers of tools: every value is checked for its type where it is taken out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class MalformedAnswer(Exception):
    """An answer that is not JSON, or lacks what it must hold; the message says what and where."""


class Answer:
    """One JSON value and the path that led to it, so that a complaint can name it."""

    __slots__ = ("path", "value")

    def __init__(self, value: Json, path: str = "") -> None:
        self.value = value
        self.path = path

    @staticmethod
    def parse(text: bytes | str) -> Answer:
        """Raises MalformedAnswer."""
        try:
            return Answer(json.loads(text))
        except ValueError as error:
            shown = text.decode(errors="replace") if isinstance(text, bytes) else text
            raise MalformedAnswer(f"not JSON ({error}): {shown.strip()[:80]!r}") from None

    def fields(self) -> dict[str, Json]:
        if not isinstance(self.value, dict):
            raise self._wrong("an object")
        return self.value

    def at(self, name: str) -> Answer:
        """The field of that name, which must be there."""
        fields = self.fields()
        if name not in fields:
            raise MalformedAnswer(f"{self._below(name)} is missing")
        return Answer(fields[name], self._below(name))

    def get(self, name: str) -> Answer | None:
        """The field of that name, None when it is absent or null."""
        value = self.fields().get(name)
        return None if value is None else Answer(value, self._below(name))

    def items(self) -> Iterator[Answer]:
        if not isinstance(self.value, list):
            raise self._wrong("a list")
        for position, value in enumerate(self.value):
            yield Answer(value, f"{self.path}[{position}]")

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self._wrong("text")
        return self.value

    def integer(self) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self._wrong("a whole number")
        return self.value

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self._wrong("a number")
        return float(self.value)

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self._wrong("true or false")
        return self.value

    def integer_or_zero(self, name: str) -> int:
        """A field that the tool leaves out when it is zero."""
        field = self.get(name)
        return 0 if field is None else field.integer()

    def number_or_zero(self, name: str) -> float:
        """A field that the tool leaves out when it is zero."""
        field = self.get(name)
        return 0.0 if field is None else field.number()

    def _below(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _wrong(self, expected: str) -> MalformedAnswer:
        return MalformedAnswer(f"{self.path or 'the answer'} should be {expected}, is {str(self.value)[:60]!r}")
