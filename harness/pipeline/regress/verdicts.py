"""Verdicts: every dataset, backend and metric of two results, judged as one family."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np

from harness.data.ranking import RankingDigest
from harness.data.types import Float64Array
from harness.errors import UnknownNameError
from harness.metrics import improvement, is_mean, lower_is_better, parse_metrics
from harness.pipeline.regress.pairing import ComparedDataset, Pair
from harness.results.regression_schema import MetricJudgement, NotJudgedRule
from harness.results.schema import TrialResult
from harness.results.snapshot import OVERLAP, ResultSnapshot
from harness.stats import Change, Gate, GateRule, Judgement, NoiseFloor, TestName, judge_family
from harness.stats.mean_error import sum_of_variances
from harness.wording import counted, too_few_to_show

_MOST_DIGITS = 12
"""Means that are equal to this many decimals are the same: the rest is rounding."""
ALPHA = 0.05
"""The level of every test."""
MARGIN = 0.01
"""Differences of a mean within ± this much count as the same unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How changes are judged.

    ``allowed`` maps metrics to the drop of their mean that the gate lets pass; ``allowed_drop`` is the drop of all
    others, None for no gate on them. The overlap with a reference is only gated if ``allowed`` names it, or there are
    no metrics. ``rule`` says how the gate decides, ``when_not_judged`` its outcome if it could not have failed.
    """

    margin: float = MARGIN
    allowed_drop: float | None = 0.0
    allowed: Mapping[str, float] = field(default_factory=dict)
    test: TestName = "randomisation"
    seed: int = 42
    rule: GateRule = "test"
    when_not_judged: NotJudgedRule = "invalid"

    @property
    def gated(self) -> bool:
        """Whether there is a gate at all."""
        return self.allowed_drop is not None or bool(self.allowed)

    def refuse_unknown(self, metrics: Collection[str]) -> None:
        """Raise UnknownNameError if a drop is allowed for an unknown metric."""
        for name in self.allowed:
            if name not in metrics:
                raise UnknownNameError("metric of both results", name, metrics)


def noise_warnings(compared: ComparedDataset) -> list[str]:
    """Warn that verdicts may be noise: of backends whose builds differ, if a side has no spread over builds."""
    noisy = [pair for pair in compared.finished if _may_be_noise(*compared.trials(pair))]
    combined = [pair.after for pair in noisy if any(trial.stages is not None for trial in compared.trials(pair))]
    once = [pair.after for pair in noisy if pair.after not in combined]
    measured = "harness compare --rebuilds 3" if compared.after.kind == "check" else "--rebuilds 3, for both results,"
    sample = f"every build gives different rankings, so a difference between single builds may be noise; {measured}"
    parts = "it is made of engines whose every build gives other rankings, so a difference may be noise"
    reasons = [
        (once, f"{sample} measures it"),
        (combined, f"{parts}; --rebuilds 3 measures these engines by themselves"),
    ]
    return [f"no noise floor for {', '.join(labels)}: {reason}" for labels, reason in reasons if labels]


def metric_warnings(
    before: ResultSnapshot, after: ResultSnapshot, explained: Collection[str] = frozenset()
) -> list[str]:
    """Warn of metrics that are not judged because a result lacks them; not of ``explained`` ones."""
    lacking = {
        "later": [name for name in before.measures if name not in {*after.measures, *explained}],
        "earlier": [name for name in after.measures if name not in {*before.measures, *explained}],
    }
    return [
        f"not judged, because the {result} result lacks the metric: {', '.join(names)}"
        for result, names in lacking.items()
        if names
    ]


def _may_be_noise(before: TrialResult, after: TrialResult) -> bool:
    """Return whether a backend's builds differ unmeasured; agreement with its reference both times means no noise."""
    both = before, after
    if all(trial.parity is not None and trial.parity.different == 0 for trial in both):
        return False
    return any(trial.deterministic is False for trial in both) and any(trial.spread is None for trial in both)


class _Question(NamedTuple):
    """One figure of one pair on one dataset, with its values on the queries that both sides have."""

    position: int
    pair: Pair
    figure: str
    change: Change
    by_people: tuple[float, float] | None


class JudgedPairs(NamedTuple):
    """The verdicts on each pair of each dataset, and over how many ``tests`` p is corrected."""

    metrics: list[dict[Pair, list[MetricJudgement]]]
    tests: int


def judge_pairs(datasets: Sequence[ComparedDataset], rules: Rules) -> JudgedPairs:
    """Judge every metric of every pair over the common queries that both sides were evaluated on, for each dataset.

    Everything on all datasets is one family, by whose size p-values are adjusted; metrics of a pair that are equal on
    every query count once. In addition to the metrics there is the overlap with the reference for backends that are not
    exact, or for all if there are no metrics. Sums and geometric means are not judged, nor is a metric that a side
    lacks. Raises UnknownNameError if ``rules`` name a missing metric.
    """
    questions = [
        question
        for position, dataset in enumerate(datasets)
        for pair in dataset.finished
        for question in _questions(position, dataset, pair, rules)
    ]
    rules.refuse_unknown({question.figure for question in questions})
    judged: list[dict[Pair, list[MetricJudgement]]] = [{pair: [] for pair in dataset.finished} for dataset in datasets]
    changes = [question.change for question in questions]
    family = judge_family(changes, seed=rules.seed, test=rules.test, alpha=ALPHA)
    for question, judgement in zip(questions, family, strict=True):
        judged[question.position][question.pair].append(_judged(question, judgement, rules))
    tests = max((one.comparisons for one in family if one.p is not None and one.paired.changed), default=0)
    return JudgedPairs(judged, tests)


def _questions(position: int, compared: ComparedDataset, pair: Pair, rules: Rules) -> Iterator[_Question]:
    sides = compared.before.figures[pair.before], compared.after.figures[pair.after]
    names = [name for name in sides[1] if name in sides[0]]
    metrics = [name for name in names if not name.startswith(OVERLAP) and is_mean(parse_metrics([name])[0])]
    only_ties_moved = _tie_check(compared, pair)
    for name in [*metrics, *(name for name in names if name.startswith(OVERLAP))]:
        both = [query for query in compared.queries if all(query in side[name] for side in sides)]
        earlier, later = (
            _more_is_better(name, np.array([side[name][query] for query in both], dtype=np.float64)) for side in sides
        )
        exact = bool(metrics) and name.startswith(OVERLAP) and bool(np.all(earlier == 1.0) and np.all(later == 1.0))
        if both and not exact:
            changed = [both[number] for number in np.flatnonzero(earlier != later).tolist()]
            default_drop = None if name.startswith(OVERLAP) and metrics else rules.allowed_drop
            allowed, noise = rules.allowed.get(name, default_drop), _noise(compared.trials(pair), name)
            change = Change(
                before=earlier,
                after=later,
                margin=rules.margin,
                allowed_drop=allowed,
                noise=noise,
                within_ties=only_ties_moved(changed),
                rule=rules.rule,
                backend=(position, pair),
            )
            yield _Question(position, pair, name, change, _human_means(compared, pair, name))


def _human_means(compared: ComparedDataset, pair: Pair, name: str) -> tuple[float, float] | None:
    """Return both means by people's judgments, over the queries that have both; None if no model gave a grade."""
    sides = (compared.before, pair.before), (compared.after, pair.after)
    if not any(side.human for side, _ in sides) or name.startswith(OVERLAP):
        return None
    values = [(side.human or side.figures)[label].get(name, {}) for side, label in sides]
    both = [query for query in compared.queries if all(query in of_side for of_side in values)]
    means = [float(np.mean([of_side[query] for query in both])) if both else 0.0 for of_side in values]
    return (means[0], means[1]) if both else None


def _more_is_better(name: str, values: Float64Array) -> Float64Array:
    """Return values of a figure so that more is better, as tests and gates read them: 1 - value of forbidden hits."""
    return 1.0 - values if lower_is_better(name) else values


def _tie_check(compared: ComparedDataset, pair: Pair) -> Callable[[Sequence[str]], bool]:
    """Return a function that tests whether some queries' rankings differ only in the order of equal scores.

    False if the judgments differ, or the scores are not known.
    """
    before, after = compared.before, compared.after
    comparable = compared.relation.judgments == "same" and before.k == after.k

    @cache
    def digests() -> tuple[Mapping[str, RankingDigest], Mapping[str, RankingDigest]]:
        return before.ranking_digests(pair.before), after.ranking_digests(pair.after)

    def only_ties_moved(queries: Sequence[str]) -> bool:
        if not queries or not comparable:
            return False
        earlier, later = digests()
        return all(
            query in earlier
            and query in later
            and earlier[query].order != later[query].order
            and earlier[query].scores == later[query].scores
            for query in queries
        )

    return only_ties_moved


def _noise(results: Sequence[TrialResult], figure: str) -> NoiseFloor | None:
    """Return the spread of a difference of two builds: the variances over the builds of each side, added up."""
    parts = []
    for spread in (result.spread for result in results if result.spread is not None):
        depth = figure.removeprefix(OVERLAP)
        value = spread.metrics.get(figure) if depth == figure else spread.reference_overlap.get(depth)
        if value is not None and value.min < value.max:
            parts.append((value.sd**2, float(spread.builds - 1)))
    return sum_of_variances(parts) if parts else None


def _judged(question: _Question, judgement: Judgement, rules: Rules) -> MetricJudgement:
    name, paired, gate, change = question.figure, judgement.paired, judgement.gate, question.change
    sides = (_more_is_better(name, np.asarray(side, dtype=np.float64)) for side in (change.before, change.after))
    before, after = (float(values.mean()) for values in sides)
    interval = paired.interval
    ends = [improvement(name, end) for end in (interval.low, interval.high)] if interval is not None else []
    judged = MetricJudgement(
        metric=name,
        queries=paired.n,
        before=before,
        after=after,
        human_before=question.by_people[0] if question.by_people is not None else None,
        human_after=question.by_people[1] if question.by_people is not None else None,
        difference=improvement(name, paired.difference),
        ci_low=min(ends, default=None),
        ci_high=max(ends, default=None),
        test=paired.test,
        p=judgement.p,
        p_adjusted=judgement.p_adjusted,
        effect=None if paired.effect is None else improvement(name, paired.effect),
        wins=paired.wins,
        ties=paired.ties,
        losses=paired.losses,
        margin=rules.margin,
        equivalence_p=judgement.equivalence.p if judgement.equivalence is not None else None,
        noise_floor=judgement.noise.size() if judgement.noise is not None else None,
        detectable=judgement.detectable,
        queries_needed=judgement.queries_needed,
        verdict=judgement.verdict,
        allowed_drop=change.allowed_drop,
        gate=gate.state,
        gate_p=gate.p_adjusted,
        total_loss_p=gate.total_loss.p_adjusted if gate.total_loss is not None else None,
        gate_reason=_why_not_judged(name, gate, paired.n, before),
        reason=_reason(name, judgement, rules, within_ties=change.within_ties),
    )
    return judged.model_copy(
        update={"sentence": sentence(judged, judgement.comparisons, gate.comparisons, rule=rules.rule)}
    )


def _why_not_judged(name: str, gate: Gate, queries: int, before: float) -> str:
    """Say why a gate could not have failed, and what helps; empty for a gate that was judged."""
    if gate.state != "not judged":
        return ""
    loss, drop = gate.total_loss, gate.allowed_drop or 0.0
    most = 1.0 - before if lower_is_better(name) else before
    if most <= 0.0:
        return f"there is nothing to lose: the mean was {before:g}"
    if most <= drop or math.isclose(most, drop):
        return f"losing everything would be allowed: the mean was {_plain(before)}, and the allowed drop is {drop:g}"
    queries_text = counted(queries, "query")
    if loss is None or loss.p is None or loss.p_adjusted is None:
        return f"too few queries: no test can show a loss with {queries_text}"
    corrected = f" after correction for {loss.comparisons} comparisons" if loss.comparisons > 1 else ""
    enough = math.floor(math.log2(loss.comparisons / ALPHA)) + 1
    helps = f"; {enough} queries are the fewest that can" if loss.p <= 0.5**queries else ""
    return (
        f"too few queries: if {f'all {queries_text}' if queries > 1 else 'the query'} lost everything, the chance "
        "of that "
        f"would be {_percent(loss.p_adjusted)}{corrected}, and a gate fails below {ALPHA:.0%}{helps}"
    )


def sentence(
    metric: MetricJudgement, comparisons: int = 1, gated_comparisons: int = 1, *, rule: GateRule = "test"
) -> str:
    """Describe in plain words the change of a metric: how far, on how many queries, what is allowed, how likely.

    Args:
        metric: The judgement.
        comparisons: Over how many comparisons p of the difference is corrected.
        gated_comparisons: The same of the gate.
        rule: How the gate decides.
    """
    before, after, size = _moved(metric.before, metric.after, metric.difference)
    if metric.wins == metric.losses == 0:
        return f"{metric.metric} is {after} as before: no query differs"
    moved = f"fell by {size}" if metric.difference < 0 else f"rose by {size}"
    if metric.difference == 0:
        moved = "stayed the same"
    lost = counted(metric.losses, "query lost", "queries lost")
    counts = f"{lost}, {metric.wins:,} gained"
    drop, gated = metric.allowed_drop, metric.gate is not None and improvement(metric.metric, metric.difference) < 0
    too_far = rule == "tolerance" and metric.gate == "failed"
    parts = [f"{metric.metric} {moved} ({before} → {after}): {counts}"]
    if too_far:
        parts = [f"{beyond_tolerance(metric, 3)}: {before} → {after}, {counts}"]
    if drop is not None and not too_far:
        parts.append(f"allowed {drop:g}")
    p = metric.gate_p if gated else metric.p_adjusted
    if p is not None:
        more = drop if gated else None
        beyond = f"if only {more:g} were lost" if more else "without a change"
        tests = gated_comparisons if gated else comparisons
        corrected = f" after correction for {tests} comparisons" if tests > 1 else ""
        chance = f"chance of this {beyond} {_percent(p)}"
        if _percent(p) == "100.0%":  # as p is if its correction ends at 1
            chance = f"no evidence {f'that more than {more:g} were lost' if more else 'of a change'}"
        parts.append(f"{chance}{corrected}")
    if metric.verdict in ("same", "undecided") and metric.detectable is not None:
        too_few = too_few_to_show(metric.queries, metric.detectable, metric.before, metric.after)
        sensitivity = f"{counted(metric.queries, 'query')} would have shown a difference of {_plain(metric.detectable)}"
        parts.append(too_few or sensitivity)
    return "; ".join(parts)


def beyond_tolerance(metric: MetricJudgement, digits: int) -> str:
    """Say how far a mean fell that failed by its tolerance, with as many digits as show that it is beyond."""
    drop, size = metric.allowed_drop or 0.0, abs(metric.difference)
    moved = "rose" if metric.difference > 0 else "fell"
    sizes = (f"{size:.{more}f}" for more in range(digits, _MOST_DIGITS + 1))
    fell = next((text for text in sizes if float(text) > drop), str(size))
    return f"{metric.metric} {moved} by {fell}, more than the allowed {drop:g} (rule: tolerance)"


def _moved(before: float, after: float, difference: float) -> tuple[str, str, str]:
    """Write both ends of a move and its size, with enough digits to distinguish the ends."""
    if abs(difference) < 10.0**-_MOST_DIGITS:
        return _plain(before), _plain(after), _plain(0.0)
    for digits in range(3, _MOST_DIGITS + 1):
        first, last, size = (f"{value:.{digits}f}" for value in (before, after, abs(difference)))
        if first != last and float(size) > 0.0:
            break
    return first, last, size


def _plain(value: float) -> str:
    """Write a figure with three decimals, or if these are zeros with the first digit that is not."""
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.0005 else f"{value:.1g}"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "under 0.1%"


def _reason(name: str, judgement: Judgement, rules: Rules, *, within_ties: bool) -> str:
    """Name the step of the decision that settled the verdict."""
    paired, gate = judgement.paired, judgement.gate
    if judgement.verdict == "same":
        if not paired.changed:
            return "equal on every query"
        if within_ties:
            return "the rankings differ only in the order of documents with equal scores"
        return f"within ±{rules.margin:g} (TOST)"
    if judgement.verdict == "undecided" and judgement.noise is not None and judgement.queries_needed is None:
        return "builds with the same settings differ as much, so that no number of queries would decide it"
    if judgement.verdict == "undecided" and _too_few_differ(judgement):
        return f"too few queries differ ({paired.wins + paired.losses:,} of {paired.n:,}) for a test to show it"
    if judgement.verdict == "undecided":
        return "the differences scatter too much for so few queries"
    if gate.p_adjusted is not None and gate.p_adjusted < ALPHA:
        beyond = f"more than {gate.allowed_drop:g} " if gate.allowed_drop else ""
        return f"{beyond}{'higher' if lower_is_better(name) else 'lower'}, by the one-sided test of the gate"
    return f"significantly {'higher' if improvement(name, paired.difference) > 0 else 'lower'}"


def _too_few_differ(judgement: Judgement) -> bool:
    """Return whether all differences have the same sign, and even that is likely by chance with so few queries."""
    paired = judgement.paired
    one_sign = paired.wins == 0 or paired.losses == 0
    return one_sign and 2.0 * 0.5 ** (paired.wins + paired.losses) * max(judgement.comparisons, 1) >= ALPHA
