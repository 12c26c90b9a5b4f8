"""Judgments in the order in which they were given, and grouped by query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from harness.data.arrow import as_numpy, strings
from harness.data.grouping import first_of_pair
from harness.data.id_spelling import respelling, unmet_documents, unmet_queries
from harness.data.problems import Finding, Problems
from harness.data.types import HAS_CONTROL, Ids, Qrels, offsets_of, owners, rows_with_control
from harness.wording import counted

BEIR_COLUMNS = ("query-id", "corpus-id", "score")
"""The header of judgments in BEIR's layout."""
_GRADE = re.compile(r"[+-]?[0-9]+(?:\.0*)?")
_LIMIT = 2**31
_DIGITS = 32
"""More characters than any grade has; Python refuses to read numbers of thousands of digits."""


class Judgments(NamedTuple):
    """Judgments in the order of their file: the line of each, its query, its document and its grade.

    ``groups`` are numbers of groups of alternatives, None for a judgment without; None if no judgment has any.
    """

    lines: list[int]
    query_ids: list[str]
    doc_ids: list[str]
    grades: list[int]
    groups: list[int | None] | None = None


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
    grades, first = np.array(judgments.grades, dtype=np.int32), first_of_pair(query_rows, doc_rows)
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
    )
    if judgments.groups is None:
        return qrels
    groups: dict[str, dict[str, int | None]] = {}
    for query, document, group in zip(judgments.query_ids, judgments.doc_ids, judgments.groups, strict=True):
        groups.setdefault(query, {})[document] = group
    return qrels.with_groups(groups)


def repeated_judgments(qrels: Qrels | None) -> list[Finding]:
    """Return a warning about judgments that are repeated with the same grade; nothing without any."""
    if qrels is None or not qrels.repeated:
        return []
    verb = "is" if qrels.repeated == 1 else "are"
    message = f"{counted(qrels.repeated, 'judgment')} {verb} repeated with the same grade, and counted once"
    return [Finding("repeated-judgments", "warning", message, "remove the repeated lines")]


def grade_problem(text: str) -> str | None:
    """Return a grade's problem, None for a whole number within 32 bits, which may be written ``1.0``."""
    if len(text) > _DIGITS:
        return f"the grade '{text[:_DIGITS]}…' does not fit into 32 bits"
    if not _GRADE.fullmatch(text):
        return f"the grade '{text}' is not an integer"
    if not -_LIMIT <= grade_of(text) < _LIMIT:
        return f"the grade '{text}' does not fit into 32 bits"
    return None


def grade_of(text: str) -> int:
    """Return the grade of a text without a :func:`grade_problem`."""
    return int(text.partition(".")[0])


def ungrouped(qrels: Qrels) -> Judgments:
    """Return the judgments one by one, numbered from 1 in the order in which they are grouped."""
    return Judgments(
        list(range(1, len(qrels) + 1)),
        qrels.query_ids.take(owners(qrels.indptr)),
        qrels.doc_ids.take(qrels.rows),
        qrels.grades.tolist(),
    )


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
