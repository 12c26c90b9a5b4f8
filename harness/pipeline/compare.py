"""``harness.compare``: the main job as one call. The command line is this call and nothing more."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from harness.data.columns import parse_columns
from harness.data.dataset import Dataset, DatasetFiles, sample_documents, sample_queries
from harness.data.problems import Finding
from harness.data.progress import Display, SilentDisplay
from harness.data.types import Corpus
from harness.errors import HarnessError, UsageError
from harness.loaders import check_dataset, filter_dataset, load_corpus, load_dataset
from harness.loaders.checks import dataset_findings
from harness.loaders.structured_files import states_order
from harness.metrics import is_mean
from harness.parity.outcome_parity import References
from harness.pipeline.resume import Identities, LookUp, StoredTrials
from harness.pipeline.run import run_plan
from harness.plan.capability_checks import refuse_impossible
from harness.plan.config import COMPARE_METRICS, CompareOutput, CompareRequest, Output
from harness.plan.option_fields import command_words, from_keywords, keywords_of, require
from harness.plan.plan import Plan, Trial, among_candidates_of_dataset, in_language, make_plan
from harness.results import schema
from harness.results.assess import Assessed, Judge, assess, parity_table, per_query_table
from harness.results.backend import backend_results
from harness.results.backend_info import LabelledBackend, backend_infos
from harness.results.checks import (
    JudgedRun,
    Weights,
    difference_finding,
    metric_findings,
    named_measures,
    run_findings,
)
from harness.results.collection import dataset_info
from harness.results.comparison import Comparison, DatasetContent
from harness.results.differences import notable_differences, paired_differences, reference_label, reference_notes
from harness.results.frontier import frontier_stats
from harness.results.hit_rules import HitRules
from harness.results.latencies import latency_table
from harness.store.cache import Cache
from harness.store.cache_entries import COMPARISON, WORK
from harness.store.environment import harness_state, machine, package_versions
from harness.store.result_folder import check_target
from harness.store.scratch import scratch_folder
from harness.wording import counted
from harness.worker.builds import builds_of
from harness.worker.embeddings import remote_calls
from harness.worker.executor import create_executor
from harness.worker.failure import failure_of
from harness.worker.outcome import Outcome

__all__ = [
    "Documents",
    "Preview",
    "compare",
    "documents_at",
    "documents_of",
    "in_language_of",
    "plan_for",
    "plan_of_backends",
    "preview",
    "resolved_for",
    "run",
    "run_on",
    "with_documents",
]


@keywords_of(CompareRequest, CompareOutput)
def compare(
    backends: str | Sequence[str],
    dataset: str | Path | Sequence[str | Path] | Dataset = "cacm",
    *,
    display: Display | None = None,
    **options: object,
) -> Comparison:
    """Run the same queries on every backend, score them, and hold each against its exact reference.

    Args:
        backends: as on the command line, or a list of them.
        dataset: names and paths as on the command line, or a :class:`harness.Dataset`, whose name is recorded.
        display: where progress is shown; None shows none.
        options: the options of :class:`harness.plan.config.CompareRequest` (``k``, ``metrics``, ``ties``, ``queries``,
            ``split`` …) and ``out``, ``overwrite``, ``no_text`` and ``save_runs``. With ``out`` the result is stored.

    Returns:
        The comparison. A backend that fails is listed in ``Comparison.failed`` and leaves the others alone.

    Raises:
        UsageError: for wrong arguments, before any engine starts.
        DataError: for malformed datasets, before any engine starts.
    """
    if not isinstance(dataset, str | Path | Dataset | list | tuple):
        raise UsageError(
            f"the dataset is a {type(dataset).__name__}",
            fix="give a name, a path, a list of them, or harness.Dataset.of(corpus, queries, qrels)",
        )
    named = dataset.name if isinstance(dataset, Dataset) else dataset
    request, output = from_keywords(
        "harness.compare", {"backends": backends, "dataset": named, **options}, CompareRequest, CompareOutput
    )
    require(output)
    plan = _plan_for_object(request) if isinstance(dataset, Dataset) else plan_for(request)
    if output.out is not None:
        check_target(output.out, overwrite=output.overwrite)
    comparison = run(plan, display, output, dataset if isinstance(dataset, Dataset) else None)
    if output.out is None:
        return comparison
    return comparison.save(output.out, overwrite=output.overwrite, keep_text=output.keep_text)


def run(
    plan: Plan, display: Display | None = None, output: Output | None = None, dataset: Dataset | None = None
) -> Comparison:
    """Carry out a plan that :func:`plan_for` made; see :func:`compare`. ``output`` is only told of in its command.

    A ``dataset`` that is at hand takes the place of the one that the plan names.
    """
    shown: Display = display if display is not None else SilentDisplay()
    cache = Cache()
    with cache.intact():
        whole = _load(plan, cache, shown, dataset)
        plan = resolved_for(plan, whole)
        held = f"{counted(len(whole.corpus), 'document')}, {counted(len(whole.queries), 'query')}"
        shown.done("load", f"{whole.name}, {held}")
        found = dataset_findings(whole, plan.request.relevance, cache)
        for one in found:
            shown.done("load", str(one))
        sample = _sampled(whole, plan.request)
        assessed = run_on(plan, sample, cache, shown, lambda _: sample.qrels)
    command = [*plan.command(), *command_words(output or Output())]
    report = _report(plan, sample, whole, assessed, command)
    findings = [*_recorded(found, sample.name), *_findings(plan, sample, assessed, report)]
    return Comparison(
        report=report.model_copy(update={"findings": findings}),
        values=per_query_table(assessed, sample.name),
        agreement=parity_table(assessed, sample.name),
        latencies=latency_table(assessed, sample, plan),
        contents={
            sample.name: DatasetContent(
                runs={one.outcome.trial.label: one.outcome.run for one in assessed if one.outcome.run is not None},
                qrels=sample.qrels,
                queries=sample.queries,
                corpus=sample.corpus,
            )
        },
    )


def run_on(plan: Plan, dataset: Dataset, cache: Cache, display: Display, judge: Judge) -> list[Assessed]:
    """Run every trial of a plan on a dataset that is at hand, and score each run by what ``judge`` says of it.

    A dataset without documents is for indexes that were there before: nothing is known of what they should hold.
    In the plan's order; a backend that fails, or a run that cannot be scored, is among them with its failure.
    """
    rules = HitRules.of(dataset)
    # a hit that is left out takes no other hit's place
    deep = rules.deepened(plan)
    with cache.intact(), scratch_folder(cache.folder(WORK), COMPARISON) as work:
        if len(dataset.corpus):  # else nothing is held against it
            _compile_reference(plan, display)
        outcomes = run_plan(deep, dataset, cache, work, display)
    references = References(outcomes, deep, dataset, display)
    return [_assess(outcome, plan, references, judge, rules) for outcome in outcomes]


def with_documents(comparison: Comparison, *, cards: Path | None = None) -> Comparison:
    """Return a stored comparison with the documents that it searched, where its datasets are still to be found.

    Where one is not where it was, nor known by its name, or holds other documents now, ``no_texts`` says so. A result
    whose texts of queries were left out (``--no-text``) gets none of documents either.
    """
    contents = dict(comparison.contents)
    for name, content in contents.items():
        if content.queries is None:
            reason = "Texts of documents are not in this file: the result was stored without texts."
            contents[name] = replace(content, no_texts=reason)
        else:
            found = documents_of(comparison.report.on(name), cards=cards)
            contents[name] = replace(content, corpus=found.corpus, no_texts=found.no_texts)
    return replace(comparison, contents=contents)


class Documents(NamedTuple):
    """The documents of a stored result; where they are gone, ``corpus`` is None and ``no_texts`` says why."""

    corpus: Corpus | None
    no_texts: str


def documents_of(report: schema.Result, *, cards: Path | None = None) -> Documents:
    """The documents that a stored comparison searched, from its dataset's place or name."""
    provenance = report.dataset.provenance
    named = (report.plan.given.get("dataset"), provenance.get("path"))
    places = [str(one) for one in named if one is not None]
    columns = str(report.plan.given.get("columns") or "")
    return documents_at(places, provenance.get("corpus_sha256"), columns=columns, cards=cards)


def documents_at(
    places: Sequence[str], digest: str | None, *, columns: str = "", cards: Path | None = None
) -> Documents:
    """The documents with this digest, from the first of some places that holds them; ``columns`` as compare has it."""
    reasons = []
    for place in dict.fromkeys(places):
        try:
            corpus = load_corpus(place, files=DatasetFiles(columns=parse_columns(columns)), cards=cards)
        except HarnessError as error:
            reasons.append(error.what)
            continue
        if corpus.digest == digest:
            return Documents(corpus, "")
        reasons.append(f"'{place}' holds other documents now")
    return Documents(None, f"Texts of documents are not in this file: {'; '.join(reasons)}.")


def _compile_reference(plan: Plan, display: Display) -> None:
    """Before any backend: compilation, a minute in a fresh installation, is no engine's time, memory or deadline."""
    kinds = {trial.spec.card.oracle.kind for trial in plan.trials if trial.spec.card is not None} - {"none"}
    if not kinds:
        return
    from harness.exact import compile_dense_kernels, compile_kernels

    display.section("reference").start("compile, once per installation", None)
    if "dense" in kinds:
        compile_dense_kernels()
    if kinds - {"dense"}:
        compile_kernels()
    display.done("reference", "kernels are compiled")


class Preview(NamedTuple):
    """A plan as it would run on its dataset, and what is known of each of its trials, in its order."""

    plan: Plan
    known: list[LookUp]


def preview(plan: Plan, display: Display | None = None) -> Preview:
    """What is known of each trial before it runs: its key, and whether a stored outcome would be used instead.

    The dataset is read, because keys hold its content; nothing is analysed, encoded or fetched and no engine starts,
    but engines are asked for their versions. ``reason`` says so where a key cannot be made on this machine. Raises
    DataError for malformed collections.
    """
    cache, shown = Cache(), display if display is not None else SilentDisplay()
    dataset = _sampled(_load(plan, cache, shown), plan.request)
    plan = resolved_for(plan, dataset)
    with tempfile.TemporaryDirectory(prefix="harness-preview-") as work:
        identities = Identities(create_executor(plan.execution), Path(work), shown, fetch=False)
        stored = StoredTrials(cache, HitRules.of(dataset).deepened(plan), dataset, identities)
        return Preview(plan, [_look_up(stored, trial, plan, dataset, cache) for trial in plan.trials])


def _look_up(stored: StoredTrials, trial: Trial, plan: Plan, dataset: Dataset, cache: Cache) -> LookUp:
    try:
        found = stored.look_up(trial)
        return replace(found, remote=remote_calls(trial, dataset, cache), builds=builds_of(trial, plan))
    except HarnessError as error:
        return LookUp(None, None, f"no key can be made: {error.what}")


def _load(plan: Plan, cache: Cache, display: Display, given: Dataset | None = None) -> Dataset:
    request, progress = plan.request, display.section("load")
    files, cards = plan.files, request.cards
    dataset = given or load_dataset(
        request.dataset, files=files, split=request.split, cards=cards, cache=cache, progress=progress
    )
    if plan.identical_ids is not None:
        dataset = replace(dataset, identical_ids=plan.identical_ids)
    if request.labels is not None:
        dataset = _labelled(dataset, request.labels)
    if not plan.filter:
        return dataset
    return filter_dataset(
        dataset, plan.filter, request.dataset, files=files, cards=cards, cache=cache, progress=progress
    )


def _labelled(dataset: Dataset, path: Path) -> Dataset:
    """The dataset with judgments that came later; raises DataError where they contradict its own, or are not of it."""
    from harness.pipeline.regress.labels import read_labels, refuse_foreign, with_labels

    labels = read_labels(path)
    refuse_foreign(labels, queries=dataset.queries.ids, documents=dataset.corpus.ids)
    return replace(dataset, qrels=with_labels(dataset.qrels, labels))


def plan_for(request: CompareRequest) -> Plan:
    """The plan of a request on this machine.

    Raises UsageError or UnknownNameError for wrong arguments and for what an engine cannot do, DataError for a dataset
    that is not there.
    """
    plan = plan_of_backends(request)
    check_dataset(request.dataset, files=plan.files, cards=request.cards)
    return plan


def _plan_for_object(request: CompareRequest) -> Plan:
    """Return the plan of a request whose dataset is an object in Python."""
    plan = plan_of_backends(request)
    lost = {
        "split": request.split,
        "queries=FILE": plan.files.queries,
        "qrels": plan.files.qrels,
        "columns": plan.files.columns or None,
        "filter": plan.filter or None,
    }
    named = [name for name, value in lost.items() if value is not None]
    if named:
        raise UsageError(
            f"{', '.join(named)} beside a Dataset, which is read already", fix="give them to Dataset.of, or a path"
        )
    note = f"the dataset '{request.dataset}' is an object in Python: no command loads it again"
    return replace(plan, remarks=(*plan.remarks, note))


def plan_of_backends(request: CompareRequest) -> Plan:
    """As :func:`plan_for`, for a dataset that the caller brings along: the request's is only a name."""
    plan = make_plan(request, lucene_available=_lucene_available())
    refuse_impossible(plan)
    return plan


def in_language_of(plan: Plan, language: str | None, analyzer: str | None) -> Plan:
    """The plan with a dataset's analyzers on this machine; as :func:`harness.plan.plan.in_language`."""
    return in_language(plan, language, analyzer, lucene_available=_lucene_available())


def resolved_for(plan: Plan, dataset: Dataset) -> Plan:
    """Return the plan with the analyzers of the dataset's language, and notes on the candidates that it names.

    Raises as :func:`harness.plan.plan.in_language`.
    """
    if dataset.candidates is not None:
        plan = among_candidates_of_dataset(plan)
    return in_language_of(plan, dataset.language, dataset.analyzer)


def _lucene_available() -> bool:
    """True when Anserini's jar and a Java runtime are installed: the default analyzer depends on it."""
    from harness.java import jvm

    try:
        jvm.find_jar()
        jvm.find_java()
    except HarnessError:
        return False
    return True


def _sampled(dataset: Dataset, request: CompareRequest) -> Dataset:
    """Return what is asked for a quick look; documents judged for queries that are left out may go."""
    if request.sample_queries is not None:
        dataset = sample_queries(dataset, request.sample_queries, request.seed)
    if request.max_docs is not None:
        dataset = sample_documents(dataset, request.max_docs, request.seed)
    return dataset


def _assess(outcome: Outcome, plan: Plan, references: References, judge: Judge, rules: HitRules) -> Assessed:
    """Compare a run with its reference as it is, then score it without hits that the dataset leaves out."""
    try:
        held = references.compare(outcome)
        if outcome.run is not None:
            outcome = replace(outcome, notes=(*outcome.notes, *rules.not_returned(outcome.run)))
        if rules.leave_out and outcome.run is not None:
            stored = outcome.trial.spec.run_path is not None  # a run that was there before is as deep as it is
            k = None if stored else plan.request.k
            rebuilds = tuple(rules.kept(run, k) for run in outcome.rebuilds)
            outcome = replace(outcome, run=rules.kept(outcome.run, k), rebuilds=rebuilds)
            if held is not None and held.exact is not None:
                held = held._replace(exact=rules.kept(held.exact, k))
        return assess(outcome, held, plan, judge)
    except HarnessError as error:
        return Assessed(replace(outcome, failure=failure_of(error), run=None), None, None)


def _findings(
    plan: Plan, dataset: Dataset, assessed: Sequence[Assessed], report: schema.Result
) -> list[schema.FindingInfo]:
    """Return the pitfalls of metrics, of each backend's run, and of differences between backends."""
    qrels, relevance = dataset.qrels, plan.request.relevance
    if qrels is None:
        return []
    named = named_measures(plan.measures, COMPARE_METRICS)
    found = _recorded(metric_findings(qrels, named, relevance=relevance, queries=plan.queries), dataset.name)
    pool = dataset.competing
    for one in assessed:
        if one.scores is None or one.outcome.run is None:
            continue
        path = one.outcome.trial.spec.run_path
        ordered = path is not None and states_order(path)
        judged = JudgedRun(one.outcome.run, qrels, one.scores, relevance, ordered, _weights(one.outcome), pool)
        found += _recorded(run_findings(judged), dataset.name, one.outcome.trial.label)
    primary = next((str(measure) for measure in plan.measures if is_mean(measure)), None)
    if primary is not None:
        pairs = notable_differences(assessed, report.differences, primary)
        found += _recorded([one for one in map(difference_finding, pairs) if one is not None], dataset.name)
    return found


def _weights(outcome: Outcome) -> Weights | None:
    """Return the learned sparse vectors of an outcome; those of BM25 are made here, and known."""
    vectors = outcome.vectors
    if vectors is None or vectors.terms is not None or vectors.sparse is None or vectors.sparse.documents is None:
        return None
    idf = bool(outcome.trial.parameters.get("idf", False))
    return Weights(vectors.sparse.documents, vectors.sparse.queries, idf)


def _recorded(found: Sequence[Finding], dataset: str, backend: str | None = None) -> list[schema.FindingInfo]:
    return [
        schema.FindingInfo(
            check=one.check,
            dataset=dataset,
            backend=backend,
            message=one.message,
            fix=one.fix,
            examples=list(one.examples),
        )
        for one in found
    ]


def _report(
    plan: Plan, dataset: Dataset, whole: Dataset, assessed: Sequence[Assessed], command: list[str]
) -> schema.Result:
    reference = reference_label(plan, assessed)
    results = backend_results(assessed, dataset, plan)
    resolved = {
        **plan.given(),
        "backends": [trial.label for trial in plan.trials],
        "metrics": [str(measure) for measure in plan.measures],
        "queries": plan.queries.value,
        "identical_ids": dataset.identical_ids or "keep",
        "split": dataset.provenance.get("split", plan.request.split),
        "memory_limit": plan.execution.memory_limit_bytes,
        "reference": reference,
        "notes": [*plan.notes, *reference_notes(plan, assessed)],
    }
    report = schema.Result(
        schema=schema.SCHEMA_VERSION,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        kind="compare",
        command=command,
        harness=schema.HarnessInfo(**asdict(harness_state())),
        machine=schema.MachineInfo(**asdict(machine())),
        packages=package_versions(),
        plan=schema.PlanRecord(given=plan.given(), resolved=resolved),
        datasets=[dataset_info(dataset, plan, whole)],
        backends=backend_infos([LabelledBackend(one.label, one.name, one.encoder) for one in results]),
        trials=results,
        differences=paired_differences(assessed, results, reference, plan.request.seed),
    )
    return report.model_copy(update={"frontiers": frontier_stats(report)})
