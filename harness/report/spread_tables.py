"""How far the builds of one backend lie apart: figures in one table, rankings in another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from harness.report.cells import Table, figure, size
from harness.results.schema import Result, SpreadStats, SpreadValue, TrialResult

__all__ = ["legend_of_spread", "spread_tables"]


_COSTS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "documents_per_second": ("docs/s", "{:,.0f}".format),
    "bytes": ("index", lambda count: size(round(count))),
}
"""The costs that have a row, as the table *Index* names and shows them; the others are in every other format."""


def spread_tables(report: Result) -> list[Table]:
    """Tabulate metrics and agreement with the reference over all builds, and the share of unchanging rankings."""
    found = [(backend, backend.spread) for backend in report.trials if backend.spread is not None]
    builds = max((spread.builds for _, spread in found), default=0)
    figures = [row for backend, spread in found for row in _figures(backend, spread)]
    depths = sorted({int(depth) for _, spread in found for depth in spread.pairwise_overlap})
    named = [
        f"{name if place == 0 else ''}@{depth}"
        for name in ("identical", "overlap")
        for place, depth in enumerate(depths)
    ]
    rankings = [_rankings(backend.label, spread, depths) for backend, spread in found]
    return [
        Table(f"Spread over {builds} builds", ("backend", "figure", "mean", "sd", "min", "max"), tuple(figures)),
        Table(
            f"Rankings of {builds} builds against one another",
            ("backend", "queries", *named),
            tuple(rankings),
        ),
    ]


def legend_of_spread(report: Result) -> list[str]:
    """What the columns mean; nothing where there are no such tables."""
    if all(backend.spread is None for backend in report.trials):
        return []
    return [
        "spread: over builds of the same documents; all other figures are the first build's; sd: sample standard",
        "deviation; identical@n: share of queries with the same documents at the same first n ranks in every build;",
        "overlap@n of builds: share of common documents, mean over all pairs of them",
    ]


def _figures(backend: TrialResult, spread: SpreadStats) -> Iterator[tuple[str, ...]]:
    kind = "recall" if backend.parity is not None and backend.parity.reference == "dense" else "reference overlap"
    for name, value in spread.metrics.items():
        yield _row(backend.label, name, value)
    for depth, value in spread.reference_overlap.items():
        yield _row(backend.label, f"{kind}@{depth}", value)
    for name, (title, shown) in _COSTS.items():
        if name in spread.costs:
            yield _row(backend.label, title, spread.costs[name], shown)


def _row(
    label: str, figure: str, value: SpreadValue, shown: Callable[[float], str] = "{:.4f}".format
) -> tuple[str, ...]:
    return (label, figure, *(shown(number) for number in (value.mean, value.sd, value.min, value.max)))


def _rankings(label: str, spread: SpreadStats, depths: list[int]) -> tuple[str, ...]:
    names = [str(depth) for depth in depths]
    identical = [figure(spread.identical_share.get(name), ".1%") for name in names]
    return (
        label,
        f"{spread.queries:,}",
        *identical,
        *(figure(spread.pairwise_overlap.get(name), ".4f") for name in names),
    )
