"""The probe of changes: an index of a part of the documents is changed step by step, and searched in each state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np

from harness.data.dataset import Dataset
from harness.data.progress import Progress
from harness.data.types import Int32Array, Run
from harness.document.cells import BACKEND, absent, count, join_names, milliseconds, number, text, values_of
from harness.document.model import Cell, Column, Table, Value, Verdict
from harness.engines.base import Engine
from harness.errors import LostDocumentsError
from harness.metrics import Scores, score
from harness.parity.changed_states import ChangedIndex, compare_state
from harness.parity.run_comparison import Parity
from harness.pipeline.probes.churn_workload import Workload
from harness.pipeline.probes.probe import Probe, ProbedTrial, job_of_another_build, label_cell
from harness.plan.plan import Plan, Trial
from harness.registry.lookup import load_engine
from harness.results.hit_rules import HitRules
from harness.results.schema import TrialResult
from harness.results.scored import ScoredTrial, has_terms
from harness.stats.timing import latency
from harness.store.cpu_use import OtherProcesses
from harness.store.record_files import load, save
from harness.wording import counted
from harness.worker.jobs import ChurnJob, ChurnPass, ChurnRecord
from harness.worker.outcome import Measurements

_NS_PER_S = 1e9
_FRESH = "new index"
_LEGEND = [
    "each query is searched once in each state, with no warm-up after a change",
    "new index: of the documents at the end, built at once",
    "recall, and the exact figure next to a metric: compared with the exact result over the present documents",
]
_STILL_COUNTED = "still counted: deleted contents that the engine says its statistics still count"


class ChurnProbe(Probe[ChurnRecord]):
    """Run the workload in its own worker, and compare each state with the exact result of that state."""

    name = "churn"
    options = ("churn",)
    record = ChurnRecord
    on_index = False

    def applies_to(self, trial: Trial, plan: Plan) -> bool:
        """Return whether the plan requests changes, and the engine declares them."""
        card = trial.spec.card
        if plan.request.churn is None or card is None or trial.external or trial.spec.components:
            return False
        return load_engine(card).capabilities.changes

    def refuse(self, plan: Plan, dataset: Dataset) -> None:
        """Refuse a workload that has too few documents for its steps."""
        if plan.request.churn is not None and dataset.candidates is None:
            Workload.of(len(dataset.corpus), plan.request.churn, plan.request.seed)

    def run(self, probed: ProbedTrial, progress: Progress) -> ChurnRecord:
        """Index a part of the documents, change the index and search it; raises HarnessError if that fails."""
        request = probed.plan.request
        if request.churn is None:
            raise AssertionError("a workload that was not requested")
        if probed.dataset.candidates is not None:
            return ChurnRecord(unchangeable="the dataset's queries are ranked among candidates")
        workload = Workload.of(len(probed.dataset.corpus), request.churn, request.seed)
        with TemporaryDirectory(prefix="churn-", dir=probed.work, ignore_cleanup_errors=True) as name:
            folder = Path(name)
            trial = replace(job_of_another_build(probed.job, folder), shared=False)
            save(folder, ChurnJob(trial, workload.order, workload.first, workload.steps, folder / "fresh"))
            finished = probed.executor.run(folder, progress)
            record = load(folder, ChurnRecord)
            for state, content in zip(record.passes, workload.contents, strict=False):
                _refuse_lost(state, content, probed.dataset, finished.log)
            if record.fresh is not None:
                _refuse_lost(record.fresh, workload.contents[-1], probed.dataset, finished.log, "in a new index")
            return record

    def other_processes(self, measurements: Measurements) -> Sequence[OtherProcesses]:
        """Return the other processes' use of the cores during all changes."""
        measured = self.measured(measurements)
        return [measured.other_processes] if measured is not None and measured.other_processes is not None else []

    def planned(self, plan: Plan) -> str:
        """Say which workload."""
        return f"changes ({plan.request.churn})" if plan.request.churn is not None else ""

    def unmeasured(self, trial: Trial, plan: Plan) -> str:
        """Say why a backend will not be changed."""
        skipped = plan.request.churn is not None and not self.applies_to(trial, plan)
        return f"will not be changed (--churn): {_unchanged(trial)}" if skipped else ""

    def levels(self, plan: Plan) -> list[str]:
        """Name the workload, with its seed."""
        request = plan.request
        return [f"changes ({request.churn}, seed {request.seed})"] if request.churn is not None else []

    def summarise(self, scored: ScoredTrial, dataset: Dataset, plan: Plan) -> Mapping[str, object]:
        """Return the field ``churn`` below ``probes``: the workload, and figures of each state."""
        record, churn = self.measured(scored.outcome.measurements), plan.request.churn
        if record is None or churn is None:
            return {}
        workload = Workload.of(len(dataset.corpus), churn, plan.request.seed)
        summary: dict[str, object] = {
            "workload": str(churn),
            "seed": plan.request.seed,
            "documents_at_first": workload.first,
            "documents_held_back": len(workload.order) - workload.first,
        }
        if record.unchangeable is not None:
            return {"churn": {**summary, "unchangeable": record.unchangeable}}
        states = _States(scored, dataset, plan, workload)
        each = [states.figures(measured, number) for number, measured in enumerate(record.passes)]
        fresh = states.figures(record.fresh, len(record.passes) - 1, fresh=True) if record.fresh is not None else None
        return {"churn": {**summary, "states": each, "new_index": fresh}}

    def notes(self, scored: ScoredTrial, plan: Plan) -> list[str]:
        """Say why a backend was not changed."""
        outcome = scored.outcome
        if plan.request.churn is None or outcome.failure is not None:
            return []
        record = self.measured(outcome.measurements)
        if record is not None:
            return [] if record.unchangeable is None else [f"not changed (--churn): {record.unchangeable}"]
        return [f"not changed (--churn): {_unchanged(outcome.trial)}"]

    def tables(self, trials: Sequence[TrialResult], cores: int) -> list[Table]:
        """Tabulate each state of each backend."""
        changed = _changed(trials)
        metric = next((name for _, churn in changed for name in churn["states"][0]["metrics"]), "metric")
        depth = next((name for _, churn in changed for name in churn["states"][0]["recall"]), "10")
        columns = [
            BACKEND,
            Column("state", numeric=False, names=True),
            Column("documents", priority=5),
            Column("changes/s", help="documents deleted or written a second, until the engine took them", priority=4),
            Column("ready s", help="from then until all is searchable and the engine idle", priority=3),
            Column("p50 ms", priority=6, timed=True),
            Column("p95 ms", timed=True),
            Column(metric, priority=1),
            Column("exact", help=f"{metric} of the exact result over the present documents", priority=2),
            Column(f"recall@{depth}"),
            Column("agree", help="queries that agree with the exact result, up to ties and the stated tolerance"),
            Column("still counted", priority=7),
            Column("causes", numeric=False, folds=True),
        ]
        rows = []
        for trial, churn in changed:
            rows += [[label_cell(trial), *_cells(state, metric, depth)] for state in _states(churn)]
        counts = any(state["deleted_and_counted"] is not None for _, churn in changed for state in _states(churn))
        legend = [*_LEGEND, _STILL_COUNTED] if counts else _LEGEND
        workload = next((str(churn["workload"]) for _, churn in changed), "")
        return [Table(f"Data that changes: {workload}" if workload else "Data that changes", columns, rows, legend)]

    def verdicts(self, trials: Sequence[TrialResult]) -> list[Verdict]:
        """Say which states differ from their exact results for a cause that is not proven, or that no ranking does."""
        compared = [
            (trial.label, state["parity"], _name(state))
            for trial, churn in _changed(trials)
            for state in _states(churn)
            if state["parity"] is not None
        ]
        unproven = [
            f"{label}, {name}: {counted(parity['causes']['unknown'], 'query')}"
            for label, parity, name in compared
            if parity["causes"].get("unknown")
        ]
        if unproven:
            headline = "data that changes: results differ from the exact ones, and the cause is not proven"
            return [Verdict("bad", headline, join_names(unproven))]
        if not compared or any(parity["different"] for _, parity, _ in compared):
            return []
        labels = list(dict.fromkeys(label for label, _, _ in compared))
        missing = [trial.label for trial in trials if trial.label not in labels]
        scores = [
            f"{label}, {name}: {counted(sum(parity['causes'].values()), 'query')} ({join_names(parity['causes'])})"
            for label, parity, name in compared
            if parity["causes"]
        ]
        alone = len(labels) == 1 or not missing
        who = join_names(labels) if missing else "every backend"
        same = f"agree{'s' * alone} with exact search" if not scores else f"rank{'s' * alone} as exact search does"
        details = [f"scores differ: {join_names(scores)}"] if scores else []
        details += [f"not compared: {join_names(missing)}"] if missing else []
        return [Verdict("good", f"data that changes: {who} {same} in every state", "; ".join(details))]

    def values(self, trial: TrialResult) -> Iterator[Value]:
        """Yield each number of each state."""
        churn = cast("Mapping[str, Any]", trial.probes.get("churn", {}))
        for state in churn.get("states", []):
            yield from values_of(trial.dataset, trial.label, f"churn.{state['step']}.", _numbers(state))
        if churn.get("new_index") is not None:
            yield from values_of(trial.dataset, trial.label, "churn.new_index.", _numbers(churn["new_index"]))


def _unchanged(trial: Trial) -> str:
    """Return why a trial is not changed that the plan of changes leaves out."""
    if trial.spec.components:
        return "it is made of other backends"
    if trial.spec.called is not None:
        return "its own code answers, and nothing is indexed"
    if trial.spec.run_path is not None:
        return "its run was read from a file"
    if trial.external:
        return "an external index is only read"
    return Engine.no_changes if trial.spec.card is None else load_engine(trial.spec.card).no_changes


def _refuse_lost(
    state: ChurnPass, content: Int32Array, dataset: Dataset, log: Sequence[str], when: str = "after a change"
) -> None:
    """Raise LostDocumentsError unless just documents without text are missing."""
    lost = np.setdiff1d(content[state.report.missing_rows], dataset.corpus.empty_rows)
    if len(lost):
        first = dataset.corpus.ids[int(lost[0])]
        raise LostDocumentsError(
            f"{when} the engine lost {len(lost)} documents that are not empty: '{first}' first",
            fix="look into the engine's log for why it refused them",
            log=log,
        )


class _States:
    """Figures of the states of one backend's index."""

    def __init__(self, scored: ScoredTrial, dataset: Dataset, plan: Plan, workload: Workload) -> None:
        self._scored, self._dataset, self._plan, self._workload = scored, dataset, plan, workload
        self._ids = workload.ids(dataset)
        self._terms = has_terms(scored.outcome.vectors, len(dataset.queries))

    def figures(self, measured: ChurnPass, number: int, *, fresh: bool = False) -> dict[str, object]:
        """Return the stored record of a state; ``number`` is the number of the change before it."""
        plan, hits, report = self._plan, measured.hits, measured.report
        run = Run(self._dataset.queries.ids, self._ids, hits.indptr, hits.rows, hits.scores)
        compared = self._compare(run, measured, number, fresh=fresh)
        parity, exact = compared if compared is not None else (None, None)
        scores = self._score(run, number)
        changed = report.sent
        if number and not fresh:
            step = self._workload.steps[number - 1]
            changed = len(step.deleted) + len(step.written)
        figures: dict[str, object] = {
            "step": number,
            "new_index": fresh,
            "documents": report.indexed,
            "missing": len(report.missing_rows),
            "changed": changed,
            "metrics": _means(scores),
            "exact_metrics": _means(self._score(exact, number)) if exact is not None else {},
            "queries": scores.counts.evaluated if scores is not None else 0,
            **_agreement(parity),
            "deleted_and_counted": None if measured.remains.rows is None else len(measured.remains.rows),
            "bytes": measured.storage.index_bytes,
            "state": dict(report.state),
        }
        if plan.request.timing:
            seconds = report.index_ns / _NS_PER_S
            searched = hits.search_ns[self._terms]
            figures |= {
                "seconds": seconds,
                "documents_per_second": changed / seconds if seconds > 0 else None,
                "ready_seconds": report.ready_ns / _NS_PER_S,
                "milliseconds": asdict(latency(searched)) if len(searched) else None,
            }
        return figures

    def _compare(self, run: Run, measured: ChurnPass, number: int, *, fresh: bool) -> tuple[Parity, Run] | None:
        trial, vectors, record = self._scored.outcome.trial, self._scored.outcome.vectors, self._scored.outcome.record
        card = trial.spec.card
        if card is None or vectors is None or record is None:
            return None
        if not card.reference.applies(trial.parameters):
            return None
        leftovers, remains = () if fresh else self._leftovers(measured, number), measured.remains
        placed = remains.order, remains.shards, remains.unindexed, None if fresh else remains.rows
        rounded = None
        if remains.rounded is not None and remains.rounded_rows is not None:
            rounded = remains.rounded, remains.rounded_rows
        state = ChangedIndex(self._ids, self._workload.contents[number], leftovers, *placed, rounded)
        record = replace(
            record,
            index=measured.report,
            lists=measured.lists,
            compared=measured.compared,
            remeasured=measured.remeasured,
            placement=None,
        )
        return compare_state(trial, run, record, state, card.reference, vectors)

    def _leftovers(self, measured: ChurnPass, number: int) -> tuple[Int32Array, ...]:
        """Return the contents that are deleted and may still be counted.

        If the engine does not report them, these are guesses, and scores prove at most one: the contents deleted since
        the build or since a later change, with or without replaced contents.
        """
        remains, workload = measured.remains, self._workload
        if remains.rows is not None and remains.written is not None:
            contents = np.stack(workload.contents)
            return (contents[remains.written, remains.rows],)
        guesses = []
        for replaced in (False, True):
            dropped = [workload.dropped(change, replaced=replaced) for change in range(1, number + 1)]
            guesses += [np.concatenate(dropped[start:]) for start in range(number)]
        return tuple(guesses)

    def _score(self, run: Run, number: int) -> Scores | None:
        plan, ids = self._plan, run.doc_ids
        qrels = self._workload.judgments(self._dataset, number, self._ids)
        if qrels is None:
            return None
        hits = HitRules.of(self._dataset).filter_hits(replace(run, doc_ids=ids), plan.request.k)
        return score(hits, qrels, plan.measures, ties=plan.ties, queries=plan.queries, relevance=plan.request.relevance)


def _means(scores: Scores | None) -> dict[str, float]:
    means = scores.means() if scores is not None and len(scores.query_ids) else []
    return {str(summary.measure): summary.value for summary in means}


def _agreement(parity: Parity | None) -> dict[str, object]:
    if parity is None:
        return {"recall": {}, "parity": None}
    counts = ("queries", "bit_equal", "identical", "tie_equivalent", "different")
    return {
        "recall": {str(depth): share for depth, share in parity.recall.items()},
        "parity": {
            **{name: getattr(parity, name) for name in counts},
            "max_rel_score_diff": parity.max_rel_score_diff,
            "causes": dict(parity.causes),
        },
    }


def _numbers(state: Mapping[str, Any]) -> dict[str, object]:
    return {name: value for name, value in state.items() if name not in ("step", "state", "new_index")}


def _changed(trials: Sequence[TrialResult]) -> list[tuple[TrialResult, Mapping[str, Any]]]:
    """Return the trials that were changed, each with its stored record of the changes."""
    measured = [
        (trial, cast("Mapping[str, Any]", trial.probes["churn"])) for trial in trials if "churn" in trial.probes
    ]
    return [(trial, churn) for trial, churn in measured if "states" in churn]


def _states(churn: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*churn["states"], *([churn["new_index"]] if churn["new_index"] is not None else [])]


def _name(state: Mapping[str, Any]) -> str:
    return _FRESH if state["new_index"] else f"change {state['step']}" if state["step"] else "at first"


def _cells(state: Mapping[str, Any], metric: str, depth: str) -> list[Cell]:
    times, parity = state.get("milliseconds"), state["parity"]
    timed = [milliseconds(times["p50"]), milliseconds(times["p95"])] if times is not None else absent(2)
    agree = text("–") if parity is None else number(parity["tie_equivalent"], ",", f" of {parity['queries']:,}")
    causes = [] if parity is None else [f"{cause}: {counted(n, 'query')}" for cause, n in parity["causes"].items()]
    return [
        text(_name(state)),
        count(state["documents"]),
        number(state.get("documents_per_second"), ",.0f"),
        number(state.get("ready_seconds"), ".3f"),
        *timed,
        number(state["metrics"].get(metric)),
        number(state["exact_metrics"].get(metric)),
        number(state["recall"].get(depth)),
        agree,
        count(state["deleted_and_counted"]),
        text("; ".join(causes)),
    ]
