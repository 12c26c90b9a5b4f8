"""Precomputed vectors in JSON Lines, as Anserini's collections have them.

A line is ``{"id": "d1", "vector": {"term": 12.5}}``, or has a list of numbers as its vector; other fields are not read.
Terms that are all whole numbers are columns. Otherwise the terms of documents and queries together are, in ascending
order, so that both files need each other.
"""

from __future__ import annotations

import gzip
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import orjson

from harness.data.problems import Problems
from harness.data.python_values import as_id
from harness.data.types import Float32Array, Float64Array, Ids, Int64Array, SparseVectors, offsets_of
from harness.errors import DataError
from harness.exact.postings import as_sparse
from harness.store.decompression import READ_ERRORS, unpacked

SUFFIXES = (".jsonl", ".jsonl.gz")
_IDS = ("id", "docid", "_id", "qid", "query_id")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_EXAMPLE = '{"id": "d1", "vector": {"term": 1.5}}'


class _Vectors(NamedTuple):
    """Ids, the number of values of each vector, the values, and a code of each value's term; no terms if dense.

    ``terms`` are the terms by code, ascending from 0; ``kinds`` are the types of vectors: objects or lists.
    """

    ids: list[str]
    lengths: list[int]
    values: array[float]
    codes: array[int]
    terms: dict[str, int]
    kinds: set[type]


def read_json_vectors(file: Path, other: Path | None) -> tuple[Ids, SparseVectors | Float32Array]:
    """Return ids and vectors: sparse of terms, or dense of lists.

    Args:
        file: the file of one role.
        other: the file of the other role, whose terms have columns too; None without such a file.

    Raises:
        DataError: every faulty line; and terms that are words, without the other role's file.
    """
    vectors = _read(file)
    ids = Ids.of(vectors.ids)
    values = np.frombuffer(vectors.values, dtype=np.float64)
    if list in vectors.kinds:
        return ids, _dense(file, vectors.lengths, values)
    from scipy.sparse import csr_array

    columns, width = _columns(file, vectors.terms, other)
    indices = columns[np.frombuffer(vectors.codes, dtype=np.int64)]
    matrix = csr_array((values, indices, offsets_of(np.array(vectors.lengths))), shape=(len(ids), width))
    return ids, as_sparse(matrix, str(file))


def terms_of_files(files: Iterable[Path]) -> list[str]:
    """Return the terms of the columns of files that belong together; none if the terms are the columns' numbers."""
    return _words({term for file in files for term in _read(file).terms})


def _words(terms: set[str]) -> list[str]:
    """Return terms in the order of their columns; none if they are numbers."""
    return [] if all(map(_NUMBER.fullmatch, terms)) else sorted(terms)


def _read(file: Path) -> _Vectors:
    vectors, problems = _Vectors([], [], array("d"), array("q"), {}, set()), Problems(str(file))
    for number, record in _records(file, problems):
        name = next((key for key in _IDS if key in record), None)
        vector_id = None if name is None else as_id(record[name])
        vector = record.get("vector")
        if not vector_id or not isinstance(vector, dict | list):
            problems.add_once(number, f"an id and a vector are expected, as {_EXAMPLE}")
            continue
        weights = vector.values() if isinstance(vector, dict) else vector
        if not all(isinstance(weight, int | float) and not isinstance(weight, bool) for weight in weights):
            problems.add(number, f"the vector of '{vector_id}' holds a value that is not a number")
            continue
        vectors.kinds.add(type(vector))
        if len(vectors.kinds) > 1:
            problems.add_once(number, "vectors of terms and lists of numbers are mixed")
            continue
        vectors.ids.append(vector_id)
        vectors.lengths.append(len(vector))
        vectors.values.extend(map(float, weights))
        if isinstance(vector, dict):
            vectors.codes.extend(vectors.terms.setdefault(term, len(vectors.terms)) for term in vector)
    if not vectors.ids and not problems.count:
        problems.add(None, "the file holds no vectors")
    problems.raise_if_any()
    return vectors


def _records(file: Path, problems: Problems) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the object of each line that is not blank, with its number; other lines are noted."""
    with file.open("rb") as raw:
        stream = cast("BinaryIO", raw)
        if file.suffix == ".gz":
            stream = unpacked(cast("BinaryIO", gzip.GzipFile(fileobj=raw)), str(file), file.stat().st_size)
        try:
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                try:
                    record = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
                except orjson.JSONDecodeError as error:
                    problems.add(number, f"malformed JSON: {error.msg} in column {error.colno}")
                    continue
                if isinstance(record, dict):
                    yield number, record
                else:
                    problems.add_once(number, f"an object is expected, as {_EXAMPLE}")
        except READ_ERRORS as error:
            problems.add(None, f"cannot be read further: {error}")


def _dense(file: Path, lengths: list[int], values: Float64Array) -> Float32Array:
    if len(set(lengths)) > 1:
        dimensions = ", ".join(map(str, sorted(set(lengths))[:5]))
        raise DataError(str(file), [f"vectors of {dimensions} dimensions"], fix="all need the same")
    dense: Float32Array = values.astype(np.float32).reshape(len(lengths), -1)
    return dense


def _columns(file: Path, terms: Mapping[str, int], other: Path | None) -> tuple[Int64Array, int]:
    """Return the column of each term's code, and the number of columns."""
    all_terms = set(terms)
    if other is not None:
        all_terms |= _read(other).terms.keys()
    words = _words(all_terms)
    if all_terms and not words:
        numbers = np.array([int(term) for term in terms], dtype=np.int64)
        return numbers, max(map(int, all_terms)) + 1
    if other is None and all_terms:
        problem = "the terms are words, and without a file of the other role the columns that they share are not known"
        raise DataError(str(file), [problem], fix="write documents.jsonl and queries.jsonl, or whole numbers as terms")
    column_of = {term: column for column, term in enumerate(words)}
    return np.array([column_of[term] for term in terms], dtype=np.int64), len(column_of)
