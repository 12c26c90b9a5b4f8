"""Tabulate what backends cost: indexing, phases, search, load, and how far several builds lie apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from harness.document.cells import (
    FAILED,
    absent,
    count,
    latencies,
    latency_columns,
    milliseconds,
    number,
    seconds,
    size,
    text,
)
from harness.document.model import Cell, Column, Table
from harness.results.schema import (
    ClosedLoopStats,
    ColdStats,
    IndexStats,
    OpenLoopStats,
    PhaseTimes,
    SearchStats,
    SpreadStats,
    SpreadValue,
    TrialResult,
)

__all__ = ["BACKEND", "cost_tables", "spread_tables"]

BACKEND = Column("backend", numeric=False, names=True)
_REUSED = "†"
_REUSED_LEGEND = f"{_REUSED}: measured by an earlier comparison and re-used (--resume)"
_SOURCES = {"cached": "cached", "engine": "by engine"}
_COSTS: Mapping[str, tuple[str, Callable[[float], Cell]]] = {
    "documents_per_second": ("docs/s", lambda value: number(value, ",.0f")),
    "bytes": ("index", size),
}
"""The costs that have a row in the spread, as *Index* names and shows them; the others are in CSV and JSON."""


def cost_tables(trials: Sequence[TrialResult], cores: int, where: str = "") -> list[Table]:
    """Return the tables of costs that have rows; ``where`` ends their titles.

    What every comparison measures is a detail; what was asked for, such as a load test, is not.
    """
    on = "1 core" if cores == 1 else f"{cores} cores"
    always = [_index(trials), _phases(trials), _search(trials), _stages(trials), _reranking(trials)]
    wanted = [_cold(trials), _closed_loop(trials, on), _open_loop(trials, on)]
    return [
        Table(
            f"{table.title}{where}",
            table.columns,
            table.rows,
            [*table.legend, *([_REUSED_LEGEND] if any(row[0].mark for row in table.rows) else [])],
            detail=table in always,
        )
        for table in (*always, *wanted)
        if table.rows
    ]


def _label(trial: TrialResult) -> Cell:
    """Return the label, marked where an earlier comparison measured the backend."""
    return text(trial.label, _REUSED if trial.reused else "")


def _index(trials: Sequence[TrialResult]) -> Table:
    rows = [[_label(trial), *_index_cells(trial.index)] for trial in trials if trial.index is not None]
    columns = [
        BACKEND,
        Column("documents", help="documents that the engine holds, of those that were sent"),
        Column("docs/s", best="highest", help="of ingestion, without encoding and waiting"),
        Column("searchable", best="lowest", help="from the first document until all can be searched"),
        Column("index", best="lowest", help="allocated blocks, without the write-ahead log"),
        Column("log"),
        Column("peak memory", best="lowest", help="highest anonymous memory above the worker's state before"),
        Column("peak RSS"),
    ]
    return Table("Index", columns, rows)


def _index_cells(index: IndexStats) -> list[Cell]:
    sent = "external" if index.documents_sent is None else f"of {index.documents_sent:,}"
    return [
        Cell(f"{index.documents_indexed:,} {sent}", value=index.documents_indexed),
        number(index.documents_per_second, ",.0f"),
        number(index.searchable_seconds, ".2f", " s"),
        size(index.bytes),
        size(index.log_bytes or None),
        size(index.peak_anonymous_bytes),
        size(index.peak_rss_bytes),
    ]


def _phases(trials: Sequence[TrialResult]) -> Table:
    names = ("encode", "open", "index", "ready", "first query", "warm-up", "search", "transfer")
    rows = [[_label(trial), *_phase_cells(trial.phases)] for trial in trials if trial.phases is not None]
    return Table("Seconds of each phase", [BACKEND, *map(Column, names)], rows)


def _phase_cells(times: PhaseTimes) -> list[Cell]:
    source = _SOURCES.get(times.encode_source)
    measured = (
        times.open_seconds,
        times.index_seconds,
        times.ready_seconds,
        times.first_query_seconds,
        times.warm_up_seconds,
        times.search_seconds,
        times.transfer_seconds,
    )
    return [text(source) if source else seconds(times.encode_seconds), *(seconds(value) for value in measured)]


def _search(trials: Sequence[TrialResult]) -> Table:
    searched = [(trial, trial.search) for trial in trials if trial.search is not None]
    columns = [
        BACKEND,
        *latency_columns(),
        Column("transfer p50 ms"),
        Column("queries/s", best="highest"),
        Column("first query ms"),
    ]
    rows = [[_label(trial), *_search_cells(search)] for trial, search in searched]
    timed = any(search.milliseconds is not None for _, search in searched)
    return Table("Search, one client", columns, rows if timed else [])


def _search_cells(search: SearchStats) -> list[Cell]:
    if search.milliseconds is None or search.transfer_ms is None:
        return absent(7)
    return [
        *latencies(search.milliseconds),
        milliseconds(search.transfer_ms.p50),
        number(search.qps, ",.0f"),
        number(search.first_query_ms, ".2f"),
    ]


def _stages(trials: Sequence[TrialResult]) -> Table:
    """Tabulate backends that are made of others: what those took, and what was done with their hits."""
    columns = [BACKEND, Column("of", numeric=False), *map(Column, ("of these, p50 ms", "p95 ms", "own ms/query"))]
    rows = []
    for trial in trials:
        if trial.stages is not None:
            first = trial.stages.first_ms
            times = (
                (first.p50, first.p95, trial.stages.own_ms) if first is not None else (None, None, trial.stages.own_ms)
            )
            rows.append([_label(trial), text(" + ".join(trial.stages.of)), *map(milliseconds, times)])
    return Table("Made of other backends", columns, rows)


def _reranking(trials: Sequence[TrialResult]) -> Table:
    """Tabulate second stages: how many pairs they scored, and how fast."""
    columns = [BACKEND, *map(Column, ("candidates", "pairs", "scored now", "pairs/s", "load s"))]
    rows = []
    for trial in trials:
        stats = trial.stages.reranking if trial.stages is not None else None
        if stats is not None:
            counts = (stats.candidates, stats.pairs, stats.scored)
            cells = [*map(count, counts), number(stats.pairs_per_second, ",.0f"), seconds(stats.load_seconds)]
            rows.append([_label(trial), *cells])
    return Table("Second stages", columns, rows)


def _cold(trials: Sequence[TrialResult]) -> Table:
    """Tabulate the first pass on the index opened again, beside the warm one."""
    columns = [
        BACKEND,
        *map(Column, ("open s", "first query ms")),
        *latency_columns(),
        Column("warm p50 ms", priority=1),
        Column("in cache", priority=2),
    ]
    rows = [[_label(trial), *_cold_cells(trial.cold, trial.search)] for trial in trials if trial.cold is not None]
    legend = ["cold: one pass in a new process, no warm-up; in cache: the index's pages that stayed in memory"]
    return Table("Search, cold", columns, rows, legend)


def _cold_cells(cold: ColdStats, search: SearchStats | None) -> list[Cell]:
    warm = search.milliseconds if search is not None else None
    return [
        seconds(cold.open_seconds),
        milliseconds(cold.first_query_ms),
        *latencies(cold.milliseconds, FAILED),
        milliseconds(warm.p50 if warm is not None else None),
        number(cold.resident_share, ".0%"),
    ]


def _closed_loop(trials: Sequence[TrialResult], cores: str) -> Table:
    """Tabulate each number of clients; ``gain`` is the throughput against the first of them."""
    columns = [
        BACKEND,
        Column("clients"),
        Column("queries/s", best="highest"),
        Column("gain"),
        *latency_columns(),
        Column("errors"),
        Column("memory", priority=1),
    ]
    rows = []
    for trial in trials:
        first = next((level.qps for level in trial.closed_loop if level.qps), None)
        rows += [[_label(trial), *_closed_cells(level, first)] for level in trial.closed_loop]
    legend = ["gain: against the backend's first row; memory: peak of all clients together, above their start"]
    return Table(f"Search, clients in closed loop, {cores}", columns, rows, legend)


def _closed_cells(level: ClosedLoopStats, first: float | None) -> list[Cell]:
    clients = f"{level.clients} threads" if level.kind == "threads" else str(level.clients)
    return [
        Cell(clients, value=level.clients),
        text(FAILED) if level.qps is None else number(level.qps, ",.0f"),
        number(level.qps / first if level.qps is not None and first else None, ".2f"),
        *latencies(level.milliseconds, FAILED),
        _errors(level),
        size(level.peak_anonymous_bytes),
    ]


def _open_loop(trials: Sequence[TrialResult], cores: str) -> Table:
    """Tabulate each rate, with latency from the time at which queries were due, and the service alone."""
    columns = [
        BACKEND,
        Column("rate"),
        Column("due/s", priority=4),
        Column("answered/s", best="highest"),
        *latency_columns(),
        Column("service ms", priority=2),
        Column("waiting", priority=1),
        Column("errors"),
    ]
    rows = [[_label(trial), *_open_cells(level)] for trial in trials for level in trial.open_loop]
    legend = [
        "p50 to p99 count from when a query was due, service (p50) from when it was asked",
        "waiting: due and not yet asked at the end, !: overload",
    ]
    return Table(f"Search, queries at a fixed rate, {cores}", columns, rows, legend)


def _open_cells(level: OpenLoopStats) -> list[Cell]:
    return [
        number(level.rate, ",g"),
        number(level.due_qps, ",.1f"),
        text(FAILED) if level.qps is None else number(level.qps, ",.1f"),
        *latencies(level.milliseconds, FAILED),
        milliseconds(level.service_ms.p50 if level.service_ms is not None else None),
        Cell(f"{level.backlog:,}{' !' if level.overloaded else ''}", value=level.backlog),
        _errors(level),
    ]


def _errors(level: ClosedLoopStats | OpenLoopStats) -> Cell:
    said = f"{level.errors:,}" if not level.clients_failed else f"{level.errors:,} + {level.clients_failed} clients"
    return Cell(said, value=level.errors)


def spread_tables(trials: Sequence[TrialResult], where: str = "") -> list[Table]:
    """Tabulate metrics and agreement with the reference over all builds, and the share of unchanging rankings."""
    found = [(trial, trial.spread) for trial in trials if trial.spread is not None]
    builds = max((spread.builds for _, spread in found), default=0)
    depths = sorted({int(depth) for _, spread in found for depth in spread.pairwise_overlap})
    named = [
        Column(f"{name if place == 0 else ''}@{depth}")
        for name in ("identical", "overlap")
        for place, depth in enumerate(depths)
    ]
    legend = [
        "spread: over builds of the same documents, sd: sample standard deviation; other figures are the first build's",
        "identical@n: share of queries with the same documents at the same first n ranks in every build",
        "overlap@n of builds: share of common documents, mean over all pairs of them",
    ]
    columns = [BACKEND, Column("figure", numeric=False), *map(Column, ("mean", "sd", "min", "max"))]
    figures = [row for trial, spread in found for row in _spread_rows(trial, spread)]
    rankings = [[text(trial.label), *_stability(spread, depths)] for trial, spread in found]
    made = [
        Table(f"Spread over {builds} builds{where}", columns, figures, legend[:1]),
        Table(
            f"Rankings of {builds} builds against one another{where}",
            [BACKEND, Column("queries"), *named],
            rankings,
            legend[1:],
        ),
    ]
    return [table for table in made if table.rows]


def _spread_rows(trial: TrialResult, spread: SpreadStats) -> Iterator[list[Cell]]:
    dense = trial.parity is not None and trial.parity.reference == "dense"
    kind = "recall" if dense else "overlap with the reference"
    for name, value in spread.metrics.items():
        yield _spread_row(trial, name, value)
    for depth, value in spread.reference_overlap.items():
        yield _spread_row(trial, f"{kind}@{depth}", value)
    for name, (title, shown) in _COSTS.items():
        if name in spread.costs:
            yield _spread_row(trial, title, spread.costs[name], shown)


def _spread_row(
    trial: TrialResult, figure: str, value: SpreadValue, shown: Callable[[float], Cell] = number
) -> list[Cell]:
    return [text(trial.label), text(figure), *map(shown, (value.mean, value.sd, value.min, value.max))]


def _stability(spread: SpreadStats, depths: Sequence[int]) -> list[Cell]:
    names = [str(depth) for depth in depths]
    return [
        count(spread.queries),
        *(number(spread.identical_share.get(name), ".1%") for name in names),
        *(number(spread.pairwise_overlap.get(name)) for name in names),
    ]
