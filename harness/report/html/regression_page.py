"""The page of ``harness regress`` and ``harness diff``: one result against an earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.types import Corpus, Float64Array, Ids, Queries, Run
from harness.pipeline.regress.compare_sides import Compared
from harness.report.document import Figure
from harness.report.documents.regress import change_document
from harness.report.figures import Differences
from harness.report.html.explorer import Explorer, KeptRanks
from harness.report.html.render import render_page
from harness.results.schema import Result
from harness.results.snapshot import ResultSnapshot

__all__ = ["regression_html"]

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, slots=True)
class _Ranking:
    """A backend's ranking in one of the two results, compared with the ranking number ``against``."""

    label: str
    run: Run
    figures: Mapping[str, Mapping[str, float]]
    kept: int | None
    kept_ranks: KeptRanks | None
    against: int


def regression_html(
    report: Result, compared: Compared | None, corpus: Corpus | None, no_texts: str, *, keep_text: bool
) -> str:
    """Return the page as one HTML file.

    ``compared`` holds the rankings and values of all queries; where it is None, the page has the queries of the report
    as tables, and ``no_texts`` says why. ``corpus`` has the texts of the documents; where it is None, ``no_texts`` says
    why. Without ``keep_text`` there are no texts at all.
    """
    if compared is None:
        return render_page(change_document(report, unknown=no_texts))
    document = change_document(report, list(_figures(compared)))
    return render_page(document, _explorers(compared, corpus, no_texts, keep_text=keep_text), instead_of="changed")


def _figures(compared: Compared) -> Iterator[Figure]:
    """Yield after minus before where any query changed, the metrics that the verdict is about first."""
    order = _metrics(compared)
    judged = [(change, metric) for change in compared.change.backends for metric in change.metrics]
    changed = [pair for pair in judged if pair[1].wins + pair[1].losses]
    for change, metric in sorted(changed, key=lambda pair: order.index(pair[1].metric))[:_DRAWN]:
        values = _paired_values(compared, change.before, change.after, metric.metric)
        drawing = Differences(f"{change.after} (after)", f"{change.before} (before)", metric.metric, values)
        note = "Query by query, sorted from the greatest loss to the greatest gain."
        yield Figure(f"{metric.metric} of {change.after}, after minus before", drawing, note)


def _explorers(compared: Compared, corpus: Corpus | None, no_texts: str, *, keep_text: bool) -> list[Explorer]:
    """Return every common query with both rankings of each backend; nothing where no backend has any."""
    rankings = _rankings(compared)
    if not rankings:
        return []
    metrics = _metrics(compared)
    texts = {**compared.before.texts, **compared.after.texts} if keep_text else {}
    in_order = [texts.get(query, "") for query in compared.queries]
    ids = Ids.of(compared.queries)
    explorer = Explorer(
        query_ids=ids,
        labels=[ranking.label for ranking in rankings],
        runs=[ranking.run for ranking in rankings],
        metrics=metrics,
        values=_values(rankings, metrics, compared.queries) if metrics else None,
        queries=Queries(ids, pa.chunked_array([strings(in_order)]), "") if texts else None,
        qrels=compared.qrels,
        relevance=int(str(compared.after.report.plan.resolved["relevance"])),
        corpus=corpus if keep_text and texts else None,
        no_texts=no_texts,
        against=[ranking.against for ranking in rankings],
        kept=[ranking.kept for ranking in rankings],
        kept_ranks=[ranking.kept_ranks for ranking in rankings],
    )
    return [explorer]


def _rankings(compared: Compared) -> list[_Ranking]:
    """Return before and after of each backend, one after the other."""
    rankings: list[_Ranking] = []
    complete = compared.change.data.judgments == "same" and not compared.change.data.labels
    for pair in compared.change.backends:
        sides = (compared.before, pair.before, "before"), (compared.after, pair.after, "after")
        runs = [side.ordered(label) if pair.status == "ok" else None for side, label, _ in sides]
        first = len(rankings)
        for (side, label, when), run in zip(sides, runs, strict=True):
            if run is not None and None not in runs:
                kept_ranks = KeptRanks(side.relevant_ranks(label), complete) if side.kept_ranks is not None else None
                rankings.append(_Ranking(f"{label} ({when})", run, side.figures[label], side.depth, kept_ranks, first))
    return rankings


def _metrics(compared: Compared) -> list[str]:
    """Return what both sides of some backend have values of, the metrics that the verdict is about first."""
    leading = [change.dossier.metric for change in compared.change.backends if change.dossier and change.dossier.metric]
    judged = [metric.metric for change in compared.change.backends for metric in change.metrics]
    return list(dict.fromkeys([*leading, *judged]))


def _values(rankings: Sequence[_Ranking], metrics: Sequence[str], queries: Sequence[str]) -> Float64Array:
    """Return values as float64 (R, M, Q), NaN where a query was not evaluated; mere rounding is no difference."""
    values = np.array([[_column(ranking.figures, name, queries) for name in metrics] for ranking in rankings])
    before = values[[ranking.against for ranking in rankings]]
    rounded: Float64Array = np.where(np.abs(values - before) <= _ROUNDING, before, values)
    return rounded


def _column(figures: Mapping[str, Mapping[str, float]], metric: str, queries: Sequence[str]) -> list[float]:
    values = figures.get(metric, {})
    return [values.get(query, np.nan) for query in queries]


def _paired_values(compared: Compared, before: str, after: str, metric: str) -> Float64Array:
    """Return after minus before on every query that both sides were evaluated on, float64 (n,)."""

    def of_side(side: ResultSnapshot, label: str) -> Float64Array:
        return np.array(_column(side.figures[label], metric, compared.queries), dtype=np.float64)

    moved = of_side(compared.after, after) - of_side(compared.before, before)
    moved = moved[~np.isnan(moved)]
    return np.where(np.abs(moved) <= _ROUNDING, 0.0, moved)


_DRAWN = 6
