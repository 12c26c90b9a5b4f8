"""Run the trials of a plan on one dataset: encode once per distinct encoder, run each trial, store its outcome.

A backend that fails keeps its reason; the others go on.
"""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from harness.data import ranking
from harness.data.dataset import Dataset
from harness.data.filtering import NO_FILTER
from harness.data.grouping import require_hits
from harness.data.progress import Display, Progress
from harness.data.types import Ids, Int64Array, Run
from harness.engines.callable.answers import PLAIN
from harness.engines.interface import Capabilities
from harness.errors import CacheError, CardError, HarnessError, MissingHitsError, UsageError
from harness.loaders.trec import read_run
from harness.pipeline.asking import SentFilters, ask_callable, require_rankings, run_of_answers, taken_for_distances
from harness.pipeline.probes import probes_of
from harness.pipeline.probes.probe import OpenIndexProbing, Probe, ProbedTrial, run_probes
from harness.pipeline.resume import (
    Identities,
    LookUp,
    StoredOutcome,
    StoredTrials,
    conditions_of,
    summarise_differences,
)
from harness.plan.callables import CallableSpec, refuse_unsent_filters
from harness.plan.config import RunOptions
from harness.plan.options import SMALL_DATASET
from harness.plan.plan import Plan, Trial
from harness.registry.cards import FIELDS, BackendCard
from harness.registry.lookup import load_engine
from harness.results.scored import has_terms
from harness.store.cache import Cache
from harness.store.columns import save_table
from harness.store.machine_state import machine_error
from harness.store.record_files import load, save
from harness.wording import counted
from harness.worker.attach import changed_too
from harness.worker.builds import SharedBuild, SharedBuilds, build_progress, builds_of
from harness.worker.candidate_hits import save_candidates
from harness.worker.embeddings import CacheCheck
from harness.worker.encodings import Encodings
from harness.worker.executor import Executor, create_executor
from harness.worker.failure import Failure, RemoteError, failure_of
from harness.worker.jobs import QueryGroup, TrialJob, TrialRecord
from harness.worker.outcome import Outcome, checked_run, refuse_lost_documents, refuse_unmatched
from harness.worker.pool import WorkerPool, engine_key
from harness.worker.process import FinishedProcess
from harness.worker.second_stages import SecondStage, fuse, second_stage
from harness.worker.threads import side_by_side
from harness.worker.vectors import Vectors

MOST_WARM_UP_QUERIES = 1000
"""Latency of any engine no longer falls after this many queries: benchmarks/warm_up.py."""
_HASHES = "hashes.json"
_ENCODERS_FOR: Mapping[str, tuple[str, ...]] = {
    "sparse": ("bm25", "splade"),
    "dense": ("dense",),
    "hybrid": ("bm25+dense",),
    "text": ("bm25", "splade", "dense", "none"),
    "terms": ("bm25",),
    "terms+dense": ("bm25+dense",),
}
"""Encoders that a card may name for an engine of each kind of input; for texts, the reference's encoders."""


def run_plan(
    plan: Plan, dataset: Dataset, cache: Cache, work: Path, display: Display, pool: WorkerPool | None = None
) -> list[Outcome]:
    """Run every trial of ``plan`` on ``dataset``; outcomes in the plan's order, however many ran side by side.

    ``work`` is a folder only for this comparison. ``pool`` has workers that outlive it; without a pool, the trials have
    their own workers. An interruption says how many outcomes are stored for ``--resume``.
    """
    few = len(dataset.corpus) <= SMALL_DATASET
    makes_pool = few and pool is None and plan.request.shares_workers
    with WorkerPool(deadline_s=plan.request.deadline) if makes_pool else nullcontext(pool if few else None) as pool:
        executor = create_executor(plan.request)
        inputs = TrialInputs(plan, dataset, cache, work, display, executor, pool)
        trials = _Trials(
            plan,
            dataset,
            inputs,
            cache,
            executor,
            StoredTrials(cache, plan, dataset, Identities(executor, work, display, pool=pool)),
            SharedBuilds(plan.trials) if len(plan.trials) > 1 else None,
            work,
            display,
            pool,
        )
        single = [trial for trial in plan.trials if not trial.spec.components]
        jobs = plan.request.jobs
        try:
            finished = side_by_side(trials.run, single, jobs=jobs) if jobs > 1 else map(trials.run, single)
            outcomes = {outcome.trial.label: outcome for outcome in finished}
            for trial in plan.trials:
                if trial.spec.components:
                    parts = [outcomes[part.label] for part in plan.components(trial)]
                    outcomes[trial.label] = trials.combine(trial, parts)
            return [outcomes[trial.label] for trial in plan.trials]
        except KeyboardInterrupt as interrupted:
            if trials.kept_labels:
                count = f"{len(trials.kept_labels)} of {len(plan.trials)} backends had finished"
                interrupted.add_note(f"{count}, and their outcomes are stored: run again with --resume missing")
            raise


class TrialInputs:
    """Documents, queries and candidates as files that workers map, and their encodings.

    The prepared corpus is used in place.
    """

    def __init__(
        self,
        plan: Plan,
        dataset: Dataset,
        cache: Cache,
        work: Path,
        display: Display,
        executor: Executor,
        pool: WorkerPool | None = None,
    ) -> None:
        self.plan, self.dataset, self.display = plan, dataset, display
        self.corpus = dataset.corpus.path or work / "corpus.arrow"
        if dataset.corpus.path is None:
            save_table(self.corpus, pa.table({"id": dataset.corpus.ids.values, "text": dataset.corpus.texts}))
        self.queries = work / "queries.arrow"
        save_table(self.queries, pa.table({"id": dataset.queries.ids.values, "text": dataset.queries.texts}))
        self.metadata = work / "metadata.arrow" if dataset.filtered is not None else None
        if dataset.filtered is not None and self.metadata is not None:
            save_table(self.metadata, dataset.filtered.metadata)
        self.fields = work / "fields.arrow" if dataset.field_texts is not None else None
        if dataset.field_texts is not None and self.fields is not None:
            save_table(self.fields, dataset.field_texts)
        self.candidates = work / "candidates.arrow" if dataset.candidates is not None else None
        if dataset.candidates is not None and self.candidates is not None:
            candidate_rows = ranking.candidate_rows(dataset.queries.ids, dataset.corpus.ids, dataset.candidates)
            save_candidates(self.candidates, candidate_rows)
        check = CacheCheck(plan.request.verify_cache, plan.request.seed)
        files = self.corpus, self.queries, self.fields
        self.encodings = Encodings(cache, dataset, *files, work, display, executor, check, pool)

    def job(
        self, trial: Trial, card: BackendCard, capabilities: Capabilities, vectors: Vectors | None, index_folder: Path
    ) -> TrialJob:
        """Return the job that runs a trial."""
        folders, filtered = vectors.folders if vectors is not None else (), self.dataset.filtered
        return TrialJob(
            engine=card.engine,
            parameters=trial.parameters,
            corpus=self.corpus,
            queries=self.queries,
            document_vectors=tuple(folder.documents for folder in folders),
            query_vectors=tuple(folder.queries for folder in folders),
            dimensions=vectors.dimensions if vectors is not None else 0,
            index_folder=index_folder,
            k=self.plan.request.k,
            repeats=self.plan.request.repeat,
            warm_up_queries=warm_up_queries(self.plan.request, capabilities, len(self.dataset.queries)),
            warm_up_seconds=self.plan.request.warm_up,
            filters=QueryGroup.all_of(filtered, external=trial.external) if filtered is not None else (),
            metadata=self.metadata,
            candidates=self.candidates,
            term_texts=vectors.terms.texts if vectors is not None and vectors.terms is not None else None,
            content=self.plan.content_of(trial) if trial.external else PLAIN,
            fields=self.fields if trial.parameters.get(FIELDS) and trial.fields else None,
        )


@dataclass(frozen=True, eq=False, slots=True)
class _Trials:
    """Run the trials of a comparison, which share the state of this object; several threads may call :meth:`run`."""

    plan: Plan
    dataset: Dataset
    inputs: TrialInputs
    cache: Cache
    executor: Executor
    stored: StoredTrials
    builds: SharedBuilds | None
    work: Path
    display: Display
    pool: WorkerPool | None
    kept_labels: list[str] = field(default_factory=list)

    def run(self, trial: Trial) -> Outcome:
        """Return the outcome of a backend that is not made of others, stored or from running it now."""
        try:
            look_up = self.stored.look_up(trial)
            if look_up.stored is not None:
                outcome = self._reuse(trial, look_up.stored, look_up.differs)
            else:
                outcome = self._execute(trial, look_up)
        except (HarnessError, OSError) as error:
            outcome = Outcome(trial, failure=self._failure_of(error), measured=_now_utc())
        finally:
            if self.builds is not None:
                self.builds.release(trial)
        self.display.done(trial.label, _summary(outcome))
        return outcome

    def combine(self, trial: Trial, parts: Sequence[Outcome]) -> Outcome:
        """Return the outcome of a backend that is made of others, from theirs."""
        try:
            outcome = replace(self._combined(trial, parts), measured=_now_utc())
        except (HarnessError, OSError) as error:
            outcome = Outcome(trial, failure=self._failure_of(error), measured=_now_utc())
        self.display.done(trial.label, _summary(outcome))
        return outcome

    def _failure_of(self, error: HarnessError | OSError) -> Failure:
        """Return the failure of one backend; raises an OSError that the machine's state does not explain."""
        if not isinstance(error, RemoteError):  # a worker has looked already, and reports it
            error = machine_error(error, self.work) or error
        if isinstance(error, OSError):
            raise error
        return failure_of(error)

    def _combined(self, trial: Trial, parts: Sequence[Outcome]) -> Outcome:
        lacking = [part.trial.label for part in parts if part.run is None]
        if lacking:
            raise MissingHitsError(f"it is made of {', '.join(lacking)}, which failed", fix="see why above")
        runs = [part.run for part in parts if part.run is not None]
        times = [part.query_ns for part in parts]
        labels = [part.trial.label for part in parts]
        if trial.spec.kind == "rerank":
            return self._reranked(trial, labels[0], runs[0], times[0])
        fused, combined = fuse(trial.spec, labels, runs, times, self.plan.request.k)
        return Outcome(trial, run=fused, combined=combined)

    def _reranked(self, trial: Trial, first: str, run: Run, first_ns: Int64Array | None) -> Outcome:
        inputs = self.inputs
        stage = SecondStage(
            self.dataset, inputs.corpus, inputs.queries, self.cache, self.executor, self.work, self.display
        )
        vectors = None
        if trial.spec.name == "dense":
            vectors = self.inputs.encodings.embeddings.vectors(trial, "dense")
            if vectors.dense is None:
                raise AssertionError("a dense model without dense vectors")
            reranked_run, reranked = stage.run_with_vectors(trial, run, vectors.dense)
        else:
            reranked_run, reranked = stage.run(trial, run)
        combined = second_stage(trial.spec, first, reranked, first_ns)
        return Outcome(trial, run=reranked_run, vectors=vectors, combined=combined)

    def _reuse(self, trial: Trial, stored: StoredOutcome, differs: tuple[str, ...]) -> Outcome:
        """Return a stored outcome instead of running the trial."""
        notes = [f"re-used from an earlier comparison, measured {stored.measured}"]
        if differs:
            notes.append(f"its times and memory were measured under other conditions: {summarise_differences(differs)}")
        vectors, run, record = None, None, stored.record
        if record is not None:
            vectors = self.inputs.encodings.vectors(trial, weights=_weighed_by_reference(trial))
            run = checked_run(record, self.dataset)
        self.kept_labels.append(trial.label)
        outcome = Outcome(
            trial,
            run=run,
            record=record,
            memory=stored.memory,
            vectors=vectors,
            failure=stored.failure,
            measured=stored.measured,
            reused=True,
            notes=tuple(notes),
            measurements=stored.measurements,
        )
        return self._add_further_runs(outcome) if outcome.measurements else outcome

    def _execute(self, trial: Trial, look_up: LookUp) -> Outcome:
        """Run the trial, and store its outcome."""
        if trial.spec.run_path is not None:
            run = read_run(trial.spec.run_path)
            require_hits(run, str(trial.spec.run_path))
            refuse_unmatched(run, self.dataset)
            if self.dataset.candidates is not None:
                run = ranking.among_candidates(run, self.dataset.candidates)
            return Outcome(trial, run=run)
        if trial.spec.called is not None:
            return replace(self._ask(trial, trial.spec.called), measured=_now_utc())
        if trial.spec.card is None:
            raise UsageError(f"backend '{trial.label}' names neither a card nor a run")
        try:
            with self.cache.intact():
                outcome = self._run_engine(trial, trial.spec.card, look_up)
        except CacheError:
            raise  # says nothing of the backend: not to be stored as its outcome
        except HarnessError as error:
            outcome = Outcome(trial, failure=self._failure_of(error))
        measured = _now_utc()
        outcome = replace(outcome, measured=measured)
        conditions = conditions_of(self.plan, trial)
        stored = StoredOutcome(
            measured, conditions, outcome.record, outcome.memory, outcome.failure, outcome.measurements
        )
        try:
            if self.stored.keep(trial, look_up, stored):
                self.kept_labels.append(trial.label)
        except CacheError as error:
            return replace(outcome, notes=(f"it could not be stored for --resume: {error.problem}",))
        return outcome

    def _ask(self, trial: Trial, called: CallableSpec) -> Outcome:
        """Send every query to a user's own code; no key holds its content, so that its outcome is not stored."""
        request, queries = self.plan.request, self.dataset.queries
        folder, progress = Path(tempfile.mkdtemp(prefix="ask-", dir=self.work)), self.display.section(trial.label)
        outcome = ask_callable(
            called,
            queries,
            request.k,
            self.plan.request,
            folder,
            progress,
            max_calls=request.max_calls,
            filters=self._filters_sent_to(called),
        )
        judged = self.dataset.qrels.doc_ids if self.dataset.qrels is not None else Ids.of([])
        run = run_of_answers(queries.ids, outcome.answers, request.k, judged)
        require_rankings(outcome, run, self.dataset.corpus.ids)
        refuse_unmatched(run, self.dataset)
        if self.dataset.candidates is not None:
            run = ranking.among_candidates(run, self.dataset.candidates)
        notes = ["its own code answers: nothing was indexed, and there is no exact reference", *outcome.notes]
        if taken_for_distances(outcome.answers, request.k):
            notes.append("its scores rise from the first hit on: they are taken for distances, and the order stays")
        longer = sum(len(answer.ids) > request.k for answer in outcome.answers)
        if longer:
            notes.append(f"{counted(longer, 'query', 'queries')} got more than k hits: the first {request.k:,} count")
        if outcome.repeated:
            calls = counted(outcome.repeated, "call")
            notes.append(f"made again after a failure: {calls}; its milliseconds include that")
        return Outcome(trial, run=run, answers=outcome, notes=(*notes, *called.notes))

    def _filters_sent_to(self, called: CallableSpec) -> SentFilters | None:
        """Return the conditions of each query, None without filters; raises as :func:`refuse_unsent_filters`.

        Under the filter of ``--filter`` alone, code that takes no filter is still called: its hits are examined.
        """
        ids, filtered = self.dataset.queries.ids.to_list(), self.dataset.filtered
        conditions = [filtered.conditions_of(query) if filtered is not None else NO_FILTER for query in range(len(ids))]
        required = bool(self.dataset.filters) or not self.plan.filter
        refuse_unsent_filters(called, ids, conditions, required=required)
        return SentFilters(conditions, required=required) if filtered is not None else None

    def _run_engine(self, trial: Trial, card: BackendCard, look_up: LookUp) -> Outcome:
        capabilities = load_engine(card).capabilities
        taken = capabilities.reads(external=trial.external)
        if card.encoder not in _ENCODERS_FOR[taken]:
            raise CardError(f"card '{card.path}': the engine takes {taken} vectors, but 'encoder' is '{card.encoder}'")
        vectors = None
        if taken != "text" or len(self.dataset.corpus):  # of texts, vectors are the reference's
            weights = taken in ("sparse", "hybrid") or _weighed_by_reference(trial)
            vectors = self.inputs.encodings.vectors(trial, weights=weights, term_texts="terms" in taken.split("+"))
        if trial.external and not capabilities.external:
            raise CardError(f"card '{card.path}' offers 'external_index', but the engine does not declare it")
        job_folder = Path(tempfile.mkdtemp(prefix="trial-", dir=self.work))
        index_folder = job_folder / (look_up.name or "index")
        probes = [probe for probe in probes_of(self.plan) if probe.record is not None]
        probes = [probe for probe in probes if probe.applies_to(trial, self.plan)]
        on_index = [probe for probe in probes if probe.on_index]
        probed = ProbedTrial(
            trial=trial,
            plan=self.plan,
            dataset=self.dataset,
            job=replace(
                self.inputs.job(trial, card, capabilities, vectors if taken != "text" else None, index_folder),
                release=job_folder / "release" if on_index else None,
            ),
            folder=job_folder,
            work=self.work,
            executor=self.executor,
            shared=capabilities.shares_index,
            terms=has_terms(vectors, len(self.dataset.queries)),
        )
        shared_build = nullcontext() if self.builds is None else self.builds.of(trial, capabilities)
        with shared_build as build:
            probed = replace(probed, reopened=build is not None)
            try:
                outcome = self._run_job(probed, vectors, build, on_index)
            finally:  # a failed trial's index too: the indexes of a long comparison would fill the disk
                if build is None or build.folder != job_folder:
                    shutil.rmtree(job_folder, ignore_errors=True)
        if later := [probe for probe in probes if not probe.on_index]:
            measured = run_probes(later, probed, self.display.section(trial.label))
            outcome = replace(outcome, measurements={**outcome.measurements, **measured})
        return self._add_further_runs(outcome) if outcome.measurements else outcome

    def _add_further_runs(self, outcome: Outcome) -> Outcome:
        probes = probes_of(self.plan, [outcome])
        runs = [run for probe in probes for run in probe.runs(outcome, self.plan, self.dataset)]
        return replace(outcome, rebuilds=tuple(runs))

    def _run_job(
        self,
        probed: ProbedTrial,
        vectors: Vectors | None,
        build: SharedBuild | None,
        probes: Sequence[Probe[object]],
    ) -> Outcome:
        """Run the engine's job in its folder, and the probes of its index; nothing that it returns is stored there."""
        trial, job_folder = probed.trial, probed.folder
        job = probed.job if build is None else build.share(probed.job)
        progress = self.display.section(trial.label)
        if self.plan.request.rebuilds > 1:
            progress = build_progress(progress, 1, builds_of(trial, self.plan))
        job.index_folder.mkdir(parents=True, exist_ok=job.built is not None)
        if trial.external:
            terms = vectors.terms if vectors is not None else None
            folder = terms.folder if terms is not None else None
            job = replace(job, external=True, terms=folder, hashes=job_folder / _HASHES)
        save(job_folder, job)
        probed = replace(probed, job=job)
        measurements: dict[str, object] | None = {}
        try:
            if probes:
                finished, measurements = self._run_with_probes(probes, probed, progress)
            else:
                executor = self.executor if self.pool is None else self._pooled(self.pool, trial, job)
                finished = executor.run(job_folder, progress)
        except HarnessError as error:  # a killed worker could not compare the index with its earlier state
            raise changed_too(job_folder / _HASHES, error, progress) from error
        record = load(job_folder, TrialRecord)
        if record.external is None:
            refuse_lost_documents(record, self.dataset, finished.log)
        if measurements is None:  # no server
            measurements = run_probes(probes, probed, progress)
        if build is not None:
            record = build.searched(job, job_folder, trial.label, record)
        if trial.external:
            trial = trial.read(record.index.state)
        return Outcome(
            trial,
            run=checked_run(record, self.dataset),
            record=record,
            memory=finished,
            vectors=vectors,
            measurements=measurements,
        )

    def _run_with_probes(
        self, probes: Sequence[Probe[object]], probed: ProbedTrial, progress: Progress
    ) -> tuple[FinishedProcess, dict[str, object] | None]:
        """Run the engine's job, and measure the index while a server's worker holds it; None for another engine."""
        measure = partial(run_probes, probes, replace(probed, open_in_worker=True), progress)
        with OpenIndexProbing(measure, probed.job.release) as probing:
            return self.executor.run(probed.folder, progress, probing.begin), probing.measurements()

    def _pooled(self, pool: WorkerPool, trial: Trial, job: TrialJob) -> Executor:
        """Return the executor of a trial without probes: the pool, except for external indexes and several builds."""
        if job.external or trial.spec.card is None or builds_of(trial, self.plan) > 1:
            return self.executor
        return pool.serving(engine_key(trial.spec.card, trial.parameters))


def warm_up_queries(options: RunOptions, capabilities: Capabilities, queries: int) -> int:
    """Return how many queries to send untimed: as many as are measured, or as the engine needs, 1,000 at most."""
    if not options.warms_up:
        return 0
    return min(MOST_WARM_UP_QUERIES, max(queries * options.repeat, capabilities.warm_up_queries))


def _weighed_by_reference(trial: Trial) -> bool:
    """Return whether the trial's reference is made of the harness's BM25 weights, for any input of its engine."""
    card = trial.spec.card
    if card is None or card.reference.scoring is not None:
        return False
    return card.reference.kind in ("sparse", "hybrid") and card.reference.applies(trial.parameters)


def _now_utc() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _summary(outcome: Outcome) -> str:
    if outcome.reused:
        return f"re-used: {'failed' if outcome.failure is not None else 'finished'} on {outcome.measured}"
    if outcome.failure is not None:
        return f"failed: {outcome.failure.message.splitlines()[0]}"
    if outcome.combined is not None:
        return f"made of {', '.join(outcome.combined.of)}"
    if outcome.answers is not None:
        return f"{counted(len(outcome.answers.answers), 'query')} queried"
    if outcome.record is None:
        return "read"
    index = outcome.record.index
    searched = f"{counted(len(outcome.record.hits.indptr) - 1, 'query')} searched"
    if outcome.record.external is not None:
        return f"an external index of {counted(index.indexed, 'document')}, {searched}"
    builds = f", {len(outcome.rebuilds) + 1} builds" if outcome.rebuilds else ""
    return f"{index.indexed:,} of {counted(index.sent, 'document')} indexed, {searched}{builds}"
