"""``--set lucene:k1=3;b=0.95``: the same backends with other parameters, wherever they stand in the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import UnknownNameError, UsageError
from harness.plan.backend_spec import BackendSpec, spell
from harness.plan.expressions import in_parentheses, split_outside
from harness.registry.parameters import current_spelling

__all__ = ["changed_backends"]

_EVERY = "*"
_FORM = "write --set NAME:KEY=VALUE;KEY=VALUE, with '*' for the name of every backend that has the parameter"


@dataclass(frozen=True, slots=True)
class _Change:
    """One ``--set``: a name (or ``*``), and the values as they are written, in quotes or not."""

    name: str
    values: dict[str, str]

    def of(self, spec: BackendSpec) -> dict[str, str]:
        """What it sets of one backend: nothing of one with another name, or without the parameter."""
        if self.name == _EVERY:
            return {key: text for key, text in self.values.items() if key in spec.parameters}
        return self.values if self.name == spec.name else {}


def changed_backends(specs: Sequence[BackendSpec], settings: Sequence[str]) -> list[str]:
    """Backend expressions of ``specs`` with every change applied, to components and second stages too.

    Raises UsageError for a malformed change, UnknownNameError for one that would change nothing. Values are parsed with
    the expressions that come out.
    """
    changes = [_parse(text) for text in settings]
    names = {one.name for spec in specs for one in _parts(spec)}
    for change in changes:
        if change.name not in {*names, _EVERY}:
            raise UnknownNameError("backend of the baseline", change.name, names)
        if not any(change.of(one) for spec in specs for one in _parts(spec)):
            known = {key for spec in specs for one in _parts(spec) for key in one.parameters}
            raise UnknownNameError("parameter of the baseline's backends", next(iter(change.values)), known)
    labels = [f"{spec.label}=" if spec.unlabelled is not None else "" for spec in specs]
    return [f"{label}{_expression(spec, changes)}" for label, spec in zip(labels, specs, strict=True)]


def _parse(text: str) -> _Change:
    name, colon, rest = text.partition(":")
    values = {}
    for part in split_outside(rest, ";"):
        key, equals, value = part.partition("=")
        if not colon or not name.strip() or not equals or not key.strip():
            raise UsageError(f"--set {text}: '{part or text}' is not key=value", fix=_FORM)
        values[current_spelling(key.strip())] = value.strip()
    return _Change(name.strip(), values)


def _parts(spec: BackendSpec) -> list[BackendSpec]:
    """The backend itself and all that it is made of."""
    return [spec, *(part for component in spec.components for part in _parts(component))]


def _expression(spec: BackendSpec, changes: Sequence[_Change]) -> str:
    given = {key: spell(value) for key, value in spec.overrides.items()}
    for change in changes:
        given |= change.of(spec)
    shown = ";".join(f"{key}={value}" for key, value in given.items())
    components = [_expression(component, changes) for component in spec.components]
    if spec.kind == "run":
        return spec.unlabelled or spec.label
    if spec.kind == "fusion":
        return f"{spec.name}:{';'.join(['+'.join(map(in_parentheses, components)), *([shown] if shown else [])])}"
    own = f"{spec.name}:{shown}" if shown else spec.name
    return f"{components[0]}|{own}" if spec.kind == "rerank" else own
