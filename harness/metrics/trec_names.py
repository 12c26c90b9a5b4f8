"""trec_eval's own names of measures, and the order in which it prints them."""

from __future__ import annotations

from collections.abc import Iterable

from harness.metrics.kind import Release
from harness.metrics.measure import Metric
from harness.metrics.registry import kind_of

_ORDER = (
    "num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall",
    "P", "recall", "infAP", "rbp", "11pt_avg", "ndcg", "ndcg_cut", "map_cut", "success", "set_P", "set_recall", "set_F",
)  # fmt: skip


def trec_name(measure: Metric, relevance: float = 1, release: Release = 9) -> str | None:
    """Return the measure's name in a release of trec_eval run with ``-l relevance``, None if it has no such measure."""
    kind = kind_of(measure.name)
    if kind.release not in (None, release):
        return None
    if any(key != "rel" or value != relevance for key, value in measure.parameters):
        return None
    if measure.cutoff is None:
        return kind.trec
    if kind.trec_cut is None:
        return None
    return f"{kind.trec_cut}_{measure.cutoff:.2f}" if kind.cutoff == "recall" else f"{kind.trec_cut}_{measure.cutoff}"


def in_trec_order(measures: Iterable[Metric], relevance: float = 1, release: Release = 9) -> list[int]:
    """Return the positions of the metrics in trec_eval's order; metrics that it does not have come last, as given."""
    metrics = list(measures)

    def sort_key(number: int) -> tuple[int, float]:
        kind = kind_of(metrics[number].name)
        family = kind.trec if metrics[number].cutoff is None else kind.trec_cut
        if family not in _ORDER or trec_name(metrics[number], relevance, release) is None:
            return len(_ORDER), number
        return _ORDER.index(family), float(metrics[number].cutoff or 0)

    return sorted(range(len(metrics)), key=sort_key)
