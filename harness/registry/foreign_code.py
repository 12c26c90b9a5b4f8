"""Code of other packages that the harness runs: its engines, their cards, and their formulas."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

from harness.errors import HarnessError

_NOT_FOREIGN = sys.stdlib_module_names | {"harness"}


def line_of(error: BaseException) -> str:
    """Return the line of another package that raised an exception, as " (line 3 of 'theirs.py')"; "" if none did so.

    It is the last line of the package that was called first, also if a library that it called raised the exception.
    """
    lines: dict[str, str] = {}
    for frame, number in walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _NOT_FOREIGN:
            lines[package] = f" (line {number} of '{frame.f_code.co_filename}')"
    return next(iter(lines.values()), "")


@contextmanager
def foreign_code(
    doing: str, kind: type[HarnessError], fix: str, *, passing: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Raise any exception of the block as a ``kind`` with its location; errors of the harness and ``passing`` pass.

    ``doing`` begins the message: "DOING raised ValueError: … (line 3 of 'theirs.py')".
    """
    unchanged: tuple[type[Exception], ...] = (HarnessError, *passing)
    try:
        yield
    except unchanged:
        raise
    except Exception as error:
        raise kind(f"{doing} raised {type(error).__name__}: {error}{line_of(error)}", fix=fix) from error
