"""Turn arguments into trials: a pure function, so that ``--dry-run`` shows exactly the trials of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from harness.data.columns import columns_text, parse_columns
from harness.data.dataset import DatasetFiles, DatasetVectors, IdenticalIds
from harness.data.filtering import parse_filter
from harness.data.ranking import TieRule
from harness.encoders.settings import DEFAULT_MODEL, Settings
from harness.encoders.sources import refuse_missing
from harness.engines.callable.answers import PLAIN, HitContent
from harness.errors import (
    DataError,
    EngineFailureError,
    EngineUnavailableError,
    HarnessError,
    UnknownNameError,
    UsageError,
)
from harness.metrics import (
    Metric,
    QuerySet,
    is_mean,
    parse_metrics,
    require_closed_form,
    require_judgments,
    with_condensed,
)
from harness.plan.backend_spec import BackendSpec, parse_backend_specs, parse_backends, with_components
from harness.plan.callables import Function
from harness.plan.config import COMPARE_METRICS, DEFAULT_DATASET, QUERY_RULES, CheckRequest, CompareRequest
from harness.plan.dataset_list import NamedDataset
from harness.plan.expressions import quote_list_item, split_outside
from harness.plan.option_fields import Mistakes, checked, command_words, flat, is_set
from harness.plan.option_values import WARM_UP_SECONDS
from harness.plan.options import contradictions, execution_notes, load_contradictions
from harness.plan.sweeps import PlannedSweep, TunedBackend, notes_on_sweeps, tuned_backends, with_sweeps
from harness.registry.cards import FIELDS
from harness.registry.lookup import find_cards, load_engine
from harness.registry.parameters import BY_DATASET, ParameterValue
from harness.rerank.rerankers import require_sense
from harness.text import ENGLISH, analyzer_names, in_words, preferred_analyzers, supported_language
from harness.wording import counted

if TYPE_CHECKING:
    from harness.data.labels import Labels
    from harness.registry.field_weights import FieldWeight

_DEFAULT_MEASURES = tuple(parse_metrics(COMPARE_METRICS))
"""The metrics of a request that names none, parsed once."""
_CONTRADICTED = ("cold", "concurrency", "clients", "rate", "arrivals", "load_seconds", "churn", "filter")
"""Options among which :func:`load_contradictions` finds pairs that exclude one another, or that have no effect."""
_IDENTICAL_IDS: Mapping[str, IdenticalIds] = {"keep": "keep", "drop": "drop"}
"""Rules that take the place of the dataset's."""
UNKNOWN_REFERENCE = "backend in --reference, among the compared ones:"
_WITHOUT_TEXTS = ("precomputed", "random", "python")
"""Sources of vectors that need no texts; a Python object gets the row numbers that are the texts of such a dataset."""
_AUTO = "auto"
"""The analyzer that follows the dataset's language."""
_LANGUAGELESS = {
    "take the text for English": ("lucene-english", "snowball-english"),
    "cut it at white space": ("whitespace", "lucene-yoruba"),
}
"""Ways to analyse text in a language without an analyzer, each with its analyzers, the first choice first."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One backend on one dataset. ``analyzer`` is the resolved name, None for a backend that has none."""

    spec: BackendSpec
    parameters: Mapping[str, ParameterValue]
    analyzer: str | None

    @property
    def label(self) -> str:
        """The name shown in reports, unique within a plan."""
        return self.spec.label

    @property
    def follows_language(self) -> bool:
        """True if no analyzer is named, so that the dataset's language decides it."""
        return self.spec.parameters.get("analyzer") == _AUTO

    @property
    def id_field(self) -> str:
        """The field that an external index reads ids from, "" by default and for an engine without fields."""
        card = self.spec.card
        parameter = card.external.field if card is not None and card.external is not None else ""
        return str(self.parameters.get(parameter, "")) if self.external else ""

    @property
    def external(self) -> bool:
        """True for an external index: its content is in no key, so its outcome is never stored."""
        return bool(self.parameters.get("external", False))

    @property
    def fields(self) -> tuple[FieldWeight, ...]:
        """The fields of the dataset's documents that are searched separately, with their weights.

        None if title and text are one, and for an external index, which has its own fields.
        """
        from harness.registry.field_weights import parse_fields

        card = self.spec.card
        searched = card is not None and card.searches_fields and not self.external
        return parse_fields(str(self.parameters[FIELDS])) if searched else ()

    def read(self, state: Mapping[str, ParameterValue]) -> Trial:
        """Return the trial with the parameters that the ``state`` of an external index decides.

        See :class:`harness.registry.cards.ExternalIndexRules`. Raises EngineFailureError if the state lacks one.
        """
        rules = self.spec.card.external if self.spec.card is not None and self.external else None
        unread = [name for name in (rules.read if rules is not None else ()) if self.parameters[name] == ""]
        for name in unread:
            if name not in state:
                raise EngineFailureError(
                    f"the engine does not report the '{name}' of the index",
                    fix="the engine is at fault: IndexHandle.state needs what external_index.read of the card names",
                )
        return replace(self, parameters={**self.parameters, **{name: state[name] for name in unread}})


@dataclass(frozen=True, slots=True)
class Tuning:
    """What ``--tune`` chooses, and how. ``folds`` is None for the split into halves."""

    metric: Metric
    folds: int | None
    backends: tuple[TunedBackend, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a comparison will do. ``reference`` is the label of the backend that ``--reference`` names.

    ``datasets`` are the datasets of the request's expression; empty if the caller provides the only dataset.
    ``remarks`` are the notes for the reader that do not depend on the dataset; notes on analyzers
    (:func:`set_language`), on candidates of second stages (:func:`among_candidates_of_dataset`) and on the
    dataset's own vectors (:func:`with_vectors`) do. ``lucene_available`` says whether Lucene's analyzers can run here.
    ``sweeps`` name the backend of each value of each sweep; ``tuning`` is None without ``--tune``. ``content`` is the
    content of external indexes' documents that expectations of a golden set are matched with. ``has_prompts`` says
    whether a backend sets a prompt or an instruction, which may depend on the dataset
    (:mod:`harness.plan.dataset_prompts`). ``is_part`` says that it is for one of several datasets. ``labels`` are the
    labels of the request's files, None without any.
    """

    request: CompareRequest
    trials: tuple[Trial, ...]
    measures: tuple[Metric, ...]
    ties: TieRule
    queries: QuerySet
    filter: Mapping[str, str] = field(default_factory=dict)
    files: DatasetFiles = field(default_factory=DatasetFiles)
    identical_ids: IdenticalIds | None = None
    reference: str | None = None
    datasets: tuple[NamedDataset, ...] = ()
    remarks: tuple[str, ...] = ()
    on_analyzers: tuple[str, ...] = ()
    on_candidates: tuple[str, ...] = ()
    on_vectors: tuple[str, ...] = ()
    lucene_available: bool = False
    sweeps: tuple[PlannedSweep, ...] = ()
    tuning: Tuning | None = None
    content: HitContent = PLAIN
    has_prompts: bool = False
    is_part: bool = False
    labels: Labels | None = field(default=None, repr=False)

    def content_of(self, trial: Trial) -> HitContent:
        """Return the content that a trial reads from its external index: a field only if its engine reads fields."""
        return self.content if trial.id_field else replace(self.content, field="")

    @property
    def searched_fields(self) -> list[str]:
        """The fields of the dataset's documents that some backend searches separately, sorted."""
        return sorted({field.name for trial in self.trials for field in trial.fields})

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the plan for readers of the results."""
        return (*self.on_analyzers, *self.on_candidates, *self.on_vectors, *self.remarks)

    def on(self, dataset: NamedDataset) -> Plan:
        """Return the plan for one of its datasets."""
        request, several = replace(self.request, dataset=dataset.name), len(self.datasets) > 1
        return replace(self, request=request, datasets=(dataset,), is_part=several)

    @property
    def only_dataset(self) -> str:
        """The name of the plan's dataset; raises ValueError if it has several."""
        (dataset,) = self.datasets
        return dataset.name

    @property
    def dataset_list(self) -> str:
        """The datasets as text, several between commas."""
        return self.request.dataset or DEFAULT_DATASET

    @property
    def dataset_name(self) -> str:
        """A name for folders: the card's, the last part of the path without its suffix, or how many there are."""
        expression = self.dataset_list
        if len(self.datasets) < 2 or "," not in expression:
            return Path(expression).name.removesuffix(".zip") or "dataset"
        return f"{len(self.datasets)}-datasets"

    def components(self, trial: Trial) -> tuple[Trial, ...]:
        """Return the trials whose hits a trial is made of, in its order; none for an engine or a run.

        Each precedes it in ``trials``.
        """
        by_identity = {candidate.spec.identity: candidate for candidate in self.trials}
        return tuple(by_identity[component.identity] for component in trial.spec.components)

    def command(self) -> list[str]:
        """Return the command line that repeats this plan: its backends, and options that differ from the defaults."""
        backends = self.without_secrets().get("backends", self.request.backends)
        backends_text = backends if isinstance(backends, str) else ",".join(map(quote_list_item, backends))
        # a sweep is not resolved, because the report's frontier covers the sweep; --backends cannot be empty
        swept = bool(self.request.sweep) and (bool(backends_text) or self.tuning is not None)
        if not swept or not backends_text:
            defaults = {one.default for one in self.tuning.backends} if swept and self.tuning is not None else None
            expressions = (trial.spec.expression for trial in self.trials if not defaults or trial.label in defaults)
            backends_text = ",".join(expressions)
        words = ["--backends", backends_text, "--dataset", self.dataset_list]
        resolved = self._resolved() | {"backends": None, "dataset": None}
        if not swept:
            resolved["sweep"] = None
        if self.request.warm_up == WARM_UP_SECONDS:
            resolved["warm_up"] = None
        return ["harness", "compare", *words, *command_words(self.request, resolved)]

    def arguments(self) -> dict[str, str | int | float | list[str] | None]:
        """Return the request as flat values for the report."""
        return flat(self.request, self._resolved())

    def without_secrets(self) -> dict[str, list[str]]:
        """Return the backends and sweeps as they may be stored; empty if none has the URL of an endpoint."""
        if not any(trial.spec.called is not None and trial.spec.called.http is not None for trial in self.trials):
            return {}
        backends, cards = self.request.backends, self.request.cards
        if not self.request.sweep:
            return {"backends": [trial.spec.expression for trial in self.trials]}
        items = split_outside(backends, ",") if isinstance(backends, str) else list(backends)
        specs = parse_backends([item for item in items if item.strip()], cards) if items else []
        return {
            "backends": [spec.expression for spec in specs],
            "sweep": [sweep.expression for sweep in self.sweeps],
        }

    def _resolved(self) -> dict[str, object]:
        """Return options in the form that does not depend on the environment, or on how Python gave them."""
        return {
            **self.without_secrets(),
            "columns": columns_text(self.files.columns) if self.files.columns else None,
            "warm_up": self.request.warm_up if self.request.timing else None,
        }


def make_plan(
    request: CompareRequest,
    functions: Mapping[str, Function] = MappingProxyType({}),
    *,
    lucene_available: bool | None = None,
    measures: Sequence[Metric] | None = None,
) -> Plan:
    """Resolve every name and number; all mistakes are reported together, before anything runs.

    Analyzers that are not named are English, Lucene's if it can run here (``lucene_available``; None looks only if an
    analyzer is not named), else Snowball's, until :func:`set_language` sets the dataset's language. ``functions`` are
    as in :func:`parse_backends`. ``measures`` are parsed metrics in place of the request's.

    Raises:
        UsageError: Something is wrong; it is an UnknownNameError if that is one unknown name.
    """
    mistakes = Mistakes()
    request, mistakes.errors[:] = checked(request)
    ties = TieRule(request.ties)
    queries, files = QuerySet.RELEVANT, DatasetFiles()
    if is_set(request, "queries", "qrels", "columns"):
        queries = mistakes.catch(lambda: _query_rule(request)) or queries
        files = mistakes.catch(lambda: _dataset_files(request)) or files
    if request.dataset is None:
        mistakes.catch(lambda: _refuse_unnamed_documents(request))
    request = replace(request, dataset=request.dataset or DEFAULT_DATASET)
    mistakes.errors += contradictions(request)
    if is_set(request, *_CONTRADICTED):
        mistakes.errors += load_contradictions(request)
    filtered = mistakes.catch(partial(parse_filter, request.filter)) if request.filter else None
    if measures is None and not is_set(request, "metrics", "judged_only", "ties", "tune"):
        measures = _DEFAULT_MEASURES
    elif measures is None or ties is TieRule.AVERAGE:
        measures = mistakes.catch(partial(_measures, request, ties, measures))
    parsed = mistakes.catch(lambda: _backends(request, functions))
    named_specs, sweeps = parsed if parsed is not None else ([], ())
    specs = with_components(named_specs) if any(spec.components for spec in named_specs) else named_specs
    if lucene_available is None:
        lucene_available = any(spec.parameters.get("analyzer") == _AUTO for spec in specs) and _lucene_available()
    trials = tuple(_trial(spec, request, lucene_available=lucene_available) for spec in specs)
    has_prompts = False
    for trial in trials:
        if trial.spec.kind == "rerank" or "model" in trial.parameters:
            mistakes.catch(partial(check_model, trial))
            has_prompts |= any(name.partition("@")[0] in BY_DATASET for name in trial.spec.overrides)
    for name in sorted({trial.analyzer for trial in trials if trial.analyzer is not None} - set(analyzer_names())):
        mistakes.errors.append(UnknownNameError("analyzer", name, analyzer_names()))
    reference = None
    if parsed is not None and request.reference is not None:
        reference = mistakes.catch(partial(_reference, request, trials, request.reference))
    tunes = is_set(request, "tune", "folds")
    tuning = mistakes.catch(partial(_tuning, request, sweeps, trials)) if tunes else None
    mistakes.raise_if_any()
    if measures is None:
        raise AssertionError("a mistake was not reported")
    return Plan(
        request=request,
        trials=trials,
        measures=tuple(measures),
        ties=ties,
        queries=queries,
        filter=filtered or {},
        files=files,
        identical_ids=_IDENTICAL_IDS.get(request.identical_ids),
        reference=reference,
        remarks=(
            *(_notes_on_components(trials, named_specs) if len(trials) > len(named_specs) else ()),
            *(notes_on_sweeps(sweeps) if sweeps else ()),
            *execution_notes(request),
        ),
        on_analyzers=_notes_on_analyzers(trials) if len(trials) > 1 else (),
        on_candidates=tuple(_notes_on_candidates(trials, request.k)) if len(trials) > 1 else (),
        lucene_available=lucene_available,
        sweeps=sweeps,
        tuning=tuning,
        has_prompts=has_prompts,
    )


def _lucene_available() -> bool:
    """Return whether Anserini's jar and a Java runtime are installed: the default analyzer depends on them."""
    from harness.java import jvm

    try:
        jvm.find_jar()
        jvm.find_java()
    except HarnessError:
        return False
    return True


def _backends(
    request: CompareRequest, functions: Mapping[str, Function]
) -> tuple[list[BackendSpec], tuple[PlannedSweep, ...]]:
    """Return the backends of a request and of its sweeps, each once, and the sweeps; raises UsageError."""
    specs = []
    if request.backends or not request.sweep:
        specs = parse_backend_specs(request.backends, find_cards("backends", request.cards), functions)
    if not request.sweep:
        return specs, ()

    def refuse(spec: BackendSpec) -> None:
        check_model(_trial(spec, request, lucene_available=False))

    return with_sweeps(specs, request.sweep, request.cards, tuned=request.tune is not None, refuse=refuse)


def _tuning(request: CompareRequest, sweeps: Sequence[PlannedSweep], trials: Sequence[Trial]) -> Tuning | None:
    """Return what ``--tune`` chooses among; raises UsageError for options that lack another one."""
    if request.tune is None:
        problem = f"--folds {request.folds} without --tune: it would change nothing"
        raise UsageError(problem, fix="add --tune METRIC, which chooses among the combinations of --sweep")
    if not request.sweep:
        raise UsageError(
            f"--tune {request.tune} without --sweep: there is nothing to choose from",
            fix="add the values to try: --sweep 'csr:k1=0.6,0.9,1.2;b=0.2,0.4'",
        )
    backends = tuned_backends(sweeps, [trial.spec for trial in trials]) if sweeps else ()
    for backend in backends:
        if len(backend.candidates) < 2:
            raise UsageError(
                f"--tune {request.tune}: every combination of --sweep is {backend.default} itself, so there is nothing "
                "to choose from",
                fix="add values that differ from the default",
            )
    return Tuning(tuned_metric(request.tune), request.folds, backends)


def among_candidates_of_dataset(plan: Plan) -> Plan:
    """Return the plan for a dataset that names each query's candidates: notes describe its second stages' input."""
    labels = ", ".join(trial.label for trial in plan.trials if trial.spec.kind == "rerank")
    note = (
        f"the dataset names the candidates of each query: a second stage scores all of them and "
        f"nothing else, whatever candidates= and --k say ({labels}); documents that the previous stage did not "
        "return come last in its order"
    )
    return replace(plan, on_candidates=(note,) if labels else ())


def with_vectors(plan: Plan, vectors: DatasetVectors) -> Plan:
    """Return the plan for a dataset that has vectors in place of texts.

    Dense backends whose model is not named read its vectors, and compare them by its similarity if no other is named,
    which a note says. Raises UsageError for backends and models that read texts, and for engines without that
    similarity.
    """
    mistakes = Mistakes()
    trials = tuple(mistakes.catch(partial(_take_vectors, trial, vectors)) or trial for trial in plan.trials)
    mistakes.raise_if_any()
    deviating = [
        f"{trial.label} by {trial.parameters['similarity']}"
        for trial in trials
        if trial.parameters.get("similarity", "") not in ("", vectors.similarity)
    ]
    note = f"the dataset's neighbours are by {vectors.similarity}, and these backends compare vectors otherwise: "
    return replace(plan, trials=trials, on_vectors=(note + ", ".join(deviating),) if deviating else ())


def _take_vectors(trial: Trial, vectors: DatasetVectors) -> Trial:
    """Return a trial that reads the vectors of a dataset; runs, functions and fusions stay as they are."""
    spec, parameters = trial.spec, dict(trial.parameters)
    if spec.kind in ("run", "callable", "fusion"):
        return trial
    encoder = spec.card.encoder if spec.card is not None else spec.name  # the dense second stage has its encoder's name
    if encoder != "dense":
        problem = f"the dataset has vectors and no texts, and backend '{trial.label}' reads texts"
        raise UsageError(problem, fix="take dense backends, such as flat, faiss or hnswlib")
    if spec.parameters["model"] == "":
        parameters["model"] = vectors.model
    elif Settings.of("dense", parameters).source.kind not in _WITHOUT_TEXTS:
        problem = f"the dataset has vectors and no texts, which model={parameters['model']} of '{trial.label}' encodes"
        raise UsageError(problem, fix=f"leave model= out, or give model={vectors.model}")
    if "similarity" in parameters and "similarity" not in spec.overrides and not trial.external:
        declared = spec.card.parameters["similarity"] if spec.card is not None else None
        if declared is not None and not declared.takes(vectors.similarity):
            problem = f"the dataset's distance is '{vectors.distance}', and backend '{trial.label}' has no "
            fix = f"leave the backend out, or accept another similarity: similarity={declared.choices[0]}"
            raise UsageError(f"{problem}similarity={vectors.similarity}", fix=fix)
        parameters["similarity"] = vectors.similarity
    return replace(trial, parameters=parameters)


def set_language(plan: Plan, language: str | None, analyzer: str | None = None) -> Plan:
    """Return the plan for a dataset in ``language``: each unnamed analyzer becomes the language's.

    Lucene's is used when it can run here, else Snowball's, else the ``analyzer`` that the dataset's card names; a
    backend for which Lucene analyses itself uses Lucene's in any case. If the language is not known (None), or there
    are several, text is analysed as the card says, else as English, and a note says so.

    Raises:
        UsageError: the card names an unknown analyzer, there is none for the language, or a backend takes none of the
            available ones.
        EngineUnavailableError: only Lucene has an analyzer of the language, and it cannot run here.
    """
    if analyzer is not None and analyzer not in analyzer_names():
        raise UnknownNameError("analyzer, which the dataset's card names,", analyzer, analyzer_names())
    if not any(trial.follows_language for trial in plan.trials):
        return plan
    supported = supported_language(language)
    mistakes = Mistakes()
    trials = tuple(
        (
            mistakes.catch(partial(_following, trial, supported, analyzer, lucene_available=plan.lucene_available))
            or trial
        )
        if trial.follows_language
        else trial
        for trial in plan.trials
    )
    mistakes.raise_if_any()
    ours = [trial for trial in trials if trial.follows_language and not _analyses_itself(trial)]
    names = sorted({str(trial.analyzer) for trial in ours if trial.analyzer != analyzer})
    unknown = f"the language of the dataset is not known: it is analysed as English ({', '.join(names)})"
    assumed = (f"{unknown}, unless analyzer= names another analyzer",) if supported is None and names else ()
    return replace(plan, trials=trials, on_analyzers=(*assumed, *_notes_on_analyzers(trials)))


def _following(trial: Trial, language: str | None, requested: str | None, *, lucene_available: bool) -> Trial:
    """Return a trial with the analyzer for a language, or with the ``requested`` analyzer."""
    if language is None and requested is not None and _takes(trial.spec, requested):
        analyzer = requested
    else:
        analyzer = _analyzer_for(trial.spec, language or ENGLISH, requested, lucene_available=lucene_available)
    return replace(trial, parameters={**trial.parameters, "analyzer": analyzer}, analyzer=analyzer)


def _takes(spec: BackendSpec, analyzer: str) -> bool:
    if spec.card is None:
        raise AssertionError("an analyzer without a card")
    return spec.card.parameters["analyzer"].takes(analyzer)


def _analyzer_for(spec: BackendSpec, language: str, requested: str | None = None, *, lucene_available: bool) -> str:
    """Return the first analyzer of a language that the backend takes and that can run, else the ``requested`` analyzer.

    Raises UsageError and EngineUnavailableError as :func:`set_language` does.
    """
    with_lucene = lucene_available or not _takes(spec, "whitespace")  # else its trial reports Lucene's requirements

    def usable(names: Iterable[str]) -> list[str]:
        return [name for name in names if _takes(spec, name) and (with_lucene or not name.startswith("lucene-"))]

    preferred = preferred_analyzers(language, analyzer_names())
    available = usable([*preferred, *([requested] if requested is not None else [])])
    if available:
        return available[0]
    if any(_takes(spec, name) for name in preferred):
        raise EngineUnavailableError(
            f"the dataset's language is {in_words(language)}, whose analyzer is Lucene's, and Lucene is not installed "
            f"(backend '{spec.label}')",
            fix="pip install 'retrieval-harness[lucene]', or name another analyzer: analyzer=whitespace",
        )
    refused_text = f" but {', '.join(preferred)}, which it does not take" if preferred else ""
    offered = [f"analyzer={name} to {aim}" for aim, names in _LANGUAGELESS.items() for name in usable(names)[:1]]
    raise UsageError(
        f"the dataset's language is {in_words(language)}, and backend '{spec.label}' has no analyzer of "
        f"it{refused_text}",
        fix=f"name one: {', '.join(offered) or f'harness backends {spec.name} says which it takes'}",
    )


def _measures(request: CompareRequest, ties: TieRule, parsed: Sequence[Metric] | None) -> list[Metric]:
    """Return the ``parsed`` or the requested metrics; raises UsageError for metrics that cannot be computed."""
    measures = list(parsed) if parsed is not None else parse_metrics(request.metrics)
    if request.tune is not None and (tuned := tuned_metric(request.tune)) not in measures:
        measures.append(tuned)
    require_judgments(measures)
    if ties is TieRule.AVERAGE:
        require_closed_form(measures)
    return with_condensed(measures) if request.judged_only else measures


def tuned_metric(text: str) -> Metric:
    """Return the metric of ``--tune``; raises UsageError for several, and for one that is not a mean over queries."""
    metric, *further = parse_metrics(text)
    if further:
        raise UsageError(f"--tune {text} names {counted(1 + len(further), 'metric')}", fix="name the one that decides")
    if not is_mean(metric):
        problem = f"--tune {text}: it is not a mean over queries, which a part of them could estimate"
        raise UsageError(problem, fix="choose by a mean, such as nDCG@10")
    return metric


def _query_rule(request: CompareRequest) -> QuerySet:
    """Return the queries that means are taken over; the default if only a file is named. Raises UsageError for two."""
    rules = [name for name in request.queries if name in QUERY_RULES]
    if len(rules) > 1:
        raise UsageError(f"--queries names two rules, '{rules[0]}' and '{rules[1]}'", fix="keep one")
    return QuerySet(rules[0]) if rules else QuerySet.RELEVANT


def _dataset_files(request: CompareRequest) -> DatasetFiles:
    """Return files of the dataset's parts and names of their fields; raises UsageError."""
    files = [name for name in request.queries if name not in QUERY_RULES]
    if len(files) > 1:
        raise UsageError(f"--queries names two files, '{files[0]}' and '{files[1]}'", fix="keep one")
    if files and not Path(files[0]).is_file():
        rules_text = ", ".join(sorted(QUERY_RULES))
        raise UsageError(f"--queries {files[0]}: no such rule, and no such file", fix=f"rules: {rules_text}; or a file")
    columns = parse_columns(request.columns) if request.columns else {}
    for role in ("score", "rank"):
        if role in columns:
            raise UsageError(
                f"--columns {role}={columns[role]}: a comparison reads documents, queries and judgments",
                fix="leave it out; harness eval reads runs with other names of fields",
            )
    return DatasetFiles(Path(files[0]) if files else None, request.qrels, columns)


def _refuse_unnamed_documents(request: CompareRequest) -> None:
    """Refuse the user's own queries or judgments on the default collection, which has others."""
    files = [f"--queries {name}" for name in request.queries if name not in QUERY_RULES]
    files += [f"--qrels {request.qrels}"] if request.qrels is not None else []
    if files:
        raise UsageError(
            f"{' and '.join(files)} without --dataset: the documents to search are not named",
            fix=f"name their folder or file: --dataset PLACE; for the bundled collection, --dataset {DEFAULT_DATASET}",
        )


def _trial(spec: BackendSpec, request: CompareRequest, *, lucene_available: bool) -> Trial:
    parameters = dict(spec.parameters)
    for name in spec.overrides:  # the plan for each dataset takes its own
        if "@" in name:
            del parameters[name]
    if parameters.get("analyzer") == _AUTO:
        parameters["analyzer"] = _analyzer_for(spec, ENGLISH, lucene_available=lucene_available)
    of_dense = spec.card is not None and spec.card.model_encoder == "dense"
    if (of_dense or (spec.kind == "rerank" and spec.name == "dense")) and parameters["model"] == "":
        parameters["model"] = DEFAULT_MODEL
    if "threads" in parameters and "threads" not in spec.overrides:
        parameters["threads"] = request.threads
    if "max_calls" in parameters and "max_calls" not in spec.overrides and request.max_calls is not None:
        parameters["max_calls"] = request.max_calls
    analyzer = parameters.get("analyzer")
    return Trial(spec, parameters, str(analyzer) if analyzer is not None else None)


def _reference(request: CompareRequest, trials: Sequence[Trial], name: str) -> str:
    """Return the label of the backend that ``--reference`` names, as tables do or as ``--backends`` may."""
    refuse_all_pairs(request)
    label = label_of(name, trials, request.cards)
    if label is None:
        raise UnknownNameError(UNKNOWN_REFERENCE, name.strip(), [trial.label for trial in trials])
    return label


def refuse_all_pairs(request: CompareRequest | CheckRequest) -> None:
    """Raise UsageError if a reference is named, and every pair is to be compared."""
    if request.all_pairs and request.reference is not None:
        problem = f"--reference {request.reference} and --all-pairs: if every pair is compared there is no reference"
        raise UsageError(problem, fix="leave out one of them")


def label_of(name: str, trials: Sequence[Trial], cards: Path | None) -> str | None:
    """Return the label of the trial that a name means, as tables have it or ``--backends`` takes it; None if none."""
    name = name.strip()
    if any(trial.label == name for trial in trials):
        return name
    with suppress(UsageError):  # no backend at all
        (spec,) = parse_backends([name], cards=cards, labelled=[trial.spec for trial in trials])
        return next((trial.label for trial in trials if trial.spec.identity == spec.identity), None)
    return None


def check_model(trial: Trial) -> None:
    """Refuse a model that is not understood, parameters that it makes meaningless, and vectors of an unnamed one."""
    if trial.spec.kind == "rerank":
        require_sense(trial.spec.name, trial.parameters)
        return
    card = trial.spec.card
    encoder = card.model_encoder if card is not None else None
    if encoder is None:
        return
    if trial.external and not trial.spec.overrides.get("model"):
        raise UsageError(f"'{trial.label}' does not say which model made its vectors", fix="name it: model=…")
    try:
        refuse_missing(Settings.of(encoder, trial.parameters), documents=not trial.external)
    except (UsageError, DataError) as error:
        raise UsageError(f"backend '{trial.label}': {error.problem}", fix=error.fix) from error


def _notes_on_components(trials: Sequence[Trial], labelled: Sequence[BackendSpec]) -> Iterator[str]:
    """Yield a note for each backend that the user does not name, and that runs as a component."""
    identities = {spec.identity for spec in labelled}
    for trial in trials:
        identity = trial.spec.identity
        if identity in identities:
            continue
        users = [user.label for user in trials if identity in {part.identity for part in user.spec.components}]
        yield f"{trial.label} runs, and is shown, as a component of {' and of '.join(users)}"


def _notes_on_candidates(trials: Sequence[Trial], k: int) -> Iterator[str]:
    """Yield a note for each second stage of more candidates than are searched, stored runs excepted."""
    for trial in trials:
        first = trial.spec
        while first.kind == "rerank":
            (first,) = first.components
        if trial.spec.kind == "rerank" and first.kind != "run" and int(trial.parameters["candidates"]) > k:
            candidates = f"candidates={trial.parameters['candidates']} of {trial.label}"
            yield f"{candidates}, but --k {k} searches only {k}: raise --k for more candidates"


def may_be_server(trial: Trial) -> bool:
    """Return whether a trial's engine may be a server; engines of other packages may reach one without a ``url``."""
    if trial.spec.card is None:
        return False
    if "url" in trial.parameters:  # a server's address may also come from the environment
        # without a mode there is nothing but a server
        return trial.parameters["url"] != "" or trial.parameters.get("mode", "server") == "server"
    return not trial.spec.card.engine.startswith("harness.engines.")


def _analyses_itself(trial: Trial) -> bool:
    """Return whether an external index analyses queries by its own analyzer, independent of ours."""
    if not trial.parameters.get("external") or trial.spec.card is None:
        return False
    try:
        return load_engine(trial.spec.card).capabilities.external_input == "text"
    except HarnessError:  # an engine that cannot be imported is left to its trial, which reports why
        return False


def _notes_on_analyzers(trials: Sequence[Trial]) -> tuple[str, ...]:
    trials = [trial for trial in trials if not _analyses_itself(trial)]
    analyzers = sorted({trial.analyzer for trial in trials if trial.analyzer is not None})
    if len(analyzers) < 2:
        return ()
    analyzers_text = ", ".join(f"{trial.label} {trial.analyzer}" for trial in trials if trial.analyzer is not None)
    return (f"the analyzers differ ({analyzers_text}): differences between these backends are not the engines' alone",)
