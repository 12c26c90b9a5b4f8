"""Carry out a plan: encode once per distinct encoder, run each trial in its own worker, keep what came back.

A backend that fails keeps its reason; the others go on.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from filelock import FileLock, Timeout

from harness import ranking
from harness.cache import Cache
from harness.cards import BackendCard
from harness.columns import save_table
from harness.errors import CardError, HarnessError, LostDocumentsError, UsageError
from harness.execution.encodings import Encodings, Vectors
from harness.execution.jobs import TrialJob, TrialRecord, read_trial, write_job
from harness.execution.process import Finished, Worker
from harness.loaders.trec import read_run
from harness.plan import Plan, Trial
from harness.protocols import Display, Progress
from harness.registry import load_engine
from harness.types import Dataset, Ids, Run

__all__ = ["Failure", "Outcome", "failure_of", "run_plan"]

WARM_UP_QUERIES = 1000
"""A JVM compiles what runs often: benchmarks/warm_up.py shows how far Lucene's latency falls."""
WARM_UP_SECONDS = 5.0
_NAMED = 20


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a backend has no result."""

    type: str
    message: str
    log: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one trial: either a ``run`` (with a ``record`` when an engine made it) or a ``failure``."""

    trial: Trial
    run: Run | None = None
    record: TrialRecord | None = None
    memory: Finished | None = None
    vectors: Vectors | None = None
    failure: Failure | None = None


def run_plan(plan: Plan, dataset: Dataset, cache: Cache, display: Display) -> list[Outcome]:
    """Run every trial of ``plan`` on ``dataset``, one after the other, in the plan's order."""
    with _work_folder(cache) as work:
        inputs = _InputFiles(dataset, work)
        encodings = Encodings(cache, dataset, inputs.corpus, inputs.queries, work, display, plan.request.deadline_s)
        return [_run_trial(trial, plan, dataset, inputs, encodings, work, display) for trial in plan.trials]


class _InputFiles:
    """Documents and queries as files that workers map; the prepared corpus is used where it lies."""

    def __init__(self, dataset: Dataset, work: Path) -> None:
        self.corpus = dataset.corpus.path or work / "corpus.arrow"
        if dataset.corpus.path is None:
            _save(self.corpus, dataset.corpus.ids, dataset.corpus.texts)
        self.queries = work / "queries.arrow"
        _save(self.queries, dataset.queries.ids, dataset.queries.texts)


def _save(path: Path, ids: Ids, texts: pa.ChunkedArray) -> None:
    save_table(path, pa.table({"id": ids.values, "text": texts}))


def _run_trial(
    trial: Trial,
    plan: Plan,
    dataset: Dataset,
    inputs: _InputFiles,
    encodings: Encodings,
    work: Path,
    display: Display,
) -> Outcome:
    try:
        if trial.spec.run_path is not None:
            outcome = Outcome(trial, run=read_run(trial.spec.run_path))
        elif trial.spec.card is not None:
            progress = display.section(trial.label)
            outcome = _run_engine(trial, trial.spec.card, plan, dataset, inputs, encodings, work, progress)
        else:
            raise UsageError(f"backend '{trial.label}' names neither a card nor a run")
    except HarnessError as error:
        display.done(trial.label, f"failed: {error.what.splitlines()[0]}")
        return Outcome(trial, failure=failure_of(error))
    display.done(trial.label, _in_words(outcome))
    return outcome


def _in_words(outcome: Outcome) -> str:
    if outcome.record is None:
        return "read"
    index, queries = outcome.record.index, len(outcome.record.hits.indptr) - 1
    return f"{index.indexed:,} of {index.sent:,} documents indexed, {queries:,} queries searched"


def _run_engine(
    trial: Trial,
    card: BackendCard,
    plan: Plan,
    dataset: Dataset,
    inputs: _InputFiles,
    encodings: Encodings,
    work: Path,
    progress: Progress,
) -> Outcome:
    engine = load_engine(card)
    vectors = encodings.vectors(trial)
    if vectors is None and engine.capabilities.input == "sparse":
        raise CardError(f"card '{card.path}': the engine takes sparse vectors, but 'encoder' is '{card.encoder}'")
    job_folder = Path(tempfile.mkdtemp(prefix="trial-", dir=work))
    job = TrialJob(
        engine=card.engine,
        parameters=dict(trial.parameters),
        corpus=str(inputs.corpus),
        queries=str(inputs.queries),
        vectors=str(vectors.folder) if vectors is not None and engine.capabilities.input == "sparse" else None,
        index_folder=str(_new_folder(job_folder / "index")),
        k=plan.request.k,
        repeats=plan.request.repeat,
        warm_up_queries=WARM_UP_QUERIES,
        warm_up_seconds=WARM_UP_SECONDS,
    )
    write_job(job_folder, job)
    worker = Worker(job_folder, deadline_s=plan.request.deadline_s)
    finished = worker.run(progress)
    record = read_trial(job_folder)
    worker_log = worker.log_tail()
    shutil.rmtree(job_folder)
    _refuse_lost_documents(record, dataset, worker_log)
    hits = record.hits
    run = Run(dataset.queries.ids, dataset.corpus.ids, hits.indptr, hits.rows, hits.scores)
    ranking.check(run)
    return Outcome(trial, run=run, record=record, memory=finished, vectors=vectors)


def _refuse_lost_documents(record: TrialRecord, dataset: Dataset, log: list[str]) -> None:
    missing = record.index.missing_rows
    unnamed = record.index.sent - record.index.indexed - len(missing)
    if unnamed != 0:
        raise LostDocumentsError(
            f"the engine holds {record.index.indexed} of {record.index.sent} documents, {unnamed} unaccounted for",
            fix="this is a defect of the adapter: it must name every document that the engine does not hold",
        )
    empty = set(dataset.corpus.empty_rows.tolist())
    lost = [int(row) for row in missing if int(row) not in empty]
    if lost:
        named = ", ".join(dataset.corpus.ids[row] for row in lost[:_NAMED])
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        raise LostDocumentsError(
            f"the engine lost {len(lost)} documents that are not empty: {named}{more}",
            fix=f"figures would be those of another collection; the worker's last words: {' | '.join(log) or 'none'}",
        )


def failure_of(error: HarnessError) -> Failure:
    """A failure as it is reported: the error's type, its message, and the last lines of the log where there is one."""
    log = tuple(getattr(error, "log", ()))
    return Failure(getattr(error, "type_name", type(error).__name__), str(error), log)


def _new_folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


@contextmanager
def _work_folder(cache: Cache) -> Iterator[Path]:
    """A folder for this comparison alone, gone at its end; what killed comparisons left is removed first."""
    parent = cache.folder("work")
    for left in parent.glob("*.lock"):
        _remove_abandoned(left)
    work = Path(tempfile.mkdtemp(prefix="compare-", dir=parent))
    lock = FileLock(work.with_suffix(".lock"))
    try:
        with lock:
            yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        work.with_suffix(".lock").unlink(missing_ok=True)


def _remove_abandoned(lock: Path) -> None:
    """Remove a work folder whose lock nobody holds: its comparison was killed."""
    try:
        with FileLock(lock, timeout=0):
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)
    except Timeout:
        return
