"""Judgments that came later: a file of documents to judge, the filled-in file, and rankings scored again by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.data import ranking
from harness.data.memory import qrels_from_dict
from harness.data.problems import Problems
from harness.data.ranking import TieRule
from harness.data.types import Ids, Qrels, Run
from harness.errors import DataError, UsageError
from harness.metrics import Metric, QuerySet, counts_forbidden, score
from harness.results.snapshot import OVERLAP, ResultSnapshot
from harness.wording import counted

if TYPE_CHECKING:
    from harness.results.regression_schema import Change

LABEL_FILE = "to-label.jsonl"
_GRADE = 2**31
_FIX = "name a filled-in to-label.jsonl"
Labels = Mapping[tuple[str, str], int]
"""Query and document to grade."""
LabelFile = Mapping[str | None, Labels]
"""Dataset to its labels; None for labels whose lines name no dataset."""
Grades = Mapping[str, Mapping[str, int]]
"""Query to document to grade."""


class _Line(BaseModel):
    """A line of the file; its other fields are for people."""

    dataset: str | None = None
    query_id: str
    doc_id: str
    grade: Annotated[int, Field(ge=-_GRADE, lt=_GRADE, strict=True)] | None

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)


def label_lines(change: Change, texts: Mapping[tuple[str, str], str]) -> bytes:
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


def read_labels(path: Path) -> LabelFile:
    """Read the lines of ``path`` that have a grade, by dataset; lines with null are not labelled yet.

    Raises UsageError if there is no such file, DataError for a file without any grade, malformed lines, and a document
    that is labelled twice differently.
    """
    problems = Problems(str(path))
    labels: dict[str | None, dict[tuple[str, str], int]] = {}
    for number, line in _lines(path, problems):
        if line.grade is None:
            continue
        key = line.query_id, line.doc_id
        if labels.setdefault(line.dataset, {}).setdefault(key, line.grade) != line.grade:
            problems.add(number, f"document '{line.doc_id}' has another grade for query '{line.query_id}' before")
    problems.raise_if_any(fix='each line is {"query_id": "…", "doc_id": "…", "grade": 0 or more, or null}')
    if not labels:
        raise DataError(str(path), ["no line has a grade"], fix="replace null by a grade where you judged a document")
    return labels


def labels_by_dataset(labels: LabelFile, datasets: Sequence[str]) -> dict[str, Labels]:
    """Return the labels of each of the ``datasets`` that are compared, without labels of other datasets.

    Lines that name no dataset belong to the only dataset. Raises UsageError as :func:`refuse_unnamed`, and if all are
    left out.
    """
    refuse_unnamed(labels, datasets)
    if not labels.keys() & {None, *datasets}:
        dataset_names = ", ".join(str(dataset) for dataset in labels)
        raise UsageError(
            f"--labels are of {dataset_names}, and not of {', '.join(datasets)}", fix="give labels of these"
        )
    return {dataset: {**labels.get(None, {}), **labels.get(dataset, {})} for dataset in datasets}


def refuse_unnamed(labels: LabelFile, datasets: Sequence[str]) -> None:
    """Raise UsageError for lines that do not name their dataset if there are several."""
    unnamed = labels.get(None, {})
    if unnamed and len(datasets) > 1:
        raise UsageError(
            f"{counted(len(unnamed), 'label')} of --labels {'names' if len(unnamed) == 1 else 'name'} none of "
            f"{len(datasets)} datasets",
            fix=f'add the dataset to each line, as regress and diff write it: "dataset": "{datasets[0]}"',
        )


def only_labels(labels: LabelFile) -> Labels:
    """Return the labels for judgments that belong to no named dataset; raises UsageError for labels of several."""
    if len(labels) > 1:
        dataset_names = ", ".join(str(dataset) for dataset in labels if dataset is not None)
        raise UsageError(
            f"--labels are of several datasets: {dataset_names}", fix="keep the lines of the dataset that is scored"
        )
    return next(iter(labels.values()))


def check_no_grades(path: Path) -> None:
    """Raise UsageError if the file exists and the user put a grade into it: it must not be overwritten."""
    if path.exists() and any(line.grade is not None for _, line in _lines(path, Problems(str(path)))):
        raise UsageError(f"'{path}' holds labels, which would be lost", fix="move it, and give it with --labels")


def refuse_foreign(labels: Labels, *, queries: Ids, documents: Ids) -> None:
    """Raise DataError if a label is of a query or a document that does not exist."""
    problems = Problems("labels")
    for kind, valid_ids, labelled in (
        ("query", queries, dict.fromkeys(query for query, _ in labels)),
        ("document", documents, dict.fromkeys(document for _, document in labels)),
    ):
        ids = Ids.of(labelled)
        for row in np.flatnonzero(valid_ids.rows_of(ids) < 0).tolist():
            problems.add(None, f"there is no {kind} '{ids[row]}'")
    problems.raise_if_any(fix="give labels of this dataset")


def with_labels(qrels: Qrels | None, labels: Labels) -> Qrels:
    """Join ``qrels`` (None for no judgments) and the labels; raises DataError if a label contradicts a judgment."""
    grades = grades_of(qrels) if qrels is not None else {}
    problems = Problems("labels")
    for (query, document), grade in labels.items():
        grades_of_query = grades.setdefault(query, {})
        if grades_of_query.setdefault(document, grade) != grade:
            problems.add(
                None, f"query '{query}', document '{document}': judged {grades_of_query[document]}, labelled {grade}"
            )
    problems.raise_if_any(fix="labels add to judgments; to change a judgment, change the dataset")
    joined = qrels_from_dict(grades)
    return joined if qrels is None else joined.with_groups(qrels.groups_by_id)


def _lines(path: Path, problems: Problems) -> Iterator[tuple[int, _Line]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"no labels can be read at '{path}': {error.strerror or error}", fix=_FIX) from error
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, _Line.model_validate(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            problems.add(number, f"not JSON: {error}")
        except ValidationError as error:
            first = error.errors()[0]
            problems.add(number, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def grades_of(qrels: Qrels, queries: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
    """Return the judgments by query and document; only of some queries if they are named."""
    chosen = qrels if queries is None else qrels.of_queries(Ids.of(queries))
    documents, grades = chosen.doc_ids.take(chosen.rows), chosen.grades.tolist()
    bounds = chosen.indptr.tolist()
    return {
        query: dict(zip(documents[start:stop], grades[start:stop], strict=True))
        for query, start, stop in zip(chosen.query_ids, bounds[:-1], bounds[1:], strict=True)
    }


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
    return replace(side, figures=figures, qrels=qrels), lost


def repeated(run: Run, queries: Sequence[str], names: Sequence[str], depth: int | None) -> Run:
    """Return the rankings of ``queries``, which may repeat, under other ``names``; a query without hits has none."""
    rows = run.query_ids.rows_of(Ids.of(queries))
    positions = np.flatnonzero(rows >= 0)
    chosen = run.of_queries(rows[positions])
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    indptr[positions + 1] = np.diff(chosen.indptr)
    again = Run(Ids.of(names), run.doc_ids, np.cumsum(indptr), chosen.rows, chosen.scores)
    return again if depth is None else ranking.cut(again, depth)
