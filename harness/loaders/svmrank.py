"""Judgment lists for learning to rank, as SVMrank, RankLib, LETOR, Elasticsearch's plug-in and Quepid write them.

A line is ``3 qid:1 1:9.8 2:0.5 # doc1 the text of the query``: grade, query, features, and after ``#`` the document's
id or, in LETOR's files, ``docid = doc1``. Features are not read. Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import re

from harness.data.judgments import Judgments, grade_of, grade_problem
from harness.data.problems import Problems

EXAMPLE = "grade qid:query [feature:value …] # document"
_LINE = re.compile(r"\s*(\S+)\s+qid:(\S+)([^#]*)(?:#\s*(.*))?")
_DOCUMENT = re.compile(r"(?:doc_?id\s*[=:]\s*)?(\S+)", re.IGNORECASE)
_FEATURE = re.compile(r"\S+:\S+")


def is_svmrank(line: str) -> bool:
    """Return whether a line is a judgment for learning to rank, by its ``qid:``."""
    return _LINE.fullmatch(line.rstrip()) is not None


def add_judgment(line: str, number: int, judgments: Judgments, problems: Problems) -> None:
    """Add the judgment of a line to ``judgments``, or its problem to ``problems``."""
    match = _LINE.fullmatch(line.rstrip())
    if match is None:
        problems.add_once(number, f"not a judgment for learning to rank: {EXAMPLE}")
        return
    grade, query, features, comment = match.groups()
    document = _DOCUMENT.match(comment or "")
    problem = grade_problem(grade)
    strange = [word for word in features.split() if not _FEATURE.fullmatch(word)]
    if problem is None and strange:
        problem = f"'{strange[0]}' is not a feature, as 1:0.5"
    if problem is not None:
        problems.add(number, problem)
    elif document is None:
        problems.add_once(number, f"has no document's id, which is expected after #: {EXAMPLE}")
    else:
        judgments.lines.append(number)
        judgments.query_ids.append(query)
        judgments.doc_ids.append(document[1])
        judgments.grades.append(grade_of(grade))
