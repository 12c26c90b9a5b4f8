"""Say in a few lines what a comparison found: failures, quality, parity, speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.document.cells import interval, listed, probability, signed
from harness.document.model import Tone, Verdict
from harness.pipeline.probes import PROBES
from harness.results.schema import (
    FormulaChange,
    LeaderboardRow,
    PairedDifference,
    Result,
    ScoringDifference,
    TrialResult,
)
from harness.results.schema_base import ParityStats
from harness.wording import counted

_NAMED = 3
_LINES = 6
_UNSURE = "no backend is surely best"
_BY_DESIGN = frozenset({"approximate search", "quantisation", "quantisation, approximate search"})
"""The causes by which an index differs that leaves vectors out of sight, or compresses them."""


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
        Verdict("bad", f"{_where(trial.dataset, several)}{trial.label} failed", trial.error.message)
        for trial in result.trials
        if trial.error is not None and trial.dataset not in lacking
    ]
    lines += _leaderboard(result)
    of_datasets = {info.name: result.of_dataset(info.name) for info in result.datasets}
    if len(of_datasets) > _NAMED:
        lines += _on_many(result, list(of_datasets))
    else:
        lines += [
            line for name, trials in of_datasets.items() for line in _quality(_where(name, several), trials, result)
        ]
    lines += _pitfalls(result)
    lines += [*_parity(of_datasets), *_scoring_functions(result)]
    lines += _speed(of_datasets)
    probed = [
        Verdict(line.tone, f"{_where(name, several)}{line.headline}", line.detail)
        for name, trials in of_datasets.items()
        for probe in PROBES
        for line in probe.verdicts(trials)
    ]
    lines += probed[:_LINES]
    if len(probed) > _LINES:
        more = counted(len(probed) - _LINES, "more line")
        lines.append(Verdict("plain", f"and {more} on what else was measured, in the tables"))
    return lines


def _where(dataset: str, several: bool) -> str:
    return f"{dataset}: " if several else ""


def reference_of(result: Result, dataset: str) -> str | None:
    """Return the backend that others are compared with; the first that did not fail where all pairs are."""
    compared = next((row.a for row in result.differences if row.dataset == dataset), None)
    if isinstance(result.plan.resolved.get("reference"), str) and compared is not None:
        return compared
    return next((trial.label for trial in result.of_dataset(dataset) if trial.status == "ok"), None)


def against_reference(result: Result, trial: TrialResult, metric: str) -> PairedDifference | None:
    """Return a backend against the reference on a metric, as backend minus reference; None where it was not tested."""
    reference = reference_of(result, trial.dataset)
    for row in result.differences:
        if (row.dataset, row.a, row.b, row.metric) == (trial.dataset, reference, trial.label, metric):
            return row
    return None


def _pitfalls(result: Result) -> list[Verdict]:
    """Return what may make figures meaningless, one line a check: its first finding, and of whom there are others."""
    lines = []
    for check in dict.fromkeys(finding.check for finding in result.findings):
        first, *others = [finding for finding in result.findings if finding.check == check]
        where = _where(first.dataset, len(result.datasets) > 1) if first.dataset is not None else ""
        about = where + (f"{first.backend}: " if first.backend is not None else "")
        also = listed([finding.backend for finding in others if finding.backend is not None])
        more = f"; also {also}" if also else f"; {len(others)} more below" if others else ""
        lines.append(Verdict("unsure", about + first.message, f"{first.fix} ({check}{more})"))
    return lines


def _leaderboard(result: Result) -> list[Verdict]:
    """Return which backend has the highest mean over datasets, by the first metric, and how sure that is."""
    board = result.leaderboard
    rows = [row for row in board.rows if row.metric == board.metrics[0] and row.mean is not None] if board else []
    if board is None or len(rows) < 2:
        return []
    first, second = rows[:2]
    over = f"mean {first.metric} over {counted(first.datasets, 'dataset')}"
    highest = [row.backend for row in rows if row.rank == 1]
    if len(highest) > 1:
        shared = f"{_UNSURE}: {listed(highest)} share the highest {over}"
        said = shared if len(highest) < len(rows) else f"{listed(highest)} have the same {over}"
        return [Verdict("plain", said, "; ".join([_mean(first), *board.notes]))]
    pair = {first.backend, second.backend}
    across = [row for row in result.differences if row.dataset is None and row.metric == first.metric]
    tests = [row for row in across if {row.a, row.b} == pair]
    tested = f"; p {probability(tests[0].p_adjusted)} across {counted(first.datasets, 'dataset')}" if tests else ""
    surely = any(_is_sure(row) for row in tests)
    than_second = f", {'' if surely else 'not '}significantly above {second.backend}" if tests else ""
    said = f"{'' if surely else f'{_UNSURE}: '}{first.backend} has the highest {over}{than_second}"
    detail = "; ".join([f"{_mean(first)}, then {_mean(second)}{tested}", *board.notes])
    return [Verdict("good" if surely else "plain", said, detail)]


def _mean(row: LeaderboardRow) -> str:
    return f"{row.backend} {row.mean:.4f}"


def _quality(where: str, trials: Sequence[TrialResult], result: Result) -> list[Verdict]:
    """Return which backend is best on the first metric, and how sure that is."""
    scored = [trial for trial in trials if trial.metrics]
    if len(scored) < 2:
        return [_single(where, trial) for trial in scored]
    metric, reference = next(iter(scored[0].metrics)), str(reference_of(result, scored[0].dataset))
    others = [trial for trial in scored if trial.label != reference]
    rows = [row for trial in others if (row := against_reference(result, trial, metric)) is not None]
    if not rows:
        return []
    rows.sort(key=lambda row: -row.difference)
    equal = [row.b for row in rows if row.verdict == "same"]
    differing = [row for row in rows if row.verdict != "same"]
    if not differing:
        return [Verdict("good", f"{where}{_all_equal([reference, *equal], metric)}", _also(rows, result))]
    top = differing[0]
    rivals = [row.b for row in differing[1:] if not _surely_above(result, top, row.b)] if top.difference > 0 else []
    best = _is_sure(top) and not rivals if top.difference > 0 else _all_below(differing)
    parts = [_best(reference, equal, top, metric) if best else f"{_UNSURE} on {metric}"]
    if equal and (top.difference > 0 or not best):
        parts.append(f"{listed([reference, *equal])} are equal")
    if len(differing) <= _NAMED:
        parts += [_compared(row, reference if at == 0 else "") for at, row in enumerate(differing)]
    elif top.difference > 0:
        highest = "" if best else ", the highest"
        parts += [f"{_compared(top, reference)}{highest}", _others(differing[1:])]
    else:
        parts += [*([] if best else [f"{reference} has the highest"]), _others(differing)]
    if rivals and _is_sure(top):
        parts.append(f"not shown to be above {listed(rivals)}")
    tone: Tone = "good" if best else "plain"
    return [Verdict(tone, where + "; ".join(part for part in parts if part), _behind(differing, rows, result))]


def _on_many(result: Result, datasets: Sequence[str]) -> list[Verdict]:
    """Return for each backend on how many datasets it is significantly better or worse than the one compared with."""
    pairs: dict[tuple[str, str, str], list[PairedDifference]] = {}
    for dataset in datasets:
        reference, trials = reference_of(result, dataset), result.of_dataset(dataset)
        metric = next((name for trial in trials for name in trial.metrics), "")
        for trial in trials:
            row = against_reference(result, trial, metric)
            if row is not None and reference is not None:
                pairs.setdefault((trial.label, reference, metric), []).append(row)
    lines = []
    for (label, reference, metric), rows in pairs.items():
        surely = [row for row in rows if _is_sure(row)]
        names = {
            "better": [str(row.dataset) for row in surely if row.difference > 0],
            "worse": [str(row.dataset) for row in surely if row.difference < 0],
        }
        counts = listed([f"{what} on {len(places)}" for what, places in names.items() if places])
        if surely:
            headline = f"{label} is significantly {counts} of {len(rows)} datasets than {reference} ({metric})"
            detail = "; ".join(f"{what} on {listed(places, len(places))}" for what, places in names.items() if places)
            lines.append(Verdict("plain" if names["worse"] else "good", headline, detail))
    if pairs and not lines:
        metric = next(iter(pairs))[2]
        return [Verdict("plain", f"no backend differs significantly in {metric} on any of {len(datasets)} datasets")]
    if len(lines) > _LINES:
        more = len(lines) - _LINES
        lines[_LINES:] = [Verdict("plain", f"and {counted(more, 'more backend')} with significant differences, below")]
    return lines


def _all_equal(labels: list[str], metric: str) -> str:
    return f"{listed(labels)} are equal: the same {metric} on every query"


def _surely_above(result: Result, top: PairedDifference, other: str) -> bool:
    """Return whether a test on the same metric shows backend ``top.b`` above ``other``; False where none was made."""
    for row in result.differences:
        if (row.dataset, row.metric) == (top.dataset, top.metric) and {row.a, row.b} == {top.b, other}:
            return _is_sure(row) and (row.difference > 0) == (row.b == top.b)
    return False


def _best(reference: str, equal: Sequence[str], top: PairedDifference, metric: str) -> str:
    """Name the backend that tests show above every other, or those that share that place query by query."""
    if top.difference > 0:
        return f"{top.b} is best on {metric}"
    return f"{listed([reference, *equal])} are best on {metric}" if equal else f"{reference} is best on {metric}"


def _all_below(differing: Sequence[PairedDifference]) -> bool:
    """Return whether tests show every one of these backends below the one that all are compared with."""
    return all(row.difference < 0 and _is_sure(row) for row in differing)


def _is_sure(row: PairedDifference) -> bool:
    return row.verdict in ("better", "worse") and not row.within_ties


def _compared(row: PairedDifference, reference: str) -> str:
    """Return by how much a backend is above or below the reference, and whether that is significant."""
    if row.difference == 0:
        return f"{row.b} has the same mean"
    return f"{row.b} is {_by(row)}{f' {reference}' if reference else ''}, {_significance(row)}"


def _by(row: PairedDifference) -> str:
    return f"{abs(row.difference):.4f} {'above' if row.difference > 0 else 'below'}"


def _significance(row: PairedDifference) -> str:
    return "significant" if _is_sure(row) else "within ties" if row.within_ties else "not significant"


def _others(rows: Sequence[PairedDifference]) -> str:
    """Count the backends that are not named, by what their differences are worth."""
    better = sum(_is_sure(row) and row.difference > 0 for row in rows)
    worse = sum(_is_sure(row) and row.difference < 0 for row in rows)
    unsure = len(rows) - better - worse
    counts = ((better, "significantly better"), (worse, "significantly worse"), (unsure, "not significantly different"))
    said = listed([f"{number} {what}" for number, what in counts if number])
    return f"of {len(rows)} others, {said}" if rows else ""


def _behind(differing: Sequence[PairedDifference], rows: Sequence[PairedDifference], result: Result) -> str:
    """Return what the statement on the first of these differences rests on, and where else there is one."""
    row = differing[0]
    queries = row.wins + row.ties + row.losses
    said = f"{row.b}: {signed(row.difference)} {interval(row.ci_low, row.ci_high, '+.4f')}".rstrip()
    said += f", adjusted p {probability(row.p_adjusted)}; {row.wins:,} better, {row.ties:,} tied, {row.losses:,} worse"
    if not _is_sure(row) and row.detectable is not None:
        said += f"; {counted(queries, 'query')} would show a difference from about {row.detectable:.4f} on"
    also = _also(rows, result)
    return f"{said}. {also}" if also else said


def _also(rows: Sequence[PairedDifference], result: Result) -> str:
    """Return the significant differences in other metrics between the same backends."""
    metric, pairs = rows[0].metric, {(row.dataset, row.a, row.b) for row in rows}
    others = [
        f"{row.metric} of {row.b} ({signed(row.difference)})"
        for row in result.differences
        if (row.dataset, row.a, row.b) in pairs and row.metric != metric and _is_sure(row)
    ]
    return f"Significant too: {listed(others)}" if others else ""


def _single(where: str, trial: TrialResult) -> Verdict:
    metric, value = next(iter(trial.metrics.items()))
    known = interval(value.ci_low, value.ci_high)
    return Verdict(
        "plain", f"{where}{trial.label}: {metric} {value.mean:.4f}", f"95 % interval {known}" if known else ""
    )


def _parity(of_datasets: Mapping[str, Sequence[TrialResult]]) -> list[Verdict]:
    """Return a line for each backend and dataset that differ from the exact reference, then those that do not.

    Those that do not are joined: backends that agree alike, and of several datasets those on which they agree.
    """
    several = len(of_datasets) > 1
    known = [
        (dataset, trial.label, trial.parity)
        for dataset, trials in of_datasets.items()
        for trial in trials
        if trial.parity is not None
    ]
    lines = [_differs(_where(dataset, several), label, parity) for dataset, label, parity in known if parity.different]
    exact: dict[str, dict[str, ParityStats]] = {}
    for dataset, label, parity in known:
        if not parity.different:
            exact.setdefault(label, {})[dataset] = parity
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for label, parities in exact.items():
        agreement = "" if several else _agreement(*parities.values())
        groups.setdefault((tuple(parities), agreement), []).append(label)
    everyone = {trial.label for trials in of_datasets.values() for trial in trials}
    for (datasets, agreement), labels in groups.items():
        where = f" on {_named(datasets, len(of_datasets))}" if several else ""
        rankings = sum(parity.queries for label in labels for parity in exact[label].values())
        detail = agreement or f"{counted(rankings, 'ranking')}, the same as exact search up to ties"
        if len(labels) == 1 or len(labels) == len(everyone):
            who = labels[0] if len(labels) == 1 else "every backend"
            lines.append(Verdict("good", f"{who} returns what its scoring function says{where}", detail))
        else:
            lines.append(Verdict("good", f"{listed(labels)} return what their scoring functions say{where}", detail))
    if len(lines) > _LINES:
        more = len(lines) - _LINES
        lines[_LINES:] = [Verdict("plain", f"and {counted(more, 'more line')} on parity, in the tables")]
    return lines


def _scoring_functions(result: Result) -> Iterator[Verdict]:
    """Say why backends differ that all return what their scoring functions say: these functions differ.

    Of each the changes that matter come first, by the queries to which each alone gives others of the best ten.
    Datasets on which the same backends differ share a verdict.
    """
    by_dataset: dict[tuple[str, str], list[ScoringDifference]] = {}
    for difference in result.scorings:
        by_dataset.setdefault((difference.dataset, difference.a), []).append(difference)
    alike: dict[tuple[str, tuple[str, ...]], dict[str, list[ScoringDifference]]] = {}
    for (dataset, base), differences in by_dataset.items():
        alike.setdefault((base, tuple(difference.b for difference in differences)), {})[dataset] = differences
    for (base, names), parts in alike.items():
        where = _where(_named(list(parts), len(result.datasets)), len(result.datasets) > 1)
        verb, who = "differs" if len(names) == 1 else "differ", listed(names, _LINES)
        headline = f"{where}{who} {verb} from {base} by what is computed, not by a fault of an engine"
        listings = {dataset: "; ".join(map(_changes, differences)) for dataset, differences in parts.items()}
        queries = {dataset: counted(differences[0].queries, "query") for dataset, differences in parts.items()}
        detail = "; ".join(
            f"{dataset}, {queries[dataset]}, {listing}" if len(parts) > 1 else listing
            for dataset, listing in listings.items()
        )
        if any(
            change.queries is not None
            for differences in parts.values()
            for difference in differences
            for change in difference.changes
        ):
            of = f"of {next(iter(queries.values()))}" if len(parts) == 1 else "queries"
            detail = f"in brackets, how many {of} get another best ten by that change alone: {detail}"
        yield Verdict("plain", headline, detail)


def _changes(difference: ScoringDifference) -> str:
    ranked = sorted(difference.changes, key=lambda change: -(change.queries or 0))
    matter = [change for change in ranked if change.queries != 0] or ranked
    return f"{difference.b}: {', '.join(map(_change, matter))}"


def _change(change: FormulaChange) -> str:
    what = f"{change.part} {change.after}"
    return what if change.queries is None else f"{what} ({change.queries:,})"


def _named(datasets: Sequence[str], total: int) -> str:
    """Name a few of ``total`` datasets; count many."""
    if len(datasets) <= _NAMED:
        return listed(datasets)
    return f"all {total} datasets" if len(datasets) == total else f"{len(datasets)} of {total} datasets"


def _agreement(parity: ParityStats) -> str:
    queries = counted(parity.queries, "query")
    if parity.bit_equal == parity.queries:
        return f"{queries}: the same documents and scores as exact search, to the bit"
    if parity.identical == parity.queries:
        return f"{queries}: the same ranking as exact search, {parity.bit_equal:,} to the bit"
    exactly = f", {parity.identical:,} of them exactly" if parity.identical else ""
    return f"{queries}: the same ranking as exact search up to ties{exactly}"


def _differs(where: str, label: str, parity: ParityStats) -> Verdict:
    """Return of an approximate index how much of the exact best it has; of others, how often they differ, and why."""
    causes = ", ".join(f"{cause.replace(', ', ' + ')} ({count:,})" for cause, count in parity.causes.items())
    detail = f"proven causes: {causes}" if causes else ""
    unknown = parity.causes.get("unknown", 0)
    if parity.causes.keys() & _BY_DESIGN and not unknown:
        shares = " and ".join(f"{_below_all(share) * 100:.2f} % of the best {n}" for n, share in parity.overlap.items())
        return Verdict("plain", f"{where}Of what exact search finds, {label} has {shares}", detail)
    queries = counted(parity.queries, "query")
    headline = f"{where}{label} differs from its exact reference on {parity.different:,} of {queries}"
    return Verdict("bad" if unknown else "unsure", headline, detail)


def _below_all(share: float) -> float:
    """Return a share such that no share below all of it reads as all of it."""
    return share if share == 1.0 else min(share, 0.9999)


def _speed(of_datasets: Mapping[str, Sequence[TrialResult]]) -> list[Verdict]:
    """Return which backend has the lowest median latency; of several datasets in a line for each such backend."""
    timed = {dataset: sorted(_timed(trials)) for dataset, trials in of_datasets.items()}
    fastest: dict[tuple[str, ...], list[str]] = {}
    for dataset, times in timed.items():
        if len(times) > 1:
            lowest = f"{times[0][0]:.3f}"
            fastest.setdefault(tuple(name for p50, _, name in times if f"{p50:.3f}" == lowest), []).append(dataset)
    lines = []
    for labels, datasets in fastest.items():
        who = f"{labels[0]} has" if len(labels) == 1 else f"{listed(list(labels))} have"
        if len(of_datasets) > 1:
            where = f" on {_named(datasets, len(of_datasets))}"
            detail = "; ".join(f"{dataset}: p50 {timed[dataset][0][0]:.3f} ms" for dataset in datasets[:_NAMED])
        else:
            times = timed[datasets[0]]
            where = f", {times[0][0]:.3f} ms"
            detail = "; ".join(f"{name}: p50 {p50:.3f} ms, p95 {p95:.3f} ms" for p50, p95, name in times[:_NAMED])
            detail += f"; {len(times) - _NAMED} more below" if len(times) > _NAMED else ""
        lines.append(Verdict("plain", f"{who} the lowest median latency{where}", detail))
    return lines


def _timed(trials: Sequence[TrialResult]) -> Iterator[tuple[float, float, str]]:
    """Yield p50, p95 and label of the backends that were timed for this result."""
    for trial in trials:
        if trial.search is not None and trial.search.milliseconds is not None and not trial.reused:
            yield trial.search.milliseconds.p50, trial.search.milliseconds.p95, trial.label
