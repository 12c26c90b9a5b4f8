"""``harness.compare``: the main job as one call, and its stages from a plan to a result.

::

    request ─ plan_for ─► plan ─┬─ of each dataset ────────────────────────────────────┐
                                │ 1 load_planned         documents, queries, qrels     │
                                │ 2 resolved_for         analyzers of its language     │
                                │ 3 run_plan             an outcome of each backend    │
                                │ 4 References.compare   reference and parity          │
                                │ 5 score_outcome        metrics                       │
                                │ 6 trial_results, paired_differences, result_findings │
                                └─ 7 make_leaderboard over all of them ─ 8 Result ─────┘
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from harness.data.dataset import Dataset
from harness.data.progress import Display, DisplayOfPart, SilentDisplay
from harness.data.types import Ids
from harness.errors import HarnessError, UsageError
from harness.loaders.checks import dataset_findings
from harness.parity.outcome_parity import References
from harness.parity.scoring_differences import DEPTH, scoring_differences
from harness.pipeline.planning import load_planned, plan_for, resolved_for, sampled
from harness.pipeline.probes import probes_of
from harness.pipeline.run import run_plan
from harness.plan.callables import LABEL, Function, function_expression, labelled_expression, with_names
from harness.plan.config import LOCAL, BackendsLike, CompareOutput, CompareRequest, Output
from harness.plan.expressions import quote_dataset
from harness.plan.option_fields import command_words, from_keywords, keywords_of, require
from harness.plan.plan import Plan, Tuning
from harness.results import schema, schema_base
from harness.results.backend_info import LabelledBackend, backend_infos
from harness.results.comparison import Comparison, DatasetContent
from harness.results.dataset_info import dataset_info, missing_dataset
from harness.results.differences import paired_differences, reference_notes
from harness.results.findings import recorded, result_findings
from harness.results.frontier import frontier_stats
from harness.results.hit_rules import ExcludedIn, HitRules
from harness.results.leaderboard import Across, differences_across, make_leaderboard
from harness.results.published import PublishedHere, published_means, published_numbers
from harness.results.schema_base import Json
from harness.results.scored import QrelsOf, ScoredTrial, latency_table, parity_table, per_query_table, score_outcome
from harness.results.trial_result import failed_result, trial_results
from harness.store.cache import Cache
from harness.store.cache_entries import COMPARISON, WORK
from harness.store.disk import spooled
from harness.store.environment import harness_state, machine, package_versions
from harness.store.memory_budget import MemoryBudget
from harness.store.result_folder import check_target
from harness.store.scratch import scratch_folder
from harness.wording import counted
from harness.worker.divided_search import DividedSearch
from harness.worker.executor import cluster_facts, create_executor, reach_cluster
from harness.worker.failure import Failure, failure_of
from harness.worker.outcome import Outcome
from harness.worker.pool import WorkerPool

if TYPE_CHECKING:
    from harness.pipeline.hit_explanations import HitExplainer

DatasetLike = str | Path | Dataset


@keywords_of(CompareRequest, CompareOutput)
def compare(
    backends: BackendsLike,
    dataset: DatasetLike | Sequence[DatasetLike] | None = None,
    *,
    display: Display | None = None,
    **options: object,
) -> Comparison:
    """Run the same queries on every backend, score them, and hold each against its exact reference.

    Args:
        backends: as on the command line, or a list of them, which may hold functions ``(question, k)``, or a mapping
            from labels to them.
        dataset: names and paths as on the command line, a :class:`harness.Dataset`, whose name is recorded, or a list
            of these; None for the bundled CACM.
        display: where progress is shown; None shows none.
        options: the options of :class:`harness.plan.config.CompareRequest` (``k``, ``metrics``, ``ties``, ``queries``,
            ``split`` …) and ``out``, ``overwrite``, ``no_text`` and ``save_runs``. With ``out`` the result is stored.

    Returns:
        The comparison. A backend that fails is listed in ``Comparison.failed`` and does not affect the others; the same
        applies to one of several datasets that cannot be loaded.

    Raises:
        UsageError: for wrong arguments, before any engine starts.
        DataError: for a malformed dataset if it is the only dataset, before any engine starts.
    """
    objects = name_objects(backends, dataset)
    request, output = from_keywords(
        "harness.compare",
        {"backends": objects.backends, "dataset": objects.dataset, **options},
        CompareRequest,
        CompareOutput,
    )
    require(output)
    if output.save_runs is not None and output.out is None:
        raise UsageError("save_runs without out: nothing is stored", fix="give the folder of the result: out=…")
    plan = plan_for(request, objects.in_memory, objects.functions)
    if output.out is not None:
        check_target(output.out, overwrite=output.overwrite)
    comparison = run(plan, display, output, objects.in_memory, explained=output.out is not None and output.keep_text)
    if output.out is None:
        return comparison
    return comparison.save(
        output.out, overwrite=output.overwrite, keep_text=output.keep_text, save_runs=output.save_runs
    )


class NamedObjects(NamedTuple):
    """Backends and datasets as texts, and the objects in Python among them, by name, label or expression."""

    backends: BackendsLike
    dataset: str | None
    functions: dict[str, Function]
    in_memory: dict[str, Dataset]


def name_objects(backends: BackendsLike, dataset: DatasetLike | Sequence[DatasetLike] | None) -> NamedObjects:
    """Name the functions among backends and the objects among datasets; raises UsageError for other objects."""
    items = [] if dataset is None else list(dataset) if isinstance(dataset, list | tuple) else [dataset]
    in_memory: dict[str, Dataset] = {}
    for item in items:
        if not isinstance(item, str | Path | Dataset):
            raise UsageError(
                f"--dataset is {item!r}, of type {type(item).__name__}",
                fix="give a name, a path, harness.Dataset.of(corpus, queries, qrels), or a list of such",
            )
        if isinstance(item, Dataset) and item.expected_texts:
            item.require_ids()
        if isinstance(item, Dataset) and in_memory.setdefault(item.name, item) is not item:
            raise UsageError(f"two datasets are called '{item.name}'", fix="name them: Dataset.of(…, name='…')")
    if not items and dataset is not None:
        raise UsageError("the list of datasets is empty", fix="give at least one")
    names = [quote_dataset(item.name) if isinstance(item, Dataset) else str(item) for item in items]
    functions: dict[str, Function] = {}
    with_functions = callable(backends) or (isinstance(backends, list | tuple) and any(map(callable, backends)))
    if with_functions or isinstance(backends, Mapping):
        expressions = with_names(backends, "backends")
        functions = {name or function_expression(item): item for name, item in expressions if callable(item)}
        backends = [labelled_expression(name, item, LABEL) for name, item in expressions]
    return NamedObjects(backends, None if dataset is None else ",".join(names), functions, in_memory)


def run(
    plan: Plan,
    display: Display | None = None,
    output: Output | None = None,
    in_memory: Mapping[str, Dataset] = MappingProxyType({}),
    *,
    explained: bool = False,
) -> Comparison:
    """Run a plan that ``plan_for`` made; see :func:`compare`.

    One dataset is open at a time. One of several that cannot be loaded, or for whose language a backend has no
    analyzer, is a failed trial of every backend. ``output`` is only recorded with the command. ``explained`` explains
    hits for the page.
    """
    cache, visible_display = Cache(), display if display is not None else SilentDisplay()
    if plan.request.executor != LOCAL and (cluster := reach_cluster(plan.request.executor)) is not None:
        visible_display.done("ray", str(cluster))
    parts: list[_Part] = []
    failures: list[HarnessError] = []
    with WorkerPool(deadline_s=plan.request.deadline) if plan.request.shares_workers else nullcontext() as pool:
        for planned in plan.datasets:
            of_one = plan.on(planned)
            section = visible_display if len(plan.datasets) == 1 else DisplayOfPart(visible_display, planned.name)
            taken = {part.dataset for part in parts}
            try:
                with cache.intact():
                    part = _compare_on(
                        of_one, in_memory.get(planned.name), taken, cache, section, pool, explained=explained
                    )
            except HarnessError as error:
                failures.append(error)
                section.done("load", f"failed: {error.problem.splitlines()[0]}")
                part = _failed(of_one, failure_of(error))
            except KeyboardInterrupt as interrupted:
                if parts:
                    interrupted.add_note(f"{len(parts)} of {len(plan.datasets)} datasets had finished")
                raise
            parts.append(part if len(plan.datasets) == 1 else part.spooled(cache.folder(WORK)))
    if len(failures) == len(parts):
        raise failures[0]
    if plan.labels is not None and len(parts) > 1:
        from harness.data.labels import labels_by_dataset

        labels_by_dataset(plan.labels, [part.dataset for part in parts])
    return _assembled(plan, parts, [*plan.command(), *command_words(output or Output())])


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """One dataset's part of a result; without tables and content if the dataset could not be loaded."""

    dataset: str
    plan: Plan
    trials: list[schema.TrialResult]
    info: schema_base.DatasetInfo
    reference: str | None = None
    differences: list[schema.PairedDifference] = field(default_factory=list)
    scorings: list[schema.ScoringDifference] = field(default_factory=list)
    findings: list[schema.FindingInfo] = field(default_factory=list)
    published: PublishedHere = field(default_factory=PublishedHere)
    tunings: list[schema.TuningStats] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    values: pa.Table | None = None
    agreement: pa.Table | None = None
    latencies: pa.Table | None = None
    explanations: Sequence[pa.Table] = ()
    content: DatasetContent = field(default_factory=DatasetContent)

    def spooled(self, folder: Path) -> _Part:
        """Return the same with its hits on disk: memory holds the hits of one dataset at a time."""
        runs = {
            label: replace(run, rows=spooled(run.rows, folder), scores=spooled(run.scores, folder))
            for label, run in self.content.runs.items()
        }
        return replace(self, content=replace(self.content, runs=runs))


def _compare_on(
    plan: Plan,
    in_memory: Dataset | None,
    taken: Collection[str],
    cache: Cache,
    display: Display,
    pool: WorkerPool | None,
    *,
    explained: bool,
) -> _Part:
    """Run a plan on its only dataset, which is called by its path if another dataset has its name."""
    limit = plan.request.memory_limit
    budget = nullcontext() if limit is None else MemoryBudget(limit)
    full_dataset = load_planned(plan, cache, display, in_memory)
    if full_dataset.name in taken:
        full_dataset = replace(full_dataset, name=plan.only_dataset)
    plan = resolved_for(plan, full_dataset)
    size = f"{counted(len(full_dataset.corpus), 'document')}, {counted(len(full_dataset.queries), 'query')}"
    display.done("load", f"{full_dataset.name}, {size}")
    in_data = dataset_findings(full_dataset, plan.request.relevance, cache)
    for finding in in_data:
        display.done("load", str(finding))
    dataset = sampled(full_dataset, plan)
    scored = run_on(
        plan, dataset, cache, display, lambda _: dataset.qrels, shared=Resources(pool, budget), explained=explained
    )
    trials = trial_results(scored, dataset, plan, probes_of(plan, [trial.outcome for trial in scored]))
    reference = None  # the backend that others are compared with
    if not plan.request.all_pairs:
        reference = plan.reference or next(
            (trial.outcome.trial.label for trial in scored if trial.scores is not None), None
        )
    differences = paired_differences(scored, dataset.name, reference, plan.request.seed) if len(scored) > 1 else []
    with budget:
        scorings = _scorings(scored, reference, dataset, min(DEPTH, plan.request.k)) if len(scored) > 1 else []
    return _Part(
        dataset.name,
        plan,
        trials,
        dataset_info(dataset, plan, full_dataset),
        reference=reference,
        differences=differences,
        scorings=scorings,
        findings=[*recorded(in_data, dataset.name), *result_findings(plan, dataset, scored, trials, differences)],
        published=PublishedHere() if in_memory is not None else published_numbers(plan, dataset, trials),
        tunings=_tunings(plan.tuning, plan, dataset, scored) if plan.tuning is not None else [],
        notes=tuple(reference_notes(plan, scored)) if plan.reference is not None else (),
        values=per_query_table(scored, dataset.name),
        agreement=parity_table(scored, dataset.name),
        latencies=latency_table(scored, dataset, plan),
        explanations=[trial.explanations for trial in scored if trial.explanations is not None],
        content=DatasetContent(
            runs={trial.outcome.trial.label: trial.outcome.run for trial in scored if trial.outcome.run is not None},
            qrels=dataset.qrels,
            queries=dataset.queries,
            corpus=dataset.corpus,
        ),
    )


def _tunings(tuning: Tuning, plan: Plan, dataset: Dataset, scored: Sequence[ScoredTrial]) -> list[schema.TuningStats]:
    """Return the tuned figures of the swept backends."""
    from harness.results.tuning import tuning_stats  # not for comparisons without --tune

    return tuning_stats(tuning, plan, dataset, scored)


def _scorings(
    scored: Sequence[ScoredTrial], reference: str | None, dataset: Dataset, depth: int
) -> list[schema.ScoringDifference]:
    """Return the formula differences of backends that all match their exact references."""
    outcomes = [trial.outcome for trial in scored]
    exact = [trial.outcome.trial.label for trial in scored if trial.parity is not None and not trial.parity.different]
    return [
        schema.ScoringDifference(
            dataset=dataset.name,
            a=difference.a,
            b=difference.b,
            queries=len(dataset.queries),
            depth=depth,
            changes=[schema.FormulaChange(**asdict(change)) for change in difference.changes],
        )
        for difference in scoring_differences(outcomes, exact, reference, dataset, depth)
    ]


class Resources(NamedTuple):
    """Resources that several calls share.

    ``budget`` limits the computations of this process, and counts from where it was made.
    """

    pool: WorkerPool | None = None
    budget: AbstractContextManager[object] | None = None


def run_on(
    plan: Plan,
    dataset: Dataset,
    cache: Cache,
    display: Display,
    judge: QrelsOf,
    *,
    deeper: int = 0,
    shared: Resources | None = None,
    find_excluded: ExcludedIn | None = None,
    explained: bool = False,
) -> list[ScoredTrial]:
    """Run every trial of a plan on a dataset, hold it against its reference, and score it by ``judge``'s judgments.

    ``deeper`` keeps that many hits of the references, without hits that the dataset leaves out; 0 keeps none.
    ``find_excluded`` finds the excluded documents of a run, None compares ids. ``explained`` explains the first hits
    and the relevant documents of each query.

    A dataset without documents is for external indexes: their expected content is not known. In the plan's order; a
    backend that fails, or a run that cannot be scored, is among them with its failure.
    """
    leave_out = dataset.identical_ids == "drop" or dataset.candidates is not None or bool(dataset.excluded)
    rules = HitRules.of(dataset, find_excluded) if leave_out else None
    # a hit that is left out takes no other hit's place
    deep = rules.deepened(plan) if rules is not None else plan
    with cache.intact(), scratch_folder(cache.folder(WORK), COMPARISON) as work:
        _compile_reference(plan, display, dense_only=not len(dataset.corpus))
        outcomes = run_plan(deep, dataset, cache, work, display, shared.pool if shared is not None else None)
    budget = shared.budget if shared is not None else None
    if budget is None and plan.request.memory_limit is not None:
        budget = MemoryBudget(plan.request.memory_limit)
    with ExitStack() as resources:
        resources.enter_context(budget or nullcontext())
        executor, divided = create_executor(plan.request), None
        if plan.request.executor != LOCAL:
            work = resources.enter_context(scratch_folder(cache.folder(WORK), COMPARISON))
            divided = DividedSearch(executor, work, display)
        followed = deeper + deep.request.k - plan.request.k if deeper else 0
        references = References(outcomes, deep, dataset, display, deeper=followed, divided=divided)
        explainer = _explainer(outcomes, plan, dataset, judge) if explained else None
        return [
            _assess(outcome, plan, references, judge, dataset.corpus.ids, rules, deeper, explainer)
            for outcome in outcomes
        ]


def _explainer(outcomes: Sequence[Outcome], plan: Plan, dataset: Dataset, judge: QrelsOf) -> HitExplainer:
    from harness.pipeline.hit_explanations import HitExplainer  # not for comparisons without a page

    run = next((outcome.run for outcome in outcomes if outcome.run is not None), None)
    return HitExplainer.of_page(outcomes, plan, dataset, judge(run) if run is not None else None)


_compiled: set[str] = set()
"""Kinds of references whose kernels this process has compiled."""


def _compile_reference(plan: Plan, display: Display, *, dense_only: bool) -> None:
    """Compile before any backend runs: a minute in a fresh installation is not an engine's time, memory or deadline."""
    kinds = {trial.spec.card.reference.kind for trial in plan.trials if trial.spec.card is not None} - {"none"}
    if dense_only:  # without documents, only an index's own vectors can make a reference
        kinds &= {"dense"}
    if kinds <= _compiled:
        return
    _compiled.update(kinds)
    from harness.exact import compile_dense_kernels, compile_kernels

    display.section("reference").start("compile, once per installation", None)
    if "dense" in kinds:
        compile_dense_kernels()
    if kinds - {"dense"}:
        compile_kernels()
    display.done("reference", "kernels are compiled")


def _assess(
    outcome: Outcome,
    plan: Plan,
    references: References,
    judge: QrelsOf,
    documents: Ids,
    rules: HitRules | None,
    deeper: int,
    explainer: HitExplainer | None = None,
) -> ScoredTrial:
    """Compare a run with its reference unchanged, then score it without hits that the dataset leaves out.

    They are left out of the reference's runs too, which have ``k`` hits, and ``deeper`` hits.
    """
    explanations = None
    try:
        of_outcome = references.of(outcome) if explainer is not None else {}
        parity = references.compare(outcome)
        if explainer is not None:
            explained = explainer.explain(outcome, of_outcome, parity)
            explanations = explainer.table(outcome.trial.label, explained) if explained is not None else None
        if rules is not None and outcome.run is not None:
            stored = outcome.trial.spec.run_path is not None  # the depth of a stored run is fixed
            k = None if stored else plan.request.k
            outcome = replace(
                outcome,
                run=rules.filter_hits(outcome.run, k),
                rebuilds=tuple(rules.filter_hits(run, k) for run in outcome.rebuilds),
                notes=(*outcome.notes, *rules.notes(outcome.run, k)),
            )
            if parity is not None and parity.exact is not None:
                parity = parity._replace(exact=rules.filter_hits(parity.exact, k))
            if parity is not None and parity.deeper is not None:
                parity = parity._replace(deeper=rules.filter_hits(parity.deeper, deeper))
        return replace(score_outcome(outcome, parity, plan, judge, documents), explanations=explanations)
    except HarnessError as error:
        return ScoredTrial(replace(outcome, failure=failure_of(error), run=None), None, None)


def _failed(plan: Plan, failure: Failure) -> _Part:
    """Return the part of a dataset on which nothing ran: a failed trial of every backend."""
    name = plan.only_dataset
    error = schema_base.ErrorInfo(type=failure.type, message=failure.message, log=list(failure.log))
    return _Part(name, plan, [failed_result(trial, name, error) for trial in plan.trials], missing_dataset(name, error))


def _assembled(plan: Plan, parts: Sequence[_Part], command: list[str]) -> Comparison:
    """Put the parts of all datasets together, and rank the backends over them."""
    seed, executor = plan.request.seed, plan.request.executor
    cluster = cluster_facts(executor) if executor != LOCAL else None
    trials = [trial for part in parts for trial in part.trials]
    reference = next((part.reference for part in parts if part.reference is not None), None)
    board = make_leaderboard(trials, _families(plan, parts), seed) if len(parts) > 1 else None
    across = Across([], [])
    if board is not None:
        across = differences_across(board, None if plan.request.all_pairs else reference, seed)
        board = board.model_copy(update={"notes": across.notes})
    latencies = [part.latencies for part in parts if part.latencies is not None]
    explanations = [table for part in parts for table in part.explanations]
    record = schema_base.PlanRecord(arguments=plan.arguments(), resolved=_resolved(plan, parts, reference))
    infos = [part.info for part in parts]
    report = schema.Result(
        schema=schema.SCHEMA_VERSION,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        kind="compare",
        command=command,
        harness=schema_base.HarnessInfo(**asdict(harness_state())),
        machine=schema_base.MachineInfo(**asdict(machine())),
        cluster=schema_base.ClusterInfo(**asdict(cluster)) if cluster is not None else None,
        packages=package_versions(),
        plan=record,
        datasets=infos,
        backends=backend_infos([LabelledBackend(trial.label, trial.name, trial.encoder) for trial in trials]),
        trials=trials,
        differences=[*(row for part in parts for row in part.differences), *across.differences],
        leaderboard=board,
        frontiers=frontier_stats(plan.sweeps, infos, trials) if plan.sweeps else [],
        tunings=[tuning for part in parts for tuning in part.tunings],
        formula_differences=[scoring for part in parts for scoring in part.scorings],
        findings=[finding for part in parts for finding in part.findings],
        published=[
            *(number for part in parts for number in part.published.numbers),
            *(published_means(board, {part.dataset: part.published for part in parts}, plan) if board else ()),
        ],
    )
    return Comparison(
        report=report,
        values=pa.concat_tables([part.values for part in parts if part.values is not None], promote_options="default"),
        agreement=pa.concat_tables([part.agreement for part in parts if part.agreement is not None]),
        latencies=pa.concat_tables(latencies) if latencies else None,
        explanations=pa.concat_tables(explanations) if explanations else None,
        contents={part.dataset: part.content for part in parts},
    )


def _families(plan: Plan, parts: Sequence[_Part]) -> dict[str, list[str]]:
    """Return aggregated tasks -> their datasets, by the names that results have."""
    families: dict[str, list[str]] = {}
    for planned, part in zip(plan.datasets, parts, strict=True):
        if planned.task is not None:
            families.setdefault(planned.task, []).append(part.dataset)
    return families


def _resolved(plan: Plan, parts: Sequence[_Part], reference: str | None) -> dict[str, Json | list[str]]:
    """Return the arguments as they were resolved; ``identical_ids`` and ``split`` only if there is a single dataset."""
    info, of_one = parts[0].info, {}
    if len(parts) == 1 and info.identical_ids is not None:
        of_one = {"identical_ids": info.identical_ids.rule, "split": info.provenance.get("split", plan.request.split)}
    return {
        **plan.arguments(),
        "backends": [trial.label for trial in plan.trials],
        "metrics": [str(measure) for measure in plan.measures],
        "queries": plan.queries.value,
        "memory_limit": plan.request.memory_limit,
        "reference": reference,
        **of_one,
        "notes": _notes(plan, parts) if len(parts) > 1 else [*parts[0].plan.notes, *parts[0].notes],
    }


def _notes(plan: Plan, parts: Sequence[_Part]) -> list[str]:
    """Return the notes on several datasets: of the plan, then the datasets', named if not all share the note."""
    about: dict[str, list[str]] = {}
    for part in parts:
        for note in (*part.plan.on_analyzers, *part.plan.on_candidates, *part.notes):
            about.setdefault(note, []).append(part.dataset)
    of_datasets = [
        note if len(datasets) == len(parts) else f"{', '.join(datasets)}: {note}" for note, datasets in about.items()
    ]
    return [*plan.remarks, *of_datasets]
