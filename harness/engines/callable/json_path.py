"""A small JSON path: dotted names, ``[*]`` for every element, ``[n]`` for one, ``["odd.name"]`` for any name.

``results[*].id`` gives the id of each element; a path that ends at a list stands for its elements; ``$.`` may stand
before it. An empty path is the whole document. Nothing is skipped: what is not there is an error, an empty list is not.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError

__all__ = ["JsonPath"]

_STEP = re.compile(r'\.?(?P<name>[^\s.\[\]"$]+)|\[(?P<index>\*|-?\d+)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]')
_EVERY = "*"
_NAMED = 8


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path. ``steps`` are names (str), positions (int), or None for every element."""

    text: str
    steps: tuple[str | int | None, ...]

    @classmethod
    def parse(cls, text: str) -> JsonPath:
        """Raises UsageError for a malformed path, with the place where it stops making sense."""
        steps: list[str | int | None] = []
        place = 1 if text.startswith("$") else 0
        while place < len(text):
            found = _STEP.match(text, place)
            if found is None:
                raise UsageError(
                    f"the JSON path '{text}' is malformed at '{text[place:]}'", fix="write one like results[*].id"
                )
            name, index, quoted = found.group("name", "index", "quoted")
            if index is not None:
                steps.append(None if index == _EVERY else int(index))
            else:
                steps.append(name if name is not None else str(json.loads(quoted)))
            place = found.end()
        return cls(text, tuple(steps))

    def find(self, document: Any) -> list[Any]:  # noqa: ANN401 - decoded JSON
        """The values that the path leads to, in order; raises ValueError saying what is not where it should be."""
        found: list[tuple[str, Any]] = [("the answer", document)]
        for step in self.steps:
            found = [one for where, value in found for one in _step(where, value, step)]
        if None not in self.steps and len(found) == 1 and isinstance(found[0][1], list):
            return list(found[0][1])
        return [value for _, value in found]


def _step(where: str, value: Any, step: str | int | None) -> list[tuple[str, Any]]:  # noqa: ANN401 - decoded JSON
    if isinstance(step, str):
        if not isinstance(value, dict):
            raise ValueError(f"{where} is {_kind(value)}, and '{step}' was looked for in it")
        if step not in value:
            there = ", ".join(list(value)[:_NAMED]) or "nothing"
            raise ValueError(f"{where} has no '{step}' (there is: {there})")
        return [(f"'{step}' of {where}", value[step])]
    if not isinstance(value, list):
        raise ValueError(f"{where} is {_kind(value)}, expected a list")
    if step is None:
        return [(f"element {place} of {where}", one) for place, one in enumerate(value)]
    if not -len(value) <= step < len(value):
        raise ValueError(f"{where} has {len(value)} elements, and [{step}] was looked for")
    return [(f"element {step} of {where}", value[step])]


def _kind(value: Any) -> str:  # noqa: ANN401 - decoded JSON
    kinds = {dict: "an object", list: "a list", str: "a string", type(None): "null", bool: "true or false"}
    return kinds.get(type(value), "a number")
