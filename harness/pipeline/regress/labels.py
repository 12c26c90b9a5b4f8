"""Documents that somebody is to judge, as a JSONL file to fill in; and the filled-in file as judgments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.data.problems import Problems
from harness.data.types import Ids, Qrels
from harness.errors import DataError, UsageError
from harness.pipeline.regress.rescoring import grades_of, to_qrels

if TYPE_CHECKING:
    from harness.results.regression_schema import RegressionReport

__all__ = ["LABEL_FILE", "Labels", "check_no_grades", "label_lines", "read_labels", "refuse_foreign", "with_labels"]

LABEL_FILE = "to-label.jsonl"
_GRADE = 2**31
_FIX = "name a filled-in to-label.jsonl"
Labels = Mapping[tuple[str, str], int]
"""Query and document to grade."""


class _Line(BaseModel):
    """One line of the file; what it holds beside these is for people."""

    query_id: str
    doc_id: str
    grade: Annotated[int, Field(ge=-_GRADE, lt=_GRADE, strict=True)] | None

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)


def label_lines(report: RegressionReport, texts: Mapping[str, str]) -> bytes:
    """The documents to label of all backends, each once, the most decisive first, with ``grade`` null to fill in.

    ``texts`` are those of documents by id, as far as they are known and may be shown.
    """
    wanted: dict[tuple[str, str], dict[str, object]] = {}
    queries = {one.query: one.text for backend in report.backends if backend.dossier for one in backend.dossier.queries}
    for backend in report.backends:
        for one in backend.dossier.to_label if backend.dossier is not None else ():
            known = wanted.get((one.query, one.document))
            if known is None or abs(one.swing) > abs(float(str(known["swing"]))):
                wanted[one.query, one.document] = {
                    "query_id": one.query,
                    "doc_id": one.document,
                    "grade": None,
                    "swing": one.swing,
                    "backend": backend.after,
                    "rank_before": one.rank_before,
                    "rank_after": one.rank_after,
                }
    ordered = sorted(wanted.values(), key=lambda line: -abs(float(str(line["swing"]))))
    lines = []
    for line in ordered:
        known = {"query": queries.get(str(line["query_id"])), "text": texts.get(str(line["doc_id"]))}
        lines.append(orjson.dumps({**line, **{name: text for name, text in known.items() if text is not None}}))
    return b"".join(line + b"\n" for line in lines)


def read_labels(path: Path) -> Labels:
    """The lines of ``path`` that have a grade; lines with null are not labelled yet.

    Raises UsageError where there is no such file, DataError for a file without any grade, malformed lines, and a
    document that is labelled twice differently.
    """
    problems = Problems(str(path))
    found: dict[tuple[str, str], int] = {}
    for number, line in _lines(path, problems):
        if line.grade is None:
            continue
        key = line.query_id, line.doc_id
        if found.setdefault(key, line.grade) != line.grade:
            problems.add(number, f"document '{line.doc_id}' has another grade for query '{line.query_id}' before")
    problems.raise_if_any(fix='each line is {"query_id": "…", "doc_id": "…", "grade": 0 or more, or null}')
    if not found:
        raise DataError(str(path), ["no line has a grade"], fix="replace null by a grade where you judged a document")
    return found


def check_no_grades(path: Path) -> None:
    """Raise UsageError when the file is there and somebody put a grade into it: it must not be written anew."""
    if path.exists() and any(line.grade is not None for _, line in _lines(path, Problems(str(path)))):
        raise UsageError(f"'{path}' holds labels, which would be lost", fix="move it, and give it with --labels")


def refuse_foreign(labels: Labels, *, queries: Ids, documents: Ids) -> None:
    """Raise DataError where a label is of a query or a document that there is not."""
    problems = Problems("labels")
    for kind, known, named in (
        ("query", queries, dict.fromkeys(query for query, _ in labels)),
        ("document", documents, dict.fromkeys(document for _, document in labels)),
    ):
        ids = Ids.of(named)
        for row in np.flatnonzero(known.rows_of(ids) < 0).tolist():
            problems.add(None, f"there is no {kind} '{ids[row]}'")
    problems.raise_if_any(fix="give labels of this collection")


def with_labels(qrels: Qrels | None, labels: Labels) -> Qrels:
    """``qrels`` (None for none) and the labels; raises DataError where a label contradicts a judgment."""
    grades = grades_of(qrels) if qrels is not None else {}
    problems = Problems("labels")
    for (query, document), grade in labels.items():
        known = grades.setdefault(query, {})
        if known.setdefault(document, grade) != grade:
            problems.add(None, f"query '{query}', document '{document}': judged {known[document]}, labelled {grade}")
    problems.raise_if_any(fix="labels add to judgments; to change a judgment, change the dataset")
    return to_qrels(grades)


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
