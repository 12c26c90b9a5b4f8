"""``harness.check``: a golden set put to backends, as one call. The command line is this call."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import strings
from harness.data.dataset import Dataset, DatasetFiles, attribute_holding, attribute_of
from harness.data.filtering import QueryFilters, filters_of_unknown_documents, no_match
from harness.data.golden_set import GoldenQuestion, GoldenSet
from harness.data.problems import Finding, Problems
from harness.data.progress import Display, SilentDisplay
from harness.data.texts import content_digest
from harness.data.types import Corpus, DocumentContent, Ids, Queries
from harness.loaders import LoadedCorpus, find_metadata_field, load_documents, load_field_texts, load_metadata
from harness.loaders.checks import dataset_findings
from harness.pipeline.check.against import AgainstPlan, ask_backend, search_indexes
from harness.pipeline.check.baseline import BaselineGate
from harness.pipeline.check.check_plan import CheckPlan, plan_check
from harness.pipeline.check.check_results import CheckJudge
from harness.pipeline.check.checked import CheckResult
from harness.pipeline.check.id_match import ExpectedDocuments, Match, MatchRule, bind_content, resolve_ids
from harness.pipeline.check.preflight import (
    CheckFindings,
    Examiner,
    LoadedContent,
    excluded_by_filters,
    missing_ids,
    missing_texts,
    problem_of,
    repeated_questions,
    unknown_names,
)
from harness.pipeline.check.text_match import SHARE
from harness.pipeline.compare import run_on
from harness.pipeline.probes import probes_of
from harness.plan.config import LOCAL, CheckOutput, CheckRequest, Output
from harness.plan.option_fields import command_words, from_keywords, keywords_of, require
from harness.plan.plan import set_language, with_vectors
from harness.registry.cards import FIELDS
from harness.results.backend_info import LabelledBackend, backend_infos
from harness.results.check_redaction import redacted, without_questions
from harness.results.check_schema import GoldenInfo, MatchCount, PreflightProblem, RequirementResult, Verdict
from harness.results.dataset_info import (
    CorpusContent,
    GoldenContent,
    excluded_info,
    golden_dataset,
    identical_ids_info,
    query_filter_infos,
)
from harness.results.returned_texts import returned_texts
from harness.results.schema import SCHEMA_VERSION, PairedDifference, Result, TrialResult, trial_name
from harness.results.schema_base import ClusterInfo, DatasetInfo, HarnessInfo, MachineInfo, PlanRecord
from harness.results.scored import GoldenRun
from harness.results.stored_texts import documents_of
from harness.results.trial_result import trial_results
from harness.results.truncation import truncation_findings
from harness.store.cache import Cache
from harness.store.environment import harness_state, machine, package_versions
from harness.store.result_folder import check_target
from harness.wording import counted
from harness.worker.executor import cluster_facts, reach_cluster

_FOLLOWED = 1000
"""Ranks of the exact reference in which expected documents are searched."""


@keywords_of(CheckRequest, CheckOutput)
def check(
    golden: str | Path | GoldenSet | Dataset | Sequence[Mapping[str, Any]],
    *,
    display: Display | None = None,
    **options: object,
) -> CheckResult:
    """Send the questions of a golden set to every backend, and compare its answers with the expectations.

    Args:
        golden: a file, a dataset's name or folder, a golden set itself, the objects of its lines, or a
            :class:`harness.Dataset`, whose judgments are expected.
        display: where progress is shown; None shows none.
        options: the options of :class:`harness.plan.config.CheckRequest` (``corpus``, ``backends``, ``against``, ``k``,
            ``require`` …) and ``out``, ``overwrite`` and ``no_text``. With ``out`` the result is stored.

    Returns:
        The result. Its ``report.verdict`` is ``passed``, ``failed`` or ``invalid``; nothing is raised for the last two.

    Raises:
        UsageError: for wrong arguments, before any engine starts.
        DataError: for a malformed golden set or corpus, before any engine starts.
    """
    request, output = from_keywords("harness.check", {"golden": golden, **options}, CheckRequest, CheckOutput)
    require(output)
    plan = plan_check(request, keep_text=output.keep_text)
    if output.out is not None:
        check_target(output.out, overwrite=output.overwrite)
    checked = run_check(plan, display, output, explained=output.out is not None)
    return checked if output.out is None else checked.save(output.out, overwrite=output.overwrite)


def run_check(
    plan: CheckPlan, display: Display | None = None, output: Output | None = None, *, explained: bool = False
) -> CheckResult:
    """Run a plan that :func:`plan_check` made; see :func:`check`.

    ``output`` only appears in its command. ``explained`` explains hits for the page.
    """
    visible_display: Display = display if display is not None else SilentDisplay()
    gate = None
    if plan.request.baseline is not None:
        gate = BaselineGate(plan, output.save_baseline if isinstance(output, CheckOutput) else None)
    cache, examined = Cache(), list[CheckFindings]()
    with cache.intact():
        prepared = prepare_check(plan, cache, visible_display)
        plan, loaded, expected = prepared.plan, prepared.loaded, prepared.expected
        problems, warnings, queries = prepared.problems, prepared.warnings, prepared.queries
        corpora = {name: content.corpus for name, content in loaded.items()}
        if prepared.searched or not loaded:
            executor = plan.request.executor
            if executor != LOCAL and (cluster := reach_cluster(executor)) is not None:
                visible_display.done("ray", str(cluster))
            for name, dataset in prepared.searched.items():
                examined += _searched(
                    plan, dataset, expected[name], cache, visible_display, explained=explained and plan.keep_text
                )
            if plan.against is not None:
                examined += _against(plan, plan.against, queries, corpora, prepared.contents, cache, visible_display)
    command = [*plan.command(), *command_words(output or Output())]
    matched = [
        count for name in expected if not expected[name].is_exact for count in _matched(expected[name], name, None)
    ]
    for answered, of_backend, _ in examined:
        if answered.run is not None and answered.trial.dataset not in expected:
            matched += _matched(of_backend, answered.trial.dataset, answered.label)
    datasets = _datasets(plan, loaded, queries, prepared.filters, expected)
    result = _result(plan, datasets, examined, problems, warnings, matched, command)
    if not plan.keep_text:
        result = without_questions(result, [text for question in plan.golden for text in _texts(question, plan.match)])
    hits = {
        (answered.trial.dataset, answered.trial.label): answered.run
        for answered, _, _ in examined
        if answered.run is not None
    }
    texts = {
        name: documents
        for name, run in hits.items()
        if plan.keep_text
        and run.content is not None
        and (documents := returned_texts(run, corpora.values())) is not None
    }
    tables = [answered.explanations for answered, _, _ in examined if answered.explanations is not None]
    explanations = pa.concat_tables(tables) if tables else None
    checked = CheckResult(redacted(result), hits=hits, corpora=corpora, texts=texts, explanations=explanations)
    return checked if gate is None else gate.judge(checked)


class PreparedCheck(NamedTuple):
    """A check before anything is searched.

    ``plan`` is resolved for the corpora, and its questions also expect labelled documents. ``searched`` are the corpora
    that can be searched, with the questions; ``problems`` make the others invalid.
    """

    plan: CheckPlan
    loaded: Mapping[str, LoadedCorpus]
    contents: tuple[LoadedContent, ...]
    queries: Queries
    expected: Mapping[str, ExpectedDocuments]
    filters: Mapping[str, QueryFilters]
    searched: Mapping[str, Dataset]
    problems: list[PreflightProblem]
    warnings: list[PreflightProblem]


def prepare_check(plan: CheckPlan, cache: Cache, display: Display) -> PreparedCheck:
    """Load the documents of a plan, and find what its questions expect among them; raises as :func:`check`."""
    warnings = [problem_of(finding) for finding in repeated_questions(plan.golden)]
    loaded = {name: _load(plan, name, cache, display) for name in plan.corpora}
    corpora = {name: content.corpus for name, content in loaded.items()}
    contents = {name: _content(plan, name, corpora[name], cache, display) for name in corpora}
    if plan.golden.has_readings:
        plan = replace(plan, golden=_resolved(plan, contents))
    if plan.request.labels is not None:
        plan, findings = _labelled(plan, plan.request.labels, corpora)
        warnings += [problem_of(finding) for finding in findings]
    ids = Ids.of(question.id for question in plan.golden)
    texts = pa.chunked_array([strings(question.question for question in plan.golden)])
    queries = Queries(ids, texts, content_digest(ids, texts))
    expected = {name: _expected(plan, content) for name, content in contents.items()}
    missing = [
        (finding, problem_of(finding, dataset=name))
        for name, corpus in corpora.items()
        if expected[name].missing
        for finding in _missing(plan, expected[name], corpus, name)
    ]
    problems = [problem for finding, problem in missing if finding.severity == "error"]
    warnings += [problem for finding, problem in missing if finding.severity == "warning"]
    wrong = {problem.dataset for problem in problems}
    filters: dict[str, QueryFilters] = {}
    searched: dict[str, Dataset] = {}
    searchable = [name for name in loaded if name not in wrong]
    if searchable or not loaded:
        excludes = any(question.excluded for question in plan.golden)
        if plan.golden.filters:
            filters = {name: _filters(plan, name, cache, display) for name in searchable}
        weighted = {
            name: [trial for trial in plan.plans[name].trials if trial.parameters.get(FIELDS)] for name in searchable
        }
        searched = {
            name: Dataset(
                name,
                loaded[name].corpus,
                queries,
                None,
                identical_ids=loaded[name].identical_ids,
                language=loaded[name].language,
                analyzer=loaded[name].analyzer,
                excluded=expected[name].excluded if excludes else None,
                filtered=filters.get(name),
                unread_files=loaded[name].unread_files,
                vectors=loaded[name].vectors,
                field_texts=_field_texts(plan, name, cache, display) if weighted[name] else None,
            )
            for name in searchable
        }
        warnings += [
            problem_of(finding, dataset=name)
            for name, dataset in searched.items()
            for finding in _pitfalls(plan, dataset, expected[name], cache)
        ]
        plan = _for_corpora(plan, searched)
    return PreparedCheck(
        plan, loaded, tuple(contents.values()), queries, expected, filters, searched, problems, warnings
    )


def _texts(question: GoldenQuestion, match: Match) -> Iterator[str]:
    """Yield the texts of a golden set's question, which ``--no-text`` leaves out of a result."""
    yield question.question
    yield from question.texts
    if match.rule is MatchRule.TEXT:
        yield from (*question.forbidden, *question.excluded)


def _for_corpora(plan: CheckPlan, loaded: Mapping[str, Dataset]) -> CheckPlan:
    """Return the plan with the analyzers of each corpus's language, or its vectors, and the prompts for each corpus.

    Existing indexes follow the language that all corpora share; without a corpus, the language of the dataset that the
    golden set came with. Raises as :func:`harness.plan.plan.set_language`, :func:`harness.plan.plan.with_vectors` and
    :func:`harness.plan.dataset_prompts.set_prompts`.
    """
    indexes = plan.against.indexes if plan.against is not None else None
    if any(backends.has_prompts for backends in (*plan.plans.values(), *([indexes] if indexes is not None else []))):
        plan = _set_corpus_prompts(plan, loaded)
    plans = {
        name: set_language(
            with_vectors(backends, content.vectors) if content.vectors is not None else backends,
            content.language,
            content.analyzer,
        )
        for name, backends in plan.plans.items()
        if (content := loaded.get(name)) is not None
    }
    against = plan.against
    if against is not None and against.indexes is not None:
        languages = {(content.language, content.analyzer) for content in loaded.values()}
        languages = languages or {(plan.golden.language, plan.golden.analyzer)}
        language, analyzer = next(iter(languages)) if len(languages) == 1 else (None, None)
        against = replace(against, indexes=set_language(against.indexes, language, analyzer))
    return replace(plan, plans=plans, against=against)


def _set_corpus_prompts(plan: CheckPlan, loaded: Mapping[str, Dataset]) -> CheckPlan:
    """Return the plan with the prompts for each corpus; those of existing indexes are for the golden set."""
    from harness.plan.dataset_list import NamedDataset
    from harness.plan.dataset_prompts import names_of, refuse_unknown_datasets, set_prompts

    names = {
        name: names_of(NamedDataset(name)) | ({loaded[name].name} if name in loaded else set()) for name in plan.plans
    }
    all_names = set().union(names_of(NamedDataset(plan.golden.source)), *names.values())
    for backends in plan.plans.values():
        refuse_unknown_datasets(backends, all_names)
    plans = {
        name: set_prompts(backends, sorted(names[name]), loaded[name].provenance) if name in loaded else backends
        for name, backends in plan.plans.items()
    }
    against = plan.against
    if against is not None and against.indexes is not None:
        refuse_unknown_datasets(against.indexes, all_names)
        stated = next(iter(loaded.values())).provenance if len(loaded) == 1 else {}
        against = replace(against, indexes=set_prompts(against.indexes, sorted(all_names), stated))
    return replace(plan, plans=plans, against=against)


def with_corpora(checked: CheckResult, *, cards: Path | None = None) -> CheckResult:
    """Return a stored check with the documents that were searched, if they can still be found.

    ``no_texts`` says why not.
    """
    report = checked.report
    searched = {info.name: documents_of(report.on(info.name), cards=cards) for info in report.corpora}
    corpora = {name: documents.corpus for name, documents in searched.items() if documents.corpus is not None}
    reasons = [documents.no_texts for documents in searched.values() if documents.corpus is None]
    return replace(checked, corpora=corpora, no_texts=next(iter(reasons), checked.no_texts))


def _load(plan: CheckPlan, name: str, cache: Cache, display: Display) -> LoadedCorpus:
    """Return the documents, with the rule for identical ids of the request, else their own."""
    source, rule = plan.corpora[name], plan.plans[name].identical_ids
    if isinstance(source, Dataset):
        content = LoadedCorpus(
            source.corpus,
            source.identical_ids,
            source.language,
            source.analyzer,
            unread_files=source.unread_files,
            vectors=source.vectors,
        )
    else:
        shared_roles = frozenset({"id"} & plan.golden.columns.keys())
        files, progress = DatasetFiles(columns=plan.columns, shared_roles=shared_roles), display.section("load")
        content = load_documents(source, files=files, cards=plan.request.cards, cache=cache, progress=progress)
    documents = counted(len(content.corpus), "document")
    display.done("load", f"{name}, {documents}, {counted(len(plan.golden), 'question')}")
    return content if rule is None else content._replace(identical_ids=rule)


def _content(plan: CheckPlan, name: str, corpus: Corpus, cache: Cache, display: Display) -> LoadedContent:
    """Return the content by which the documents of a corpus match: texts, and values of the field if one is named."""
    field, source, values = plan.match.field, plan.corpora[name], None
    if field and isinstance(source, Dataset):
        values = attribute_of(source, field)
    elif field and not isinstance(source, Dataset):
        files, progress = DatasetFiles(columns=plan.columns), display.section("load")
        cards = plan.request.cards
        values = load_metadata([field], source, files=files, cards=cards, cache=cache, progress=progress).column(field)
    return LoadedContent(corpus.ids, DocumentContent(values, corpus.texts, complete=True))


def _resolved(plan: CheckPlan, contents: Mapping[str, LoadedContent]) -> GoldenSet:
    """Return the golden set with expected ids as the corpora write them, or the values of the compared field."""
    values = (content.values for _, content in contents.values() if content.values is not None)
    names = [Ids(pc.drop_null(column).unique()) for column in values] if plan.match.field else []
    return resolve_ids(plan.golden, plan.match, names or [ids for ids, _ in contents.values()])


def _labelled(
    plan: CheckPlan, paths: Sequence[Path], corpora: Mapping[str, Corpus]
) -> tuple[CheckPlan, Sequence[Finding]]:
    """Return the plan whose questions also expect the labelled documents, and warnings about the labels.

    Raises UsageError for labels of other datasets, DataError for labels of unknown questions or documents, and labels
    that contradict the golden set.
    """
    from harness.data.labels import golden_with_labels, labels_by_dataset, read_labels, refuse_foreign, settle

    corpus = next(iter(corpora.values()), None)
    request, name = plan.request, plan.golden.name
    models = request.count_model_labels or not (plan.gated or request.require or request.baseline is not None)
    labels = labels_by_dataset(read_labels(paths), [name], [*corpora, plan.document_source])
    settled = settle(labels[name], corpus, models=models)
    documents = corpus.ids if corpus is not None and plan.against is None else None
    refuse_foreign(settled.grades, queries=Ids.of(question.id for question in plan.golden), documents=documents)
    return replace(plan, golden=golden_with_labels(plan.golden, settled)), settled.findings


def _expected(plan: CheckPlan, loaded: LoadedContent) -> ExpectedDocuments:
    match = plan.match
    if loaded.content.values is not None or match.rule is MatchRule.TEXT or plan.golden.expects_texts:
        match = bind_content(match, plan.golden, loaded.ids, loaded.content)
    return ExpectedDocuments(plan.golden, match, loaded.ids)


def _missing(plan: CheckPlan, expected: ExpectedDocuments, corpus: Corpus, name: str) -> list[Finding]:
    """Return the expected ids and texts that a corpus lacks, with the field of its documents that holds the ids."""

    def field_of_values(values: Collection[str]) -> str | None:
        source = plan.corpora[name]
        if isinstance(source, Dataset):
            return attribute_holding(source, values)
        return find_metadata_field(values, source, files=DatasetFiles(columns=plan.columns), cards=plan.request.cards)

    accept, corpus_name = plan.request.accept, f"the corpus '{name}'"
    return [
        *missing_ids(plan.golden, expected, corpus_name, accept, field_of_values=field_of_values),
        *missing_texts(plan.golden, expected, corpus.texts, corpus_name, accept),
    ]


def _field_texts(plan: CheckPlan, name: str, cache: Cache, display: Display) -> pa.Table | None:
    """Return the fields of a corpus that backends search separately; None if these are external indexes' own."""
    names = plan.plans[name].searched_fields
    if not names:
        return None
    shared_roles = frozenset({"id"} & plan.golden.columns.keys())
    files, progress = DatasetFiles(columns=plan.columns, shared_roles=shared_roles), display.section("load")
    cards = plan.request.cards
    return load_field_texts(names, plan.corpora[name], files=files, cards=cards, cache=cache, progress=progress)


def _filters(plan: CheckPlan, name: str, cache: Cache, display: Display) -> QueryFilters:
    """Return the filters of the questions on a corpus.

    Raises UsageError for a field that no document has, DataError for filters that no document matches.
    """
    conditions, source = plan.golden.filters, plan.corpora[name]
    if isinstance(source, Dataset):
        raise AssertionError("the plan refuses documents without their metadata")
    fields = list(dict.fromkeys(field for of_question in conditions for field in of_question))
    files, progress = DatasetFiles(columns=plan.columns), display.section("load")
    cards = plan.request.cards
    metadata = load_metadata(fields, source, files=files, cards=cards, cache=cache, progress=progress, lists=True)
    filtered = QueryFilters.of_each(metadata, conditions)
    problems = Problems(plan.golden.source)
    for question, matching in zip(plan.golden, filtered.counts.tolist(), strict=True):
        if not matching:
            of_question = question.filter or {}
            problems.add(question.line, f"question '{question.id}': {no_match(metadata, of_question)}")
    problems.raise_if_any(fix=f"correct the filters, or give the documents that have these values in '{name}'")
    return filtered


def _pitfalls(plan: CheckPlan, dataset: Dataset, expected: ExpectedDocuments, cache: Cache) -> list[Finding]:
    """Return the pitfalls of a corpus, and forbidden and expected documents that no backend can return from it.

    Whether questions are among the hits is a question of each backend. Raises DataError for documents that a question
    expects, and forbids or excludes.
    """
    findings = [finding for finding in dataset_findings(dataset, cache=cache) if finding.check != "query-is-document"]
    if any(question.forbidden or question.excluded for question in plan.golden):
        expected.refuse_contradictions()
        findings += unknown_names(expected, f"the corpus '{dataset.name}'")
    if dataset.filtered is not None:
        findings += excluded_by_filters(plan.golden, expected, dataset.filtered)
    return findings


def _searched(
    plan: CheckPlan, dataset: Dataset, expected: ExpectedDocuments, cache: Cache, display: Display, *, explained: bool
) -> list[CheckFindings]:
    """Search every backend of the plan on one corpus, and examine its hits."""
    backends = plan.plans[dataset.name]
    examiner = _examiner(plan, expected, dataset)
    assessed = run_on(backends, dataset, cache, display, examiner.judge, deeper=_FOLLOWED, explained=explained)
    probes = probes_of(backends, [scored.outcome for scored in assessed])
    trials = trial_results(assessed, dataset, backends, probes, examiner.judge)
    examined = []
    for scored, trial in zip(assessed, trials, strict=True):
        one = examiner.examined(GoldenRun.of(scored, trial, timed=backends.request.timing))
        if trial.truncation:
            one = one._replace(findings=(*one.findings, *truncation_findings(trial.truncation)))
        examined.append(one)
    return examined


def _against(
    plan: CheckPlan,
    against: AgainstPlan,
    queries: Queries,
    corpora: Mapping[str, Corpus],
    loaded: tuple[LoadedContent, ...],
    cache: Cache,
    display: Display,
) -> list[CheckFindings]:
    """Query every existing backend, in their order."""
    request = plan.request
    expected = ExpectedDocuments(plan.golden, plan.match, None)
    if not loaded:
        expected.refuse_contradictions()
    examiner = replace(_examiner(plan, expected, None), loaded=loaded)
    document_source = plan.document_source
    golden = plan.golden
    indexes = iter(search_indexes(against, document_source, queries, corpora, cache, display, examiner, golden))
    metrics = [metric for metric in plan.metrics.values() if metric not in plan.forbidden_metrics]
    runs = []
    for backend in against.backends:
        if backend.called is None:
            index = next(indexes)
            examined = examiner.examined(index.answered)
            runs.append(examined._replace(findings=(*examined.findings, *index.findings)))
            continue
        run = ask_backend(
            backend,
            backend.called,
            against,
            document_source,
            golden,
            queries,
            examiner,
            cache=cache,
            display=display,
        )
        runs.append(examiner.examined_answers(run.answered, run.answers, metrics, request.relevance))
    return runs


def _examiner(plan: CheckPlan, expected: ExpectedDocuments, dataset: Dataset | None) -> Examiner:
    corpus = dataset.corpus if dataset is not None else None
    drops_itself = dataset is not None and dataset.identical_ids == "drop"
    filtered = dataset.filtered if dataset is not None else None
    return Examiner(
        plan.golden,
        plan.match,
        plan.request.k,
        plan.ties,
        expected,
        corpus,
        plan.request.accept,
        drops_itself,
        forbidden_metrics=plan.forbidden_metrics,
        if_relevant=plan.request.judged_only,
        most_matching=int(filtered.counts.max()) if filtered is not None else None,
    )


def _result(
    plan: CheckPlan,
    datasets: list[DatasetInfo],
    examined: Sequence[CheckFindings],
    problems: Sequence[PreflightProblem],
    warnings: Sequence[PreflightProblem],
    matched: list[MatchCount],
    command: list[str],
) -> Result:
    judge = CheckJudge(plan)
    trials = [judge.trial(answered, expected) for answered, expected, _ in examined]
    requirements = list[RequirementResult]()
    if plan.requirements:
        judged = zip(examined, trials, strict=True)
        requirements = [row for (answered, _, _), trial in judged for row in judge.requirements(answered, trial)]
    errors = [*problems, *_problems(examined, "error")]
    notes = _notes(plan, datasets) if trials else []
    executor = plan.request.executor
    cluster = cluster_facts(executor) if examined and executor != LOCAL else None
    reference, differences = plan.reference, list[PairedDifference]()
    if len(examined) > 1:
        reference, differences = _differences(plan, judge, [answered for answered, _, _ in examined])
    if plan.reference is not None and trials and not differences:
        notes.append(f"no differences: the reference {plan.reference}, or every other backend, has no scores")
    resolved = {**plan.settings(), "reference": reference, "notes": notes}
    return Result(
        schema=SCHEMA_VERSION,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        kind="check",
        command=command,
        harness=HarnessInfo(**asdict(harness_state())),
        machine=MachineInfo(**asdict(machine())),
        cluster=ClusterInfo(**asdict(cluster)) if cluster is not None else None,
        packages=package_versions(),
        plan=PlanRecord(arguments=plan.arguments(), resolved=resolved),
        datasets=datasets,
        backends=backend_infos([LabelledBackend(trial.label, trial.name, trial.encoder) for trial in trials]),
        trials=trials,
        differences=differences,
        golden=_golden_info(plan, matched),
        requirements=requirements,
        preflight=errors,
        warnings=[*warnings, *_problems(examined, "warning")],
        verdict=_verdict(trials, requirements, errors),
    )


def _differences(
    plan: CheckPlan, judge: CheckJudge, runs: Sequence[GoldenRun]
) -> tuple[str | None, list[PairedDifference]]:
    """Return the name of the trial that others are compared with, and the differences."""
    names = [(answered.label, answered.trial.dataset) for answered in runs]
    scored = {
        trial_name(names, *name): answered
        for name, answered in zip(names, runs, strict=True)
        if answered.scores is not None and not answered.problems
    }
    reference = plan.reference
    if reference is None and not plan.request.all_pairs:
        reference = next(iter(scored), None)
    return reference, judge.differences(scored, reference)


def _problems(examined: Sequence[CheckFindings], severity: str) -> list[PreflightProblem]:
    return [
        problem_of(finding, backend=answered.label, dataset=answered.trial.dataset)
        for answered, _, findings in examined
        for finding in findings
        if finding.severity == severity
    ]


def _verdict(
    trials: Sequence[TrialResult], requirements: Sequence[RequirementResult], problems: Sequence[PreflightProblem]
) -> Verdict:
    failed = any(trial.status == "failed" for trial in trials)
    if problems or failed or any(required.passed is None for required in requirements):
        return "invalid"
    return "passed" if all(required.passed for required in requirements) else "failed"


def _golden_info(plan: CheckPlan, matched: list[MatchCount]) -> GoldenInfo:
    golden, relevance = plan.golden, plan.request.relevance
    expecting = {question.id for question in golden.expecting(relevance)}
    return GoldenInfo(
        name=golden.name,
        source=golden.source,
        sha256=golden.sha256,
        questions=len(golden),
        evaluated=len(expecting),
        without_expectation=[question.id for question in golden if question.id not in expecting],
        match=str(plan.match),
        delimiter=plan.match.delimiter or None,
        relevance=relevance,
        notes=list(golden.notes),
        with_texts=sum(bool(question.texts) for question in golden),
        matched=matched,
    )


def _matched(expected: ExpectedDocuments, dataset: str, backend: str | None) -> list[MatchCount]:
    """Count the expected texts and values that a document matches."""
    match, texts = expected.match, expected.texts
    counts = []
    if texts:
        by_rule: dict[str, set[str]] = {}
        for of_document in match.texts.values():
            for label, text_match in of_document.items():
                by_rule.setdefault(label, set()).add(text_match.rule)
        by_share = sum(rules == {SHARE} for rules in by_rule.values())
        counts.append(
            MatchCount(
                by="text",
                dataset=dataset,
                backend=backend,
                expected=len(texts),
                matched=len(by_rule),
                by_share=by_share,
            )
        )
    if match.rule is MatchRule.FIELD or match.values:
        values = {one.id for question in expected.golden if not question.texts for one in question.expected}
        matched = len(values & set(match.values.values()))
        if values:
            counts.append(
                MatchCount(by="field", dataset=dataset, backend=backend, expected=len(values), matched=matched)
            )
    return counts


def _datasets(
    plan: CheckPlan,
    loaded: Mapping[str, LoadedCorpus],
    queries: Queries,
    filters: Mapping[str, QueryFilters],
    expected: Mapping[str, ExpectedDocuments],
) -> list[DatasetInfo]:
    """Describe each corpus with the golden set, and only the golden set if backends have their own documents."""
    golden, excludes = plan.golden, any(question.excluded for question in plan.golden)
    questions = [
        GoldenContent(
            question.id,
            question.question,
            [(expectation.id, expectation.grade) for expectation in question.expected],
            question.filter or {},
            [(expectation.id, expectation.grade) for expectation in of_people.expected],
        )
        for question, of_people in zip(golden, golden.human or golden, strict=True)
    ]
    corpora = [
        CorpusContent(
            name,
            content.corpus.digest,
            len(content.corpus),
            len(content.corpus.empty_rows),
            content.empty_left_out,
            identical_ids_info(content.corpus.ids, queries.ids, content.identical_ids),
            content.unread_files,
            excluded_info(expected[name].excluded, queries.ids, content.corpus.ids) if excludes else None,
            query_filter_infos(filters[name], len(content.corpus)) if name in filters else [],
        )
        for name, content in loaded.items()
    ]
    if plan.against is not None:
        conditions = golden.filters
        unknown = query_filter_infos(filters_of_unknown_documents(conditions), 0) if conditions else []
        corpora.append(CorpusContent(plan.document_source, filters=unknown))
    expecting = len(golden.expecting(plan.request.relevance))
    without_id = sum(not question.has_id for question in golden)
    return [
        golden_dataset(
            corpus, golden.source, golden.sha256, questions, expecting, without_id=without_id, models=golden.models
        )
        for corpus in corpora
    ]


def _notes(plan: CheckPlan, datasets: Sequence[DatasetInfo]) -> list[str]:
    """Return the plans' notes, and whether backends are judged by fewer hits than the backends of --against."""
    indexes = plan.against.indexes if plan.against is not None else None
    of_plans = [note for backends in plan.plans.values() for note in backends.notes]
    notes = list(dict.fromkeys([*of_plans, *(indexes.on_analyzers if indexes is not None else ())]))
    rules = [info.identical_ids for info in datasets if info.identical_ids is not None]
    if plan.against is not None and any(rule.rule == "drop" and rule.queries for rule in rules):
        notes.append(
            "hits that have their question's id are left out of the backends' answers, but kept with --against"
        )
    return notes
