"""The plan of a baseline, run again with the changes that the options of ``harness regress`` name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from harness.errors import UnknownNameError, UsageError
from harness.metrics.parse import metric_texts
from harness.pipeline.planning import plan_for
from harness.plan.backend_spec import BackendSpec, parse_backends, parts_of, spell
from harness.plan.capability_checks import plan_of_backends
from harness.plan.config import CompareRequest, Output, RegressRequest, rerun_fields
from harness.plan.expressions import parenthesise, split_outside
from harness.plan.option_fields import command_words, from_keywords, keyword_arguments, option_fields, option_words
from harness.plan.plan import Plan
from harness.results.schema_base import PlanRecord
from harness.results.snapshot import ResultSnapshot

_NOT_TAKEN_OVER = {"resume", "reference", "all_pairs"}
"""Options of a baseline's plan that a new run leaves: it measures, and compares with another result, not within."""
_ALL_BACKENDS = "*"
_FORM = "write --set NAME:KEY=VALUE;KEY=VALUE, with '*' for the name of every backend that has the parameter"


def rerun_plan(regress: RegressRequest, changes: Mapping[str, object], before: Sequence[ResultSnapshot]) -> Plan:
    """Return the plan of ``before``, the datasets of a baseline, with the changes.

    Raises:
        UsageError: for the result of a check, whose plan is not a comparison's, and for wrong changes.
    """
    first = before[0]
    if first.kind == "check":
        words = list(first.report.command)
        for flag in ("--save-baseline", "--out", "--baseline"):
            if flag in words:
                position = words.index(flag)
                del words[position : position + 2]
        raise UsageError(
            f"'{first.source}' is the result of a check, which `harness check` repeats and compares",
            fix=f"run: {shlex.join([*words, '--baseline', first.source])}",
        )
    objects = [
        info.name for snapshot in before if (info := snapshot.report.dataset).provenance.get("format") == "objects"
    ]
    if regress.dataset is None and objects:
        raise UsageError(
            f"the dataset '{', '.join(objects)}' of '{first.source}' was an object in Python",
            fix="name its present location, as dataset=…; or run it again in Python, then: harness diff BEFORE AFTER",
        )
    request = request_of(first.report.plan, changes)
    if regress.dataset is not None:
        request = replace(request, dataset=regress.dataset)
    if regress.backends is not None:
        request = _without_sweep(request, regress.backends)
    if regress.set:
        if request.sweep:
            expressions = [trial.spec.expression for trial in plan_of_backends(request).trials]
            request = _without_sweep(request, expressions)
        specs = parse_backends(request.backends, cards=request.cards)
        request = replace(request, backends=changed_backends(specs, regress.set))
    return plan_for(request)


def rerun_command(regress: RegressRequest, changes: Mapping[str, object], output: Output, plan: Plan) -> list[str]:
    """Return the command that runs ``plan`` again, a call in Python if the command line has no option for it."""
    fields, stored = rerun_fields(), plan.without_secrets()
    if regress.backends is not None and stored:
        regress = replace(regress, backends=",".join(stored["backends"]))
    if changes.keys() <= fields.keys() and regress.max_drop is not None:
        changed = [word for name, value in changes.items() for word in option_words(fields[name], value)]
        return ["harness", "regress", *command_words(regress), *changed, *command_words(output)]
    keywords = keyword_arguments(regress) | dict(changes) | keyword_arguments(output)
    words = [f"{name}={_plain(value)!r}" for name, value in keywords.items() if name != "baseline"]
    call = f"harness.regress({', '.join([repr(str(regress.baseline)), *words])})"
    return ["python", "-c", f"import harness; print({call})"]


def _plain(value: object) -> object:
    """Return a value that Python's text for it makes again: paths as text."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return str(value) if isinstance(value, Path) else value


def request_of(record: PlanRecord, changes: Mapping[str, object]) -> CompareRequest:
    """Return the request as it was given then, with the changes of now on top."""
    field_names = option_fields(CompareRequest).keys() - _NOT_TAKEN_OVER
    arguments = {name: value for name, value in record.arguments.items() if name in field_names and value is not None}
    merged = {**arguments, **changes}
    if not merged.get("timing", True) and "warm_up" not in changes:
        merged.pop("warm_up", None)  # the baseline's, which had times
    (request,) = from_keywords("harness.regress", merged, CompareRequest)
    return cast("CompareRequest", request)


def _without_sweep(request: CompareRequest, backends: str | Sequence[str]) -> CompareRequest:
    """Return the request with these backends in place of its own and of its sweeps', and the same metrics."""
    metrics = request.metrics if request.tune is None else [*metric_texts(request.metrics), request.tune]
    return replace(request, backends=backends, sweep=(), tune=None, folds=None, metrics=metrics)


@dataclass(frozen=True, slots=True)
class _Change:
    """One ``--set``: a name (or ``*``), and the values as they are written, in quotes or not."""

    name: str
    values: dict[str, str]

    def of(self, spec: BackendSpec) -> dict[str, str]:
        """Return its settings of a backend: nothing for another name, or without the parameter."""
        if not _can_be_set(spec):
            return {}
        if self.name == _ALL_BACKENDS:
            return {key: text for key, text in self.values.items() if key in spec.parameters}
        return self.values if self.name == spec.name else {}


def changed_backends(specs: Sequence[BackendSpec], settings: Sequence[str]) -> list[str]:
    """Return backend expressions of ``specs`` with every change applied, to components and second stages too.

    Raises UsageError for a malformed change, UnknownNameError for a change without effect. Values are parsed with the
    resulting expressions.
    """
    changes = [_parse(text) for text in settings]
    parts = [part for spec in specs for part in parts_of(spec)]
    names = {part.name for part in parts if _can_be_set(part)}
    for change in changes:
        matching = [part for part in parts if change.name in (part.name, part.label)]
        fixed = next((part for part in matching if not _can_be_set(part)), None)
        if fixed is not None and change.name not in names:
            raise UsageError(
                f"--set {change.name}: '{fixed.label}' has no parameters to change",
                fix="name all backends of the new plan with --backends",
            )
        if change.name not in {*names, _ALL_BACKENDS}:
            raise UnknownNameError("backend of the plan", change.name, names)
        if not any(map(change.of, parts)):
            parameter_names = {key for part in parts if _can_be_set(part) for key in part.parameters}
            raise UnknownNameError("parameter of the plan's backends", next(iter(change.values)), parameter_names)
    return [_expression(spec, changes) for spec in specs]


def _can_be_set(spec: BackendSpec) -> bool:
    """Return whether a backend has parameters: a stored run has none, nor has the user's own code."""
    return spec.called is None and spec.kind != "run"


def _parse(text: str) -> _Change:
    name, colon, rest = text.partition(":")
    values = {}
    for part in split_outside(rest, ";"):
        key, equals, value = part.partition("=")
        if not colon or not name.strip() or not equals or not key.strip():
            raise UsageError(f"--set {text}: '{part or text}' is not key=value", fix=_FORM)
        values[key.strip()] = value.strip()
    return _Change(name.strip(), values)


def _expression(spec: BackendSpec, changes: Sequence[_Change]) -> str:
    """Return a backend's expression with the changes, and with its label."""
    label = f"{spec.label}=" if spec.unlabelled is not None else ""
    return f"{label}{_without_label(spec, changes)}"


def _without_label(spec: BackendSpec, changes: Sequence[_Change]) -> str:
    overrides = {key: spell(value) for key, value in spec.overrides.items()}
    for change in changes:
        overrides |= change.of(spec)
    parameters = ";".join(f"{key}={value}" for key, value in overrides.items())
    components = [_expression(component, changes) for component in spec.components]
    if spec.called is not None:
        return spec.called.expression
    if spec.kind == "run":
        return spec.unlabelled or spec.label
    if spec.kind == "fusion":
        return (
            f"{spec.name}:{';'.join(['+'.join(map(parenthesise, components)), *([parameters] if parameters else [])])}"
        )
    expression = f"{spec.name}:{parameters}" if parameters else spec.name
    if spec.kind == "rerank":
        (first,) = spec.components
        return f"{components[0] if first.unlabelled is None else parenthesise(components[0])}|{expression}"
    return expression
