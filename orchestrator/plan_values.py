"""One value of a plan: from the text in the file to what its option's kind names, YAML's traps caught on the way."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from benchmarks.options import Kind, Option, Scalar, Value
from cluster.command import Secret
from orchestrator.yaml_source import Entry, ListNode, MappingNode, Node, Position, Problem, ScalarNode, ScalarType

_INTEGER = re.compile(r"[-+]?[0-9][0-9_]*")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9]*)?")
_OTHER_BASE = re.compile(r"[-+]?0[xXbBoO][0-9a-fA-F_]+")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)")
_EXPONENT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")
_SIZE = re.compile(r"([0-9]+) ?(?:B|([kKmMgGtT])(i?[bB])?)?")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_POWERS = {"k": 10, "m": 20, "g": 30, "t": 40}

MAX_INTEGER = 2**63 - 1
_LONGEST_SHOWN = 60


class Rejected(Exception):
    """A value that its option cannot take: what is wrong and how to mend it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy


def shown(text: str) -> str:
    """A user's text within a message: quoted, on one line, not endless."""
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…")


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that `word` was probably meant to be."""
    by_spelling = {name.lower().replace("-", "_"): name for name in known}
    found = difflib.get_close_matches(word[:100].lower().replace("-", "_"), by_spelling, n=1, cutoff=cutoff)
    return by_spelling[found[0]] if found else None


@dataclass(slots=True)
class ValueReader:
    """Converts nodes and notes every problem; after one, the option's default stands in for the value."""

    problems: list[Problem] = field(default_factory=list)

    def problem(self, position: Position, what: str, remedy: str) -> None:
        self.problems.append(Problem(position, what, remedy))

    def value(self, entry: Entry, option: Option) -> Value:
        """The entry's value; a tuple under a sweep option is an axis."""
        node = entry.value
        if _is_null(node):
            return self._nothing(node, entry.key, option)
        if isinstance(node, ListNode) and option.takes_axis:
            return self._axis(node, entry.key, option)
        return self._one(node, entry.key, option)

    def options(
        self,
        mapping: MappingNode,
        known: Mapping[str, Option],
        where: str,
        allowed_elsewhere: Mapping[str, str] | None = None,
    ) -> dict[str, tuple[Entry, Option]]:
        """Pairs every entry with its option, in the plan's order; unknown keys are problems."""
        found: dict[str, tuple[Entry, Option]] = {}
        for entry in mapping.entries:
            option = known.get(entry.key)
            if option is None:
                self.unknown_key(entry, known, where, (allowed_elsewhere or {}).get(entry.key))
                continue
            found[entry.key] = (entry, option)
        return found

    def unknown_key(self, entry: Entry, known: Iterable[str], where: str, elsewhere: str | None = None) -> None:
        """Reports a key that is not known in `where`."""
        if elsewhere is not None:
            remedy = f"it belongs {elsewhere}"
        else:
            guess = nearest(entry.key, known)
            remedy = f"did you mean {guess!r}?" if guess else "docs/plan.md lists the keys; remove or correct it"
        self.problem(entry.position, f"unknown key {shown(entry.key)} in {where}", remedy)

    def mapping(self, entry: Entry) -> MappingNode:
        """The entry's value as a mapping; nothing there is an empty one."""
        node = entry.value
        if isinstance(node, MappingNode):
            return node
        if not _is_null(node):
            self.problem(
                node.position, f"{entry.key} must hold keys and values", "indent its 'key: value' lines below it"
            )
        return MappingNode(node.position, ())

    def words(self, node: Node, key: str) -> tuple[str, ...]:
        """A list of texts, or one text as a list of one."""
        items = node.items if isinstance(node, ListNode) else (node,)
        words: list[str] = []
        for item in items:
            try:
                words.append(_text(_scalar(item)))
            except Rejected as rejected:
                self.problem(item.position, f"{key}: {rejected.what}", rejected.remedy)
        return tuple(words)

    def _nothing(self, node: Node, key: str, option: Option) -> Value:
        if option.kind is Kind.MAPPING:
            return self._fields(MappingNode(node.position, ()), option) if option.fields else {}
        if option.default is not None:
            self.problem(node.position, f"{key} has no value", "write one after the colon, or remove the line")
        return option.default

    def _axis(self, node: ListNode, key: str, option: Option) -> Value:
        if not node.items:
            self.problem(node.position, f"{key} is an empty list", "name at least one value, or remove the line")
            return option.default
        values: list[Value] = []
        for item in node.items:
            if _is_null(item):
                self.problem(item.position, f"{key}: an entry of the list is empty", "write a value or remove it")
            else:
                values.append(self._one(item, key, option))
        # The same value twice would be the same measurement twice.
        return tuple(dict.fromkeys(values))

    def _one(self, node: Node, key: str, option: Option) -> Value:
        try:
            value = self._convert(node, key, option)
            _check_bounds(value, option)
        except Rejected as rejected:
            if option.secret:  # the rejection quotes the value
                self.problem(node.position, f"{key}: is not acceptable", "write it in quotes")
            else:
                self.problem(node.position, f"{key}: {rejected.what}", rejected.remedy)
            return option.default
        return Secret(value) if option.secret and isinstance(value, str) else value

    def _convert(self, node: Node, key: str, option: Option) -> Value:
        match option.kind:
            case Kind.MAPPING:
                return self._mapping_value(node, option)
            case Kind.LIST:
                items = node.items if isinstance(node, ListNode) else (node,)
                return tuple(_any_scalar(_scalar(item)) for item in items)
            case Kind.COMMAND:
                return _command(node)
            case Kind.HOSTS:
                return self.words(node, key)
            case Kind.ANY:
                return _anything(node)
            case Kind.FLAG:
                return _flag(_scalar(node))
            case Kind.INTEGER:
                return _integer(_scalar(node))
            case Kind.NUMBER:
                return _number(_scalar(node))
            case Kind.SIZE:
                return _size(_scalar(node))
            case Kind.TEXT:
                return _text(_scalar(node))

    def _mapping_value(self, node: Node, option: Option) -> Value:
        if isinstance(node, MappingNode):
            if option.fields:
                return self._fields(node, option)
            return {entry.key: _anything(entry.value, option.secret) for entry in node.entries}
        if option.default and isinstance(node, ScalarNode) and node.text.lower() in _FALSE:
            return None
        raise Rejected("must hold keys and values", "indent its 'key: value' lines below it")

    def _fields(self, node: MappingNode, option: Option) -> dict[str, Value]:
        known = {one.name: one for one in option.fields}
        values = {one.name: one.default for one in option.fields}
        for name, (entry, one) in self.options(node, known, option.name).items():
            values[name] = self.value(entry, replace(one, sweep=False))
        return values


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.type is ScalarType.NULL


def raw_text(node: Node) -> str:
    """A scalar exactly as written, for what is passed on to another program. Raises Rejected."""
    return _scalar(node).text


def _scalar(node: Node) -> ScalarNode:
    if isinstance(node, ListNode):
        raise Rejected("is a list where one value belongs", "write a single value; only swept options take lists")
    if isinstance(node, MappingNode):
        raise Rejected("is a mapping where one value belongs", "write a single value on the line of the key")
    return node


def _flag(node: ScalarNode) -> bool:
    word = node.text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise Rejected(f"{shown(node.text)} is neither true nor false", "write true or false")


def _check_number_traps(node: ScalarNode) -> None:
    """Refuses what YAML reads as another number than the one people see."""
    text = node.text.strip()
    plain = node.type is not ScalarType.TEXT
    if _SEXAGESIMAL.fullmatch(text):
        seconds = 0.0
        for part in text.lstrip("+-").replace("_", "").split(":"):
            seconds = seconds * 60 + float(part)
        raise Rejected(f"YAML reads {text} as the base-60 number {seconds:g}", f"write {seconds:g} if that is meant")
    if plain and _LEADING_ZERO.fullmatch(text):
        decimal = text.lstrip("+-0_") or "0"
        raise Rejected(f"YAML reads {text} as an octal number", f"write {decimal} without the leading zero")
    if _OTHER_BASE.fullmatch(text):
        raise Rejected(f"{text} is not a decimal number", "write it in decimal")
    if _EXPONENT.fullmatch(text):
        raise Rejected(f"{text} is not a plain number, and YAML takes the like for text", _spelled_out(text))
    if text.lstrip("+-").lower() in {".inf", ".nan", "inf", "nan"}:
        raise Rejected(f"{text} is not a usable number", "write a finite number")


def _spelled_out(text: str) -> str:
    value = float(text)
    return f"write {int(value)}" if abs(value) <= MAX_INTEGER and value == int(value) else "write all its digits"


def _integer(node: ScalarNode) -> int:
    _check_number_traps(node)
    text = node.text.strip()
    if not _INTEGER.fullmatch(text):
        remedy = "write a number such as 16"
        if _DECIMAL.fullmatch(text):
            remedy = "write it without a decimal point"
        raise Rejected(f"{shown(node.text)} is not a whole number", remedy)
    return _in_range(text)


def _in_range(text: str) -> int:
    digits = text.replace("_", "")
    # Python refuses to convert thousands of digits; no option needs more than 63 bits.
    if len(digits) > len(str(MAX_INTEGER)) + 1 or abs(int(digits)) > MAX_INTEGER:
        raise Rejected(f"{shown(text)} is too large", "write a number below 2^63")
    return int(digits)


def _number(node: ScalarNode) -> float:
    _check_number_traps(node)
    text = node.text.strip()
    if _DECIMAL.fullmatch(text):
        return float(text)
    if not _INTEGER.fullmatch(text):
        raise Rejected(f"{shown(node.text)} is not a number", "write a number such as 1.5")
    return float(_in_range(text))


def _size(node: ScalarNode) -> int:
    _check_number_traps(node)
    text = node.text.strip()
    if _INTEGER.fullmatch(text):
        return _in_range(text)
    match = _SIZE.fullmatch(text)
    if match is None:
        raise Rejected(f"{shown(node.text)} is not a size", "write bytes, or a number with k, M, G or T, such as 4k")
    number, prefix, suffix = match.groups()
    size = _in_range(number)
    if prefix is None:
        return size
    if suffix in {"b", "B"}:
        power = prefix.upper()
        raise Rejected(
            f"{shown(node.text)} may mean multiples of 1000 or of 1024",
            f"write {number}{power}iB for multiples of 1024",
        )
    return _in_range(str(size << _POWERS[prefix.lower()]))


def _text(node: ScalarNode) -> str:
    if node.type is ScalarType.BOOLEAN:
        raise Rejected(
            f"YAML reads {node.text} as true or false, text is expected", f"write it in quotes: '{node.text}'"
        )
    if node.type is ScalarType.NULL:
        raise Rejected("is empty where text is expected", "write a value")
    return node.text


def _any_scalar(node: ScalarNode) -> Scalar:
    match node.type:
        case ScalarType.NULL:
            return None
        case ScalarType.BOOLEAN:
            return _flag(node)
        case ScalarType.INTEGER:
            return _integer(node)
        case ScalarType.FLOAT:
            return _number(node)
        case ScalarType.TEXT:
            return node.text


def _anything(node: Node, secret: bool = False) -> Value:
    if isinstance(node, ListNode):
        return tuple(_anything(item, secret) for item in node.items)
    if isinstance(node, MappingNode):
        return {entry.key: _anything(entry.value, secret) for entry in node.entries}
    return Secret(node.text) if secret else _any_scalar(node)


def _command(node: Node) -> tuple[str, ...]:
    if isinstance(node, ListNode):
        words = [_text(_scalar(item)) for item in node.items]
    else:
        text = _text(_scalar(node))
        try:
            words = shlex.split(text)
        except ValueError:
            raise Rejected(f"{shown(text)} has a quote that is not closed", "close the quote") from None
    if not words or not words[0]:
        raise Rejected("is an empty command", "name the program to run")
    return tuple(words)


def _check_bounds(value: Value, option: Option) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if option.minimum is not None and value < option.minimum:
            raise Rejected(f"{value} is too small", f"write {_plain(option.minimum)} or more")
        if option.maximum is not None and value > option.maximum:
            raise Rejected(f"{value} is too large", f"write {_plain(option.maximum)} or less")
    if option.choices and isinstance(value, str) and value not in option.choices:
        guess = nearest(value, option.choices)
        known = f"one of {', '.join(option.choices)}"
        raise Rejected(
            f"{shown(value)} is not known", f"did you mean {guess!r}? It is {known}" if guess else f"write {known}"
        )


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
