"""Sweeps of a parameter: the backends that they add to a comparison, and their positions in it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.errors import UsageError
from harness.plan.backend_spec import BackendSpec, parse_backends, spell, with_components
from harness.plan.expressions import expand, swept
from harness.plan.option_fields import Mistakes


@dataclass(frozen=True, slots=True)
class PlannedSweep:
    """One ``--sweep`` of a plan.

    Attributes:
        backend: The swept backend as written without the parameter.
        parameter: The swept parameter.
        labels: Each value, as written in labels -> the label of the backend that has it.
        expression: The sweep as it may be stored.
    """

    backend: str
    parameter: str
    labels: Mapping[str, str]
    expression: str = ""


def with_sweeps(
    labelled: Sequence[BackendSpec], sweeps: Sequence[str], cards: Path | None
) -> tuple[list[BackendSpec], tuple[PlannedSweep, ...]]:
    """Return the ``labelled`` backends with the backends of every sweep, and the sweeps.

    The backends of a sweep follow the backend that it names, which stays, or come last if there is none. A value that
    makes a backend equal to an existing one, as the parameter's default does, adds none.

    Raises:
        UsageError: A sweep is malformed, or a backend of it; all of these together.
    """
    mistakes, groups = Mistakes(), [[spec] for spec in labelled]
    made: list[tuple[str, list[BackendSpec]]] = []
    for sweep in sweeps:
        parsed = mistakes.catch(partial(_parse, sweep, cards, labelled))
        if parsed is None:
            continue
        written = swept(sweep)
        group = _group(groups, written.backend, labelled, cards)
        for spec in parsed:
            if all(spec.identity != other.identity for members in groups for other in members):
                group.append(spec)
        made.append((sweep, parsed))
    mistakes.raise_if_any()
    specs = [spec for group in groups for spec in group]
    labels = {spec.identity: spec.label for spec in with_components(specs)}
    return specs, tuple(_planned(sweep, parsed, labels) for sweep, parsed in made)


def _parse(sweep: str, cards: Path | None, labelled: Sequence[BackendSpec]) -> list[BackendSpec]:
    """Return the backend of each value of a sweep; raises UsageError."""
    return parse_backends(expand(sweep), cards, labelled=labelled)


def _group(
    groups: list[list[BackendSpec]], backend: str, labelled: Sequence[BackendSpec], cards: Path | None
) -> list[BackendSpec]:
    """Return the group that begins with the swept ``backend``; a new group at the end if there is no such group."""
    with suppress(UsageError):  # a backend that needs the swept parameter is not there without it
        (spec,) = parse_backends([backend], cards, labelled=labelled)
        for group in groups:
            if group and group[0].identity == spec.identity:
                return group
    groups.append([])
    return groups[-1]


def _planned(sweep: str, specs: Sequence[BackendSpec], labels: Mapping[Hashable, str]) -> PlannedSweep:
    """Return a sweep by its backends, whose own labels hold no secrets."""
    written = swept(sweep)
    parameter = [written.parameter, *specs[0].overrides][-1]
    values = [
        spell(spec.parameters[parameter]) if parameter in spec.parameters else value
        for spec, value in zip(specs, written.values, strict=True)
    ]
    start = specs[0].label.rpartition(f"{parameter}=")[0]
    return PlannedSweep(
        backend=start.removesuffix(";").removesuffix(":"),
        parameter=parameter,
        labels={value: labels[spec.identity] for value, spec in zip(values, specs, strict=True)},
        expression=f"{start}{parameter}={','.join(written.values)}",
    )
