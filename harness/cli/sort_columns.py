"""Which columns ``--sort`` can name, as far as it is known before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from harness.plan.plan import Plan


_EVERYWHERE = {"backend", "dataset"}
COMPARISON_COLUMNS = frozenset({
    *_EVERYWHERE, "answered", "evaluated", "backends", "reference", "bit-equal", "identical", "tie-equiv.", "RBO",
    "Δscore", "proven causes", "loss", "in graph", "similarity", "published for", "published with", "− published",
    "metric", "difference", "p", "W/T/L", "documents", "queries", "judged", "relevant", "differs by", "here",
})  # fmt: skip
"""Columns about quality and parity; those of probes, metrics, datasets and parameters come from the plan."""
_OF_SEVERAL_DATASETS = {"rank", "mean rank", "wins", "model", "dimensions", "parameters", "mean"}
_OF_SWEEPS = {"frontier", "index"}
CHECK_COLUMNS = frozenset({
    *_EVERYWHERE, "requirement", "verdict", "value", "range of ties", "n", "would flip", "exact up to ties", "question",
    "text", "expected", "found", "line", "p50 ms", "p95 ms", "p99 ms", "answered", "evaluated", "queries/s",
})  # fmt: skip
CHANGE_COLUMNS = frozenset({
    *_EVERYWHERE, "metric", "before", "after", "difference", "p", "W/T/L", "verdict", "gate", "setting", "cost",
    "ratio", "n", "why", "effect", "shows from", "queries needed", "noise floor",
})  # fmt: skip
AT_DEPTH = re.compile(r"(overlap|recall|identical|)@\d+")
"""Columns whose name says the depth that they look to."""


def check_sort(name: str | None, known: Iterable[str]) -> None:
    """Refuse, before anything runs, a column to sort by that no table will have; raises UnknownNameError."""
    columns = set(known)
    if name is not None and name not in columns and not AT_DEPTH.fullmatch(name):
        raise UnknownNameError("column to sort by", name, columns)


def check_sort_of_comparison(name: str | None, plan: Plan, swept: Iterable[str]) -> None:
    """Refuse a column that no table of this comparison will have; ``swept`` are parameters of sweeps.

    Raises:
        UsageError: The plan measures nothing for it. An UnknownNameError where no comparison has it.
    """
    from harness.pipeline.probes import PROBES

    names = {*map(str, plan.measures), *swept, *COMPARISON_COLUMNS, *(_OF_SWEEPS if swept else ())}
    if len(plan.datasets) > 1:
        names |= {*_OF_SEVERAL_DATASETS, *(dataset.name for dataset in plan.datasets)}
        names |= {"total"} if plan.execution.timing else set()
    for probe in PROBES:
        names |= probe.columns(plan)
    for probe in PROBES:
        if name not in names and name in probe.all_columns():
            raise UsageError(
                f"no table of this comparison will have the column '{name}' to sort by",
                fix=f"it comes with {probe.asked_by}; or sort by a metric: {', '.join(map(str, plan.measures))}",
            )
    check_sort(name, names)
