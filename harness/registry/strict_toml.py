"""Strict reading of small TOML files: every unknown key and wrong type is collected, then reported at once."""

from __future__ import annotations

import copy
import functools
import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from harness.errors import CardError, nearest
from harness.wording import counted

T = TypeVar("T", str, int, float, bool, list[Any], dict[str, Any])

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_TYPE_NAMES = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


class Document(NamedTuple):
    """A parsed TOML file: its values, and the SHA-256 of its bytes."""

    values: dict[str, Any]
    digest: str


def read_document(path: Path, kind: str = "card") -> Document:
    """Parse a TOML file; raises CardError with file and line when it cannot be read or is not TOML.

    ``kind`` names it in messages.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, kind) from error
    return parse_document(path, content, kind)


def unreadable(path: Path, error: OSError, kind: str = "card") -> CardError:
    """Return the error for a file that cannot be read."""
    return CardError(f"{kind} '{path}' cannot be read: {error.strerror}")


def parse_document(path: Path, raw: bytes, kind: str = "card") -> Document:
    """Parse the content of a TOML file; errors as of :func:`read_document`."""
    try:
        values = copy.deepcopy(_parsed(raw.decode("utf-8")))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise CardError(f"{kind} '{path}', line {line}: not UTF-8", fix="save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise CardError(f"{kind} '{path}' is not TOML: {error}") from error
    return Document(values, hashlib.sha256(raw).hexdigest())


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> dict[str, Any]:
    """Parse a card once: every call of the harness reads all cards, some of them twice."""
    return tomllib.loads(text)


class Table:
    """One TOML table being read. Sub-tables share its list of problems."""

    def __init__(self, values: dict[str, Any], prefix: str = "", problems: list[str] | None = None) -> None:
        self.values = values
        self.problems: list[str] = [] if problems is None else problems
        self.prefix = prefix
        self._read_keys: set[str] = set()

    def required(self, key: str, kind: type[T]) -> T:
        """Return the value of ``key``; a missing or wrong one is noted, and the empty value of its type returned."""
        value = self.optional(key, kind)
        if value is None:
            if key not in self.values:
                self.problem(f"'{self.prefix}{key}' is missing")
            return kind()
        return value

    def optional(self, key: str, kind: type[T]) -> T | None:
        """Return the value of ``key``, or None when it is absent or of the wrong type (which is noted)."""
        self._read_keys.add(key)
        value = self.values.get(key)
        if value is None:
            return None
        if kind is float and type(value) is int:
            return kind(value)
        if type(value) is not kind:
            self.problem(f"'{self.prefix}{key}' must be {_TYPE_NAMES[kind]}, not {value!r}")
            return None
        return value

    def choice(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """Return one of ``choices``; required when there is no default."""
        value = self.required(key, str) if default is None else self.optional(key, str) or default
        if value and value not in choices:
            self.problem(f"'{self.prefix}{key}' is '{value}'{nearest(value, choices)}, known: {', '.join(choices)}")
        return value

    def strings(self, key: str) -> tuple[str, ...] | None:
        """Return a list of strings, or None when absent or wrong (which is noted)."""
        items = self.optional(key, list)
        if items is None:
            return None
        if not all(type(item) is str for item in items):
            self.problem(f"'{self.prefix}{key}' must be a list of strings, not {items!r}")
            return None
        return tuple(items)

    def table(self, key: str) -> Table:
        """Return a sub-table; an absent one is empty."""
        return Table(self.optional(key, dict) or {}, f"{self.prefix}{key}.", self.problems)

    def tables(self) -> dict[str, Table]:
        """Return every value of this table as a sub-table, by key."""
        return {key: self.table(key) for key in self.values}

    def mapping(self, key: str, kind: type[T]) -> dict[str, T]:
        """Return a sub-table whose values are all of one type; an absent one is empty."""
        table = self.table(key)
        return {name: table.required(name, kind) for name in table.values}

    def problem(self, text: str) -> None:
        """Note one problem."""
        self.problems.append(text)

    def close(self) -> None:
        """Note every unused key, with the nearest known one."""
        for key in self.values:
            if key not in self._read_keys:
                hint = nearest(key, self._read_keys) or f", known: {', '.join(sorted(self._read_keys))}"
                self.problem(f"unknown key '{self.prefix}{key}'{hint}")

    def raise_problems(self, path: Path, kind: str = "card") -> None:
        """Raise one CardError with everything noted, if anything was."""
        if self.problems:
            lines = "".join(f"\n  {problem}" for problem in self.problems)
            raise CardError(f"{kind} '{path}': {counted(len(self.problems), 'problem')}{lines}")


def card_name(table: Table, path: Path) -> str:
    """Return the ``name`` of a card, and note if it differs from its file's name."""
    name = table.required("name", str)
    if name and not _NAME.fullmatch(name):
        table.problem(f"'name' is '{name}': small letters, digits, '.', '_' and '-' only")
    elif name and name != path.stem:
        table.problem(f"'name' is '{name}', but the file is called '{path.name}': they must agree")
    return name
