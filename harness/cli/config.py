"""``harness.toml``: what the command line would say otherwise, for the verbs that CI runs.

A table for each verb (``[check]``, ``[compare]``, ``[regress]``), whose keys are that verb's own options and argument
with ``_`` for ``-``. What is known is read off the verb's signature, so that an option that is added there can stand in
the file at once. The command line comes before the file, the file before the defaults.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer
import typer.main

from harness.cli.app import VERBS, load_verb
from harness.cli.verb import FILE_NAME, DeclaredVerb
from harness.errors import UsageError
from harness.registry.strict_toml import Table, read_document

__all__ = ["FILE_NAME", "Setting", "configured", "configured_verbs", "read_settings", "settings_of"]

_PLACE = re.compile(r"(?P<before>=|\brun:)(?P<place>[^,;|+=]+)")
"""Where an expression may hold a path: the value of a parameter, or the file of a run."""


class Setting(NamedTuple):
    """One key of a verb's table.

    ``parameter`` is the name in the verb's signature; ``kind`` is bool, int, float, str, Path, or list for an option
    that may be given several times. ``commas`` is true for a str that lists things between commas.
    """

    parameter: str
    kind: type
    commas: bool
    help: str


def configured_verbs() -> tuple[str, ...]:
    """The verbs that read the file."""
    return tuple(name for name, verb in VERBS.items() if verb.configured)


@functools.cache
def settings_of(verb: str) -> dict[str, Setting]:
    """Key -> setting of one verb, in the order of its options."""
    declared = load_verb(verb)
    if isinstance(declared, DeclaredVerb):
        kinds = {"bool": bool, "int": int, "float": float, "str": str, "path": Path, "list": list}
        return {
            name: Setting(name, kinds[field.kind], field.option.commas, field.option.help)
            for name, field in declared.fields.items()
        }
    function = cast("Callable[..., None]", declared)  # a group of verbs has no options of its own
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(verb)(function)
    hints = typing.get_type_hints(function)
    found = {}
    for parameter in typer.main.get_command(single).params:
        long = [name for name in parameter.opts if name.startswith("--")]
        key = (long or [str(parameter.name)])[0].lstrip("-").replace("-", "_")
        if str(parameter.name) in hints:
            kind = _kind(hints[str(parameter.name)])
            help_text = getattr(parameter, "help", None) or ""
            found[key] = Setting(str(parameter.name), kind, parameter.metavar == "LIST", help_text)
    return found


def configured(verb: str, function: Callable[..., None]) -> Callable[..., None]:
    """``function`` with one more option, ``--config``, which reads the file before the other options are looked at.

    The verb itself never sees it: what the file says reaches it as defaults.
    """

    def read(context: typer.Context, path: Path | None) -> Path | None:
        place = path or Path(FILE_NAME)
        if not context.resilient_parsing and (path is not None or place.is_file()):
            values = read_settings(place, verb)
            context.default_map = {**values}
            keys = [key for key, setting in settings_of(verb).items() if setting.parameter in values]
            if keys:
                typer.echo(f"options from {place}: {', '.join(keys)}", err=True)
        return path

    signature = inspect.signature(function, eval_str=True)
    required = [one.name for one in signature.parameters.values() if one.default is one.empty]

    @functools.wraps(function)
    def without_config(config: Path | None = None, **given: Any) -> None:  # noqa: ANN401 - passed on; read above
        for name in required:
            if given[name] is None:
                raise _nowhere(verb, name, config, function.__doc__ or "")
        function(**given)

    option = typer.Option(
        "--config",
        callback=read,
        is_eager=True,
        help=f"File with options of this command; by default {FILE_NAME} of the current folder, if there is one.",
        metavar="FILE",
        show_default=False,
    )
    extra = inspect.Parameter(
        "config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, option]
    )
    without_config.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*(_optional(one) for one in signature.parameters.values()), extra]
    )
    return without_config


def _optional(parameter: inspect.Parameter) -> inspect.Parameter:
    """What the file may give, the command line need not."""
    return parameter.replace(default=None) if parameter.default is parameter.empty else parameter


def _nowhere(verb: str, name: str, config: Path | None, doc: str) -> UsageError:
    """What nobody gave: where it can stand, and a whole command as the verb's help has it."""
    place, example = config or Path(FILE_NAME), doc.partition("Example: ")[2].strip()
    there = place.is_file()
    return UsageError(
        f"'{name}' is not given, and "
        + (f"[{verb}] of {place} has none" if there else f"there is no {FILE_NAME} here"),
        fix=f"write for example: {example}\n  or "
        + (f"give it in {place}" if there else f"have `harness init` write a {FILE_NAME}, which later commands read"),
    )


def read_settings(path: Path, verb: str) -> dict[str, Any]:
    """What the file says for one verb: the parameters of its function -> values.

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
            settings[key].parameter: _placed(value, settings[key].kind, path.parent)
            for key, value in read.items()
            if value is not None
        }
    root.close()
    root.raise_problems(path, "file")
    return found[verb]


def _kind(annotation: Any) -> type:  # noqa: ANN401 - any annotation of a verb
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        (annotation,) = (one for one in typing.get_args(annotation) if one is not type(None))
        origin = typing.get_origin(annotation)
    return cast("type", origin or annotation)


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
