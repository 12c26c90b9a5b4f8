"""Code of other packages that the harness runs: its engines, their cards, and their formulas."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import harness
from harness.errors import HarnessError

_PACKAGE = Path(harness.__file__).parent


@contextmanager
def foreign_code(
    doing: str, kind: type[HarnessError], fix: str, *, passing: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Raise whatever the block raises as a ``kind`` that says where; errors of the harness and ``passing`` pass.

    ``doing`` begins the message: "DOING raised ValueError: … (line 3 of 'theirs.py')".
    """
    unchanged: tuple[type[Exception], ...] = (HarnessError, *passing)
    try:
        yield
    except unchanged:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        outside = not Path(last.filename).is_relative_to(_PACKAGE)
        place = f" (line {last.lineno} of '{last.filename}')" if outside else ""
        raise kind(f"{doing} raised {type(error).__name__}: {error}{place}", fix=fix) from error
