"""Runs and judgments that are objects in Python: dictionaries, lists, tables, and MTEB's predictions.

``RUNS`` and ``QRELS`` list the shapes that are taken, for reading and for messages. Files that hold such an object in
JSON are read by the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MappingView, Sequence, Set
from dataclasses import replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import numbers
from harness.data.frames import (
    FieldNames,
    as_table,
    described,
    id_column,
    is_id,
    lacking,
    qrels_from_frame,
    run_from_frame,
)
from harness.data.grouping import build_judgments, build_ranked_run, build_run
from harness.data.judgment_exports import EXPORTS, Export
from harness.data.python_values import is_number
from harness.data.types import Qrels, Run
from harness.errors import DataError, UsageError
from harness.user_path import user_path

Built = TypeVar("Built", Run, Qrels)
Build = Callable[[pa.ChunkedArray, pa.ChunkedArray, npt.NDArray[np.float64]], Built]


class _NumberedHits(NamedTuple):
    """The documents of one query, and a number for each document."""

    documents: Collection[object]
    values: Collection[object]


class QueryShape(NamedTuple):
    """One way to write the documents of a query: an example, whether a value is written so, and its content."""

    example: str
    matches: Callable[[Any], bool]
    read: Callable[[Any], _NumberedHits]


def _as_sequence(value: object) -> Sequence[Any] | None:
    """Return a list, a tuple, a one-dimensional array or a column as a sequence, None for anything else."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return value
    if getattr(value, "ndim", None) == 1 and hasattr(value, "tolist"):
        return cast("list[Any]", value.tolist())
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return cast("list[Any]", value.to_pylist())
    if hasattr(value, "to_list") and hasattr(value, "__array__") and not hasattr(value, "columns"):  # of Polars
        return cast("list[Any]", value.to_list())
    return None


def _lists(fits: Callable[[Any], bool]) -> Callable[[object], bool]:
    def matches(value: object) -> bool:
        items = _as_sequence(value)
        return items is not None and all(map(fits, items))

    return matches


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _is_hit(value: object) -> bool:
    return isinstance(value, Mapping) and "corpus_id" in value and "score" in value


def _are_ids(value: object) -> bool:
    return _lists(is_id)(value) or (isinstance(value, Set) and all(map(is_id, value)))


def _number_mapping(value: Mapping[object, object]) -> _NumberedHits:
    return _NumberedHits(value.keys(), value.values())


def _item_reader(document: int | str, number: int | str) -> Callable[[Any], _NumberedHits]:
    """Read a list of pairs or dictionaries, which have a document's id and its number under these keys."""
    return lambda items: _NumberedHits([item[document] for item in items], [item[number] for item in items])


def _number_ranks(value: object) -> _NumberedHits:
    """Return scores that fall with the rank: whole numbers, distinct in float32 up to 2^24 documents a query."""
    documents = _as_sequence(value) or ()
    return _NumberedHits(documents, range(len(documents), 0, -1))


def _number_relevant(value: object) -> _NumberedHits:
    documents = value if isinstance(value, Set) else _as_sequence(value) or ()
    return _NumberedHits(documents, [1] * len(documents))


HITS = (
    QueryShape("{document id: score}", _is_mapping, _number_mapping),
    QueryShape("[(document id, score), …]", _lists(_is_pair), _item_reader(0, 1)),
    QueryShape('[{"corpus_id": document id, "score": score}, …]', _lists(_is_hit), _item_reader("corpus_id", "score")),
    QueryShape("[document id, …], best first", _lists(is_id), _number_ranks),
)
"""Shapes of the hits of a query; an empty list has the first shape that takes it."""

JUDGED = (
    QueryShape("{document id: grade}", _is_mapping, _number_mapping),
    QueryShape("[(document id, grade), …]", _lists(_is_pair), _item_reader(0, 1)),
    QueryShape("[document id, …] or {document id, …}, each of grade 1", _are_ids, _number_relevant),
    QueryShape("document id, of grade 1", is_id, lambda value: _number_relevant([value])),
)
"""Shapes of the judgments of a query."""


def first_unfit(table: Mapping[Any, Any], shapes: Sequence[QueryShape]) -> str | None:
    """Return, in words, the first query of ``{query id: …}`` whose documents have none of the shapes, or None."""
    for query, inner in table.items():
        if not any(shape.matches(inner) for shape in shapes):
            return f"query {query!r} has {described(inner)}"
    return None


def run_from_dict(run: Mapping[Any, Any], *, by_score: bool = False) -> Run:
    """Return the run in ``{query id: hits}``; the engine's order is the order of the dictionaries and lists.

    Empty hits belong to a query whose search found nothing. Whole numbers as ids become text, scores become float32;
    NaN and infinite ones are refused when the run is scored.

    Args:
        run: hits of each query in one of the shapes of ``HITS``.
        by_score: take the order of the scores as the engine's, if the dictionaries' order means nothing.

    Raises:
        DataError: hits of another shape, a score that is not a number, an id that is neither text nor a whole number,
            or two query ids that are equal as text.
    """

    def build(queries: pa.ChunkedArray, documents: pa.ChunkedArray, scores: npt.NDArray[np.float64]) -> Run:
        return build_run(queries, documents, scores, -scores if by_score else None)

    return _build_from_dict("run", run, HITS, build)


def qrels_from_dict(qrels: Mapping[Any, Any]) -> Qrels:
    """Return the judgments in ``{query id: judgments}``; a query without any is left unjudged.

    Args:
        qrels: judgments of each query in one of the shapes of ``JUDGED``.

    Raises:
        DataError: as :func:`run_from_dict`, and for a grade that is not a whole number or a document judged twice.
    """
    return _build_from_dict("judgments", qrels, JUDGED, build_judgments)


def are_hits(value: object) -> bool:
    """Return whether ``value`` is a list of lists of ``{"corpus_id", "score"}``, one list a query."""
    return _lists(_lists(_is_hit))(value)


def _find_columns(row: object, names: FieldNames) -> tuple[Any, Any, Any] | None:
    """Return the keys of a row for query id, document id and number, or rank; None for another row."""
    if not isinstance(row, Mapping | tuple | list):
        return None
    fields = list(row) if isinstance(row, Mapping) else getattr(row, "_fields", None)
    if fields is None:
        return (0, 1, 2) if len(row) == 3 and is_id(row[0]) and is_id(row[1]) else None
    if names.problem(fields := [name for name in fields if isinstance(name, str)]) is not None:
        return None
    number = names.find_number(fields) or names.find_rank(fields)
    columns = [str(name) for name in (names.find_id("query_id", fields), names.find_id("doc_id", fields), number)]
    query, document, value = columns if isinstance(row, Mapping) else map(fields.index, columns)
    return query, document, value


def _grouped(source: str, rows: Sequence[Any], names: FieldNames) -> dict[Any, list[tuple[Any, Any]]]:
    """Return the (document id, number) pairs of each query, in the order of the rows."""
    grouped: dict[Any, list[tuple[Any, Any]]] = {}
    for position, row in enumerate(rows, 1):
        query, document, value = _find_columns(row, names) or (0, 1, 2)
        if not is_id(row[query]):
            problem = f"row {position}: the query id is {described(row[query])}, expected a string or a whole number"
            raise DataError(source, [problem])
        grouped.setdefault(row[query], []).append((row[document], row[value]))
    return grouped


def _build_from_dict(source: str, table: Mapping[Any, Any], shapes: Sequence[QueryShape], build: Build[Built]) -> Built:
    unfit = first_unfit(table, shapes)
    if unfit is not None:
        raise DataError(source, [unfit])
    parts = [next(shape for shape in shapes if shape.matches(inner)).read(inner) for inner in table.values()]
    try:
        lengths = np.fromiter((len(part.documents) for part in parts), np.int64, len(parts))
        stated = list(chain.from_iterable(part.values for part in parts))
        if not set(map(type, stated)) <= {int, float} and not all(map(is_number, stated)):
            raise TypeError  # NumPy makes numbers of None, truth values and text
        values = np.fromiter(stated, np.float64, len(stated))
        query_ids, documents = id_column(table), id_column(chain.from_iterable(part.documents for part in parts))
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        problems = list(_faults(table, parts)) or [str(error)]
        raise DataError(source, problems, fix="ids are strings or whole numbers, the rest are numbers") from error
    if len(query_ids.unique()) < len(table):
        twice = next(query for query in table if not isinstance(query, str) and str(query) in table)
        raise DataError(source, [f"query id {twice!r} occurs twice: as {type(twice).__name__} and as text"])
    codes = numbers(np.repeat(np.arange(len(parts), dtype=np.int32), lengths))
    queries = pa.DictionaryArray.from_arrays(codes, query_ids)
    return build(pa.chunked_array([queries]), pa.chunked_array([documents]), values)


def _faults(table: Mapping[Any, Any], parts: Sequence[_NumberedHits]) -> Iterator[str]:
    """Name ids and numbers of a wrong type; searched only if there is one."""
    for query, part in zip(table, parts, strict=True):
        if query == "":
            yield "a query id is empty"
        elif not is_id(query):
            yield f"the query id is {described(query)}, expected a string or a whole number"
        for document, value in zip(part.documents, part.values, strict=True):
            if document == "":
                yield f"query {query!r}: a document id is empty"
            elif not is_id(document):
                yield f"query {query!r}: a document id is {described(document)}, expected a string or a whole number"
            if not is_number(value):
                yield f"query {query!r}, document {document!r}: the value is {described(value)}, expected a number"


_ABOUT = "mteb_model_meta"


class PartOfFile(NamedTuple):
    """A file, and the selected run in it: the text after ``#``, empty without one."""

    path: Path
    fragment: str


def part_of_file(path: str | PathLike[str]) -> PartOfFile:
    """Return the file and the fragment of ``predictions.json#subset/split``; a file may have a ``#`` in its name."""
    file, mark, fragment = str(path).rpartition("#")
    if mark and not user_path(path).exists() and user_path(file).is_file():
        return PartOfFile(user_path(file), fragment)
    return PartOfFile(user_path(path), "")


def are_predictions(value: object) -> bool:
    """Return whether ``value`` is ``{subset: {split: {query id: {document id: score}}}}``."""
    if not isinstance(value, Mapping):
        return False
    subsets = [splits for subset, splits in value.items() if subset != _ABOUT]
    return _nested(subsets, 3) and any(subsets)


def _nested(values: Iterable[object], levels: int) -> bool:
    """Return whether all values are mappings of mappings …, this many levels deep."""
    return all(isinstance(value, Mapping) and (levels == 1 or _nested(value.values(), levels - 1)) for value in values)


def run_from_predictions(predictions: Mapping[str, Any], fragment: str = "", source: str = "the predictions") -> Run:
    """Return one of the runs in MTEB's predictions; they are stored in no order, so the scores' order is taken.

    Args:
        predictions: an object that :func:`are_predictions` accepts.
        fragment: ``subset/split``, or enough of it to identify the run.
        source: their origin, for messages.

    Raises:
        UsageError: none or several of the runs are meant.
        DataError: as :func:`harness.data.memory.run_from_dict` does.
    """
    runs = {
        (subset, split): run
        for subset, splits in predictions.items()
        if subset != _ABOUT
        for split, run in splits.items()
    }
    meant = [key for key in runs if fragment in ("", "/".join(key), *key)]
    if len(meant) != 1:
        keys = ", ".join("/".join(key) for key in runs)
        subset, split = (meant or list(runs))[0]
        problem = f"is no run '{fragment}'" if not meant else f"are {len(meant)} runs, and only one can be scored"
        how = f"name one after the path, as in FILE#{subset}/{split}, or give predictions[{subset!r}][{split!r}]"
        raise UsageError(f"{source}: there {problem}: {keys}", fix=how)
    return run_from_dict(runs[meant[0]], by_score=True)


class Shape(NamedTuple, Generic[Built]):
    """One shape: its notation, a test whether an object has it, and its reader.

    An object of a shape with ``keys`` has one of them; only then is it tested.
    """

    examples: tuple[str, ...]
    matches: Callable[[Any], bool]
    read: Callable[[Any], Built]
    keys: frozenset[str] = frozenset()


class InputShapes(NamedTuple, Generic[Built]):
    """Everything that is taken as a run, or as judgments; the first shape that matches reads it.

    ``subject`` begins messages, ``names`` are the names of columns, ``of_query`` the shapes of one query's documents.
    """

    subject: str
    names: FieldNames
    of_query: Sequence[QueryShape]
    shapes: tuple[Shape[Built], ...]


def _query_shape(shapes: Sequence[QueryShape], read: Callable[[Any], Built]) -> Shape[Built]:
    def matches(value: object) -> bool:
        return isinstance(value, Mapping) and first_unfit(value, shapes) is None

    return Shape(tuple(f"{{query id: {shape.example}}}" for shape in shapes), matches, read)


def _row_shape(source: str, names: FieldNames, read: Callable[[Any], Built]) -> Shape[Built]:
    """Take rows, one a hit or a judgment, such as ir_measures' ``ScoredDoc`` and ``Qrel``; their order is kept."""

    def matches(value: object) -> bool:
        return not hasattr(value, "_fields") and _lists(lambda row: _find_columns(row, names) is not None)(value)

    example = f"[(query id, document id, {names.role}), …], as dictionaries or named tuples (ir_measures) too"
    return Shape((example,), matches, lambda rows: read(_grouped(source, rows, names)))


def _ranked_rows_shape(names: FieldNames) -> Shape[Run]:
    """Take rows with ranks and without scores."""

    def matches(value: object) -> bool:
        rows = None if hasattr(value, "_fields") else _as_sequence(value)
        return bool(rows) and all(_is_ranked_row(row, names) for row in rows or ())

    def read(rows: Sequence[Mapping[str, Any]]) -> Run:
        table: dict[str, list[Any]] = {role: [] for role in ("query_id", "doc_id", "rank")}
        for row in rows:
            query, document, rank = _find_columns(row, names) or ("", "", "")
            for role, field in (("query_id", query), ("doc_id", document), ("rank", rank)):
                table[role].append(row[field])
        try:
            ranks = np.array(table["rank"], dtype=np.float64)
            queries, documents = (pa.chunked_array([id_column(table[role])]) for role in ("query_id", "doc_id"))
        except (TypeError, ValueError) as error:
            raise DataError("run", [str(error)], fix="ids are strings or whole numbers, ranks are numbers") from error
        return build_ranked_run(queries, documents, ranks)

    return Shape(('[{"query_id": …, "doc_id": …, "rank": …}, …], without scores',), matches, read)


def _is_ranked_row(row: object, names: FieldNames) -> bool:
    if not isinstance(row, Mapping) or _find_columns(row, names) is None:
        return False
    return names.find_number([name for name in row if isinstance(name, str)]) is None


def _table_shape(columns: str, names: FieldNames, read: Callable[[Any, FieldNames], Built]) -> Shape[Built]:
    def matches(value: object) -> bool:
        table = as_table(value)
        return table is not None and lacking(table, names) is None

    example = f"a pandas or Polars frame or an Arrow table, with columns {columns}"
    return Shape((example,), matches, lambda table: read(table, names))


def run_shapes(columns: Mapping[str, str] | None = None) -> InputShapes[Run]:
    """Return the shapes of a run as an object; ``columns`` are fields by role, for names that differ from the usual."""
    names = FieldNames.of_run(columns)
    return InputShapes(
        "the run is",
        names,
        HITS,
        (
            Shape(
                ("{subset: {split: {query id: {document id: score}}}}, MTEB's predictions",),
                are_predictions,  # before other dictionaries, which they are too
                run_from_predictions,
            ),
            _query_shape(HITS, run_from_dict),
            Shape(
                ('[[{"corpus_id": document id, "score": score}, …], …], lists by query (sentence-transformers)',),
                are_hits,
                lambda hits: run_from_dict(dict(enumerate(hits))),
            ),
            _ranked_rows_shape(names),
            _row_shape("run", names, run_from_dict),
            _table_shape(
                "query_id, doc_id, score (ir_measures), qid, docno, score (PyTerrier) or q_id, doc_id, score (ranx)",
                names,
                run_from_frame,
            ),
        ),
    )


def judgment_shapes(columns: Mapping[str, str] | None = None) -> InputShapes[Qrels]:
    """Return the shapes of judgments as an object; ``columns`` are fields by role, as for :func:`run_shapes`."""
    names = FieldNames.of_judgments(columns)
    return InputShapes(
        "the judgments are",
        names,
        JUDGED,
        (
            *(_export_shape(export, columns or {}) for export in EXPORTS),
            _query_shape(JUDGED, qrels_from_dict),
            _row_shape("judgments", names, qrels_from_dict),
            _table_shape(
                "query_id, doc_id, relevance (ir_measures), qid, docno, label (PyTerrier), q_id, doc_id, score (ranx) "
                "or query, docid, rating (Quepid)",
                names,
                qrels_from_frame,
            ),
        ),
    )


def _export_shape(export: Export, columns: Mapping[str, str]) -> Shape[Qrels]:
    def read(value: Any) -> Qrels:
        notes = list[str]()
        return replace(qrels_from_dict(export.judgments(value, columns.get("query_id"), notes)), notes=tuple(notes))

    return Shape((f"{export.example}, {export.used_by}",), export.matches, read, export.keys)


RUNS = run_shapes()
"""Shapes of a run as an object."""
QRELS = judgment_shapes()
"""Shapes of judgments as an object."""


def read_shape(value: object, accepted: InputShapes[Built]) -> Built:
    """Return the run or the judgments that an object holds.

    Raises:
        UsageError: the object has none of the shapes; all of them are listed.
        DataError: an id, a score or a grade in it is wrong.
    """
    table = as_table(value)  # a stream is read once
    value = value if table is None else table
    if isinstance(value, Mapping) and any(isinstance(inner, Iterator | MappingView) for inner in value.values()):
        value = {query: _once(inner) for query, inner in value.items()}
    shape = find_shape(value, accepted)
    if shape is None:
        raise UsageError(f"{accepted.subject} {described_shape(value, accepted)}", fix=examples_of(accepted))
    return shape.read(value)


def find_shape(value: object, accepted: InputShapes[Built]) -> Shape[Built] | None:
    """Return the first shape that an object has; None if it has none of them."""
    keys = value if isinstance(value, Mapping) else ()
    candidates = (shape for shape in accepted.shapes if not shape.keys or any(key in keys for key in shape.keys))
    return next((shape for shape in candidates if shape.matches(value)), None)


def _once(value: object) -> object:
    return list(cast("Iterable[object]", value)) if isinstance(value, Iterator | MappingView) else value


def described_shape(value: object, accepted: InputShapes[Any]) -> str:
    """Return the kind of an object with no known shape, in words, and its first deviation from them."""
    table = as_table(value)
    if table is not None:
        return str(lacking(table, accepted.names))
    if isinstance(value, Mapping):
        return f"a {type(value).__name__} in which {first_unfit(value, accepted.of_query)}"
    if isinstance(value, Iterator):
        return f"{described(value)}, which can be read once only: make a list of it"
    return described(value)


def examples_of(accepted: InputShapes[Any]) -> str:
    """Return the list of all shapes, one per line, as the advice of a message."""
    lines = [f"\n    {example}" for shape in accepted.shapes for example in shape.examples]
    return f"taken are:{''.join(lines)}"
