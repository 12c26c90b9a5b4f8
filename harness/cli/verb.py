"""A verb of the command line, made of the options that ``harness.plan.config`` declares.

The command line gives texts; they become values of the options' types here, all faulty ones together. What it leaves
out comes from ``harness.toml``, else from the declarations.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer
import typer.core
import typer.main

from harness.cli.config import FILE_NAME, read_settings
from harness.cli.plain import PlainCommand
from harness.cli.targets import check_written_files
from harness.errors import UsageError
from harness.plain_url import without_secrets
from harness.plan.config import COMPARED, GROUPS, OUTPUT
from harness.plan.option_fields import Mistakes, Option, OptionField, Options, option_fields, require
from harness.user_path import user_path

_STRAY = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", re.DOTALL)
_WORDS = "words_without_flags"
"""Parameter of Typer's command that collects words without a flag."""
_WrongCommandLine = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
"""What Typer raises for a wrong command line, and does not export."""


@dataclass(frozen=True, slots=True)
class DeclaredVerb:
    """A function that takes options of some kinds; the options of later kinds never repeat a name.

    Where there are ``changes``, those that are given come last, by name.
    """

    function: Callable[..., None]
    kinds: tuple[type[Options], ...]
    changes: Callable[[], Mapping[str, OptionField]] | None = None

    @property
    def fields(self) -> Mapping[str, OptionField]:
        """Every option by name: arguments, then group by group as help lists them."""
        fields = {name: field for kind in self.kinds for name, field in option_fields(kind).items()}
        fields |= self.changes() if self.changes is not None else {}
        by_group = sorted(fields.values(), key=_place)
        return {field.name: field for field in by_group}

    def __call__(self, **values: object) -> None:
        """Call the function with options of these values; those left out have their defaults.

        Raises UsageError for wrong values of the last kind; a request before it is checked where it is planned.
        """
        unknown = values.keys() - self.fields.keys()
        if unknown:
            raise TypeError(f"no option of the verb: {', '.join(sorted(unknown))}")
        options = [
            kind(**{name: values[name] for name in option_fields(kind) if name in values}) for kind in self.kinds
        ]
        if options:
            require(options[-1])
        changes = [] if self.changes is None else [{name: values[name] for name in self.changes() if name in values}]
        self.function(*options, *changes)


def _place(field: OptionField) -> tuple[int, bool]:
    return (-1 if field.option.argument else GROUPS.index(field.option.group), not field.option.common)


def verb(
    *kinds: type[Options], changes: Callable[[], Mapping[str, OptionField]] | None = None
) -> Callable[[Callable[..., None]], DeclaredVerb]:
    """Declare a function as a verb that takes options of these kinds, one object each, and perhaps ``changes``."""
    return lambda function: DeclaredVerb(function, kinds, changes)


def command_of(name: str, declared: DeclaredVerb, *, configured: bool) -> Any:
    """Make Typer's command of a verb; a ``configured`` one reads ``harness.toml``, or what ``--config`` names."""

    def run(config: str | None = None, **texts: Any) -> None:
        _run(name, declared, config, texts, configured=configured)

    parameters = [_parameter(field) for field in declared.fields.values()]
    unflagged = [field for field in declared.fields.values() if field.option.unflagged]
    if unflagged:
        metavar = "] [".join(field.name.upper() for field in unflagged)  # Typer puts brackets around it
        words = typer.Argument(metavar=metavar, show_default=False, hidden=True)
        parameters.append(_keyword(_WORDS, list[str] | None, words))
    if configured:
        declared_config = typer.Option(
            "--config",
            help=f"File with options of this command.  [default: {FILE_NAME} of the current folder, if there is one]",
            metavar="FILE",
            show_default=False,
            rich_help_panel=OUTPUT,
        )
        parameters.append(_keyword("config", str | None, declared_config))

    class Command(_GroupedCommand):
        fields = tuple(declared.fields.values())

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__doc__ = declared.function.__doc__
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, cls=Command)(run)
    return typer.main.get_command(single)


def _run(
    name: str, declared: DeclaredVerb, config: str | None, texts: Mapping[str, Any], *, configured: bool = False
) -> None:
    """Call a verb with what the command line gives, and with what the file of settings has."""
    fields = declared.fields
    words = texts.get(_WORDS) or []
    given = {key: text for key, text in texts.items() if key != _WORDS and text is not None and text != []}
    from_file = _from_file(name, declared, config) if configured else {}
    values = from_file | _parsed(fields, _with_words(fields, given, words, from_file))
    missing = [field for field in fields.values() if field.default is MISSING and field.name not in values]
    if missing:
        example = (declared.function.__doc__ or "").partition("Example: ")[2].strip()
        raise _not_given(name, missing, config, example, configured=configured)
    check_written_files(fields, values)
    declared(**values)


@dataclass(frozen=True, slots=True)
class VerbGroup:
    """Verbs below another one.

    Args:
        help: What they are for.
        verbs: Each by its name.
        unnamed: The verb that runs where none is named; None shows help. Its options may stand before another verb.
        verb_of: Returns the verb that a word which names none is an argument of; raises HarnessError for none.
    """

    help: str
    verbs: Mapping[str, DeclaredVerb]
    unnamed: str | None = None
    verb_of: Callable[[str], str] | None = None


def group_of(group: VerbGroup) -> Any:
    """Make Typer's command of a group of verbs."""

    class Group(typer.core.TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if group.verb_of is not None and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
                args = [group.verb_of(args[0]), *args]
            return super().resolve_command(ctx, args)

    unnamed = group.unnamed

    def run(context: typer.Context, **texts: Any) -> None:
        if context.invoked_subcommand is None and unnamed is not None:
            _run(unnamed, group.verbs[unnamed], None, texts)
        elif context.invoked_subcommand is not None:
            context.default_map = {
                context.invoked_subcommand: {key: text for key, text in texts.items() if text is not None}
            }

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    fields = [] if unnamed is None else group.verbs[unnamed].fields.values()
    run.__signature__ = inspect.Signature([context, *map(_parameter, fields)])  # type: ignore[attr-defined]
    app = typer.Typer(cls=Group, add_completion=False, rich_markup_mode=None)
    app.callback(help=group.help, invoke_without_command=unnamed is not None, no_args_is_help=unnamed is None)(run)
    made: Any = typer.main.get_command(app)
    for name, declared in group.verbs.items():
        made.add_command(command_of(name, declared, configured=False), name)
    return made


class _GroupedCommand(PlainCommand):
    """A command of declared options: help has their groups, and a value that stands without one is told its option."""

    fields: tuple[OptionField, ...] = ()

    def heading(self, parameter: Any) -> str:
        """Return the group of an option."""
        return getattr(parameter, "rich_help_panel", None) or OUTPUT

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the command line; refuse a value without its option, and a list that stands twice."""
        args = _with_flag_values(self.fields, args)
        typed = Counter(word.partition("=")[0] for word in args)
        for field in self.fields:
            if typed[field.flag] > 1 and field.option.commas and field.kind != "list":
                raise UsageError(f"{field.flag} is given twice", fix="give it once, with commas between the values")
        try:
            return super().parse_args(ctx, args)
        except _WrongCommandLine as error:
            stray = _STRAY.fullmatch(error.message)
            options = _options_of_stray(self.fields, typed)
            if stray is None or not options:
                raise
            words = without_secrets(stray[1])
            raise UsageError(
                f"no option stands before {words}",
                fix=f"write {' or '.join(f'{option.flag} {words}' for option in options)}",
            ) from error


def _with_flag_values(fields: Sequence[OptionField], args: Sequence[str]) -> list[str]:
    """Return the command line with the value of a flag that stands for one; a number behind it is its value."""
    filled = []
    for position, word in enumerate(args):
        filled.append(word)
        for field in fields:
            if word == field.flag and field.option.flag_value is not None:
                following = args[position + 1] if position + 1 < len(args) else ""
                is_number = following.isdecimal() and not user_path(following).exists()  # 11 is a wrong value
                if following not in field.option.choices and not is_number:
                    filled[-1] = f"{word}={field.option.flag_value}"
    return filled


def _options_of_stray(fields: Sequence[OptionField], typed: Collection[str]) -> list[OptionField]:
    """Return the options that a value without one may be of: those still required, else the main one of the data."""
    absent = [field for field in fields if not field.option.argument and field.flag not in typed]
    required = [field for field in absent if field.default is MISSING]
    main = [field for field in absent if field.option.group == COMPARED and field.option.common]
    return required or main[:1]


def _parameter(field: OptionField) -> inspect.Parameter:
    """Return an option as a parameter of Typer's: a text, a list of texts, or yes and no; None where it is left out."""
    kinds: dict[str, Any] = {"bool": bool | None, "list": list[str] | None}
    shown = field.shown_default
    settings: dict[str, Any] = {
        "help": field.help + (f"  [default: {shown}]" if shown else ""),
        "metavar": field.metavar or None,
        "show_default": False,
    }
    if field.option.completes is not None or field.option.choices:
        settings["autocompletion"] = _completion(field.option)
    if field.option.argument:
        declared = typer.Argument(rich_help_panel="Arguments", **settings)
    else:
        off = f"/--no-{field.flag.removeprefix('--')}" if field.switches_off else ""
        declared = typer.Option(
            f"{field.flag}{off}", *field.option.flags, rich_help_panel=field.option.group, **settings
        )
    return _keyword(field.name, kinds.get(field.kind, str | None), declared)


def _keyword(name: str, kind: Any, declared: Any) -> inspect.Parameter:
    annotation = Annotated[kind, declared]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _completion(option: Option) -> Callable[[str], list[tuple[str, str]]]:
    """Return what completes a choice, or the last of several names between commas, when Tab is pressed."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        if option.choices:
            return [(choice, "") for choice in option.choices if choice.startswith(incomplete)]
        from harness.registry.lookup import dataset_names, find_cards

        backends = option.completes == "backends"
        names = {name: card.summary for name, card in find_cards("backends").items()} if backends else dataset_names()
        before, comma, last = incomplete.rpartition(",")
        return [(f"{before}{comma}{name}", summary) for name, summary in names.items() if name.startswith(last)]

    return complete


def _parsed(fields: Mapping[str, OptionField], texts: Mapping[str, Any]) -> dict[str, object]:
    """Return the values of the texts that were given; raises one UsageError for all that stand for none."""
    values: dict[str, object] = {}
    mistakes = Mistakes()
    for name, text in texts.items():
        with mistakes.collected():
            values[name] = fields[name].parse(text) if isinstance(text, str) else text
    mistakes.raise_if_any()
    return values


def _with_words(
    fields: Mapping[str, OptionField], texts: Mapping[str, Any], words: Sequence[str], from_file: Collection[str]
) -> dict[str, Any]:
    """Return the texts of options with the words that stand without a flag."""
    texts, rest = dict(texts), list(words)
    for name, field in fields.items():
        if field.option.unflagged and rest:
            if field.kind == "list":
                texts[name] = [*texts.get(name, ()), *rest]
                rest = []
            elif name not in texts and name not in from_file:
                texts[name] = rest.pop(0)
    return texts


def _from_file(name: str, declared: DeclaredVerb, config: str | None) -> dict[str, object]:
    place = user_path(config or FILE_NAME)
    if config is None and not place.is_file():
        return {}
    values = read_settings(place, name)
    taken = [key for key in declared.fields if key in values]
    if taken:
        typer.echo(f"options from {place}: {', '.join(taken)}", err=True)
    return values


def _not_given(
    name: str, missing: Sequence[OptionField], config: str | None, example: str, *, configured: bool
) -> UsageError:
    """Return the error for required options that were not given: where they can stand, and a whole command."""
    if not configured:
        listed = " and ".join(field.flag for field in missing)
        verb = "is" if len(missing) == 1 else "are"
        return UsageError(f"{listed} {verb} not given", fix=f"write for example: {example}")
    place = config or FILE_NAME
    there = Path(place).is_file()
    lacking = f"[{name}] of {place} has none" if there else f"there is no {FILE_NAME} here"
    instead = f"give it in {place}" if there else f"have `harness init` write a {FILE_NAME}, which later commands read"
    return UsageError(
        f"'{missing[0].name}' is not given, and {lacking}", fix=f"write for example: {example}\n  or {instead}"
    )
