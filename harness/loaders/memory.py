"""Runs and judgments that are already in memory: dictionaries and data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.arrow import numbers, strings
from harness.errors import DataError
from harness.loaders.grouping import build_qrels, build_run
from harness.types import Qrels, Run
from harness.wording import counted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["qrels_from_dict", "qrels_from_frame", "run_from_dict", "run_from_frame"]

Built = TypeVar("Built", Run, Qrels)

_QUERY = ("query_id", "query", "qid", "q_id", "topic", "query-id")
_DOCUMENT = ("doc_id", "docid", "docno", "document", "corpus-id")
_SCORE = ("score", "sim")
_GRADE = ("relevance", "grade", "label", "rel", "score")
_SHOWN = 40


def run_from_dict(run: Mapping[str, Mapping[str, float]]) -> Run:
    """A run from ``{query id: {document id: score}}``; the engine's order is the dictionaries' own.

    An empty inner dictionary is a query that was asked and found nothing. Scores become float32; NaN is refused when
    the run is scored. Raises DataError for a score that is no number and an id that is no string.
    """
    return _from_dict("run", run, lambda queries, documents, values: build_run(queries, documents, values, None))


def qrels_from_dict(qrels: Mapping[str, Mapping[str, int]]) -> Qrels:
    """Judgments from ``{query id: {document id: grade}}``; a query without documents is left unjudged.

    Raises DataError for a grade that is no whole number and an id that is no string.
    """
    return _from_dict("judgments", qrels, _judgments)


def run_from_frame(frame: pd.DataFrame) -> Run:
    """A run from a pandas frame with a column of query ids, document ids and scores.

    Column names as in ir_measures (``query_id``, ``doc_id``, ``score``) or PyTerrier (``qid``, ``docno``, ``score``).
    The engine's order is that of ``rank`` where the frame has it, else of the rows. Ids are taken as text.
    """
    queries, documents, scores = (_column("run", frame, names) for names in (_QUERY, _DOCUMENT, _SCORE))
    places = _numbers("run", frame["rank"]) if "rank" in frame.columns else None
    return build_run(_texts("run", queries), _texts("run", documents), _numbers("run", scores), places)


def qrels_from_frame(frame: pd.DataFrame) -> Qrels:
    """Judgments from a pandas frame with a column of query ids, document ids and grades.

    Column names are ``query_id``, ``doc_id``, ``relevance`` or PyTerrier's ``qid``, ``docno``, ``label``. Raises
    DataError for a missing column, a missing value, or a document judged twice under one query.
    """
    name = "judgments"
    queries, documents, grades = (_column(name, frame, names) for names in (_QUERY, _DOCUMENT, _GRADE))
    return _judgments(_texts(name, queries), _texts(name, documents), _numbers(name, grades))


def _from_dict(
    name: str,
    table: Mapping[str, Mapping[str, float]],
    build: Callable[[pa.ChunkedArray, pa.ChunkedArray, npt.NDArray[np.float64]], Built],
) -> Built:
    try:
        lengths = np.fromiter((len(inner) for inner in table.values()), np.int64, len(table))
        values = np.fromiter(chain.from_iterable(inner.values() for inner in table.values()), np.float64)
        codes = numbers(np.repeat(np.arange(len(table), dtype=np.int32), lengths))
        queries = pa.DictionaryArray.from_arrays(codes, strings(table))
        return build(
            pa.chunked_array([queries]), pa.chunked_array([strings(chain.from_iterable(table.values()))]), values
        )
    except (AttributeError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        problems = list(_faults(table)) or [str(error)]
        raise DataError(name, problems, fix="give {query id: {document id: number}} with ids as strings") from error


def _faults(table: Mapping[Any, Any]) -> Iterator[str]:
    """What is no ``{query id: {document id: number}}``, in words; looked for only when something is."""
    for query, inner in table.items():
        if not isinstance(query, str):
            yield f"the query id {query!r} is {_kind(query)}, expected a string"
        if not isinstance(inner, Mapping):
            yield f"query {query!r} has {_kind(inner)} ({_short(inner)}), expected {{document id: number}}"
            continue
        for document, value in inner.items():
            if not isinstance(document, str):
                yield f"query {query!r}: the document id {document!r} is {_kind(document)}, expected a string"
            if not isinstance(value, Real):
                yield f"query {query!r}, document {document!r}: {_short(value)} is {_kind(value)}, expected a number"


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _judgments(queries: pa.ChunkedArray, documents: pa.ChunkedArray, grades: npt.NDArray[np.float64]) -> Qrels:
    broken = np.flatnonzero(~(np.isfinite(grades) & (grades == np.rint(grades))))
    if len(broken):
        named = [f"grade {grades[at]:g} of document '{documents[int(at)].as_py()}' is no whole number" for at in broken]
        raise DataError("judgments", named)
    return build_qrels(queries, documents, grades)


def _column(name: str, frame: pd.DataFrame, known: tuple[str, ...]) -> pd.Series[Any]:
    for column in known:
        if column in frame.columns:
            return frame[column]
    raise DataError(name, [f"the frame has no column {' or '.join(known[:3])}"], fix=f"it has {list(frame.columns)}")


def _texts(name: str, column: pd.Series[Any]) -> pa.ChunkedArray:
    if bool(column.isna().any()):
        raise DataError(name, [f"column '{column.name}' lacks {counted(int(column.isna().sum()), 'id')}"])
    return pa.chunked_array([strings(column.astype(str))])


def _numbers(name: str, column: pd.Series[Any]) -> npt.NDArray[np.float64]:
    try:
        values: npt.NDArray[np.float64] = column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(name, [f"column '{column.name}' holds something that is no number: {error}"]) from error
    return values
