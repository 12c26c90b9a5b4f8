"""Show tuned figures: what some queries chose, and what it gains on the queries that did not choose it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.document.cells import ABSENT, BACKEND, count, interval, number, probability, signed, text
from harness.document.model import Cell, Column, Table, Value
from harness.report.documents.quality import best_value, difference_values, mark_of, meanings
from harness.report.documents.tuning_verdicts import agreeing_folds
from harness.results.schema import PairedDifference, Result, TunedMeans, TuningChoice, TuningStats
from harness.wording import few_for_interval

_TIES = "of equal means the default is chosen, then the fewest changed parameters, then the first combination"
_OF_FOLDS = (
    "all (n/m): n of m folds choose the combination that is best on all queries",
    "95 % interval and p: signs of the differences are flipped at random, and each fold chooses again",
)


def tuning_tables(result: Result, dataset: str, title_suffix: str = "") -> list[Table]:
    """Tabulate the tuned backends of a dataset, one a row, or one a fold and a row for all folds."""
    tunings = [
        tuning for tuning in result.tunings if tuning.dataset == dataset and tuning.reported and tuning.difference
    ]
    if not tunings:
        return []
    metric, cross_validated = tunings[0].metric, tunings[0].cross_validated
    best = best_value(metric) if not cross_validated else None
    several = len(tunings) > 1
    columns = [
        *([BACKEND] if several else []),
        *([Column("fold", numeric=False, names=True)] if cross_validated else []),
        Column("chosen", numeric=False, help=f"the combination with the best mean {metric} on the queries that choose"),
        Column("choosing", priority=5, help="queries that choose"),
        Column("its mean", priority=3, follows=True, help=f"mean {metric} of the choice on the queries that chose it"),
        Column("− default", priority=4, follows=True, help="difference from the default there: too good by the choice"),
        Column("reporting", priority=2, help="queries that did not choose"),
        Column("tuned", best=best, help=f"mean {metric} of the choice on the queries that did not choose it"),
        Column("default", help=f"mean {metric} of the default on the same queries"),
        Column("difference", below="95 % interval", below_priority=1, help="tuned minus default"),
        Column("p", priority=1, help="two-sided paired randomisation test, after Holm over the tuned backends"),
    ]
    rows = [[*([text(tuning.backend)] if several else []), *cells] for tuning in tunings for cells in _rows(tuning)]
    tested = [tuning.difference for tuning in tunings if tuning.difference is not None]
    legend = [
        "chosen on the choosing queries; tuned and default on the reporting queries, which did not choose",
        _TIES,
        *(_OF_FOLDS if cross_validated else ()),
        *meanings(tested, {mark_of(row) for row in tested}, "than the default"),
        *few_for_interval(_queries(row) for row in tested if row.wins + row.losses and not cross_validated),
    ]
    title = f"Tuned by {metric}" if several else f"{tunings[0].backend} tuned by {metric}"
    return [Table(f"{title}{title_suffix}", columns, rows, legend)]


def _rows(tuning: TuningStats) -> Iterator[list[Cell]]:
    """Yield the row of a tuned backend without its name, after the rows of its folds."""
    if tuning.reported is None or tuning.difference is None:
        return
    tested = [*_means(tuning.reported), *_test(tuning.difference)]
    if not tuning.cross_validated:
        (choice,) = tuning.choices
        yield [text(choice.chosen), *_choosing(choice), *tested]
        return
    for fold, choice in enumerate(tuning.choices, 1):
        difference = choice.reporting.chosen - choice.reporting.default
        cells = [*_means(choice.reporting), Cell(signed(difference), value=difference), text("")]
        yield [text(f"{fold}"), text(choice.chosen), *_choosing(choice), *cells]
    votes = f"all ({agreeing_folds(tuning)}/{len(tuning.choices)})"
    yield [text(votes), text(str(tuning.chosen)), *[text("")] * 3, *tested]


def _choosing(choice: TuningChoice) -> list[Cell]:
    means = choice.choosing
    gain = means.chosen - means.default
    return [count(means.queries), number(means.chosen), Cell(signed(gain), value=gain)]


def _means(means: TunedMeans) -> list[Cell]:
    return [count(means.queries), number(means.chosen), number(means.default)]


def _test(row: PairedDifference) -> list[Cell]:
    changed = row.wins + row.losses > 0
    below = interval(row.ci_low, row.ci_high, "+.4f") if changed else ""
    p = Cell(probability(row.p_adjusted), value=row.p_adjusted) if changed else text(ABSENT)
    return [Cell(signed(row.difference), mark_of(row), below, value=row.difference), p]


def _queries(row: PairedDifference) -> int:
    return row.wins + row.ties + row.losses


def tuning_values(result: Result) -> Iterator[Value]:
    """Yield the figures of tuned backends: means and test over reporting queries, and the means of each choice."""
    for tuning in result.tunings:
        if tuning.reported is None or tuning.difference is None:
            continue
        dataset, queries, metric = tuning.dataset, tuning.reported.queries, tuning.metric
        yield Value(dataset, tuning.name, metric, tuning.reported.chosen, n=queries)
        yield Value(dataset, tuning.name, f"default.{metric}", tuning.reported.default, n=queries)
        yield from difference_values(tuning.difference, dataset)
        if tuning.cross_validated:
            yield Value(dataset, tuning.name, "folds_that_agree", float(agreeing_folds(tuning)), n=len(tuning.choices))
        for fold, choice in enumerate(tuning.choices, 1):
            of_fold = f".fold_{fold}" if tuning.cross_validated else ""
            for part, means in (("choosing", choice.choosing), ("reporting", choice.reporting)):
                name, default = f"tuning{of_fold}.{part}", tuning.candidates[0]
                yield Value(dataset, choice.chosen, f"{name}.chosen.{metric}", means.chosen, n=means.queries)
                yield Value(dataset, default, f"{name}.default.{metric}", means.default, n=means.queries)
