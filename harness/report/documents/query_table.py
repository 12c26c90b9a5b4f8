"""Tabulate the queries of a result: a row for each query, a column for each backend with its value of one metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from harness.data.types import Float64Array, Int64Array
from harness.document.cells import ABSENT, FAILED, number, sections_with_content, text
from harness.document.model import Cell, Column, Document, Section, Table, Tone
from harness.errors import UnknownNameError, UsageError
from harness.metrics import improvement, lower_is_better, reads_first
from harness.report.rankings.explorer import Explorer
from harness.report.rankings.pools import first_ranks
from harness.results.backend_info import abbreviations
from harness.stats.intervals import paired_differences
from harness.wording import counted, short_ids

_IN_SHORT = 20
_LONGEST = 60
_WON, _LOST = "↑", "↓"
_CHANGES = {1: "won", 0: "tied", -1: "lost"}
_MARKS = {1: _WON, 0: "", -1: _LOST}
_TONES: dict[int, Tone] = {1: "good", 0: "plain", -1: "bad"}
_VALUE = "value"
"""The last word of the columns of values in records: a bare label could be the name of another column."""
Record = Mapping[str, str | float | int | None]


def queries_document(explorers: Sequence[Explorer], metric: str | None, sort: str | None, made_by: str) -> Document:
    """Return every query of each dataset with the values of all backends on a metric, by default the first.

    The largest changes come first, then the lowest values, of questions with equal values those whose document is
    nearest; ``sort`` names a column that orders the rows, the best first.

    Raises UnknownNameError for an unknown metric or column, UsageError for a result without metrics.
    """
    if not explorers or not explorers[0].metrics:
        raise UsageError(
            "the result has no values of queries",
            fix="compare backends on a dataset with judgments, or correct the input of a check that is invalid",
        )
    first = explorers[0]
    if metric is not None and metric not in first.metrics:
        raise UnknownNameError("metric", metric, first.metrics, of="the result")
    name = metric if metric is not None else first.metrics[0]
    parts = [_Part(explorer, name, several=len(explorers) > 1) for explorer in explorers]
    rows = [row for part in parts for row in part.rows()]
    columns = parts[0].columns()
    if sort is not None:
        rows = _sorted(rows, sort, columns, name)
    short = short_ids(str(row.record["query"]) for row in rows)
    table = Table(
        f"{name} of {counted(len(rows), 'query')}",
        columns,
        [[text(short[str(row.record["query"])]), *row.cells] for row in rows],
        _common_legend(parts),
        most=_IN_SHORT,
    )
    return Document(
        title="queries",
        subtitle=" · ".join(first.labels),
        sections=sections_with_content([Section("queries", "Queries", [table])]),
        made_by=made_by,
        kind="queries",
        name=name,
        records=[row.record for row in rows],
        labels=abbreviations(label for explorer in explorers for label in explorer.labels),
    )


def _common_legend(parts: Sequence[_Part]) -> list[str]:
    """Return the meaning of marks and ranks, for each dataset if they differ: a reference may have failed on some."""
    legends = {part.explorer.dataset: part.legend() for part in parts}
    if all(legend == parts[0].legend() for legend in legends.values()):
        return parts[0].legend()
    return [f"{dataset}: {line}" for dataset, legend in legends.items() for line in legend]


def _sorted(rows: Sequence[_Row], name: str, columns: Sequence[Column], metric: str) -> list[_Row]:
    """Return the rows in the order of a column, the best value first, and rows without a value last.

    ``LABEL value``, its name in the CSV, is a backend's column too: a backend may be called ``query`` or ``text``.
    """
    values = {f"{column.name} {_VALUE}": column for column in columns if column.numeric}
    if name in values:
        columns, name = [values[name]], values[name].name
    names = [column.name for column in columns]
    if name not in names:
        raise UnknownNameError("column to sort by", name, names)
    if not columns[names.index(name)].numeric:
        return sorted(rows, key=lambda row: str(row.record[name]))
    sign = 1.0 if lower_is_better(metric) else -1.0

    def key(row: _Row) -> tuple[bool, float]:
        value = row.record[f"{name} {_VALUE}"]
        return (False, sign * value) if isinstance(value, float) else (True, 0.0)

    return sorted(rows, key=key)


@dataclass(frozen=True, slots=True)
class _Row:
    """A query: the cells after its id, and the same for programs."""

    cells: Sequence[Cell]
    record: Record


@dataclass(frozen=True)
class _Part:
    """The queries of one dataset; ``several`` says that the result has more datasets."""

    explorer: Explorer
    metric: str
    several: bool

    @cached_property
    def position(self) -> int:
        """The number of the metric."""
        return list(self.explorer.metrics).index(self.metric)

    @cached_property
    def values(self) -> Float64Array:
        """float64 (R, Q), NaN if a query is not evaluated."""
        if self.explorer.values is None:
            raise AssertionError("an explorer with metrics has values")
        return self.explorer.values[:, self.position]

    @cached_property
    def ranks(self) -> list[list[int | None]] | None:
        """The rank of each query's first relevant document in each ranking; None if the metric depends on more."""
        is_shown = self.explorer.expected is not None or reads_first(self.metric)
        return first_ranks(self.explorer) if is_shown and self.explorer.qrels is not None else None

    @cached_property
    def moves(self) -> Int64Array:
        """1 for won, -1 for lost, 0 for tied against the ranking that each is compared with, int64 (R, Q)."""
        moves = np.zeros(self.values.shape, dtype=np.int64)
        for ranking, reference in enumerate(self.explorer.references.tolist()):
            evaluated = ~np.isnan(self.values[[ranking, reference]]).any(axis=0)
            if evaluated.any():
                difference = paired_differences(self.values[reference, evaluated], self.values[ranking, evaluated])
                moves[ranking, evaluated] = np.sign([improvement(self.metric, one) for one in difference.tolist()])
        return moves

    @cached_property
    def order(self) -> Int64Array:
        """The numbers of the queries, int64 (Q,): by the largest change of any backend, then by the lowest value."""
        references = self.explorer.references
        largest = np.nan_to_num(np.abs(self.values - self.values[references]), nan=0.0).max(axis=0)
        low = np.nan_to_num(self.values[references[0]], nan=np.inf)
        sign = -1.0 if lower_is_better(self.metric) else 1.0
        return np.lexsort((self.explorer.nearest, sign * low, -np.where(self.moves.any(axis=0), largest, 0.0)))

    def columns(self) -> list[Column]:
        """Return the columns of the table: the query, its dataset and text, and the backends."""
        labels = self.explorer.labels
        columns = [Column("query", numeric=False, names=True)]
        columns += [Column("dataset", numeric=False, names=True)] if self.several else []
        columns += (
            [Column("text", numeric=False, priority=len(labels) + 1)] if self.explorer.queries is not None else []
        )
        columns += [
            Column(label, priority=position, below="rank", below_priority=position)
            for position, label in enumerate(labels)
        ]
        return columns

    def legend(self) -> list[str]:
        """Return the meaning of marks and ranks."""
        references = self.explorer.references.tolist()
        names = {self.explorer.labels[reference] for reference in references}
        than = names.pop() if len(names) == 1 else "before"
        compared = len(self.explorer.labels) > 1
        lines = [f"{_WON} better than {than} on this query, {_LOST} worse"] if compared else []
        if self.ranks is not None:
            kind = "expected" if self.explorer.expected is not None else "relevant"
            lines.append(f"rank: of the first {kind} document; {ABSENT} not among the hits")
        return lines

    def rows(self) -> Iterator[_Row]:
        """Yield the queries, those that changed most first."""
        explorer = self.explorer
        texts = explorer.query_texts() if explorer.queries is not None else None
        ids = explorer.query_ids.to_list()
        for query in self.order.tolist():
            cells: list[Cell] = []
            record: dict[str, str | float | int | None] = {"query": ids[query]}
            if self.several:
                cells.append(text(explorer.dataset))
                record["dataset"] = explorer.dataset
            if texts is not None:
                cells.append(text(_shortened(texts[query])))
                record["text"] = texts[query]
            record["metric"] = self.metric
            for ranking, label in enumerate(explorer.labels):
                cell, facts = self._value(ranking, query)
                cells.append(cell)
                record |= {f"{label} {name}": fact for name, fact in facts.items()}
            yield _Row(cells, record)

    def _value(self, ranking: int, query: int) -> tuple[Cell, Record]:
        """Return the cell of a query in a ranking, and its value, rank, whether it is missed, and what changed."""
        value, failed = float(self.values[ranking, query]), self.explorer.failed
        is_known, is_failed = value == value, failed is not None and bool(failed[ranking, query])
        cell = number(value) if is_known else text(FAILED if is_failed else ABSENT)
        facts: dict[str, str | float | int | None] = {_VALUE: value if is_known else None}
        if self.ranks is not None:
            rank = self.ranks[ranking][query]
            says = not is_failed and (is_known or self.explorer.expected is None)
            facts["rank"] = rank or None if says else None
            below = "" if not says else "unknown" if rank is None else f"{rank:,}" if rank else ABSENT
            cell = replace(cell, below=below)
            if self.explorer.expected is not None:
                depth = self.explorer.depths[self.position]
                facts["missed"] = int(not rank or rank > depth) if says else None
        reference = int(self.explorer.references[ranking])
        if reference != ranking:
            is_compared = is_known and not np.isnan(self.values[reference, query])
            move = int(self.moves[ranking, query])
            facts["change"] = _CHANGES[move] if is_compared else None
            cell = replace(cell, mark=_MARKS[move], tone=_TONES[move])
        return cell, facts


def _shortened(query: str) -> str:
    return query if len(query) <= _LONGEST else f"{query[:_LONGEST]} …"
