"""Existing backends: resolved before anything starts, then queried."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from harness.data.arrow import strings
from harness.data.dataset import Dataset
from harness.data.exclusions import most_excluded
from harness.data.filtering import QueryFilters, filters_of_unknown_documents
from harness.data.golden_set import GoldenSet, excluded_documents
from harness.data.problems import Finding
from harness.data.progress import Display, RenamedDisplay
from harness.data.texts import content_digest
from harness.data.types import Corpus, Ids, Queries, Run
from harness.engines.callable.answers import PLAIN, Answer, HitContent, separate_ids
from harness.engines.callable.frameworks import FRAMEWORKS
from harness.errors import HarnessError, UsageError
from harness.metrics import Metric
from harness.pipeline.asking import SentFilters, ask_callable, run_of_answers
from harness.pipeline.check.preflight import Examiner, unmatched_filters
from harness.pipeline.check.stored_vectors import ModelComparison
from harness.pipeline.compare import run_on
from harness.pipeline.probes import probes_of
from harness.pipeline.probes.searching import answered_search
from harness.plain_url import without_secrets
from harness.plan.callables import CALLABLE_FORMS, NAME, CallableSpec, Function, labelled_expression, parse_callable
from harness.plan.capability_checks import plan_of_backends
from harness.plan.config import CompareRequest
from harness.plan.expressions import quoted
from harness.plan.option_fields import raise_together
from harness.plan.options import contradictions
from harness.plan.plan import Plan, Trial
from harness.plan.stages import fusions, rerankers
from harness.registry.cards import BackendCard
from harness.registry.lookup import find_cards, load_engine
from harness.results.backend_info import short_labels
from harness.results.hit_rules import excluded_hits_note, short_lists_note
from harness.results.schema import TrialResult
from harness.results.schema_base import ErrorInfo
from harness.results.scored import GoldenRun
from harness.results.trial_result import trial_results
from harness.results.truncation import truncation_findings
from harness.store.cache import Cache
from harness.store.cache_entries import COMPARISON, WORK
from harness.store.scratch import scratch_folder
from harness.wording import counted
from harness.worker.failure import failure_of
from harness.worker.jobs import TrialRecord

_NAMED_EXPRESSION = re.compile(rf"(?P<name>{NAME})=\s*(?=[\w.-]+\s*:)")
_EXTERNAL = "external=true"
_FORMS = f"write {CALLABLE_FORMS}, or an index as chroma:path=…;collection=…;model=…"


@dataclass(frozen=True, slots=True)
class Against:
    """An existing backend: ``called``, or an index, whose ``backend`` is its expression.

    ``label`` is unique and may be shown, as may ``displayed``, the expression without parts that could be secret.
    """

    label: str
    displayed: str
    called: CallableSpec | None = None
    backend: str = ""


def parse_against(expressions: Sequence[str]) -> list[Against]:
    """Parse every expression, in order; the plan examines indexes further.

    Raises UsageError for a malformed one, and for two with one label.
    """
    backends = [_parse(expression.strip()) for expression in expressions]
    labels = [backend.label for backend in backends]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"two backends are called '{label}'", fix=f"name them: --against 'mine={label}'")
    return backends


def _parse(text: str) -> Against:
    match = _NAMED_EXPRESSION.match(text)
    name, expression = (match["name"].strip(), text[match.end() :]) if match is not None else ("", text)
    kind, colon, rest = expression.partition(":")
    if not colon or not kind or not rest:
        raise UsageError(f"'{without_secrets(expression)}' names no backend", fix=_FORMS)
    called = parse_callable(expression)
    if called is not None:
        return Against(name or called.label, _prefix_name(name, called.expression), called)
    parts = {part.strip() for part in re.split(r"[:;]", expression)}
    backend = expression if _EXTERNAL in parts else f"{kind}:{_EXTERNAL};{rest}"
    displayed = without_secrets(expression)
    return Against(name or displayed, _prefix_name(name, displayed), backend=backend)


def _prefix_name(name: str, displayed: str) -> str:
    return f"{name}={displayed}" if name else displayed


@dataclass(frozen=True, slots=True)
class AgainstPlan:
    """All existing backends, in the order in which they were named.

    ``indexes`` is the plan of the indexes among them, in their order; ``request`` says how all are searched.
    ``content`` is the content of hits that is matched besides their ids.
    """

    backends: tuple[Against, ...]
    indexes: Plan | None
    request: CompareRequest
    content: HitContent = PLAIN


def plan_against(
    expressions: Sequence[tuple[str, str | Function]],
    request: CompareRequest,
    measures: Sequence[Metric],
    content: HitContent = PLAIN,
) -> AgainstPlan:
    """Resolve expressions and callables, each with its name, "" for none.

    ``request`` is the request that searches indexes, without its backends, ``measures`` are the metrics. ``content`` is
    the content of documents that is matched besides their ids.

    Raises UsageError for malformed expressions, for an index that cannot be searched without a collection, and for one
    whose vectors need a model that is not named, and for one that names a field of ids besides the field of
    ``content``.
    """
    parsed = parse_against([labelled_expression(name, expression, NAME) for name, expression in expressions])
    for position, (backend, (_, expression)) in enumerate(zip(parsed, expressions, strict=True)):
        if backend.called is not None and not isinstance(expression, str):
            parsed[position] = replace(backend, called=replace(backend.called, function=expression))
    backends = [backend.backend for backend in parsed if backend.called is None]
    for name in (backend.partition(":")[0] for backend in backends):
        if name in {*fusions(), *rerankers(), "run"}:
            raise UsageError(f"'{name}' is not an index", fix="write one as chroma:path=…;collection=…;model=…")
        _require_kind(name, tuple(find_cards("backends", request.cards)))
    if not backends:
        raise_together(list(contradictions(request)))
        return AgainstPlan(tuple(parsed), None, request, content)
    if content.field:
        cards = find_cards("backends", request.cards)
        backends = [_add_field(backend, cards, content.field) for backend in backends]
    plan = replace(plan_of_backends(replace(request, backends=backends), measures=measures), content=content)
    if len(plan.trials) != len(backends):
        raise UsageError("--against takes single indexes, no fusions of them", fix="name each on its own")
    for trial in plan.trials:
        _require_alone(trial)
    return AgainstPlan(tuple(parsed), plan, request, content)


def _add_field(backend: str, cards: Mapping[str, BackendCard], field: str) -> str:
    """Return an index's expression with the parameter that names the field; unchanged if its engine reads none."""
    card = cards[backend.partition(":")[0]]
    parameter = card.external.field if card.external is not None else ""
    if not parameter:
        return backend
    if re.search(rf"[:;]\s*{parameter}\s*=", backend):
        raise UsageError(
            f"--match field:{field} with {parameter}= of '{without_secrets(backend)}': each names a field to match by",
            fix=f"leave {parameter}= out",
        )
    return f"{backend};{parameter}={quoted(field)}"


def _require_kind(name: str, backends: Sequence[str]) -> None:
    if name in backends:
        return
    near = difflib.get_close_matches(name.lower(), (*backends, "python", "http", *FRAMEWORKS), n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise UsageError(
        f"'{name}' is neither python, nor http, nor a framework, nor a backend",
        fix=f"{hint}{_FORMS}",
    )


def _require_alone(trial: Trial) -> None:
    """Refuse an index that means nothing without its corpus."""
    card = trial.spec.card
    if card is None or not trial.external:
        raise UsageError(f"'{trial.label}' is not an external index", fix="name it with --backends")
    if "bm25" in card.encoder and load_engine(card).capabilities.reads(external=True) != "text":
        raise UsageError(
            f"'{trial.spec.name}' reads vectors whose columns are numbers of the corpus's own terms: without the "
            "corpus, a question cannot be encoded",
            fix=f"give it: --corpus PLACE --backends '{trial.label}'; or ask your own code: --against python:…",
        )


class StoreSearch(NamedTuple):
    """The answers of an index, and findings on its texts and stored vectors."""

    answered: GoldenRun
    findings: tuple[Finding, ...]


def search_indexes(
    plan: AgainstPlan,
    dataset: str,
    queries: Queries,
    corpora: Mapping[str, Corpus],
    cache: Cache,
    display: Display,
    examiner: Examiner,
    golden: GoldenSet,
) -> list[StoreSearch]:
    """Search every index of a plan, each in a worker, with the encoded questions; score as ``examiner`` judges.

    ``dataset`` is its name in the result. ``corpora`` are documents by name, whose texts are encoded if an index keeps
    none. ``golden`` has the questions' filters and the documents that they exclude.
    """
    if plan.indexes is None:
        return []
    alone = without_documents(plan.indexes.dataset_name, queries, golden)
    short = dict(zip(plan.backends, short_labels([backend.label for backend in plan.backends]), strict=True))
    indexes = [backend for backend in plan.backends if backend.called is None]
    names = {trial.label: short[index] for trial, index in zip(plan.indexes.trials, indexes, strict=True)}
    scored = run_on(
        plan.indexes, alone, cache, RenamedDisplay(display, names), examiner.judge, find_excluded=examiner.excluded
    )
    trials = trial_results(scored, alone, plan.indexes, probes_of(plan.indexes))
    comparison = ModelComparison(queries, corpora, plan.request, cache, display)
    searched = []
    for against, of_index, trial in zip(indexes, scored, trials, strict=True):
        finding, note, of_documents = comparison.compare(of_index.outcome)
        notes = [*trial.notes, *([note] if note is not None else [])]
        truncation = [*trial.truncation, *([of_documents] if of_documents is not None else [])]
        parameters = {**trial.parameters, "against": against.displayed}
        update = {
            "dataset": dataset,
            "label": against.label,
            "notes": notes,
            "parameters": parameters,
            "truncation": truncation,
        }
        answered = GoldenRun.of(of_index, trial.model_copy(update=update), timed=plan.request.timing)
        of_vectors = [finding] if finding is not None else []
        of_filters = unmatched_filters(golden, _filter_problems(of_index.outcome.record, alone.filtered))
        searched.append(StoreSearch(answered, (*of_filters, *of_vectors, *truncation_findings(truncation))))
    return searched


def _filter_problems(record: TrialRecord | None, filtered: QueryFilters | None) -> list[str]:
    """Return why no document of an index matches each question's filter, "" if one does; empty without filters."""
    if record is None or record.external is None or filtered is None:
        return []
    return [record.external.unmatched[group] for group in filtered.group_of.tolist()]


def without_documents(name: str, queries: Queries, golden: GoldenSet) -> Dataset:
    """Return the questions of a golden set as a dataset for indexes with their own documents."""
    nothing, filters = pa.chunked_array([strings([])]), golden.filters
    filtered = filters_of_unknown_documents(filters) if filters else None
    corpus = Corpus(Ids.of([]), nothing, content_digest(Ids.of([]), nothing))
    return Dataset(name, corpus, queries, None, filtered=filtered, excluded=excluded_documents(golden) or None)


def ask_backend(
    backend: Against,
    called: CallableSpec,
    plan: AgainstPlan,
    dataset: str,
    golden: GoldenSet,
    queries: Queries,
    examiner: Examiner,
    *,
    cache: Cache,
    display: Display,
) -> AskedBackend:
    """Query a callable or an endpoint; return its answers, unscored, or why it failed as a whole.

    As many more hits are requested as a question excludes documents, so that no hit is missing from the first ``k``
    unless an excluded value is that of several documents.
    """
    options, notes = plan.request, list(called.notes)
    excluded = excluded_documents(golden)
    k = examiner.k
    depth = k + most_excluded(excluded)
    try:
        with scratch_folder(cache.folder(WORK), COMPARISON) as work:
            progress, limit = display.section(backend.label), plan.request.max_calls
            outcome = ask_callable(
                called,
                queries,
                depth,
                options,
                work,
                progress,
                max_calls=limit,
                content=plan.content,
                filters=SentFilters(golden.filters) if golden.filters else None,
            )
    except HarnessError as error:
        failure = failure_of(error)
        info = ErrorInfo(type=failure.type, message=failure.message, log=list(failure.log))
        display.done(backend.label, "failed")
        return AskedBackend(
            GoldenRun(trial_of_backend(dataset, backend.label, backend.displayed, error=info, notes=notes)), []
        )
    display.done(backend.label, f"{counted(len(outcome.answers), 'question')} queried")
    document_source = (
        "its documents are known only from its answers: there is no exact reference, and nothing was indexed"
    )
    notes[:0] = [document_source, *outcome.notes]
    if outcome.repeated:
        notes.append(f"made again after a failure: {counted(outcome.repeated, 'call')}; its milliseconds include that")
    expected = [expectation.id for question in golden for expectation in question.expected]
    separated = separate_ids(outcome.answers)
    repeats = separated != list(outcome.answers)
    answers = separated
    if excluded:
        every_hit = _run(queries.ids, separated, max((len(answer.ids) for answer in separated), default=1), (), repeats)
        by_question = examiner.excluded(every_hit)
        lists = [frozenset(by_question.get(question.id, ())) for question in golden]
        answers = [_without_excluded(answer, ids, k, depth) for answer, ids in zip(separated, lists, strict=True)]
        left_out = sum(name in ids for answer, ids in zip(separated, lists, strict=True) for name in answer.ids)
        notes += excluded_hits_note(left_out)
        short = sum(
            len(answer.ids) < k <= depth <= len(before.ids) for answer, before in zip(answers, separated, strict=True)
        )
        notes += short_lists_note(short, k)
    run = _run(queries.ids, answers, k, expected, repeats)
    if repeats and run.content is not None:
        notes.append(
            f"several documents share a value of '{called.id_key}', the field of ids: the first hit with an expected "
            "value counts, further ones keep their rank"
        )
    search = answered_search(outcome, run, depth, timed=options.timing)
    answered = GoldenRun(
        trial_of_backend(dataset, backend.label, backend.displayed, search=search, notes=notes),
        run=run,
        search_ns=outcome.search_ns if options.timing else None,
        unanswered=frozenset(
            question.id for question, answer in zip(golden, answers, strict=True) if answer.failure is not None
        ),
    )
    return AskedBackend(answered, answers)


def _run(query_ids: Ids, answers: Sequence[Answer], k: int, expected: Sequence[str], repeats: bool) -> Run:
    """Return answers as a run; ``repeats`` says that documents share the values that ids were to be read from."""
    run = run_of_answers(query_ids, answers, k, expected)
    return replace(run, content=replace(run.content, repeats=repeats)) if run.content is not None else run


def _without_excluded(answer: Answer, excluded: frozenset[str], k: int, depth: int) -> Answer:
    """Return the first ``k`` hits that count; all that count of a backend that returned more than ``depth`` hits."""
    positions = [position for position, name in enumerate(answer.ids) if name not in excluded]
    return answer.take(positions[:k] if len(answer.ids) <= depth else positions)


class AskedBackend(NamedTuple):
    """A callable or an endpoint with its answers."""

    answered: GoldenRun
    answers: list[Answer]


def trial_of_backend(dataset: str, label: str, expression: str, **facts: object) -> TrialResult:
    """Return the trial of a function or an endpoint that is known only by its answers."""
    name = expression.partition(":")[0].rpartition("=")[2]
    fields = {"dataset": dataset, "label": label, "name": name, "parameters": {"against": expression}}
    return TrialResult.model_validate({**fields, "status": "ok", **facts})
