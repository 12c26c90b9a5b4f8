"""Exact search of a corpus in parts: a job finds the best of some rows, and the best of all rows are among these.

Scores are made of global statistics, which are in the weights already, so the parts change no bit of the result.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.data import ranking
from harness.data.progress import CombinedProgress, Display, Progress
from harness.data.types import Float32Array, Int32Array, Int64Array, UInt32Array
from harness.exact import DenseIndex, LuceneIndex, SparseIndex, TopK
from harness.exact.float32_sums import Float32SumIndex
from harness.exact.topk import tie_order
from harness.store.columns import load_column, save_column
from harness.store.record_files import load, save
from harness.wording import counted
from harness.worker.executor import Executor, side_by_side
from harness.worker.jobs import DenseSearchJob, SparseSearchJob

_LEAST_ROWS = 100_000
"""Fewer are found sooner than a job has started."""
_TOGETHER = 1024
"""Queries between two messages of progress."""


class DividedSearch:
    """Searches a corpus in as many jobs at once as an executor runs."""

    def __init__(self, executor: Executor, work: Path, display: Display) -> None:
        """``work`` is a folder for the jobs, gone after the last search."""
        self._executor, self._work, self._display = executor, work, display

    def bounds(self, documents: int) -> list[int]:
        """Return the rows at which the parts of so many documents begin, and where the last one ends."""
        count = max(1, min(self._executor.slots(), documents // _LEAST_ROWS))
        bounds: list[int] = np.linspace(0, documents, count + 1).astype(int).tolist()
        return bounds

    def divides(self, documents: int) -> bool:
        """Tell whether there are enough jobs and documents to divide a search."""
        return len(self.bounds(documents)) > 2

    def retrieve_sparse(self, whole: SparseSearchJob) -> TopK:
        """Return the best of all documents of a search; raises what a job raises."""

        def part_of(start: int, stop: int) -> SparseSearchJob:
            rows = slice(start, stop)
            matching = None if whole.matching is None else whole.matching[rows]
            documents, ties = whole.documents.slice(start, stop), whole.tie_break[rows]
            return replace(whole, documents=documents, tie_break=ties, matching=matching)

        return self._retrieve(part_of, len(whole.documents), len(whole.queries), whole.tie_break, whole.k)

    def retrieve_dense(self, documents: Float32Array, whole: DenseSearchJob) -> TopK:
        """Return the best of all ``documents`` of a search, whose file is filled in; raises what a job raises."""
        with self._folder("vectors-") as folder:
            vectors = _file_of(documents)
            if vectors is None:
                vectors = folder / "documents.npy"
                save_column(vectors, documents)

            def part_of(start: int, stop: int) -> DenseSearchJob:
                rows = slice(start, stop)
                matching = None if whole.matching is None else whole.matching[rows]
                ties = whole.tie_break[rows]
                return replace(whole, vectors=vectors, start=start, stop=stop, tie_break=ties, matching=matching)

            return self._retrieve(part_of, len(documents), len(whole.queries), whole.tie_break, whole.k)

    def _retrieve(
        self, part_of: Callable[[int, int], object], documents: int, queries: int, tie_break: UInt32Array, k: int
    ) -> TopK:
        """Search the parts of so many documents, and rank what they found together."""
        bounds = self.bounds(documents)
        count = len(bounds) - 1
        phase = f"exact reference in {counted(count, 'job')}"
        progress = CombinedProgress(self._display.section("reference"), phase, count * queries)

        def run(rows: tuple[int, int]) -> TopK:
            with self._folder("search-") as folder:
                save(folder, part_of(*rows))
                self._executor.run(folder, progress)
                top = load(folder, TopK)
                # in memory: its files go with the folder
                return TopK(np.array(top.indptr), np.array(top.rows), np.array(top.scores))

        tops = side_by_side(run, list(itertools.pairwise(bounds)), jobs=count)
        return _merged(tops, bounds[:-1], tie_break, k)

    @contextmanager
    def _folder(self, prefix: str) -> Iterator[Path]:
        """Make a folder that is removed afterwards; a node that was given up may still write into it."""
        with tempfile.TemporaryDirectory(prefix=prefix, dir=self._work, ignore_cleanup_errors=True) as folder:
            yield Path(folder)


def _file_of(array: Float32Array) -> Path | None:
    """Return the ``.npy`` file that holds exactly this array, None for one in memory or a part of a file's."""
    if not isinstance(array, np.memmap) or array.filename is None:
        return None
    path = Path(array.filename)
    whole = load_column(path)
    same = whole.shape == array.shape and whole.dtype == array.dtype and array.flags.c_contiguous
    return path if same else None


def _merged(parts: Sequence[TopK], starts: Sequence[int], tie_break: UInt32Array, k: int) -> TopK:
    """Return the best ``k`` of the hits of all parts, whose rows begin at ``starts``; ties by rows of the whole."""
    count = len(parts[0].indptr) - 1
    queries = np.concatenate([np.repeat(np.arange(count, dtype=np.uint32), np.diff(part.indptr)) for part in parts])
    rows = np.concatenate([part.rows + np.int32(start) for part, start in zip(parts, starts, strict=True)])
    scores = np.concatenate([part.scores for part in parts])
    kept = ranking.best(queries, scores, tie_break[rows], k)
    indptr = np.searchsorted(queries[kept], np.arange(count + 1)).astype(np.int64)
    return TopK(indptr, rows[kept], scores[kept])


def search(job: SparseSearchJob | DenseSearchJob, progress: Progress) -> TopK:
    """Run a job, whose unit of progress is a query; raises as the index of its kind."""
    progress.start("exact search", len(job.queries))
    retrieve = _dense_search(job) if isinstance(job, DenseSearchJob) else _sparse_search(job)
    tops = [TopK(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))]
    for start in range(0, len(job.queries), _TOGETHER):
        stop = min(start + _TOGETHER, len(job.queries))
        tops.append(retrieve(start, stop))
        progress.advance(stop - start)
    lengths = np.concatenate([np.zeros(1, dtype=np.int64), *(np.diff(top.indptr) for top in tops)])
    return TopK(
        np.cumsum(lengths, dtype=np.int64),
        np.concatenate([top.rows for top in tops]),
        np.concatenate([top.scores for top in tops]),
    )


def _dense_search(job: DenseSearchJob) -> Callable[[int, int], TopK]:
    """Return the search of queries from one number up to another."""
    whole = DenseIndex.build(load_column(job.vectors)[job.start : job.stop], tie_break=job.tie_break)
    index = whole if job.matching is None else whole.filtered(job.matching)
    return lambda start, stop: index.retrieve(job.queries[start:stop], job.k, similarity=job.similarity)


def _sparse_search(job: SparseSearchJob) -> Callable[[int, int], TopK]:
    """Return the search of queries from one number up to another."""
    index = _index(job)
    searched = index if job.matching is None else index.filtered(job.matching)
    return lambda start, stop: searched.retrieve(job.queries.slice(start, stop), job.k)


def score_rows(whole: SparseSearchJob, indptr: Int64Array, rows: Int32Array) -> Float32Array:
    """Return the exact scores of listed documents (float32 (H,)), reading no others; see :meth:`SparseIndex.score`."""
    distinct, places = np.unique(rows, return_inverse=True)
    part = replace(whole, documents=whole.documents.take(distinct), tie_break=whole.tie_break[distinct])
    return _index(part).score(whole.queries, indptr, places.astype(np.int32))


def _index(job: SparseSearchJob) -> SparseIndex | LuceneIndex | Float32SumIndex:
    match job.arithmetic:
        case "textbook":
            return SparseIndex.build(job.documents, tie_break=job.tie_break)
        case "lucene":
            return LuceneIndex.of_weights(job.documents, tie_order(job.tie_break, len(job.documents)))
        case "float32":
            return Float32SumIndex.build(job.documents, job.absent)
