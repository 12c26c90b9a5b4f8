"""``harness.evaluate``: one call that scores a run, whatever it comes as."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias, TypeVar

from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders import memory, trec
from harness.metrics import Measure, QuerySet, Scores, TieRule, parse_measures, score
from harness.regression.labels import read_labels, with_labels
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
    labels: str | PathLike[str] | None = None,
) -> Scores:
    """Score a run against judgments; the command ``harness eval`` is this call.

    ``run`` is ``{query id: {document id: score}}``, a frame with ``query_id``, ``doc_id``, ``score`` (or PyTerrier's
    ``qid``, ``docno``, ``score``), the path of a TREC run (plain or gzip), or a :class:`harness.types.Run`. ``qrels``
    likewise: ``{query id: {document id: grade}}``, a frame with ``relevance`` (or ``label``), the path of TREC or BEIR
    judgments, or :class:`harness.types.Qrels`. ``metrics`` are names like ``"nDCG@10,AP"`` or ``["nDCG@10", "AP"]``.

    ``ties`` is ``trec_eval`` (score descending, then document id descending), ``engine`` (the order given) or
    ``average``; ``queries`` is ``relevant``, ``judged`` or ``answered``; ``relevance`` is the lowest relevant grade.
    ``labels`` is a filled-in ``to-label.jsonl`` of a regression, whose grades are added to ``qrels``.
    Raises UsageError for an argument of another type and a metric that does not exist, DataError for malformed input, a
    run without any hits, judgments of nothing and a run that shares no id with them, RankingError for NaN scores and
    duplicate documents.
    """
    measures = _measures(metrics)
    ties, queries = _one_of(TieRule, ties, "tie rule"), _one_of(QuerySet, queries, "set of queries")
    if not isinstance(relevance, SupportsIndex):
        raise UsageError(f"the relevance level is {relevance!r}, expected a whole number")
    hits, judgments = as_run(run), as_qrels(qrels)
    judgments = judgments if labels is None else with_labels(judgments, read_labels(Path(labels)))
    _require_content(hits, judgments)
    try:
        return score(hits, judgments, measures, ties=ties, queries=queries, relevance=relevance)
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
    if isinstance(run, Mapping):
        return memory.run_from_dict(run)
    if _is_frame(run):
        return memory.run_from_frame(run)
    raise _unfit("run", run, "{query id: {document id: score}}", "a TREC run", "Run")


def as_qrels(qrels: QrelsLike) -> Qrels:
    """Columnar judgments from any of the forms that :func:`evaluate` takes."""
    if isinstance(qrels, Qrels):
        return qrels
    if isinstance(qrels, str | PathLike):
        return trec.read_qrels(Path(qrels))
    if isinstance(qrels, Mapping):
        return memory.qrels_from_dict(qrels)
    if _is_frame(qrels):
        return memory.qrels_from_frame(qrels)
    raise _unfit("judgments", qrels, "{query id: {document id: grade}}", "TREC or BEIR judgments", "Qrels")


def _is_frame(value: object) -> bool:
    """Whether ``value`` is a pandas frame: there is none where nobody imported pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _unfit(what: str, value: object, mapping: str, file: str, columns: str) -> UsageError:
    verb = "are" if what.endswith("s") else "is"
    return UsageError(
        f"the {what} {verb} of type {type(value).__name__}, which cannot be scored",
        fix=f"give {mapping}, a pandas frame, the path of {file}, or harness.types.{columns}",
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
