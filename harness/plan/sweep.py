"""``--sweep chroma:ef_search=10,50,100``: one backend for each value, in the order given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.errors import UsageError
from harness.plan.expressions import quoted, split_outside, unquoted, without_parentheses

__all__ = ["Swept", "expand", "swept"]


class Swept(NamedTuple):
    """A sweep: the backend as it is named without the parameter, the parameter, and its values as labels have them."""

    backend: str
    parameter: str
    values: tuple[str, ...]


_FORM = "NAME:KEY=VALUE,VALUE… or NAME:OTHER=VALUE;KEY=VALUE,VALUE…"


def expand(backends: str | Sequence[str], sweeps: Sequence[str]) -> list[str]:
    """The backends with every sweep in the place of the backend that it names, or behind them when none of them is it.

    A sweep is a backend expression whose last parameter has several values. Raises UsageError when it is not.
    """
    items = split_outside(backends, ",") if isinstance(backends, str) else backends
    expanded = [without_parentheses(item) for item in items]
    for sweep in sweeps:
        base, values = _parse(sweep)
        kept = base[: max(base.rfind(";"), base.rfind(":"))]
        place = expanded.index(kept) if kept in expanded else len(expanded)
        expanded[place : place + 1] = [f"{base}={value}" for value in values]
    return expanded


def swept(sweep: str) -> Swept:
    """What a sweep expression says; raises UsageError when it is none."""
    base, values = _parse(sweep)
    place = max(base.rfind(";"), base.rfind(":"))
    return Swept(base[:place].strip(), base[place + 1 :].strip(), tuple(values))


def _parse(sweep: str) -> tuple[str, list[str]]:
    """The expression up to the swept parameter's name, and its values."""
    *parts, listed = split_outside(sweep, "=")
    try:
        base, values = "=".join(parts), [quoted(unquoted(value)) for value in split_outside(listed, ",")]
    except ValueError as error:
        raise UsageError(f"--sweep {sweep}: {error}") from error
    if not parts or ":" not in base or any(not value for value in values):
        raise UsageError(f"--sweep {sweep}: not of the form {_FORM}", fix="write --sweep chroma:ef_search=10,50,100")
    if len(values) < 2 or len(set(values)) < len(values):
        raise UsageError(f"--sweep {sweep}: needs at least two different values", fix="name one value in --backends")
    return base.strip(), values
