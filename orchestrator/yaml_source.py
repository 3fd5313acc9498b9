"""YAML as positioned nodes: what the file says and where, nothing constructed.

YAML 1.1 turns `010` into 8, `1:30` into 90 and `no` into False before a program sees them. Here a scalar keeps the
text that the file has, so that the plan reader can tell what was written, and every node knows its line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeAlias

import yaml

MAX_BYTES = 1 << 20
"""A test plan is a page or two; what is larger is not one."""
MAX_DEPTH = 40
MAX_NODES = 200_000
"""Nodes visited with every alias expanded; more is an alias bomb."""

_PREFIX = "tag:yaml.org,2002:"


class ScalarType(Enum):
    """What YAML 1.1 takes a scalar for. A quoted scalar is always TEXT."""

    TEXT = "text"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    NULL = "null"


_SCALAR_TYPES = {
    _PREFIX + "str": ScalarType.TEXT,
    _PREFIX + "int": ScalarType.INTEGER,
    _PREFIX + "float": ScalarType.FLOAT,
    _PREFIX + "bool": ScalarType.BOOLEAN,
    _PREFIX + "null": ScalarType.NULL,
    # A date, `=` and a value `<<` are just text to a test plan.
    _PREFIX + "timestamp": ScalarType.TEXT,
    _PREFIX + "value": ScalarType.TEXT,
    _PREFIX + "merge": ScalarType.TEXT,
}
_MERGE = _PREFIX + "merge"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Line and column, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Something the user must mend: where, what, and how."""

    position: Position
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """One value as written. `start` and `end` are character offsets in the document's text."""

    position: Position
    text: str
    type: ScalarType
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ListNode:
    position: Position
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value`; the key is the text as written."""

    key: str
    position: Position
    value: Node


@dataclass(frozen=True, slots=True)
class MappingNode:
    position: Position
    entries: tuple[Entry, ...]


Node: TypeAlias = ScalarNode | ListNode | MappingNode


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read. `root` is None when nothing usable is in it; then `problems` says why."""

    source: Path
    text: str
    root: Node | None
    problems: tuple[Problem, ...]


def read_document(path: Path) -> Document:
    """Reads one YAML document. Never raises for what a file may hold: all of that ends in `problems`."""
    problems: list[Problem] = []
    try:
        text = _read_text(path)
        root = _Walk(text, problems).node(_compose(text), 0)
    except _Unusable as unusable:
        return Document(path, "", None, (*dict.fromkeys(problems), unusable.problem))
    return Document(path, text, root, tuple(dict.fromkeys(problems)))


class _Unusable(Exception):
    def __init__(self, position: Position, what: str, remedy: str) -> None:
        super().__init__(what)
        self.problem = Problem(position, what, remedy)


_START = Position(1, 1)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _Unusable(_START, "there is no such file", "check the path of the test plan") from None
    except IsADirectoryError:
        raise _Unusable(_START, "is a folder, not a file", "name the test plan within it") from None
    except OSError as error:
        raise _Unusable(_START, f"cannot be read: {error.strerror or error}", "check the file and its rights") from None
    except ValueError:
        raise _Unusable(_START, "is not a file name", "check the path of the test plan") from None
    if len(content) > MAX_BYTES:
        raise _Unusable(_START, "is larger than 1 MiB, too large for a test plan", "check that this is the plan")
    try:
        # Offsets and columns count from after a byte order mark.
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8")
        raise _Unusable(_place(before, len(before)), "is not UTF-8 text", "save the file as UTF-8") from None


def _place(text: str, offset: int) -> Position:
    before = text[:offset]
    return Position(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


class _Mark(Protocol):
    """A place in the file, of either of PyYAML's two kinds."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


def _at(mark: _Mark | None) -> Position:
    return _START if mark is None else Position(mark.line + 1, mark.column + 1)


def _compose(text: str) -> yaml.Node:
    try:
        _check_shape(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        what = error.problem or error.context or "cannot be understood"
        remedy = (
            "indent with spaces, not tabs"
            if "'\\t'" in what
            else "check indentation, colons, brackets and quotes there"
        )
        raise _Unusable(_at(error.problem_mark or error.context_mark), f"not valid YAML: {what}", remedy) from None
    except yaml.reader.ReaderError as error:
        position = _place(text, error.position)
        raise _Unusable(position, "holds a character that YAML does not allow", "remove it") from None
    except (ValueError, OverflowError):
        # PyYAML lets these escape for escapes beyond Unicode and for absurd version numbers.
        raise _Unusable(
            _START, "not valid YAML: an escape or number is out of range", "check the quoted texts"
        ) from None
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == _PREFIX + "null"):
        raise _Unusable(_START, "is empty", "a test plan needs the sections 'cluster' and 'benchmarks'")
    return root


def _check_shape(text: str) -> None:
    """Refuses what would overrun the composer's recursion, and a second document, before anything is composed."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _Unusable(_at(event.start_mark), "a second document starts here", "keep one plan in one file")
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _Unusable(_at(event.start_mark), f"nested deeper than {MAX_DEPTH} levels", "flatten the plan")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


_NODE_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)+")


@dataclass(slots=True)
class _Walk:
    """Turns composed nodes into ours, with aliases and merge keys resolved."""

    text: str
    problems: list[Problem]
    visits: int = 0
    open_nodes: set[int] = field(default_factory=set)

    def node(self, node: yaml.Node, depth: int) -> Node:
        position = _at(node.start_mark)
        self.visits += 1
        if self.visits > MAX_NODES:
            raise _Unusable(position, "aliases multiply to more values than a plan can have", "write the values out")
        if id(node) in self.open_nodes:
            raise _Unusable(position, "an alias refers to a value that contains it", "write the value out")
        if depth > MAX_DEPTH:
            raise _Unusable(position, f"nested deeper than {MAX_DEPTH} levels", "flatten the plan")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, position)
        self.open_nodes.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                if node.tag != _PREFIX + "map":
                    self._foreign_tag(node, position)
                return MappingNode(position, tuple(self._entries(node, depth)))
            if node.tag != _PREFIX + "seq":
                self._foreign_tag(node, position)
            return ListNode(position, tuple(self.node(item, depth + 1) for item in node.value))
        finally:
            self.open_nodes.discard(id(node))

    def _scalar(self, node: yaml.ScalarNode, position: Position) -> ScalarNode:
        kind = _SCALAR_TYPES.get(node.tag)
        if kind is None:
            self._foreign_tag(node, position)
            kind = ScalarType.TEXT
        text: str = node.value
        if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
            self.problems.append(
                Problem(position, "holds a NUL character or half a surrogate pair", "remove that escape")
            )
            text = ""
        start, end = _span(self.text, node.start_mark.index, node.end_mark.index)
        return ScalarNode(position, text, kind, start, end)

    def _foreign_tag(self, node: yaml.Node, position: Position) -> None:
        tag = str(node.tag)
        shown = "!!" + tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else tag
        self.problems.append(
            Problem(position, f"the tag {shown!r} means nothing in a test plan", "write the plain value")
        )

    def _entries(self, node: yaml.MappingNode, depth: int) -> Iterator[Entry]:
        merged: dict[str, Entry] = {}
        own: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            position = _at(key_node.start_mark)
            if key_node.tag == _MERGE:
                for entry in self._merged(value_node, depth):
                    merged.setdefault(entry.key, entry)
                continue
            key = self._key(key_node, position, depth)
            value = self.node(value_node, depth + 1)
            if key is None:
                continue
            if key in own:
                first = own[key].position
                what = f"the key {key!r} was given before, at {first.line}:{first.column}"
                self.problems.append(Problem(position, what, "remove one of the two"))
                continue
            own[key] = Entry(key, position, value)
        yield from {**merged, **own}.values()

    def _key(self, node: yaml.Node, position: Position, depth: int) -> str | None:
        key = self.node(node, depth + 1)
        if not isinstance(key, ScalarNode):
            self.problems.append(
                Problem(position, "a list or mapping cannot be a key", "write a name before the colon")
            )
            return None
        if key.type is ScalarType.NULL or not key.text:
            self.problems.append(Problem(position, "a key is missing", "write a name before the colon"))
            return None
        return key.text

    def _merged(self, node: yaml.Node, depth: int) -> Iterator[Entry]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            mapping = self.node(source, depth + 1)
            if isinstance(mapping, MappingNode):
                yield from mapping.entries
            else:
                position = _at(source.start_mark)
                self.problems.append(Problem(position, "'<<' takes a mapping or a list of them", "name such an anchor"))


def _span(text: str, start: int, end: int) -> tuple[int, int]:
    """Where the value itself stands, without its anchor and tag and without the line break of a block scalar."""
    properties = _NODE_PROPERTIES.match(text, start, end)
    if properties is not None:
        start = properties.end()
    while end > start and text[end - 1] in "\r\n":
        end -= 1
    return start, end
