"""One run under several conventions, and which aspects account for the differences.

A cause is proven: starting from this package's own convention, each aspect in turn is changed to the other tool's
choice, and the aspect is the cause if that change alone gives every query the other tool's value. If no single change
does, the smallest sufficient set of changes is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data import ranking
from harness.data.ranking import TieRule
from harness.data.types import Float64Array, Ids, Qrels, Run
from harness.errors import UnknownNameError, UsageError
from harness.metrics.conventions import (
    CONVENTIONS,
    HARNESS,
    INTERPOLATED,
    Aspect,
    Convention,
    Countable,
    Gain,
    Ideal,
    IdenticalIds,
    Precision,
    RecallPoint,
    Settings,
    Total,
    aspects_of,
)
from harness.metrics.measure import Metric
from harness.metrics.parse import parse_metric
from harness.metrics.scores import QuerySet, added_in_order, is_mean
from harness.metrics.scoring import score

if TYPE_CHECKING:
    import pandas as pd

_ROUNDING = 1e-12
_EXAMPLES = 3
_PUBLISHED = re.compile(r"(?:(?P<measure>.+)=)?\s*(?P<number>\d*\.?\d+)\s*(?P<percent>%?)\s*")
_UNIT = ("nDCG", "AP", "RR", "P", "R", "R_cap", "Success", "Rprec")
"""Metrics from 0 to 1, which papers also print times 100."""


class Change(NamedTuple):
    """One aspect that a tool decides otherwise: its title, this package's choice and the tool's, in words."""

    aspect: str
    harness_value: str
    other_value: str


class Example(NamedTuple):
    """A query whose value differs; None if the query is not counted. Ranks are of the first relevant document."""

    query: str
    harness_value: float | None
    other_value: float | None
    harness_rank: int | None
    other_rank: int | None


class Difference(NamedTuple):
    """How a convention's decisions about a measure differ from this package's, and the effect of each difference.

    ``causes`` are the smallest sets of changes; each set alone gives the convention's value for every query. Empty if
    no value differs. ``alone`` gives the value of each change by itself, for a cause of several changes.
    ``without_effect`` are the changes that are in no cause.
    """

    measure: Metric
    convention: str
    harness_value: float
    other_value: float
    causes: tuple[tuple[Change, ...], ...]
    alone: tuple[tuple[Change, float], ...]
    without_effect: tuple[Change, ...]
    examples: tuple[Example, ...]


class Match(NamedTuple):
    """A convention, or one with a single aspect changed, that gives a published number; ``value`` is not rounded."""

    measure: Metric
    convention: str
    change: Change | None
    value: float


class PublishedMatch(NamedTuple):
    """A number from a paper: its text, its measure (None: any), the settings that give it, and the nearest that do not.

    ``nearest`` is None when something matches.
    """

    text: str
    measure: Metric | None
    matches: tuple[Match, ...]
    nearest: Match | None


@dataclass(frozen=True)
class Audit:
    """A run under this package's convention and other tools' conventions.

    ``values`` has for each measure the means by convention, the name ``harness`` first; None if the tool does not
    compute the measure, NaN if it counts no query.
    """

    measures: tuple[Metric, ...]
    values: Mapping[Metric, Mapping[str, float | None]]
    differences: tuple[Difference, ...]
    published: PublishedMatch | None

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each metric, a column for each convention (pandas, float64); NaN if there is no value."""
        import pandas as pd

        index = pd.Index([str(measure) for measure in self.measures], name="measure")
        return pd.DataFrame([dict(self.values[measure]) for measure in self.measures], index=index, dtype=np.float64)

    def difference(self, measure: str, convention: str) -> Difference | None:
        """Return how a convention differs in a measure; None if it does not differ, or does not compute the measure.

        Raises UnknownNameError for a convention that does not exist.
        """
        metric, names = parse_metric(measure), [each.name for each in CONVENTIONS]
        if convention not in names:
            raise UnknownNameError("convention", convention, names)
        return next(
            (each for each in self.differences if (each.measure, each.convention) == (metric, convention)), None
        )


def audit_run(
    run: Run, qrels: Qrels, measures: Sequence[Metric], *, drop_identical: bool = False, published: str | None = None
) -> Audit:
    """Score a run under every convention and explain each difference from this package's own.

    ``drop_identical`` is the data set's rule for hits that have their query's id: this package and the tools whose rule
    depends on the data set follow it. ``published`` is a number from a paper, as :func:`parse_published` reads it.

    Raises:
        UsageError: a measure is a sum or a geometric mean, or the published number cannot be read.
        DataError: the run shares no query or no document with the judgments.
        RankingError: scores that are not finite and duplicate documents.
    """
    number = None if published is None else parse_published(published)
    if number is not None and number.measure is not None:
        measures = list(dict.fromkeys([*measures, number.measure]))
    sums = [str(measure) for measure in measures if not is_mean(measure)]
    if sums:
        raise UsageError(f"{', '.join(sums)} is not a mean over queries", fix="leave it out of the audit")
    ranking.check(run)
    score(run, qrels, measures, queries=QuerySet.JUDGED)  # refuses input that cannot be scored at all
    scorer = _Scorer(run, qrels)
    values: dict[Metric, dict[str, float | None]] = {}
    differences: list[Difference] = []
    for measure in measures:
        row: dict[str, float | None] = dict.fromkeys((convention.name for convention in (HARNESS, *CONVENTIONS)), None)
        (_, harness_settings), *other_conventions = _conventions(measure, drop_identical)
        for convention, settings in [(HARNESS, harness_settings), *other_conventions]:
            row[convention.name] = scorer.outcome(measure, settings).mean
            difference = _difference(scorer, measure, convention.name, harness_settings, settings)
            differences += [] if difference is None else [difference]
        values[measure] = row
    match = None if number is None else _published(scorer, measures, number, drop_identical)
    return Audit(tuple(measures), values, tuple(differences), match)


def single_changes(run: Run, qrels: Qrels, measure: Metric, settings: Settings) -> Iterator[tuple[Change, float]]:
    """Score a run with one aspect of ``settings`` changed at a time.

    Yields:
        Each change that changes the value of any query, and the mean that it gives.
    """
    scorer = _Scorer(run, qrels)
    for change, changed in _changed(scorer, measure, settings):
        yield change, scorer.outcome(measure, changed).mean


class _Number(NamedTuple):
    text: str
    measure: Metric | None
    value: float
    half: float
    """Half of the last printed digit."""
    is_percent: bool


def parse_published(text: str) -> _Number:
    """Read a number as printed, ``0.397``, ``39.7%``, or ``nDCG@10=39.7``; above 1 it is taken as times 100.

    Raises UsageError for any other text, and for a number above 100.
    """
    if not isinstance(text, str):
        raise UsageError(
            f"the published value is {text!r}, of type {type(text).__name__}",
            fix="give its text, '0.40' say: its last digit shows how it was rounded",
        )
    parts = _PUBLISHED.fullmatch(text.strip())
    if parts is None:
        raise UsageError(
            f"the published value '{text}' is not a number", fix="write it as printed: 0.397 or nDCG@10=0.397"
        )
    measure = None if parts["measure"] is None else parse_metric(parts["measure"])
    digits = parts["number"]
    value, half = float(digits), 0.5 * 10.0 ** -len(digits.partition(".")[2])
    is_percent = bool(parts["percent"]) or (value > 1.0 and (measure is None or measure.name in _UNIT))
    if is_percent:
        value, half = value / 100.0, half / 100.0
        if value > 1.0:
            raise UsageError(f"the published value '{text}' is above 100", fix="write it as printed: 0.397 or 39.7")
    return _Number(text, measure, value, half, is_percent)


class _Outcome(NamedTuple):
    """The value of every judged query, and which queries count (both (Q,)); ``mean`` is over the latter."""

    values: Float64Array
    counted: npt.NDArray[np.bool_]
    mean: float

    def same(self, other: _Outcome) -> bool:
        """Return whether the same queries count, with the same values up to rounding."""
        if not bool((self.counted == other.counted).all()):
            return False
        ours, theirs = self.values[self.counted], other.values[self.counted]
        return bool((np.abs(ours - theirs) <= _ROUNDING * np.maximum(np.abs(ours), 1.0)).all())


class _Scorer:
    """Scores one run under any settings; rankings and values are computed once each."""

    def __init__(self, run: Run, qrels: Qrels) -> None:
        self._run = run
        filled = np.flatnonzero(np.diff(qrels.indptr) > 0)
        self.qrels = qrels.of_queries(Ids.of(qrels.query_ids.take(filled)))
        self._by_id = np.argsort(self.qrels.query_ids.tie_rank)
        self._query = np.repeat(np.arange(len(self.qrels.query_ids)), np.diff(self.qrels.indptr))
        self._longest = int(np.diff(run.indptr).max(initial=0))
        self._has_identical_ids = ranking.without_identical_ids(run).hits < run.hits
        self._rankings: dict[Settings, Run] = {}
        self._values: dict[tuple[Metric, Settings], Float64Array] = {}
        self._outcomes: dict[tuple[Metric, Settings], _Outcome] = {}

    def outcome(self, measure: Metric, settings: Settings) -> _Outcome:
        """Return the measure under the settings."""
        key = (measure, settings)
        if key not in self._outcomes:
            counted, scored = self._counted(settings), self._deciding(settings)
            if (measure, scored) not in self._values:
                self._values[measure, scored] = self._score(measure, scored)
            values = self._values[measure, scored]
            counted_values = values[self._by_id][counted[self._by_id]]
            mean = added_in_order(counted_values) / len(counted_values) if len(counted_values) else float("nan")
            self._outcomes[key] = _Outcome(values, counted, mean)
        return self._outcomes[key]

    def _deciding(self, settings: Settings) -> Settings:
        """Return the settings, with this package's choice if theirs cannot change any query's value on this run."""
        harness_settings = HARNESS.settings
        idle: dict[str, Any] = {"queries": harness_settings.queries}
        if self._run.wide_scores is None:
            idle["precision"] = harness_settings.precision
        if settings.depth is not None and settings.depth >= self._longest and settings.ap_total is not Total.REACHABLE:
            idle["depth"] = None
        if not self._has_identical_ids:
            idle["identical_ids"] = IdenticalIds.KEEP
        return replace(settings, **idle)

    def first_relevant(self, settings: Settings) -> npt.NDArray[np.int64]:
        """Return the rank of the first relevant document of every judged query, 0 if none is returned."""
        reciprocal = self.outcome(Metric("RR"), _ranking_settings(settings)).values
        with np.errstate(divide="ignore"):
            return np.where(reciprocal > 0.0, np.rint(1.0 / reciprocal), 0.0).astype(np.int64)

    def _ranked(self, settings: Settings) -> Run:
        """Return the ranking that is measured, with scores that fall by one at each rank."""
        key = replace(_ranking_settings(settings), relevance=HARNESS.settings.relevance)
        if key not in self._rankings:
            run = self._run
            if settings.identical_ids is IdenticalIds.BEFORE_CUT:
                run = ranking.without_identical_ids(run)
            run = ranking.order_as(run, settings.ties, wide=settings.precision is Precision.DOUBLE)
            run = run if settings.depth is None else ranking.cut(run, settings.depth)
            if settings.identical_ids is IdenticalIds.AFTER_CUT:
                run = ranking.without_identical_ids(run)
            left = np.repeat(run.indptr[1:], np.diff(run.indptr)) - np.arange(run.hits)
            self._rankings[key] = run.with_scores(left.astype(np.float32))
        return self._rankings[key]

    def _counted(self, settings: Settings) -> npt.NDArray[np.bool_]:
        judged = self.qrels.query_ids
        if settings.queries is Countable.JUDGED:
            return np.ones(len(judged), dtype=np.bool_)
        if settings.queries is Countable.RELEVANT:
            return self._relevant(settings.relevance) > 0
        run = self._ranked(self._deciding(settings))
        positions = run.query_ids.rows_of(judged)
        if settings.queries is Countable.OF_RUN:
            return positions >= 0
        hits = np.diff(run.indptr)
        return (positions >= 0) & (np.append(hits, 0)[positions] > 0)

    def _relevant(self, level: float) -> npt.NDArray[np.int64]:
        """Return R of every judged query."""
        return np.bincount(self._query[self.qrels.grades >= level], minlength=len(self.qrels.query_ids))

    def _score(self, measure: Metric, settings: Settings) -> Float64Array:
        run, qrels, level = self._ranked(settings), self.qrels, settings.relevance
        deciding = {aspect.name for aspect in aspects_of(measure)}
        if "ideal" in deciding and settings.ideal is Ideal.RETRIEVED:
            qrels = self._returned(run, measure)
        if "gain" in deciding and settings.gain is Gain.BINARY:
            qrels = replace(qrels, grades=np.minimum(qrels.grades, 1))
        if "gain" in deciding and settings.gain is Gain.EXPONENTIAL:
            measure = measure.with_parameter("dcg", "exp-log2")
        if "recall_point" in deciding and settings.recall_point is RecallPoint.ROUNDED:
            measure = Metric(INTERPOLATED[measure.name], measure.cutoff, measure.parameters)
        if "recall_total" in deciding and settings.recall_total is Total.REACHABLE:
            measure = Metric("R_cap", measure.cutoff, measure.parameters)
        values = self._measured(measure, run, qrels, level)
        if "ap_total" in deciding and settings.ap_total is not Total.ALL:
            values = values * self._ap_factor(measure, settings, run)
        return values

    def _measured(self, measure: Metric, run: Run, qrels: Qrels, level: float) -> Float64Array:
        """Return the values of all judged queries, for hits in the order of ``run``."""
        values = np.zeros(len(self.qrels.query_ids), dtype=np.float64)
        has_judgments = np.diff(qrels.indptr) > 0
        if has_judgments.any() and run.hits:
            scores = score(
                run, qrels, [measure], ties=TieRule.ENGINE, queries=QuerySet.JUDGED, relevance=level, unjudged=True
            )
            values[has_judgments] = scores.values[:, 0]
        return values

    def _returned(self, run: Run, measure: Metric) -> Qrels:
        """Return the judgments of documents in the top k only."""
        top = ranking.cut(run, measure.cutoff) if isinstance(measure.cutoff, int) else run
        documents = len(top.doc_ids)
        hits = np.repeat(np.arange(len(top.query_ids)), np.diff(top.indptr)) * documents + top.rows
        query = top.query_ids.rows_of(self.qrels.query_ids)[self._query].astype(np.int64)
        document = top.doc_ids.rows_of(self.qrels.doc_ids)[self.qrels.rows]
        is_judged_hit = (query >= 0) & (document >= 0) & np.isin(query * documents + document, hits)
        indptr = np.concatenate([[0], np.cumsum(is_judged_hit)])[self.qrels.indptr]
        return replace(
            self.qrels, indptr=indptr, rows=self.qrels.rows[is_judged_hit], grades=self.qrels.grades[is_judged_hit]
        )

    def _ap_factor(self, measure: Metric, settings: Settings, run: Run) -> Float64Array:
        """Return R divided by the convention's divisor of AP; 0 if that divisor is 0."""
        stated = measure.parameter("rel")
        level = settings.relevance if stated is None else float(stated)
        relevant = self._relevant(level).astype(np.float64)
        if settings.ap_total is Total.REACHABLE:
            deepest = [depth for depth in (measure.cutoff, settings.depth) if depth is not None]
            total = np.minimum(relevant, min(deepest, default=np.inf))
        else:
            returned = Metric("R", measure.cutoff) if measure.cutoff is not None else Metric("SetR")
            total = np.rint(self._measured(returned, run, self.qrels, level) * relevant)
        return np.divide(relevant, total, out=np.zeros_like(relevant), where=total > 0)


def _ranking_settings(settings: Settings) -> Settings:
    """Return only the settings that decide the ranking and which documents in it are relevant."""
    names = ("ties", "precision", "identical_ids", "depth", "relevance")
    return replace(HARNESS.settings, **{name: getattr(settings, name) for name in names})


def _change(aspect: Aspect, our_settings: Settings, their_settings: Settings) -> Change:
    ours, theirs = getattr(our_settings, aspect.name), getattr(their_settings, aspect.name)
    return Change(aspect.title, aspect.describe(ours), aspect.describe(theirs))


def _replace_aspects(ours: Settings, aspects: Sequence[Aspect], theirs: Settings) -> Settings:
    return replace(ours, **{aspect.name: getattr(theirs, aspect.name) for aspect in aspects})


def _difference(
    scorer: _Scorer, measure: Metric, convention: str, our_settings: Settings, their_settings: Settings
) -> Difference | None:
    """Return how the settings differ for a measure, None if they do not."""
    differing = [
        aspect
        for aspect in aspects_of(measure)
        if getattr(our_settings, aspect.name) != getattr(their_settings, aspect.name)
    ]
    if not differing:
        return None
    ours, theirs = scorer.outcome(measure, our_settings), scorer.outcome(measure, their_settings)
    causes: list[tuple[Aspect, ...]] = []
    for size in range(1, len(differing) + 1) if not ours.same(theirs) else ():
        causes = [
            chosen
            for chosen in combinations(differing, size)
            if scorer.outcome(measure, _replace_aspects(our_settings, chosen, their_settings)).same(theirs)
        ]
        if causes:
            break
    together = [aspect for aspect in differing if any(aspect in cause for cause in causes if len(cause) > 1)]
    used = {aspect.name for cause in causes for aspect in cause}
    return Difference(
        measure,
        convention,
        ours.mean,
        theirs.mean,
        tuple(tuple(_change(aspect, our_settings, their_settings) for aspect in cause) for cause in causes),
        tuple(
            (
                _change(aspect, our_settings, their_settings),
                scorer.outcome(measure, _replace_aspects(our_settings, [aspect], their_settings)).mean,
            )
            for aspect in together
        ),
        tuple(_change(aspect, our_settings, their_settings) for aspect in differing if aspect.name not in used),
        _examples(scorer, our_settings, their_settings, ours, theirs) if causes else (),
    )


def _examples(
    scorer: _Scorer, our_settings: Settings, their_settings: Settings, ours: _Outcome, theirs: _Outcome
) -> tuple[Example, ...]:
    """Return the queries whose values differ most, starting with queries that both conventions count."""
    gap = np.where(ours.counted & theirs.counted, np.abs(ours.values - theirs.values), 0.0)
    moved = np.argsort(-gap, kind="stable")[: np.count_nonzero(gap > _ROUNDING)][:_EXAMPLES]
    only_one = np.flatnonzero(ours.counted != theirs.counted)[: _EXAMPLES - len(moved)]
    our_ranks, their_ranks = scorer.first_relevant(our_settings), scorer.first_relevant(their_settings)

    def value(outcome: _Outcome, position: int) -> float | None:
        return float(outcome.values[position]) if outcome.counted[position] else None

    return tuple(
        Example(
            scorer.qrels.query_ids[query], value(ours, query), value(theirs, query),
            int(our_ranks[query]) or None, int(their_ranks[query]) or None,
        )
        for query in (int(query) for query in (*moved, *only_one))
    )  # fmt: skip


def _conventions(measure: Metric, drop_identical: bool) -> Iterator[tuple[Convention, Settings]]:
    """Yield this package's convention, then each that computes the metric, with its settings for it."""
    rule = IdenticalIds.BEFORE_CUT if drop_identical else IdenticalIds.KEEP
    yield HARNESS, replace(HARNESS.settings, identical_ids=rule)
    for convention in CONVENTIONS:
        if convention.offers(measure):
            yield convention, convention.settings_for(measure, drop_identical=drop_identical)


def _published(scorer: _Scorer, measures: Sequence[Metric], number: _Number, drop_identical: bool) -> PublishedMatch:
    """Return the conventions and the single changes of them that give the number.

    A single change is listed only if its convention does not give the number itself, and once for equal settings.
    """
    matches: list[Match] = []
    missed: list[tuple[float, Match]] = []

    def gives_number(measure: Metric, convention: Convention, change: Change | None, settings: Settings) -> bool:
        value = scorer.outcome(measure, settings).mean
        printed = value if convention.decimals is None else round(value, convention.decimals)
        gap = min(abs(candidate - number.value) for candidate in (value, printed))
        match = Match(measure, convention.name, change, value)
        if gap <= number.half + _ROUNDING:
            matches.append(match)
            return True
        if not np.isnan(gap):
            missed.append((gap, match))
        return False

    for measure in measures if number.measure is None else [number.measure]:
        conventions = list(_conventions(measure, drop_identical))
        other_names = [
            (convention_name, settings)
            for convention_name, settings in conventions
            if not gives_number(measure, convention_name, None, settings)
        ]
        seen = {settings for _, settings in conventions}
        for convention, settings in other_names:
            for change, changed in _changed(scorer, measure, settings):
                if changed not in seen:
                    seen.add(changed)
                    gives_number(measure, convention, change, changed)
    nearest = min(missed, key=lambda candidate: candidate[0])[1] if missed and not matches else None
    return PublishedMatch(number.text, number.measure, tuple(matches), nearest)


def _changed(scorer: _Scorer, measure: Metric, base: Settings) -> Iterator[tuple[Change, Settings]]:
    """Yield the settings with one aspect changed, if that changes any query's value."""
    unchanged = scorer.outcome(measure, base)
    for aspect in aspects_of(measure):
        for value in aspect.alternatives:
            if value != getattr(base, aspect.name):
                settings = replace(base, **{aspect.name: value})
                if not scorer.outcome(measure, settings).same(unchanged):
                    yield _change(aspect, base, settings), settings
