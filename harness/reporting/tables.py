"""One report to a few plain tables of text, which every textual format prints."""

from __future__ import annotations

from dataclasses import dataclass

from harness.results.schema import BackendResult, IndexStats, MetricValue, PairedDifference, Report

__all__ = ["Table", "header", "legend", "notes", "tables"]

NOT_APPLICABLE = "–"
FAILED = "failed"
_MEBIBYTE = 1024**2
_LOG_LINES = 5
_MARKS = {
    "=": "=: equal on every query",
    "*": "*: significant, p < 0.05 after Holm's correction for all {tests} comparisons (paired randomisation test)",
    "~": "~: not significant after Holm's correction for all {tests} comparisons; report.json has each p and interval",
    "≈": "≈: inside what the order of tied documents can move, so no difference",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; every cell is text, the first column names the backend."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(report: Report) -> list[Table]:
    """Quality, parity, indexing, speed; and the differences between backends when there are several."""
    made = [_quality(report), _parity(report), _indexing(report), _speed(report)]
    if report.comparisons:
        made.append(_differences(report))
    return [table for table in made if table.rows]


def header(report: Report) -> str:
    """One line that says on what, how much and under which rules."""
    dataset, resolved = report.dataset, report.plan.resolved
    empty = f" ({dataset.empty_documents} empty)" if dataset.empty_documents else ""
    queries = f"{dataset.queries.searched:,} queries"
    if dataset.sampled_from is not None:
        queries = f"{dataset.queries.searched:,} of {dataset.sampled_from:,} queries, a sample"
    judged = f"{dataset.queries.judged:,} judged, {dataset.queries.relevant:,} with a relevant document"
    evaluated = _evaluated(report)
    if len(evaluated) == 1:
        judged += f", {evaluated.pop():,} evaluated"
    parts = [
        dataset.name,
        f"{dataset.documents:,} documents{empty}",
        queries,
        judged if dataset.judgments else "no judgments, so no metrics",
        f"k={resolved['k']}",
        f"ties={resolved['ties']}",
    ]
    analyzers = sorted({str(b.encoder["analyzer"]) for b in report.backends if b.encoder.get("analyzer")})
    return " · ".join([*parts, *analyzers])


def notes(report: Report) -> list[str]:
    """Failures, proven causes of differences, and whatever else a reader must know, one line each."""
    lines = []
    shared: dict[str, list[str]] = {}
    for backend in report.backends:
        if backend.error is not None:
            lines.append(f"{backend.label} failed: {backend.error.message}")
            lines.extend(f"    {line}" for line in backend.error.log[-_LOG_LINES:])
        if backend.parity is not None and backend.parity.causes:
            causes = ", ".join(
                f"{cause} ({count} of {backend.parity.queries} queries)"
                for cause, count in backend.parity.causes.items()
            )
            lines.append(f"{backend.label} differs from its oracle because of: {causes}")
        for note in backend.notes:
            shared.setdefault(note, []).append(backend.label)
    lines.extend(f"{', '.join(labels)}: {note}" for note, labels in shared.items())
    lines.extend(str(note) for note in _listed(report.plan.resolved.get("notes")))
    return lines


def legend(report: Report) -> list[str]:
    """What the marks mean; only those that occur."""
    lines = []
    if any(_moved_by_ties(value) for backend in report.backends for value in backend.metrics.values()):
        lines.append("[low–high]: the range of the mean over all orders of tied documents")
    if any(backend.parity for backend in report.backends):
        lines += [
            "bit-equal ⊂ identical ⊂ tie-equivalent: queries with the same scores to the bit, the same ranking,",
            "the same up to ties of the exact scores; overlap, RBO: means; Δscore: the largest relative difference",
        ]
    shown = {mark for table in tables(report)[-1:] for row in table.rows for cell in row for mark in cell[-1:]}
    marks = [meaning for mark, meaning in _MARKS.items() if report.comparisons and mark in shown]
    lines.extend(meaning.format(tests=len(report.comparisons)) for meaning in marks)
    return lines


def _quality(report: Report) -> Table:
    names, evaluated = _metric_names(report), _evaluated(report)
    columns = ("backend", *names, "answered", *(["evaluated"] if len(evaluated) > 1 else []))
    rows = []
    for backend in report.backends:
        counts = backend.queries
        shown = [counts.answered, *([counts.evaluated] if len(evaluated) > 1 else [])] if counts is not None else []
        cells = [f"{count:,}" for count in shown] or [NOT_APPLICABLE] * (len(columns) - len(names) - 1)
        rows.append((backend.label, *(_metric(backend, name) for name in names), *cells))
    return Table("Quality", columns, tuple(rows) if names else ())


def _evaluated(report: Report) -> set[int]:
    """How many queries the means are taken over; more than one number when backends answered different ones."""
    return {backend.queries.evaluated for backend in report.backends if backend.queries is not None}


def _metric_names(report: Report) -> list[str]:
    for backend in report.backends:
        if backend.metrics:
            return list(backend.metrics)
    return []


def _metric(backend: BackendResult, name: str) -> str:
    if backend.status == "failed":
        return FAILED
    value = backend.metrics[name]
    if not _moved_by_ties(value):
        return f"{value.mean:.4f}"
    return f"{value.mean:.4f} [{_short(value.min)}–{_short(value.max)}]"


def _short(value: float | None) -> str:
    return f"{value:.4f}".removeprefix("0")


def _moved_by_ties(value: MetricValue) -> bool:
    if value.min is None or value.max is None:
        return False
    return f"{value.min:.4f}" != f"{value.max:.4f}"


def _parity(report: Report) -> Table:
    depths = sorted({int(depth) for b in report.backends if b.parity for depth in b.parity.overlap})
    queries = next((b.parity.queries for b in report.backends if b.parity), 0)
    columns = (
        "backend",
        "oracle",
        "bit-equal",
        "identical",
        "tie-equiv.",
        *(f"{'overlap' if place == 0 else ''}@{depth}" for place, depth in enumerate(depths)),
        "RBO",
        "Δscore",
    )
    rows = [_parity_row(backend, depths, len(columns)) for backend in report.backends]
    return Table(f"Parity with the exact reference, {queries} queries", columns, tuple(rows) if queries else ())


def _parity_row(backend: BackendResult, depths: list[int], width: int) -> tuple[str, ...]:
    parity = backend.parity
    if parity is None:
        oracle = FAILED if backend.status == "failed" else "none"
        return (backend.label, oracle, *([NOT_APPLICABLE] * (width - 2)))
    return (
        backend.label,
        parity.mode,
        *(str(count) for count in (parity.bit_equal, parity.identical, parity.tie_equivalent)),
        *(_share(parity.overlap.get(str(depth))) for depth in depths),
        f"{parity.rbo:.4f}",
        f"{parity.max_rel_score_diff:.1e}" if parity.max_rel_score_diff else "0",
    )


def _share(value: float | None) -> str:
    return NOT_APPLICABLE if value is None else f"{value:.4f}"


def _indexing(report: Report) -> Table:
    rows = [_index_row(b.label, b.index) for b in report.backends if b.index is not None]
    columns = ("backend", "documents", "docs/s", "ready after", "index", "log", "peak memory", "peak RSS")
    return Table("Index", columns, tuple(rows))


def _index_row(label: str, index: IndexStats) -> tuple[str, ...]:
    return (
        label,
        f"{index.documents_indexed:,} of {index.documents_sent:,}",
        f"{index.documents_per_second:,.0f}",
        f"{index.ready_seconds:.2f} s",
        _size(index.bytes),
        _size(index.log_bytes) if index.log_bytes else NOT_APPLICABLE,
        _size(index.peak_anonymous_bytes),
        _size(index.peak_rss_bytes),
    )


def _size(count: int | None) -> str:
    return NOT_APPLICABLE if count is None else f"{count / _MEBIBYTE:,.1f} MiB"


def _speed(report: Report) -> Table:
    rows = []
    for backend in report.backends:
        search = backend.search
        if search is None:
            continue
        times = search.milliseconds
        rows.append(
            (
                backend.label,
                *(f"{value:.3f}" for value in (times.p50, times.p95, times.p99)),
                f"{search.transfer_ms.p50:.3f}",
                f"{times.n:,}",
                f"{search.qps:,.0f}",
                f"{search.first_query_ms:.2f}",
            )
        )
    columns = ("backend", "p50 ms", "p95 ms", "p99 ms", "transfer p50 ms", "n", "queries/s", "first query ms")
    return Table("Search, one client", columns, tuple(rows))


def _differences(report: Report) -> Table:
    names = _metric_names(report)
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in report.comparisons:
        cells.setdefault((row.b, row.a), {})[row.metric] = _difference(row)
    rows = [(f"{b} − {a}", *(found.get(name, NOT_APPLICABLE) for name in names)) for (b, a), found in cells.items()]
    return Table("Differences between backends", ("backends", *names), tuple(rows))


def _difference(row: PairedDifference) -> str:
    if row.verdict == "same":
        return "="
    mark = "~" if row.verdict == "undecided" else "*"
    return f"{row.difference:+.4f}".replace("-", "−") + f" {'≈' if row.within_ties else mark}"


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []
