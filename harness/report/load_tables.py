"""The tables of what was measured on a finished index: cold, several clients at once, a fixed rate."""

from __future__ import annotations

from harness.report.cells import FAILED, NOT_APPLICABLE, Table, measured_label, milliseconds, seconds, size
from harness.results.schema import ClosedLoopStats, ColdStats, LatencyStats, OpenLoopStats, Result, SearchStats

__all__ = ["closed_loop", "cold", "legend_of_load", "open_loop"]


def cold(report: Result) -> Table:
    """The first pass on the index opened again, beside the warm one."""
    rows = [_cold_row(measured_label(b), b.cold, b.search) for b in report.trials if b.cold is not None]
    columns = ("backend", "open s", "first query ms", "p50 ms", "p95 ms", "p99 ms", "n", "warm p50 ms", "in cache")
    return Table("Search, cold", columns, tuple(rows))


def _cold_row(label: str, found: ColdStats, warm: SearchStats | None) -> tuple[str, ...]:
    usual = warm.milliseconds if warm is not None else None
    return (
        label,
        seconds(found.open_seconds),
        milliseconds(found.first_query_ms),
        *_percentiles(found.milliseconds),
        milliseconds(usual.p50 if usual is not None else None),
        NOT_APPLICABLE if found.resident_share is None else f"{found.resident_share:.0%}",
    )


def closed_loop(report: Result) -> Table:
    """Each number of clients; ``gain`` is the throughput against the first of them."""
    columns = ("backend", "clients", "queries/s", "gain", "p50 ms", "p95 ms", "p99 ms", "n", "errors", "memory")
    rows = []
    for backend in report.trials:
        first = next((level.qps for level in backend.closed_loop if level.qps), None)
        rows += [_closed_row(measured_label(backend), level, first) for level in backend.closed_loop]
    title = f"Search, clients in closed loop, {_cores(report)}"
    return Table(title, columns, tuple(rows))


def _closed_row(label: str, level: ClosedLoopStats, first: float | None) -> tuple[str, ...]:
    clients = f"{level.clients} threads" if level.kind == "threads" else str(level.clients)
    return (
        label,
        clients,
        FAILED if level.qps is None else f"{level.qps:,.0f}",
        NOT_APPLICABLE if level.qps is None or not first else f"{level.qps / first:.2f}",
        *_percentiles(level.milliseconds),
        _errors(level.errors, level.clients_failed),
        size(level.peak_anonymous_bytes),
    )


def open_loop(report: Result) -> Table:
    """Each rate, with latency from the time at which queries were due, and the service alone."""
    columns = (
        "backend",
        "rate",
        "due/s",
        "answered/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "n",
        "service ms",
        "waiting",
        "errors",
    )
    rows = [_open_row(measured_label(b), level) for b in report.trials for level in b.open_loop]
    title = f"Search, queries at a fixed rate, {_cores(report)}"
    return Table(title, columns, tuple(rows))


def _open_row(label: str, level: OpenLoopStats) -> tuple[str, ...]:
    return (
        label,
        f"{level.rate:,g}",
        f"{level.due_qps:,.1f}",
        FAILED if level.qps is None else f"{level.qps:,.1f}",
        *_percentiles(level.milliseconds),
        milliseconds(level.service_ms.p50 if level.service_ms is not None else None),
        f"{level.backlog:,}{' !' if level.overloaded else ''}",
        _errors(level.errors, level.clients_failed),
    )


def legend_of_load(report: Result) -> list[str]:
    """What the words in these tables mean; only of tables that are there."""
    lines = []
    if any(backend.cold is not None for backend in report.trials):
        lines.append("cold: one pass in a new process, no warm-up; in cache: the index's pages that stayed in memory")
    if any(backend.closed_loop for backend in report.trials):
        lines.append("gain: against the backend's first row; memory: peak of all clients together, above their start")
    if any(backend.open_loop for backend in report.trials):
        lines += [
            "p50 to p99 count from when a query was due, service (p50) from when it was asked;",
            "waiting: due and not yet asked at the end, !: overload",
        ]
    return lines


def _percentiles(found: LatencyStats | None) -> tuple[str, ...]:
    if found is None:
        return (*[FAILED] * 3, "0")
    return (*(milliseconds(value) for value in (found.p50, found.p95, found.p99)), f"{found.n:,}")


def _errors(queries: int, clients: int) -> str:
    return f"{queries:,}" if not clients else f"{queries:,} + {clients} clients"


def _cores(report: Result) -> str:
    return "1 core" if report.machine.cores == 1 else f"{report.machine.cores} cores"
