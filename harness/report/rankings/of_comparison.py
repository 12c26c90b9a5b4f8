"""The queries of a comparison with all rankings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import as_numpy
from harness.data.filtering import format_filter
from harness.data.types import Float64Array, Ids, Int32Array, Run
from harness.report.documents.verdicts import reference_of
from harness.report.rankings.explorer import NO_HITS, Agreement, Explorer, explain_command, unanswered
from harness.results.comparison import Comparison
from harness.results.schema_base import DatasetInfo

_STATES = ("different", "tie_equivalent", "identical", "bit_equal")


def comparison_explorers(compared: Comparison) -> list[Explorer]:
    """Return every query of each dataset with all rankings; empty for a dataset on which no backend has any.

    If texts of queries were left out, texts of documents are too.
    """
    trials = [trial for trial in compared.report.trials if trial.status == "ok"]
    labels = list(dict.fromkeys(trial.label for trial in trials))
    metrics = list(dict.fromkeys(name for trial in trials for name in trial.metrics))
    names = dict.fromkeys(trial.dataset for trial in trials)
    several = len(compared.datasets) > 1
    return [_explorer(compared.on(name), name, labels, metrics, several=several) for name in names]


def _explorer(
    compared: Comparison, dataset: str, labels: Sequence[str], metrics: Sequence[str], *, several: bool
) -> Explorer:
    """Return the queries of one dataset; a backend that failed on it gave no answer there."""
    report = compared.report
    done = {trial.label for trial in report.trials if trial.status == "ok"}
    failed = [label not in done for label in labels]
    runs = [compared.run(label) if label in done else NO_HITS for label in labels]
    ids = compared.queries.ids if compared.queries is not None else _queries_of(compared, runs)
    return Explorer(
        query_ids=ids,
        labels=labels,
        runs=runs,
        metrics=metrics,
        values=_values(compared.values, labels, metrics, ids) if metrics else None,
        reference=labels.index(str(reference_of(report, report.dataset.name))),
        queries=compared.queries,
        qrels=compared.qrels,
        relevance=int(str(report.plan.resolved["relevance"])),
        agreement=_agreement(compared.agreement, labels, ids),
        corpus=compared.corpus,
        no_texts="" if compared.corpus is not None else compared.no_texts,
        failed=unanswered(failed, len(ids)),
        dataset=dataset,
        filters=_filters(report.dataset, ids),
        explanations=compared.explanations,
        series=[[info.label for info in report.backends].index(label) for label in labels],
        explain=explain_command(report, dataset if several else None),
    )


def _filters(dataset: DatasetInfo, ids: Ids) -> list[str]:
    """Return the filter of each query in words; empty unless queries have their own."""
    words = {query: format_filter(group.fields) for group in dataset.query_filters for query in group.query_ids}
    return [words.get(query, "") for query in ids] if words else []


def _queries_of(compared: Comparison, runs: Sequence[Run]) -> Ids:
    """Return the queries that are known: a stored run lacks queries without hits."""
    tables = [chunk for table in (compared.agreement, compared.values) for chunk in table["query_id"].chunks]
    columns = [*(run.query_ids.values for run in runs), *tables]
    return Ids(pc.unique(pa.chunked_array(columns, type=pa.string())))


def _values(table: pa.Table, labels: Sequence[str], metrics: Sequence[str], ids: Ids) -> Float64Array:
    """Return per-query values as float64 (R, M, Q), NaN if a query was not evaluated."""
    values = np.full((len(labels), len(metrics), len(ids)), np.nan)
    ranking, metric = _rows(table["backend"], labels), _rows(table["metric"], metrics)
    query = ids.rows_of(table["query_id"].combine_chunks())
    valid = (ranking >= 0) & (metric >= 0) & (query >= 0)
    values[ranking[valid], metric[valid], query[valid]] = as_numpy(table["value"])[valid]
    return values


def _agreement(table: pa.Table, labels: Sequence[str], ids: Ids) -> Agreement | None:
    if table.num_rows == 0:
        return None
    causes = pc.unique(table["cause"]).drop_null().to_pylist()
    state = np.full((len(labels), len(ids)), -1, dtype=np.int8)
    cause = np.full(state.shape, -1, dtype=np.int16)
    ranking, query = _rows(table["backend"], labels), ids.rows_of(table["query_id"].combine_chunks())
    valid = (ranking >= 0) & (query >= 0)
    state[ranking[valid], query[valid]] = _rows(table["level"], _STATES)[valid]
    cause[ranking[valid], query[valid]] = _rows(table["cause"], causes)[valid]
    return Agreement([name.replace("_", "-") for name in _STATES], 1, state, causes, cause)


def _rows(column: pa.ChunkedArray, names: Sequence[str]) -> Int32Array:
    return Ids.of(names).rows_of(column.combine_chunks())
