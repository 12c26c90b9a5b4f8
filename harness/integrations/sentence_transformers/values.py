"""Values of hits under sentence-transformers' conventions, from this package's metrics.

Its conventions: gains are binary; a query without relevant documents is left out, one without hits counts; MAP@k is
divided by min(k, R) where trec_eval divides by R; relevant documents that are not in the corpus count in R.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.data.types import Ids, Int64Array, Qrels, Run
from harness.errors import DataError, RankingError, UsageError
from harness.metrics import parse_metric, score

Values = dict[str, dict[int, float]]
"""``{"ndcg@k": {10: 0.5}}``: the library's names of measures, then cutoffs."""


class _Name(NamedTuple):
    """A measure: its key in results, its heading in files and messages, and the name in this package's table."""

    key: str
    heading: str
    measure: str


_ACCURACY = _Name("accuracy@k", "Accuracy", "Success")
_PRECISION = _Name("precision@k", "Precision", "P")
_RECALL = _Name("recall@k", "Recall", "R")
_NDCG = _Name("ndcg@k", "NDCG", "nDCG")
_MRR = _Name("mrr@k", "MRR", "RR")
_MAP = _Name("map@k", "MAP", "AP")
LOGGED = (_ACCURACY, _PRECISION, _RECALL, _MRR, _NDCG, _MAP)
"""The measures in the order in which the library logs them."""


class Cell(NamedTuple):
    """One value in files and messages: key and cutoff in ``Values``, and its heading, such as ``NDCG@10``."""

    key: str
    k: int
    heading: str


@dataclass(frozen=True)
class Cutoffs:
    """The ranks at which each measure is taken."""

    mrr: Sequence[int]
    ndcg: Sequence[int]
    accuracy: Sequence[int]
    precision_recall: Sequence[int]
    map: Sequence[int]

    def __post_init__(self) -> None:
        for name, cutoffs in vars(self).items():
            if not cutoffs or any(k < 1 for k in cutoffs):
                raise UsageError(f"{name}_at_k is {list(cutoffs)}", fix="give at least one rank, each 1 or more")

    @property
    def deepest(self) -> int:
        """The last rank that any measure reads."""
        return int(max(max(cutoffs) for cutoffs in vars(self).values()))

    def of_keys(self) -> list[tuple[_Name, Sequence[int]]]:
        """Return the metrics and their ranks in the order of the library's results."""
        return [
            (_ACCURACY, self.accuracy),
            (_PRECISION, self.precision_recall),
            (_RECALL, self.precision_recall),
            (_NDCG, self.ndcg),
            (_MRR, self.mrr),
            (_MAP, self.map),
        ]

    def cells(self) -> list[Cell]:
        """Return every value in the order of the library's CSV columns: precision and recall alternate."""
        groups = (
            ((_ACCURACY,), self.accuracy),
            ((_PRECISION, _RECALL), self.precision_recall),
            ((_MRR,), self.mrr),
            ((_NDCG,), self.ndcg),
            ((_MAP,), self.map),
        )
        return [Cell(name.key, k, f"{name.heading}@{k}") for names, ks in groups for k in ks for name in names]


class Judgments:
    """Relevant documents of each query, as columns; ids are positions, as in ``BestHits.run``.

    ``query_ids`` are the queries with at least one relevant document. Raises DataError for a document that is listed
    twice, and when no relevant document is in the corpus, which is a mistake of ids and never a score of 0.
    """

    def __init__(self, query_ids: Sequence[Any], document_ids: Sequence[Any], relevant: Mapping[Any, Any]) -> None:
        row_of = {document: row for row, document in enumerate(document_ids)}
        rows: list[int] = []
        for query in query_ids:
            if len(set(relevant[query])) != len(relevant[query]):
                raise DataError("relevant_docs", [f"query {query!r} lists a document twice"], fix="give a set of ids")
            rows += [row_of.setdefault(document, len(row_of)) for document in relevant[query]]
        if rows and min(rows) >= len(document_ids):
            example = next(iter(relevant[query_ids[0]]))
            corpus = f"corpus: {document_ids[0]!r}" if document_ids else "the corpus is empty"
            raise DataError(
                "relevant_docs",
                [f"none of the relevant documents is in the corpus (relevant: {example!r}, {corpus})"],
                fix="check that both have ids of one dataset and one type",
            )
        self._query_ids, self._row_of = query_ids, row_of
        self.totals: Int64Array = np.array([len(relevant[query]) for query in query_ids], dtype=np.int64)
        judged, positions = np.unique(np.array(rows, dtype=np.int64), return_inverse=True)
        self._qrels = Qrels(
            Ids.of(map(str, range(len(query_ids)))),
            Ids.of(map(str, judged.tolist())),
            np.concatenate([[0], np.cumsum(self.totals)]),
            positions.astype(np.int32),
            np.ones(len(rows), dtype=np.int32),
        )

    def run_of(self, results: Sequence[Sequence[Mapping[str, Any]]]) -> Run:
        """Return lists of ``{"corpus_id", "score"}``, one per query, as a run whose ids are positions.

        Raises UsageError for another number of lists than of queries, RankingError for NaN and a document listed twice.
        """
        if len(results) != len(self._query_ids):
            raise UsageError(
                f"there are {len(results):,} lists of hits for {len(self._query_ids):,} queries",
                fix="give one list for each of the evaluator's queries_ids, which have a relevant document",
            )
        row_of = dict(self._row_of)
        rows: list[int] = []
        scores: list[float] = []
        for query, hits in zip(self._query_ids, results, strict=True):
            ordered = sorted(hits, key=lambda hit: (-hit["score"], hit["corpus_id"]))
            _require_ranking(query, ordered)
            rows += [row_of.setdefault(hit["corpus_id"], len(row_of)) for hit in ordered]
            scores += [hit["score"] for hit in ordered]
        return Run(
            Ids.of(map(str, range(len(results)))),
            Ids.of(map(str, range(len(row_of)))),
            np.cumsum([0, *map(len, results)], dtype=np.int64),
            np.array(rows, dtype=np.int32),
            np.array(scores, dtype=np.float32),
        )

    def values(self, run: Run, cutoffs: Cutoffs) -> Values:
        """Return every metric at each of its ranks, for hits in the order of ``run``."""
        metrics = {(name, k): parse_metric(f"{name.measure}@{k}") for name, ks in cutoffs.of_keys() for k in ks}
        scores = score(run, self._qrels, list(metrics.values()), ties="engine")
        values_by_metric: Values = {name.key: {} for name, _ in cutoffs.of_keys()}
        for (name, k), measure in metrics.items():
            values = scores.of(measure)
            if name is _MAP:  # divided by min(k, R), the relevant documents that fit in the top k, instead of by R
                values = values * (self.totals / np.minimum(self.totals, k))
            values_by_metric[name.key][k] = float(np.mean(values))
        return values_by_metric


def _require_ranking(query: object, hits: Sequence[Mapping[str, Any]]) -> None:
    if any(math.isnan(hit["score"]) for hit in hits):
        raise RankingError(f"query {query!r}: a score is NaN")
    counts = Counter(hit["corpus_id"] for hit in hits)
    if len(counts) < len(hits):
        raise RankingError(f"query {query!r}: document {counts.most_common(1)[0][0]!r} is listed twice")
