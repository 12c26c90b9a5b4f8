"""``harness.evaluate``: one call that scores a run, whatever it comes as."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from harness.errors import DataError, UnknownNameError
from harness.loaders import memory, trec
from harness.metrics import Measure, QuerySet, Scores, TieRule, parse_measures, score
from harness.types import Qrels, Run

if TYPE_CHECKING:
    import pandas as pd

E = TypeVar("E", bound=StrEnum)

__all__ = ["DEFAULT_METRICS", "QrelsLike", "RunLike", "as_qrels", "as_run", "evaluate"]

DEFAULT_METRICS = "nDCG@10,AP,RR,P@10,R@100"

RunLike: TypeAlias = "Run | Mapping[str, Mapping[str, float]] | pd.DataFrame | str | PathLike[str]"
QrelsLike: TypeAlias = "Qrels | Mapping[str, Mapping[str, int]] | pd.DataFrame | str | PathLike[str]"


def evaluate(
    run: RunLike,
    qrels: QrelsLike,
    metrics: str | Iterable[str | Measure] = DEFAULT_METRICS,
    *,
    ties: TieRule | str = TieRule.TREC_EVAL,
    queries: QuerySet | str = QuerySet.RELEVANT,
    relevance: int = 1,
) -> Scores:
    """Score a run against judgments; the command ``harness eval`` is this call.

    ``run`` is ``{query id: {document id: score}}``, a frame with ``query_id``, ``doc_id``, ``score`` (or PyTerrier's
    ``qid``, ``docno``, ``score``), the path of a TREC run (plain or gzip), or a :class:`harness.types.Run`. ``qrels``
    likewise: ``{query id: {document id: grade}}``, a frame with ``relevance`` (or ``label``), the path of TREC or BEIR
    judgments, or :class:`harness.types.Qrels`. ``metrics`` are names like ``"nDCG@10,AP"`` or ``["nDCG@10", "AP"]``.

    ``ties`` is ``trec_eval`` (score descending, then document id descending), ``engine`` (the order given) or
    ``average``; ``queries`` is ``relevant``, ``judged`` or ``answered``; ``relevance`` is the lowest relevant grade.
    Raises UsageError for a metric that does not exist, DataError for malformed input and for a run that shares no id
    with the judgments, RankingError for NaN scores and duplicate documents.
    """
    measures = _measures(metrics)
    ties, queries = _one_of(TieRule, ties, "tie rule"), _one_of(QuerySet, queries, "set of queries")
    try:
        return score(as_run(run), as_qrels(qrels), measures, ties=ties, queries=queries, relevance=relevance)
    except DataError as error:
        if error.source == "run" and isinstance(run, str | PathLike):
            raise DataError(str(run), error.problems, fix=error.fix) from error
        raise


def as_run(run: RunLike) -> Run:
    """A columnar run from any of the forms that :func:`evaluate` takes."""
    if isinstance(run, Run):
        return run
    if isinstance(run, str | PathLike):
        return trec.read_run(Path(run))
    return memory.run_from_dict(run) if isinstance(run, Mapping) else memory.run_from_frame(run)


def as_qrels(qrels: QrelsLike) -> Qrels:
    """Columnar judgments from any of the forms that :func:`evaluate` takes."""
    if isinstance(qrels, Qrels):
        return qrels
    if isinstance(qrels, str | PathLike):
        return trec.read_qrels(Path(qrels))
    return memory.qrels_from_dict(qrels) if isinstance(qrels, Mapping) else memory.qrels_from_frame(qrels)


def _measures(metrics: str | Iterable[str | Measure]) -> list[Measure]:
    """Names are parsed again even from measures, so that a hand-made one is checked too."""
    return parse_measures(metrics if isinstance(metrics, str) else [str(metric) for metric in metrics])


def _one_of(kind: type[E], value: str, what: str) -> E:
    if value not in set(kind):
        raise UnknownNameError(what, value, [member.value for member in kind])
    return kind(value)
