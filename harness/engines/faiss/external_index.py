"""Users' FAISS files: document ids, stored vectors, and a comparison with the encoder's vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array, Ids, Int32Array, Int64Array
from harness.engines.external_index import (
    DocumentSample,
    ExternalRows,
    read_ids,
    require_similarity,
    source_folder,
    spread_rows,
    unique_ids,
)
from harness.engines.faiss.structure import components, exact_vectors, load_library, with_direct_map
from harness.engines.interface import ExpectedContent
from harness.errors import EngineUnavailableError, IndexChangedError, RejectedInputError
from harness.registry.parameters import ParameterValue
from harness.user_path import user_path

__all__ = ["ExternalVectors"]

_PAGE = 4096
_FILE, _IDS = "index.faiss", "ids.txt"
"""File names to look for in a folder: LangChain and LlamaIndex write the first."""
_NEAR_ONE = 1e-3
_SAMPLED_VECTORS = 1000


class ExternalVectors(ExternalRows):
    """A user's FAISS file.

    Attributes:
        index: Index as read, without its map of ids; it is never written.
        ids: Ids of its documents, by row.
        similarity: Similarity of its metric; inner products of vectors of length 1 are cosines.
        folder: Folder of the file.
        numbers: FAISS's own number of each row, ascending.
    """

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        """Read the file that ``path`` names, or ``index.faiss`` in that folder, and the ids in ``id_file``.

        Without an ``id_file``, an ``ids.txt`` next to the index is read, or else the numbers of its own map of ids.

        Raises:
            EngineUnavailableError: FAISS cannot read the file, or the ids cannot be read.
            RejectedInputError: The index has no ids, another metric, or contradicts ``similarity``.
        """
        faiss, path = load_library(), source_folder(parameters)
        file = path / _FILE if path.is_dir() else path
        try:
            index = faiss.read_index(str(file))
        except RuntimeError as error:
            reason = str(error).rpartition(": ")[2]
            if "read error" in str(error):  # FAISS reports how many values it read, and an unrelated errno
                reason = "it is empty, or ends too early"
            raise EngineUnavailableError(
                f"FAISS cannot read '{file}': {reason}",
                fix="path= names a file that faiss.write_index wrote, or a folder with index.faiss",
            ) from error
        mapped = None
        if isinstance(index, faiss.IndexIDMap):
            mapped = faiss.vector_to_array(index.id_map).astype(np.int64)
            outer, index = index, faiss.downcast_index(index.index)
            index.referenced_objects = [outer]  # which owns the inner index
        self.index, self.folder, self.numbers = index, file.parent, _stored_numbers(index)
        self.ids = _ids(str(parameters["id_file"]), file, self.numbers, mapped)
        self.similarity = _similarity(index, self.numbers, str(parameters["similarity"]))
        self.stored_as = "unit" if self.similarity == "cosine" else "bits"

    def rows(self, numbers: Int64Array) -> Int32Array:
        """Return the rows (int32) of FAISS's numbers; raises IndexChangedError for an unknown number."""
        rows = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        if not np.array_equal(self.numbers[rows], numbers):
            raise IndexChangedError("the index answers with documents that it did not list", fix="read it again")
        return rows.astype(np.int32)

    def vectors(self, rows: Int32Array) -> Float32Array:
        """Return the vectors of rows as the index returns them, float32 (n, d)."""
        stored: Float32Array = with_direct_map(self.index).reconstruct_batch(self.numbers[rows])
        return stored

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare the stored vectors of all documents of the dataset, unless the index compresses them."""
        if not exact_vectors(self.index):
            kinds = " > ".join(type(part).__name__ for part in components(self.index))
            return f"FAISS keeps compressed or transformed vectors ({kinds}), whose originals are unknown"
        return super().mismatch(content, progress)

    def pages(self) -> Iterator[tuple[Int32Array, Float32Array]]:
        """Yield all vectors."""
        for start in range(0, len(self.ids), _PAGE):
            rows = np.arange(start, min(start + _PAGE, len(self.ids)), dtype=np.int32)
            yield rows, self.vectors(rows)

    def sample(self, rows: Int32Array) -> DocumentSample:
        """Return vectors, without texts."""
        return DocumentSample(rows, self.vectors(rows))


def _stored_numbers(index: Any) -> Int64Array:
    """Return the numbers of the vectors in an index of lists, ascending; in other indexes, numbers from 0."""
    faiss = load_library()
    lists = next((part for part in components(index) if isinstance(part, faiss.IndexIVF)), None)
    if lists is None:
        return np.arange(index.ntotal, dtype=np.int64)
    stored = [
        faiss.rev_swig_ptr(lists.invlists.get_ids(number), lists.invlists.list_size(number)).copy()
        for number in range(lists.nlist)
    ]
    return np.sort(np.concatenate(stored).astype(np.int64))


def _ids(id_file: str, index_file: Path, stored_numbers: Int64Array, mapped: Int64Array | None) -> Ids:
    """Return the ids of the vectors, which the index numbers by ``stored_numbers`` and its map of ids by ``mapped``."""
    beside, documents = index_file.parent / user_path(id_file or _IDS), len(stored_numbers)
    if id_file or beside.is_file():
        if not np.array_equal(stored_numbers, np.arange(documents)):
            raise RejectedInputError(
                f"'{index_file}' has its own numbers for its vectors, as add_with_ids sets them, and '{beside}' "
                "does not say which id has which number",
                fix=f"to use the numbers as ids, leave id_file= out, with no {_IDS} next to the index",
            )
        return read_ids(beside, documents)
    numbers = stored_numbers if mapped is None else mapped
    if np.array_equal(numbers, np.arange(documents)):
        raise RejectedInputError(
            f"'{index_file}' numbers its documents from 0, and there is no file of their ids",
            fix=f"write one id per line, in the order in which vectors were added, into {beside}, or name it: id_file=",
        )
    return unique_ids([str(number) for number in numbers.tolist()], "number")


def _similarity(index: Any, numbers: Int64Array, requested: str) -> str:
    """Return how the index compares: the metric is FAISS's own, and inner products of unit vectors are cosines."""
    faiss = load_library()
    if index.metric_type == faiss.METRIC_L2:
        fitting = ["l2"]
    elif index.metric_type == faiss.METRIC_INNER_PRODUCT and not exact_vectors(index):
        fitting = ["dot", "cosine"]  # the lengths of the added vectors are lost
    elif index.metric_type == faiss.METRIC_INNER_PRODUCT:
        some = with_direct_map(index).reconstruct_batch(numbers[spread_rows(len(numbers), _SAMPLED_VECTORS)])
        lengths = np.linalg.norm(some, axis=1)
        fitting = ["cosine", "dot"] if np.abs(lengths - 1).max(initial=0.0) < _NEAR_ONE else ["dot"]
    else:
        raise RejectedInputError(
            f"the index compares by FAISS's metric {index.metric_type}", fix="l2 and inner product are known"
        )
    compared = "l2" if fitting == ["l2"] else "the inner product"
    lengths_differ = " of vectors that are not of length 1" if fitting == ["dot"] else ""
    return require_similarity(f"the index compares by {compared}{lengths_differ}", fitting, requested)
