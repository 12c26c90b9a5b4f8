"""Samples of the contract suite in the form of a comparison's documents and queries: memory-mapped files."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from harness.data.arrow import strings
from harness.data.inputs import Inputs
from harness.data.types import TermCounts
from harness.engines.mapped_inputs import load_inputs
from harness.store.columns import save_column, save_sparse, save_table
from harness.text.counting import load_counts, save_counts
from harness.text.term_texts import Side, term_texts_file

_NAME: Side = "documents"
"""The name of the columns in their files; queries do not differ otherwise."""


def mapped(inputs: Inputs) -> Inputs:
    """Return the inputs as read by a worker: read-only arrays of memory-mapped files, and always texts.

    The files are deleted again; if the system allows that, the memory stays until the arrays are dropped.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        texts = inputs.texts if inputs.texts is not None else strings([""] * len(inputs))
        save_table(folder / "table.arrow", pa.table({"id": inputs.ids.values, "text": texts}))
        vectors = []
        if inputs.sparse is not None:
            vectors.append(_new(folder / "sparse"))
            save_sparse(vectors[-1], _NAME, inputs.sparse)
        if inputs.dense is not None:
            vectors.append(_new(folder / "dense"))
            save_column(vectors[-1] / f"{_NAME}.npy", inputs.dense)
        terms, metadata = inputs.terms, inputs.metadata
        if terms is not None:
            save_table(term_texts_file(folder, _NAME), pa.table({"text": terms}))
        if metadata is not None:
            save_table(folder / "metadata.arrow", metadata)
        return load_inputs(
            folder / "table.arrow",
            vectors,
            _NAME,
            term_texts=None if terms is None else folder,
            metadata=None if metadata is None else folder / "metadata.arrow",
        )


def mapped_counts(counts: TermCounts) -> TermCounts:
    """Return counts of terms as read by a worker."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        save_counts(Path(name), counts)
        return load_counts(Path(name))


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder
