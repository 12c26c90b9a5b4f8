"""Verdicts: every dataset, backend and metric of two results, judged as one family."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from harness.data.ranking import RankingDigest
from harness.data.types import Float64Array
from harness.errors import UnknownNameError
from harness.metrics import is_mean, parse_metrics
from harness.pipeline.regress.pairing import ComparedDataset, Pair
from harness.results.regression_schema import MetricJudgement
from harness.results.schema import SpreadValue, TrialResult
from harness.results.snapshot import OVERLAP, ResultSnapshot
from harness.stats import Change, Judgement, NoiseFloor, TestName, judge_family
from harness.stats.mean_error import sum_of_variances
from harness.wording import counted

_MOST_DIGITS = 12
"""Means that differ beyond so many decimals are the same: what remains is rounding."""
MARGIN = 0.01
"""Differences of a mean within ± this much count as the same unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How changes are judged.

    ``allowed`` maps metrics to the drop of their mean that the gate lets pass; ``allowed_drop`` is that of all others,
    None for no gate on them. The overlap with a reference is only gated where ``allowed`` names it, or there are no
    metrics.
    """

    margin: float = MARGIN
    allowed_drop: float | None = 0.0
    allowed: Mapping[str, float] = field(default_factory=dict)
    test: TestName = "randomisation"
    seed: int = 42

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Raise UnknownNameError where a drop is allowed of a metric that is not among the known ones."""
        for name in self.allowed:
            if name not in known:
                raise UnknownNameError("metric of both results", name, known)


def noise_warnings(compared: ComparedDataset) -> list[str]:
    """Warn that verdicts may be noise: of backends whose builds differ, where a side has no spread over builds."""
    once: list[str] = []
    combined: list[str] = []
    for pair in compared.finished:
        results = compared.trials(pair)
        if _may_be_noise(*results):
            (combined if any(trial.stages is not None for trial in results) else once).append(pair.after)
    warnings = []
    if once:
        by = "harness compare --rebuilds 3" if compared.after.kind == "check" else "--rebuilds 3, for both results,"
        why = "every build gives other rankings, and one build is a sample, so a difference may be noise"
        warnings.append(f"no noise floor for {', '.join(once)}: {why}; {by} measures it")
    if combined:
        why = "it is made of engines whose every build gives other rankings, so a difference may be noise"
        warnings.append(
            f"no noise floor for {', '.join(combined)}: {why}; --rebuilds 3 measures these engines by themselves"
        )
    return warnings


def metric_warnings(before: ResultSnapshot, after: ResultSnapshot) -> list[str]:
    """Warn of metrics that are not judged because a result lacks them."""
    lacking = {
        "later": [name for name in before.measures if name not in after.measures],
        "earlier": [name for name in after.measures if name not in before.measures],
    }
    return [
        f"not judged, because the {result} result lacks the metric: {', '.join(names)}"
        for result, names in lacking.items()
        if names
    ]


def _may_be_noise(before: TrialResult, after: TrialResult) -> bool:
    """Tell whether a backend's builds differ unmeasured; what agreed with its reference both times has no noise."""
    both = before, after
    if all(trial.parity is not None and trial.parity.different == 0 for trial in both):
        return False
    return any(trial.deterministic is False for trial in both) and any(trial.spread is None for trial in both)


class _Question(NamedTuple):
    """One figure of one pair on one dataset: values of the queries that both sides have."""

    place: int
    pair: Pair
    figure: str
    before: Float64Array
    after: Float64Array
    noise: NoiseFloor | None
    allowed_drop: float | None
    within_ties: bool


def judge_pairs(datasets: Sequence[ComparedDataset], rules: Rules) -> list[dict[Pair, list[MetricJudgement]]]:
    """Judge every metric of every pair over the common queries that both sides were evaluated on, for each dataset.

    Everything on all datasets is one family, by whose size p-values are adjusted.
    Beside the metrics stands the overlap with the reference of backends that are not exact; in their place, where there
    are none, that of all. Sums and geometric means are
    not judged, nor is a metric that a side lacks. Raises UnknownNameError when ``rules`` name a metric that is not
    there.
    """
    questions = [
        question
        for place, dataset in enumerate(datasets)
        for pair in dataset.finished
        for question in _questions(place, dataset, pair, rules)
    ]
    rules.refuse_unknown({question.figure for question in questions})
    judged: list[dict[Pair, list[MetricJudgement]]] = [{pair: [] for pair in dataset.finished} for dataset in datasets]
    changes = [
        Change(
            question.before, question.after, rules.margin, question.allowed_drop, question.noise, question.within_ties
        )
        for question in questions
    ]
    family = judge_family(changes, seed=rules.seed, test=rules.test)
    for question, judgement in zip(questions, family, strict=True):
        judged[question.place][question.pair].append(_judged(question, judgement, rules))
    return judged


def _questions(place: int, compared: ComparedDataset, pair: Pair, rules: Rules) -> list[_Question]:
    sides = compared.before.figures[pair.before], compared.after.figures[pair.after]
    results, ties = compared.trials(pair), _Ties(compared.before, compared.after, pair)
    names = [name for name in sides[1] if name in sides[0]]
    metrics = [name for name in names if not name.startswith(OVERLAP) and is_mean(parse_metrics([name])[0])]
    questions = []
    for name in [*metrics, *(name for name in names if name.startswith(OVERLAP))]:
        both = [query for query in compared.queries if all(query in side[name] for side in sides)]
        earlier, later = (np.array([side[name][query] for query in both], dtype=np.float64) for side in sides)
        exact = bool(metrics) and name.startswith(OVERLAP) and bool(np.all(earlier == 1.0) and np.all(later == 1.0))
        if both and not exact:
            changed = [both[at] for at in np.flatnonzero(earlier != later).tolist()]
            noise, allowed = _noise(results, name), _allowed(name, rules, metrics)
            questions.append(_Question(place, pair, name, earlier, later, noise, allowed, ties.explain(changed)))
    return questions


class _Ties:
    """The rankings of one pair, looked at where a value differs: whether they differ in the order of ties alone."""

    def __init__(self, before: ResultSnapshot, after: ResultSnapshot, pair: Pair) -> None:
        contents = before.report.dataset.content, after.report.dataset.content
        same_judgments = (
            contents[0] is not None and contents[1] is not None and (contents[0].judgments == contents[1].judgments)
        )
        self._comparable = same_judgments and before.k == after.k
        self._before, self._after, self._pair = before, after, pair

    @cached_property
    def _digests(self) -> tuple[Mapping[str, RankingDigest], Mapping[str, RankingDigest]]:
        return self._before.ranking_digests(self._pair.before), self._after.ranking_digests(self._pair.after)

    def explain(self, changed: Sequence[str]) -> bool:
        """Return whether ties account for all that changed; unknown of other judgments, or without scores."""
        if not changed or not self._comparable:
            return False
        before, after = self._digests
        return all(
            query in before
            and query in after
            and before[query].order != after[query].order
            and before[query].scores == after[query].scores
            for query in changed
        )


def _allowed(name: str, rules: Rules, metrics: Sequence[str]) -> float | None:
    if name in rules.allowed:
        return rules.allowed[name]
    return None if name.startswith(OVERLAP) and metrics else rules.allowed_drop


def _noise(results: Sequence[TrialResult], figure: str) -> NoiseFloor | None:
    """Return the spread of a difference of two builds: the variances over the builds of each side, added up."""
    parts = []
    for result in results:
        value = _spread(result, figure)
        if result.spread is not None and value is not None and value.min < value.max:
            parts.append((value.sd**2, float(result.spread.builds - 1)))
    return sum_of_variances(parts) if parts else None


def _spread(result: TrialResult, figure: str) -> SpreadValue | None:
    if result.spread is None:
        return None
    if figure.startswith(OVERLAP):
        return result.spread.reference_overlap.get(figure.removeprefix(OVERLAP))
    return result.spread.metrics.get(figure)


def _judged(question: _Question, judgement: Judgement, rules: Rules) -> MetricJudgement:
    paired, gate, interval = judgement.paired, judgement.gate, judgement.paired.interval
    judged = MetricJudgement(
        metric=question.figure,
        queries=len(question.before),
        before=float(np.mean(question.before)),
        after=float(np.mean(question.after)),
        difference=paired.difference,
        ci_low=interval.low if interval is not None else None,
        ci_high=interval.high if interval is not None else None,
        test=paired.test,
        p=judgement.p,
        p_adjusted=judgement.p_adjusted,
        effect=paired.effect,
        wins=paired.wins,
        ties=paired.ties,
        losses=paired.losses,
        margin=rules.margin,
        equivalence_p=judgement.equivalence.p if judgement.equivalence is not None else None,
        noise_floor=judgement.noise.size() if judgement.noise is not None else None,
        detectable=judgement.detectable,
        queries_needed=judgement.queries_needed,
        verdict=judgement.verdict,
        allowed_drop=question.allowed_drop,
        gate=("failed" if gate.failed else "passed") if gate.allowed_drop is not None else None,
        gate_p=gate.p_adjusted,
        reason=_reason(judgement, rules, within_ties=question.within_ties),
    )
    return judged.model_copy(update={"sentence": sentence(judged, judgement.comparisons, gate.comparisons)})


def sentence(metric: MetricJudgement, comparisons: int = 1, gated_comparisons: int = 1) -> str:
    """Say in plain words what happened to a metric: how far, on how many queries, what is allowed, how likely.

    Args:
        metric: The judgement.
        comparisons: Over how many comparisons p of the difference is corrected.
        gated_comparisons: The same of the gate.
    """
    before, after, size = _moved(metric.before, metric.after, metric.difference)
    if metric.wins == metric.losses == 0:
        return f"{metric.metric} is {after} as before: no query differs"
    moved = f"fell by {size}" if metric.difference < 0 else f"rose by {size}"
    if metric.difference == 0:
        moved = "stayed the same"
    lost = counted(metric.losses, "query lost", "queries lost")
    parts = [f"{metric.metric} {moved} ({before} → {after}): {lost}, {metric.wins:,} gained"]
    drop, gated = metric.allowed_drop, metric.gate is not None and metric.difference < 0
    if drop is not None:
        parts.append(f"allowed {drop:g}")
    p = metric.gate_p if gated else metric.p_adjusted
    if p is not None:
        beyond = f"if only {drop:g} were lost" if gated and drop else "without a change"
        tests = gated_comparisons if gated else comparisons
        corrected = f" after correction for {tests} comparisons" if tests > 1 else ""
        parts.append(f"chance of this {beyond} {_percent(p)}{corrected}")
    if metric.verdict in ("same", "undecided") and metric.detectable is not None:
        queries, largest = counted(metric.queries, "query"), max(metric.before, metric.after)
        shown = f"would have shown a difference of {_plain(metric.detectable)}"
        if metric.detectable > 1 >= largest:  # of means of at most 1, none is so large
            shown = f"{'is' if metric.queries == 1 else 'are'} too few to show any difference"
        parts.append(f"{queries} {shown}")
    return "; ".join(parts)


def _moved(before: float, after: float, difference: float) -> tuple[str, str, str]:
    """Write both ends of a move and its size, with as many digits as it takes to tell the ends apart."""
    if abs(difference) < 10.0**-_MOST_DIGITS:
        return _plain(before), _plain(after), _plain(0.0)
    for digits in range(3, _MOST_DIGITS + 1):
        first, last, size = (f"{value:.{digits}f}" for value in (before, after, abs(difference)))
        if first != last and float(size) > 0.0:
            break
    return first, last, size


def _plain(value: float) -> str:
    """Write a figure with three decimals, or where these are zeros with the first digit that is not."""
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.0005 else f"{value:.1g}"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "under 0.1%"


def _reason(judgement: Judgement, rules: Rules, *, within_ties: bool) -> str:
    """Name the step of the decision that settled the verdict."""
    paired = judgement.paired
    if judgement.verdict == "same":
        if paired.wins == paired.losses == 0:
            return "equal on every query"
        if within_ties:
            return "the rankings differ only in the order of documents with equal scores"
        return f"within ±{rules.margin:g} (TOST)"
    if judgement.verdict == "undecided" and judgement.noise is not None and judgement.queries_needed is None:
        return "builds with the same settings differ as much, so that no number of queries would decide it"
    if judgement.verdict == "undecided":
        return "the differences scatter too much for so few queries"
    if judgement.gate.failed:
        beyond = f"more than {judgement.gate.allowed_drop:g} " if judgement.gate.allowed_drop else ""
        return f"{beyond}lower, by the one-sided test of the gate"
    return f"significantly {'higher' if paired.difference > 0 else 'lower'}"
