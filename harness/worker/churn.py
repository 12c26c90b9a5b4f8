"""A workload of changes: index a part of the documents, then change the index and search it, step by step."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from harness.data.arrow import numbers
from harness.data.inputs import Inputs
from harness.data.progress import Clock, PartOf, Progress
from harness.data.types import Ids, Int32Array
from harness.engines.interface import EngineInterface, IndexReport, Remains
from harness.errors import EngineFailureError
from harness.store.cpu_use import other_processes, read_cpu
from harness.worker.jobs import ChurnJob, ChurnPass, ChurnRecord
from harness.worker.trial import create_engine, load_both, plain_state, search_all, warm_up

_Number = TypeVar("_Number", bound=np.generic)


def run_churn(job: ChurnJob, progress: Progress, clock: Clock, *, before_open: Callable[[], None]) -> ChurnRecord:
    """Index, warm up and search; then, for each step, change the index and search at once, without a warm-up.

    At the end the remaining documents are indexed again, in another folder, and searched, to show the cost of changes.
    Every query is searched once in each state. ``before_open`` is called when everything but the engine is in memory.
    """
    before = read_cpu()
    documents, queries = load_both(job.trial)
    content = job.order[: job.first]
    first = documents.take(content)
    engine = create_engine(job.trial)
    importlib.import_module("scipy.sparse")  # csr reads its vectors back with it: no change is to wait for the import
    before_open()
    passes = []
    with closing(engine):
        info = engine.open(job.trial.index_folder, first.ids)
        report = engine.index(first, progress, clock)
        if (reason := engine.unchangeable()) is not None:
            return ChurnRecord(unchangeable=reason)
        progress.start("warm-up", job.trial.warm_up_queries)
        warm_up(engine, queries, len(job.order), job.trial, progress, clock)
        passes.append(_searched(engine, report, queries, job, progress, clock))
        for number, step in enumerate(job.steps, start=1):
            change_progress = PartOf(progress, f"change {number} of {len(job.steps)}")
            written = replace(documents.take(step.content), ids=_ids(documents, job.order[step.written]))
            report = engine.apply(_ids(documents, job.order[step.deleted]), written, change_progress, clock)
            passes.append(_searched(engine, report, queries, job, change_progress, clock))
            content = np.concatenate([content, job.order[len(content) : int(step.written.max(initial=-1)) + 1]])
            content[step.written], content[step.deleted] = step.content, -1
    present = np.flatnonzero(content >= 0).astype(np.int32)
    last = replace(documents.take(content[present]), ids=_ids(documents, job.order[present]))
    fresh = _fresh(last, present, queries, job, progress, clock)
    other_use = other_processes("changes", before, read_cpu(), server=info.is_server)
    return ChurnRecord(tuple(passes), fresh, other_processes=other_use)


def _fresh(
    documents: Inputs, rows: Int32Array, queries: Inputs, job: ChurnJob, progress: Progress, clock: Clock
) -> ChurnPass:
    """Index documents, which have these rows, from scratch, and search."""
    build_progress = PartOf(progress, "a new index")
    engine = create_engine(job.trial)
    with closing(engine):
        job.fresh_folder.mkdir()
        engine.open(job.fresh_folder, documents.ids)
        fresh = _searched(engine, engine.index(documents, build_progress, clock), queries, job, build_progress, clock)
    remains = fresh.remains

    def spread(values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        """Return values of the documents by row, 0 for rows of none."""
        spread = np.zeros((len(job.order), *values.shape[1:]), dtype=values.dtype)
        spread[rows] = values
        return spread

    return ChurnPass(
        replace(fresh.report, missing_rows=rows[fresh.report.missing_rows]),
        fresh.storage,
        fresh.hits._replace(rows=rows[fresh.hits.rows]),
        Remains(
            order=None if remains.order is None else rows[remains.order],
            shards=None if remains.shards is None else spread(remains.shards),
            unindexed=None if remains.unindexed is None else rows[remains.unindexed],
        ),
        fresh.compared.of_documents(spread) if fresh.compared is not None else None,
        {name: hits._replace(rows=rows[hits.rows]) for name, hits in fresh.lists.items()},
        {name: hits._replace(rows=rows[hits.rows]) for name, hits in fresh.remeasured.items()},
    )


def _searched(
    engine: EngineInterface, report: IndexReport, queries: Inputs, job: ChurnJob, progress: Progress, clock: Clock
) -> ChurnPass:
    progress.start("search", len(queries))
    hits = search_all(engine, queries, len(job.order), job.trial.k, progress, clock)
    deleted = getattr(engine, "deleted", ())
    if np.isin(hits.rows, deleted).any():
        raise EngineFailureError("the engine returned documents that were deleted")
    return ChurnPass(
        replace(report, state=plain_state(engine, report, job.trial.k)),
        engine.storage(),
        hits,
        engine.remains(),
        engine.compared_vectors(queries),
        engine.lists(queries, job.trial.k, clock),
        engine.remeasured(queries, job.trial.k),
    )


def _ids(documents: Inputs, rows: Int32Array) -> Ids:
    return Ids(documents.ids.values.take(numbers(rows)))
