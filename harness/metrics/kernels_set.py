"""Measures of the returned set, and counts: order does not matter. Each fills ``out`` (float64, one value a query)."""

from __future__ import annotations

from harness.data.jit import inner_kernel, kernel
from harness.metrics.judged import Arguments, JudgedHits, Out, relevant_total


@inner_kernel
def _relevant_retrieved(judged: JudgedHits, query: int, level: int) -> int:
    count = 0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
        if judged.grades[hit] >= level:
            count += 1
    return count


@kernel
def set_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits, divided by the number of hits."""
    for query in range(len(out)):
        returned = judged.retrieved[query]
        out[query] = _relevant_retrieved(judged, query, arguments.level) / returned if returned else 0.0


@kernel
def set_recall(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits, divided by the number of relevant documents."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        out[query] = _relevant_retrieved(judged, query, arguments.level) / total if total else 0.0


@kernel
def set_f(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """(1 + beta²) P R / (beta² P + R) of the returned set; ``extra`` is beta."""
    weight = arguments.extra * arguments.extra
    for query in range(len(out)):
        found = _relevant_retrieved(judged, query, arguments.level)
        total = relevant_total(judged, query, arguments.level)
        out[query] = (1.0 + weight) * found / (weight * total + judged.retrieved[query]) if found else 0.0


def number_of_queries(judged: JudgedHits, arguments: Arguments, out: Out) -> None:  # noqa: ARG001 - one signature
    """1 for every query."""
    out[:] = 1.0


def number_retrieved(judged: JudgedHits, arguments: Arguments, out: Out) -> None:  # noqa: ARG001 - one signature
    """Hits, judged or not."""
    out[:] = judged.retrieved


@kernel
def number_relevant(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant documents, returned or not."""
    for query in range(len(out)):
        out[query] = relevant_total(judged, query, arguments.level)


@kernel
def number_relevant_retrieved(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits."""
    for query in range(len(out)):
        out[query] = _relevant_retrieved(judged, query, arguments.level)
