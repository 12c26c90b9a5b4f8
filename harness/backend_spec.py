"""Backend expressions: ``name``, ``name:key=value;key=value`` and ``run:file``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.cards import BackendCard
from harness.errors import HarnessError, UnknownNameError, UsageError

if TYPE_CHECKING:  # protocols brings numpy; backend expressions are checked before it is needed
    from harness.protocols import ParameterValue

__all__ = ["BackendSpec", "parse_backend_specs"]

_RUN = "run"


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """One backend of a comparison.

    ``kind`` is ``engine`` (then ``card`` is set) or ``run`` (then ``run_path`` is set: anybody's ranked documents).
    ``parameters`` is complete: the card's defaults with ``given`` on top. ``label`` is unique in a comparison and shows
    what was given.
    """

    label: str
    kind: Literal["engine", "run"]
    card: BackendCard | None
    parameters: Mapping[str, ParameterValue]
    given: Mapping[str, ParameterValue]
    run_path: Path | None = None

    @property
    def name(self) -> str:
        """The card's name, or ``run``."""
        return _RUN if self.card is None else self.card.name


def parse_backend_specs(text: str | Sequence[str], cards: Mapping[str, BackendCard]) -> list[BackendSpec]:
    """See :func:`harness.registry.parse_backends`; ``cards`` are the known backends."""
    items = text.split(",") if isinstance(text, str) else list(text)
    problems: list[HarnessError] = []
    specs = [spec for item in items if (spec := _parse(item.strip(), cards, problems)) is not None]
    problems += _repeated(specs)
    if not items:
        problems.append(UsageError("no backend is named", fix=f"known: {', '.join(cards)}"))
    if len(problems) == 1:
        raise problems[0]
    if problems:
        listed = "".join(f"\n  {str(problem).replace(chr(10), chr(10) + '  ')}" for problem in problems)
        raise UsageError(f"{len(problems)} problems in the backends{listed}")
    return specs


def _parse(item: str, cards: Mapping[str, BackendCard], problems: list[HarnessError]) -> BackendSpec | None:
    name, colon, rest = item.partition(":")
    name = name.strip()
    if not name:
        problems.append(UsageError(f"a backend has no name: '{item}'", fix="write name or name:key=value;key=value"))
        return None
    if name == _RUN:
        return _run(item, rest, problems)
    card = cards.get(name)
    if card is None:
        problems.append(UnknownNameError("backend", name, (*cards, f"{_RUN}:FILE")))
        return None
    found_before = len(problems)
    given = _given(name, rest, card, problems) if colon else {}
    if len(problems) > found_before:
        return None
    shown = ";".join(f"{key}={_spell(value)}" for key, value in given.items())
    return BackendSpec(
        label=f"{name}:{shown}" if shown else name,
        kind="engine",
        card=card,
        parameters={**card.defaults, **given},
        given=given,
    )


def _run(item: str, rest: str, problems: list[HarnessError]) -> BackendSpec | None:
    path = Path(rest).expanduser()
    if not rest or not path.is_file():
        problems.append(UsageError(f"there is no run file '{rest}' (backend '{item}')", fix="write run:PATH"))
        return None
    return BackendSpec(label=item, kind="run", card=None, parameters={}, given={}, run_path=path)


def _given(name: str, rest: str, card: BackendCard, problems: list[HarnessError]) -> dict[str, ParameterValue]:
    given: dict[str, ParameterValue] = {}
    for part in rest.split(";"):
        key, equals, text = part.partition("=")
        key = key.strip()
        if not equals or not key:
            problems.append(UsageError(f"backend '{name}': '{part}' is not key=value", fix="separate them with ';'"))
        elif key not in card.parameters:
            problems.append(UnknownNameError(f"parameter of backend '{name}'", key, card.parameters))
        elif key in given:
            problems.append(UsageError(f"backend '{name}': parameter '{key}' is given twice"))
        else:
            try:
                given[key] = card.parameters[key].parse(text.strip())
            except ValueError as error:
                problems.append(UsageError(f"backend '{name}', parameter '{key}': {error}"))
    return given


def _spell(value: ParameterValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _repeated(specs: Sequence[BackendSpec]) -> list[HarnessError]:
    """Specifications that resolve to the same thing: they would be one trial under two names."""
    seen: dict[tuple[object, ...], str] = {}
    problems: list[HarnessError] = []
    for spec in specs:
        resolved = (spec.name, spec.run_path and spec.run_path.resolve(), *sorted(spec.parameters.items()))
        if resolved in seen:
            problems.append(UsageError(f"backends '{seen[resolved]}' and '{spec.label}' are the same"))
        seen.setdefault(resolved, spec.label)
    return problems
