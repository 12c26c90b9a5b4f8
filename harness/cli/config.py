"""``harness.toml``: what the command line would say otherwise, for the verbs that CI runs.

A table for each verb (``[check]``, ``[compare]``, ``[regress]``), whose keys are that verb's own options and argument
with ``_`` for ``-``. What is known is read off the declared options, so that one that is added there can stand in the
file at once. The command line comes before the file, the file before the defaults.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, NamedTuple, cast

from harness.cli.app import VERBS, load_verb
from harness.cli.verb import FILE_NAME, DeclaredVerb
from harness.registry.strict_toml import Table, read_document

__all__ = ["FILE_NAME", "Setting", "configured_verbs", "read_settings", "settings_of"]

_PLACE = re.compile(r"(?P<before>=|\brun:)(?P<place>[^,;|+=]+)")
"""Where an expression may hold a path: the value of a parameter, or the file of a run."""


class Setting(NamedTuple):
    """One key of a verb's table.

    ``kind`` is bool, int, float, str, Path, or list for an option that may be given several times. ``commas`` is true
    for a str that lists things between commas.
    """

    kind: type
    commas: bool
    help: str


def configured_verbs() -> tuple[str, ...]:
    """The verbs that read the file."""
    return tuple(name for name, verb in VERBS.items() if verb.configured)


@functools.cache
def settings_of(verb: str) -> dict[str, Setting]:
    """Key -> setting of one verb, in the order of its options."""
    declared = cast("DeclaredVerb", load_verb(verb))
    kinds = {"bool": bool, "int": int, "float": float, "str": str, "path": Path, "list": list}
    return {
        name: Setting(kinds[field.kind], field.option.commas, field.option.help)
        for name, field in declared.fields.items()
    }


def read_settings(path: Path, verb: str) -> dict[str, Any]:
    """What the file says for one verb: option -> value.

    Paths are relative to the file. All its tables are looked at. Raises CardError with every unknown table, unknown
    key and wrong type at once.
    """
    root = Table(read_document(path, "file").values)
    found: dict[str, dict[str, Any]] = {}
    for name in configured_verbs():
        table, settings = root.table(name), settings_of(name)
        read = {key: _value(table, key, setting) for key, setting in settings.items()}
        table.close()
        found[name] = {
            key: _placed(value, settings[key].kind, path.parent) for key, value in read.items() if value is not None
        }
    root.close()
    root.raise_problems(path, "file")
    return found[verb]


def _value(table: Table, key: str, setting: Setting) -> Any:  # noqa: ANN401 - as many types as options have
    given = table.values.get(key)
    if setting.kind is list:
        return [table.optional(key, str)] if isinstance(given, str) else _listed(table.strings(key))
    if setting.commas and isinstance(given, list):
        parts = table.strings(key)
        return ",".join(parts) if parts is not None else None
    return table.optional(key, str if setting.kind is Path else setting.kind)


def _listed(values: tuple[str, ...] | None) -> list[str] | None:
    return None if values is None else list(values)


def _placed(value: Any, kind: type, folder: Path) -> Any:  # noqa: ANN401 - as above
    """Paths in a value, taken from the file's folder: all of a path's option, else what is there."""
    if folder == Path():
        return value
    if isinstance(value, list):
        return [_placed(one, kind, folder) for one in value]
    if kind is Path:
        return str(folder / value)
    if not isinstance(value, str):
        return value
    if (folder / value).exists():
        return str(folder / value)
    return _PLACE.sub(lambda found: found["before"] + _existing(found["place"], folder), value)


def _existing(place: str, folder: Path) -> str:
    return str(folder / place) if (folder / place).exists() else place
