"""Analysed terms as texts, for engines that weigh terms themselves: every such engine sees the same terms.

A text has each term of a document (or query) as often as it occurs, joined by single spaces, in the order of the
vocabulary. Positions are lost: BM25 does not read them. Query terms that no document has are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import numbers, strings
from harness.data.types import Ids, Int32Array, SparseVectors, TermCounts, offsets_of
from harness.store.columns import load_table

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


def save_term_texts(folder: Path, counts: TermCounts) -> None:
    """Write the texts of both sides into an existing folder, a part at a time; see :func:`load_term_texts`."""
    tokens = strings(tokens_of(counts.vocabulary))
    schema = pa.schema([(_TEXT, pa.string())])
    for name, rows in (("documents", counts.documents), ("queries", counts.queries)):
        path = term_texts_file(folder, name)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for start in range(0, len(rows), _ROWS_PER_BLOCK):
                part = _joined(rows.slice(start, start + _ROWS_PER_BLOCK), tokens)
                writer.write_table(pa.table([part], schema=schema))


def load_term_texts(folder: Path, side: Side) -> pa.ChunkedArray:
    """Memory-map the files of :func:`save_term_texts`; raises CacheError when they are missing or damaged."""
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
