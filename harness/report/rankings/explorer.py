"""The content of a page's list of queries: rankings, values, judgments and texts."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import strings, take_rows
from harness.data.types import Corpus, Float64Array, Ids, Int64Array, Qrels, Queries, Run
from harness.plan.config import ExplainRequest
from harness.plan.option_fields import option_fields
from harness.results.schema import Result
from harness.wording import LONGEST_ID, short_ids, value_and_id

NO_HITS = Run(Ids.of([]), Ids.of([]), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
"""The ranking of a backend that has none on a dataset."""
_SCALE = (0, 1, 2, 3)
"""Grades if there are no judgments."""
_LARGEST_SCALE = 10


@dataclass(frozen=True, eq=False, slots=True)
class Agreement:
    """The relation of each ranking to its own exact reference, query by query.

    ``state`` int8 (R, Q) indexes ``states``, -1 if there is no reference; states from ``agrees`` on count as the same.
    ``cause`` int16 (R, Q) indexes ``causes``, -1 if the cause is unknown.
    """

    states: Sequence[str]
    agrees: int
    state: npt.NDArray[np.int8]
    causes: Sequence[str]
    cause: npt.NDArray[np.int16]


class KeptRanks(NamedTuple):
    """Ranks of relevant documents in a ranking that is otherwise cut after its first hits.

    ``ranks`` maps a query to a document to its rank, from 1. ``complete`` says that a relevant document without a rank
    was not found; otherwise nothing is known of it.
    """

    ranks: Mapping[str, Mapping[str, int]]
    complete: bool


class ExpectedDocuments(NamedTuple):
    """An id that a query of a golden set expects.

    ``ranks`` counts from 1 and has 0 for documents that a ranking lacks. ``documents`` are the matching documents, as
    far as any ranking or the corpus names them. ``reference_ranks`` are the ranks in the exact reference of each
    ranking, None if they are unknown. Ids of a query with the same ``group`` are alternatives.
    """

    id: str
    grade: int
    ranks: Sequence[int]
    documents: Sequence[str] = ()
    reference_ranks: Sequence[int | None] = ()
    group: int | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Explorer:
    """Rankings of the queries of one dataset side by side: R rankings, M metrics, Q queries.

    ``runs`` are the rankings in the order of ``labels``; each may have query and document columns of its own, and a
    query that it lacks has no hits. ``values`` float64 (R, M, Q), NaN if a query is not evaluated.
    ``reference`` is the ranking that the others are compared with. ``queries`` None leaves out the texts of queries;
    ``corpus`` None leaves out the texts of documents, and ``no_texts`` says why.

    ``against`` gives each ranking the ranking that it is compared with, if that is not ``reference`` for all: then only
    these two are shown together. ``stored_depths`` gives how many documents were kept of each ranking, None for all; a
    ranking that was cut has no scores, but may have ``stored_ranks``. With ``expected``, one list a query, documents
    that nothing expects are not taken for unjudged ones. ``failed`` bool (R, Q) marks queries a backend did not answer.
    ``further`` maps a query and each later chunk of an expected document in a ranking to that document. ``filters``
    are the filters of the queries in words, "" for a query without a filter; empty without filters.
    ``returned`` says that the texts of ``corpus`` are those that backends returned with their hits.
    ``depths`` are the first hits of each metric that count in a check: without an expected document among them, a query
    is missed; empty if a metric's cutoff says it.
    ``unjudgeable`` says why no labels can be given to documents, "" if they can be judged.
    ``explanations`` say why documents have their ranks (:data:`harness.results.stored.EXPLANATION_SCHEMA`). ``explain``
    is the command that explains a query, without the query and the documents; empty without such a command. It names
    one of the ``corpora``, if ids of documents end with one's name.
    ``series`` are the numbers of the rankings' colours; empty if these are their positions.
    ``document_values`` are the values that are compared in place of documents' ids, by id; empty if ids are compared.
    """

    query_ids: Ids
    labels: Sequence[str]
    runs: Sequence[Run]
    metrics: Sequence[str] = ()
    values: Float64Array | None = None
    reference: int = 0
    queries: Queries | None = None
    qrels: Qrels | None = None
    relevance: int = 1
    agreement: Agreement | None = None
    corpus: Corpus | None = None
    no_texts: str = ""
    against: Sequence[int] | None = None
    stored_depths: Sequence[int | None] | None = None
    stored_ranks: Sequence[KeptRanks | None] | None = None
    expected: Sequence[Sequence[ExpectedDocuments]] | None = None
    failed: npt.NDArray[np.bool_] | None = None
    dataset: str = ""
    further: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    filters: Sequence[str] = ()
    document_values: Mapping[str, str] = field(default_factory=dict)
    unjudgeable: str = ""
    depths: Sequence[int] = ()
    returned: bool = False
    explanations: pa.Table | None = None
    explain: str = ""
    corpora: Sequence[str] = ()
    series: Sequence[int] = ()

    def document_names(self, ids: Sequence[str], longest: int = LONGEST_ID) -> dict[str, str]:
        """Return how each document is shown in at most ``longest`` characters: its value and its id, as one name."""
        names = {doc_id: value_and_id(self.document_values.get(doc_id), doc_id) for doc_id in ids}
        short = short_ids(names.values(), longest)
        return {doc_id: short[name] for doc_id, name in names.items()}

    @property
    def references(self) -> Int64Array:
        """The ranking that each ranking is compared with, int64 (R,)."""
        chosen = self.against if self.against is not None else [self.reference] * len(self.labels)
        return np.array(chosen, dtype=np.int64)

    def query_texts(self) -> list[str]:
        """Return the text of each query, "" for an unknown one."""
        if self.queries is None:
            return [""] * len(self.query_ids)
        rows = self.queries.ids.rows_of(self.query_ids)
        texts = iter(take_rows(self.queries.texts, rows[rows >= 0]).to_pylist())
        return [next(texts) if row >= 0 else "" for row in rows.tolist()]

    @property
    def nearest(self) -> Float64Array:
        """The best rank of an expected document in the first reference, float64 (Q,), infinity for no rank.

        It is among the hits, or else in the exact ranking. 0 for all queries if nothing is expected.
        """
        if self.expected is None:
            return np.zeros(len(self.query_ids))
        number = int(self.references[0])
        return np.array([_nearest(of_query, number) for of_query in self.expected], dtype=np.float64)


def judging_facts(explorers: Sequence[Explorer], made_by: str, command: str) -> dict[str, Any] | None:
    """Return the facts by which a page judges documents; None without texts, and if labels cannot name documents.

    ``made_by`` identifies the result: its pages share the labels that a browser keeps. ``scale`` has the grades that
    can be given: from 0 to the highest judgment, or 0 to 3 without judgments. ``command`` is the program and the verb.
    """
    if all(explorer.corpus is None for explorer in explorers) or any(explorer.unjudgeable for explorer in explorers):
        return None
    grades = {int(grade) for one in explorers if one.qrels is not None for grade in one.qrels.grades.tolist()}
    highest, scale = max(grades, default=0), list(_SCALE)
    if highest >= 1:
        usual = range(highest + 1) if highest < _LARGEST_SCALE else sorted({0, *(one for one in grades if one >= 0)})
        scale = list(usual)
    name = hashlib.sha256(made_by.encode()).hexdigest()[:16]
    return {"name": name, "scale": scale, "command": " ".join(command.split()[:2]) or "harness compare"}


def _nearest(expected: Sequence[ExpectedDocuments], ranking: int) -> float:
    ranks = [one.ranks[ranking] for one in expected if one.ranks[ranking]]
    exact = [rank for one in expected if one.reference_ranks and (rank := one.reference_ranks[ranking]) is not None]
    return min(ranks or exact, default=np.inf)


def queries_of(ids: Ids, texts: Sequence[str]) -> Queries:
    """Return queries with their texts, in the order of their ids."""
    return Queries(ids, pa.chunked_array([strings(texts)]), "")


def unanswered(failed: Sequence[bool], queries: int) -> npt.NDArray[np.bool_] | None:
    """Return ``failed`` of an :class:`Explorer` if some rankings lack all of its queries; else None."""
    return np.repeat(np.array(failed)[:, None], queries, axis=1) if any(failed) else None


def explain_command(report: Result, dataset: str | None = None) -> str:
    """Return the command that explains a query, without it and the documents; empty for a result that has none.

    A comparison's command searches with the options of the recorded command that ``explain`` takes too. Other results,
    and points of a sweep, are explained from the folder. ``dataset`` is one of several; None for the only dataset.
    """
    if report.kind not in ("compare", "check", "regress") or (report.kind == "check" and not report.corpora):
        return ""
    options: list[tuple[str, str]] = []
    searches = report.kind == "compare" and "--sweep" not in report.command
    if searches:
        flags = {field.flag for field in option_fields(ExplainRequest).values()}
        options = [pair for pair in pairwise(report.command) if pair[0] in flags]
    if dataset is not None:
        options = [*(pair for pair in options if pair[0] != "--dataset"), ("--dataset", dataset)]
    return shlex.join(["harness", "explain", *([] if searches else ["RESULT"]), *chain.from_iterable(options)])


def changes(explorer: Explorer, top: npt.NDArray[Any]) -> Int64Array:
    """Return the query numbers, largest changes first, int64 (Q,).

    The order is by the largest change of any metric against the reference in either direction, then how many documents
    entered the first D of some ranking, then how low the first reference's first metric is, then how near an expected
    document comes; ties stay in the given order.

    Args:
        explorer: The rankings.
        top: int (R, Q, D), document numbers, -1 beyond the last hit.
    """
    queries, values, references = top.shape[1], explorer.values, explorer.references
    largest, low = np.zeros(queries), np.zeros(queries)
    if values is not None and values.size:
        moved = np.nan_to_num(np.abs(values - values[references]), nan=0.0)
        largest, low = moved.max(axis=(0, 1)), np.nan_to_num(values[references[0], 0], nan=2.0)
    entered = np.zeros(queries, dtype=np.int64)
    for ranking, reference in zip(top, top[references], strict=True):
        in_reference = (ranking[:, :, None] == reference[:, None, :]).any(axis=2)
        entered = np.maximum(entered, np.count_nonzero(~in_reference & (ranking >= 0), axis=1))
    order: Int64Array = np.lexsort((explorer.nearest, low, -entered, -largest)).astype(np.int64)
    return order


def of_one_query(explorer: Explorer, query_id: str) -> Explorer:
    """Return the same rankings for one of the queries only."""
    ids = Ids.of([query_id])
    row = int(explorer.query_ids.rows_of(ids)[0])
    agreement, one = explorer.agreement, slice(row, row + 1)
    return replace(
        explorer,
        query_ids=ids,
        values=None if explorer.values is None else explorer.values[:, :, one],
        agreement=None
        if agreement is None
        else replace(agreement, state=agreement.state[:, one], cause=agreement.cause[:, one]),
        expected=None if explorer.expected is None else explorer.expected[one],
        failed=None if explorer.failed is None else explorer.failed[:, one],
        filters=explorer.filters[one] if explorer.filters else (),
    )
