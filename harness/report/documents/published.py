"""Tabulate published numbers next to measured ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from harness.document.cells import ABSENT, BACKEND, join_names, text
from harness.document.model import Cell, Column, Table, Value
from harness.results.schema import PublishedNumber, Result
from harness.results.verification import as_printed, printed_value
from harness.wording import counted

_CONDITIONS = 90
"""Conditions are left out first if there is no room."""
_LEGEND = "published for the same encoder and parameters, or by another source for the same system"


def published_tables(result: Result, dataset: str, title_suffix: str = "") -> list[Table]:
    """Return a table with a row for each backend and published system; empty if nothing is published."""
    numbers = [number for number in result.published if number.dataset == dataset and not number.datasets]
    return [_table(f"Published{title_suffix}", numbers, [])] if numbers else []


def published_mean_tables(result: Result) -> list[Table]:
    """Return a table for each set of datasets over which a mean is published."""
    by_members: dict[tuple[str, ...], list[PublishedNumber]] = {}
    for number in result.published:
        if number.datasets:
            by_members.setdefault(tuple(number.datasets), []).append(number)
    return [
        _table(
            f"Published, means over {counted(len(members), 'dataset')} of {numbers[0].dataset}",
            numbers,
            [f"means over {join_names(members, len(members))}; − published: our mean over the same, minus theirs"],
        )
        for members, numbers in by_members.items()
    ]


def _table(title: str, numbers: Sequence[PublishedNumber], legend: Sequence[str]) -> Table:
    metrics = list(dict.fromkeys(number.metric for number in numbers))
    sources = list(dict.fromkeys(number.source for number in numbers))
    rows: dict[tuple[str, str, str], dict[str, PublishedNumber]] = {}
    for number in numbers:
        rows.setdefault((number.backend, number.system, number.source), {})[number.metric] = number
    columns = [BACKEND, Column("published for", numeric=False)]
    for position, metric in enumerate(metrics):
        columns.append(Column(metric, help=f"{metric} as published", priority=position))
        columns.append(Column("− published", help="measured minus published", priority=position, follows=True))
    columns.append(Column("published with", numeric=False, priority=_CONDITIONS))
    cells = []
    for (backend, system, source), by_metric in rows.items():
        row = [text(backend), text(f"{system} [{sources.index(source) + 1}]")]
        for metric in metrics:
            row += _pair(by_metric.get(metric))
        conditions = dict.fromkeys(condition for number in by_metric.values() for condition in number.conditions)
        cells.append([*row, text(", ".join(conditions))])
    footnotes = [f"[{position}] {source}" for position, source in enumerate(sources, 1)]
    return Table(title, columns, cells, [_LEGEND, *legend, *footnotes])


def _pair(number: PublishedNumber | None) -> list[Cell]:
    """Return the cells of a published number and of the difference from it."""
    if number is None:
        return [Cell(ABSENT), Cell(ABSENT)]
    return [
        Cell(number.printed, value=printed_value(number.printed)),
        Cell(beside_printed(number.difference, number.printed, "+"), value=number.difference),
    ]


def beside_printed(value: float | None, printed: str, sign: Literal["+", "-"] = "-") -> str:
    """Write a measured value like the printed one, with two digits more."""
    return ABSENT if value is None else as_printed(value, printed, 2, sign).replace("-", "−")


def published_values(result: Result) -> Iterator[Value]:
    """Yield each published number under the name of its metric and system."""
    for number in result.published:
        over = f" over {', '.join(number.datasets)}" if number.datasets else ""
        name = f"published.{number.metric} of {number.system}{over}"
        yield Value(number.dataset, number.backend, name, printed_value(number.printed))
