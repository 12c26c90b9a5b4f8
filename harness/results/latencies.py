"""Every latency that was measured: the raw samples behind a report's percentiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from harness.data.arrow import numbers, strings
from harness.data.dataset import Dataset
from harness.plan.plan import Plan
from harness.results.assess import Assessed
from harness.results.backend import has_terms

__all__ = ["latency_table"]


def latency_table(assessed: Sequence[Assessed], dataset: Dataset, plan: Plan) -> pa.Table | None:
    """One row a backend, timed pass and query that has a term: nanoseconds of the search and of the transfer.

    None where the plan took no times. Passes count from 1. Backends made of others, and runs that were read, have no
    samples of their own.
    """
    if not plan.execution.timing:
        return None
    parts = []
    for one in assessed:
        record = one.outcome.record
        if record is None:
            continue
        terms = np.flatnonzero(has_terms(one.outcome.vectors, len(dataset.queries)))
        passes = len(record.search_ns)
        ids = dataset.queries.ids.values.take(numbers(terms))
        columns = {
            "dataset": strings([dataset.name] * (passes * len(terms))),
            "backend": strings([one.outcome.trial.label] * (passes * len(terms))),
            "pass": numbers(np.repeat(np.arange(1, passes + 1, dtype=np.int32), len(terms))),
            "query_id": pa.concat_arrays([ids] * passes) if passes else ids.slice(0, 0),
            "search_ns": numbers(record.search_ns[:, terms].ravel()),
            "transfer_ns": numbers(record.transfer_ns[:, terms].ravel()),
        }
        parts.append(pa.table(columns, schema=_SCHEMA))
    return pa.concat_tables(parts) if parts else _SCHEMA.empty_table()


_SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("backend", pa.string()),
        ("pass", pa.int32()),
        ("query_id", pa.string()),
        ("search_ns", pa.int64()),
        ("transfer_ns", pa.int64()),
    ]
)
