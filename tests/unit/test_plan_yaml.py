"""Positioned YAML: what is read, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.yaml_source import (
    MAX_BYTES,
    MappingNode,
    Node,
    Position,
    ScalarNode,
    ScalarType,
    read_document,
)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "plan.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusals(folder: Path, text: str | bytes) -> list[tuple[Position, str]]:
    return [(problem.position, problem.what) for problem in read_document(write(folder, text)).problems]


def root_of(folder: Path, text: str) -> MappingNode:
    document = read_document(write(folder, text))
    assert document.problems == ()
    assert isinstance(document.root, MappingNode)
    return document.root


def child(node: MappingNode, key: str) -> Node:
    return {entry.key: entry.value for entry in node.entries}[key]


def scalar(node: MappingNode, key: str) -> ScalarNode:
    value = child(node, key)
    assert isinstance(value, ScalarNode)
    return value


def test_scalars_keep_the_text_of_the_file(tmp_path: Path) -> None:
    """What YAML 1.1 would turn into another value still shows what was written, and what YAML took it for."""
    root = root_of(tmp_path, "a: 010\nb: 1:30\nc: no\nd: 'no'\ne: ~\nf: 1e3\n")
    assert [(scalar(root, key).text, scalar(root, key).type) for key in "abcdef"] == [
        ("010", ScalarType.INTEGER),
        ("1:30", ScalarType.INTEGER),
        ("no", ScalarType.BOOLEAN),
        ("no", ScalarType.TEXT),
        ("~", ScalarType.NULL),
        ("1e3", ScalarType.TEXT),
    ]


def test_positions_count_from_one_and_offsets_cut_the_value_out(tmp_path: Path) -> None:
    """A place is what an editor shows, and offsets find exactly the value, without its anchor, even after a BOM."""
    text = "\ufefftop:\n  key: &anchor 'se cret' # why\n  block: |\n    one\n    two\n"
    document = read_document(write(tmp_path, text))
    assert isinstance(document.root, MappingNode)
    top = child(document.root, "top")
    assert isinstance(top, MappingNode)
    key = scalar(top, "key")
    assert key.position == Position(2, 8)
    assert document.text[key.start : key.end] == "'se cret'"
    block = scalar(top, "block")
    assert document.text[block.start : block.end] == "|\n    one\n    two"


def test_aliases_and_merge_keys_are_resolved(tmp_path: Path) -> None:
    """A merged key gives way to one's own, an earlier merged mapping to none, and no duplicate is seen in it."""
    text = """
    base: &base {a: 1, b: 2}
    more: &more {b: 3, c: 4}
    one: {<<: *base, b: 5}
    two: {<<: [*base, *more]}
    """
    root = root_of(tmp_path, text)
    one, two = child(root, "one"), child(root, "two")
    assert isinstance(one, MappingNode)
    assert isinstance(two, MappingNode)
    assert [(entry.key, scalar(one, entry.key).text) for entry in one.entries] == [("a", "1"), ("b", "5")]
    assert [(entry.key, scalar(two, entry.key).text) for entry in two.entries] == [("a", "1"), ("b", "2"), ("c", "4")]


def test_a_duplicate_key_names_both_places(tmp_path: Path) -> None:
    """YAML keeps the last of two equal keys in silence; here both are named."""
    assert refusals(tmp_path, "a: 1\nb: 2\na: 3\n") == [(Position(3, 1), "the key 'a' was given before, at 1:1")]


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("", Position(1, 1), "is empty"),
        ("# only a comment\n", Position(1, 1), "is empty"),
        ("a: 1\n---\nb: 2\n", Position(2, 1), "a second document starts here"),
        ("a: !!python/name:os.system x\n", Position(1, 4), "python/name:os.system' means nothing in a test plan"),
        ("a: !secret x\n", Position(1, 4), "the tag '!secret' means nothing in a test plan"),
        ("a: [1, 2\nb: 3\n", Position(2, 2), "not valid YAML: expected ',' or ']', but got ':'"),
        ("a:\n\t- 1\n", Position(2, 1), "not valid YAML: found character '\\t' that cannot start any token"),
        ("a: *b\n", Position(1, 4), "not valid YAML: found undefined alias 'b'"),
        ("a: &a [*a]\n", Position(1, 4), "an alias refers to a value that contains it"),
        ("? [a, b]\n: 1\n", Position(1, 3), "a list or mapping cannot be a key"),
        ("~: 1\n", Position(1, 1), "a key is missing"),
        ("a: {<<: 5}\n", Position(1, 9), "'<<' takes a mapping or a list of them"),
        ('a: "x\\0y"\n', Position(1, 4), "holds a NUL character or half a surrogate pair"),
        ('a: "\\ud800"\n', Position(1, 4), "holds a NUL character or half a surrogate pair"),
        ('a: "\\UFFFFFFFF"\n', Position(1, 1), "not valid YAML: an escape or number is out of range"),
        ("a: b\x07\n", Position(1, 5), "holds a character that YAML does not allow"),
        ("ä: ".encode() + b"\xff\n", Position(1, 4), "is not UTF-8 text"),
        ("a: 1\n".encode("utf-16"), Position(1, 1), "is not UTF-8 text"),
        ("[" * 5000, Position(1, 41), "nested deeper than 40 levels"),
        (b"#" * (MAX_BYTES + 1), Position(1, 1), "is larger than 1 MiB, too large for a test plan"),
    ],
)
def test_what_cannot_be_a_plan_is_refused_with_its_place(
    tmp_path: Path, text: str | bytes, place: Position, what: str
) -> None:
    """Every kind of broken file ends in one problem that says where and what."""
    ((position, found),) = refusals(tmp_path, text)
    assert position == place
    assert what in found


def test_an_alias_bomb_is_refused_at_once(tmp_path: Path) -> None:
    """A small file that expands to billions of values is refused instead of filling the memory."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert [what for _, what in refusals(tmp_path, "\n".join(lines))] == [
        "aliases multiply to more values than a plan can have"
    ]


def test_a_long_chain_of_aliases_is_refused(tmp_path: Path) -> None:
    """Nesting by aliases is as limited as nesting by brackets."""
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3000)]
    assert [what for _, what in refusals(tmp_path, "\n".join(lines))] == ["nested deeper than 40 levels"]


def test_unreadable_paths_are_problems_not_tracebacks(tmp_path: Path) -> None:
    """A folder, a missing file, an impossible name: each is one problem."""
    paths = (tmp_path, tmp_path / "absent.yaml", Path("a\0b"), tmp_path / ("x" * 300))
    whats = [read_document(path).problems[0].what for path in paths]
    assert whats == [
        "is a folder, not a file",
        "there is no such file",
        "is not a file name",
        "cannot be read: File name too long",
    ]
