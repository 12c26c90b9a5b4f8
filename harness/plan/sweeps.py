"""Sweeps of parameters: the backends that they add to a comparison, and their positions in it.

::

    sweep = backend, whose last stage has a parameter with several values, or several such parameters: a grid
            chroma:ef_search=10,50,100    csr:k1=0.6,0.9,1.2;b=0.2,0.4

A grid makes one backend for each combination of values; the last parameter changes fastest. A value that holds a comma
or a semicolon stands in quotes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from harness.errors import HarnessError, UsageError
from harness.plan.backend_spec import BackendSpec, parse_backends, spell, with_components
from harness.plan.callables import CALLABLE_KINDS
from harness.plan.expressions import quoted, split_outside, split_stages, unquoted
from harness.plan.option_fields import Mistakes, raise_together
from harness.plan.stages import fusions, rerankers
from harness.wording import counted

MOST_COMBINATIONS = 1000
"""Backends that one sweep may make."""
MANY_BACKENDS = 100
"""Backends that sweeps add without a note."""


class Setting(NamedTuple):
    """A parameter of an expression as written; ``text`` is None for text without an ``=``."""

    key: str
    text: str | None

    def __str__(self) -> str:
        return self.key if self.text is None else f"{self.key}={self.text}"


class Settings(NamedTuple):
    """An expression in two parts: the parameters of its last stage, and the text before them.

    ``separator`` comes between the two.
    """

    beginning: str
    separator: str
    parameters: tuple[Setting, ...]

    @classmethod
    def of(cls, expression: str) -> Settings:
        """Take an expression apart; of an endpoint or a function, whose text may hold anything, the last parameter."""
        *earlier, last = split_stages(expression, rerankers())
        name = split_outside(last, ":")[0]
        rest = last[len(name) + 1 :]
        stages, kind = "|".join([*earlier, name]), name.rpartition("=")[2].strip()
        if kind in CALLABLE_KINDS and "=" in rest:
            *parts, value = split_outside(last, "=")
            before = "=".join(parts)
            position = max(before.rfind(";"), before.rfind(":"))
            beginning = "|".join([*earlier, before[:position]])
            return cls(beginning, before[position : position + 1], (Setting(before[position + 1 :].strip(), value),))
        segments = split_outside(rest, ";") if len(last) > len(name) else []
        separator = ":"
        if kind in fusions() and segments and len(split_outside(segments[0], "+")) > 1:
            stages, separator, segments = f"{stages}:{segments[0].strip()}", ";", segments[1:]
        return cls(stages, separator, tuple(map(_setting, segments)))

    def replaced(self, texts: Mapping[str, str | None]) -> str:
        """Return the expression with other texts of some parameters, and without those whose text is None."""
        parameters = [
            Setting(setting.key, texts.get(setting.key, setting.text))
            for setting in self.parameters
            if texts.get(setting.key, "") is not None
        ]
        return self.separator.join([self.beginning, *([";".join(map(str, parameters))] if parameters else [])])


def _setting(segment: str) -> Setting:
    key, equals, text = segment.partition("=")
    return Setting(key.strip(), text.strip() if equals else None)


class Swept(NamedTuple):
    """A sweep: its backend without the swept parameters, and the values of each as an expression holds them."""

    backend: str
    values: Mapping[str, tuple[str, ...]]
    settings: Settings

    def combinations(self) -> list[tuple[str, ...]]:
        """Return the combinations of values, in the order of the parameters."""
        return list(itertools.product(*self.values.values()))

    def expand(self) -> list[str]:
        """Return the backend of each combination."""
        return [
            self.settings.replaced(dict(zip(self.values, texts, strict=True))).strip() for texts in self.combinations()
        ]


def parse_sweep(sweep: str) -> Swept:
    """Parse a sweep; raises UsageError for one of another form, and for more than 1,000 combinations.

    A number that is repeated counts once. A repeated text is refused: its quotes may be missing.
    """
    try:
        settings = Settings.of(sweep)
        written = [(setting.key, setting.text) for setting in settings.parameters if setting.text is not None]
        lists = {key: split_outside(text, ",") for key, text in written}
        values = {key: [*map(quoted, map(unquoted, texts))] for key, texts in lists.items() if len(texts) > 1}
    except ValueError as error:
        raise UsageError(f"--sweep {sweep}: {error}") from error
    if not lists or not all(all(texts) for texts in values.values()):
        raise UsageError(
            f"--sweep {sweep}: not of the form NAME:KEY=VALUE,VALUE… or NAME:KEY=VALUE;KEY=VALUE,VALUE…",
            fix="write --sweep chroma:ef_search=10,50,100, or several parameters: csr:k1=0.6,0.9,1.2;b=0.2,0.4",
        )
    distinct = {key: _each_once(sweep, texts) for key, texts in values.items()}
    if not distinct or any(len(texts) < 2 for texts in distinct.values()):
        raise UsageError(f"--sweep {sweep}: needs at least two values", fix="name one value in --backends")
    combinations = math.prod(map(len, distinct.values()))
    if combinations > MOST_COMBINATIONS:
        product = " times ".join(f"{len(texts)} of {key}" for key, texts in distinct.items())
        raise UsageError(
            f"--sweep {sweep}: {combinations:,} combinations ({product}), and each would be a backend",
            fix=f"name fewer values, for at most {MOST_COMBINATIONS:,} combinations",
        )
    return Swept(settings.replaced(dict.fromkeys(distinct)).strip(), distinct, settings)


def _each_once(sweep: str, texts: Sequence[str]) -> tuple[str, ...]:
    twice = next((text for text in texts if texts.count(text) > 1 and not _is_number(text)), None)
    if twice is not None:
        fix = "name each value once; quote a value that has a comma: \"faiss:index=Flat,'IVF64,Flat'\""
        raise UsageError(f"--sweep {sweep}: has {twice} twice", fix=fix)
    return tuple(dict.fromkeys(texts))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class PlannedSweep:
    """One ``--sweep`` of a plan.

    Attributes:
        backend: The swept backend as written without the parameters.
        parameter: The swept parameter; those of a grid with ``;`` between them.
        labels: Each value, as written in labels, or each combination with ``;`` between its values -> the label of the
            backend that has it.
        expression: The sweep as it may be stored.
        default: The label of the backend without the swept parameters; "" if it is not compared.
    """

    backend: str
    parameter: str
    labels: Mapping[str, str]
    expression: str = ""
    default: str = ""


@dataclass(frozen=True, slots=True)
class TunedBackend:
    """The combinations among which ``--tune`` chooses: those of all sweeps of a backend, and the backend itself.

    Attributes:
        backend: The backend as written without the swept parameters.
        candidates: Labels, in the order in which equal means are decided: the default, which is the backend without the
            swept parameters; then the combinations that change the fewest of its parameters; then the order of the
            sweeps.
        stands_in: Whether the first combination stands in for the default: the backend needs a swept parameter.
    """

    backend: str
    candidates: tuple[str, ...]
    stands_in: bool = False

    @property
    def default(self) -> str:
        """The label of the default."""
        return self.candidates[0]


class _ParsedSweep(NamedTuple):
    """A sweep, the backend of each of its combinations, and its default; None if that is not a backend."""

    written: Swept
    specs: Sequence[BackendSpec]
    default: BackendSpec | None


def with_sweeps(
    labelled: Sequence[BackendSpec],
    sweeps: Sequence[str],
    cards: Path | None,
    *,
    tuned: bool = False,
    refuse: Callable[[BackendSpec], None] = lambda _: None,
) -> tuple[list[BackendSpec], tuple[PlannedSweep, ...]]:
    """Return the ``labelled`` backends with the backends of every sweep, and the sweeps.

    The backends of a sweep follow its default, which is the backend that it names without the swept parameters, or come
    last if the default is not among the backends. The default is added, once, if several sweeps share it or the sweeps
    are ``tuned``, and if ``refuse`` raises no error for it. A combination that makes a backend equal to an existing
    one, as the parameters' defaults do, adds none.

    Raises:
        UsageError: A sweep is malformed, or a backend of it; all of these together.
    """
    mistakes = Mistakes()
    caught = [mistakes.catch(partial(_parse, sweep, cards, labelled)) for sweep in sweeps]
    mistakes.raise_if_any()
    parsed = [one for one in caught if one is not None]
    groups, identities = [[spec] for spec in labelled], {spec.identity for spec in labelled}
    defaults = [one.default.identity for one in parsed if one.default is not None]
    for one in parsed:
        group = _group(groups, one.default)
        default = one.default
        shared = default is not None and (tuned or defaults.count(default.identity) > 1)
        added = [default] if default is not None and shared and _can_run(default, refuse) else []
        for spec in [*added, *one.specs]:
            if spec.identity not in identities:
                identities.add(spec.identity)
                group.append(spec)
    specs = [spec for group in groups for spec in group]
    labels = {spec.identity: spec.label for spec in with_components(specs)}
    return specs, tuple(_planned(one, labels) for one in parsed)


def _parse(sweep: str, cards: Path | None, labelled: Sequence[BackendSpec]) -> _ParsedSweep:
    """Return a sweep with its backends; raises UsageError for all that is wrong with them."""
    written, specs, problems = parse_sweep(sweep), list[BackendSpec](), list[HarnessError]()
    for expression in written.expand():
        try:
            specs += parse_backends([expression], cards, labelled=labelled)
        except UsageError as error:  # combinations share their problems
            problems.append(error)
    raise_together(problems)
    if specs[0].unlabelled is not None:
        problem = f"--sweep {sweep}: the label {specs[0].label} would be that of each of its backends"
        raise UsageError(problem, fix="give the label in --backends, and sweep it like a name")
    default = None
    with suppress(UsageError):  # a backend that needs the swept parameter is not there without it
        (default,) = parse_backends([written.backend], cards, labelled=labelled)
    return _ParsedSweep(written, specs, default)


def _group(groups: list[list[BackendSpec]], default: BackendSpec | None) -> list[BackendSpec]:
    """Return the group that begins with the ``default`` of a sweep; a new group at the end if there is none."""
    if default is not None:
        for group in groups:
            if group and group[0].identity == default.identity:
                return group
    groups.append([])
    return groups[-1]


def _can_run(spec: BackendSpec, refuse: Callable[[BackendSpec], None]) -> bool:
    try:
        refuse(spec)
    except UsageError:
        return False
    return True


def _planned(parsed: _ParsedSweep, labels: Mapping[Hashable, str]) -> PlannedSweep:
    """Return a sweep by its backends, whose own labels hold no secrets."""
    written, first = parsed.written, parsed.specs[0]
    settings = Settings.of(first.label)
    # an alias in the sweep is the parameter's name in the label
    names = dict(zip((one.key for one in written.settings.parameters), settings.parameters, strict=True))
    parameters = [names[key].key for key in written.values]
    values = [
        ";".join(
            spell(spec.parameters[name]) if name in spec.parameters else text
            for name, text in zip(parameters, texts, strict=True)
        )
        for texts, spec in zip(written.combinations(), parsed.specs, strict=True)
    ]
    lists = {name: ",".join(texts) for name, texts in zip(parameters, written.values.values(), strict=True)}
    return PlannedSweep(
        backend=settings.replaced(dict.fromkeys(parameters)),
        parameter=";".join(parameters),
        labels={value: labels[spec.identity] for value, spec in zip(values, parsed.specs, strict=True)},
        expression=settings.replaced(lists),
        default=labels.get(parsed.default.identity, "") if parsed.default is not None else "",
    )


def tuned_backends(sweeps: Sequence[PlannedSweep], specs: Sequence[BackendSpec]) -> tuple[TunedBackend, ...]:
    """Return the candidates of each swept backend, for the sweeps of a plan and its backends."""
    by_label = {spec.label: spec for spec in specs}
    groups: dict[str, list[PlannedSweep]] = {}
    for sweep in sweeps:
        groups.setdefault(sweep.default or sweep.backend, []).append(sweep)
    tuned = []
    for group in groups.values():
        labels = list(dict.fromkeys(label for sweep in group for label in (sweep.default, *sweep.labels.values())))
        labels = [label for label in labels if label]
        default = by_label[labels[0]].parameters
        changes = {
            label: sum(default.get(name) != value for name, value in by_label[label].parameters.items())
            for label in labels
        }
        candidates = tuple(sorted(labels, key=changes.__getitem__))
        tuned.append(TunedBackend(group[0].backend, candidates, stands_in=not group[0].default))
    return tuple(tuned)


def notes_on_sweeps(sweeps: Sequence[PlannedSweep]) -> list[str]:
    """Return a note if the sweeps have many backends."""
    backends = {label for sweep in sweeps for label in sweep.labels.values()}
    if len(backends) <= MANY_BACKENDS:
        return []
    return [f"the sweeps are of {counted(len(backends), 'backend')}, and each searches every query"]
