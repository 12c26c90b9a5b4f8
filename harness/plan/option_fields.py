"""Options as fields of dataclasses: their flags, their values from text or Python, and their recorded words.

A field ``k: int = Option("Documents to return.", SEARCH, least=1).default(1000)`` is the flag ``--k``, the keyword
``k`` of a call in Python, the key ``k`` of ``harness.toml`` and the words ``--k 10`` of a recorded command.
"""

from __future__ import annotations

import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, MISSING, dataclass, fields, replace
from dataclasses import field as dataclass_field
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from harness.errors import HarnessError, UnknownNameError, UsageError, near_name, nearest
from harness.plan.expressions import quote_list_item
from harness.user_path import user_path
from harness.wording import shortened

LARGEST = 999_999_999
"""The largest number of any option but a seed: the largest cutoff of a metric, and within 32 bits for every engine."""
Settings = TypeVar("Settings", bound="Options")
Function = TypeVar("Function", bound=Callable[..., object])
Default = TypeVar("Default")
Resolved = TypeVar("Resolved")
Kind = Literal["bool", "int", "float", "str", "path", "list"]
_DECLARATION = "option"


@dataclass(frozen=True, slots=True)
class Option:
    """The declaration of an option: :meth:`default` and :meth:`required` make the field of it.

    Attributes:
        help: a sentence or two for ``--help`` and the reference pages.
        group: the heading under which help lists the option.
        metavar: the placeholder of the value in help; None derives it from the choices or the type.
        choices: the only values that a text may have.
        least: the smallest number; ``above`` excludes it.
        most: the largest number.
        form: words for the values that are accepted, after "it must be"; None derives them.
        default_text: the default in words if the value is not clear.
        commas: a text lists several values between commas, and Python may give a sequence.
        repeated: the flag may be given several times, and Python may give a sequence.
        common: help lists it before the others of its group.
        argument: the value is given without a flag.
        unflagged: values may be given without the flag as well. Such words go to the first of these options without a
            value, the rest to the option that takes several.
        flag_value: the flag's value when none of the choices follows it.
        flags: further flags, short ones for example.
        completes: the names that the shell completes.
        two_sided: a yes-or-no option that is off has a flag to say so, to override a harness.toml that has it on.
        recorded: whether the option is part of the recorded command.
        keyword: whether it is a keyword of the call in Python; options of the terminal only are not.
        written: the value is a file that the verb writes in addition to its result.
        replaces: the option whose file a written one may replace: it is read before.
        overrides: other options of a harness.toml that are ignored if this one is on the command line.
        parse: makes the final value of an accepted one; raises UsageError.
        from_environment: the variable of the environment from which ``parse`` reads the final value of the default.
        takes: the type of the values that ``parse`` accepts; None if they have the type of the field.
    """

    help: str
    group: str = ""
    _: KW_ONLY
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: bool = False
    most: float = LARGEST
    form: str | None = None
    default_text: str = ""
    commas: bool = False
    repeated: bool = False
    common: bool = False
    argument: bool = False
    unflagged: bool = False
    flag_value: str | None = None
    flags: tuple[str, ...] = ()
    completes: Literal["backends", "dataset"] | None = None
    two_sided: bool = False
    recorded: bool = True
    keyword: bool = True
    written: bool = False
    replaces: str = ""
    overrides: tuple[str, ...] = ()
    parse: Callable[[Any], object] | None = None
    from_environment: str = ""
    takes: object = None

    def default(self, value: Default) -> Default:
        """Declare a field that has this value by default."""
        return dataclass_field(default=value, metadata={_DECLARATION: self})

    def parsed(self, value: object = None) -> Any:
        """Declare a field whose default is the final value of this one."""
        return dataclass_field(default=value, metadata={_DECLARATION: self})

    def required(self) -> Any:
        """Declare a field whose value must be given."""
        return dataclass_field(metadata={_DECLARATION: self})


@dataclass(frozen=True, slots=True)
class OptionField:
    """A field that declares an option.

    ``hint`` is the type of the values that are accepted, ``default`` is MISSING for a required option.
    """

    name: str
    hint: Any
    default: object
    option: Option

    @property
    def flag(self) -> str:
        """The flag of the command line, or the name of an argument in messages."""
        return self.name.upper() if self.option.argument else f"--{self.name.replace('_', '-')}"

    @property
    def switches_off(self) -> bool:
        """True for a yes-or-no option that has a second flag, ``--no-…``."""
        return self.kind == "bool" and (self.default is not False or self.option.two_sided)

    @property
    def kind(self) -> Kind:
        """The form of the value on the command line and in ``harness.toml``."""
        members = _members(self.hint)
        if self.option.repeated:
            return "list"
        for kind, name in ((bool, "bool"), (str, "str"), (Path, "path"), (int, "int"), (float, "float")):
            if kind in members:
                return cast("Kind", name)
        return "str"

    @property
    def holds_paths(self) -> bool:
        """True if every value is a path."""
        return self.kind == "path" or Sequence[Path] in _members(self.hint)

    @property
    def help(self) -> str:
        """Return the text of help and of the reference pages, without the default."""
        return f"{self.option.help} May be given several times." if self.option.repeated else self.option.help

    @property
    def metavar(self) -> str:
        """The placeholder of the value in help."""
        names = {"int": "N", "float": "NUMBER", "path": "PATH", "str": "TEXT", "list": "TEXT", "bool": ""}
        return self.option.metavar or "|".join(self.option.choices) or names[self.kind]

    @property
    def expected(self) -> str:
        """The accepted values, in words."""
        option = self.option
        if option.form is not None:
            return option.form
        if option.choices:
            return f"one of: {', '.join(option.choices)}"
        if self.kind in ("int", "float"):
            noun = "a whole number" if self.kind == "int" else "a number"
            if option.least is None:
                return noun
            if option.above:
                return f"{noun} above {option.least:g} and at most {int(option.most):,}"
            return f"{noun} from {option.least:g} to {int(option.most):,}"
        if option.commas or option.repeated:
            return "text, or a list of texts"
        return {"bool": "true or false", "path": "a path"}.get(self.kind, "text")

    @property
    def default_text(self) -> str:
        """The default as help shows it; empty without a default."""
        if self.option.default_text:
            return self.option.default_text
        if self.default is MISSING or self.default is None or self.default == () or self.default is False:
            return ""
        if self.default is True:
            return self.flag.removeprefix("--")
        return _text(self.default)

    def parse(self, text: str) -> object:
        """Return the value of a text on the command line; raises UsageError for another form."""
        try:
            match self.kind:
                case "int":
                    return int(text)
                case "float":
                    return float(text)
                case "path":
                    return self._path(text)
        except ValueError:
            raise self.refusal(text) from None
        return text

    def convert(self, value: object) -> object:
        """Return a value from Python in the field's own type: NumPy's numbers, paths, and lists of names."""
        if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
            value = value.tolist()
        members = _members(self.hint)
        if type(value) is int and str(value) in self.option.choices:
            return str(value)
        is_enumeration = isinstance(self.hint, type) and issubclass(self.hint, StrEnum)
        if is_enumeration and isinstance(value, str) and value in self.option.choices:
            return self.hint(value)
        if Sequence[Path] in members and value is not None:
            items = value if isinstance(value, list | tuple) else (value,)
            return tuple(self._path(item) if isinstance(item, str | PathLike) else item for item in items)
        if Path in members and isinstance(value, str | PathLike) and (str not in members or isinstance(value, Path)):
            return self._path(value)
        takes_several = any(typing.get_origin(member) is Sequence for member in members)
        if self.option.commas and not takes_several:
            if isinstance(value, PathLike):
                return str(value)
            if isinstance(value, list | tuple) and all(isinstance(item, str | PathLike) for item in value):
                return ",".join(map(str, value))
        if self.option.repeated and takes_several and isinstance(value, str):
            return (value,)
        return tuple(value) if takes_several and isinstance(value, list) else value

    @property
    def final_default(self) -> object:
        """The final value of the default, parsed once unless the environment sets it."""
        if self.option.parse is None:
            return self.default
        return self.finish(self.default) if os.environ.get(self.option.from_environment) else _parsed_default(self)

    def finish(self, value: object) -> object:
        """Return the final value of a converted one; a wrong value unchanged."""
        if self.option.parse is None or not _accepts(value, self.hint):
            return value
        try:
            return self.option.parse(value)
        except UsageError:
            return value

    def _path(self, value: str | PathLike[str]) -> Path:
        try:
            return user_path(value)
        except UsageError as error:
            raise UsageError(f"{self.flag}: {error.problem}", fix=error.fix) from error

    def problem(self, value: object) -> UsageError | None:
        """Return a value's problem: its type, a choice that does not exist, a number out of range."""
        option = self.option
        if not (_accepts(value, self.hint) or (value is None and self.default is None)):
            return self.refusal(value)
        if option.parse is not None:
            try:
                option.parse(value)
            except UsageError as error:
                return error
        if value is None:
            return None
        for item in value if isinstance(value, tuple) else (value,):
            if option.choices and isinstance(item, str) and item not in option.choices:
                choices_text = ", ".join(option.choices)
                return UsageError(
                    f"{self.flag} {item}: no such choice{nearest(item, option.choices)}", fix=f"known: {choices_text}"
                )
        if option.least is not None and isinstance(value, int | float):
            low = value <= option.least if option.above else value < option.least
            if low or not value <= option.most:
                return self.refusal(value)
        return None

    def refusal(self, value: object) -> UsageError:
        """Return the error for a value that is not accepted."""
        kind = "" if isinstance(value, str | int | float) else f", a {type(value).__name__}"
        return UsageError(f"{self.flag} is {shortened(repr(value))}{kind}", fix=f"it must be {self.expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a verb, or some of them; values from Python are converted to the fields' types.

    ``as_given`` holds the original values, by option, of converted ones: 2GiB, whose final value is its bytes.
    """

    as_given: Mapping[str, object] = dataclass_field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        as_given = dict(self.as_given)
        for name, field in option_fields(type(self)).items():
            value = getattr(self, name)
            if value is field.default:
                converted, final = value, field.final_default
            elif as_given.get(name, MISSING) is field.default and value is field.final_default:
                continue
            else:
                converted = field.convert(value)
                final = converted if field.option.parse is None else field.finish(converted)
            if final is not value:
                object.__setattr__(self, name, final)
            if final is not converted and final != converted:
                as_given[name] = converted
            elif name in as_given and field.finish(as_given[name]) != final:
                del as_given[name]
        object.__setattr__(self, "as_given", as_given)

    def arguments(self) -> dict[str, Any]:
        """Return the value of each option before it was parsed."""
        return {name: self.as_given.get(name, getattr(self, name)) for name in option_fields(type(self))}


@functools.cache
def _parsed_default(field: OptionField) -> object:
    return field.finish(field.default)


_FIELDS_OF: dict[type, Mapping[str, OptionField]] = {}


def option_fields(settings: type[Options]) -> Mapping[str, OptionField]:
    """Return the options of a dataclass by name: its own in the order of their declaration, then its bases'."""
    if settings not in _FIELDS_OF:
        _FIELDS_OF[settings] = types.MappingProxyType(_declared(settings))
    return _FIELDS_OF[settings]


def _declared(settings: type[Options]) -> dict[str, OptionField]:
    hints, dataclass_fields = typing.get_type_hints(settings), {field.name: field for field in fields(settings)}
    order = [name for base in settings.__mro__ for name in inspect.get_annotations(base) if name in dataclass_fields]
    declared = {}
    for name in dict.fromkeys(order):
        option: Option | None = dataclass_fields[name].metadata.get(_DECLARATION)
        if option is not None:
            hint = hints[name] if option.takes is None else option.takes
            declared[name] = OptionField(name, hint, dataclass_fields[name].default, option)
    return declared


def from_keywords(
    call: str, keywords: Mapping[str, object], *kinds: type[Any], also: Collection[str] = ()
) -> list[Any]:
    """Make the options of each kind from the keywords of a call in Python.

    Args:
        call: the function's name, for messages.
        keywords: the arguments that were given by name.
        kinds: the dataclasses of options.
        also: further keywords that the call takes, which messages name.

    Raises:
        UsageError: for all unknown keywords, with the nearest name; with them, for all wrong values.
    """
    keyword_names = {name for kind in kinds for name, field in option_fields(kind).items() if field.option.keyword}
    made = [
        kind(
            **{name: value for name, value in keywords.items() if name in keyword_names and name in option_fields(kind)}
        )
        for kind in kinds
    ]
    mistakes = [
        UsageError(
            f"{call}() has no keyword '{name}'", fix=UnknownNameError("keyword", name, {*keyword_names, *also}).fix
        )
        for name in keywords
        if name not in keyword_names
    ]
    if mistakes:
        raise_together([*mistakes, *(problem for options in made for problem in _problems(options).values())])
    return made


def keywords_of(*kinds: type[Options]) -> Callable[[Function], Function]:
    """Show the options of these kinds in the signature of a function that takes them as ``**options``.

    A call without an argument that has no default raises UsageError, as one with a wrong keyword does.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        parameters = [
            entry for entry in signature.parameters.values() if entry.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        parameter_names = {entry.name for entry in parameters}
        declared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.hint)
            for kind in kinds
            for name, field in option_fields(kind).items()
            if field.option.keyword and name not in parameter_names
        ]
        needed = [entry.name for entry in parameters if entry.default is inspect.Parameter.empty]

        @functools.wraps(function)
        def complete(*args: object, **keywords: object) -> object:
            for name in needed[len(args) :]:
                if name not in keywords:
                    raise _missing_keyword(f"harness.{function.__name__}", name, keywords)
            return function(*args, **keywords)

        complete.__signature__ = signature.replace(parameters=[*parameters, *declared])  # type: ignore[attr-defined]
        return cast("Function", complete)

    return decorate


def _missing_keyword(call: str, name: str, keywords: Collection[str]) -> UsageError:
    near = near_name(name, keywords)
    fix = f"write {name}= instead of {near}=" if near else f"give it first, or as {name}="
    return UsageError(f"{call}() is called without '{name}'", fix=fix)


def is_set(settings: Options, *names: str) -> bool:
    """Return whether one of these options has another value than its default."""
    fields_by_name = option_fields(type(settings))
    return any(settings.as_given.get(name, getattr(settings, name)) != fields_by_name[name].default for name in names)


def _problems(settings: Options) -> dict[str, UsageError]:
    """Return the problems of options' values, by field; a default is right unless the environment sets it."""
    values = settings.arguments()
    problems = {
        name: field.problem(values[name])
        for name, field in option_fields(type(settings)).items()
        if values[name] is not field.default or os.environ.get(field.option.from_environment)
    }
    return {name: problem for name, problem in problems.items() if problem is not None}


def require(settings: Options) -> None:
    """Raise one UsageError for all values that are wrong."""
    if problems := _problems(settings):
        raise_together(list(problems.values()))


def checked(settings: Settings) -> tuple[Settings, list[UsageError]]:
    """Return the settings with defaults in place of wrong values, and the problems.

    Raises UsageError for all problems together if an option without a default is wrong.
    """
    problems = _problems(settings)
    if not problems:
        return settings, []
    fields_by_name = option_fields(type(settings))
    defaults = {name: fields_by_name[name].default for name in problems}
    if MISSING in defaults.values():
        raise_together(list(problems.values()))
    return replace(settings, **cast("dict[str, Any]", defaults)), list(problems.values())


@dataclass(eq=False)
class Mistakes:
    """Collects all that is wrong with a request, so that the user sees it at once."""

    errors: list[HarnessError] = dataclass_field(default_factory=list, init=False)

    def refuse(self, problem: str, fix: str | None = None) -> None:
        """Keep a user's mistake, with its fix."""
        self.errors.append(UsageError(problem, fix=fix))

    def catch(self, resolve: Callable[[], Resolved]) -> Resolved | None:
        """Return the resolved value; None if it raises UsageError, which is kept."""
        try:
            return resolve()
        except UsageError as error:
            self.errors.append(error)
            return None

    @contextmanager
    def collected(self, kind: type[HarnessError] = UsageError) -> Iterator[None]:
        """Keep an error of this kind that ends the block."""
        try:
            yield
        except kind as error:
            self.errors.append(error)

    def raise_if_any(self) -> None:
        """Raise the errors as :func:`raise_together`."""
        if self.errors:
            raise_together(self.errors)


def raise_together(mistakes: Sequence[HarnessError]) -> None:
    """Raise the only mistake, or one UsageError for several, equal ones once; nothing for none."""
    messages = list(dict.fromkeys(map(str, mistakes)))
    if len(messages) == 1:
        raise mistakes[0]
    if messages:
        raise UsageError("\n".join(messages))


def command_words(settings: Options, resolved: Mapping[str, object] | None = None) -> list[str]:
    """Return the words of a command that set values other than the defaults; ``resolved`` values come first."""
    values = _recorded(settings) | dict(resolved or {})
    return [word for name, field in option_fields(type(settings)).items() for word in option_words(field, values[name])]


def option_words(field: OptionField, value: object) -> list[str]:
    """Return the words of a command that give an option this value; none for its default."""
    default = field.default
    is_default = value == default or (default not in (MISSING, None) and _text(value) == _text(default))
    if not field.option.recorded or value is None or is_default:
        return []
    if field.option.argument:
        return [_text(value)]
    if isinstance(value, bool):
        return [field.flag if value else f"--no-{field.flag.removeprefix('--')}"]
    if field.option.repeated:
        return [word for item in _several(value) for word in (field.flag, item)]
    return [field.flag, _text(value)]


def keyword_arguments(settings: Options) -> dict[str, object]:
    """Return the keywords of a call in Python that set values other than the defaults."""
    declared, values = option_fields(type(settings)), settings.arguments()
    return {
        name: value
        for name, value in values.items()
        if declared[name].option.keyword and value != declared[name].default
    }


def flat(
    settings: Options, resolved: Mapping[str, object] | None = None
) -> dict[str, str | int | float | list[str] | None]:
    """Return the values of options as a report stores them; ``resolved`` values come first."""
    return {name: _flat(value) for name, value in (_recorded(settings) | dict(resolved or {})).items()}


def _recorded(settings: Options) -> dict[str, Any]:
    """Return the values as the user wrote them; a list from Python that is parsed becomes the text for it."""
    values = settings.arguments()
    for name, field in option_fields(type(settings)).items():
        value = values[name]
        if field.option.parse is not None and field.option.commas and value not in (None, ()):
            values[name] = _text(value if isinstance(value, str | tuple) else (value,))
    return values


def _flat(value: object) -> str | int | float | list[str] | None:
    if value is None or value == ():
        return None
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    return str(value)


def _text(value: object) -> str:
    """Return a value as one word of the command line."""
    if isinstance(value, list | tuple):
        return ",".join(f"{item:.10g}" if isinstance(item, float) else quote_list_item(str(item)) for item in value)
    return str(value)


def _several(value: object) -> list[str]:
    """Return the values of a flag that is given several times; a mapping's as ``name=value``."""
    if isinstance(value, Mapping):
        return [f"{name}={item}" if name else str(item) for name, item in value.items()]
    return [str(item) for item in (value if isinstance(value, list | tuple) else [value])]


@functools.cache
def _members(hint: Any) -> tuple[Any, ...]:
    """Return the types that an annotation allows."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _accepts(value: object, hint: Any) -> bool:
    """Return whether a value is of an annotated type; whole numbers are numbers, booleans are not."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_accepts(value, member) for member in arguments)
    if hint in (object, Any):
        return True
    if origin is Literal or (isinstance(hint, type) and issubclass(hint, StrEnum)):  # the choices decide
        return isinstance(value, str)
    if hint is float or hint is int:
        return isinstance(value, int if hint is int else (int, float)) and not isinstance(value, bool)
    if hint is Path:
        return isinstance(value, PathLike)
    if origin is Sequence:
        return (
            isinstance(value, Sequence)
            and not isinstance(value, str | bytes)
            and all(_accepts(item, arguments[0]) for item in value)
        )
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_accepts(item, arguments[1]) for item in value.values())
    if origin is Callable:
        return callable(value)
    return isinstance(value, origin or hint)
