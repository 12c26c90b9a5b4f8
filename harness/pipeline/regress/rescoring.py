"""The file of documents to label, and rankings scored again by labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson

from harness.data import ranking
from harness.data.labels import label_lines
from harness.data.problems import Problems
from harness.data.ranking import TieRule
from harness.data.types import Ids, Qrels, Run
from harness.errors import ResultError, UsageError
from harness.metrics import Metric, QuerySet, counts_forbidden, score
from harness.results.snapshot import OVERLAP, ResultSnapshot

if TYPE_CHECKING:
    from harness.results.regression_schema import Change

LABEL_FILE = "to-label.jsonl"
Grades = Mapping[str, Mapping[str, int]]
"""Query to document to grade."""


def lines_to_label(change: Change, texts: Mapping[tuple[str, str], str]) -> bytes:
    """Write the documents to label of all backends, each once, the most decisive first, with ``grade`` null to fill in.

    ``texts`` are documents' texts by dataset and id, as far as they are known and may be shown. A line names its
    dataset if there are several.
    """
    lines_by_pair: dict[tuple[str, str, str], dict[str, object]] = {}
    queries: dict[tuple[str, str], str | None] = {}
    for backend in change.backends:
        for changed in backend.dossier.queries if backend.dossier is not None else ():
            queries[backend.dataset, changed.query] = changed.text
        for label in backend.dossier.to_label if backend.dossier is not None else ():
            key = backend.dataset, label.query, label.document
            texts_of_pair = lines_by_pair.get(key)
            if texts_of_pair is None or abs(label.swing) > abs(float(str(texts_of_pair["swing"]))):
                lines_by_pair[key] = {
                    **({"dataset": backend.dataset} if change.several else {}),
                    "query_id": label.query,
                    "doc_id": label.document,
                    "grade": None,
                    "swing": label.swing,
                    "backend": backend.after,
                    "rank_before": label.rank_before,
                    "rank_after": label.rank_after,
                }
    ordered = sorted(lines_by_pair.items(), key=lambda item: -abs(float(str(item[1]["swing"]))))
    lines = []
    for (dataset, query, document), line in ordered:
        texts_of_pair = {"query": queries.get((dataset, query)), "text": texts.get((dataset, document))}
        lines.append(orjson.dumps({**line, **{name: text for name, text in texts_of_pair.items() if text is not None}}))
    return b"".join(line + b"\n" for line in lines)


def check_no_grades(path: Path) -> None:
    """Raise UsageError if the file exists and the user put a grade into it: it must not be overwritten."""
    if path.exists() and any(label_lines(path, Problems(str(path)))):
        raise UsageError(f"'{path}' holds labels, which would be lost", fix="move it, and give it with --labels")


def scorable(sides: Sequence[ResultSnapshot], measures: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return the metrics, by their names, that every side can be scored by again.

    For that, a side needs all its hits, or as many, in their order, as the metric looks at. Judgments say nothing about
    forbidden documents.
    """

    def can_score(side: ResultSnapshot, metric: Metric) -> bool:
        if side.depth is None or not side.rescorable:
            return side.rescorable
        return isinstance(metric.cutoff, int) and metric.cutoff <= side.depth and side.ties is not TieRule.AVERAGE

    return {
        name: metric
        for name, metric in measures.items()
        if not counts_forbidden(metric) and all(can_score(side, metric) for side in sides)
    }


def score_again(
    side: ResultSnapshot,
    run: Run,
    qrels: Qrels,
    measures: Mapping[str, Metric],
    *,
    queries: QuerySet = QuerySet.JUDGED,
) -> dict[str, dict[str, float]]:
    """Score ``run`` (hits of ``side``, or of some of its queries) by ``qrels``: name of a measure to query to value."""
    relevance = int(str(side.report.plan.resolved["relevance"]))
    ties = TieRule.ENGINE if side.depth is not None else side.ties
    scores = score(run, qrels, list(measures.values()), ties=ties, queries=queries, relevance=relevance, unjudged=True)
    ids = scores.query_ids.to_list()
    columns = {name: scores.column_of(measure, relevance) for name, measure in measures.items()}
    return {name: dict(zip(ids, scores.values[:, column].tolist(), strict=True)) for name, column in columns.items()}


def relabelled(side: ResultSnapshot, qrels: Qrels) -> tuple[ResultSnapshot, list[str]]:
    """Score a side again under ``qrels``; return it with the names of the metrics that could not be scored.

    These are left out; overlaps with the reference and metrics of forbidden documents stay as they are, because no
    judgment enters them.
    """
    scorable_metrics = scorable([side], side.measures)
    unjudged = [name for name, metric in side.measures.items() if counts_forbidden(metric)]
    lost = [name for name in side.measures if name not in scorable_metrics and name not in unjudged]
    rule = QuerySet(str(side.report.plan.resolved["queries"]))
    figures: dict[str, Mapping[str, Mapping[str, float]]] = {}
    human: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for label, stored_figures in side.figures.items():
        kept_values = {
            name: values for name, values in stored_figures.items() if name.startswith(OVERLAP) or name in unjudged
        }
        run = side.hits(label)
        scored = (
            score_again(side, run, qrels, scorable_metrics, queries=rule)
            if run is not None and scorable_metrics
            else {}
        )
        figures[label] = {**scored, **kept_values}
        if qrels.human is not None and scored and run is not None:
            human[label] = score_again(side, run, qrels.human, scorable_metrics, queries=rule)
    return replace(side, figures=figures, human=human, qrels=qrels), lost


def by_people(side: ResultSnapshot) -> ResultSnapshot:
    """Return a side with its figures by people's judgments alone; itself if no model gave a judgment.

    Raises ResultError if it has none.
    """
    dataset = side.report.dataset
    if dataset.model_labels is None:
        return side
    figures: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for label, of_label in side.figures.items():
        independent = {
            name: values
            for name, values in of_label.items()
            if name.startswith(OVERLAP) or counts_forbidden(side.measures[name])
        }
        figures[label] = {**side.human.get(label, {}), **independent}
    if not any(side.human.values()):
        raise ResultError(
            f"'{side.source}' has no figures by people's judgments alone: {dataset.labels_in_words}",
            fix="judge documents by hand (harness judge), or count the labels by models (--count-model-labels)",
        )
    content = dataset.digests.model_copy(update={"judgments": dataset.model_labels.human_sha256})
    update = {"content": content, "sha256": "", "judgments": dataset.judgments - dataset.model_labels.labels}
    info = dataset.model_copy(update={**update, "model_labels": None})
    judgments_of = side.judgments_of
    return replace(
        side,
        report=side.report.model_copy(update={"datasets": [info]}),
        figures=figures,
        human={},
        qrels=None if side.qrels is None else side.qrels.by_people,
        judgments_of=None if judgments_of is None else lambda run: judgments_of(run).by_people,
        stored_ranks=None,  # those of a model's relevant documents are among them
    )


def repeated(run: Run, queries: Sequence[str], names: Sequence[str], depth: int | None) -> Run:
    """Return the rankings of ``queries``, which may repeat, under other ``names``; a query without hits has none."""
    rows = run.query_ids.rows_of(Ids.of(queries))
    positions = np.flatnonzero(rows >= 0)
    chosen = run.of_queries(rows[positions])
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    indptr[positions + 1] = np.diff(chosen.indptr)
    again = Run(Ids.of(names), run.doc_ids, np.cumsum(indptr), chosen.rows, chosen.scores)
    return again if depth is None else ranking.cut(again, depth)
