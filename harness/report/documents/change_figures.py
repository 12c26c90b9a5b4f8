"""Draw how each query changed between two results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.data.types import Float64Array
from harness.document.figures import Differences
from harness.document.model import Figure
from harness.metrics import lower_is_better
from harness.pipeline.regress.compare_sides import SideComparison
from harness.pipeline.regress.pairing import ComparedDataset
from harness.report.rankings.of_change import ROUNDING, metrics_of_change, values_of_queries
from harness.results.snapshot import ResultSnapshot

_DRAWN = 6


def change_figures(compared: SideComparison) -> Iterator[Figure]:
    """Yield after minus before for metrics that changed on any query, the verdict's metrics first."""
    order = metrics_of_change(compared.change)
    datasets = {dataset.name: dataset for dataset in compared.datasets}
    judged = [(backend, metric) for backend in compared.change.backends for metric in backend.metrics]
    changed = [pair for pair in judged if pair[1].wins + pair[1].losses]
    for backend, metric in sorted(changed, key=lambda pair: order.index(pair[1].metric))[:_DRAWN]:
        values = _paired_values(datasets[backend.dataset], backend.before, backend.after, metric.metric)
        order_of_sides = "after minus before"
        if lower_is_better(metric.metric):
            values, order_of_sides = -values, "before minus after"
        drawing = Differences(
            f"{backend.after} (after)", f"{backend.before} (before)", metric.metric, values, backend.dataset
        )
        note = "Query by query, sorted from the greatest loss to the greatest gain."
        title = f"{backend.after}{compared.change.on(backend)}"
        yield Figure(f"{metric.metric} of {title}, {order_of_sides}", drawing, note)


def _paired_values(compared: ComparedDataset, before: str, after: str, metric: str) -> Float64Array:
    """Return after minus before on every query that both sides were evaluated on, float64 (n,)."""

    def side_values(side: ResultSnapshot, label: str) -> Float64Array:
        return np.array(values_of_queries(side.figures[label], metric, compared.queries), dtype=np.float64)

    moved = side_values(compared.after, after) - side_values(compared.before, before)
    moved = moved[~np.isnan(moved)]
    return np.where(np.abs(moved) <= ROUNDING, 0.0, moved)
