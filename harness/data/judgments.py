"""Judgments in the order in which they were given, and grouped by query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from harness.data.arrow import as_numpy, strings
from harness.data.grouping import first_of_pair, narrowed
from harness.data.id_spelling import respelling, unmet_documents, unmet_queries
from harness.data.problems import Finding, Problems
from harness.data.types import HAS_CONTROL, Grades, Ids, Qrels, offsets_of, owners, rows_with_control
from harness.errors import DataError
from harness.wording import counted

BEIR_COLUMNS = ("query-id", "corpus-id", "score")
"""The header of judgments in BEIR's layout."""
_GRADE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LIMIT = 2**31
_QUOTED = 32
"""Characters of a grade that a message shows."""


class Judgments(NamedTuple):
    """Judgments in the order of their file: the line of each, its query, its document and its grade.

    ``groups`` are numbers of groups of alternatives, None for a judgment without; None if no judgment has any.
    ``notes`` are accepted oddities of the file that change figures.
    """

    lines: list[int]
    query_ids: list[str]
    doc_ids: list[str]
    grades: list[int | float]
    groups: list[int | None] | None = None
    notes: Sequence[str] = ()


def group_judgments(judgments: Judgments, problems: Problems) -> Qrels:
    """Group judgments by query: queries and documents in the order in which they first occur.

    A judgment that is repeated with the same grade counts once; with another grade, it is noted in ``problems``.
    """
    queries = strings(judgments.query_ids).dictionary_encode()
    documents = strings(judgments.doc_ids).dictionary_encode()
    query_rows, doc_rows = (as_numpy(column.indices).astype(np.int64) for column in (queries, documents))
    for kind, column in (("query", queries), ("document", documents)):
        for row in rows_with_control(column.dictionary):
            line = judgments.lines[int(np.argmax(as_numpy(column.indices) == row))]
            problems.add(line, f"the {kind} id {column.dictionary[row].as_py()!r} {HAS_CONTROL}")
    grades, first = grade_array(judgments.grades), first_of_pair(query_rows, doc_rows)
    for row in np.flatnonzero(grades != grades[first]).tolist():
        before = problems.location(judgments.lines[int(first[row])])
        problems.add(
            judgments.lines[row],
            f"document '{judgments.doc_ids[row]}' is judged for query '{judgments.query_ids[row]}' with grade "
            f"{grades[row]}, and {before} with {grades[first[row]]}",
        )
    first_rows = np.flatnonzero(first == np.arange(len(first)))
    order = first_rows[np.argsort(query_rows[first_rows], kind="stable")]
    qrels = Qrels(
        query_ids=Ids(queries.dictionary),
        doc_ids=Ids(documents.dictionary),
        indptr=offsets_of(np.bincount(query_rows[first_rows], minlength=len(queries.dictionary))),
        rows=doc_rows[order].astype(np.int32),
        grades=grades[order],
        repeated=len(first) - len(first_rows),
        notes=tuple(judgments.notes),
    )
    if judgments.groups is None:
        return qrels
    groups: dict[str, dict[str, int | None]] = {}
    for query, document, group in zip(judgments.query_ids, judgments.doc_ids, judgments.groups, strict=True):
        groups.setdefault(query, {})[document] = group
    return qrels.with_groups(groups)


def judgment_findings(qrels: Qrels, relevance: float = 1) -> list[Finding]:
    """Return warnings about judgments: how their file was read, repeated ones, and gains without relevance."""
    read = [Finding("judgments-as-read", "warning", note, "check that the file means this") for note in qrels.notes]
    return [*read, *repeated_judgments(qrels), *_gains_without_relevance(qrels, relevance)]


def _gains_without_relevance(qrels: Qrels, relevance: float) -> list[Finding]:
    """Return a warning about real-valued grades above 0 and below the lowest relevant grade."""
    below = (qrels.grades > 0) & (qrels.grades < relevance)
    if not qrels.has_fractions or not below.any():
        return []
    best = np.zeros(len(qrels.query_ids))
    np.maximum.at(best, owners(qrels.indptr), qrels.grades)
    left_out = int(((best > 0) & (best < relevance)).sum())
    count = int(below.sum())
    message = (
        f"{counted(count, 'judgment')} {'has a grade' if count == 1 else 'have grades'} above 0 and below "
        f"{relevance:g}: a gain for nDCG, but not relevant"
    )
    if left_out:
        verb = "is" if left_out == 1 else "are"
        message += f"; {counted(left_out, 'query', 'queries')} without a relevant document {verb} left out of means"
    lowest = float(qrels.grades[below].min())
    return [Finding("gain-without-relevance", "warning", message, f"to count them as relevant: --relevance {lowest:g}")]


def repeated_judgments(qrels: Qrels | None) -> list[Finding]:
    """Return a warning about judgments that are repeated with the same grade; nothing without any."""
    if qrels is None or not qrels.repeated:
        return []
    verb = "is" if qrels.repeated == 1 else "are"
    message = f"{counted(qrels.repeated, 'judgment')} {verb} repeated with the same grade, and counted once"
    return [Finding("repeated-judgments", "warning", message, "remove the repeated lines")]


def grade_problem(text: str) -> str | None:
    """Return a grade's problem, None for a decimal number within 32 bits."""
    quoted = text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
    if not _GRADE.fullmatch(text):
        return f"the grade '{quoted}' is not a number"
    if not -_LIMIT <= float(text) < _LIMIT:
        return f"the grade '{quoted}' does not fit into 32 bits"
    return None


def grade_of(text: str) -> int | float:
    """Return the grade of a text without a :func:`grade_problem`: whole numbers, ``1.0`` too, as int."""
    grade = float(text)
    return int(grade) if grade.is_integer() else grade


def grade_array(grades: Sequence[int | float]) -> Grades:
    """Return grades as int32, or as float64 if one of them is not a whole number."""
    values = np.array(grades, dtype=np.float64)
    return narrowed(values)


def refuse_fractions(judgments: Judgments, problems: Problems) -> None:
    """Note each grade that is not a whole number, for judgments that need whole ones: a dataset's."""
    for line, grade in zip(judgments.lines, judgments.grades, strict=True):
        if isinstance(grade, float):
            problems.add(line, f"the grade '{grade}' is not an integer")


def require_whole_grades(qrels: Qrels, source: str) -> None:
    """Raise DataError for a grade that is not a whole number."""
    if qrels.has_fractions:
        positions = np.flatnonzero(qrels.grades != np.rint(qrels.grades))
        problems = [
            f"grade {qrels.grades[position]:g} of document '{qrels.doc_ids[int(qrels.rows[position])]}' is not a "
            "whole number of 32 bits"
            for position in positions
        ]
        raise DataError(source, problems, fix=WHOLE_GRADES)


WHOLE_GRADES = "harness eval and harness.evaluate take real-valued grades; elsewhere grades are whole numbers"


def ungrouped(qrels: Qrels) -> Judgments:
    """Return the judgments one by one, numbered from 1 in the order in which they are grouped."""
    return Judgments(
        list(range(1, len(qrels) + 1)),
        qrels.query_ids.take(owners(qrels.indptr)),
        qrels.doc_ids.take(qrels.rows),
        qrels.grades.tolist(),
        notes=qrels.notes,
    )


def unrated_note(count: int) -> str:
    """Return the note about judgments without a grade."""
    return f"{counted(count, 'rating')} without a value {'is' if count == 1 else 'are'} left out"


def unjudged_note(count: int) -> str:
    """Return the note about rows that hold only a query."""
    return f"{counted(count, 'row')} with only a query {'is' if count == 1 else 'are'} skipped"


def unknown_rows(ids: Sequence[str], valid_ids: Ids) -> list[int]:
    """Return the positions in ``ids`` of ids that are not ``valid_ids``."""
    missing = pc.is_null(pc.index_in(strings(ids), value_set=valid_ids.values))
    return np.flatnonzero(as_numpy(missing)).tolist()


def refuse_unknown(qrels: Qrels, queries: Ids, documents: Ids) -> None:
    """Raise DataError for judgments of unknown queries, and of unknown documents as :func:`are_of_another_corpus`."""
    problems = Problems("qrels")
    checked = [("query", qrels.query_ids, queries)]
    if are_of_another_corpus(qrels.doc_ids, documents):
        checked.append(("document", qrels.doc_ids, documents))
    for kind, judged, valid_ids in checked:
        for unknown in judged.take(np.flatnonzero(valid_ids.rows_of(judged) < 0)):
            problems.add(None, f"the {kind} '{unknown}' is judged, but there is no such {kind}")
    reasons = [unmet_queries(qrels.query_ids, queries, "the queries")] if problems.count else []
    reasons += [unmet_documents(qrels.doc_ids, documents, "the corpus")] if problems.count else []
    alike = "are ids written alike everywhere? 1 and '1' are the same, '01' is another"
    problems.raise_if_any(fix=alike, because="; ".join(filter(None, reasons)) or None)


def are_of_another_corpus(judged: Ids, documents: Ids) -> bool:
    """Return whether judged documents cannot belong to a corpus: most are unknown, or most unknown ones respelled.

    Fewer unknown documents are normal in collections: relevant ones count, and are never found.
    """
    missing = judged.take(np.flatnonzero(documents.rows_of(judged) < 0))
    if not missing:
        return False
    return 2 * len(missing) > len(judged) or respelling(missing, documents) is not None
