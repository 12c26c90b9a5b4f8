"""``harness.evaluate``: one call that scores a run, whatever it comes as."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, TypeVar

import numpy as np

from harness.data.dataset import Dataset
from harness.data.memory import are_hits
from harness.data.shapes import QRELS, RUNS, Shape, read_shape
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders import trec
from harness.metrics import Measure, QuerySet, Scores, TieRule, parse_measures, score
from harness.ranking import without_identical_ids
from harness.regression.labels import read_labels, with_labels
from harness.types import Qrels, Run
from harness.wording import counted

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

E = TypeVar("E", bound=StrEnum)

__all__ = ["DEFAULT_METRICS", "QrelsLike", "RunLike", "as_qrels", "as_run", "evaluate"]

DEFAULT_METRICS = "nDCG@10,AP,RR,P@10,R@100"

RunLike: TypeAlias = "Run | Mapping[Any, Any] | Sequence[Any] | pd.DataFrame | pa.Table | str | PathLike[str]"
"""A run as one of the shapes of ``harness.data.shapes.RUNS``, its path, or its columns."""
QrelsLike: TypeAlias = (
    "Qrels | Dataset | Mapping[Any, Any] | Sequence[Any] | pd.DataFrame | pa.Table | str | PathLike[str]"
)
"""Judgments as one of the shapes of ``harness.data.shapes.QRELS``, their path, or their columns."""

_FILES = "the path of {}, plain or gzip, of JSON (.json, .jsonl) or of Parquet with these columns"


def _is_path(value: object) -> bool:
    return isinstance(value, str | PathLike)


def _judgments_of(dataset: Dataset) -> Qrels:
    if dataset.qrels is None:
        raise UsageError(f"the dataset '{dataset.name}' has no judgments", fix="give Dataset.of its qrels")
    return dataset.qrels


_RUNS = RUNS._replace(
    shapes=(
        Shape(("harness.types.Run",), lambda value: isinstance(value, Run), lambda run: run),
        *RUNS.shapes,
        Shape((_FILES.format("a TREC run"),), _is_path, trec.read_run),
    )
)
_QRELS = QRELS._replace(
    shapes=(
        Shape(("harness.types.Qrels",), lambda value: isinstance(value, Qrels), lambda qrels: qrels),
        Shape(("a harness.Dataset with judgments",), lambda value: isinstance(value, Dataset), _judgments_of),
        *QRELS.shapes,
        Shape((_FILES.format("TREC or BEIR judgments"),), _is_path, trec.read_qrels),
    )
)


def evaluate(
    run: RunLike,
    qrels: QrelsLike,
    metrics: str | Iterable[str | Measure] = DEFAULT_METRICS,
    *,
    ties: TieRule | str = TieRule.TREC_EVAL,
    queries: QuerySet | str = QuerySet.RELEVANT,
    relevance: int = 1,
    labels: str | PathLike[str] | None = None,
    identical_ids: str = "auto",
) -> Scores:
    """Score a run against judgments; the command ``harness eval`` is this call.

    ``run`` is ``{query id: {document id: score}}``, a frame with ``query_id``, ``doc_id``, ``score``, the path of a
    TREC run, or one of the other shapes that ``docs/how-to/score-a-run.md`` lists; ``qrels`` likewise, with grades.
    Ids that are whole numbers become text. ``metrics`` are names like ``"nDCG@10,AP"`` or ``["nDCG@10", "AP"]``.

    ``ties`` is ``trec_eval`` (score descending, then document id descending), ``engine`` (the order given) or
    ``average``; ``queries`` is ``relevant``, ``judged`` or ``answered``; ``relevance`` is the lowest relevant grade.
    ``labels`` is a filled-in ``to-label.jsonl`` of a regression, whose grades are added to ``qrels``. With
    ``identical_ids="drop"`` hits that have their query's id are left out first; ``auto`` does what a
    :class:`harness.Dataset` given as ``qrels`` says, and keeps them otherwise.

    Raises:
        UsageError: an argument has none of the shapes, all of which are listed, or a metric does not exist.
        DataError: malformed input, a run without any hits, judgments of nothing, or a run that shares no id with them.
        RankingError: scores that are not finite, and duplicate documents.
    """
    measures = _measures(metrics)
    ties, queries = _one_of(TieRule, ties, "tie rule"), _one_of(QuerySet, queries, "set of queries")
    if not isinstance(relevance, SupportsIndex):
        raise UsageError(f"the relevance level is {relevance!r}, expected a whole number")
    if identical_ids not in ("auto", "keep", "drop"):
        raise UnknownNameError("rule for identical ids", str(identical_ids), ("auto", "keep", "drop"))
    unnumbered = are_hits(run)
    if unnumbered and isinstance(qrels, Dataset):
        run, unnumbered = _by_query(run, qrels), False
    hits, judgments = as_run(run), as_qrels(qrels)
    judgments = judgments if labels is None else with_labels(judgments, read_labels(Path(labels)))
    _require_content(hits, judgments)
    if unnumbered:
        _refuse_unnumbered(hits, judgments)
    of_dataset = qrels.identical_ids if isinstance(qrels, Dataset) else None
    if identical_ids == "drop" or (identical_ids == "auto" and of_dataset == "drop"):
        hits = without_identical_ids(hits)
    try:
        return score(hits, judgments, measures, ties=ties, queries=queries, relevance=relevance)
    except DataError as error:
        if error.source == "run" and isinstance(run, str | PathLike):
            raise DataError(str(run), error.problems, fix=error.fix) from error
        raise


def as_run(run: RunLike) -> Run:
    """Return the columnar run in any of the shapes that :func:`evaluate` takes."""
    return read_shape(run, _RUNS)


def as_qrels(qrels: QrelsLike) -> Qrels:
    """Return the columnar judgments in any of the shapes that :func:`evaluate` takes."""
    return read_shape(qrels, _QRELS)


def _by_query(run: Any, dataset: Dataset) -> Mapping[str, Any]:  # noqa: ANN401 - lists of hits
    """Return sentence-transformers' lists by the ids of the dataset's queries, whose order they have.

    Where every ``corpus_id`` is a whole number, it is the position of a document, as ``semantic_search`` gives it.
    """
    if len(run) != len(dataset.queries):
        what = f"the run has {len(run):,} lists, and the dataset '{dataset.name}' {len(dataset.queries):,} queries"
        raise UsageError(what, fix="give one list for each query, in the dataset's order")
    documents = [hit["corpus_id"] for hits in run for hit in hits]
    if documents and all(isinstance(document, int | np.integer) for document in documents):
        positions = np.array(documents, dtype=np.int64)
        if positions.min() < 0 or positions.max() >= len(dataset.corpus):
            what = f"the run names documents by position, from {positions.min():,} to {positions.max():,}"
            raise UsageError(
                f"{what}, and '{dataset.name}' has {len(dataset.corpus):,}", fix="give ids that are documents' as text"
            )
        ids = iter(dataset.corpus.ids.take(positions))
        run = [[{**hit, "corpus_id": next(ids)} for hit in hits] for hits in run]
    return dict(zip(dataset.queries.ids, run, strict=True))


def _refuse_unnumbered(run: Run, judgments: Qrels) -> None:
    """Refuse a run of lists without query ids beside judgments that name queries otherwise than by their numbers."""
    known = set(run.query_ids)
    others = [query for query in judgments.query_ids if query not in known]
    if others:
        raise UsageError(
            f"the run's {counted(len(run.query_ids), 'list')} name no query, so that they are numbered from 0, and the "
            f"judgments name {counted(len(others), 'query', 'queries')} otherwise, such as '{others[0]}'",
            fix="give {query id: list}, or a harness.Dataset in place of the judgments, in whose order the lists are",
        )


def _require_content(run: Run, qrels: Qrels) -> None:
    """A run without any hits is one that failed, and has no score; judgments of nothing give none."""
    if not run.hits:
        asked = f" for any of its {len(run.query_ids):,} queries" if len(run.query_ids) > 1 else ""
        raise DataError("run", [f"it holds no hits{asked}"], fix="a run that answers nothing is invalid, not 0")
    if not len(qrels):
        raise DataError("judgments", ["there are none"], fix="give at least one judged document")


def _measures(metrics: str | Iterable[str | Measure]) -> list[Measure]:
    """Names are parsed again even from measures, so that a hand-made one is checked too."""
    if not isinstance(metrics, Iterable):
        raise UsageError(
            f"the metrics are of type {type(metrics).__name__}", fix="give a text like 'nDCG@10,AP' or a list of names"
        )
    return parse_measures(metrics if isinstance(metrics, str) else [str(metric) for metric in metrics])


def _one_of(kind: type[E], value: str, what: str) -> E:
    try:
        return kind(value)
    except ValueError as error:
        raise UnknownNameError(what, str(value), [member.value for member in kind]) from error
