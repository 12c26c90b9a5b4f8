"""The queries of scored runs with the rankings of all runs."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from harness.data import ranking
from harness.data.ranking import TieRule
from harness.data.types import Float64Array, Ids, Qrels, Run
from harness.metrics import Metric, is_mean
from harness.pipeline.evaluate import EvaluatedRun
from harness.pipeline.evaluated_runs import EvaluatedRuns
from harness.report.rankings.explorer import Explorer

_NO_TEXTS = "Runs and judgments hold no texts."


def run_explorers(evaluated: EvaluatedRuns) -> list[Explorer]:
    """Return every query that is averaged in some run, with the hits of all runs in the order that was scored."""
    runs, labels = list(evaluated.runs.values()), list(evaluated.runs)
    ids = Ids.of(dict.fromkeys(query for run in runs for query in run.query_ids))
    metrics = [metric for metric in runs[0].measures if is_mean(metric)]
    qrels, relevance = _whole_grades(runs[0].judged.qrels, float(runs[0].judged.relevance))
    reference = labels.index(evaluated.reference) if evaluated.reference in labels else 0
    return [
        Explorer(
            query_ids=ids,
            labels=labels,
            runs=[_ordered(run.judged.run, run.ties) for run in runs],
            metrics=list(map(str, metrics)),
            values=np.array([_values(run, metrics, ids) for run in runs]) if metrics else None,
            reference=reference,
            qrels=qrels,
            relevance=relevance,
            no_texts=_NO_TEXTS,
        )
    ]


def _values(run: EvaluatedRun, metrics: list[Metric], ids: Ids) -> Float64Array:
    """Return the values of a run as float64 (M, Q), NaN if a query is not averaged."""
    rows = run.query_ids.rows_of(ids)
    columns = [list(run.measures).index(metric) for metric in metrics]
    values: Float64Array = np.where(rows >= 0, run.values[np.maximum(rows, 0)][:, columns].T, np.nan)
    return values


def _ordered(run: Run, ties: TieRule) -> Run:
    return run if ties is TieRule.ENGINE else ranking.order(run, wide=ties is TieRule.TREC_EVAL_10)


def _whole_grades(qrels: Qrels, relevance: float) -> tuple[Qrels, int]:
    """Return judgments with whole grades, and the lowest that is relevant: 1 of grades that are fractions."""
    if not qrels.has_fractions:
        return qrels, ceil(relevance)
    return replace(qrels, grades=(qrels.grades >= relevance).astype(np.int32), ideal=None), 1
