"""The tables of what backends cost: bytes, memory, and the time of each phase."""

from __future__ import annotations

from harness.report.cells import NOT_APPLICABLE, Table, figure, measured_label, milliseconds, seconds, size
from harness.results.schema import IndexStats, PhaseTimes, RerankingStats, Result, SearchStats, StageStats

__all__ = ["indexing", "phases", "reranking", "single_client", "stages"]

_SEARCH_COLUMNS = ("backend", "p50 ms", "p95 ms", "p99 ms", "transfer p50 ms", "n", "queries/s", "first query ms")
_SOURCES = {"cached": "cached", "engine": "by engine"}


def indexing(report: Result) -> Table:
    """What the index holds, how fast it came to be, and what it takes."""
    rows = [_index_row(measured_label(b), b.index) for b in report.trials if b.index is not None]
    columns = ("backend", "documents", "docs/s", "searchable", "index", "log", "peak memory", "peak RSS")
    return Table("Index", columns, tuple(rows))


def _index_row(label: str, index: IndexStats) -> tuple[str, ...]:
    sent = "external" if index.documents_sent is None else f"of {index.documents_sent:,}"
    return (
        label,
        f"{index.documents_indexed:,} {sent}",
        figure(index.documents_per_second, ",.0f"),
        figure(index.searchable_seconds, ".2f", " s"),
        size(index.bytes),
        size(index.log_bytes) if index.log_bytes else NOT_APPLICABLE,
        size(index.peak_anonymous_bytes),
        size(index.peak_rss_bytes),
    )


def phases(report: Result) -> Table:
    """Seconds of each phase, in the order in which they happen."""
    rows = [_phase_row(measured_label(b), b.phases) for b in report.trials if b.phases is not None]
    columns = ("backend", "encode", "open", "index", "ready", "first query", "warm-up", "search", "transfer")
    return Table("Seconds of each phase", columns, tuple(rows))


def _phase_row(label: str, times: PhaseTimes) -> tuple[str, ...]:
    encoded = _SOURCES.get(times.encode_source, seconds(times.encode_seconds))
    measured = (
        times.open_seconds,
        times.index_seconds,
        times.ready_seconds,
        times.first_query_seconds,
        times.warm_up_seconds,
        times.search_seconds,
        times.transfer_seconds,
    )
    return (label, encoded, *(seconds(value) for value in measured))


def single_client(report: Result) -> Table:
    """Latency of one client on the warm index."""
    rows = [_search_row(measured_label(b), b.search) for b in report.trials if b.search is not None]
    timed = any(b.search.milliseconds is not None for b in report.trials if b.search is not None)
    return Table("Search, one client", _SEARCH_COLUMNS, tuple(rows) if timed else ())


def _search_row(label: str, search: SearchStats) -> tuple[str, ...]:
    times, transfer = search.milliseconds, search.transfer_ms
    if times is None or transfer is None:
        return (label, *([NOT_APPLICABLE] * (len(_SEARCH_COLUMNS) - 1)))
    return (
        label,
        *(milliseconds(value) for value in (times.p50, times.p95, times.p99)),
        milliseconds(transfer.p50),
        f"{times.n:,}",
        figure(search.qps, ",.0f"),
        figure(search.first_query_ms, ".2f"),
    )


def stages(report: Result) -> Table:
    """Backends that are made of others: what those took, and what was done with their hits."""
    rows = [_stage_row(measured_label(b), b.stages) for b in report.trials if b.stages is not None]
    return Table("Made of other backends", ("backend", "of", "of these, p50 ms", "p95 ms", "own ms/query"), tuple(rows))


def _stage_row(label: str, stats: StageStats) -> tuple[str, ...]:
    first = stats.first_ms
    times = (first.p50, first.p95) if first is not None else (None, None)
    return (label, " + ".join(stats.of), *(milliseconds(value) for value in (*times, stats.own_ms)))


def reranking(report: Result) -> Table:
    """Second stages: how many pairs they scored, and how fast."""
    columns = ("backend", "candidates", "pairs", "scored now", "pairs/s", "load s")
    rows = [
        _reranking_row(measured_label(b), b.stages.reranking)
        for b in report.trials
        if b.stages is not None and b.stages.reranking is not None
    ]
    return Table("Second stages", columns, tuple(rows))


def _reranking_row(label: str, stats: RerankingStats) -> tuple[str, ...]:
    counts = (stats.candidates, stats.pairs, stats.scored)
    return (
        label,
        *(f"{count:,}" for count in counts),
        figure(stats.pairs_per_second, ",.0f"),
        seconds(stats.load_seconds),
    )
