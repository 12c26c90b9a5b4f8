"""Lists and objects in a cell of a golden set's table: as JSON, as Python or NumPy prints them, or with separators.

And filters as text, in cells and records.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from itertools import pairwise
from typing import Any

import orjson

from harness.data.python_values import plain

SEPARATORS = re.compile(r"[;|]")
"""Characters that separate several ids in a cell."""
_STRUCTURE = ("[", "{")
_CONDITION = re.compile(r"[\w.-]+(?: [\w.-]+)*\s*=(?!=)\s*\S.*", re.DOTALL)
"""A condition ``field=value`` of a filter, unlike a comparison (``a >= 1``, ``a == 1``) or other text with ``=``."""
_JOINED_CONDITIONS = re.compile(r"[,;]")
_LIST_OF_TEXTS = re.compile(r"""\[\s*(['"\]]|[rub]{1,2}['"])""")


def is_structure(cell: str) -> bool:
    """Return whether a cell holds a list or an object."""
    return cell.startswith(_STRUCTURE)


def parse_ids(cell: str) -> Any:
    """Return the ids in a cell: a list or an object, or ids between separators; an empty list for an empty cell.

    Raises ValueError, in words that follow the name of the column, for a malformed list or object.
    """
    return parse_structure(cell) if is_structure(cell) else id_parts(cell)


def id_parts(cell: str) -> list[str]:
    """Return the ids between separators; none for an empty cell."""
    return [part.strip() for part in SEPARATORS.split(cell)] if cell else []


def id_readings(cell: str) -> tuple[list[str], ...]:
    """Return the other ways to read a cell of several ids: cut at one of the separators, or the whole cell."""
    if is_structure(cell) or not SEPARATORS.search(cell):
        return ()
    return ([part.strip() for part in cell.split(";")], [part.strip() for part in cell.split("|")], [cell])


def parse_texts(cell: str) -> Any:
    """Return the list of texts in a cell, or the cell itself if it is one text; raises as :func:`parse_ids`."""
    return parse_structure(cell) if _LIST_OF_TEXTS.match(cell) else cell


def condition_pairs(value: Any, *, any_text: bool = False) -> list[tuple[str, str]] | None:
    """Return field and value of each condition ``field=value`` of a text or a list of texts; None if it has others.

    A text may join conditions with ``,`` or ``;``. ``any_text`` takes every text with ``=`` as a condition.
    """
    parts = _JOINED_CONDITIONS.split(value) if isinstance(value, str) else []
    items = parts if len(parts) > 1 and all(map(_is_condition, parts)) else [value]
    items = list(value) if isinstance(value, list | tuple) else items
    if not all(_is_condition(item) or (any_text and isinstance(item, str) and "=" in item) for item in items):
        return None
    pairs = [item.partition("=") for item in items]
    return [(field.strip(), condition.strip()) for field, _, condition in pairs]


def _is_condition(item: object) -> bool:
    return isinstance(item, str) and _CONDITION.fullmatch(item.strip()) is not None


def parse_structure(cell: str) -> Any:
    """Return the value of a list or an object in JSON, or as Python or NumPy prints it; raises as :func:`parse_ids`."""
    try:
        return orjson.loads(cell)
    except orjson.JSONDecodeError as error:
        problem = f"is malformed JSON: {error.msg} in column {error.colno}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not have
            return plain(ast.literal_eval(_separate_texts(cell)))
    except (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError) as error:
        raise ValueError(problem) from error


def _separate_texts(cell: str) -> str:
    """Return a list with commas between its texts: NumPy prints none, and Python would join the texts."""
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(cell).readline) if token.type not in _SPACE]
    lines = cell.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    cuts = [
        starts[after.start[0] - 1] + after.start[1]
        for before, after in pairwise(tokens)
        if before.type == after.type == tokenize.STRING
    ]
    for cut in reversed(cuts):
        cell = f"{cell[:cut]},{cell[cut:]}"
    return cell


_SPACE = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT)
