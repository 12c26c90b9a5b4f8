"""Tabulate how good backends are on a dataset: means with their differences and intervals, and pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from harness.document.cells import (
    ABSENT,
    BACKEND,
    FAILED,
    HUMAN,
    count,
    human_cell_of,
    interval,
    mean,
    number,
    probability,
    signed,
    text,
)
from harness.document.model import Best, Cell, Column, Table, Tone, Value
from harness.errors import UnknownNameError
from harness.metrics.parse import parse_metric
from harness.metrics.registry import kind_of
from harness.report.documents.verdicts import (
    against_reference,
    compared_name,
    compared_on,
    reference_of,
    unit_of,
)
from harness.results.schema import PairedDifference, Result, TrialResult
from harness.wording import counted, few_for_interval

_BETTER, _WORSE, _UNDECIDED, _EQUAL, TIED = "▲", "▼", "~", "=", "≈"
TONES: dict[str, Tone] = {_BETTER: "good", _WORSE: "bad"}
_STATUS = {"ok": ABSENT, "failed": FAILED, "invalid": "invalid"}
_CUT_SHORT = "*"
"""Appended to the name of a metric that looks at more hits than were requested."""
_LARGE_COUNT = 1000
"""Hits that a metric without a cutoff is expected to look at: as many as trec_eval's users give it, by custom."""
_DIFFERENCE, _MEAN, _FIRST_INTERVAL, _OTHER_DIFFERENCE, _ANSWERED, _OTHER_INTERVAL = 1, 2, 30, 40, 60, 70
"""Priorities: columns of the highest are left out first, and of one kind the last metric's columns."""


def metric_names(trials: Sequence[TrialResult]) -> list[str]:
    """Return the metrics of the first backend that has any."""
    return next((list(trial.metrics) for trial in trials if trial.metrics), [])


def quality_table(result: Result, dataset: str | None, title_suffix: str = "") -> Table | None:
    """Tabulate backends by metrics: each mean, its difference from the reference, and both intervals.

    ``dataset`` None means all trials of a check. If a leaderboard answers the question, the tables of single datasets
    are details.
    """
    trials = result.trials if dataset is None else result.of_dataset(dataset)
    names = metric_names(trials)
    if not names:
        return None
    reference = reference_of(result, dataset)
    tested = {row.metric for row in result.differences if row.dataset == dataset and row.a == reference}
    counted_trials = trials if result.golden is None else []
    evaluated = {trial.queries.evaluated for trial in counted_trials if trial.queries is not None}
    name_columns = [BACKEND] if dataset is not None else trial_columns(result)
    by_people = {name for trial in trials for name, value in trial.metrics.items() if value.human_n is not None}
    columns = [*name_columns, *_columns(result, names, tested, reference, by_people)]
    if evaluated:
        columns.append(Column("answered", priority=_ANSWERED, help="judged queries with at least one hit"))
    if len(evaluated) > 1:
        columns.append(Column("evaluated", priority=_ANSWERED))
    rows = []
    for trial in trials:
        cells = trial_cells(result, trial.label, trial.dataset)[: len(name_columns)]
        for name in names:
            human = [human_cell_of(trial.metrics.get(name))] if name in by_people else []
            cells += [_mean(trial, name), *human]
            cells += [_difference(result, trial, name)] if name in tested else []
        queries = trial.queries
        if evaluated:
            cells.append(count(queries.answered if queries is not None else None))
        if len(evaluated) > 1:
            cells.append(count(queries.evaluated if queries is not None else None))
        rows.append(cells)
    marks = {cell.mark for row in rows for cell in row}
    legend = list(_legend(result, trials, marks, f"than {reference}"))
    return Table(f"Quality{title_suffix}", columns, rows, legend, detail=result.leaderboard is not None)


def trial_columns(result: Result) -> list[Column]:
    """Return the columns that name a trial: its backend, and its dataset if backends are on several."""
    return [BACKEND, *([Column("dataset", numeric=False, names=True)] if result.several else [])]


def trial_cells(result: Result, label: str, dataset: str) -> list[Cell]:
    """Return the cells that name a trial."""
    return [text(label), *([text(dataset)] if result.several else [])]


def _columns(
    result: Result, names: Sequence[str], tested: set[str], reference: str | None, by_people: set[str]
) -> Iterator[Column]:
    for position, name in enumerate(names):
        first = position == 0
        yield Column(
            marked_name(result, name),
            help=f"mean {name}, and its 95 % interval",
            best=best_value(name),
            priority=0 if first else _MEAN + position,
            below="interval of mean" if tested else "95 % interval",
            below_priority=_FIRST_INTERVAL if first else _OTHER_INTERVAL + position,
        )
        if name in by_people:
            yield replace(HUMAN, priority=0 if first else _MEAN + position)
        if name in tested:
            priority = _DIFFERENCE if first else _OTHER_DIFFERENCE + position
            yield Column(
                f"− {reference}",
                help=f"difference from {reference} in {name}, and its 95 % interval",
                priority=priority,
                below="95 % interval",
                below_priority=priority,
                follows=True,
            )


def best_value(name: str) -> Best | None:
    """Return which value of a metric is the best; None for counts, and for metrics that are not known here."""
    try:
        kind = kind_of(parse_metric(name).name)
    except UnknownNameError:
        return None
    if kind.aggregate == "sum":
        return None
    return "lowest" if kind.lower_is_better else "highest"


def _mean(trial: TrialResult, name: str) -> Cell:
    value = trial.metrics.get(name)
    if value is None:
        return text(_STATUS[trial.status])
    reranking = trial.stages.reranking if trial.stages is not None else None
    best = reranking.upper_bound.get(name) if reranking is not None else None
    bound = "" if best is None else f" (≤ {f'{best:.4f}'.removeprefix('0')})"
    return mean(value, bound)


def _difference(result: Result, trial: TrialResult, name: str) -> Cell:
    row = against_reference(result, trial, name)
    if row is None:
        is_reference = compared_name(result, trial) == reference_of(result, compared_on(result, trial))
        return text("" if is_reference else ABSENT)
    mark = mark_of(row)
    if mark == _EQUAL:
        return Cell("0", mark, value=0.0)
    return Cell(signed(row.difference), mark, _interval(row), TONES.get(mark, "plain"), row.difference)


def mark_of(row: PairedDifference) -> str:
    """Return the assessment of a difference, as one sign that needs no colour."""
    if row.verdict == "same":
        return _EQUAL
    if row.within_ties:
        return TIED
    return {"better": _BETTER, "worse": _WORSE, "undecided": _UNDECIDED}[row.verdict]


class UnjudgedRow(NamedTuple):
    """A backend or a run: the cells that name it, its means, and its means if every unjudged hit were relevant."""

    names: list[Cell]
    means: Mapping[str, float]
    if_relevant: Mapping[str, float]

    @classmethod
    def of_trial(cls, names: list[Cell], trial: TrialResult) -> UnjudgedRow:
        """Return the row of a trial."""
        means = {name: value.mean for name, value in trial.metrics.items()}
        if_relevant = {name: value.if_unjudged_relevant for name, value in trial.metrics.items()}
        return cls(names, means, {name: value for name, value in if_relevant.items() if value is not None})


def unjudged_tables(name_columns: Sequence[Column], rows: Sequence[UnjudgedRow], suffix: str = "") -> list[Table]:
    """Tabulate the means if all unjudged hits were irrelevant, and if all were relevant; no table without them."""
    names = list(dict.fromkeys(name for row in rows for name in row.if_relevant))
    if not names:
        return []

    def cells(row: UnjudgedRow, name: str) -> list[Cell]:
        ends = row.means.get(name), row.if_relevant.get(name)
        return [number(end) if end is not None else text(ABSENT) for end in ends]

    columns = [
        Column(title, priority=priority, follows=follows)
        for priority, name in enumerate(names)
        for title, follows in ((name, False), ("all relevant", True))
    ]
    legend = "a metric takes hits without a judgment for irrelevant; all relevant: its mean if they were relevant"
    table_rows = [[*row.names, *(cell for name in names for cell in cells(row, name))] for row in rows]
    return [Table(f"Unjudged hits{suffix}", [*name_columns, *columns], table_rows, [legend], detail=True)]


def pair_tables(result: Result, dataset: str | None, title_suffix: str = "") -> list[Table]:
    """Tabulate each pair of backends by metrics, if all pairs were tested; ``dataset`` as in :func:`quality_table`."""
    rows_of = [row for row in result.differences if row.dataset == dataset]
    if not rows_of or isinstance(result.plan.resolved.get("reference"), str):
        return []
    names = metric_names(result.trials if dataset is None else result.of_dataset(dataset))
    pairs: dict[str, dict[str, PairedDifference]] = {}
    for row in rows_of:
        pairs.setdefault(f"{row.b} − {row.a}", {})[row.metric] = row
    rows = [[text(pair), *(_pair(by_metric.get(name)) for name in names)] for pair, by_metric in pairs.items()]
    columns = [
        Column("backends", numeric=False),
        *(Column(name, priority=rank, below="95 % interval", below_priority=50) for rank, name in enumerate(names)),
    ]
    marks = {cell.mark for row in rows for cell in row}
    legend = list(meanings(rows_of, marks, "than the one after the minus sign", unit_of(result)))
    return [Table(f"Differences between backends{title_suffix}", columns, rows, legend)]


def difference_table(title: str, noun: str, rows: Sequence[PairedDifference], than: str, names: Sequence[str]) -> Table:
    """Tabulate paired tests, one a row: difference with its interval and verdict, p, effect.

    Args:
        title: Title of the table.
        noun: Heading of the ``names``, which name the rows.
        rows: Differences that are adjusted together.
        than: The other side of each difference in words, as in ``than csr``.
        names: One for each row.
    """
    columns = [
        Column(noun, numeric=False),
        Column("metric", numeric=False, names=True),
        Column("difference", below="95 % interval", below_priority=1),
        Column("p", help="two-sided paired randomisation test, after Holm over the rows in which a query differs"),
        Column("effect", priority=1, help="Cohen's d of the differences query by query"),
        Column("W/T/L", priority=2, help="queries that are better, tied and worse"),
    ]
    cells = [[text(name), text(row.metric), *_test(row)] for name, row in zip(names, rows, strict=True)]
    marks = {mark_of(row) for row in rows}
    legend = [
        "p: paired randomisation test, two-sided, after Holm's correction; effect: Cohen's d",
        "W/T/L: queries that are better, tied and worse",
        *meanings(rows, marks, than),
        *few_for_interval(row.wins + row.ties + row.losses for row in rows if row.wins + row.losses),
    ]
    return Table(title, columns, cells, legend)


def _test(row: PairedDifference) -> list[Cell]:
    mark = mark_of(row)
    changed = row.wins + row.losses > 0
    return [
        Cell(signed(row.difference), mark, _interval(row) if changed else "", TONES.get(mark, "plain"), row.difference),
        Cell(probability(row.p_adjusted), value=row.p_adjusted),
        Cell(signed(row.effect, 2), value=row.effect),
        Cell(f"{row.wins:,}/{row.ties:,}/{row.losses:,}", value=row.wins - row.losses),
    ]


def difference_values(row: PairedDifference, dataset: str) -> Iterator[Value]:
    """Yield a difference and the outcome of its test."""
    about, queries = f"{row.metric} from {row.a}", row.wins + row.ties + row.losses
    yield Value(dataset, row.b, f"difference.{about}", row.difference, row.ci_low, row.ci_high, queries)
    for name, value in (("p", row.p), ("p_adjusted", row.p_adjusted), ("detectable", row.detectable)):
        yield Value(dataset, row.b, f"{name}.{about}", value, n=queries)


def _interval(row: PairedDifference) -> str:
    return interval(row.ci_low, row.ci_high, "+.4f")


def _pair(row: PairedDifference | None) -> Cell:
    if row is None:
        return text(ABSENT)
    return Cell(signed(row.difference), mark_of(row), _interval(row), value=row.difference)


def _legend(result: Result, trials: Sequence[TrialResult], marks: set[str], than: str) -> Iterator[str]:
    """Yield the meanings of the marks that occur in the quality table."""
    values = [value for trial in trials for value in trial.metrics.values()]
    if any(value.ci_low is not None for value in values):
        over = "queries" if result.golden is None else "questions that expect something"
        yield f"95 % intervals: BCa bootstrap over {over}; exact if every value is 0 or 1"
    yield from metrics_legend(result, trials)
    if any(value.human_n is not None for value in values):
        yield "by people: the mean by people's judgments alone, without labels by models"
    rerankings = [trial.stages.reranking for trial in trials if trial.stages is not None]
    if any(reranking is not None and reranking.upper_bound for reranking in rerankings):
        yield "(≤ x): what the best possible order of a second stage's candidates would reach"
    tested = [row for row in result.differences if row.dataset == compared_on(result, trials[0])]
    yield from meanings(tested, marks, than, unit_of(result))


def meanings(rows: Sequence[PairedDifference], marks: set[str], than: str, of: str = "query") -> Iterator[str]:
    """Return the meanings of occurring marks, for differences adjusted together; ``of`` is the unit of each count."""
    differing = sum(row.p is not None and row.wins + row.losses > 0 for row in rows)
    # a comparison without any difference is not part of the correction
    counts = f"the {differing} of {len(rows)} comparisons in which a {of} differs"
    distinct = max((row.comparisons or 0 for row in rows), default=0) or differing
    if distinct < differing:
        counts = f"{counted(distinct, 'comparison')} (metrics that are equal on every {of} count once)"
    elif differing == len(rows):
        counts = counted(differing, "comparison")
    family = f"Holm's correction for {counts}"
    meanings = {
        _BETTER: f"{_BETTER} better {than}, p < 0.05 after {family} (paired randomisation test)",
        _WORSE: f"{_WORSE} worse {than}, p < 0.05 after {family} (paired randomisation test)",
        _UNDECIDED: f"{_UNDECIDED} not significant after {family}"
        if differing
        else f"{_UNDECIDED} not tested: a single {of}",
        _EQUAL: f"{_EQUAL} equal on every {of}",
        TIED: f"{TIED} the means that orders of tied documents allow meet: no difference can be claimed",
    }
    return (meaning for mark, meaning in meanings.items() if mark in marks)


def cut_short(result: Result, metric: str) -> bool:
    """Return whether a metric covers fewer hits than its name says: ``R@100`` of 10, or ``AP`` of 10.

    False for an unknown metric: the package that has it is not installed on the reading machine.
    """
    try:
        measure, k = parse_metric(metric), result.plan.resolved.get("k")
    except UnknownNameError:
        return False
    if not isinstance(k, int) or kind_of(measure.name).aggregate == "sum":
        return False
    return k < (measure.cutoff if isinstance(measure.cutoff, int) else _LARGE_COUNT)


def marked_name(result: Result, metric: str) -> str:
    """Return a metric's name for the head of a column, marked if it covers fewer hits than it says."""
    return f"{metric}{_CUT_SHORT}" if cut_short(result, metric) else metric


def metrics_legend(result: Result, trials: Sequence[TrialResult]) -> Iterator[str]:
    """Yield the lines on metrics that cover fewer hits than their names say, and on means over several cutoffs."""
    marked = [name for name in metric_names(trials) if cut_short(result, name)]
    if marked:
        read = [trial for trial in trials if trial.measured_at is None and trial.stages is None]
        runs = any(trial.engine is None and trial.status != "failed" for trial in read)
        of_runs = "; of a run, of all that it holds" if runs else ""
        k = result.plan.resolved.get("k")
        yield f"{_CUT_SHORT} {', '.join(marked)} of the {k} requested hits (--k){of_runs}"
    averages = [name for name in metric_names(trials) if "+" in name.rpartition("@")[2]]
    if averages:
        yield f'{", ".join(averages)}: mean over these cutoffs, the "Avg" of some leaderboards'
