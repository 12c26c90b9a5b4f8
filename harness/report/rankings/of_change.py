"""The common queries of two results with the rankings of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings, take_rows
from harness.data.types import Corpus, Float64Array, Ids, Run
from harness.pipeline.regress.compare_sides import SideComparison
from harness.pipeline.regress.pairing import ComparedDataset
from harness.report.rankings.explorer import NO_HITS, Explorer, KeptRanks, explain_command, queries_of, unanswered
from harness.results.regression_schema import Change
from harness.results.snapshot import ResultSnapshot
from harness.results.stored_texts import Documents

ROUNDING = 1e-12
"""Largest difference between two values of a query that is taken for rounding."""


class _Slot(NamedTuple):
    """One of the shown rankings, the same for every dataset: a pair of backends before, or after."""

    before: str
    after: str
    when: Literal["before", "after"]

    @property
    def label(self) -> str:
        """The backend's label, and in which result it is."""
        return f"{self.before if self.when == 'before' else self.after} ({self.when})"


class _Ranking(NamedTuple):
    """A backend's ranking on one dataset in one of the two results."""

    run: Run
    figures: Mapping[str, Mapping[str, float]]
    depth: int | None
    stored_ranks: KeptRanks | None


def change_explorers(
    compared: SideComparison, documents: Mapping[str, Documents], no_texts: str, *, keep_text: bool
) -> list[Explorer]:
    """Return every common query of each dataset with both rankings of each backend; empty without such queries.

    A pair that one of the datasets lacks has no hits there. ``documents`` are each dataset's; for a dataset without
    them, ``no_texts`` says why. Without ``keep_text`` there are no texts at all.
    """
    absent = Documents(None, no_texts)
    texts = {
        dataset.name: documents.get(dataset.name, absent) if keep_text else absent for dataset in compared.datasets
    }
    rankings = [(dataset, _rankings(compared.change, dataset)) for dataset in compared.datasets]
    depths = {slot: ranking.depth for _, of_pairs in rankings for slot, ranking in of_pairs.items()}
    if not depths:
        return []
    return [
        _explorer(compared.change, dataset, of_pairs, depths, texts[dataset.name], keep_text=keep_text)
        for dataset, of_pairs in rankings
    ]


def _explorer(
    change: Change,
    dataset: ComparedDataset,
    rankings_by_slot: Mapping[_Slot, _Ranking],
    depths: Mapping[_Slot, int | None],
    documents: Documents,
    *,
    keep_text: bool,
) -> Explorer:
    """Return the queries of one dataset; ``depths`` has the rankings that all datasets share, some with hits there."""
    slots, failed = list(depths), [slot not in rankings_by_slot for slot in depths]
    rankings = [rankings_by_slot.get(slot, _Ranking(NO_HITS, {}, depths[slot], None)) for slot in slots]
    metrics = metrics_of_change(change)
    texts = {**dataset.before.texts, **dataset.after.texts} if keep_text else {}
    ids = Ids.of(dataset.queries)
    against = [slots.index(slot._replace(when="before")) for slot in slots]
    after = dataset.after.report
    if after.kind == "compare":  # explained from the folder, which a rerun and a stored result have alike
        after = after.model_copy(update={"kind": "regress"})
    return Explorer(
        query_ids=ids,
        labels=[slot.label for slot in slots],
        runs=[ranking.run for ranking in rankings],
        metrics=metrics,
        values=_values(rankings, against, metrics, dataset.queries) if metrics else None,
        queries=queries_of(ids, [texts.get(query, "") for query in dataset.queries]) if texts else None,
        qrels=dataset.qrels,
        relevance=int(str(dataset.after.report.plan.resolved["relevance"])),
        corpus=_add_expected(documents.corpus, dataset, list(rankings_by_slot)) if texts else None,
        no_texts=documents.no_texts if documents.corpus is None else "",
        against=against,
        stored_depths=list(depths.values()),
        failed=unanswered(failed, len(ids)),
        stored_ranks=[ranking.stored_ranks for ranking in rankings],
        dataset=dataset.name,
        further=_further_chunks(dataset, list(rankings_by_slot)),
        explain=explain_command(after, dataset.name if len(change.after.datasets) > 1 else None),
    )


def _further_chunks(dataset: ComparedDataset, slots: Sequence[_Slot]) -> dict[str, dict[str, str]]:
    """Return query to each later chunk of an expected document in any ranking, with that document."""
    further: dict[str, dict[str, str]] = {}
    for slot in slots:
        side, label = (dataset.before, slot.before) if slot.when == "before" else (dataset.after, slot.after)
        for query, of_query in side.further_chunks(label).items():
            further.setdefault(query, {}).update(of_query)
    return further


def _add_expected(corpus: Corpus | None, dataset: ComparedDataset, slots: Sequence[_Slot]) -> Corpus | None:
    """Add the expected ids under which chunks are shown, each with the texts of the chunks that the rankings have."""
    if corpus is None:
        return None
    chunks: dict[str, dict[str, None]] = {}
    for position in slots:
        side = dataset.before if position.when == "before" else dataset.after
        for of_query in side.chunks(position.before if position.when == "before" else position.after).values():
            for expected, chunk in of_query.items():
                chunks.setdefault(expected, {})[chunk] = None
    names = [name for name, row in zip(chunks, corpus.ids.rows_of(Ids.of(chunks)).tolist(), strict=True) if row < 0]
    if not names:
        return corpus
    chunk_ids = list(dict.fromkeys(chunk for name in names for chunk in chunks[name]))
    rows = corpus.ids.rows_of(Ids.of(chunk_ids))
    present = [chunk for chunk, row in zip(chunk_ids, rows.tolist(), strict=True) if row >= 0]
    texts = dict(zip(present, take_rows(corpus.texts, rows[rows >= 0]).to_pylist(), strict=True))
    joined = ["\n\n".join(f"{chunk}: {texts[chunk]}" for chunk in chunks[name] if chunk in texts) for name in names]
    return Corpus(
        Ids(pa.concat_arrays([corpus.ids.values, strings(names)])),
        pa.chunked_array([*corpus.texts.chunks, strings(joined)], pa.string()),
        "",
    )


def _rankings(change: Change, compared: ComparedDataset) -> dict[_Slot, _Ranking]:
    """Return before and after of each backend on one dataset, one after the other."""
    rankings: dict[_Slot, _Ranking] = {}
    (relation,) = [relation for relation in change.data if relation.dataset == compared.name]
    complete = relation.judgments == "same" and not relation.labels
    for pair in change.backends:
        if pair.dataset == compared.name and pair.status == "ok":
            before = _ranking(compared.before, pair.before, complete=complete)
            after = _ranking(compared.after, pair.after, complete=complete)
            if before is not None and after is not None:
                rankings[_Slot(pair.before, pair.after, "before")] = before
                rankings[_Slot(pair.before, pair.after, "after")] = after
    return rankings


def _ranking(side: ResultSnapshot, label: str, *, complete: bool) -> _Ranking | None:
    """Return a backend's ranking in one of the results; None if it has no hits."""
    run = side.ordered(label)
    stored_ranks = KeptRanks(side.relevant_ranks(label), complete) if side.stored_ranks is not None else None
    return _Ranking(run, side.figures[label], side.depth, stored_ranks) if run is not None else None


def metrics_of_change(change: Change) -> list[str]:
    """Return the metrics that both sides of some backend have, the verdict's metrics first."""
    leading = [backend.dossier.metric for backend in change.backends if backend.dossier and backend.dossier.metric]
    judged = [metric.metric for backend in change.backends for metric in backend.metrics]
    return list(dict.fromkeys([*leading, *judged]))


def _values(
    rankings: Sequence[_Ranking], against: Sequence[int], metrics: Sequence[str], queries: Sequence[str]
) -> Float64Array:
    """Return values as float64 (R, M, Q), NaN if a query was not evaluated; rounding alone is not a difference."""
    values = np.array([[values_of_queries(ranking.figures, name, queries) for name in metrics] for ranking in rankings])
    before = values[list(against)]
    rounded: Float64Array = np.where(np.abs(values - before) <= ROUNDING, before, values)
    return rounded


def values_of_queries(figures: Mapping[str, Mapping[str, float]], metric: str, queries: Sequence[str]) -> list[float]:
    """Return the values of a metric by query, NaN if a query was not evaluated."""
    values = figures.get(metric, {})
    return [values.get(query, np.nan) for query in queries]
