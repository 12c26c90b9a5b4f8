"""The shape of backend expressions: lists, second stages, and fusions with components in parentheses.

::

    list       = item {"," item}
    item       = stage {"|" reranker}                     lucene|dense:candidates=50
    stage      = "(" item ")" | fusion | backend          rrf:lucene+(csr:k1=1.2);k=60
    fusion     = method ":" component {"+" component} {";" key "=" value}
    component  = name | "run:" FILE | "(" item ")"

Separators inside parentheses separate nothing outside them. Where parentheses do not match, they are plain characters:
values may hold some. A ``|`` is one only before the name of a reranker.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from harness.errors import UsageError

__all__ = ["FusionParts", "in_parentheses", "split_fusion", "split_outside", "split_stages", "without_parentheses"]


class FusionParts(NamedTuple):
    """What a fusion's expression holds after its method: texts of the components, and of ``key=value;key=value``."""

    components: tuple[str, ...]
    parameters: str


def split_outside(text: str, separator: str) -> list[str]:
    """``text`` at every ``separator`` (one character) that lies outside all parentheses."""
    return _cut(text, [place for place in _outside(text) if text[place] == separator])


def split_stages(text: str, rerankers: Collection[str]) -> list[str]:
    """The first stage, and the rerankers that follow it; ``rerankers`` are the names that may."""
    named = re.compile(rf"\|\s*(?:{'|'.join(map(re.escape, rerankers))})\s*(?:[:|]|$)") if rerankers else None
    places = [place for place in _outside(text) if named is not None and named.match(text, place)]
    return [part.strip() for part in _cut(text, places)]


def split_fusion(rest: str) -> FusionParts:
    """Components and parameters of what follows ``method:``.

    Raises UsageError for a component that has parameters of its own and no parentheses.
    """
    components, *parameters = split_outside(rest, ";")
    parts = tuple(part.strip() for part in split_outside(components, "+"))
    for part in parts:
        name, colon, _ = part.partition(":")
        if colon and name.strip() != "run" and not part.startswith("("):
            raise UsageError(
                f"the component '{part}' has parameters and no parentheses",
                fix=f"write ({part}): what follows ';' outside them is the fusion's own",
            )
    return FusionParts(tuple(without_parentheses(part) for part in parts), ";".join(parameters))


def without_parentheses(text: str) -> str:
    """``text`` without the parentheses that enclose all of it, if any do."""
    inner = text.strip()
    while inner.startswith("(") and inner.endswith(")") and next(_outside(inner), None) is None:
        inner = inner[1:-1].strip()
    return inner


def in_parentheses(label: str) -> str:
    """A label as a component: in parentheses unless it is a plain name or a plain ``run:FILE``."""
    plain = re.fullmatch(r"[\w.-]+|run:[^+;|(),]+", label)
    return label if plain else f"({label})"


def _cut(text: str, places: Sequence[int]) -> list[str]:
    starts, ends = [0, *(place + 1 for place in places)], [*places, len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _outside(text: str) -> Iterator[int]:
    """Places outside all parentheses, themselves excluded; every place where they do not match."""
    matched = _match(text)
    depth = 0
    for place, character in enumerate(text):
        if matched and character in "()":
            depth += 1 if character == "(" else -1
        elif depth == 0:
            yield place


def _match(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0
