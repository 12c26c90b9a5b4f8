"""The list of queries of a comparison's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import as_numpy
from harness.data.types import Corpus, Float64Array, Ids, Int32Array, Run
from harness.report.documents.verdicts import reference_of
from harness.report.html.explorer import Agreement, Explorer

if TYPE_CHECKING:
    from harness.report.documents.comparison_figures import Compared

__all__ = ["explorer_of"]

_STATES = ("different", "tie_equivalent", "identical", "bit_equal")


def explorer_of(compared: Compared, runs: Mapping[str, Run], corpus: Corpus | None, no_texts: str) -> Explorer | None:
    """Every query with all rankings; None where no backend has any.

    Where texts of queries were left out, those of documents are too.
    """
    if not runs:
        return None
    report, labels = compared.report, list(runs)
    ids = compared.queries.ids if compared.queries is not None else _queries_of(compared, runs)
    metrics = list(dict.fromkeys(name for one in report.trials for name in one.metrics))
    return Explorer(
        query_ids=ids,
        labels=labels,
        runs=list(runs.values()),
        metrics=metrics,
        values=_values(compared.values, labels, metrics, ids) if metrics else None,
        reference=labels.index(str(reference_of(report, report.dataset.name))),
        queries=compared.queries,
        qrels=compared.qrels,
        relevance=int(str(report.plan.resolved["relevance"])),
        agreement=_agreement(compared.agreement, labels, ids),
        corpus=corpus,
        no_texts=no_texts,
    )


def _queries_of(compared: Compared, runs: Mapping[str, Run]) -> Ids:
    """Queries by what is known of them: a stored run lacks those that found nothing."""
    tables = [chunk for table in (compared.agreement, compared.values) for chunk in table["query_id"].chunks]
    named = [*(run.query_ids.values for run in runs.values()), *tables]
    return Ids(pc.unique(pa.chunked_array(named, type=pa.string())))


def _values(table: pa.Table, labels: Sequence[str], metrics: Sequence[str], ids: Ids) -> Float64Array:
    """Per-query values as float64 (R, M, Q), NaN where a query was not evaluated."""
    found = np.full((len(labels), len(metrics), len(ids)), np.nan)
    ranking, metric = _rows(table["backend"], labels), _rows(table["metric"], metrics)
    query = ids.rows_of(table["query_id"].combine_chunks())
    known = (ranking >= 0) & (metric >= 0) & (query >= 0)
    found[ranking[known], metric[known], query[known]] = as_numpy(table["value"])[known]
    return found


def _agreement(table: pa.Table, labels: Sequence[str], ids: Ids) -> Agreement | None:
    if table.num_rows == 0:
        return None
    causes = pc.unique(table["cause"]).drop_null().to_pylist()
    state = np.full((len(labels), len(ids)), -1, dtype=np.int8)
    cause = np.full(state.shape, -1, dtype=np.int16)
    ranking, query = _rows(table["backend"], labels), ids.rows_of(table["query_id"].combine_chunks())
    known = (ranking >= 0) & (query >= 0)
    state[ranking[known], query[known]] = _rows(table["level"], _STATES)[known]
    cause[ranking[known], query[known]] = _rows(table["cause"], causes)[known]
    return Agreement([name.replace("_", "-") for name in _STATES], 1, state, causes, cause)


def _rows(column: pa.ChunkedArray, names: Sequence[str]) -> Int32Array:
    return Ids.of(names).rows_of(column.combine_chunks())
