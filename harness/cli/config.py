"""``harness.toml``: options of the command line in a file, for the verbs that CI runs and those about their results.

A table for each verb (``[check]``, ``[compare]`` …), whose keys are that verb's own options and argument with ``_`` for
``-``. The known keys are read off the declared options, so that a new option works in the file at once. The command
line comes before the file, the file before the defaults.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from harness.cli.verbs import VERBS, load_verb
from harness.plan.option_fields import OptionField
from harness.registry.strict_toml import Table, parse_document, read_document
from harness.user_path import existing_path, user_path

if TYPE_CHECKING:
    from harness.cli.verb import DeclaredVerb

FILE_NAME = "harness.toml"
_PATH_IN_TEXT = re.compile(r"(?P<before>=|\brun:)(?P<place>[^,;|+=]+)")
"""Expressions that may hold a path: the value of a parameter, or the file of a run."""


def configured_verbs() -> tuple[str, ...]:
    """Return the verbs that read the file."""
    return tuple(name for name, verb in VERBS.items() if verb.configured)


@functools.cache
def settings_of(verb: str) -> Mapping[str, OptionField]:
    """Return the keys of one verb's table, in the order of its options."""
    return cast("DeclaredVerb", load_verb(verb)).fields


def read_settings(path: Path, verb: str, content: str | None = None) -> dict[str, Any]:
    """Return the values of one verb's table by option; paths are relative to the file.

    ``content`` is the text of a file that is not written yet. All tables of the file are looked at. Raises CardError
    with every unknown table, unknown key and wrong type at once.
    """
    document = read_document(path, "file") if content is None else parse_document(path, content.encode(), "file")
    root = Table(document.values)
    values: dict[str, dict[str, Any]] = {}
    for name in configured_verbs():
        table, settings = root.table(name), settings_of(name)
        read = {key: _value(table, key, field) for key, field in settings.items()}
        table.close()
        values[name] = {
            key: _placed(value, settings[key], path.parent) for key, value in read.items() if value is not None
        }
    root.close()
    root.raise_problems(path, "file")
    return values[verb]


def _value(table: Table, key: str, field: OptionField) -> Any:
    value = table.values.get(key)
    if field.kind == "list":
        if isinstance(value, int | float) and not isinstance(value, bool):  # max_drop = 0.05
            value = table.values[key] = str(value)
        texts = table.optional(key, str) if isinstance(value, str) else table.strings(key)
        return [texts] if isinstance(texts, str) else None if texts is None else list(texts)
    if field.option.commas and isinstance(value, list):
        parts = table.strings(key)
        return ",".join(parts) if parts is not None else None
    kinds: dict[str, type] = {"bool": bool, "int": int, "float": float}
    return table.optional(key, kinds.get(field.kind, str))


def _placed(value: Any, field: OptionField, folder: Path) -> Any:
    """Return a value whose paths start at the file's folder: all of a path's option, else existing paths only."""
    if folder == Path():
        return value
    if isinstance(value, list):
        return [_placed(item, field, folder) for item in value]
    if field.holds_paths:
        return str(folder / user_path(value))
    if not isinstance(value, str):
        return value
    if existing_path(folder / value) is not None:
        return str(folder / value)
    return _PATH_IN_TEXT.sub(lambda match: match["before"] + _existing(match["place"], folder), value)


def _existing(path_text: str, folder: Path) -> str:
    return path_text if existing_path(folder / path_text) is None else str(folder / path_text)
