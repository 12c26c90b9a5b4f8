"""Runs in lines of text: TREC's six columns, MS MARCO's three and ColBERT's four.

:data:`LAYOUTS` lists the layouts by their number of columns; a new one is one line. The first line decides which one a
file has. Lines that begin with ``#`` are comments, words may follow TREC's tag, and ids may hold spaces if six columns
are separated by tabs. A file with two readings is refused, unless the user names its columns by number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data import ranking
from harness.data.arrow import as_numpy, strings
from harness.data.grouping import build_ranked_run, build_run, to_float32
from harness.data.problems import Problems
from harness.data.types import Run, owners, ranks_in
from harness.errors import DataError
from harness.loaders.qrels import ITERATIONS, JUDGMENTS_FOR_RUN, looks_like_judgments
from harness.loaders.text_columns import ID, NUMBER, read_columns, words_of
from harness.wording import counted

_INTEGER = re.compile(r"[+-]?[0-9]+")
_HIT_OF_MARKED_QUERY = re.compile(
    rb"(?m)^#[^ \n]+ [^ \n]+ [^ \n]+ [^ \n]+ [+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? [^ \n]+$"
)
_COMMENT = re.compile(rb"(?m)^#[^\n]*\n?")
_COMMENT_AMONG_MARKED_QUERIES = re.compile(rb"(?m)^#(?: [^\n]*)?(?:\n|\Z)")
_LONG = re.compile(rb"(?m)^(?:[^ \n]+ ){6}[^\n]+$")
_SIX = re.compile(rb"(?m)^((?:[^ \n]+ ){5}[^ \n]+) [^\n]+$")
_ROLES = ("query_id", "doc_id", "rank", "score")
_JUDGMENT_COLUMNS = 4


class Layout(NamedTuple):
    """A layout of columns: who writes it, its columns in words, and the position of each role, from 1."""

    used_by: str
    columns: str
    positions: Mapping[str, int]

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns.split())


LAYOUTS = (
    Layout("TREC", "query Q0 document rank score tag", {"query_id": 1, "doc_id": 3, "rank": 4, "score": 5}),
    Layout("MS MARCO", "query document rank", {"query_id": 1, "doc_id": 2, "rank": 3}),
    Layout("ColBERT", "query document rank score", {"query_id": 1, "doc_id": 2, "rank": 3, "score": 4}),
)
"""Every layout; TREC's comes first."""
TREC = LAYOUTS[0]


def without_comments(content: bytes) -> bytes:
    """Return normalised lines without comments, which begin with ``#``; a query's id may begin so too."""
    if b"#" not in content:
        return content
    marked = _HIT_OF_MARKED_QUERY.search(content) is not None
    return (_COMMENT_AMONG_MARKED_QUERIES if marked else _COMMENT).sub(b"", content)


def without_words_after_tag(content: bytes) -> bytes | None:
    """Return normalised lines cut to TREC's six columns; None if no line is longer, or one may be read otherwise."""
    long_lines = _LONG.findall(content)
    if not long_lines or any(_problem_of_long(line.decode("utf-8", "replace").split(" ")) for line in long_lines):
        return None
    return _SIX.sub(rb"\1", content)


def _problem_of_long(parts: Sequence[str]) -> str | None:
    """Return the problem of a line of more than six columns, None if all words after the sixth belong to the tag.

    A document's id with a space in it moves rank and score to the right.
    """
    rank, score, tag = parts[3:6]
    if not _INTEGER.fullmatch(rank) or score_problem(score) is not None:
        return (
            f"{counted(len(parts), 'column')}, expected 6: {TREC.columns} (ids with spaces need tabs between columns)"
        )
    if _INTEGER.fullmatch(score) and score_problem(tag) is None:
        return (
            f"may be document '{parts[2]}' with score {score}, or document '{parts[2]} {rank}' with score {tag}: "
            "separate the six columns by tabs"
        )
    return None


def first_words(content: bytes) -> list[str]:
    """Return the columns of the first line that is not a comment, of normalised lines."""
    first = without_comments(content).lstrip(b"\n").split(b"\n", 1)[0]
    return first.decode("utf-8", "replace").split(" ")


def with_spaces(content: bytes, ending: str | None) -> bytes:
    """Return the lines of a CSV file without a header with spaces between columns."""
    first = content.lstrip().split(b"\n", 1)[0]
    if ending != ".csv" or b'"' in content or len(first.split()) > 1:
        return content
    return content.replace(b";" if b";" in first else b",", b" ")


def without_plus(content: bytes, column: int) -> bytes:
    """Return normalised lines without a plus sign before a number in one column: ``+1`` is 1, which Arrow refuses."""
    if b" +" not in content:
        return content
    return re.sub(rb"(?m)^((?:[^ \n]+ ){%d})\+(?=[0-9])" % (column - 1), rb"\1", content)


def positions_in(columns: Mapping[str, str]) -> dict[str, int]:
    """Return the columns of a run that the user named by number: role -> position, from 1."""
    return {role: int(name) for role, name in columns.items() if role in _ROLES and name.isdecimal() and int(name)}


def read_other_lines(content: bytes, raw: bytes, columns: Mapping[str, str], problems: Problems) -> Run:
    """Return the run in lines that Arrow does not read as TREC's.

    Args:
        content: the lines as :func:`harness.loaders.text_columns.normalised` returns them.
        raw: the lines as they are.
        columns: fields by role that the user named; numbers are positions.
        problems: receives faulty lines.

    Raises:
        DataError: faulty lines, and a file with two readings or none.
    """
    words, positions = first_words(content), positions_in(columns)
    if positions:
        layout = _named_layout(words, positions)
        return _read_by_arrow(content, layout) or _parse_lines(raw, layout, problems)
    _refuse_judgments(content, words, problems)
    layout = next((layout for layout in LAYOUTS[1:] if layout.width == len(words)), TREC)
    if layout is TREC:
        return _parse_lines(raw, TREC, problems)
    content = without_plus(content, layout.positions["rank"])
    run = _read_by_arrow(content, layout, one_reading=True)
    if run is None and "score" not in layout.positions:
        scored = Layout("", "query document score", {"query_id": 1, "doc_id": 2, "score": 3})
        run = _read_by_arrow(content, scored)
    return run or _parse_lines(raw, layout, problems, one_reading=True)


def _named_layout(words: Sequence[str], positions: Mapping[str, int]) -> Layout:
    """Return the layout of columns that the user named by number; the query comes first if it is not among them."""
    usual = {"query_id": 1, "doc_id": 2 if len(words) < len(TREC.columns.split()) - 1 else 3}
    layout = Layout("", " ".join(str(number) for number in range(1, len(words) + 1)), {**usual, **positions})
    beyond = [f"{role}={position}" for role, position in layout.positions.items() if position > len(words)]
    if beyond or not {"rank", "score"} & layout.positions.keys():
        problem = f"--columns {beyond[0]}" if beyond else "no column of the score or the rank is named"
        raise DataError(
            "run",
            [f"{problem}, and the first line has {counted(len(words), 'column')}: {' '.join(words)}"],
            fix="name columns by number, as --columns query_id=1,doc_id=2,score=3",
        )
    return layout


def _refuse_judgments(content: bytes, words: Sequence[str], problems: Problems) -> None:
    """Raise DataError for TREC's judgments, by the column that is ``0`` or ``Q0`` or by an id in place of the rank."""
    if looks_like_judgments(words):
        lines = [line.split(b" ") for line in without_comments(content).split(b"\n") if line]
        constant = {line[1].decode("utf-8", "replace") for line in lines if len(line) > 1} <= {*ITERATIONS}
        if constant or len(words) != _JUDGMENT_COLUMNS or not _INTEGER.fullmatch(words[2]):
            problems.add(None, JUDGMENTS_FOR_RUN)
    problems.raise_if_any(fix=_fix_of_numbers(words))


def _fix_of_numbers(words: Sequence[str]) -> str | None:
    """Return how to name the columns of a run that looks like judgments, by the numbers in its first line."""
    numbers = [position for position, word in enumerate(words, 1) if position > 2 and NUMBER.fullmatch(word)]
    if len(words) != _JUDGMENT_COLUMNS or len(numbers) < 2:
        return None
    return "if it is a run, name its columns by number: --columns query_id=1,doc_id=2,score=3,rank=4"


def _read_by_arrow(content: bytes, layout: Layout, *, one_reading: bool = False) -> Run | None:
    """Return the run by Arrow's reader; None when a line has to be looked at.

    Raises DataError if ``one_reading`` is required and the column of ranks may be read otherwise.
    """
    types = {"query_id": ID, "doc_id": ID, "rank": pa.int64(), "score": pa.float64()}
    names = {position: role for role, position in layout.positions.items()}
    columns = [names.get(number, f"column {number}") for number in range(1, layout.width + 1)]
    table = read_columns(without_comments(content), columns, {role: types[role] for role in layout.positions})
    if table is None:
        return None
    ranks = as_numpy(table["rank"]) if "rank" in layout.positions else None
    scores = as_numpy(table["score"]) if "score" in layout.positions else None
    if one_reading and ranks is not None:
        _require_one_reading(table["query_id"], table["doc_id"], ranks, scores, layout)
    if scores is None:
        run = build_ranked_run(table["query_id"], table["doc_id"], as_numpy(table["rank"]))
    else:
        run = build_run(table["query_id"], table["doc_id"], scores, ranks)
    if not bool((run.scores < np.inf).all()) or ranking.first_duplicate(run.indptr, run.rows, len(run.doc_ids)) >= 0:
        return None
    return run


def _require_one_reading(
    queries: pa.ChunkedArray,
    documents: pa.ChunkedArray,
    ranks: npt.NDArray[Any],
    scores: npt.NDArray[np.float64] | None,
    layout: Layout,
) -> None:
    """Raise DataError if the column of ranks may be a score, or contradicts the column of scores.

    Ranks count the hits of each query from 1, or from 0, and without scores in the order of the lines: a column that
    counts in another order may hold scores.
    """
    position = layout.positions["rank"]
    by_rank, by_score = f"rank={position}", f"score={position}"
    problem = None
    run = build_run(queries, documents, -ranks.astype(np.float64), ranks)
    if not _counts(run):
        values = ", ".join(f"{rank:g}" for rank in ranks[:4].tolist())
        problem = f"it does not count 1, 2, 3: {values}"
    in_lines = build_run(queries, documents, -ranks.astype(np.float64), None)
    if scores is None:
        if problem is None and (query := _first_rise(in_lines)) is not None:
            problem = f"it does not rise in the order of the lines: {_numbers_of(in_lines, query, -1)}"
    else:
        position_of_score = layout.positions["score"]
        by_rank, by_score = f"rank={position},score={position_of_score}", f"score={position_of_score}"
        if not _counts(in_lines) and _counts(build_run(queries, documents, -scores, None)):
            by_score = f"score={position},rank={position_of_score}"
            problem = problem or f"column {position_of_score} counts 1, 2, 3 in the order of the lines too"
        scored = build_run(queries, documents, scores, ranks)
        if problem is None and (query := _first_rise(scored)) is not None:
            by_rank = f"rank={position}"
            problem = f"the scores rise from rank to rank: {_numbers_of(scored, query)}"
    if problem is not None:
        raise DataError(
            "run",
            [f"has the columns {layout.columns} if column {position} is the rank, but {problem}"],
            fix=f"say how it is read: --columns {by_rank} or --columns {by_score}; judgments come before the runs",
        )


def _counts(run: Run) -> bool:
    """Return whether the scores of each query are the ranks of its hits from 1, or from 0, below zero."""
    first = run.scores + ranks_in(run.indptr)
    return bool(((first == 0) | (first == -1)).all()) and len(np.unique(first)) == 1


def _first_rise(run: Run) -> int | None:
    """Return the first query, by number, whose scores rise from a hit to the next; None if none do."""
    values = run.scores if run.wide_scores is None else run.wide_scores
    owner = owners(run.indptr)
    rises = np.flatnonzero((values[1:] > values[:-1]) & (owner[1:] == owner[:-1]))
    return int(owner[rises[0]]) if len(rises) else None


def _numbers_of(run: Run, query: int, sign: int = 1) -> str:
    """Return, in words, the first scores of a query, multiplied by ``sign``."""
    values = ", ".join(f"{sign * score:g}" for score in run.scores[run.of_query(query)][:4].tolist())
    return f"query '{run.query_ids[query]}' has {values}"


def _parse_lines(raw: bytes, layout: Layout, problems: Problems, *, one_reading: bool = False) -> Run:
    """Return a run line by line; raises DataError that names every faulty line, and as :func:`_read_by_arrow`."""
    hits = {role: list[str]() for role in ("query_id", "doc_id", "rank", "score")}
    first_lines: dict[tuple[str, str], int] = {}
    marked = layout is TREC and _HIT_OF_MARKED_QUERY.search(raw) is not None
    for number, line in enumerate(raw.split(b"\n"), 1):
        try:
            text = line.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            problems.add(number, f"not UTF-8: byte 0x{line[error.start]:02x}")
            continue
        parts = _columns_of(text, layout)
        if not parts or (text.lstrip().startswith("#") and (not marked or parts[0] == "#")):
            continue
        if layout is TREC and len(parts) > layout.width:
            problem = _problem_of_long(parts)
        elif len(parts) != layout.width:
            problem = f"{counted(len(parts), 'column')}, expected {layout.width}: {layout.columns}"
        else:
            problem = None
        if problem is not None:
            problems.add_once(number, problem) if len(parts) != layout.width else problems.add(number, problem)
            continue
        hit = {role: parts[position - 1] for role, position in layout.positions.items()}
        problem = score_problem(hit["score"]) if "score" in hit else None
        if problem is None and (one_reading or "score" not in hit):
            problem = _rank_problem(hit["rank"])
        pair = hit["query_id"], hit["doc_id"]
        if problem is None and (before := first_lines.setdefault(pair, number)) != number:
            problem = f"document '{pair[1]}' is listed for query '{pair[0]}' on line {before} already"
        if problem is not None:
            problems.add(number, problem)
            continue
        for role, value in hit.items():
            hits[role].append(value)
    problems.raise_if_any(fix=None if hits["query_id"] or layout is not TREC else _fix_of_unknown(first_words(raw)))
    return _built(hits, layout if one_reading else None)


def _columns_of(text: str, layout: Layout) -> list[str]:
    """Return the columns of a line; between tabs, if these separate TREC's six, an id or a tag may hold spaces."""
    if layout is TREC and text.count("\t") == TREC.width - 1:
        cells = [cell.strip() for cell in text.split("\t")]
        if all(cells):
            return cells
    return words_of(text)


def _fix_of_unknown(words: Sequence[str]) -> str | None:
    """Return the advice for lines none of which is a hit: the layouts, and how columns are named."""
    if len(words) < 3 or len(words) >= TREC.width:
        return None
    layouts = ", or ".join(f"{layout.columns} ({layout.used_by})" for layout in LAYOUTS)
    return f"lines are {layouts}; other columns are named by number, as --columns query_id=1,doc_id=2,score=3"


def _built(hits: Mapping[str, list[str]], layout: Layout | None) -> Run:
    """Return the run of hits; raises DataError if their ``layout``, unless None, leaves two readings."""
    queries, documents = (pa.chunked_array([strings(hits[role])]) for role in ("query_id", "doc_id"))
    are_integers = bool(hits["rank"]) and all(map(_INTEGER.fullmatch, hits["rank"]))
    ranks = np.array(list(map(int, hits["rank"])), dtype=np.float64) if are_integers else None
    scores = np.array(list(map(float, hits["score"]))) if hits["score"] else None
    if layout is not None and ranks is not None:
        _require_one_reading(queries, documents, ranks, scores, layout)
    if scores is None and ranks is not None:
        return build_ranked_run(queries, documents, ranks)
    return build_run(queries, documents, np.array([]) if scores is None else scores, ranks)


def _rank_problem(text: str) -> str | None:
    return None if _INTEGER.fullmatch(text) else f"the rank '{text}' is not a whole number"


def score_problem(text: str) -> str | None:
    """Return a score's problem, in words: no number, NaN, or infinite in float32; minus infinity ranks last."""
    try:
        number = float(text) if "_" not in text else None
    except ValueError:
        number = None
    if number is None:
        return f"the score '{text}' is not a number"
    if np.isnan(number):
        return "the score is NaN"
    if to_float32(np.array(number)) == np.inf:
        return f"the score '{text}' is infinite, or beyond the range of float32"
    return None
