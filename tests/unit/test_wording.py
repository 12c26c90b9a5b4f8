"""Text that messages and tables hold, whatever ids are."""

from __future__ import annotations

import pytest

from harness.errors import DataError, UsageError
from harness.wording import readable, shortened


def test_control_characters_are_escaped() -> None:
    assert readable("a\x1b[31mb\tc\u202ed\x85") == "a\\x1b[31mb\\tc\\u202ed\\x85"
    assert readable("two\nlines, Zoë, 'e\u0301'") == "two\nlines, Zoë, 'e\u0301'"


@pytest.mark.parametrize("length", [161, 5_000_000])
def test_long_ids_are_shortened_and_counted(length: int) -> None:
    text = readable(f"document '{'x' * length}' of query '{'y' * 160}'")
    assert len(text) < 400
    assert f"({length:,} characters)' of query '{'y' * 160}'" in text


def test_long_lines_and_cells_are_shortened() -> None:
    assert len(readable("word " * 10_000)) < 2000
    assert shortened("x" * 161).startswith("x" * 80 + "…")
    assert shortened("a\nb") == "a\nb"


def test_every_error_is_readable() -> None:
    error = DataError("run", ["document 'a\x1bb' twice", "id 'a\nb'"], fix="see '\x07'")
    assert str(error) == "run: 2 problems\n  document 'a\\x1bb' twice\n  id 'a\\nb'\n  see '\\x07'"
    assert "(5,000 characters)" in str(UsageError(f"unknown '{'x' * 5000}'"))
