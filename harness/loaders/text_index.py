"""Which documents have a text, and which texts repeat: a sorted index of hashes, made once for a corpus.

Texts are compared without outer white space. A hash is the first 64 bits of a SHA-256: among a million texts two
different ones share it in 1 of 37 million collections.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import strings
from harness.data.types import Corpus, Int32Array, Int64Array
from harness.store.cache import Cache
from harness.store.columns import load_column, reserved_column

_SCHEME = 1
_HASHES, _ROWS = "hashes.npy", "rows.npy"
_BATCH = 8192
_HASHES_PER_SORT = 2_000_000
_WORTH_KEEPING = 10_000
"""Fewer documents are hashed faster than a cache entry is written."""

_Hashes = npt.NDArray[np.uint64]


class RepeatedTexts(NamedTuple):
    """Documents that are not empty and have the same text as another document, ascending by ``rows``; all int64, "
    "shape (r,).

    ``group`` numbers the texts, ``size`` says how many documents have a document's text.
    """

    rows: Int64Array
    group: Int64Array
    size: Int64Array


class TextIndex(NamedTuple):
    """Hashes of a corpus' texts, ascending (uint64, (n,)), and the document of each (int32, (n,)); ascending in a tie.

    Both may be memory-mapped.
    """

    hashes: _Hashes
    rows: Int32Array

    def rows_of(self, hashes: _Hashes) -> list[Int64Array]:
        """Return, for each hash given, the rows of the documents that have it, ascending."""
        first, end = (np.searchsorted(self.hashes, hashes, side=side) for side in ("left", "right"))
        return [self.rows[a:b].astype(np.int64) for a, b in zip(first.tolist(), end.tolist(), strict=True)]

    def repeated(self) -> RepeatedTexts:
        """Return the documents with the text of another one; empty texts are left out."""
        same = np.flatnonzero(self.hashes[1:] == self.hashes[:-1])
        same = same[self.hashes[same] != hashes_of([""])[0]]
        positions = np.union1d(same, same + 1)
        _, group, sizes = np.unique(self.hashes[positions], return_inverse=True, return_counts=True)
        rows = self.rows[positions].astype(np.int64)
        order = np.argsort(rows)
        return RepeatedTexts(rows[order], group[order].astype(np.int64), sizes[group][order].astype(np.int64))


def index_of(corpus: Corpus, cache: Cache | None = None, *, about: str = "") -> TextIndex:
    """Return the index of a corpus, from ``cache`` if the same documents were indexed before.

    Building takes 8 bytes of memory a document and 80 MB, with a cache; data read from it is mapped. Small corpora and
    corpora without a cache are indexed in memory. ``about`` names the documents in lists of the cache.
    """
    count = len(corpus)
    if cache is None or count < _WORTH_KEEPING:
        index = TextIndex(np.empty(count, np.uint64), np.empty(count, np.int32))
        _fill(index, corpus.texts)
        return index

    def build(folder: Path) -> None:
        hashes = reserved_column(folder / _HASHES, np.dtype(np.uint64), count)
        rows = reserved_column(folder / _ROWS, np.dtype(np.int32), count)
        _fill(TextIndex(hashes, rows), corpus.texts)
        hashes.flush()
        rows.flush()

    entry = cache.get_or_build("text-index", {"scheme": _SCHEME, "corpus": corpus.digest}, build, about=about)
    return TextIndex(load_column(entry / _HASHES), load_column(entry / _ROWS))


def hashes_of(texts: pa.ChunkedArray | Iterable[str]) -> _Hashes:
    """Return the hash of each text without outer white space: uint64, shape (n,)."""
    column = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([strings(texts)])
    hashes = np.empty(len(column), np.uint64)
    for start in range(0, len(column), _BATCH):
        part = [_hashed(chunk) for chunk in pc.utf8_trim_whitespace(column.slice(start, _BATCH)).chunks]
        hashes[start : start + _BATCH] = np.frombuffer(b"".join(part), "<u8")
    return hashes


def _hashed(texts: pa.StringArray) -> bytes:
    """Return 8 bytes a text, read from the column's own buffers: no Python string is made."""
    _, offsets, content = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].tolist()
    buffer, sha = memoryview(content or b""), hashlib.sha256
    return b"".join([sha(buffer[a:b]).digest()[:8] for a, b in pairwise(ends)])


def _fill(index: TextIndex, texts: pa.ChunkedArray) -> None:
    """Sort hashes and rows into the arrays of ``index``, a range of hashes at a time: ranges are of equal width."""
    hashes = hashes_of(texts)
    parts = -(-len(hashes) // _HASHES_PER_SORT)
    done = 0
    for part in range(parts):
        low, high = part * 2**64 // parts, (part + 1) * 2**64 // parts - 1
        rows = np.flatnonzero((hashes >= np.uint64(low)) & (hashes <= np.uint64(high)))
        rows = rows[np.argsort(hashes[rows], kind="stable")]
        index.hashes[done : done + len(rows)] = hashes[rows]
        index.rows[done : done + len(rows)] = rows
        done += len(rows)
