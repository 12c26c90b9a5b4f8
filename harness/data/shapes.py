"""The shapes in which runs and judgments are taken as objects: a table of each, for reading and for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from harness.data.frames import GRADE, SCORE, as_table, lacking, qrels_from_frame, run_from_frame
from harness.data.ids import described
from harness.data.memory import (
    HITS,
    JUDGED,
    QueryShape,
    are_hits,
    are_rows,
    first_unfit,
    qrels_from_dict,
    qrels_from_rows,
    run_from_dict,
    run_from_hits,
    run_from_rows,
)
from harness.data.predictions import are_predictions, run_from_predictions
from harness.data.types import Qrels, Run
from harness.errors import UsageError

__all__ = ["QRELS", "RUNS", "Accepted", "Shape", "described_shape", "examples_of", "read_shape", "shape_of"]

Built = TypeVar("Built", Run, Qrels)


class Shape(NamedTuple, Generic[Built]):
    """One shape: how it is written, whether an object is written so, and what reads it."""

    examples: tuple[str, ...]
    matches: Callable[[Any], bool]
    read: Callable[[Any], Built]


class Accepted(NamedTuple, Generic[Built]):
    """Everything that is taken as a run, or as judgments; the first shape that matches reads it.

    ``subject`` begins messages, ``numbers`` are the names of the column of scores or grades, ``of_query`` the shapes of
    one query's documents.
    """

    subject: str
    numbers: Sequence[str]
    of_query: Sequence[QueryShape]
    shapes: tuple[Shape[Built], ...]


def _of_queries(shapes: Sequence[QueryShape], read: Callable[[Any], Built]) -> Shape[Built]:
    def matches(value: object) -> bool:
        return isinstance(value, Mapping) and first_unfit(value, shapes) is None

    return Shape(tuple(f"{{query id: {shape.example}}}" for shape in shapes), matches, read)


def _of_rows(number: str, names: Sequence[str], read: Callable[[Any], Built]) -> Shape[Built]:
    example = f"[(query id, document id, {number}), …], as dictionaries or named tuples (ir_measures) too"
    return Shape((example,), lambda value: are_rows(value, names), read)


def _of_tables(numbers: str, names: Sequence[str], read: Callable[[Any], Built]) -> Shape[Built]:
    def matches(value: object) -> bool:
        table = as_table(value)
        return table is not None and lacking(table, names) is None

    return Shape((f"a pandas or Polars frame or an Arrow table, with columns {numbers}",), matches, read)


RUNS: Accepted[Run] = Accepted(
    "the run is",
    SCORE,
    HITS,
    (
        Shape(
            ("{subset: {split: {query id: {document id: score}}}}, MTEB's predictions",),
            are_predictions,
            run_from_predictions,
        ),
        _of_queries(HITS, run_from_dict),
        Shape(
            ('[[{"corpus_id": document id, "score": score}, …], …], a list for each query (sentence-transformers)',),
            are_hits,
            run_from_hits,
        ),
        _of_rows("score", SCORE, run_from_rows),
        _of_tables(
            "query_id, doc_id, score (ir_measures), qid, docno, score (PyTerrier) or q_id, doc_id, score (ranx)",
            SCORE,
            run_from_frame,
        ),
    ),
)
"""What a run may be as an object. Predictions come before other dictionaries, which they are too."""

QRELS: Accepted[Qrels] = Accepted(
    "the judgments are",
    GRADE,
    JUDGED,
    (
        _of_queries(JUDGED, qrels_from_dict),
        _of_rows("grade", GRADE, qrels_from_rows),
        _of_tables(
            "query_id, doc_id, relevance (ir_measures), qid, docno, label (PyTerrier) or q_id, doc_id, score (ranx)",
            GRADE,
            qrels_from_frame,
        ),
    ),
)
"""What judgments may be as an object."""


def read_shape(value: object, accepted: Accepted[Built]) -> Built:
    """Return the run or the judgments that an object holds.

    Raises:
        UsageError: the object has none of the shapes; all of them are listed.
        DataError: an id, a score or a grade in it is wrong.
    """
    table = as_table(value)  # a stream is read once
    value = value if table is None else table
    shape = shape_of(value, accepted)
    if shape is None:
        raise UsageError(f"{accepted.subject} {described_shape(value, accepted)}", fix=examples_of(accepted))
    return shape.read(value)


def shape_of(value: object, accepted: Accepted[Built]) -> Shape[Built] | None:
    """Return the first of the shapes that an object has, None where it has none."""
    return next((shape for shape in accepted.shapes if shape.matches(value)), None)


def described_shape(value: object, accepted: Accepted[Any]) -> str:
    """Return what an object is that has none of the shapes, in words, and where it leaves them."""
    table = as_table(value)
    if table is not None:
        return str(lacking(table, accepted.numbers))
    if isinstance(value, Mapping):
        return f"a {type(value).__name__} in which {first_unfit(value, accepted.of_query)}"
    if isinstance(value, Iterator):
        return f"{described(value)}, which can be read once only: make a list of it"
    return described(value)


def examples_of(accepted: Accepted[Any]) -> str:
    """Return the list of all shapes, one a line, as the advice of a message."""
    lines = [f"\n    {example}" for shape in accepted.shapes for example in shape.examples]
    return f"taken are:{''.join(lines)}"
