"""How runs relate to their exact results: one table for term weights, two for dense vectors, where search may miss."""

from __future__ import annotations

from harness.report.cells import FAILED, NOT_APPLICABLE, Table
from harness.results.schema import LossStats, ParityStats, Result, TrialResult
from harness.wording import counted

__all__ = ["legend_of_parity", "loss_cell", "parity_tables"]


def parity_tables(report: Result) -> list[Table]:
    """Parity with the references of term weights; recall of backends of dense vectors, and what their means lose.

    Second stages have no reference by their nature, and no row. Where queries are ranked among candidates, runs and
    references hold these alone, all of them, and titles say so.
    """
    shown = [backend for backend in report.trials if not _is_second_stage(backend)]
    dense = [backend for backend in shown if _is_dense(backend)]
    over = ", among the candidates" if report.dataset.candidates is not None else ""
    return [_parity([one for one in shown if not _is_dense(one)], over), _recall(dense, over), _losses(dense)]


def legend_of_parity(report: Result) -> list[str]:
    """What the columns mean; only those that occur."""
    lines = []
    held = [backend for backend in report.trials if backend.parity]
    if held:
        lines += [
            "bit-equal ⊂ identical ⊂ tie-equivalent: queries with the same scores to the bit, the same ranking,",
            "the same up to ties of the exact scores; overlap, RBO: means; Δscore: the largest relative difference",
        ]
    if any(_is_dense(backend) for backend in held):
        lines.append("recall@n: share of the exact best n that are among the engine's; Δscore there: relative to the")
        lines.append("largest score that the query could have")
    if any(backend.parity.loss for backend in held if backend.parity):
        lines.append("loss: the engine's mean minus that of exact search on the same vectors [95 % interval]")
    return lines


def _is_second_stage(backend: TrialResult) -> bool:
    return backend.stages is not None and backend.stages.reranking is not None


def _is_dense(backend: TrialResult) -> bool:
    if backend.parity is not None:
        return backend.parity.reference == "dense"
    return backend.encoder.get("encoder") == "dense"


def _parity(backends: list[TrialResult], over: str) -> Table:
    depths = _depths(backends)
    columns = (
        *("backend", "reference", "bit-equal", "identical", "tie-equiv."),
        *_named("overlap", depths),
        *("RBO", "Δscore"),
    )
    rows = [_row(backend, depths, len(columns)) for backend in backends]
    queries = _queries(backends)
    return Table(
        f"Parity with the exact reference, {counted(queries, 'query')}{over}",
        columns,
        tuple(rows) if queries else (),
    )


def _recall(backends: list[TrialResult], over: str) -> Table:
    depths = _depths(backends)
    columns = (
        *("backend", "similarity", "bit-equal", "identical", "tie-equiv."),
        *_named("recall", depths),
        *("RBO", "Δscore", "in graph"),
    )
    rows = [(*_row(backend, depths, len(columns) - 1), _in_graph(backend)) for backend in backends]
    queries = _queries(backends)
    return Table(
        f"Recall against exact dense search, {counted(queries, 'query')}{over}",
        columns,
        tuple(rows) if queries else (),
    )


def _losses(backends: list[TrialResult]) -> Table:
    found = [(backend.label, backend.parity.loss) for backend in backends if backend.parity and backend.parity.loss]
    names = list(found[0][1]) if found else []
    rows = [(label, *(loss_cell(loss.get(name)) for name in names)) for label, loss in found]
    return Table("Loss against exact dense search", ("backend", *names), tuple(rows))


def loss_cell(loss: LossStats | None) -> str:
    """A mean less that of the exact result, with its interval."""
    if loss is None:
        return NOT_APPLICABLE
    if loss.difference == 0 and loss.ci_low == loss.ci_high:
        return "0"
    interval = "" if loss.ci_low is None else f" [{loss.ci_low:+.4f}, {loss.ci_high:+.4f}]"
    return f"{loss.difference:+.4f}{interval}".replace("-", "−")


def _in_graph(backend: TrialResult) -> str:
    count = backend.index.state.get("vectors_in_graph") if backend.index is not None else None
    if not isinstance(count, int):
        return NOT_APPLICABLE
    return f"{count:,}" if count else "full scan"


def _depths(backends: list[TrialResult]) -> list[int]:
    return sorted({int(depth) for backend in backends if backend.parity for depth in backend.parity.overlap})


def _queries(backends: list[TrialResult]) -> int:
    return next((backend.parity.queries for backend in backends if backend.parity), 0)


def _named(name: str, depths: list[int]) -> list[str]:
    return [f"{name if place == 0 else ''}@{depth}" for place, depth in enumerate(depths)]


def _row(backend: TrialResult, depths: list[int], width: int) -> tuple[str, ...]:
    parity = backend.parity
    if parity is None:
        reference = FAILED if backend.status == "failed" else "none"
        return (backend.label, reference, *([NOT_APPLICABLE] * (width - 2)))
    return (backend.label, *_agreement(parity, depths))


def _agreement(parity: ParityStats, depths: list[int]) -> list[str]:
    shares = [parity.overlap.get(str(depth)) for depth in depths]
    return [
        parity.mode,
        *(f"{count:,}" for count in (parity.bit_equal, parity.identical, parity.tie_equivalent)),
        *(NOT_APPLICABLE if share is None else f"{share:.4f}" for share in shares),
        f"{parity.rbo:.4f}",
        f"{parity.max_rel_score_diff:.1e}" if parity.max_rel_score_diff else "0",
    ]
