"""The grammar of backend expressions: lists, second stages, and fusions with components in parentheses.

::

    list       = [label "="] item {"," [label "="] item}
    item       = stage {"|" reranker}                     lucene|dense:candidates=50
    stage      = "(" item ")" | fusion | backend          rrf:lucene+(csr:k1=1.2);k=60
    fusion     = method ":" component {"+" component} {";" key "=" value}
    component  = name | label | "run:" FILE | "(" [label "="] item ")"
    value      = characters | '"' characters '"' | "'" characters "'"

A label of the list may replace a backend's name everywhere, also before parameters, which are added to the backend's
own: ``fast=lucene:k1=1.2,fast:b=0.2``. Separators inside parentheses separate nothing outside them, and inside quotes
nothing at all. A quote opens only where a name or a value begins; inside quotes it is written twice. A ``|`` is a
separator only before the name of a reranker.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from harness.errors import UsageError

_QUOTED = r"\"(?:[^\"]|\"\")*+\"|'(?:[^']|'')*+'"
_BEGINS = re.compile(rf"(?P<before>(?:^|[=:,;+(|])\s*)(?P<quoted>{_QUOTED}|[\"'])")
"""Quoted text, or an unclosed quote, where a name or a value begins."""
_ENCLOSES = re.compile(r"[()\"']")
"""A character that may begin or end text in which nothing separates."""
_SPECIAL = re.compile(r"[,;|()\"']|^\s|\s$")


class FusionParts(NamedTuple):
    """The part of a fusion's expression after its method: its components, and ``key=value;key=value``."""

    components: tuple[str, ...]
    parameters: str


def split_outside(text: str, separator: str) -> list[str]:
    """Split ``text`` at every ``separator`` (one character) that lies outside all parentheses and quotes."""
    if _ENCLOSES.search(text) is None:
        return text.split(separator)
    return _cut(text, [position for position in _outside(text) if text[position] == separator])


def split_stages(text: str, rerankers: Collection[str]) -> list[str]:
    """Split an item into its first stage and the rerankers after it; ``rerankers`` are their possible names."""
    stage_pattern = re.compile(rf"\|\s*(?:{'|'.join(map(re.escape, rerankers))})\s*(?:[:|]|$)") if rerankers else None
    positions = [
        position for position in _outside(text) if stage_pattern is not None and stage_pattern.match(text, position)
    ]
    return [part.strip() for part in _cut(text, positions)]


def split_fusion(rest: str) -> FusionParts:
    """Split the text after ``method:`` into components and parameters.

    Raises UsageError for a component with its own parameters but without parentheses.
    """
    components, *parameters = split_outside(rest, ";")
    parts = tuple(part.strip() for part in split_outside(components, "+"))
    for part in parts:
        name, colon, _ = part.partition(":")
        if colon and name.strip() != "run" and not part.startswith("("):
            visible_part = f"{name}:…" if "//" in part else part  # of a URL, a password may lie on both sides of a '+'
            raise UsageError(
                f"the component '{visible_part}' is more than a name, and has no parentheses",
                fix=f"write ({visible_part}): parameters after ';' outside them belong to the fusion",
            )
    return FusionParts(tuple(without_parentheses(part) for part in parts), ";".join(parameters))


def without_parentheses(text: str) -> str:
    """Return ``text`` without the parentheses that enclose all of it, if any do."""
    inner = text.strip()
    while inner.startswith("(") and inner.endswith(")") and next(_outside(inner), None) is None:
        inner = inner[1:-1].strip()
    return inner


def parenthesise(label: str) -> str:
    """Return a label as a component: in parentheses unless it is a plain name or a plain ``run:FILE``."""
    plain = re.fullmatch(r"[\w.-]+|run:[^+;|(),\"']+", label)
    return label if plain else f"({label})"


def quote_list_item(item: str) -> str:
    """Return an item as written among others: in parentheses if a comma would cut it."""
    return item if split_outside(item, ",") == [item] else f"({item})"


def quoted(value: str) -> str:
    """Return a value as an expression holds it: in quotes if it would otherwise be cut or changed."""
    doubled = value.replace('"', '""')
    return f'"{doubled}"' if _SPECIAL.search(value) else value


def unquoted(text: str) -> str:
    """Return the value that ``text`` spells, with or without quotes around it.

    Raises ValueError if it begins with a quote and continues after the closing one.
    """
    text = text.strip()
    if text[:1] not in ("'", '"'):
        return text
    if not re.fullmatch(_QUOTED, text):
        raise ValueError("a quoted value ends before its text does: a quote inside quotes is written twice")
    return text[1:-1].replace(text[0] * 2, text[0])


def _cut(text: str, positions: Sequence[int]) -> list[str]:
    starts, ends = [0, *(position + 1 for position in positions)], [*positions, len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _outside(text: str) -> Iterator[int]:
    """Yield the places outside all quotes and parentheses, themselves excluded.

    Raises UsageError for a quote or a parenthesis without its counterpart.
    """
    opened: list[int] = []
    for position, character in enumerate(_without_quoted(text)):
        if character == "(":
            opened.append(position)
        elif character == ")":
            if not opened:
                raise _unmatched(text, position, "that is closed", "opened")
            opened.pop()
        elif not opened and character != _INSIDE:
            yield position
    if opened:
        raise _unmatched(text, opened[-1], "that is opened", "closed")


_INSIDE = "\0"


def _without_quoted(text: str) -> str:
    """Return ``text`` with every character of quoted text replaced; raises UsageError for an unclosed quote."""

    def replace(match: re.Match[str]) -> str:
        if len(match["quoted"]) == 1:
            key = re.search(r"\w+\s*=\s*$", text[: match.start("quoted")])  # no value: it could be a password
            after = f", after '{key[0].strip()}'," if key is not None else ""
            raise UsageError(
                f"the quote at character {match.start('quoted') + 1}{after} is not closed",
                fix="close it; a quote inside quotes is written twice",
            )
        return match["before"] + _INSIDE * len(match["quoted"])

    return _BEGINS.sub(replace, text)


def _unmatched(text: str, position: int, present: str, missing: str) -> UsageError:
    return UsageError(
        f"the parenthesis {present} at character {position + 1} of '{text}' is not {missing}",
        fix='put components in parentheses, rrf:A+(B:key=value); put a value that holds one in quotes: key="a(b"',
    )


def quote_dataset(name: str) -> str:
    """Return a name as a list of datasets holds it: in quotes if a comma or a quote would cut it."""
    return '"{}"'.format(name.replace('"', '""')) if "," in name or '"' in name else name
