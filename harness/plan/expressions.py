"""The shape of backend expressions: lists, second stages, and fusions with components in parentheses.

::

    list       = item {"," item}
    item       = stage {"|" reranker}                     lucene|dense:candidates=50
    stage      = "(" item ")" | fusion | backend          rrf:lucene+(csr:k1=1.2);k=60
    fusion     = method ":" component {"+" component} {";" key "=" value}
    component  = name | "run:" FILE | "(" item ")"
    value      = characters | '"' characters '"' | "'" characters "'"

Separators inside parentheses separate nothing outside them, and inside quotes nothing at all. A quote opens only where
a name or a value begins; inside quotes it is written twice. A ``|`` is one only before the name of a reranker.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from harness.errors import UsageError

__all__ = [
    "FusionParts",
    "in_list",
    "in_parentheses",
    "quoted",
    "split_fusion",
    "split_outside",
    "split_stages",
    "unquoted",
    "without_parentheses",
]

_QUOTED = r"\"(?:[^\"]|\"\")*+\"|'(?:[^']|'')*+'"
_BEGINS = re.compile(rf"(?P<before>(?:^|[=:,;+(|])\s*)(?P<quoted>{_QUOTED}|[\"'])")
"""Quoted text, or a quote that nothing closes, where a name or a value begins."""
_SPECIAL = re.compile(r"[,;|()\"']|^\s|\s$")


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
    plain = re.fullmatch(r"[\w.-]+|run:[^+;|(),\"']+", label)
    return label if plain else f"({label})"


def in_list(item: str) -> str:
    """Return an item as it stands among others: in parentheses where a comma would cut it."""
    return item if split_outside(item, ",") == [item] else f"({item})"


def quoted(value: str) -> str:
    """Return a value as an expression holds it: in quotes where it would be cut or changed without them."""
    doubled = value.replace('"', '""')
    return f'"{doubled}"' if _SPECIAL.search(value) else value


def unquoted(text: str) -> str:
    """Return the value that ``text`` spells, with or without quotes around it.

    Raises ValueError where it begins with a quote and goes on after the closing one.
    """
    text = text.strip()
    if text[:1] not in ("'", '"'):
        return text
    if not re.fullmatch(_QUOTED, text):
        raise ValueError("a quoted value ends before its text does: a quote inside quotes is written twice")
    return text[1:-1].replace(text[0] * 2, text[0])


def _cut(text: str, places: Sequence[int]) -> list[str]:
    starts, ends = [0, *(place + 1 for place in places)], [*places, len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _outside(text: str) -> Iterator[int]:
    """Yield the places outside all quotes and parentheses, themselves excluded.

    Raises UsageError for a quote or a parenthesis without its counterpart.
    """
    opened: list[int] = []
    for place, character in enumerate(_without_quoted(text)):
        if character == "(":
            opened.append(place)
        elif character == ")":
            if not opened:
                raise _unmatched(text, place, "that is closed", "opened")
            opened.pop()
        elif not opened and character != _INSIDE:
            yield place
    if opened:
        raise _unmatched(text, opened[-1], "that is opened", "closed")


_INSIDE = "\0"


def _without_quoted(text: str) -> str:
    """Return ``text`` with every character of quoted text replaced; raises UsageError for an unclosed quote."""

    def replace(found: re.Match[str]) -> str:
        if len(found["quoted"]) == 1:
            key = re.search(r"\w+\s*=\s*$", text[: found.start("quoted")])  # no value: it could be a password
            after = f", after '{key[0].strip()}'," if key is not None else ""
            raise UsageError(
                f"the quote at character {found.start('quoted') + 1}{after} is not closed",
                fix="close it; a quote inside quotes is written twice",
            )
        return found["before"] + _INSIDE * len(found["quoted"])

    return _BEGINS.sub(replace, text)


def _unmatched(text: str, place: int, is_there: str, is_missing: str) -> UsageError:
    return UsageError(
        f"the parenthesis {is_there} at character {place + 1} of '{text}' is not {is_missing}",
        fix='parentheses stand around components, rrf:A+(B:key=value); put a value that holds one in quotes: key="a(b"',
    )
