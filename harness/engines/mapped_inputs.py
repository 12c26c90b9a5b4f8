"""Documents and queries as engines get them: columns of files, memory-mapped and read-only.

Workers read files that the parent wrote. The contract suite also writes its samples to files and reads them here, so
that an engine gets the same kind of arrays as in a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.data.inputs import Inputs, records_of
from harness.data.types import Ids, Int32Array, SparseVectors, TermCounts
from harness.engines.interface import ExpectedContent
from harness.exact.encoding import widen
from harness.registry.field_weights import parse_fields
from harness.store.columns import load_table, load_vectors
from harness.text.term_texts import Side, load_term_texts


def load_inputs(
    table: Path,
    vectors: Sequence[Path],
    name: Side,
    *,
    dimensions: int = 0,
    term_texts: Path | None = None,
    metadata: Path | None = None,
) -> Inputs:
    """Memory-map documents or queries.

    Args:
        table: Arrow file with columns id and text.
        vectors: Folders of their vectors, empty for engines that read text.
        name: Name of their vectors in the folders, for documents or for queries.
        dimensions: Minimum number of columns of sparse vectors.
        term_texts: Folder of their analysed terms as texts.
        metadata: Arrow file with the fields to filter by, a row for each document.

    Raises:
        CacheError: A file is missing or damaged.
    """
    columns = load_table(table)
    inputs = Inputs(Ids(columns.column("id").combine_chunks()), columns.column("text"))
    for folder in vectors:
        stored = load_vectors(folder, name)
        if isinstance(stored, SparseVectors):
            inputs = replace(inputs, sparse=stored if stored.dimensions >= dimensions else widen(stored, dimensions))
        else:
            inputs = replace(inputs, dense=stored)
    if term_texts is not None:
        inputs = replace(inputs, terms=load_term_texts(term_texts, name))
    return inputs if metadata is None else replace(inputs, metadata=load_table(metadata))


def with_fields(documents: Inputs, file: Path, fields: str) -> Inputs:
    """Return documents whose texts are a column of records, with a text for each of the ``fields`` in their order.

    ``file`` is an Arrow file with a column of each. Raises CacheError if it is missing or damaged.
    """
    table, names = load_table(file), [field.name for field in parse_fields(fields)]
    return replace(documents, texts=records_of({name: table.column(name) for name in names}))


def expected_content(rows: Int32Array, documents: Inputs, queries: Inputs, terms: TermCounts | None) -> ExpectedContent:
    """Return the content of an external index if it was made from a dataset.

    Args:
        rows: The dataset's row of each document of the index (int32), -1 if the dataset lacks it. documents: Documents
            of the dataset. queries: All queries.
        terms: The analyzer's counts of both; None for a backend without an encoder.
    """
    shared = np.flatnonzero(rows >= 0).astype(np.int32)
    chosen = rows[shared]
    return ExpectedContent(
        rows=shared,
        documents=documents.take(chosen),
        queries=queries,
        terms=None if terms is None else terms.of_documents(chosen),
    )
