"""Build the document of one query: values, ranks of its relevant documents, and the first hits of every backend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness.data.arrow import take_rows
from harness.data.id_spelling import separate_options
from harness.data.types import Ids
from harness.document.cells import ABSENT, FAILED, number, sections_with_content, text
from harness.document.model import Block, Cell, Column, Document, Facts, Notes, Section, Table, Value
from harness.errors import UnknownNameError, UsageError
from harness.metrics import improvement
from harness.report.documents.quality import best_value
from harness.report.rankings.explorer import ExpectedDocuments, Explorer, of_one_query
from harness.report.rankings.pools import ranks_in_pools
from harness.results.backend_info import abbreviations
from harness.results.pools import DEPTH, UNJUDGED, Pools, Top, pools_of, top_of
from harness.stats.intervals import paired_differences

_BETTER, _WORSE = "↑", "↓"
_RELEVANT, _UNJUDGED = "✓", "?"
_LONGEST_QUERY, _LONGEST_TEXT = 600, 300


def query_document(explorers: Sequence[Explorer], query_id: str, made_by: str) -> Document:
    """Return everything that is shown of a query, on each dataset that has one with this id.

    Raises UnknownNameError if no dataset has it, UsageError if it is a list of queries.
    """
    matching = [explorer for explorer in explorers if query_id in explorer.query_ids.to_list()]
    if not matching:
        names = list(dict.fromkeys(name for explorer in explorers for name in explorer.query_ids))
        if options := separate_options("--query", query_id, Ids.of(names)):
            raise UsageError(f"unknown query '{query_id}' of the result", fix=f"name one query: {' or '.join(options)}")
        raise UnknownNameError("query", query_id, names, of="the result")
    views = [
        _View(of_one_query(explorer, query_id), f", {explorer.dataset}" if len(matching) > 1 else "")
        for explorer in matching
    ]
    return Document(
        title=f"query {query_id}",
        subtitle=" · ".join(dict.fromkeys(fact for view in views for fact in view.facts)),
        sections=sections_with_content(
            [
                Section("values", "Values", [table for view in views for table in view.value_tables()]),
                Section("relevant", "Relevant documents", [view.relevant_table() for view in views]),
                Section("hits", "Hits", [view.hits_table() for view in views]),
                Section("texts", "Texts", [block for view in views for block in view.texts()], detail=True),
            ]
        ),
        made_by=made_by,
        kind="query",
        name=query_id,
        labels=abbreviations(label for view in views for label in view.explorer.labels),
        values=[value for view in views for value in view.values()],
    )


@dataclass(frozen=True)
class _View:
    """The rankings of one query on one dataset; ``suffix`` names the dataset in titles if there are several."""

    explorer: Explorer
    suffix: str

    @cached_property
    def top(self) -> Top:
        explorer = self.explorer
        return top_of(explorer.runs, explorer.query_ids, explorer.qrels, explorer.relevance)

    @cached_property
    def pools(self) -> Pools:
        explorer = self.explorer
        return pools_of(self.top, explorer.runs, explorer.query_ids, explorer.qrels, explorer.relevance)

    @cached_property
    def documents(self) -> list[str]:
        """The first hits of all rankings, and the relevant documents."""
        return [self.pools.ids[slot] for slot in self.pools.docs.tolist()]

    @cached_property
    def grades(self) -> dict[str, int]:
        """Document -> its grade, of those that have one."""
        grades = zip(self.documents, self.pools.grades.tolist(), strict=True)
        return {name: grade for name, grade in grades if grade != UNJUDGED}

    @cached_property
    def short(self) -> dict[str, str]:
        """Document or expected id -> the same as shown in narrow columns."""
        return self.explorer.document_names([*self.documents, *(one.id for one in self.expected)])

    @property
    def expected(self) -> Sequence[ExpectedDocuments]:
        return self.explorer.expected[0] if self.explorer.expected is not None else ()

    @property
    def failed(self) -> list[bool]:
        failed = self.explorer.failed
        return [False] * len(self.explorer.labels) if failed is None else failed[:, 0].tolist()

    @property
    def facts(self) -> Iterator[str]:
        """The text of the query, and its filter."""
        explorer = self.explorer
        (written,) = explorer.query_texts()
        if written:
            yield written if len(written) <= _LONGEST_QUERY else f"{written[:_LONGEST_QUERY]} …"
        if explorer.filters and explorer.filters[0]:
            yield f"filter {explorer.filters[0]}"

    def value_tables(self) -> Iterator[Table]:
        """Yield a row for each ranking: its metrics, and how it relates to its exact reference."""
        explorer = self.explorer
        if explorer.values is None:
            return
        columns = [Column("backend", numeric=False, names=True)]
        columns += [Column(name, best=best_value(name), priority=rank) for rank, name in enumerate(explorer.metrics)]
        if explorer.agreement is not None:
            columns.append(Column("exact reference", numeric=False))
        rows = [[text(label), *self._values_of(ranking)] for ranking, label in enumerate(explorer.labels)]
        marks = {cell.mark for row in rows for cell in row}
        names = {explorer.labels[reference] for reference in explorer.references.tolist()}
        than = names.pop() if len(names) == 1 else "before"
        legend = [f"{_BETTER} better than {than}, {_WORSE} worse"] if marks & {_BETTER, _WORSE} else []
        yield Table(f"Values{self.suffix}", columns, rows, legend)

    def _values_of(self, ranking: int) -> Iterator[Cell]:
        explorer = self.explorer
        reference = int(explorer.references[ranking])
        for position, name in enumerate(explorer.metrics):
            value, before = (float(explorer.values[row, position, 0]) for row in (ranking, reference))  # type: ignore[index]
            if value != value:
                yield text(FAILED if self.failed[ranking] else ABSENT)
                continue
            change = improvement(name, float(paired_differences([before], [value])[0])) if before == before else 0.0
            mark = _BETTER if change > 0 else _WORSE if change < 0 else ""
            yield replace(number(value), mark=mark, tone="good" if change > 0 else "bad" if change < 0 else "plain")
        agreement = explorer.agreement
        if agreement is not None:
            state, cause = int(agreement.state[ranking, 0]), int(agreement.cause[ranking, 0])
            because = f": {agreement.causes[cause]}" if cause >= 0 else ""
            yield text(ABSENT if state < 0 else f"{agreement.states[state]}{because}")

    def relevant_table(self) -> Table:
        """Tabulate the ranks of expected or relevant documents, the highest grades first."""
        labels = self.explorer.labels
        columns = [
            Column("document" if not self.expected else "expected", numeric=False, unfolded=True),
            Column("grade"),
            *(Column(label, below="exact rank", below_priority=1) for label in labels),
        ]
        if self.expected:
            rows = [self._expected_row(one) for one in self.expected]
            return Table(f"Ranks of expected documents{self.suffix}", columns, rows, _legend_of_ranks(rows))
        ranks = dict(
            zip(self.documents, zip(*ranks_in_pools(self.explorer, self.top, self.pools), strict=True), strict=True)
        )
        relevant = [name for name, grade in self.grades.items() if grade >= self.explorer.relevance]
        relevant.sort(key=lambda name: -self.grades[name])
        rows = [[text(self.short[name]), number(self.grades[name], ","), *map(_rank, ranks[name])] for name in relevant]
        return Table(f"Ranks of relevant documents{self.suffix}", columns, rows, _legend_of_ranks(rows))

    def _expected_row(self, expected: ExpectedDocuments) -> list[Cell]:
        exact = expected.reference_ranks or [None] * len(expected.ranks)
        cells = [
            replace(_rank(rank), below=f"exact {reference:,}" if reference and reference != rank else "")
            for rank, reference in zip(expected.ranks, exact, strict=True)
        ]
        return [text(self.short[expected.id]), number(expected.grade, ","), *cells]

    def hits_table(self) -> Table:
        """Tabulate the first hits of every ranking side by side."""
        labels, docs, scores = self.explorer.labels, self.top.docs[:, 0], self.top.scores[:, 0]
        columns = [Column("rank"), *(Column(label, numeric=False, below="score", below_priority=1) for label in labels)]
        rows = [
            [
                number(position + 1, ","),
                *(
                    self._hit(int(docs[ranking, position]), float(scores[ranking, position]))
                    for ranking in range(len(labels))
                ),
            ]
            for position in range(min(DEPTH, int(self.top.hits.max(initial=0))))
        ]
        marks = {cell.mark for row in rows for cell in row}
        words = {_RELEVANT: "relevant" if not self.expected else "expected", _UNJUDGED: "without a judgment"}
        return Table(f"Hits{self.suffix}", columns, rows, [f"{mark} {words[mark]}" for mark in words if mark in marks])

    def _hit(self, slot: int, score: float) -> Cell:
        if slot < 0:
            return text(ABSENT)
        name = self.top.ids[slot]
        grade = self.grades.get(name)
        unjudged = grade is None and self.explorer.qrels is not None and self.explorer.expected is None
        mark = _RELEVANT if grade is not None and grade >= self.explorer.relevance else _UNJUDGED if unjudged else ""
        return Cell(self.short[name], mark, f"{score:.6g}" if score == score else "")

    def texts(self) -> Iterator[Block]:
        """Yield the beginning of each document's text, or why there is none."""
        corpus = self.explorer.corpus
        if corpus is None:
            yield Notes([self.explorer.no_texts] if self.explorer.no_texts else [])
            return
        rows = corpus.ids.rows_of(Ids.of(self.documents))
        present = [name for name, row in zip(self.documents, rows.tolist(), strict=True) if row >= 0]
        texts = take_rows(corpus.texts, rows[rows >= 0]).to_pylist()
        yield Facts(
            f"Texts{self.suffix}",
            [
                (self.short[name], written if len(written) <= _LONGEST_TEXT else f"{written[:_LONGEST_TEXT]} …")
                for name, written in zip(present, texts, strict=True)
            ],
            open=True,
        )

    def values(self) -> Iterator[Value]:
        """Yield every value of the query, for programs."""
        explorer = self.explorer
        for ranking, label in enumerate(explorer.labels):
            for position, name in enumerate(explorer.metrics if explorer.values is not None else ()):
                value = float(explorer.values[ranking, position, 0])  # type: ignore[index]
                if value == value:
                    yield Value(explorer.dataset, label, name, value, n=1)


def _legend_of_ranks(rows: Sequence[Sequence[Cell]]) -> list[str]:
    is_absent = any(cell.text == ABSENT for row in rows for cell in row)
    return [f"{ABSENT} not among the hits of the backend"] if is_absent else []


def _rank(rank: int | None) -> Cell:
    return text("unknown") if rank is None else number(rank, ",") if rank else text(ABSENT)
