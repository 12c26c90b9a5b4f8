"""Exact search of a corpus in parts, one job each: the best of all rows are among the best of the parts."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from harness.data.progress import CombinedProgress, Display
from harness.data.types import Float32Array
from harness.exact import TopK
from harness.store.columns import load_column, save_column
from harness.store.record_files import load, save
from harness.wording import counted
from harness.worker.exact_search import SparseSearch, merged
from harness.worker.executor import Executor
from harness.worker.jobs import DenseSearchJob
from harness.worker.threads import side_by_side

_LEAST_ROWS = 100_000
"""Fewer are found sooner than a job has started."""


class DividedSearch:
    """Searches a corpus in as many jobs at once as an executor runs."""

    def __init__(self, executor: Executor, work: Path, display: Display) -> None:
        """``work`` is a folder for the jobs, deleted after the last search."""
        self._executor, self._work, self._display = executor, work, display
        self._saving = threading.Lock()

    def bounds(self, documents: int) -> list[int]:
        """Return the rows at which the parts of N documents begin, and the row where the last part ends."""
        count = max(1, min(self._executor.slots(), documents // _LEAST_ROWS))
        bounds: list[int] = np.linspace(0, documents, count + 1).astype(int).tolist()
        return bounds

    def divides(self, documents: int) -> bool:
        """Return whether there are enough jobs and documents to divide a search."""
        return len(self.bounds(documents)) > 2

    def retrieve(self, job: SparseSearch | DenseSearchJob) -> TopK:
        """Return the best of all documents of a search; raises the jobs' exceptions."""
        bounds = self.bounds(len(job.tie_break))
        count = len(bounds) - 1
        phase = f"exact reference in {counted(count, 'job')}"
        progress = CombinedProgress(self._display.section("reference"), phase, count * len(job.queries))

        def run(rows: tuple[int, int]) -> TopK:
            with self._folder() as folder:
                with self._saving:  # only one part's weights at a time are in memory
                    save(folder, job.of_rows(*rows))
                self._executor.run(folder, progress)
                top = load(folder, TopK)
                # in memory: its files go with the folder
                return TopK(np.array(top.indptr), np.array(top.rows), np.array(top.scores))

        tops = side_by_side(run, list(itertools.pairwise(bounds)), jobs=count)
        return merged(tops, bounds[:-1], job.tie_break, job.k)

    @contextmanager
    def file_of(self, vectors: Float32Array) -> Iterator[Path]:
        """Yield a ``.npy`` file of exactly these vectors: an existing file, or one that is deleted after the block."""
        if isinstance(vectors, np.memmap) and vectors.filename is not None and vectors.flags.c_contiguous:
            path = Path(vectors.filename)
            column = load_column(path)
            if column.shape == vectors.shape and column.dtype == vectors.dtype:
                yield path
                return
        with self._folder() as folder:
            save_column(folder / "documents.npy", vectors)
            yield folder / "documents.npy"

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """Make a folder that is removed afterwards; a node that was given up may still write into it."""
        with tempfile.TemporaryDirectory(prefix="search-", dir=self._work, ignore_cleanup_errors=True) as folder:
            yield Path(folder)
