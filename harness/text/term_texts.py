"""Analysed terms as texts, for engines that weigh terms themselves: every such engine sees the same terms.

A text has each term of a document (or query) as often as it occurs, joined by single spaces, in the order of the
vocabulary. Positions are lost: BM25 does not read them. Query terms that no document has are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import numbers, strings
from harness.data.inputs import records_of
from harness.data.types import Ids, Int32Array, SparseVectors, TermCounts, offsets_of
from harness.store.columns import load_table
from harness.text.field_counts import of_field

Side = Literal["documents", "queries"]
_ROWS_PER_BLOCK = 10_000
_NUMBERED = "zz"
_PLAIN_TERM = re.compile(r"(?!zz)[a-z0-9]{1,32}")
_TEXT = "text"


def tokens_of(vocabulary: Ids) -> list[str]:
    """Return each term in a form that any tokenizer keeps whole: small ASCII letters and digits, 32 at most.

    Most English terms are that form. Another one becomes ``zz`` and its number in the vocabulary.
    """
    terms = vocabulary.values.to_pylist()
    return [term if _PLAIN_TERM.fullmatch(term) else f"{_NUMBERED}{position}" for position, term in enumerate(terms)]


def term_texts(counts: TermCounts, side: Side) -> pa.ChunkedArray:
    """Return the texts of documents or of queries, an Arrow string column; "" for one without terms."""
    tokens = strings(tokens_of(counts.vocabulary))
    rows = counts.documents if side == "documents" else counts.queries
    starts = range(0, len(rows), _ROWS_PER_BLOCK)
    return pa.chunked_array(
        [_joined(rows.slice(start, start + _ROWS_PER_BLOCK), tokens) for start in starts], pa.string()
    )


def save_term_texts(folder: Path, counts: TermCounts, fields: Sequence[str] = ()) -> None:
    """Write the texts of both sides into an existing folder, a part at a time; see :func:`load_term_texts`.

    ``fields`` are the names of the fields of the documents, empty for documents that are one text.
    """
    if fields:
        _save_field_texts(folder, counts, fields)
        return
    tokens = strings(tokens_of(counts.vocabulary))
    for name, rows in (("documents", counts.documents), ("queries", counts.queries)):
        _save(folder, name, {"": rows}, tokens)


def _save_field_texts(folder: Path, counts: TermCounts, fields: Sequence[str]) -> None:
    """Write a text for each field of documents, and one text for each query, whose terms are those of every field."""
    vocabulary = counts.vocabulary.values.slice(0, counts.terms_per_field).to_pylist()
    tokens = strings(tokens_of(Ids.of(term.removeprefix(f"{fields[0]}:") for term in vocabulary)))
    columns = {name: of_field(counts.documents, len(fields), number) for number, name in enumerate(fields)}
    _save(folder, "documents", columns, tokens)
    _save(folder, "queries", {"": of_field(counts.queries, len(fields), 0)}, tokens)


def _save(folder: Path, side: str, columns: Mapping[str, SparseVectors], tokens: pa.StringArray) -> None:
    """Write the texts of one side: a string of each row, or a record with a string for each field; "" is no field."""
    fields = [(name, pa.string()) for name in columns]
    schema = pa.schema([(_TEXT, pa.string() if "" in columns else pa.struct(fields))])
    rows = len(next(iter(columns.values())))
    with pa.OSFile(str(term_texts_file(folder, side)), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for start in range(0, rows, _ROWS_PER_BLOCK):
            parts = {
                name: _joined(part.slice(start, min(start + _ROWS_PER_BLOCK, rows)), tokens)
                for name, part in columns.items()
            }
            texts = parts[""] if "" in parts else records_of({name: pa.chunked_array([p]) for name, p in parts.items()})
            writer.write_table(pa.table([texts], schema=schema))


def load_term_texts(folder: Path, side: Side) -> pa.ChunkedArray:
    """Memory-map the files of :func:`save_term_texts`; raises CacheError when they are missing or damaged.

    The documents of several fields are a column of records, with a text for each field.
    """
    return load_table(term_texts_file(folder, side)).column(_TEXT)


def term_texts_file(folder: Path, side: str) -> Path:
    """Return the Arrow file of one side, whose column is ``text``."""
    return folder / f"{side}.terms.arrow"


def _joined(rows: SparseVectors, tokens: pa.Array) -> pa.Array:
    """Return the text of each row of counts."""
    counts = np.asarray(rows.values).astype(np.int64)
    repeated: Int32Array = np.repeat(np.asarray(rows.indices), counts)
    ends = offsets_of(counts)[np.asarray(rows.indptr) - rows.indptr[0]]
    lists = pa.ListArray.from_arrays(numbers(ends.astype(np.int32)), tokens.take(numbers(repeated)))
    return pc.binary_join(lists, " ")
