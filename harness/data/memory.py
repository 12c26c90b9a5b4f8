"""Runs and judgments that are already in memory: dictionaries and lists."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from itertools import chain
from numbers import Real
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import numbers
from harness.data.frames import DOCUMENT, GRADE, QUERY, SCORE, first_of
from harness.data.grouping import build_judgments, build_run
from harness.data.ids import described, id_column, is_id
from harness.data.types import Qrels, Run
from harness.errors import DataError

__all__ = [
    "HITS",
    "JUDGED",
    "QueryShape",
    "are_hits",
    "are_rows",
    "first_unfit",
    "qrels_from_dict",
    "qrels_from_rows",
    "run_from_dict",
    "run_from_hits",
    "run_from_rows",
]

Built = TypeVar("Built", Run, Qrels)
Build = Callable[[pa.ChunkedArray, pa.ChunkedArray, npt.NDArray[np.float64]], Built]


class _Numbered(NamedTuple):
    """The documents of one query, and a number for each."""

    documents: Collection[object]
    values: Collection[object]


class QueryShape(NamedTuple):
    """One way to write the documents of a query: an example, whether a value is written so, and its content."""

    example: str
    matches: Callable[[Any], bool]
    read: Callable[[Any], _Numbered]


def _listed(value: object) -> Sequence[Any] | None:
    """Return a list, a tuple or a one-dimensional array as a sequence, None for anything else."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return value
    if getattr(value, "ndim", None) == 1 and hasattr(value, "tolist"):
        return cast("list[Any]", value.tolist())
    return None


def _lists(fits: Callable[[Any], bool]) -> Callable[[object], bool]:
    def matches(value: object) -> bool:
        listed = _listed(value)
        return listed is not None and all(map(fits, listed))

    return matches


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _is_hit(value: object) -> bool:
    return isinstance(value, Mapping) and "corpus_id" in value and "score" in value


def _are_ids(value: object) -> bool:
    return _lists(is_id)(value) or (isinstance(value, Set) and all(map(is_id, value)))


def _of_mapping(value: Mapping[object, object]) -> _Numbered:
    return _Numbered(value.keys(), value.values())


def _of_pairs(value: Sequence[Sequence[object]]) -> _Numbered:
    return _Numbered([pair[0] for pair in value], [pair[1] for pair in value])


def _of_hits(value: Sequence[Mapping[str, object]]) -> _Numbered:
    return _Numbered([hit["corpus_id"] for hit in value], [hit["score"] for hit in value])


def _of_ranks(value: object) -> _Numbered:
    """Scores that fall with the rank: whole numbers, which float32 tells apart up to 2^24 documents a query."""
    documents = _listed(value) or ()
    return _Numbered(documents, range(len(documents), 0, -1))


def _of_relevant(value: object) -> _Numbered:
    documents = value if isinstance(value, Set) else _listed(value) or ()
    return _Numbered(documents, [1] * len(documents))


HITS = (
    QueryShape("{document id: score}", _is_mapping, _of_mapping),
    QueryShape("[(document id, score), …]", _lists(_is_pair), _of_pairs),
    QueryShape('[{"corpus_id": document id, "score": score}, …]', _lists(_is_hit), _of_hits),
    QueryShape("[document id, …], best first", _lists(is_id), _of_ranks),
)
"""How the hits of a query are written; an empty list is of the first shape that takes it."""

JUDGED = (
    QueryShape("{document id: grade}", _is_mapping, _of_mapping),
    QueryShape("[(document id, grade), …]", _lists(_is_pair), _of_pairs),
    QueryShape("[document id, …] or {document id, …}, each of grade 1", _are_ids, _of_relevant),
    QueryShape("document id, of grade 1", is_id, lambda value: _of_relevant([value])),
)
"""How the judgments of a query are written."""


def first_unfit(table: Mapping[Any, Any], shapes: Sequence[QueryShape]) -> str | None:
    """Return, in words, the first query of ``{query id: …}`` whose documents have none of the shapes, or None."""
    for query, inner in table.items():
        if not any(shape.matches(inner) for shape in shapes):
            return f"query {query!r} has {described(inner)}"
    return None


def run_from_dict(run: Mapping[Any, Any], *, by_score: bool = False) -> Run:
    """Return the run in ``{query id: hits}``; the engine's order is that of the dictionaries and lists.

    Empty hits are those of a query that was asked and found nothing. Whole numbers as ids become text, scores become
    float32; NaN and infinite ones are refused when the run is scored.

    Args:
        run: hits of each query in one of the shapes of ``HITS``.
        by_score: take the order of the scores as the engine's, where that of the dictionaries says nothing.

    Raises:
        DataError: hits of another shape, a score that is no number, an id that is neither text nor a whole number, or
            two query ids that are one as text.
    """

    def build(queries: pa.ChunkedArray, documents: pa.ChunkedArray, scores: npt.NDArray[np.float64]) -> Run:
        return build_run(queries, documents, scores, -scores if by_score else None)

    return _from_dict("run", run, HITS, build)


def qrels_from_dict(qrels: Mapping[Any, Any]) -> Qrels:
    """Return the judgments in ``{query id: judgments}``; a query without any is left unjudged.

    Args:
        qrels: judgments of each query in one of the shapes of ``JUDGED``.

    Raises:
        DataError: as :func:`run_from_dict`, and for a grade that is no whole number or a document judged twice.
    """
    return _from_dict("judgments", qrels, JUDGED, build_judgments)


def are_hits(value: object) -> bool:
    """Return whether ``value`` is a list of lists of ``{"corpus_id", "score"}``, one list a query."""
    return _lists(_lists(_is_hit))(value)


def run_from_hits(hits: Sequence[Sequence[Mapping[str, Any]]]) -> Run:
    """Return the run in what ``sentence_transformers.util.semantic_search`` gives: queries are numbered from 0."""
    return run_from_dict(dict(enumerate(hits)))


def are_rows(value: object, number: Sequence[str]) -> bool:
    """Return whether ``value`` is a list of rows: dictionaries, named tuples, or (query id, document id, number).

    Args:
        value: anything.
        number: names that a dictionary or a named tuple may have for the number.
    """
    return not hasattr(value, "_fields") and _lists(lambda row: _places(row, number) is not None)(value)


def run_from_rows(rows: Sequence[Any]) -> Run:
    """Return the run in a list of rows, one a hit, such as ir_measures' ``ScoredDoc``.

    The engine's order is that of the rows. Raises DataError as :func:`run_from_dict` does.
    """
    return run_from_dict(_grouped(rows, SCORE))


def qrels_from_rows(rows: Sequence[Any]) -> Qrels:
    """Return the judgments in a list of rows, one a judgment, such as ir_measures' ``Qrel``.

    Raises DataError as :func:`qrels_from_dict` does.
    """
    return qrels_from_dict(_grouped(rows, GRADE))


def _places(row: object, number: Sequence[str]) -> tuple[Any, Any, Any] | None:
    """Return what a row is indexed by for query id, document id and number; None for no such row."""
    if isinstance(row, Mapping):
        named = [first_of(names, list(row)) for names in (QUERY, DOCUMENT, number)]
        return None if None in named else (named[0], named[1], named[2])
    if not isinstance(row, tuple | list):
        return None
    fields: tuple[str, ...] | None = getattr(row, "_fields", None)
    if fields is None:
        return (0, 1, 2) if len(row) == 3 and is_id(row[0]) and is_id(row[1]) else None
    named = [first_of(names, fields) for names in (QUERY, DOCUMENT, number)]
    query, document, value = (fields.index(name) if name is not None else None for name in named)
    return None if query is None or document is None or value is None else (query, document, value)


def _grouped(rows: Sequence[Any], number: Sequence[str]) -> dict[Any, list[tuple[Any, Any]]]:
    """Return the (document id, number) pairs of each query, in the order of the rows."""
    grouped: dict[Any, list[tuple[Any, Any]]] = {}
    for row in rows:
        query, document, value = _places(row, number) or (0, 1, 2)
        grouped.setdefault(row[query], []).append((row[document], row[value]))
    return grouped


def _from_dict(source: str, table: Mapping[Any, Any], shapes: Sequence[QueryShape], build: Build[Built]) -> Built:
    unfit = first_unfit(table, shapes)
    if unfit is not None:
        raise DataError(source, [unfit])
    parts = [next(shape for shape in shapes if shape.matches(inner)).read(inner) for inner in table.values()]
    try:
        lengths = np.fromiter((len(part.documents) for part in parts), np.int64, len(parts))
        values = np.fromiter(chain.from_iterable(part.values for part in parts), np.float64)
        if np.isnan(values).any() and any(_faults(table, parts)):  # NumPy makes NaN of None
            raise TypeError
        query_ids, documents = id_column(table), id_column(chain.from_iterable(part.documents for part in parts))
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        problems = list(_faults(table, parts)) or [str(error)]
        raise DataError(source, problems, fix="ids are strings or whole numbers, the rest are numbers") from error
    if len(query_ids.unique()) < len(table):
        twice = next(query for query in table if not isinstance(query, str) and str(query) in table)
        raise DataError(source, [f"query id {twice!r} is there twice: as {type(twice).__name__} and as text"])
    codes = numbers(np.repeat(np.arange(len(parts), dtype=np.int32), lengths))
    queries = pa.DictionaryArray.from_arrays(codes, query_ids)
    return build(pa.chunked_array([queries]), pa.chunked_array([documents]), values)


def _faults(table: Mapping[Any, Any], parts: Sequence[_Numbered]) -> Iterator[str]:
    """Name ids and numbers of a wrong type; looked for only where there is one."""
    for query, part in zip(table, parts, strict=True):
        if not is_id(query):
            yield f"the query id is {described(query)}, expected a string or a whole number"
        for document, value in zip(part.documents, part.values, strict=True):
            if not is_id(document):
                yield f"query {query!r}: a document id is {described(document)}, expected a string or a whole number"
            if not isinstance(value, Real):
                yield f"query {query!r}, document {document!r}: the value is {described(value)}, expected a number"
