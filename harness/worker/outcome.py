"""Outcome of a trial: its run, checked against the dataset, or the reason for its absence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from harness.data import ranking
from harness.data.arrow import strings
from harness.data.dataset import Dataset
from harness.data.filtering import Matching, QueryFilters, format_filter
from harness.data.types import DocumentContent, Int64Array, Run, owners
from harness.engines.callable.answers import AnsweredQueries
from harness.errors import LostDocumentsError, RankingError
from harness.plan.plan import Trial
from harness.rerank.stage import RerankedRun
from harness.worker.failure import Failure
from harness.worker.jobs import ExternalIndexRecord, TrialRecord
from harness.worker.process import FinishedProcess
from harness.worker.vectors import Vectors

_MAX_NAMES = 20
Measurements = Mapping[str, object]
"""Names of probes -> the records of their measurements on one trial."""


@dataclass(frozen=True, eq=False, slots=True)
class CombinedRuns:
    """Origin and cost of a run that is made of others.

    ``of`` are their labels. ``first_ns`` int64 (repeats, Q) is their total time for each query: they were searched one
    after another; None if one of them was not timed. ``stage_ns`` is the time of combining their hits, all queries
    together; None if a part of it was done before. ``reranked`` is set for a second stage.
    """

    method: str
    of: tuple[str, ...]
    first_ns: Int64Array | None
    stage_ns: int | None
    reranked: RerankedRun | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one trial: either a ``run`` or a ``failure``.

    With a run comes a ``record`` if an engine made it, ``answers`` if a user's own code answered, ``combined`` if it
    was made of other backends' hits.

    ``measured`` is when an engine ran or failed (UTC, ISO 8601). A ``reused`` outcome was stored by an earlier
    comparison. ``notes`` are sentences for the report. ``measurements`` are the probes'; ``rebuilds`` are the runs of
    the builds after the first.
    """

    trial: Trial
    run: Run | None = None
    record: TrialRecord | None = None
    answers: AnsweredQueries | None = None
    memory: FinishedProcess | None = None
    vectors: Vectors | None = None
    combined: CombinedRuns | None = None
    failure: Failure | None = None
    measured: str | None = None
    reused: bool = False
    notes: tuple[str, ...] = ()
    measurements: Measurements = field(default_factory=dict)
    rebuilds: tuple[Run, ...] = ()

    @property
    def query_ns(self) -> Int64Array | None:
        """Time of each query, int64 (repeats, Q): search and transfer, or the time of the parts and of combining them.

        The time of a combination, measured for all queries together, is shared equally among them. None for a run that
        was read, a combination of such a run, and a second stage that found scores in the cache.
        """
        if self.record is not None:
            taken: Int64Array = self.record.search_ns + self.record.transfer_ns
            return taken
        if self.answers is not None:
            return self.answers.search_ns
        combined = self.combined
        if combined is None or combined.first_ns is None or combined.stage_ns is None:
            return None
        total: Int64Array = combined.first_ns + combined.stage_ns // max(combined.first_ns.shape[1], 1)
        return total


def checked_run(record: TrialRecord, dataset: Dataset) -> Run:
    """Return the run of a trial's hits; raises RankingError if it is not valid, or breaks the dataset's filter."""
    doc_ids = dataset.corpus.ids if record.external is None else record.external.ids
    content = _content(record.external) if record.external is not None else None
    hits = record.hits
    run = Run(dataset.queries.ids, doc_ids, hits.indptr, hits.rows, hits.scores, content=content)
    ranking.check(run, finite=True)
    if dataset.filtered is not None:
        refuse_unmatched(run, dataset, external_matching(record, dataset.filtered))
    return run


def external_matching(record: TrialRecord, filtered: QueryFilters) -> Matching | None:
    """Return the documents of an external index that match each query's filter; None for the harness's own index."""
    return Matching(record.external.matching, filtered.group_of) if record.external is not None else None


def _content(external: ExternalIndexRecord) -> DocumentContent:
    """Return the texts and values of an external index's documents, as far as they were read."""
    values = pa.chunked_array([strings(external.values)]) if external.values is not None else None
    if external.text_rows is None or external.texts is None:
        return DocumentContent(values, repeats=external.repeats)
    texts: list[str | None] = [None] * len(external.ids)
    for row, text in zip(external.text_rows.tolist(), external.texts, strict=True):
        texts[row] = text
    complete = len(external.text_rows) == len(external.ids) and None not in texts
    return DocumentContent(values, pa.chunked_array([strings(texts)]), complete, external.repeats)


def refuse_unmatched(run: Run, dataset: Dataset, matching: Matching | None = None) -> None:
    """Raise RankingError for hits that the filter of ``dataset`` excludes: their figures would say nothing of it.

    ``matching`` are the documents of the run's own index; None for the documents of the dataset.
    """
    if dataset.filtered is None or not len(run.rows):
        return
    rows, queries = run.rows, owners(run.indptr)
    if matching is None:
        rows, matching = dataset.corpus.ids.rows_of(run.doc_ids)[run.rows], dataset.filtered.matching
    searched = dataset.queries.ids.rows_of(run.query_ids)[queries]  # a stored run may hold further queries
    if dataset.filtered.shared is not None:
        searched = np.zeros_like(searched)
    examined = np.flatnonzero((rows >= 0) & (searched >= 0))
    excluded = examined[~matching.of_hits(searched[examined], rows[examined])]
    if len(excluded):
        hit = int(excluded[0])
        conditions = dataset.filtered.conditions_of(int(searched[hit]))
        raise RankingError(
            f"{len(excluded):,} of {run.hits:,} hits do not match the filter "
            f"{'' if dataset.filtered.shared is not None else 'of their query, such as '}{format_filter(conditions)}: "
            f"query '{run.query_ids[int(queries[hit])]}' has document '{run.doc_ids[int(run.rows[hit])]}'",
            fix="a stored run or code of your own has to heed the filter; an engine that returns them has a defect",
        )


def refuse_lost_documents(record: TrialRecord, dataset: Dataset, log: Sequence[str]) -> None:
    """Raise LostDocumentsError, with the worker's ``log``, unless just documents without text are missing."""
    missing = record.index.missing_rows
    unnamed = record.index.sent - record.index.indexed - len(missing)
    if unnamed != 0:
        raise LostDocumentsError(
            f"the engine holds {record.index.indexed} of {record.index.sent} documents, {unnamed} unaccounted for",
            fix="this is a defect of the engine: it must name every document that the engine does not hold",
            log=log,
        )
    empty = set(dataset.corpus.empty_rows.tolist())
    lost = [int(row) for row in missing if int(row) not in empty]
    if lost:
        examples = ", ".join(dataset.corpus.ids[row] for row in lost[:_MAX_NAMES])
        more = f" and {len(lost) - _MAX_NAMES} more" if len(lost) > _MAX_NAMES else ""
        raise LostDocumentsError(
            f"the engine lost {len(lost)} documents that are not empty: {examples}{more}",
            fix="figures would describe another dataset: see the engine's log for why it refused them",
            log=log,
        )
