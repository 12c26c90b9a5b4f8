"""A verb of the command line, made of the options that ``harness.plan.config`` declares.

The command line's texts become values of the options' types here; all faulty ones are reported together. Options that
are left out come from ``harness.toml``, else from the declarations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from harness.cli.config import FILE_NAME, read_settings
from harness.cli.group import OrderedGroup
from harness.cli.targets import check_written_files
from harness.errors import UsageError
from harness.plain_url import without_secrets
from harness.plan.config import COMPARED, GROUPS, OUTPUT
from harness.plan.option_fields import Mistakes, Option, OptionField, Options, option_fields, require
from harness.user_path import user_path

_STRAY = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", re.DOTALL)
_WORDS = "words_without_flags"
"""Parameter that collects words without a flag."""


@dataclass(frozen=True, slots=True)
class DeclaredVerb:
    """A function that takes options of some kinds; the options of later kinds never repeat a name.

    With ``changes``, the options given come last, by name.
    """

    function: Callable[..., None]
    kinds: tuple[type[Options], ...]
    changes: Callable[[], Mapping[str, OptionField]] | None = None

    @property
    def fields(self) -> Mapping[str, OptionField]:
        """Every option by name: arguments, then group by group as help lists them."""
        fields = {name: field for kind in self.kinds for name, field in option_fields(kind).items()}
        fields |= self.changes() if self.changes is not None else {}
        by_group = sorted(fields.values(), key=_sort_key)
        return {field.name: field for field in by_group}

    def __call__(self, **values: Any) -> None:
        """Call the function with options of these values; omitted options have their defaults.

        Raises UsageError for wrong values of the last kind; requests before it are checked by the plan.
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


def _sort_key(field: OptionField) -> tuple[int, bool]:
    return (-1 if field.option.argument else GROUPS.index(field.option.group), not field.option.common)


def verb(
    *kinds: type[Options], changes: Callable[[], Mapping[str, OptionField]] | None = None
) -> Callable[[Callable[..., None]], DeclaredVerb]:
    """Declare a function as a verb that takes options of these kinds, one object each, and perhaps ``changes``."""
    return lambda function: DeclaredVerb(function, kinds, changes)


class VerbCommand(click.Command):
    """The command of a verb; a ``configured`` one reads ``harness.toml``, or the file that ``--config`` names.

    Help lists the options in their groups.
    """

    def __init__(self, name: str, declared: DeclaredVerb, *, configured: bool = False) -> None:
        self.declared = declared
        self.configured = configured
        fields = declared.fields.values()
        parameters = [_parameter(field) for field in fields]
        unflagged = [f"[{field.name.upper()}]" for field in fields if field.option.unflagged]
        if unflagged:
            parameters.append(click.Argument([_WORDS], nargs=-1, metavar=f"{' '.join(unflagged)}..."))
        if configured:
            text = f"File with options of this command.  [default: {FILE_NAME} of the current folder, if there is one]"
            parameters.append(click.Option(["--config"], help=text, metavar="FILE"))
        super().__init__(name, params=parameters, help=declared.function.__doc__, callback=self.run)

    def run(self, config: str | None = None, **texts: Any) -> None:
        """Call the verb with the values of the command line and of the file of settings."""
        fields = self.declared.fields
        words = texts.pop(_WORDS, ())
        option_values = {key: text for key, text in texts.items() if text is not None and text != ()}
        from_file = _read_file(str(self.name), self.declared, config, option_values) if self.configured else {}
        values = from_file | _parsed(fields, _add_words(fields, option_values, words, from_file))
        missing = [field for field in fields.values() if field.default is MISSING and field.name not in values]
        if missing:
            example = str(self.help).partition("Example: ")[2].strip()
            raise _missing_options(str(self.name), missing, config, example, configured=self.configured)
        check_written_files(fields, values)
        self.declared(**values)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then each group of options."""
        fields = self.declared.fields
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            field = fields.get(parameter.name or "")
            if field is not None and field.option.argument:
                sections.setdefault("Arguments", []).append((field.metavar, _help(field)))
            elif (record := parameter.get_help_record(ctx)) is not None and parameter.name != _WORDS:
                sections.setdefault(OUTPUT if field is None else field.option.group, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing: later versions of click have a section for arguments, which are among the options here."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; refuse a value without its option, and a list that is given twice."""
        fields = tuple(self.declared.fields.values())
        args = _expand_flags(fields, args)
        typed = Counter(word.partition("=")[0] for word in args)
        for field in fields:
            if typed[field.flag] > 1 and field.option.commas and field.kind != "list":
                raise UsageError(f"{field.flag} is given twice", fix="give it once, with commas between the values")
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            stray = _STRAY.fullmatch(error.message)
            options = _options_of_stray(fields, typed)
            if stray is None or not options:
                raise
            words = without_secrets(stray[1])
            raise UsageError(
                f"no option precedes {words}",
                fix=f"write {' or '.join(f'{option.flag} {words}' for option in options)}",
            ) from error


class VerbGroup(OrderedGroup):
    """Verbs below another one.

    Args:
        help: Their purpose.
        verbs: Each verb by its name.
        unnamed: The default verb; None shows help. Its options may precede another verb.
        verb_of: Returns the verb that a word other than a verb is an argument of; raises HarnessError for none.
    """

    def __init__(
        self,
        help: str,  # noqa: A002 - click's word
        verbs: Mapping[str, DeclaredVerb],
        unnamed: str | None = None,
        verb_of: Callable[[str], str] | None = None,
    ) -> None:
        self.verbs = verbs
        self.unnamed = unnamed
        self.verb_of = verb_of
        fields = [] if unnamed is None else verbs[unnamed].fields.values()
        super().__init__(
            help=help,
            params=[_parameter(field) for field in fields],
            commands={name: VerbCommand(name, declared) for name, declared in verbs.items()},
            callback=click.pass_context(self.run),
            invoke_without_command=unnamed is not None,
            no_args_is_help=unnamed is None,
        )

    def run(self, context: click.Context, **texts: Any) -> None:
        """Call the default verb, or pass its options to the named verb."""
        if context.invoked_subcommand is not None:
            texts = {key: text for key, text in texts.items() if text is not None}
            context.default_map = {context.invoked_subcommand: texts}
        elif self.unnamed is not None:
            VerbCommand(self.unnamed, self.verbs[self.unnamed]).run(**texts)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that the first word names or is an argument of, and the words after it."""
        if self.verb_of is not None and args[0] not in self.commands and not args[0].startswith("-"):
            args = [self.verb_of(args[0]), *args]
        return super().resolve_command(ctx, args)


def _expand_flags(fields: Sequence[OptionField], args: Sequence[str]) -> list[str]:
    """Return the command line with the value of a flag that implies one; a number after the flag is its value."""
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
    """Return the options that a value without a flag may belong to: missing required ones, else the data's main one."""
    absent = [field for field in fields if not field.option.argument and field.flag not in typed]
    required = [field for field in absent if field.default is MISSING]
    main = [field for field in absent if field.option.group == COMPARED and field.option.common]
    return required or main[:1]


def _parameter(field: OptionField) -> click.Parameter:
    """Return an option as a parameter: a text, a tuple of texts, or yes and no; None if it is left out."""
    option = field.option
    complete = _completion(option) if option.completes is not None or option.choices else _complete_file
    if option.argument:
        several = field.kind == "list"
        metavar = f"[{field.metavar}]{'...' if several else ''}"
        return click.Argument(
            [field.name], required=False, nargs=-1 if several else 1, metavar=metavar, shell_complete=complete
        )
    off = f"/--no-{field.flag.removeprefix('--')}" if field.switches_off else ""
    names = [field.name, f"{field.flag}{off}", *option.flags]
    if field.kind == "bool":
        return click.Option(names, is_flag=True, default=None, help=_help(field))
    return click.Option(
        names, multiple=field.kind == "list", help=_help(field), metavar=field.metavar, shell_complete=complete
    )


def _help(field: OptionField) -> str:
    default_text = field.default_text
    return field.help + (f"  [default: {default_text}]" if default_text else "")


def _complete_file(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave it to the shell to complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def _completion(option: Option) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return completions of a choice, or of the last of several names between commas, when Tab is pressed."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        if option.choices:
            return [CompletionItem(choice) for choice in option.choices if choice.startswith(incomplete)]
        from harness.registry.lookup import dataset_names, find_cards

        backends = option.completes == "backends"
        names = {name: card.summary for name, card in find_cards("backends").items()} if backends else dataset_names()
        before, comma, last = incomplete.rpartition(",")
        items = [
            CompletionItem(f"{before}{comma}{name}", help=summary)
            for name, summary in names.items()
            if name.startswith(last)
        ]
        return items or _complete_file(context, parameter, incomplete)

    return complete


def _parsed(fields: Mapping[str, OptionField], texts: Mapping[str, Any]) -> dict[str, object]:
    """Return the values of the given texts; raises one UsageError for all invalid ones."""
    values: dict[str, object] = {}
    mistakes = Mistakes()
    for name, text in texts.items():
        with mistakes.collected():
            values[name] = fields[name].parse(text) if isinstance(text, str) else text
    mistakes.raise_if_any()
    return values


def _add_words(
    fields: Mapping[str, OptionField], texts: Mapping[str, Any], words: Sequence[str], from_file: Collection[str]
) -> dict[str, Any]:
    """Return the texts of options with the words that have no flag."""
    texts, rest = dict(texts), list(words)
    for name, field in fields.items():
        if field.option.unflagged and rest:
            if field.kind == "list":
                texts[name] = [*texts.get(name, ()), *rest]
                rest = []
            elif name not in texts and name not in from_file:
                texts[name] = rest.pop(0)
    return texts


def _read_file(
    name: str, declared: DeclaredVerb, config: str | None, option_values: Collection[str]
) -> dict[str, object]:
    """Return the values of a file that apply in addition to the options of the command line."""
    path = user_path(config or FILE_NAME)
    if config is None and not path.is_file():
        return {}
    overridden = {other for option in option_values for other in declared.fields[option].option.overrides}
    values = {key: value for key, value in read_settings(path, name).items() if key not in overridden}
    taken = [key for key in declared.fields if key in values]
    if taken:
        click.echo(f"options from {path}: {', '.join(taken)}", err=True)
    return values


def _missing_options(
    name: str, missing: Sequence[OptionField], config: str | None, example: str, *, configured: bool
) -> UsageError:
    """Return the error for missing required options: their possible places, and a whole command."""
    if not configured:
        flags = " and ".join(field.flag for field in missing)
        verb = "is" if len(missing) == 1 else "are"
        return UsageError(f"{flags} {verb} not given", fix=f"write for example: {example}")
    config_file = config or FILE_NAME
    file_exists = Path(config_file).is_file()
    lacking = f"[{name}] of {config_file} has none" if file_exists else f"there is no {FILE_NAME} here"
    instead = (
        f"give it in {config_file}"
        if file_exists
        else f"have `harness init` write a {FILE_NAME}, which later commands read"
    )
    return UsageError(
        f"'{missing[0].name}' is not given, and {lacking}", fix=f"write for example: {example}\n  or {instead}"
    )
