"""The plan's text for archives and screens, with secrets replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.registry import all_benchmarks
from orchestrator.plan_options import ENDPOINT_OPTIONS
from orchestrator.yaml_source import Document, ListNode, MappingNode, Node, ScalarNode

REDACTED = "REDACTED"

_SECRET_NAME = re.compile(r"passw(or)?d|secret|token|credential|_key$", re.IGNORECASE)
_SECRET_COMMENT = re.compile(
    r"(?m)^(\s*#.*?(?:passw(?:or)?d|secret|token|credential|_key)\w*\s*[:=]\s*)\S.*$", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"""([a-z][a-z0-9+.-]*://[^\s/:@'"]*:)[^\s/'"]+(?=@)""", re.IGNORECASE)


def redacted(document: Document) -> str:
    """The document's text, every secret value and every password in a URL replaced by REDACTED; it reads back as the
    same plan otherwise."""
    text = document.text
    if document.root is not None:
        spans = {(scalar.start, scalar.end) for scalar in _secrets(document.root, (), secret=False)}
        for start, end in sorted(spans, reverse=True):
            if end > start:
                text = text[:start] + REDACTED + text[end:]
    text = _URL_PASSWORD.sub(rf"\g<1>{REDACTED}", text)
    return _SECRET_COMMENT.sub(rf"\g<1>{REDACTED}", text)


def _secrets(node: Node, path: tuple[str, ...], *, secret: bool) -> Iterator[ScalarNode]:
    if isinstance(node, MappingNode):
        for entry in node.entries:
            inner = (*path, entry.key)
            named = not isinstance(entry.value, MappingNode) and _has_secret_name(inner)
            yield from _secrets(entry.value, inner, secret=secret or named or _is_secret_option(inner))
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from _secrets(item, path, secret=secret)
    elif secret:
        yield node


def _has_secret_name(path: tuple[str, ...]) -> bool:
    sections = ("client_endpoints", "benchmarks")
    return len(path) > 2 and path[0] in sections and _SECRET_NAME.search(path[-1]) is not None


def _is_secret_option(path: tuple[str, ...]) -> bool:
    if len(path) < 3:
        return False
    if path[0] == "client_endpoints":
        return any(option.secret and option.name == path[2] for option in ENDPOINT_OPTIONS)
    benchmark = all_benchmarks().get(path[1]) if path[0] == "benchmarks" else None
    return benchmark is not None and any(option.secret and option.name == path[-1] for option in benchmark.options)
