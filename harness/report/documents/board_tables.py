"""Show backends over several datasets: the leaderboard, its values on each dataset, and seconds of search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.document.cells import ABSENT, BACKEND, HUMAN, count, interval, number, signed, text
from harness.document.model import Best, Cell, Column, Table, Value
from harness.report.documents.quality import TONES, mark_of, marked_name, meanings, metrics_legend
from harness.results.schema import BackendInfo, Leaderboard, LeaderboardRow, PairedDifference, Result
from harness.wording import counted

_DIFFERENCE, _DATASETS, _OTHER_MEANS, _ABOUT_MODEL, _RANKS, _INTERVAL = 1, 10, 1000, 2000, 3000, 4000
"""Priorities: columns of the highest are left out first if a table is too wide."""


def leaderboard_tables(result: Result) -> list[Table]:
    """Return means over datasets with the values of the first metric, the values of others, and seconds.

    Nothing for one dataset.
    """
    board = result.leaderboard
    if board is None:
        return []
    by_dataset = [_values(board, metric) for metric in board.metrics[1:]]
    return [_means(result, board), *by_dataset, *_seconds(board)]


def _means(result: Result, board: Leaderboard) -> Table:
    """Tabulate ranks, means over datasets and the value on each dataset, the best by the first metric first."""
    first, *further_metrics = board.metrics
    rows = {metric: {row.backend: row for row in board.rows if row.metric == metric} for metric in board.metrics}
    across = [row for row in result.differences if row.dataset is None and row.metric == first]
    is_against_one = isinstance(result.plan.resolved.get("reference"), str)
    against = {row.b: row for row in across if is_against_one and row.a == across[0].a}  # the first two are a pair too
    models = _about_models(result.backends)
    compared = across[0].a if across else ""
    difference = Column(
        f"− {compared}",
        help=f"mean difference from {compared}, tested with one value per dataset, and its 95 % interval",
        priority=_DIFFERENCE,
        below="95 % interval",
        below_priority=_DIFFERENCE,
        follows=True,
    )
    with_models = any(row.human is not None for row in board.rows)
    columns = [
        BACKEND,
        Column("rank", help=f"by mean {first}; equal means share one"),
        Column(marked_name(result, first), best="highest", below="interval of mean", below_priority=_INTERVAL),
        *([HUMAN] if with_models else []),
        *([difference] if against else []),
        *_dataset_columns(board, "highest"),
        *(
            Column(marked_name(result, name), best="highest", priority=_OTHER_MEANS + position)
            for position, name in enumerate(further_metrics)
        ),
        Column("mean rank", priority=_RANKS, help=f"mean of the ranks in {first} on each dataset"),
        Column("wins", priority=_RANKS, help=f"datasets on which no backend has a higher {first}"),
        *(column for column, _ in models),
    ]
    cells = [
        [
            text(label),
            count(row.rank),
            number(row.mean, below=interval(row.ci_low, row.ci_high)),
            *([number(row.human)] if with_models else []),
            *([_difference(against.get(label), label, across)] if against else []),
            *(number(row.values.get(name)) for name in board.datasets),
            *(number(rows[name][label].mean) for name in further_metrics),
            number(row.mean_rank, ".2f"),
            count(row.wins),
            *(of_model[label] for _, of_model in models),
        ]
        for label, row in rows[first].items()
    ]
    legend = [*_legend(board, list(rows[first].values()), across, cells), *metrics_legend(result, result.trials)]
    title = f"Leaderboard by {first}, means over {counted(len(board.datasets), 'dataset')}"
    return Table(title, columns, cells, legend)


def _difference(row: PairedDifference | None, label: str, across: Sequence[PairedDifference]) -> Cell:
    if row is None:
        return text("" if label == across[0].a else ABSENT)
    mark = mark_of(row)
    interval_text = interval(row.ci_low, row.ci_high, "+.4f") if row.wins + row.losses else ""
    return Cell(signed(row.difference), mark, interval_text, TONES.get(mark, "plain"), row.difference)


def _about_models(infos: Sequence[BackendInfo]) -> list[tuple[Column, dict[str, Cell]]]:
    """Return the columns on models that say something of any backend, with its cells by label."""
    about = [
        (Column("model", numeric=False, priority=_ABOUT_MODEL), [text(info.model or ABSENT) for info in infos]),
        (Column("dimensions", priority=_ABOUT_MODEL + 1), [count(info.dimensions) for info in infos]),
        (
            Column("parameters", priority=_ABOUT_MODEL + 1, help="of the model, in millions"),
            [number(info.parameters_millions, ",.0f", " M") for info in infos],
        ),
    ]
    labels = [info.label for info in infos]
    return [
        (column, dict(zip(labels, cells, strict=True)))
        for column, cells in about
        if any(cell.text != ABSENT for cell in cells)
    ]


def _legend(
    board: Leaderboard,
    rows: Sequence[LeaderboardRow],
    across: Sequence[PairedDifference],
    cells: Sequence[Sequence[Cell]],
) -> Iterator[str]:
    for task, members in board.families.items():
        yield f"{task} is the mean of its {counted(len(members), 'dataset')}, and counts once"
    if any(row.mean is None for row in rows):
        yield "a backend without a value on every dataset has no mean and no rank"
    if any(row.ci_low is not None for row in rows):
        yield "95 % intervals of means: BCa bootstrap over datasets"
    if across:
        yield from board.notes
        marks = {cell.mark for row in cells for cell in row}
        yield from meanings(across, marks, f"than {across[0].a}", of="dataset")


def _values(board: Leaderboard, metric: str) -> Table:
    """Tabulate the mean of a metric on each dataset, in the order of ranks."""
    columns = [BACKEND, Column("mean", best="highest"), *_dataset_columns(board, "highest")]
    rows = [
        [text(row.backend), number(row.mean), *(number(row.values.get(name)) for name in board.datasets)]
        for row in board.rows
        if row.metric == metric
    ]
    return Table(f"{metric} on each dataset", columns, rows, detail=True)


def _dataset_columns(board: Leaderboard, best: Best) -> list[Column]:
    """Return a column for the value on each dataset."""
    return [Column(name, best=best, priority=_DATASETS + column) for column, name in enumerate(board.datasets)]


def _seconds(board: Leaderboard) -> list[Table]:
    """Tabulate how long one client takes for all queries of each dataset; nothing without times."""
    timed = {label: of for label, of in board.search_seconds.items() if any(value is not None for value in of.values())}
    if not timed:
        return []
    rows = [
        [text(label), *(number(value, ",.2f") for value in (_total(board, of), *(of[name] for name in board.datasets)))]
        for label, of in timed.items()
    ]
    columns = [BACKEND, Column("total", best="lowest"), *_dataset_columns(board, "lowest")]
    return [Table("Seconds of search, one client, every query once", columns, rows, detail=True)]


def across_name(result: Result) -> str:
    """Return the name that represents all datasets in values: ``mean``, longer if a dataset has that name."""
    taken = {info.name for info in result.datasets}
    taken.update(result.leaderboard.datasets if result.leaderboard is not None else ())
    name = "mean"
    while name in taken:
        name += " over datasets"
    return name


def leaderboard_values(result: Result, across: str) -> Iterator[Value]:
    """Yield every number of the leaderboard, and of its backends; ``across`` is the result of :func:`across_name`."""
    board = result.leaderboard
    if board is None:
        return
    for row in board.rows:
        yield Value(across, row.backend, row.metric, row.mean, row.ci_low, row.ci_high, row.datasets)
        for name, value in (("rank", row.rank), ("mean_rank", row.mean_rank), ("wins", row.wins)):
            yield Value(across, row.backend, f"{name}.{row.metric}", value, n=row.datasets)
        for task in board.families:
            yield Value(task, row.backend, row.metric, row.values.get(task))
    for label, seconds in board.search_seconds.items():
        for dataset, value in [*seconds.items(), (across, _total(board, seconds))]:
            yield Value(dataset, label, "search_seconds", value)
    for info in result.backends:
        yield Value(across, info.label, "dimensions", info.dimensions)
        yield Value(across, info.label, "parameters_millions", info.parameters_millions)


def _total(board: Leaderboard, seconds: Mapping[str, float | None]) -> float | None:
    """Return the seconds of all datasets; None if a dataset has none."""
    measured = [value for value in seconds.values() if value is not None]
    return sum(measured) if len(measured) == len(board.datasets) else None
