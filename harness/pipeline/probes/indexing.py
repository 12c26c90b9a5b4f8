"""The probe of indexing: documents, time, disk, memory, and the engine's own account of its index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from harness.data.dataset import Dataset
from harness.document.cells import BACKEND, count, number, seconds, size, text
from harness.document.model import Cell, Column, Table
from harness.pipeline.probes.probe import Probe, label_cell
from harness.plan.plan import Plan
from harness.results.schema import TrialResult
from harness.results.schema_costs import ExternalIndexStats, IndexStats, PhaseTimes
from harness.results.scored import ScoredTrial
from harness.worker.jobs import ExternalIndexRecord, TrialRecord
from harness.worker.process import FinishedProcess
from harness.worker.vectors import Vectors

_NS_PER_S = 1e9
_MAX_MISSING = 100
_MAX_STRANGERS = 20
_PHASES = ("open", "index", "ready", "first query", "warm-up", "search", "transfer")
_SOURCES = {"cached": "cached", "engine": "by engine"}


class IndexingProbe(Probe[None]):
    """Sum up the records that every trial's worker makes of its index, and the seconds of each phase."""

    name = "indexing"
    fields = frozenset({"phases", "index"})

    def summarise(self, scored: ScoredTrial, dataset: Dataset, plan: Plan) -> Mapping[str, object]:
        """Return the fields ``phases`` and ``index``; without times unless the plan took them."""
        outcome, record, timed = scored.outcome, scored.timed_record(), plan.request.timing
        if record is None:
            return {}
        return {
            "phases": _phases(record, outcome.vectors) if timed else None,
            "index": _index(record, outcome.memory, dataset, timed=timed),
        }

    def tables(self, trials: Sequence[TrialResult], cores: int) -> list[Table]:
        """Tabulate the index, its engine's account of it, and the seconds of each phase."""
        return [_index_table(trials), _state_table(trials), _phase_table(trials)]


def _phases(record: TrialRecord, vectors: Vectors | None) -> PhaseTimes:
    """Return the times of each phase; ``vectors`` were encoded for the trial, None if nothing was."""
    source: Literal["computed", "partly cached", "cached", "engine"] = "engine"
    if record.input != "text" and vectors is not None:  # the vectors of an engine that reads texts are its reference's
        computed = [part is not None for part in vectors.steps_ns]
        source = "computed" if all(computed) else "partly cached" if any(computed) else "cached"
    encode_ns = sum(part or 0 for part in vectors.steps_ns) if vectors is not None else 0
    return PhaseTimes(
        encode_seconds=encode_ns / _NS_PER_S if source in ("computed", "partly cached") else None,
        encode_source=source,
        open_seconds=record.open_ns / _NS_PER_S,
        index_seconds=record.index.index_ns / _NS_PER_S if record.external is None else None,
        ready_seconds=record.index.ready_ns / _NS_PER_S if record.external is None else None,
        first_query_seconds=record.first_query_ns / _NS_PER_S,
        warm_up_seconds=record.warm_up_ns / _NS_PER_S,
        search_seconds=int(record.search_ns.sum()) / _NS_PER_S,
        transfer_seconds=int(record.transfer_ns.sum()) / _NS_PER_S,
    )


def _index(record: TrialRecord, memory: FinishedProcess | None, dataset: Dataset, *, timed: bool) -> IndexStats:
    ingestion, external, seconds = record.index, record.external, record.index.index_ns / _NS_PER_S
    rate = ingestion.indexed / seconds if seconds > 0 else 0.0
    built = timed and external is None
    return IndexStats(
        built_by=record.built_by,
        documents_sent=ingestion.sent if external is None else None,
        documents_indexed=ingestion.indexed,
        missing=dataset.corpus.ids.take(ingestion.missing_rows[:_MAX_MISSING]),
        missing_count=len(ingestion.missing_rows),
        seconds=seconds if built else None,
        ready_seconds=ingestion.ready_ns / _NS_PER_S if built else None,
        searchable_seconds=(ingestion.index_ns + ingestion.ready_ns) / _NS_PER_S if built else None,
        documents_per_second=rate if built else None,
        bytes=record.storage.index_bytes,
        log_bytes=record.storage.log_bytes,
        peak_rss_bytes=memory.peak_rss_bytes if memory is not None else None,
        peak_anonymous_bytes=memory.peak_anonymous_bytes if memory is not None else None,
        peak_server_bytes=memory.peak_server_bytes if memory is not None else None,
        state=dict(ingestion.state),
        external_index=_external_index(external) if external is not None else None,
    )


def _external_index(external: ExternalIndexRecord) -> ExternalIndexStats:
    """Return the stored record of an external index."""
    strange = np.flatnonzero(external.rows < 0)
    return ExternalIndexStats(
        in_dataset=len(external.rows) - len(strange),
        not_in_dataset=len(strange),
        examples=external.ids.take(strange[:_MAX_STRANGERS]),
        no_reference=external.no_reference,
        files=external.files,
        file_bytes=external.file_bytes,
        sha256=external.sha256,
    )


def _index_table(trials: Sequence[TrialResult]) -> Table:
    rows = [[label_cell(trial), *_index_cells(trial.index)] for trial in trials if trial.index is not None]
    columns = [
        BACKEND,
        Column("documents", help="documents that the engine holds, of the documents sent"),
        Column("docs/s", best="highest", timed=True, help="of ingestion, without encoding and waiting"),
        Column("searchable", best="lowest", timed=True, help="from the first document until all can be searched"),
        Column("index", best="lowest", help="allocated blocks, without the write-ahead log"),
        Column("log"),
        Column("peak memory", best="lowest", help="highest anonymous memory above the worker's state before"),
        Column("peak RSS"),
    ]
    served = [
        f"{trial.label} {size(trial.index.peak_server_bytes).text}"
        for trial in trials
        if trial.index is not None and trial.index.peak_server_bytes is not None
    ]
    legend = (
        [f"both peaks include the engine's server, which the worker started: {', '.join(served)}"] if served else []
    )
    return Table("Index", columns, rows, legend=legend, detail=True)


def _index_cells(index: IndexStats) -> list[Cell]:
    sent = "external" if index.documents_sent is None else f"of {index.documents_sent:,}"
    return [
        Cell(f"{index.documents_indexed:,} {sent}", value=index.documents_indexed),
        number(index.documents_per_second, ",.0f"),
        number(index.searchable_seconds, ".2f", " s"),
        size(index.bytes),
        size(index.log_bytes or None),
        size(index.peak_anonymous_bytes),
        size(index.peak_rss_bytes),
    ]


def _state_table(trials: Sequence[TrialResult]) -> Table:
    """Tabulate engines' reports on what they built: segments, vectors in a graph, lists."""
    rows = [
        [label_cell(trial), text(name.replace("_", " ")), count(value) if type(value) is int else text(str(value))]
        for trial in trials
        if trial.index is not None
        for name, value in trial.index.state.items()
    ]
    columns = [BACKEND, Column("state", numeric=False, names=True), Column("as the engine says")]
    return Table("State of the index", columns, rows, detail=True)


def _phase_table(trials: Sequence[TrialResult]) -> Table:
    rows = [[label_cell(trial), *_phase_cells(trial.phases)] for trial in trials if trial.phases is not None]
    return Table(
        "Seconds of each phase",
        [BACKEND, *(Column(name, timed=True) for name in ("encode", *_PHASES))],
        rows,
        detail=True,
    )


def _phase_cells(times: PhaseTimes) -> list[Cell]:
    source = _SOURCES.get(times.encode_source)
    measured = (getattr(times, f"{name.replace(' ', '_').replace('-', '_')}_seconds") for name in _PHASES)
    return [text(source) if source else seconds(times.encode_seconds), *map(seconds, measured)]
