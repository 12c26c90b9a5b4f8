"""Ids of objects in memory as a column of text: strings as they are, whole numbers in decimal digits."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from reprlib import Repr

import pyarrow as pa

from harness.data.arrow import strings

__all__ = ["described", "id_column", "is_id"]

_SHORT = Repr()
_SHORT.maxstring, _SHORT.maxlist, _SHORT.maxtuple, _SHORT.maxset, _SHORT.maxdict, _SHORT.maxlevel = 40, 3, 3, 3, 2, 3
_SHOWN = (str, bytes, int, float, list, tuple, dict, set, frozenset)


def is_id(value: object) -> bool:
    """Return whether ``value`` can be an id: a string or a whole number, NumPy's too; truth values cannot."""
    return isinstance(value, str) or (isinstance(value, Integral) and not isinstance(value, bool))


def id_column(values: Iterable[object]) -> pa.StringArray:
    """Return ids as a column of text, in their order.

    Raises:
        TypeError: a value is no id.
        UnicodeEncodeError: a lone surrogate.
    """
    items = list(values)
    try:
        column = strings(items)  # type: ignore[arg-type] # nearly always all are strings
    except TypeError:
        column = None
    if column is not None and not column.null_count:
        return column
    for value in items:
        if not is_id(value):
            raise TypeError(f"an id is {described(value)}, expected a string or a whole number")
    return strings(map(str, items))


def described(value: object) -> str:
    """Return the type of ``value`` and its beginning: ``an int (3)``; only the type of what has no short form."""
    if value is None:
        return "None"
    name = type(value).__name__
    kind = f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
    return f"{kind} ({' '.join(_SHORT.repr(value).split())})" if isinstance(value, _SHOWN) else kind
