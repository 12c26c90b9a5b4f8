"""State in a few lines the findings of a comparison: failures, quality, parity, speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.document.busy import busy_mark, busy_sentence
from harness.document.cells import interval, join_names, probability, signed
from harness.document.model import Verdict
from harness.metrics import improvement, lower_is_better
from harness.pipeline.probes import PROBES
from harness.report.documents.tuning_verdicts import tuning_verdicts
from harness.results.schema import LeaderboardRow, PairedDifference, Result, ScoringDifference, TrialResult
from harness.results.schema_base import ParityStats
from harness.wording import counted, too_few_to_show

_MAX_NAMES = 3
_LINES = 6
_NONE_BEST = "no backend is significantly best"
_BY_DESIGN = frozenset({"approximate search", "quantisation", "quantisation, approximate search"})
"""Causes that are the point of an approximate or compressed index, and no fault."""


def comparison_verdicts(result: Result) -> list[Verdict]:
    """Return the verdict's lines, the most pressing first."""
    several = len(result.datasets) > 1
    lacking = {info.name for info in result.datasets if info.error is not None}
    lines = [
        Verdict("bad", f"{dataset.name} could not be loaded", dataset.error.message)
        for dataset in result.datasets
        if dataset.error is not None
    ]
    lines += [
        Verdict("bad", f"{_dataset_suffix(trial.dataset, several)}{trial.label} failed", trial.error.message)
        for trial in result.trials
        if trial.error is not None and trial.dataset not in lacking
    ]
    of_datasets = {info.name: result.of_dataset(info.name) for info in result.datasets}
    tuned = [
        replace(line, answers=True)
        for name in of_datasets
        for line in tuning_verdicts(result.tunings, name, _dataset_suffix(name, several))
    ]
    # they come first, because the best of all combinations on all queries looks better than it is
    lines += _capped(tuned, "more tuned backend", "in the tables")
    leaderboard = _leaderboard(result)
    lines += leaderboard
    if len(of_datasets) > _MAX_NAMES:
        lines += _datasets_verdicts(result, list(of_datasets))
    else:
        lines += [
            replace(line, answers=not leaderboard)
            for name, trials in of_datasets.items()
            for line in quality_verdicts(_dataset_suffix(name, several), trials, result)
        ]
    lines += _pitfalls(result)
    lines += [*_parity(of_datasets), *_scoring_functions(result)]
    lines += [*_busy(result.trials), *_speed(of_datasets)]
    probed = [
        Verdict(line.tone, f"{_dataset_suffix(name, several)}{line.headline}", line.detail)
        for name, trials in of_datasets.items()
        for probe in PROBES
        for line in probe.verdicts(trials)
    ]
    return lines + _capped(probed, "more line", "on other measurements, in the tables")


def _dataset_suffix(dataset: str, several: bool) -> str:
    return f"{dataset}: " if several else ""


def reference_of(result: Result, dataset: str | None) -> str | None:
    """Return the backend that others are compared with; the first that did not fail if all pairs are compared.

    Backends are compared on a dataset; those of a check on its questions, whatever documents they search (None).
    """
    compared = next((row.a for row in result.differences if row.dataset == dataset), None)
    if isinstance(result.plan.resolved.get("reference"), str) and compared is not None:
        return compared
    trials = result.trials if dataset is None else result.of_dataset(dataset)
    return next((compared_name(result, trial) for trial in trials if trial.status == "ok"), None)


def compared_on(result: Result, trial: TrialResult) -> str | None:
    """Return the dataset of the differences that are about a trial, None for those of a check."""
    return trial.dataset if result.golden is None else None


def unit_of(result: Result) -> str:
    """Return ``question`` for a check, whose golden set has questions, else ``query``."""
    return "query" if result.golden is None else "question"


def compared_name(result: Result, trial: TrialResult) -> str:
    """Return the name of a trial in differences."""
    return trial.label if result.golden is None else result.trial_name(trial.label, trial.dataset)


def against_reference(result: Result, trial: TrialResult, metric: str) -> PairedDifference | None:
    """Return a backend against the reference on a metric, as backend minus reference; None if it was not tested."""
    dataset, name = compared_on(result, trial), compared_name(result, trial)
    reference = reference_of(result, dataset)
    for row in result.differences:
        if (row.dataset, row.a, row.b, row.metric) == (dataset, reference, name, metric):
            return row
    return None


def _pitfalls(result: Result) -> list[Verdict]:
    """Return findings that may make figures meaningless: a line a check, of its first finding, naming the others."""
    lines = []
    for check in dict.fromkeys(finding.check for finding in result.findings):
        first, *further = [finding for finding in result.findings if finding.check == check]
        suffix = _dataset_suffix(first.dataset, len(result.datasets) > 1) if first.dataset is not None else ""
        about = suffix + (f"{first.backend}: " if first.backend is not None else "")
        also = [finding.backend for finding in further if finding.backend is not None]
        more = f"; also {join_names(also, len(also))}" if also else f"; {len(further)} more below" if further else ""
        lines.append(Verdict("unsure", about + first.message, f"{first.fix} ({check}{more})"))
    return lines


def _leaderboard(result: Result) -> list[Verdict]:
    """Return which backend has the highest mean over datasets, by the first metric, and whether that is significant."""
    board = result.leaderboard
    rows = [row for row in board.rows if row.metric == board.metrics[0] and row.mean is not None] if board else []
    if board is None or len(rows) < 2:
        return []
    first, second = rows[:2]
    over = f"mean {first.metric} over {counted(first.datasets, 'dataset')}"
    highest = [row.backend for row in rows if row.rank == 1]
    if len(highest) > 1:
        sentence = f"{_NONE_BEST}: {join_names(highest)} share the highest {over}"
        return [Verdict("plain", sentence, "; ".join([_mean(first), *board.notes]), answers=True)]
    across = [row for row in result.differences if row.dataset is None and row.metric == first.metric]
    tests = [row for row in across if {row.a, row.b} == {first.backend, second.backend}]
    tested = f"; p {probability(tests[0].p_adjusted)} across {counted(first.datasets, 'dataset')}" if tests else ""
    significant = any(map(_is_significant, tests))
    than_second = f", {'' if significant else 'not '}significantly above {second.backend}" if tests else ""
    sentence = f"{'' if significant else f'{_NONE_BEST}: '}{first.backend} has the highest {over}{than_second}"
    detail = "; ".join([f"{_mean(first)}, then {_mean(second)}{tested}", *board.notes])
    return [Verdict("good" if significant else "plain", sentence, detail, answers=True)]


def _mean(row: LeaderboardRow) -> str:
    return f"{row.backend} {row.mean:.4f}"


def quality_verdicts(title_suffix: str, trials: Sequence[TrialResult], result: Result) -> list[Verdict]:
    """Return which backend is best, whether that is significant, and over how many queries.

    The metric is the first that a requirement names, otherwise the first.
    """
    scored = [trial for trial in trials if trial.metrics]
    if len(scored) < 2:
        return [_single(title_suffix, trial, unit_of(result)) for trial in scored]
    required = [requirement.quantity for requirement in result.requirements]
    metric = min(scored[0].metrics, key=lambda name: name not in required)
    reference = str(reference_of(result, compared_on(result, scored[0])))
    other_trials = [trial for trial in scored if compared_name(result, trial) != reference]
    rows = [row for trial in other_trials if (row := against_reference(result, trial, metric)) is not None]
    means = [trial.metrics[metric].mean for trial in result.trials if metric in trial.metrics]
    return best_verdicts(rows, result.differences, means, title_suffix, unit_of(result))


def best_verdicts(
    rows: Sequence[PairedDifference],
    tests: Sequence[PairedDifference],
    means: Sequence[float],
    title_suffix: str = "",
    unit: str = "query",
) -> list[Verdict]:
    """Return which backend or run is best on a metric, whether that is significant, and over how many queries.

    Args:
        rows: The differences from the reference on the metric; without any there is no verdict.
        tests: All differences between the same backends, on all metrics.
        means: The means of the metric, which show whether it is a share.
        title_suffix: The beginning of the sentence, which names the dataset.
        unit: The noun of what is averaged over.
    """
    if not rows:
        return []
    reference, rows = rows[0].a, sorted(rows, key=_gain, reverse=True)
    equal = [reference, *(row.b for row in rows if row.verdict == "same")]
    differing = [row for row in rows if row.verdict != "same"]
    subject = f"{rows[0].metric} {_over(rows, unit)}"
    if not differing:
        count = _queries(rows[0])
        on_all = f"all {counted(count, unit)}" if count > 1 else f"the only {unit}"
        further = _also(rows, tests) or _not_equal(rows, tests)
        verb = "have the same" if further else "are equal: the same"
        headline = f"{title_suffix}{join_names(equal)} {verb} {rows[0].metric} on {on_all}"
        return [Verdict("plain" if further else "good", headline, further, answers=True)]
    top = differing[0]
    if _gain(top) > 0:
        rivals = [row.b for row in differing[1:] if not _is_above(tests, top, row.b)]
        best, significant = [top.b], _is_significant(top) and not rivals
    else:
        rivals, best = [], equal
        significant = all(_gain(row) < 0 and _is_significant(row) for row in differing)
    verb = "is" if len(best) == 1 else "are"
    parts = [f"{join_names(best)} {verb} best on {subject}" if significant else f"{_NONE_BEST} on {subject}"]
    if len(equal) > 1 and not (significant and best == equal):
        parts.append(f"{join_names(equal)} are equal")
    backends = differing if len(differing) <= _MAX_NAMES else differing[: int(_gain(top) > 0)]
    parts += [_compared(row, reference) for row in backends]
    if len(backends) < len(differing):
        parts.append(_counts(differing[len(backends) :], reference))
    if rivals and _is_significant(top):
        side = "below" if lower_is_better(top.metric) else "above"
        parts.append(f"{top.b} is not significantly {side} {join_names(rivals)}")
    behind = _behind(top, rows, tests, means, unit, p_is_named=top in backends)
    return [Verdict("good" if significant else "plain", title_suffix + "; ".join(parts), behind, answers=True)]


def _queries(row: PairedDifference) -> int:
    """Return the number of queries that both sides of a difference have."""
    return row.wins + row.ties + row.losses


def _over(rows: Sequence[PairedDifference], unit: str) -> str:
    """Return over how many queries the means are; of pairs with other common queries the fewest and the most."""
    fewest, most = min(map(_queries, rows)), max(map(_queries, rows))
    return f"over {counted(most, unit)}" if fewest == most else f"over {fewest:,} to {counted(most, unit)}"


def _datasets_verdicts(result: Result, datasets: Sequence[str]) -> list[Verdict]:
    """Return for each backend on how many datasets it differs significantly from the backend it is compared with."""
    pairs: dict[tuple[str, str, str], list[PairedDifference]] = {}
    for dataset in datasets:
        reference, trials = str(reference_of(result, dataset)), result.of_dataset(dataset)
        metric = next((name for trial in trials for name in trial.metrics), "")
        for trial in trials:
            if (row := against_reference(result, trial, metric)) is not None:
                pairs.setdefault((trial.label, reference, metric), []).append(row)
    lines = []
    for (label, reference, metric), rows in pairs.items():
        datasets_by_word = {
            word: [str(row.dataset) for row in rows if _has_verdict(row, word)] for word in ("better", "worse")
        }
        nonempty = {word: names for word, names in datasets_by_word.items() if names}
        if nonempty:
            counts = join_names([f"{word} on {len(names)}" for word, names in nonempty.items()])
            headline = f"{label} is significantly {counts} of {len(rows)} datasets than {reference} ({metric})"
            detail = "; ".join(f"{word} on {join_names(names, len(names))}" for word, names in nonempty.items())
            lines.append(Verdict("plain" if "worse" in nonempty else "good", headline, detail))
    if pairs and not lines:
        metric = next(iter(pairs))[2]
        return [Verdict("plain", f"no backend differs significantly in {metric} on any of {len(datasets)} datasets")]
    return _capped(lines, "more backend", "with significant differences, below")


def _capped(lines: list[Verdict], noun: str, title_suffix: str) -> list[Verdict]:
    """Return the first lines, and a line that counts the others."""
    if len(lines) <= _LINES:
        return lines
    return [*lines[:_LINES], Verdict("plain", f"and {counted(len(lines) - _LINES, noun)} {title_suffix}")]


def _is_above(tests: Sequence[PairedDifference], top: PairedDifference, other: str) -> bool:
    """Return whether a test on the same metric shows backend ``top.b`` above ``other``; False without a test."""
    for row in tests:
        if (row.dataset, row.metric) == (top.dataset, top.metric) and {row.a, row.b} == {top.b, other}:
            return _is_significant(row) and (_gain(row) > 0) == (row.b == top.b)
    return False


def _gain(row: PairedDifference) -> float:
    """Return the difference of a metric with the sign of an improvement: less may be better."""
    return improvement(row.metric, row.difference)


def _is_significant(row: PairedDifference) -> bool:
    return _has_verdict(row, "better") or _has_verdict(row, "worse")


def _has_verdict(row: PairedDifference, word: str) -> bool:
    return row.verdict == word and not row.within_ties


def _compared(row: PairedDifference, reference: str) -> str:
    """Return by how much a backend is above or below the reference, and whether that is significant."""
    if row.difference == 0:
        return f"{row.b} has the mean of {reference}"
    significance = "within ties"
    if not row.within_ties:
        word = "significant" if _is_significant(row) else "not significant"
        significance = f"{word} (adjusted p {probability(row.p_adjusted)})"
    side = "above" if row.difference > 0 else "below"
    return f"{row.b} is {abs(row.difference):.4f} {side} {reference}, {significance}"


def _counts(rows: Sequence[PairedDifference], reference: str) -> str:
    """Count the backends that are not named, by their differences from the reference."""
    better, worse = (sum(_has_verdict(row, word) for row in rows) for word in ("better", "worse"))
    unsure = len(rows) - better - worse
    sides = ("below", "above") if lower_is_better(rows[0].metric) else ("above", "below")
    counts = (
        (better, f"significantly {sides[0]}"),
        (worse, f"significantly {sides[1]}"),
        (unsure, "not significantly different"),
    )
    sentence = join_names([f"{number} {noun}" for number, noun in counts if number])
    return f"of {len(rows)} others, compared with {reference}, {sentence}"


def _behind(
    top: PairedDifference,
    rows: Sequence[PairedDifference],
    tests: Sequence[PairedDifference],
    means: Sequence[float],
    unit: str,
    *,
    p_is_named: bool,
) -> str:
    """Return the interval and the counts of the first difference, and the significant differences in other metrics."""
    difference = f"{top.b}: {signed(top.difference)} {interval(top.ci_low, top.ci_high, '+.4f')}".rstrip()
    difference += "" if p_is_named else f", adjusted p {probability(top.p_adjusted)}"
    difference += f"; {top.wins:,} better, {top.ties:,} tied, {top.losses:,} worse"
    if not _is_significant(top) and top.detectable is not None:
        queries = _queries(top)
        sensitivity = f"{counted(queries, unit)} can show differences from about {top.detectable:.4f} on"
        difference += f"; {too_few_to_show(queries, top.detectable, *means, noun=unit) or sensitivity}"
    also = _also(rows, tests)
    return f"{difference}. {also}" if also else difference


def _also(rows: Sequence[PairedDifference], tests: Sequence[PairedDifference]) -> str:
    """Return the significant differences in other metrics between the same backends."""
    metric, pairs = rows[0].metric, {(row.dataset, row.a, row.b) for row in rows}
    further = [
        f"{row.metric} of {row.b} ({signed(row.difference)})"
        for row in tests
        if (row.dataset, row.a, row.b) in pairs and row.metric != metric and _is_significant(row)
    ]
    return f"Also significant: {join_names(further)}" if further else ""


def _not_equal(rows: Sequence[PairedDifference], tests: Sequence[PairedDifference]) -> str:
    """Return the other metrics in which the same backends are not equal; "" if they are equal in all."""
    pairs = {(row.dataset, row.a, row.b) for row in rows}
    metrics: dict[str, list[str]] = {}
    for row in tests:
        if (row.dataset, row.a, row.b) in pairs and row.verdict != "same":
            metrics.setdefault(row.b, []).append(row.metric)
    differing = [f"{join_names(names)} of {label} differ" + "s" * (len(names) == 1) for label, names in metrics.items()]
    return f"Not significant: {'; '.join(differing)} from {rows[0].a}" if differing else ""


def _single(title_suffix: str, trial: TrialResult, unit: str) -> Verdict:
    metric, value = next(iter(trial.metrics.items()))
    interval_text = interval(value.ci_low, value.ci_high)
    headline = f"{title_suffix}{trial.label}: {metric} {value.mean:.4f} over {counted(value.n, unit)}"
    return Verdict("plain", headline, f"95 % interval {interval_text}" if interval_text else "", answers=True)


def _parity(of_datasets: Mapping[str, Sequence[TrialResult]]) -> list[Verdict]:
    """Return a line for each backend and dataset that differ from the exact reference, then the matching ones.

    Backends that match alike, on the same datasets, share a line.
    """
    several = len(of_datasets) > 1
    lines: list[Verdict] = []
    exact: dict[str, dict[str, ParityStats]] = {}
    for dataset, trials in of_datasets.items():
        for trial in trials:
            if trial.parity is not None and trial.parity.different:
                lines.append(_differs(_dataset_suffix(dataset, several), trial.label, trial.parity))
            elif trial.parity is not None:
                exact.setdefault(trial.label, {})[dataset] = trial.parity
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for label, parities in exact.items():
        agreement = "" if several else _agreement(*parities.values())
        groups.setdefault((tuple(parities), agreement), []).append(label)
    for (datasets, agreement), labels in groups.items():
        suffix = f" on {_dataset_names(datasets, len(of_datasets))}" if several else ""
        rankings = sum(parity.queries for label in labels for parity in exact[label].values())
        headline = f"{join_names(labels)} {'matches' if len(labels) == 1 else 'match'} the exact reference{suffix}"
        lines.append(Verdict("good", headline, agreement or f"{counted(rankings, 'ranking')}: the same up to ties"))
    return _capped(lines, "more line", "on parity, in the tables")


def _scoring_functions(result: Result) -> Iterator[Verdict]:
    """State why exact backends differ: their scoring formulas do.

    The changes that alter most rankings come first. Datasets on which the same backends differ share a verdict.
    """
    by_dataset: dict[tuple[str, str], list[ScoringDifference]] = {}
    for difference in result.formula_differences:
        by_dataset.setdefault((difference.dataset, difference.a), []).append(difference)
    alike: dict[tuple[str, tuple[str, ...]], dict[str, list[ScoringDifference]]] = {}
    for (dataset, base), differences in by_dataset.items():
        alike.setdefault((base, tuple(difference.b for difference in differences)), {})[dataset] = differences
    several = len(result.datasets) > 1
    for (base, names), parts in alike.items():
        suffix, who = (
            _dataset_suffix(_dataset_names(list(parts), len(result.datasets)), several),
            join_names(names, _LINES),
        )
        verb = "differs" if len(names) == 1 else "differ"
        changes = [
            f"{_dataset_suffix(dataset, len(parts) > 1)}{_changes(difference)}"
            for dataset, differences in parts.items()
            for difference in differences
        ]
        left_out = [f"{len(changes) - _LINES} more in the tables"] if len(changes) > _LINES else []
        headline = f"{suffix}{who} {verb} from {base} by the scoring formula, not by a fault of an engine"
        yield Verdict("plain", headline, "; ".join([*changes[:_LINES], *left_out]))


def _changes(difference: ScoringDifference) -> str:
    unproven_first = sorted(difference.changes, key=lambda change: (change.queries is not None, -(change.queries or 0)))
    ranked, top = unproven_first, f"top {difference.depth}"
    effective = [change for change in ranked if change.queries != 0]
    lines = []
    for change in effective or ranked:
        of = f"{change.queries or 0:,} of {counted(difference.queries, 'query')}"
        effect = f" (by itself it changes the {top} of {of})" if change.queries else ""
        lines.append(f"{change.part} {change.after}{effect}")
    none = "" if effective else f" (no single one changes the {top} of a query)"
    return f"{difference.b}: {', '.join(lines)}{none}"


def _dataset_names(datasets: Sequence[str], total: int) -> str:
    """Name a few of ``total`` datasets; count many."""
    if len(datasets) <= _MAX_NAMES:
        return join_names(datasets)
    return f"all {total} datasets" if len(datasets) == total else f"{len(datasets)} of {total} datasets"


def _agreement(parity: ParityStats) -> str:
    queries = counted(parity.queries, "query")
    if parity.bit_equal == parity.queries:
        return f"{queries}: the same documents and scores, to the bit"
    if parity.identical == parity.queries:
        return f"{queries}: the same ranking, {parity.bit_equal:,} with the same scores to the bit"
    return f"{queries}: the same ranking up to ties"


def _differs(title_suffix: str, label: str, parity: ParityStats) -> Verdict:
    """Return of an approximate index how much of the exact best it has; of others, how often they differ, and why."""
    causes = ", ".join(f"{cause.replace(', ', ' + ')} ({count:,})" for cause, count in parity.causes.items())
    detail = f"proven causes: {causes}" if causes else ""
    unknown = parity.causes.get("unknown", 0)
    if parity.causes.keys() & _BY_DESIGN and not unknown:
        # a share below 1 never reads as 100 %
        percents = {n: 100 * (share if share == 1.0 else min(share, 0.9999)) for n, share in parity.overlap.items()}
        shares = " and ".join(f"{percent:.2f} % of the exact best {n}" for n, percent in percents.items())
        return Verdict("plain", f"{title_suffix}{label} finds {shares}", detail)
    queries = counted(parity.queries, "query")
    headline = f"{title_suffix}{label} differs from its exact reference on {parity.different:,} of {queries}"
    return Verdict("bad" if unknown else "unsure", headline, detail)


def _busy(trials: Sequence[TrialResult]) -> list[Verdict]:
    """Return a warning if times were taken on a busy machine."""
    sentence = busy_sentence(trials)
    detail = (
        "latencies, rates and gains marked ‡ were measured on a busy machine, and no backend is called the fastest; "
        "end other programs and run again"
    )
    return [Verdict("unsure", sentence, detail)] if sentence else []


def _speed(of_datasets: Mapping[str, Sequence[TrialResult]]) -> list[Verdict]:
    """Return which backend has the lowest median latency; of several datasets in a line for each such backend."""
    timed = {dataset: sorted(_timed(trials)) for dataset, trials in of_datasets.items()}
    fastest: dict[str, list[str]] = {}
    for dataset, times in timed.items():
        if len(times) > 1 and not busy_mark(of_datasets[dataset]):
            fastest.setdefault(times[0][2], []).append(dataset)
    lines = []
    for label, datasets in fastest.items():
        if len(of_datasets) > 1:
            suffix = f" on {_dataset_names(datasets, len(of_datasets))}"
            detail = "; ".join(f"{dataset}: p50 {timed[dataset][0][0]:.3f} ms" for dataset in datasets[:_MAX_NAMES])
        else:
            times = timed[datasets[0]]
            suffix = f", {times[0][0]:.3f} ms"
            detail = "; ".join(f"{name}: p50 {p50:.3f} ms, p95 {p95:.3f} ms" for p50, p95, name in times[:_MAX_NAMES])
            detail += f"; {len(times) - _MAX_NAMES} more below" if len(times) > _MAX_NAMES else ""
        lines.append(Verdict("plain", f"{label} has the lowest median latency{suffix}", detail))
    return lines


def _timed(trials: Sequence[TrialResult]) -> Iterator[tuple[float, float, str]]:
    """Yield p50, p95 and label of the backends that were timed for this result."""
    for trial in trials:
        if trial.milliseconds is not None and not trial.reused:
            yield trial.milliseconds.p50, trial.milliseconds.p95, trial.label
