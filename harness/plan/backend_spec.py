"""Parse backend expressions: ``name``, ``name:key=value;key=value``, ``run:file``, fusions, and second stages."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from harness.errors import HarnessError, UnknownNameError, UsageError
from harness.plain_url import DATABASE_FORM, PLAIN_FORM, is_plain_database_url, is_plain_url
from harness.plan.callables import CALLABLE_FORMS, CALLABLE_KINDS, LABEL, CallableSpec, Function, parse_callable
from harness.plan.expressions import (
    parenthesise,
    quote_list_item,
    quoted,
    split_fusion,
    split_outside,
    split_stages,
    unquoted,
    without_parentheses,
)
from harness.plan.option_fields import Mistakes
from harness.plan.stages import Stage, fusions, parse_weights, rerankers
from harness.registry.cards import BackendCard
from harness.registry.lookup import find_cards, reason_not_a_card
from harness.registry.parameters import BY_DATASET, NO_PROMPT, Parameter, ParameterValue
from harness.user_path import existing_path

_RUN = "run"
_URL = "url"
_URL_WITH_USER = re.compile(r"https?:/[^,;\s]*@", re.IGNORECASE)
_EXTERNAL = "external"
_ENDPOINT = re.compile(
    r"(?:^|(?<=[,(+\s]))(?:(?:[\w.-]+\s*=\s*)?http:(?=\s*\w+\s*=)|http:(?=//))[^()]*(?:\([^()]*\)[^()]*)*"
)
"""An expression ``http:url=…``, with a label or without, up to the parenthesis that closes it."""
_LAST_VALUE = re.compile(r"[;:]\s*[\w.]+\s*=\s*(?P<value>[^;|)\"'=]+)$")
"""A value that a comma may have cut: it is not quoted."""
_LABELLED = re.compile(rf"(?P<label>{LABEL})\s*=\s*(?P<backend>[\s(]*(?P<name>[\w.-]+).*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """One backend of a comparison.

    ``kind`` is ``engine`` (then ``card`` is set), ``run`` (then ``run_path`` is set: anybody's ranked documents),
    ``callable`` (then ``called`` is set: a function, a framework's retriever or an endpoint), ``fusion`` or ``rerank``
    (then ``components`` are the backends whose hits it takes: several, or one). ``parameters`` is complete: the
    defaults with ``overrides`` on top. ``label`` is unique in a comparison and shows the overrides. ``name`` is the
    card's, ``run``, the method's or the reranker's, or the first word of a callable. ``unlabelled`` is the default
    label if the user gave another.

    """

    name: str
    label: str
    kind: Literal["engine", "run", "callable", "fusion", "rerank"]
    card: BackendCard | None
    parameters: Mapping[str, ParameterValue]
    overrides: Mapping[str, ParameterValue]
    run_path: Path | None = None
    called: CallableSpec | None = None
    components: tuple[BackendSpec, ...] = ()
    unlabelled: str | None = None

    @property
    def expression(self) -> str:
        """The backend as written in a list of backends."""
        return quote_list_item(self.label if self.unlabelled is None else f"{self.label}={self.unlabelled}")

    @property
    def identity(self) -> Hashable:
        """Equal for specifications that are the same backend, however they are written."""
        parts = tuple(component.identity for component in self.components)
        target = self.run_path.resolve() if self.run_path is not None else self.called
        function = id(self.called.function) if self.called is not None else None
        return (self.name, target, function, *sorted(self.parameters.items()), parts)


def parse_backends(
    text: str | Sequence[str],
    cards: Path | None = None,
    functions: Mapping[str, Function] = MappingProxyType({}),
    labelled: Sequence[BackendSpec] = (),
) -> list[BackendSpec]:
    """Return the backends of ``qdrant,fast=lucene:k1=1.2;b=0.75,run:mine.trec.gz``, or from a list of such items.

    Items of a list are not split at commas, so their values may hold some. Unknown names and keys, wrong values,
    missing run files and equal specifications are all reported in one UsageError; a single unknown name or key raises
    UnknownNameError. ``functions`` replace the backends of the items with these labels, or without a label these
    expressions. An item may use the labels of other items and of ``labelled`` as names of backends.
    """
    return parse_backend_specs(text, find_cards("backends", cards), functions, labelled)


def parse_backend_specs(
    text: str | Sequence[str],
    cards: Mapping[str, BackendCard],
    functions: Mapping[str, Function] = MappingProxyType({}),
    labelled: Sequence[BackendSpec] = (),
) -> list[BackendSpec]:
    """Return the backends of an expression as :func:`parse_backends` does; ``cards`` are the known backends."""
    # an endpoint's URL may hold secrets, which labels and messages leave out: its item identifies it
    if isinstance(text, str) and _ENDPOINT.search(text) is None:
        _refuse_credentials(text, cards)
    items = split_outside(text, ",") if isinstance(text, str) else list(text)
    for item in items:
        _refuse_credentials(_ENDPOINT.sub("", item), cards)
    parser = _Parser(cards, functions, items, labelled)
    if any(_ENDPOINT.search(item) is not None for item in items):
        _refuse_cut_endpoints(items, [*cards, *parser.labels])
    before = ["", *items[:-1]] if isinstance(text, str) else [""] * len(items)
    parsed = [parser.parse(item.strip(), cut) for item, cut in zip(items, before, strict=True)]
    specs = [spec for spec in parsed if spec is not None]
    if len(specs) > 1:
        parser.errors += _repeated(specs)
    if len(specs) > 1 or any(spec.components for spec in specs):
        parser.errors += _contradicting_labels(specs)
    if not items:
        parser.refuse("no backend is named", fix=f"known: {', '.join(cards)}")
    problems = list({str(error): error for error in parser.errors}.values())  # backends may share one
    if len(problems) == 1:
        raise problems[0]
    if problems:
        problem_lines = "".join(f"\n  {str(problem).replace(chr(10), chr(10) + '  ')}" for problem in problems)
        raise UsageError(f"{len(problems)} problems in the backends{problem_lines}")
    return specs


def with_components(specs: Sequence[BackendSpec]) -> list[BackendSpec]:
    """Return every backend that runs, each once: components precede the first backend that is made of them.

    A component that is one of ``specs`` too has its label there; a label that a user gave it anywhere comes first.
    """
    specs_by_identity = {spec.identity: spec for spec in specs}
    specs_by_identity |= {
        part.identity: part for spec in specs for part in parts_of(spec) if part.unlabelled is not None
    }
    return list(
        {
            part.identity: specs_by_identity.get(part.identity, part) for spec in specs for part in parts_of(spec)
        }.values()
    )


def parts_of(spec: BackendSpec) -> list[BackendSpec]:
    """Return, recursively, all components of the backend, each after its own, and the backend itself last."""
    return [*(part for component in spec.components for part in parts_of(component)), spec]


def _refuse_credentials(text: str, cards: Mapping[str, BackendCard]) -> None:
    """Refuse URLs that hold more than an address, before any message repeats a part of them.

    Backends become labels, which reports, logs and tables store and show. A password may hold commas and semicolons:
    the value of ``url`` continues up to the next parameter or backend. Without an ``@``, it holds no password, and ends
    at the first of them.
    """
    values: list[str] = []
    if _URL in text:
        parameter_names = {name for card in cards.values() for name in card.parameters}
        ends = (rf";\s*{_any_of(parameter_names)}\s*=", rf",\s*{_any_of([*cards, _RUN])}\s*(?:[:,]|$)", "$")
        values = re.findall(rf"(?<!\w){_URL}\s*=(.*?)(?={'|'.join(ends)})", text, re.DOTALL)
    visible_values = [value if "@" in value else re.split("[;,)|+]", value)[0] for value in values]
    urls = [url for value in visible_values if (url := value.strip().strip("\"'"))]
    if _URL_WITH_USER.search(text) or not all(is_plain_url(url) or is_plain_database_url(url) for url in urls):
        raise UsageError(
            f"a 'url' in the backends is not of the form {PLAIN_FORM} or {DATABASE_FORM}; reports would store any user "
            "name, password or key in it",
            fix="leave such a URL out and put it into an environment variable: `harness backends "
            "NAME` names the variables of the address (as HARNESS_QDRANT_URL or HARNESS_POSTGRES_URL, with "
            "mode=server) and of the API key; a key of a `rerank:` endpoint goes into the variable that `api_key_env` "
            "names",
        )


def _refuse_cut_endpoints(items: Sequence[str], names: Sequence[str]) -> None:
    """Refuse, unseen, text after an endpoint that begins like no backend: it may be part of a password."""
    names = _any_of([*names, *fusions(), _RUN, *CALLABLE_KINDS])
    backend = re.compile(rf"[\s(]*(?:[\w.-]+\s*=\s*)?{names}\s*(?:[:|)]|$)")
    for before, item in pairwise(items):
        if item.strip() and backend.match(item) is None and _ENDPOINT.match(before.strip()) is not None:
            raise UsageError(
                "the text after an endpoint in the list is not a backend",
                fix="put an endpoint whose URL or body holds a comma into parentheses: (http:url=…;ids=…); "
                "`harness backends` lists the names of backends",
            )


def _any_of(names: Iterable[str]) -> str:
    return f"(?:{'|'.join(re.escape(name) for name in names)})"


class _Parser(Mistakes):
    """Parses items of a list of backends, and keeps all that is wrong with them.

    An item may use the labels of the other ``items``, earlier or later ones, and the labels of ``labelled`` and their
    components. A label that is also the name of a backend hides that, except in its own definition.
    """

    def __init__(
        self,
        cards: Mapping[str, BackendCard],
        functions: Mapping[str, Function],
        items: Sequence[str],
        labelled: Sequence[BackendSpec],
    ) -> None:
        super().__init__()
        self.cards, self._functions, self._uncut = cards, functions, ""
        self._names = {*cards, *fusions(), _RUN, *CALLABLE_KINDS}
        self._labelled: dict[str, BackendSpec | None] = {
            part.label: part for spec in labelled for part in parts_of(spec) if part.unlabelled is not None
        }
        self._definitions: dict[str, str] = {}
        self._open: list[str] = []
        matches = [_LABELLED.fullmatch(without_parentheses(item)) for item in items]
        labels = {match["label"] for match in matches if match is not None}
        for match in matches:
            if match is not None and match["name"] in self._names | labels:
                self._definitions.setdefault(match["label"], match["backend"])

    @property
    def labels(self) -> list[str]:
        """The labels that an item may use."""
        return [*self._labelled, *self._definitions]

    def parse(self, item: str, before: str | None = None) -> BackendSpec | None:
        """Parse ``label=backend``, or a backend or component without a label; None if it is wrong.

        ``before`` is the text before the preceding comma of an item of the list, which may have been meant as part of
        a value.
        """
        if before is not None:
            cut = _LAST_VALUE.search(before)
            self._uncut = f"{cut['value']},{item.partition(';')[0]}" if cut is not None else ""
        item = without_parentheses(item)
        labelled = _LABELLED.fullmatch(item)
        if labelled is None or labelled["name"] not in {*self._names, *self.labels}:
            return self.catch(partial(self._parse, item))
        label, backend = labelled["label"], labelled["backend"]
        if self._definitions.setdefault(label, backend) == backend:
            return self._define(label)
        return self._parse_labelled(label, backend)  # a label that is given twice, which is refused later

    def _define(self, label: str) -> BackendSpec | None:
        """Return the backend that an item gives a label to, parsed once."""
        if label not in self._labelled:
            self._open.append(label)
            try:
                self._labelled[label] = self._parse_labelled(label, self._definitions[label])
            finally:
                self._open.pop()
        return self._labelled[label]

    def _parse_labelled(self, label: str, backend: str) -> BackendSpec | None:
        spec = self.catch(partial(self._parse, without_parentheses(backend)))
        if spec is None:
            return None
        called = spec.called
        if called is not None and label in self._functions:
            called = replace(called, function=self._functions[label])
        written = spec.label if spec.unlabelled is None else spec.unlabelled
        return replace(spec, label=label, unlabelled=written, called=called)

    def _is_label(self, name: str) -> bool:
        if name in self._open and name not in self._names:
            raise UsageError(f"the label '{name}' is used in its own definition", fix="give it another backend")
        return name in self.labels and name not in self._open

    def _parse_label(self, label: str, rest: str | None) -> BackendSpec | None:
        """Return the backend with a label, with the parameters in ``rest`` added to its own."""
        spec = self._define(label)
        if spec is None or rest is None:
            return spec
        if spec.card is None and spec.kind not in ("fusion", "rerank"):
            raise UsageError(f"'{label}' has no parameters: it is {spec.unlabelled}", fix=f"write {label} alone")
        definition = spec.card or {"fusion": fusions, "rerank": rerankers}[spec.kind]()[spec.name]
        before, changed = len(self.errors), self._overrides(label, rest, definition.parameters)
        overrides = {key: value for key, value in spec.overrides.items() if key not in changed} | changed
        self._check_overrides(spec, overrides)
        if len(self.errors) > before:
            return None
        parameters = {**spec.parameters, **overrides}
        spelling = f"{label}:{_spelt(changed)}"
        return replace(spec, label=spelling, unlabelled=None, parameters=parameters, overrides=overrides)

    def _check_overrides(self, spec: BackendSpec, overrides: Mapping[str, ParameterValue]) -> None:
        """Refuse parameters that do not fit the kind of backend."""
        if spec.card is not None:
            self.errors += _about_external(spec.name, spec.card, overrides)
        if spec.kind == "fusion":
            self._check_weights(spec.name, len(spec.components), overrides)

    def _parse(self, item: str) -> BackendSpec | None:
        """Parse a backend; None, with a noted problem, if its parts are wrong. Raises UsageError for other faults."""
        first, *later = split_stages(item, rerankers()) if "|" in item else [item]
        if later:
            return self._reranked(self.parse(first), later)
        name, colon, rest = item.partition(":")
        name = name.strip()
        if not name:
            raise UsageError(f"a backend has no name: '{item}'", fix="write name or name:key=value;key=value")
        if (self._labelled or self._definitions) and self._is_label(name):
            return self._parse_label(name, rest if colon else None)
        if name == _RUN:
            return self._run(item, rest)
        if name in CALLABLE_KINDS and name not in self.cards:
            return self._callable(name, item)
        if name in fusions():
            return self._fusion(fusions()[name], rest)
        card = self.cards.get(name)
        if card is None and "|" in name:
            raise UnknownNameError("reranker", name.rpartition("|")[2].strip(), rerankers())
        label, labelled, named_part = (part.strip() for part in name.partition("="))
        if card is None and labelled and any(label in suggestions.parameters for suggestions in self.cards.values()):
            raise UsageError(  # csr:k1=3,b=0.95
                f"'{label}=…' is a parameter, but a backend is expected here",
                fix="separate parameters with ';', backends with ',', and quote a value that has one: "
                "csr:k1=3;b=0.95,faiss:index='IVF64,Flat'",
            )
        if card is None:
            valid_names = {*self.labels, *self.cards, *fusions(), *CALLABLE_KINDS, _RUN}
            if named_part in valid_names and not re.fullmatch(LABEL, label):
                plain = re.sub(r"[^\w.-]+", "-", label).strip("-") or "label"
                raise UsageError(
                    f"'{label}' is not a label: a label has letters, digits, '.', '_' and '-' only",
                    fix=f"write {plain}={named_part}",
                )
            suggestions = (*self.labels, *self.cards, *fusions(), f"{_RUN}:FILE", "python:MODULE:FUNCTION")
            quoting = f'quote a value that has a comma: "{self._uncut}"; ' if self._uncut else ""
            not_a_card = reason_not_a_card("backends", named_part or name)
            raise UnknownNameError("backend", named_part or name, suggestions, or_else=not_a_card + quoting)
        before = len(self.errors)
        overrides = self._overrides(name, rest, card.parameters) if colon else {}
        self.errors += _about_external(name, card, overrides)
        if len(self.errors) > before:
            return None
        spelling = _spelt(overrides)
        # an external index says some parameters itself: they are empty until it is opened
        unread = card.external.read if card.external is not None and overrides.get(_EXTERNAL) else ()
        return BackendSpec(
            name=name,
            label=f"{name}:{spelling}" if spelling else name,
            kind="engine",
            card=card,
            parameters={**card.defaults, **dict.fromkeys(unread, ""), **overrides},
            overrides=overrides,
        )

    def _callable(self, name: str, item: str) -> BackendSpec:
        called = parse_callable(item)
        if called is None:
            raise UsageError(f"'{name}' does not name a backend", fix=f"write {CALLABLE_FORMS}")
        expression = called.expression
        called = replace(called, function=self._functions.get(expression))
        parameters = {"expression": expression}
        return BackendSpec(
            name, expression, kind="callable", card=None, parameters=parameters, overrides={}, called=called
        )

    def _run(self, item: str, rest: str) -> BackendSpec:
        try:
            file = unquoted(rest)
        except ValueError as error:
            raise UsageError(f"backend '{item}': {error}") from error
        path = existing_path(file)
        if not file or path is None or not path.is_file():
            raise UsageError(f"there is no run file '{file}' (backend '{item}')", fix="write run:PATH")
        return BackendSpec(
            _RUN, f"{_RUN}:{quoted(file)}", kind="run", card=None, parameters={}, overrides={}, run_path=path
        )

    def _fusion(self, method: Stage, rest: str) -> BackendSpec | None:
        before = len(self.errors)
        try:
            parts = split_fusion(rest)
        except UsageError as error:
            raise UsageError(f"fusion '{method.name}': {error.problem}", fix=error.fix) from error
        parsed = [self.parse(part) for part in parts.components]
        overrides = self._overrides(method.name, parts.parameters, method.parameters) if parts.parameters else {}
        components = tuple(component for component in parsed if component is not None)
        if len(parsed) < 2:
            self.refuse(f"fusion '{method.name}' has fewer than two components", f"write {method.name}:NAME+NAME")
        self._check_weights(method.name, len(parsed), overrides)
        self.errors += _repeated(components)
        if len(self.errors) > before:
            return None
        labels = "+".join(parenthesise(component.label) for component in components)
        return BackendSpec(
            name=method.name,
            label=";".join(filter(None, [f"{method.name}:{labels}", _spelt(overrides)])),
            kind="fusion",
            card=None,
            parameters={**method.defaults, **overrides},
            overrides=overrides,
            components=components,
        )

    def _check_weights(self, method: str, components: int, overrides: Mapping[str, ParameterValue]) -> None:
        weights = parse_weights(str(overrides.get("weights", "")))
        if weights is not None and (len(weights) != components or not any(weights)):
            problem = f"fusion '{method}' has {components} components and the weights {overrides['weights']}"
            self.refuse(problem, "give one number for each, one of them above 0: weights=0.3+0.7")

    def _reranked(self, first: BackendSpec | None, stages: Sequence[str]) -> BackendSpec | None:
        """Put second stages after ``first``, each on the hits of the stage before it."""
        before, spec = len(self.errors), first
        for stage in stages:
            name, colon, rest = (part.strip() for part in stage.partition(":"))
            if name not in rerankers():  # keywords| and keywords|x: the second bar is followed by no reranker's name
                raise UnknownNameError("reranker", name.rpartition("|")[2].strip(), rerankers())
            reranker = rerankers()[name]
            overrides = self._overrides(name, rest, reranker.parameters) if colon else {}
            if spec is None or len(self.errors) > before:
                return None
            spelling = f"{name}:{_spelt(overrides)}" if overrides else name
            spec = BackendSpec(
                name=name,
                label=f"{spec.label}|{spelling}",
                kind="rerank",
                card=None,
                parameters={**reranker.defaults, **overrides},
                overrides=overrides,
                components=(spec,),
            )
        return spec

    def _overrides(self, name: str, rest: str, parameters: Mapping[str, Parameter]) -> dict[str, ParameterValue]:
        overrides: dict[str, ParameterValue] = {}
        names = {alias: parameter.name for parameter in parameters.values() for alias in parameter.aliases}
        for part in split_outside(rest, ";"):
            key, equals, text = part.partition("=")
            written = key.strip()
            base, separator, dataset = written.partition("@")
            key = names.get(base, base)
            if not equals or not key:
                word, *more = part.split() or [""]
                quoted_word = f"'{word}{' …' if more else ''}'"  # text after a name may be a password
                if "@" in part:  # it may be a URL whose 'url=' was forgotten
                    quoted_word = "a part"
                self.refuse(f"backend '{name}': {quoted_word} is not key=value", "separate them with ';'")
            elif key == _EXTERNAL and key not in parameters:
                self.refuse(f"backend '{name}' cannot search an external index: its engine does not do it")
            elif key not in parameters:
                unknown = written if separator else key
                self.errors.append(
                    UnknownNameError("parameter", unknown, parameters, aliases=names, of=f"backend '{name}'")
                )
            elif separator and not (key in BY_DATASET and dataset):
                self._refuse_dataset(name, key, dataset, parameters)
            elif f"{key}{separator}{dataset}" in overrides:
                self.refuse(f"backend '{name}': parameter '{key}{separator}{dataset}' is given twice")
            else:
                spelling = _prompt_spelling if key.endswith("_prompt") else unquoted
                try:
                    overrides[f"{key}{separator}{dataset}"] = parameters[key].parse(spelling(text))
                except ValueError as error:
                    self.refuse(f"backend '{name}', parameter '{written}': {error}")
                    if key == _EXTERNAL:  # parameters about an external index are not a second mistake
                        overrides[key] = True
        return overrides

    def _refuse_dataset(self, name: str, key: str, dataset: str, parameters: Mapping[str, Parameter]) -> None:
        """Refuse a parameter that is given for one dataset and cannot be."""
        able = [parameter for parameter in BY_DATASET if parameter in parameters]
        fix = f"write {able[0]}@DATASET=TEXT" if able else "leave out @ and the text after it"
        problem = f"'{key}' cannot differ by dataset" if dataset else f"'{key}@' does not name a dataset"
        self.refuse(f"backend '{name}': {problem}", fix)


def _after_comma(overrides: Mapping[str, ParameterValue], names: Sequence[str]) -> str:
    """Return the first of ``names`` that is, with its value, inside another's, after a comma; "" without one."""
    values = [value for value in overrides.values() if isinstance(value, str)]
    return next((name for name in names if any(re.search(rf",\s*{name}\s*=", value) for value in values)), "")


def _about_external(name: str, card: BackendCard, overrides: Mapping[str, ParameterValue]) -> list[UsageError]:
    """Return the problems of the parameters for an external index."""
    rules = card.external
    if rules is None:
        return []
    set_options = [key for key in rules.required_options if overrides.get(key)]
    if not overrides.get(_EXTERNAL):
        stray = [key for key in (*rules.required_options, *rules.only) if key in overrides]
        return [
            UsageError(f"backend '{name}': '{key}' is about an external index", fix="add external=true, or drop it")
            for key in stray
        ]
    problems = [
        UsageError(f"backend '{name}': '{key}' is for building an index, and external=true builds none", fix="drop it")
        for key in rules.building
        if key in overrides
    ]
    if len(set_options) != 1:
        stated = f"{' and '.join(set_options)} both name" if set_options else "nothing names"
        options_text = " or ".join(f"{key}=…" for key in rules.required_options)
        comma = "" if set_options else _after_comma(overrides, rules.required_options)
        fix = f"separate parameters with ';': ;{comma}=…" if comma else f"give {options_text}"
        problems.append(UsageError(f"backend '{name}', external=true: {stated} the location of the index", fix=fix))
    elif overrides.get("path") and existing_path(str(overrides["path"])) is None:
        problems.append(
            UsageError(f"there is no folder or file '{overrides['path']}' (backend '{name}')", fix="name the index's")
        )
    return problems


def _prompt_spelling(text: str) -> str:
    """Return the value of a prompt.

    A JSON string with escapes keeps the quotes that encoders read, and so do an empty one and the word "none".
    """
    plain = unquoted(text)
    try:
        decoded = json.loads(text)
    except ValueError:
        return plain
    return plain if plain not in ("", NO_PROMPT) and decoded == plain else text.strip()


def _spelt(overrides: Mapping[str, ParameterValue]) -> str:
    return ";".join(f"{key}={spell(value)}" for key, value in overrides.items())


def spell(value: ParameterValue) -> str:
    """Return a value as written in a backend expression."""
    return str(value).lower() if isinstance(value, bool) else quoted(str(value))


def _repeated(specs: Sequence[BackendSpec]) -> list[HarnessError]:
    """Return a problem for each specification that repeats another: it would be one trial under two names."""
    seen: dict[Hashable, str] = {}
    problems: list[HarnessError] = []
    for spec in specs:
        if spec.identity in seen and (seen[spec.identity] != spec.label or spec.unlabelled is None):
            problems.append(UsageError(f"backends '{seen[spec.identity]}' and '{spec.label}' are the same"))
        elif spec.label in seen.values():
            problem = f"two backends have the label '{spec.label}'"
            problems.append(UsageError(problem, fix="give one of them another label"))
        seen.setdefault(spec.identity, spec.label)
    return problems


def _contradicting_labels(specs: Sequence[BackendSpec]) -> list[HarnessError]:
    """Return a problem for each label that names two backends, and for each backend with two, components included."""
    backends: dict[str, Hashable] = {}
    labels: dict[Hashable, str] = {}
    problems: list[HarnessError] = []
    for part in [part for spec in specs for part in parts_of(spec) if part.unlabelled is not None]:
        if backends.setdefault(part.label, part.identity) != part.identity:
            problem = f"two backends have the label '{part.label}'"
            problems.append(UsageError(problem, fix="give one of them another label"))
        elif labels.setdefault(part.identity, part.label) != part.label:
            problems.append(UsageError(f"backends '{labels[part.identity]}' and '{part.label}' are the same"))
    return problems
