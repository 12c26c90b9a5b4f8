"""``harness.verify``: run published configurations, and compare every printed digit with the measured digit.

Statistics of the index come before scores: if the engine holds other documents or other terms, no score can agree. A
number that differs is explained by variants, each with one change: another convention of scoring the same run, or
another run. Variants that give the printed number to the digit are named.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.data.arrow import numbers, take_rows
from harness.data.dataset import Dataset
from harness.data.progress import Display, SilentDisplay
from harness.data.ranking import TieBreak, TieRule, without_excluded, without_identical_ids
from harness.data.texts import content_digest
from harness.data.types import Corpus, Ids, Qrels, Run
from harness.errors import HarnessError, UsageError
from harness.loaders import load_dataset
from harness.loaders.fetching import stored_files
from harness.metrics import QuerySet, Scores, is_mean, parse_metric, score
from harness.metrics.audit import Change, single_changes
from harness.metrics.conventions import Countable, IdenticalIds, Precision, Settings
from harness.pipeline.planning import resolved_for
from harness.pipeline.run import run_plan
from harness.plan.backend_spec import BackendSpec, parse_backend_specs, spell
from harness.plan.capability_checks import plan_of_backends
from harness.plan.config import CompareRequest, Resume, VerifyRequest
from harness.plan.dataset_list import parse_datasets
from harness.plan.option_fields import from_keywords, keywords_of, require
from harness.plan.plan import Trial
from harness.registry.dataset_cards import DatasetCard
from harness.registry.lookup import dataset_names, find_cards, find_dataset, unknown_dataset
from harness.registry.parameters import ParameterValue
from harness.registry.published import PublishedNumber
from harness.results.hit_rules import HitRules
from harness.results.verification import (
    IndexFact,
    PrintedNumber,
    Variant,
    Verification,
    VerifiedDataset,
    as_printed,
    printed_value,
)
from harness.store.cache import Cache
from harness.store.cache_entries import COMPARISON, WORK
from harness.store.scratch import scratch_folder
from harness.user_path import user_path
from harness.worker.outcome import Outcome

_DEPTH = 1000
_PARAMETERS: tuple[tuple[str, Mapping[str, ParameterValue]], ...] = (
    ("analyzer", {"analyzer": "lucene-english"}),
    ("analyzer", {"analyzer": "snowball-english"}),
    ("analyzer", {"analyzer": "lucene-yoruba"}),
    ("analyzer", {"analyzer": "whitespace"}),
    ("k1 and b", {"k1": 0.9, "b": 0.4}),
    ("k1 and b", {"k1": 1.2, "b": 0.75}),
    ("k1 and b", {"k1": 1.5, "b": 0.75}),
    ("k1 and b", {"k1": 2.0, "b": 0.75}),
    ("k1 and b", {"k1": 0.82, "b": 0.68}),
    ("model", {"model": "bm25"}),
    ("model", {"model": "ql"}),
    ("smoothing", {"mu": 1500.0}),
    ("smoothing", {"mu": 2000.0}),
    ("smoothing", {"mu": 2500.0}),
    ("feedback", {"rm3": False, "axiom": False}),
    ("feedback", {"rm3": True, "axiom": False}),
    ("feedback", {"rm3": False, "axiom": True}),
)
"""Values of parameters that published runs differ in; ``lucene-yoruba`` and ``whitespace`` only cut at white space."""
_OF_INDEX = ("analyzer",)
"""Aspects of a backend that change the statistics of its index."""
_ONLY_OF_MODEL = {"k1": "bm25", "b": "bm25", "mu": "ql"}
"""Parameters that one of Lucene's models does not have."""
_TIES = {
    TieRule.TREC_EVAL.value: TieBreak.ID_DESCENDING,
    TieRule.TREC_EVAL_10.value: TieBreak.ID_DESCENDING,
    TieRule.ENGINE.value: TieBreak.RUN_ORDER,
}
_COUNTABLE = {
    QuerySet.RELEVANT.value: Countable.RELEVANT,
    QuerySet.JUDGED.value: Countable.JUDGED,
    QuerySet.ANSWERED.value: Countable.ANSWERED,
}


@keywords_of(VerifyRequest)
def verify(datasets: str | Sequence[str] = (), *, display: Display | None = None, **options: object) -> Verification:
    """Run the published configurations of datasets and compare every digit; the command is ``harness verify``.

    Args:
        datasets: Names of cards, members of families and families, as on the command line or in a list; datasets that
            are not on this machine are downloaded.
        display: Where progress is shown; None shows none.
        options: The options of :class:`harness.plan.config.VerifyRequest`: ``all``, ``available``, ``data``,
            ``explain``, ``cards``.

    Returns:
        Every printed and measured number. A dataset that cannot be loaded, or a backend that fails, is among them with
        the reason.

    Raises:
        UsageError: Nothing is named, or there are names in addition to ``all`` or ``available``.
        UnknownNameError: The dataset does not exist.
    """
    dataset_names = [datasets] if isinstance(datasets, str) else list(datasets)
    (request,) = from_keywords("harness.verify", {"datasets": dataset_names, **options}, VerifyRequest)
    return run(request, display)


def run(request: VerifyRequest, display: Display | None = None) -> Verification:
    """Verify the datasets of a request; see :func:`verify`."""
    require(request)
    visible_display, cards = display if display is not None else SilentDisplay(), request.cards
    data = [request.data] if isinstance(request.data, str | Path) else request.data
    folders = [user_path(folder) for folder in data]
    sweeping = request.all or request.available
    if bool(request.datasets) == sweeping:
        raise UsageError(
            "verify takes names of datasets, or --available, or --all"
            + (", and not both" if request.datasets else ": nothing is named"),
            fix="harness verify cacm, harness verify --available or harness verify --all",
        )
    if sweeping:
        names = list(dataset_names(cards))
    else:
        names = [dataset.name for text in request.datasets for dataset in parse_datasets(text, cards).datasets]
    verified: list[VerifiedDataset] = []
    for name in dict.fromkeys(names):
        rows = published_configurations(name, cards)
        if not rows and not sweeping:
            verified.append(
                VerifiedDataset(name=name, split=None, unavailable="no published number says which backend computes it")
            )
        for split in dict.fromkeys(row.split for row in rows):
            of_split = [row for row in rows if row.split == split]
            spec = _dataset_spec(name, folders)
            missing = _missing(name, split, cards) if sweeping and spec == name else None
            if missing is None:
                verified.append(_Verifier(name, split, spec, request.explain, cards, visible_display).run(of_split))
            elif not request.available:
                verified.append(VerifiedDataset(name=name, split=split, unavailable=missing))
    return Verification(datasets=verified)


def published_configurations(name: str, cards: Path | None = None) -> list[PublishedNumber]:
    """Return the published scores of a dataset that state which backend computes them.

    Raises:
        UnknownNameError: The dataset does not exist.
    """
    card = find_dataset(name, cards)
    if card is None:
        raise unknown_dataset(name, cards)
    return [row for row in card.published if row.backend is not None]


def _dataset_spec(name: str, folders: Sequence[Path]) -> str:
    """Return the folder of a dataset, or its name if none of the folders holds it."""
    candidates = (folder / part for folder in folders for part in (name, name.rpartition("/")[2]))
    return next((str(path) for path in candidates if path.exists()), name)


def _missing(name: str, split: str | None, cards: Path | None) -> str | None:
    """Return why a dataset cannot be loaded without a download; None if it can."""
    card = find_dataset(name, cards)
    if isinstance(card, DatasetCard) and card.location is not None:
        return None if card.location.exists() else f"'{card.location}' is not there"
    try:
        downloaded = stored_files(name, cards=cards).downloaded or {}
    except HarnessError as error:
        return error.problem.replace(f"'{name}' ", "")
    local = downloaded.get(split or "", downloaded.get(""))
    if local is not None and (local.complete or (local.complete is None and local.paths)):
        return None
    return "not on this machine (harness datasets fetch NAME)"


@dataclass(frozen=True, slots=True)
class _Verifier:
    """Verify the rows of one split of a dataset; ``spec`` is its folder or name."""

    name: str
    split: str | None
    spec: str
    explain: bool
    cards: Path | None
    display: Display

    def run(self, rows: Sequence[PublishedNumber]) -> VerifiedDataset:
        try:
            dataset = self.load()
            if dataset.qrels is None:
                raise UsageError(f"'{self.name}' has no judgments", fix="published numbers need them")
            outcomes = self.outcomes(dataset, [(row, str(row.backend)) for row in rows])
        except HarnessError as error:
            return VerifiedDataset(name=self.name, split=self.split, unavailable=str(error))
        claims = _claims(rows, outcomes, dataset)
        results = [claim.result for claim in (self.explained(claims, dataset) if self.explain else claims)]
        return VerifiedDataset(
            name=self.name,
            split=self.split,
            documents=len(dataset.corpus),
            queries=len(dataset.queries),
            index=[fact for fact in results if isinstance(fact, IndexFact)],
            numbers=[number for number in results if isinstance(number, PrintedNumber)],
        )

    def load(self, fields: tuple[str, ...] | None = None) -> Dataset:
        """Read the dataset; ``fields`` are a document's searched fields, None for the fields of its card."""
        progress = self.display.section("load")
        if self.spec == self.name:
            return load_dataset(self.name, split=self.split, cards=self.cards, progress=progress, fields=fields)
        card = find_dataset(self.name, self.cards)
        rules = card if isinstance(card, DatasetCard) else None
        return load_dataset(Path(self.spec), progress=progress, fields=fields, card=rules)

    def outcomes(self, dataset: Dataset, claims: Sequence[tuple[PublishedNumber, str]]) -> list[Outcome]:
        """Run backends, each as deep as its row was published; backends of the same depth share their indexes."""
        cards = find_cards("backends", self.cards)
        identity_of = {text: parse_backend_specs([text], cards)[0].identity for _, text in claims}
        done: dict[tuple[int, Hashable], Outcome] = {}
        for k in dict.fromkeys(_depth(row) for row, _ in claims):
            # one backend may be written in two ways
            backends = {identity_of[text]: text for row, text in claims if _depth(row) == k}
            request = CompareRequest(
                backends=list(backends.values()),
                dataset=self.name,
                k=k,
                identical_ids="keep",
                timing=False,
                resume=Resume.MISSING,
                cards=self.cards,
            )
            plan = resolved_for(plan_of_backends(request), dataset)
            # hits are left out after the cut, as in the publications
            unfiltered = replace(dataset, identical_ids="keep", excluded=None)
            cache = Cache()
            with cache.intact(), scratch_folder(cache.folder(WORK), COMPARISON) as work:
                ran = run_plan(HitRules.of(unfiltered).deepened(plan), unfiltered, cache, work, self.display)
            done |= {(k, outcome.trial.spec.identity): outcome for outcome in ran}
        return [done[_depth(row), identity_of[text]] for row, text in claims]

    def explained(self, claims: Sequence[_Claim], dataset: Dataset) -> list[_Claim]:
        """Return the claims; missed claims have the single changes that give the printed number."""
        missed = {
            position: claim
            for position, claim in enumerate(claims)
            if claim.result.measured is not None and not claim.result.agrees
        }
        if not missed:
            return list(claims)
        tried = {position: list(_rescored(claim, dataset)) for position, claim in missed.items()}
        for position, variant in self._again(missed, dataset):
            tried[position].append(variant)
        return [
            claim._replace(result=_add_variants(claim.result, tried[position])) if position in missed else claim
            for position, claim in enumerate(claims)
        ]

    def _again(self, missed: Mapping[int, _Claim], dataset: Dataset) -> Iterator[tuple[int, Variant]]:
        """Run again with one change at a time; yield the position of the missed claim, and the result of the change."""
        changes = [
            (position, *change)
            for position, claim in missed.items()
            for change in self._other_backends(claim.outcome.trial)
            if not isinstance(claim.result, IndexFact) or change[0].aspect in _OF_INDEX
        ]
        searches = [(dataset, changes)]
        for change, other in self._other_datasets(dataset):
            searches.append((other, [(position, change, str(claim.row.backend)) for position, claim in missed.items()]))
        for searched, claims in searches:
            outcomes = self.outcomes(searched, [(missed[position].row, backend) for position, _, backend in claims])
            for (position, change, _), outcome in zip(claims, outcomes, strict=True):
                value = missed[position].measure(outcome)
                if value is not None:
                    yield position, _variant(change, value)

    def _other_backends(self, trial: Trial) -> Iterator[tuple[Change, str]]:
        """Yield the changes of a backend's parameters that it takes and that can have an effect."""
        now, model = trial.parameters, trial.parameters.get("model", "bm25")
        for aspect, values in _PARAMETERS:
            differing = {name: value for name, value in values.items() if now.get(name) != value}
            usable = values.keys() <= now.keys() and all(_ONLY_OF_MODEL.get(name, model) == model for name in values)
            if differing and usable and self._possible(changed := _changed(trial.spec, differing)):
                yield Change(aspect, _spelt({name: now[name] for name in differing}), _spelt(differing)), changed

    def _possible(self, backend: str) -> bool:
        try:
            plan_of_backends(CompareRequest(backends=[backend], dataset=self.name, timing=False, cards=self.cards))
        except HarnessError:  # the backend does not take these values: no variant
            return False
        return True

    def _other_datasets(self, dataset: Dataset) -> Iterator[tuple[Change, Dataset]]:
        """Yield the dataset with other texts, and a description of the change."""
        titles = dataset.titles
        if titles is not None and titles.filled:
            searched = ("title", "text") if titles.searched else ("text",)
            for fields in (("text",), ("title",), ("title", "text")):
                try:
                    other = self.load(fields) if fields != searched else None
                except HarnessError:  # it cannot be read so: no variant
                    continue
                if other is not None:
                    yield Change("texts of documents", _join_names(searched), _join_names(fields)), other
        if len(empty := dataset.corpus.empty_rows):
            filled = np.delete(np.arange(len(dataset.corpus)), empty)
            ids = Ids(dataset.corpus.ids.values.take(numbers(filled)))
            texts = take_rows(dataset.corpus.texts, filled)
            corpus = Corpus(ids, texts, content_digest(ids, texts))
            yield Change("documents without text", "indexed", "left out"), replace(dataset, corpus=corpus)


class _Claim(NamedTuple):
    """A published number or statistic and the measured one, and how it is measured when something is changed."""

    result: PrintedNumber | IndexFact
    row: PublishedNumber
    outcome: Outcome
    measure: Callable[[Outcome], float | None]


def _claims(rows: Sequence[PublishedNumber], outcomes: Sequence[Outcome], dataset: Dataset) -> list[_Claim]:
    """Return the published statistics of indexes, each once, then the published scores."""
    facts, numbers = dict[tuple[str, int, int | None], _Claim](), list[_Claim]()
    for row, outcome in zip(rows, outcomes, strict=True):
        for name, printed in row.index.items() if outcome.record is not None else ():
            fact = IndexFact(
                backend=str(row.backend), statistic=name, printed=printed, measured=_statistic(outcome, name)
            )
            claim = _Claim(fact, row, outcome, partial(_statistic, name=name))
            facts.setdefault((name, printed, fact.measured), claim)
        for metric in row.scores:
            number = _measure(row, metric, outcome, dataset)
            numbers.append(_Claim(number, row, outcome, partial(_mean, row, metric, dataset)))
    return [*facts.values(), *numbers]


def _add_variants(result: PrintedNumber | IndexFact, tried: Sequence[Variant]) -> PrintedNumber | IndexFact:
    printed = str(result.printed)
    giving = [variant for variant in tried if as_printed(variant.value, printed) == printed]
    nearest = min(tried, key=lambda variant: abs(variant.value - printed_value(printed)), default=None)
    explanation = {"variants": giving, "nearest": None if giving else nearest, "tried": len(tried)}
    return result.model_copy(update=explanation)


def _depth(row: PublishedNumber) -> int:
    return int(row.options.get("k", _DEPTH))


def _changed(spec: BackendSpec, values: Mapping[str, ParameterValue]) -> str:
    """Write the backend with other values of parameters."""
    return f"{spec.name}:{';'.join(f'{name}={spell(value)}' for name, value in {**spec.overrides, **values}.items())}"


def _spelt(values: Mapping[str, ParameterValue]) -> str:
    return ", ".join(f"{name}={spell(value)}" for name, value in values.items())


def _join_names(fields: Sequence[str]) -> str:
    return " and ".join(fields) if len(fields) > 1 else f"{fields[0]} alone"


def _statistic(outcome: Outcome, name: str) -> int | None:
    """Return a statistic of a run's index, of the engine or else of its terms; None if neither reports it."""
    if outcome.record is None:
        return None
    facts = outcome.vectors.facts if outcome.vectors is not None else {}
    index = outcome.record.index
    facts_by_name = {**facts, "unique_terms": facts.get("distinct_terms"), **index.state, "documents": index.indexed}
    value = facts_by_name.get(name)
    return value if isinstance(value, int) else None


def _measure(row: PublishedNumber, metric: str, outcome: Outcome, dataset: Dataset) -> PrintedNumber:
    """Score a run as the number was published."""
    measured, error = None, None
    if outcome.run is None or dataset.qrels is None:
        error = outcome.failure.message if outcome.failure is not None else "there is nothing to score"
    else:
        try:
            measured = _scores(row, metric, outcome.run, dataset.qrels, dataset).means()[0].value
        except HarnessError as refused:
            error = str(refused)
    return PrintedNumber(
        system=row.system,
        source=row.source,
        backend=str(row.backend),
        options=dict(row.options),
        metric=metric,
        printed=row.scores[metric],
        measured=measured,
        error=error,
    )


def _scores(row: PublishedNumber, metric: str, run: Run, qrels: Qrels, dataset: Dataset) -> Scores:
    """Score a run as the number was published; raises the errors of :func:`harness.metrics.score`."""
    if dataset.excluded is not None:
        run = without_excluded(run, dataset.excluded)
    return score(
        without_identical_ids(run) if _drops(row, dataset) else run,
        qrels,
        [parse_metric(metric)],
        ties=str(row.options.get("ties", TieRule.TREC_EVAL)),
        queries=str(row.options.get("queries", QuerySet.RELEVANT)),
        relevance=int(row.options.get("relevance", 1)),
    )


def _mean(row: PublishedNumber, metric: str, dataset: Dataset, outcome: Outcome) -> float | None:
    return _measure(row, metric, outcome, dataset).measured


def _variant(change: Change, value: float) -> Variant:
    return Variant(aspect=change.aspect, before=change.harness_value, after=change.other_value, value=value)


def _drops(row: PublishedNumber, dataset: Dataset) -> bool:
    return row.options.get("identical_ids", dataset.identical_ids) == "drop"


def _rescored(claim: _Claim, dataset: Dataset) -> Iterator[Variant]:
    """Yield the single changes of how a run is scored, with the value of each; none for a statistic of an index."""
    if not isinstance(claim.result, PrintedNumber):
        return
    row, outcome, metric = claim.row, claim.outcome, claim.result.metric
    ties = _TIES.get(str(row.options.get("ties", TieRule.TREC_EVAL)))
    if outcome.run is None or dataset.qrels is None or ties is None:
        return
    settings = Settings(
        ties=ties,
        precision=Precision.DOUBLE if row.options.get("ties") == TieRule.TREC_EVAL_10 else Precision.SINGLE,
        queries=_COUNTABLE[str(row.options.get("queries", QuerySet.RELEVANT))],
        identical_ids=IdenticalIds.AFTER_CUT if _drops(row, dataset) else IdenticalIds.KEEP,
        relevance=int(row.options.get("relevance", 1)),
    )
    for change, value in single_changes(outcome.run, dataset.qrels, parse_metric(metric), settings):
        if not np.isnan(value):  # no query counts
            yield _variant(change, value)
    queries, scores = len(dataset.queries), _scores(row, metric, outcome.run, dataset.qrels, dataset)
    counted, measure = scores.counts.evaluated, scores.measures[0]
    if counted not in (0, queries) and is_mean(measure):  # a query that does not count as one that finds nothing
        change = Change("queries averaged over", f"{counted:,} {settings.queries}", f"all {queries:,} of the file")
        yield _variant(change, scores.means()[0].value * counted / queries)
