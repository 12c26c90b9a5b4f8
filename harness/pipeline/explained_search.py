"""The search that an explanation is of: of a stored result, of a golden set, or of a dataset and backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow.compute as pc

from harness.data.arrow import numbers
from harness.data.dataset import Dataset
from harness.data.id_spelling import separate_options, spelled_otherwise
from harness.data.progress import Display
from harness.data.texts import text_digest
from harness.data.types import Ids, Qrels, Run
from harness.errors import HarnessError, ResultError, UnknownNameError, UsageError, near_name
from harness.loaders import check_dataset
from harness.pipeline.planning import load_planned, plan_for, resolved_for, sampled
from harness.pipeline.regress.rerun import request_of
from harness.plan.callables import Function
from harness.plan.config import ACCEPTABLE_CHECKS, GATE_OPTIONS, CheckRequest, CompareRequest, ExplainRequest, Resume
from harness.plan.option_fields import Options, from_keywords, is_set, option_fields
from harness.plan.plan import Plan
from harness.results.comparison import Comparison
from harness.results.regression_schema import Change
from harness.results.schema import Result, TrialResult
from harness.results.stored import read_report
from harness.store.cache import Cache
from harness.user_path import existing_path
from harness.wording import counted

if TYPE_CHECKING:
    from harness.data.golden_set import GoldenQuestion
    from harness.pipeline.check.checked import CheckResult
    from harness.pipeline.check.id_match import ExpectedDocuments

_MEASURES = ("repeat", "warm_up", "concurrency", "rate", "cold", "clients", "arrivals", "churn", "load_seconds")
_OF_COMPARE = (*_MEASURES, "labels", "filter_sweep", "tune", "folds", "verify_cache", "metrics", "judged_only")
_OF_CHECK = (
    *(*_MEASURES, *GATE_OPTIONS, "baseline", "labels", "count_model_labels", "reference", "all_pairs"),
    *("require", "metrics", "judged_only", "slice", "confidence", "answer_threshold"),
)
"""Options of a result's plan that change no hit."""
_NO_RESULT = (
    "a run, and the scores of runs, have no engine to explain: name a result folder of compare, check or regress, or "
    "--dataset and --backends"
)
_MOST_NAMES = 5_000
"""The nearest of these many ids is found in about a second."""


@dataclass(frozen=True, eq=False, slots=True)
class ExplainedSearch:
    """The search of all queries of one dataset.

    ``plan`` has the backends that are searched. ``expected`` are the grades of the documents that judgments or the
    golden set expect for the query, by id. Of a stored result, ``labels`` are the backends in its order, ``stored``
    their hits, which come before those of the search, and ``failures`` their messages. Backends that failed then, and
    the user's own code, are not searched again.
    """

    plan: Plan
    dataset: Dataset
    expected: Mapping[str, float]
    labels: Sequence[str] = ()
    stored: Mapping[str, Run] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_result(
        cls,
        plan: Plan,
        dataset: Dataset,
        expected: Mapping[str, float],
        trials: Sequence[TrialResult],
        runs: Callable[[TrialResult], Run | None],
    ) -> ExplainedSearch:
        """Return the search of a stored result; ``runs`` returns the stored hits of a trial, None if it has none."""
        stored = {trial.label: run for trial in trials if (run := runs(trial)) is not None}
        failures = {trial.label: trial.error.message for trial in trials if trial.error is not None}
        needed = {part.label for trial in plan.trials if trial.label in stored for part in plan.components(trial)}
        skipped = failures.keys() | {trial.label for trial in plan.trials if trial.spec.called is not None}
        searched = tuple(trial for trial in plan.trials if trial.label in needed or trial.label not in skipped)
        labels = [trial.label for trial in trials]
        return cls(replace(plan, trials=searched), dataset, expected, labels, stored, failures)


def stored_result(path: Path) -> Comparison | CheckResult:
    """Read the result to explain; raises UsageError for a comparison of two results, ResultError as its loader."""
    from harness.pipeline.check.checked import CheckResult

    folder = path if path.is_dir() else path.parent
    try:
        report = read_report(path)
    except ResultError as error:
        if path.is_file() and (path.suffix != ".json" or error.fix is None):
            raise ResultError(error.problem, fix=_NO_RESULT) from error
        raise
    if report.kind == "diff":
        raise refused_change(report.changes)
    return CheckResult.load(folder) if report.kind == "check" else Comparison.load(folder)


def refused_change(change: Change) -> UsageError:
    """Return the error for a comparison of two results, for which nothing ran."""
    sources = " or ".join(f"'{side.source}'" for side in (change.before, change.after))
    return UsageError("the result compares two results, and nothing ran for it", fix=f"explain one of them: {sources}")


def search_to_explain(
    request: ExplainRequest,
    result: Comparison | CheckResult | None,
    in_memory: Mapping[str, Dataset],
    functions: Mapping[str, Function],
    cache: Cache,
    display: Display,
) -> ExplainedSearch:
    """Load what a request names.

    Raises UsageError for contradictions and for a query or documents that have changed since the result, an
    UnknownNameError for an unknown query, dataset or corpus; and as the loaders do.
    """
    of_check = request.golden is not None if result is None else not isinstance(result, Comparison)
    searching = ("backends", "queries", "split", "columns", "filter", "match", "delimiter")
    _refuse(request, searching if result is not None else (), "with a result, whose own hits are explained")
    if of_check:
        _refuse(request, ("dataset", "queries", "split"), "with a golden set, whose documents --corpus names")
        return _golden_search(request, cast("CheckResult | None", result), cache, display)
    fix = "name it with --golden FILE, or leave them out"
    _refuse(request, ("golden", "corpus", "match", "delimiter"), "without a golden set", fix)
    comparison = cast("Comparison | None", result)
    plan = _comparison_plan(request, comparison, in_memory, functions)
    full = load_planned(plan, cache, display, in_memory.get(plan.only_dataset))
    plan = resolved_for(plan, full)
    dataset = sampled(full, plan)
    if comparison is None:
        _require_query(request.query, dataset, full)
        return ExplainedSearch(plan, dataset, _relevant(dataset.qrels, request.query, 1))
    name = comparison.datasets[_number_of(comparison.datasets, request.dataset, "dataset")]
    content, report = comparison.contents[name], comparison.report.on(name)
    _require_query(request.query, dataset, full)
    if content.queries is not None:
        texts = dict(zip(content.queries.ids, content.queries.texts.to_pylist(), strict=True))
        _refuse_changes(request, report, dataset, text_digest(texts[request.query]))
    else:
        _refuse_changes(request, report, dataset, None)
    relevant = _relevant(content.qrels, request.query, plan.request.relevance)

    def run_of(trial: TrialResult) -> Run | None:
        return comparison.run(trial.label, name) if comparison.has_run(trial.label, name) else None

    return ExplainedSearch.of_result(plan, dataset, relevant, report.trials, run_of)


def _refuse(
    request: ExplainRequest, names: Sequence[str], reason: str, fix: str = "leave out one or the other"
) -> None:
    flags = ", ".join(f"--{name}" for name in names if is_set(request, name))
    if flags:
        raise UsageError(f"{flags} {reason}", fix=fix)


def _require_query(query: str, dataset: Dataset, full: Dataset) -> None:
    """Raise UnknownNameError for a query that the dataset lacks, UsageError for one that its sample left out."""
    if dataset.queries.ids.rows_of(Ids.of([query]))[0] >= 0:
        return
    if full.queries.ids.rows_of(Ids.of([query]))[0] >= 0:
        raise UsageError(
            f"query '{query}' is not in the sample of {counted(len(dataset.queries), 'query')}",
            fix="explain a query of the sample, or search without a sample: --dataset and --backends without RESULT",
        )
    if options := separate_options("--query", query, dataset.queries.ids):
        raise UsageError(
            f"unknown query '{query}' of '{dataset.name}'",
            fix=f"explain one query at a time: {' or '.join(options)}",
        )
    raise unknown_id("query", query, dataset.queries.ids, dataset.name)


def unknown_id(kind: str, name: str, ids: Ids, dataset: str) -> UsageError:
    """Return the error for an id that a dataset lacks, with the nearest id; of many ids only the like are looked at."""
    problem, spelling = f"unknown {kind} '{name}' of '{dataset}'", spelled_otherwise([name], ids) if name else None
    if spelling is not None:
        same = f"the ids are the same {spelling.rule}"
        return UsageError(problem, fix=f"did you mean '{spelling.corpus_id}'? {same}")
    if len(ids) <= _MOST_NAMES:
        return UnknownNameError(kind, name, ids.to_list(), of=f"'{dataset}'")
    alike = ids.values.filter(pc.starts_with(ids.values, pattern=name[: len(name) // 2]))
    near = near_name(name, alike[:_MOST_NAMES].to_pylist())
    return UsageError(problem, fix=f"did you mean '{near}'?" if near else f"it has {counted(len(ids), 'id')}")


def _refuse_changes(request: ExplainRequest, report: Result, dataset: Dataset, digest: str | None) -> None:
    """Refuse documents and a query that are not those of the result; ``digest`` is that of the query's text then."""
    info, flag = report.dataset, "--corpus" if report.kind == "check" else "--dataset"
    if info.provenance.get("corpus_sha256") not in (None, dataset.corpus.digest):
        raise UsageError(
            f"'{dataset.name}' has other documents now than the result", fix=f"name their present place: {flag} PATH"
        )
    row = int(dataset.queries.ids.rows_of(Ids.of([request.query]))[0])
    text = dataset.queries.texts.take(numbers(np.array([row])))[0].as_py()
    if digest is not None and text_digest(text) != digest:
        raise UsageError(
            f"query '{request.query}' of '{dataset.name}' has another text now than in the result",
            fix="run the result again",
        )


def _relevant(qrels: Qrels | None, query: str, relevance: float) -> dict[str, float]:
    """Return the grades of the documents that are judged relevant for a query, the highest first."""
    row = -1 if qrels is None else int(qrels.query_ids.rows_of(Ids.of([query]))[0])
    if qrels is None or row < 0:
        return {}
    start, stop = qrels.indptr[row : row + 2].tolist()
    graded = zip(qrels.doc_ids.take(qrels.rows[start:stop]), qrels.grades[start:stop].tolist(), strict=True)
    return dict(sorted((pair for pair in graded if pair[1] >= relevance), key=lambda pair: -pair[1]))


def _comparison_plan(
    request: ExplainRequest,
    comparison: Comparison | None,
    in_memory: Mapping[str, Dataset],
    functions: Mapping[str, Function],
) -> Plan:
    """Return the plan of one dataset: of a stored result, or of the backends and the dataset that are objects."""
    if comparison is None:
        names = ("dataset", "split", "columns", "filter", "cards", "k")
        options: dict[str, Any] = {name: getattr(request, name) for name in names}
        if request.backends is not None:
            options["backends"] = request.backends
        if request.queries is not None:
            options["queries"] = ("relevant", request.queries)
        plan = plan_for(_untimed(CompareRequest(**options), _OF_COMPARE), in_memory, functions)
        return plan.on(plan.datasets[_number_of([part.name for part in plan.datasets], request.dataset, "dataset")])
    compared = request_of(comparison.report.plan, {})
    number = _number_of(comparison.datasets, request.dataset, "dataset")
    if request.dataset is not None and len(comparison.datasets) == 1:
        compared = replace(compared, dataset=request.dataset)
    elif len(comparison.datasets) == 1:
        _require_source(compared.dataset, compared.cards, "--dataset PATH")
    plan = plan_for(_untimed(compared, _OF_COMPARE), in_memory, functions)
    return plan.on(plan.datasets[number])


def _require_source(source: object, cards: Path | None, flag: str) -> None:
    """Raise UsageError if the data of a stored result are not where they were."""
    if isinstance(source, str | Path) and existing_path(source) is None:
        try:
            check_dataset(str(source), cards=cards)
        except HarnessError as error:
            fix = f"if it has moved, or was an object in Python, name it again: {flag}"
            raise UsageError(error.problem, fix=fix) from error


def _number_of(names: Sequence[str], chosen: str | None, kind: str) -> int:
    """Return the position of the only dataset or corpus, or of the chosen one of several."""
    if len(names) == 1:
        return 0
    if chosen is None:
        several = counted(len(names), kind, "corpora" if kind == "corpus" else None)
        raise UsageError(f"{several}: {', '.join(names)}", fix=f"explain one of them: --{kind} NAME")
    if chosen not in names:
        raise UnknownNameError(kind, chosen, names, of="the result")
    return names.index(chosen)


def _untimed(request: Options, names: Sequence[str]) -> Any:
    """Return a request without measurements, and with the defaults of the options that change no hit."""
    fields = option_fields(type(request))
    changes: dict[str, Any] = {name: fields[name].default for name in names if name in fields}
    changes |= {"timing": False, "resume": Resume.ALWAYS}
    return replace(request, **changes)


def _golden_search(
    request: ExplainRequest, checked: CheckResult | None, cache: Cache, display: Display
) -> ExplainedSearch:
    """Return the search of a golden set on one corpus; of a stored check also with its indexes, and all stored hits."""
    from harness.pipeline.check.against import without_documents
    from harness.pipeline.check.check_plan import plan_check
    from harness.pipeline.check.id_match import ExpectedDocuments
    from harness.pipeline.check.run_check import prepare_check

    prepared = prepare_check(plan_check(_check_request(request, checked), takes_against=False), cache, display)
    plan, questions = prepared.plan, {question.id: question for question in prepared.plan.golden}
    for problem in prepared.problems:
        raise UsageError(": ".join([problem.message, *problem.examples[:1]]), fix=problem.fix)
    indexes = plan.against.indexes if plan.against is not None else None
    if prepared.searched:
        ((name, dataset),) = prepared.searched.items()
        backends, expected = plan.plans[name], prepared.expected[name]
    elif indexes is not None:
        dataset = without_documents(indexes.dataset_name, prepared.queries, plan.golden)
        backends, expected = replace(indexes, trials=()), ExpectedDocuments(plan.golden, plan.match, None)
    else:
        raise UsageError(
            "the backends of the check are the user's own code, and have no exact reference",
            fix="explain other backends on the same documents: --golden, --corpus and --backends without RESULT",
        )
    _require_query(request.query, dataset, dataset)
    if indexes is not None and plan.against is not None:
        labels = [backend.label for backend in plan.against.backends if backend.called is None]
        further = [
            replace(trial, spec=replace(trial.spec, label=label))
            for trial, label in zip(indexes.trials, labels, strict=True)
        ]
        backends = replace(backends, trials=(*backends.trials, *further))
    graded = _expected(questions[request.query], expected, plan.request.relevance)
    if checked is None:
        return ExplainedSearch(backends, dataset, graded)
    report, corpora = checked.report, _corpora_of(checked)
    unrelated = [name for name in corpora if len(corpora) > 1 and name != request.corpus]
    trials = [trial for trial in report.trials if trial.dataset not in unrelated]
    results = [one for trial in trials for one in trial.questions if one.id == request.query]
    dataset = replace(dataset, name=trials[0].dataset)
    _refuse_changes(request, report.on(dataset.name), dataset, results[0].text_digest if results else None)
    for one in (expectation for result in results for expectation in result.expected):  # labels added some
        if one.grade >= plan.request.relevance and dataset.corpus.ids.rows_of(Ids.of([one.id]))[0] >= 0:
            graded.setdefault(one.id, one.grade)
    return ExplainedSearch.of_result(
        backends, dataset, graded, trials, lambda trial: checked.hits.get((trial.dataset, trial.label))
    )


def _check_request(request: ExplainRequest, checked: CheckResult | None) -> CheckRequest:
    """Return the request of a stored check on one of its corpora, or of the golden set that is named."""
    names = ("golden", "corpus", "backends", "columns", "filter", "match", "delimiter", "cards")
    arguments = {name: value for name, value in request.arguments().items() if name in names and is_set(request, name)}
    arguments["k"] = request.k
    if checked is not None:
        plan = checked.report.plan
        repeated = option_fields(CheckRequest).keys() - {*_OF_CHECK, "golden", "corpus"}
        earlier = {name: value for name, value in plan.arguments.items() if name in repeated and value is not None}
        golden = plan.arguments["golden"] if request.golden is None else request.golden
        arguments = {**earlier, "golden": golden}
        _require_source(golden, request.cards, "--golden FILE")
        corpora = _corpora_of(checked)
        if corpora:
            name = list(corpora)[_number_of(list(corpora), cast("str | None", request.corpus), "corpus")]
            location = request.corpus if len(corpora) == 1 and request.corpus is not None else corpora[name]
            _require_source(location, request.cards, "--corpus PLACE")
            arguments["corpus"] = f"{name}={location}" if isinstance(location, str | Path) else location
    arguments["accept"] = ACCEPTABLE_CHECKS  # nothing is scored
    (made,) = from_keywords("harness.explain", arguments, CheckRequest)
    return cast("CheckRequest", _untimed(made, _OF_CHECK))


def _corpora_of(checked: CheckResult) -> dict[str, str]:
    """Return the places of a stored check's corpora by name."""
    return dict(text.split("=", 1) for text in cast("list[str]", checked.report.plan.resolved["corpora"]))


def _expected(question: GoldenQuestion, documents: ExpectedDocuments, relevance: int) -> dict[str, float]:
    """Return the grades of the documents that a question expects, the highest first.

    An expected id that no document has is among them.
    """
    graded: dict[str, float] = {}
    for one in sorted(question.expected, key=lambda one: -one.grade):
        if one.grade >= relevance:
            absent = () if one.id in documents.texts else (one.id,)
            graded.update((name, float(one.grade)) for name in documents.members(one) or absent if name not in graded)
    return graded
