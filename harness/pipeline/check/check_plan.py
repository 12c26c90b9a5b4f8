"""A request to check, resolved: the golden set, the measurements, and a plan for each corpus."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.data.columns import DOCUMENT_ROLES, GOLDEN_ROLE_NAMES, columns_text, parse_columns
from harness.data.dataset import Dataset
from harness.data.filtering import NO_FILTER, parse_filter
from harness.data.frames import as_table
from harness.data.golden_records import content_of_objects, golden_of_content
from harness.data.golden_set import GoldenSet
from harness.data.ranking import TieRule
from harness.engines.callable.answers import HitContent
from harness.errors import UnknownNameError, UsageError, nearest
from harness.loaders import load_golden_of
from harness.loaders.containers import plain_name
from harness.loaders.records import ENDINGS
from harness.metrics import Metric, counts_forbidden, is_mean, parse_metric, with_condensed
from harness.metrics.parse import metric_texts
from harness.pipeline.check.against import AgainstPlan, plan_against
from harness.pipeline.check.id_match import Match, MatchRule
from harness.pipeline.check.requirements import (
    LATENCIES,
    NO_ANSWER,
    Requirement,
    cut_metric,
    display_name,
    parse_requirements,
)
from harness.pipeline.check.text_match import expect_texts
from harness.plan.callables import refuse_unsent_filters, with_names
from harness.plan.capability_checks import plan_of_backends, refuse_documents_without_metadata, refuse_filters
from harness.plan.config import GATE_OPTIONS, CheckRequest, CompareRequest, ScoringOptions
from harness.plan.option_fields import command_words, flat, is_set, option_fields, require
from harness.plan.option_values import WARM_UP_SECONDS
from harness.plan.plan import UNKNOWN_REFERENCE, Plan, label_of, refuse_all_pairs
from harness.results.schema import trial_name
from harness.user_path import user_path

DEFAULT_BACKENDS = "lucene,csr"
_CORPUS_NAMES = ("corpus", "documents", "docs", "passages", "chunks")
"""Names of files of documents, without their endings, that may lie next to a golden set."""
_TABLE_METRICS = {name: parse_metric(f"{name}@1") for name in ("Hit", "MRR", "Recall", "nDCG", "Complete", "Forbidden")}
"""The metrics of the tables by their displayed names, parsed once; their cutoff becomes the k of the request."""


class TrialName(NamedTuple):
    """One backend on one dataset, by its label."""

    dataset: str
    label: str


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """All that a check will do.

    ``metrics`` maps the displayed name to the metric, in the order of the tables; ``slices`` are the fields that make
    them. ``plans`` maps a corpus to the plan of its backends, ``corpora`` to its source. ``against`` are the existing
    backends, None if there are none. Without ``keep_text`` the result holds no texts of questions. ``reference`` is the
    name of the trial that ``--reference`` names, None if it names none. ``gated`` says that the caller judges by the
    result, so that labels by models count only on request.
    """

    request: CheckRequest
    golden: GoldenSet
    match: Match
    metrics: Mapping[str, Metric]
    requirements: tuple[Requirement, ...]
    slices: tuple[str, ...]
    corpora: Mapping[str, str | Path | Dataset]
    plans: Mapping[str, Plan]
    against: AgainstPlan | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    keep_text: bool = True
    reference: str | None = None
    gated: bool = False

    @property
    def forbidden_metrics(self) -> tuple[Metric, ...]:
        """The metrics that count forbidden documents."""
        return tuple(metric for metric in self.metrics.values() if counts_forbidden(metric))

    @property
    def ties(self) -> TieRule:
        """The order of equal scores."""
        return TieRule(self.request.ties)

    @property
    def trials(self) -> list[TrialName]:
        """Every backend on every dataset, in the order of the result."""
        names = [TrialName(name, trial.label) for name, plan in self.plans.items() for trial in plan.trials]
        backends = self.against.backends if self.against is not None else ()
        return [*names, *(TrialName(self.document_source, backend.label) for backend in backends)]

    @property
    def names(self) -> list[str]:
        """The name of every trial: its label, with the dataset if the backend is on several."""
        trials = [(label, dataset) for dataset, label in self.trials]
        return [trial_name(trials, label, dataset) for label, dataset in trials]

    @property
    def document_source(self) -> str:
        """Name, as a dataset, of the documents of backends that have their own."""
        name = self.golden.name
        return f"{name} (its own documents)" if name in self.corpora else name

    def command(self) -> list[str]:
        """Return the command line that runs this check again."""
        request, words = self.request, ["harness", "check", self.golden.source]
        if isinstance(request.golden, str | Path):
            words[2] = str(request.golden)
        words += [word for corpus in _as_list(request.corpus) for word in ("--corpus", _corpus_text(corpus))]
        if self.plans:
            trials = next(iter(self.plans.values())).trials
            words += ["--backends", ",".join(trial.label for trial in trials)]
        resolved = self._resolved() | {"golden": None, "corpus": None, "backends": None}
        resolved["metrics"] = ",".join(self.metrics) if request.metrics else None
        if resolved["warm_up"] == WARM_UP_SECONDS:
            resolved["warm_up"] = None
        return [*words, *command_words(request, resolved)]

    def arguments(self) -> dict[str, str | int | float | list[str] | None]:
        """Return the request as flat values for the report."""
        request = self.request
        as_written = {
            "golden": str(request.golden) if isinstance(request.golden, str | Path) else self.golden.source,
            "corpus": [_corpus_text(part) for part in _as_list(request.corpus)],
            "backends": request.backends,
            "metrics": request.metrics,
            "slice": request.slice,
            "delimiter": request.delimiter,
        }
        return flat(request, self._resolved() | as_written)

    def settings(self) -> dict[str, str | int | float | bool | list[str] | None]:
        """Return the options as they were resolved, flat."""
        options = flat(self.request, self._resolved())
        left_out = ("golden", "corpus", "timing", *(GATE_OPTIONS if self.request.baseline is None else ()))
        corpora = [f"{name}={_corpus_text(corpus)}" for name, corpus in self.corpora.items()]
        return {
            "corpora": corpora,
            **{name: value for name, value in options.items() if name not in left_out},
            "no_timing": not self.request.timing,
            "no_text": not self.keep_text,
        }

    def _resolved(self) -> dict[str, object]:
        """Return options in the form that does not depend on the environment, or on how Python gave them."""
        request = self.request
        return {
            "columns": columns_text(self.columns) if self.columns else None,
            "backends": list(dict.fromkeys(trial.label for plan in self.plans.values() for trial in plan.trials)),
            "against": [backend.displayed for backend in self.against.backends] if self.against is not None else [],
            "require": [requirement.text for requirement in self.requirements],
            "metrics": list(self.metrics),
            "delimiter": self.match.delimiter or None,
            "slice": list(self.slices),
            "warm_up": request.warm_up if request.timing else None,
            "reference": self.reference,
        }


def plan_check(request: CheckRequest, *, keep_text: bool = True, takes_against: bool = True) -> CheckPlan:
    """Read the golden set and resolve everything else, before any engine starts.

    Without ``keep_text`` the result holds no texts of questions. ``takes_against`` says that the caller's users have
    the option ``against``. Raises UsageError for wrong arguments, DataError for a faulty golden set.
    """
    require(request)
    corpora_of_user = _requested_corpora(request.corpus)
    match = Match.of(request.match, request.delimiter)
    requirements = parse_requirements(list(request.require), request.k) if request.require else ()
    if request.baseline is None and is_set(request, *GATE_OPTIONS):
        _refuse_gate_options(request)
    columns = _columns(request) if request.columns else {}
    golden, corpus = _golden(request, columns, bool(corpora_of_user), reads_texts=match.rule is MatchRule.TEXT)
    corpora_in_order = [
        _dataset_of(each, golden, columns) if isinstance(each, _Documents) else each for each in corpora_of_user
    ]
    request = replace(request, corpus=corpora_in_order)
    if request.filter:
        golden = golden.with_filter(parse_filter(request.filter))
    if not isinstance(request.golden, str | Path | Dataset):
        request = replace(request, golden=golden)  # a table equals nothing, and an iterator is read once
    if match.rule is MatchRule.TEXT or golden.expects_texts:
        golden = expect_texts(golden, all_questions=match.rule is MatchRule.TEXT, keep_text=keep_text)
    if request.labels is not None:
        _refuse_labels(request, match)
    _refuse_empty(golden, request.relevance)
    slices = _slices(request, requirements, golden) if request.slice or requirements else ()
    existing = with_names(request.against, "against") if request.against else []
    no_corpus = bool(existing) and not request.corpus and request.backends is None
    corpora = {} if no_corpus else _corpora(request, corpus, takes_against=takes_against)
    metrics = _reported_metrics(request, requirements, golden)
    if request.metrics or requirements:
        _refuse_without_forbidden(golden, metrics)
    judged = [metric for metric in metrics.values() if not counts_forbidden(metric)]
    judged = judged or [replace(_TABLE_METRICS["Hit"], cutoff=request.k)]
    compared = _compare_request(request, golden.name)
    plans = {name: plan_of_backends(replace(compared, dataset=name), measures=judged) for name in corpora}
    by_text = match.rule is MatchRule.TEXT and any(question.forbidden or question.excluded for question in golden)
    content = HitContent(match.field, by_text or golden.expects_texts)
    against = plan_against(existing, compared, judged, content) if existing else None
    if request.identical_ids == "drop" and against is not None:
        raise UsageError(
            "--identical-ids drop with --against: an existing backend is judged by all of its answers",
            fix="leave out one of them",
        )
    if against is not None:
        _refuse_shared_labels(plans, against)
    if requirements or request.answer_threshold is not None:
        _refuse_without_threshold(request, golden, requirements)
    timed = [requirement.text for requirement in requirements if requirement.quantity in LATENCIES]
    if timed and not request.timing:
        problem = f"the requirement '{timed[0]}' with --no-timing: no times are taken"
        raise UsageError(problem, fix="leave out one of them")
    if TieRule(request.ties) is TieRule.AVERAGE:
        match.require_order(texts=golden.expects_texts)
        _refuse_unordered_alternatives(golden)
    _refuse_filters(golden, corpora, plans, against)
    plan = CheckPlan(request, golden, match, metrics, requirements, slices, corpora, plans, against, columns, keep_text)
    return plan if request.reference is None else replace(plan, reference=_reference(plan, request.reference))


def _reference(plan: CheckPlan, name: str) -> str:
    """Return the name of the trial that ``--reference`` names, as tables do or as ``--backends`` may."""
    refuse_all_pairs(plan.request)
    names = plan.names
    if len(names) < 2:
        raise UsageError("--reference with one backend: there is nothing to compare it with", fix="name several")
    if name.strip() in names:
        return name.strip()
    trials = [trial for backends in plan.plans.values() for trial in backends.trials]
    label = label_of(name, trials, plan.request.cards)
    if label not in names:  # unknown, or on several datasets
        raise UnknownNameError(UNKNOWN_REFERENCE, name.strip(), names)
    return label


def _as_list(corpus: str | Path | Dataset | Sequence[str | Path | Dataset]) -> Sequence[str | Path | Dataset]:
    return [corpus] if isinstance(corpus, str | Path | Dataset) else corpus


def _corpus_text(corpus: str | Path | Dataset) -> str:
    return corpus.name if isinstance(corpus, Dataset) else str(corpus)


def _refuse_empty(golden: GoldenSet, relevance: int) -> None:
    """Refuse a check that could measure nothing: it would pass."""
    if not golden.expecting(relevance) and not any(question.forbidden for question in golden):
        highest = max((expected.grade for question in golden for expected in question.expected), default=0)
        fix = f"the highest grade of {golden.source} is {highest}"
        raise UsageError(f"--relevance {relevance}: no question expects anything of that grade", fix=fix)


def _refuse_labels(request: CheckRequest, match: Match) -> None:
    """Refuse labels, which name documents, if questions expect anything else, or documents of several corpora."""
    if not match.by_id:
        raise UsageError(
            f"--labels with --match {match}: labels name documents, and questions expect no ids of documents",
            fix="leave out one of them",
        )
    if len(_as_list(request.corpus)) > 1:
        raise UsageError(
            f"--labels with {len(_as_list(request.corpus))} corpora: labels name the documents of one",
            fix="check each corpus separately",
        )


def _refuse_filters(
    golden: GoldenSet,
    corpora: Mapping[str, str | Path | Dataset],
    plans: Mapping[str, Plan],
    against: AgainstPlan | None,
) -> None:
    """Refuse documents and backends that cannot be filtered, and placeholders of filters that questions lack."""
    ids, filters = [question.id for question in golden], golden.filters
    for name, corpus in corpora.items() if filters else ():
        if isinstance(corpus, Dataset):
            refuse_documents_without_metadata(name)
    all_plans = [*plans.values(), *([against.indexes] if against is not None and against.indexes is not None else [])]
    for plan in all_plans if filters else ():
        refuse_filters(plan)
    conditions = filters or [NO_FILTER] * len(ids)
    called = [trial.spec.called for plan in plans.values() for trial in plan.trials]
    for backend in [*called, *(backend.called for backend in (against.backends if against is not None else ()))]:
        if backend is not None:
            refuse_unsent_filters(backend, ids, conditions)


def _refuse_shared_labels(plans: Mapping[str, Plan], against: AgainstPlan) -> None:
    """Refuse backends that would share a label in the result."""
    taken = {trial.label for plan in plans.values() for trial in plan.trials}
    for backend in against.backends:
        if backend.label in taken:
            fix = f"name it: --against 'mine={backend.displayed}'"
            raise UsageError(f"a backend is called '{backend.label}' too", fix=fix)


def _golden(
    request: CheckRequest, columns: Mapping[str, str], has_corpus: bool, *, reads_texts: bool
) -> tuple[GoldenSet, str | Path | Dataset | None]:
    """Return the golden set, and the dataset that it came with, if any."""
    reads_documents = has_corpus or request.backends is not None or not request.against
    shared_roles = frozenset({"id"}) if reads_documents else frozenset()
    if isinstance(request.golden, Dataset):
        return GoldenSet.of_dataset(request.golden), request.golden
    if isinstance(request.golden, GoldenSet):
        return request.golden, None
    if not isinstance(request.golden, str | Path):
        content = content_of_objects(request.golden, columns)
        golden = golden_of_content(content, "columns", shared_roles, reads_texts=reads_texts)
        return golden, Dataset.of(content.documents, _texts(golden)) if content.documents is not None else None
    _refuse_url(str(request.golden), "the golden set")
    golden, of_dataset = load_golden_of(
        request.golden, cards=request.cards, columns=columns, shared_roles=shared_roles, reads_texts=reads_texts
    )
    return golden, request.golden if of_dataset else None


def _texts(golden: GoldenSet) -> dict[str, str]:
    return {question.id: question.question for question in golden}


class _Documents(NamedTuple):
    """Documents that are objects in Python, and the name of their corpus."""

    content: Any
    name: str = "corpus"


def _requested_corpora(corpus: Any) -> list[str | Path | Dataset | _Documents]:
    """Return each corpus that the user gave: a list of records is one, a list of paths, datasets or tables several."""
    if isinstance(corpus, Mapping) and corpus and all(map(_is_whole_corpus, corpus.values())):
        return [_name_corpus(str(name), content) for name, content in corpus.items()]
    several = isinstance(corpus, list | tuple) and all(
        isinstance(part, str) or _is_whole_corpus(part) for part in corpus
    )
    corpora = corpus if several else [corpus]
    return [each if isinstance(each, str | Path | Dataset) else _Documents(each) for each in corpora]


def _is_whole_corpus(value: object) -> bool:
    return isinstance(value, Path | Dataset) or as_table(value) is not None


def _name_corpus(name: str, content: Any) -> str | Dataset | _Documents:
    """Return a corpus with the name that the user gave."""
    if isinstance(content, Dataset):
        return replace(content, name=name)
    return f"{name}={content}" if isinstance(content, str | Path) else _Documents(content, name)


def _dataset_of(documents: _Documents, golden: GoldenSet, columns: Mapping[str, str]) -> Dataset:
    """Return documents that are objects in Python as a dataset."""
    roles = {role.name for role in DOCUMENT_ROLES}
    of_documents = {role: field for role, field in columns.items() if role in roles}
    return Dataset.of(documents.content, _texts(golden), name=documents.name, columns=of_documents)


def _corpora(
    request: CheckRequest, golden_corpus: str | Path | Dataset | None, *, takes_against: bool
) -> dict[str, str | Path | Dataset]:
    """Return the path of every corpus by its name, which is the last part of the path if no name was chosen."""
    corpora = _as_list(request.corpus)
    if not corpora and golden_corpus is None:
        raise UsageError(
            "no corpus was given",
            fix=f"name the file or folder of the documents: --corpus {_neighbour(request.golden) or 'chunks.jsonl'}"
            + ("; or an existing backend: --against" if takes_against else ""),
        )
    sources: dict[str, str | Path | Dataset] = {}
    for corpus in corpora or [golden_corpus or ""]:
        name, source = _named_corpus(corpus)
        if name in sources:
            example = "corpus={'small': …, 'large': …}" if isinstance(source, Dataset) else f"--corpus small={source}"
            raise UsageError(f"two corpora are called '{name}'", fix=f"name them: {example}")
        sources[name] = source
    return sources


def _neighbour(golden: object) -> str:
    """Return a file of documents that lies next to a golden set, for a command line; "" for none."""
    if not isinstance(golden, str | Path):
        return ""
    try:
        files = sorted(file for file in user_path(golden).parent.iterdir() if file.suffix in (".gz", *ENDINGS))
    except OSError:  # no folder that can be listed: nothing to propose
        return ""
    return next((shlex.quote(str(file)) for file in files if _stem(file).lower() in _CORPUS_NAMES), "")


def _named_corpus(corpus: str | Path | Dataset) -> tuple[str, str | Path | Dataset]:
    """Return the name and the path of a corpus."""
    if isinstance(corpus, Dataset):
        return corpus.name, corpus
    _refuse_url(str(corpus), "the corpus")
    name, equals, source = str(corpus).partition("=") if isinstance(corpus, str) else ("", "", "")
    return (name, source) if equals else (_stem(Path(corpus)), corpus)


def _stem(path: Path) -> str:
    """Return the name of a file without the extensions that say how it is read; a folder's full name."""
    plain = plain_name(path.name)
    ending = Path(plain).suffix
    return plain.removesuffix(ending) if ending in (".zip", *ENDINGS) else plain


def _columns(request: CheckRequest) -> dict[str, str]:
    """Return role -> field of the documents and of the golden set."""
    columns = parse_columns(request.columns)
    role_names = list(dict.fromkeys((*(role.name for role in DOCUMENT_ROLES), *GOLDEN_ROLE_NAMES)))
    for role in columns:
        if role not in role_names:
            problem = f"--columns {role}={columns[role]}: a check reads documents and a golden set"
            raise UsageError(problem, fix=f"roles are: {', '.join(role_names)}")
    return columns


def _refuse_url(source: str, subject: str) -> None:
    if "://" in source:
        raise UsageError(f"{subject} '{source}' is a URL", fix="download it first, and name the file")


def _refuse_without_forbidden(golden: GoldenSet, metrics: Mapping[str, Metric]) -> None:
    """Refuse a metric of forbidden documents if no question names any: it could not fail."""
    names = [name for name, metric in metrics.items() if counts_forbidden(metric)]
    if names and not any(question.forbidden for question in golden):
        raise UsageError(
            f"{names[0]}: no question of {golden.source} forbids a document",
            fix="name forbidden ids in the field 'forbidden' of a question, or leave the metric out",
        )


def _refuse_without_threshold(request: CheckRequest, golden: GoldenSet, requirements: Sequence[Requirement]) -> None:
    """Refuse a requirement on questions that expect nothing without a threshold, and a threshold without questions."""
    required = next((each.text for each in requirements if each.quantity == NO_ANSWER), None)
    if required is not None and request.answer_threshold is None:
        raise UsageError(
            f"the requirement '{required}' without --answer-threshold",
            fix="name the score above which a hit is an answer: --answer-threshold 0.35",
        )
    if request.answer_threshold is not None and len(golden.expecting(request.relevance)) == len(golden):
        raise UsageError(
            f"--answer-threshold, and every question of {golden.source} expects a document",
            fix="add questions that nothing answers, with an empty list of expected ids, or leave it out",
        )


def _refuse_unordered_alternatives(golden: GoldenSet) -> None:
    """Refuse the rule ``average``, under which no hit is the first, for questions with alternatives."""
    question = next((question for question in golden if question.has_alternatives), None)
    if question is not None:
        raise UsageError(
            f"--ties average, and question '{question.id}' has alternatives: no hit of a group is the first",
            fix="use --ties engine",
        )


def _default_metrics(golden: GoldenSet) -> list[str]:
    """Return the metrics of the tables, with metrics for alternatives and forbidden documents if a question has any."""
    complete = ["Complete"] if any(question.has_alternatives for question in golden) else []
    forbidden = ["Forbidden"] if any(question.forbidden for question in golden) else []
    return ["Hit", "MRR", "Recall", "nDCG", *complete, *forbidden]


def _reported_metrics(
    request: CheckRequest, requirements: Sequence[Requirement], golden: GoldenSet
) -> dict[str, Metric]:
    """Return metrics by their displayed names: metrics of the tables, then of requirements, each once."""
    texts = metric_texts(request.metrics) if request.metrics else []
    names: dict[Metric, str] = {}
    if not texts:
        for name in _default_metrics(golden):
            names[replace(_TABLE_METRICS[name], cutoff=request.k)] = f"{name}@{request.k}"
    for text in texts:
        metric = cut_metric(text, request.k)
        if not is_mean(metric):
            raise UsageError(
                f"--metrics {text} is not a mean over questions", fix=f"name others, like Hit or nDCG@{request.k}"
            )
        names.setdefault(metric, display_name(text, metric))
    for requirement in requirements:
        if isinstance(requirement.quantity, Metric):
            names.setdefault(requirement.quantity, requirement.name)
    if request.judged_only:
        names = {
            metric: names.get(metric) or display_name(name, metric)
            for ordinary, name in names.items()
            for metric in with_condensed([ordinary])
        }
    return {name: metric for metric, name in names.items()}


def _slices(request: CheckRequest, requirements: Sequence[Requirement], golden: GoldenSet) -> tuple[str, ...]:
    """Return the fields to slice by, including fields of requirements. All must occur."""
    slices = [requirement.slice for requirement in requirements if requirement.slice is not None]
    fields = list(dict.fromkeys([*request.slice, *(part.field for part in slices)]))
    for name in fields:
        if name not in golden.fields:
            field_names = ", ".join(golden.fields) or "none"
            raise UsageError(
                f"no question has the field '{name}'{nearest(name, golden.fields)}",
                fix=f"{golden.source} has: {field_names}",
            )
    for part in slices:
        if part.value not in (values := golden.values(part.field)):
            problem = f"no question has {part}{nearest(part.value, values)}"
            raise UsageError(problem, fix=f"'{part.field}' is one of: {', '.join(values[:20])}")
    return tuple(fields)


def _refuse_gate_options(request: CheckRequest) -> None:
    """Refuse the first option of the gate that is set: without a baseline there is nothing to compare with."""
    name = next(name for name in GATE_OPTIONS if is_set(request, name))
    raise UsageError(
        f"{option_fields(CheckRequest)[name].flag} without --baseline: there is nothing to compare with",
        fix="add --baseline FILE",
    )


def _compare_request(request: CheckRequest, corpus: str) -> CompareRequest:
    """Return the request of the backends' comparison: settings that it shares with the check's request are the same."""
    arguments = request.arguments()
    shared = {name: arguments[name] for name in option_fields(ScoringOptions)}
    return CompareRequest(
        **shared,
        backends=request.backends if request.backends is not None else DEFAULT_BACKENDS,
        dataset=corpus,
        k=request.k,
        ties=request.ties,
    )
