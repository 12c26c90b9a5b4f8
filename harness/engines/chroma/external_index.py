"""Collections made outside the harness: their ids and distance, and whether they hold the expected vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from harness.data.field_paths import field_of
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array, Similarity
from harness.engines.chroma.collection import Collection
from harness.engines.chroma.parameters import SPACES
from harness.engines.external_index import DocumentKeys, DocumentSample, ExternalRows, as_id
from harness.engines.external_metadata import ExternalMetadata
from harness.engines.index_folder import ID_FIELD
from harness.errors import RejectedInputError

_PAGE = 5_000
_PAGE_OF_VECTORS = 1_000
_PROBED = 16
"""Number of records to read; the longest measures the distance, because zeros do not show it."""
_CLOSE = 1e-3


class ExternalRecords(DocumentKeys, ExternalRows, ExternalMetadata):
    """The records of a collection by row, in the order in which Chroma lists them."""

    noun = "record"
    stored_as = "product"  # for a cosine graph Chroma keeps direction and length, and returns their product

    def __init__(self, collection: Collection, id_key: str, progress: Progress) -> None:
        """Read all ids; raises RejectedInputError for missing or repeated ids, unless ``id_key`` names their field."""
        progress.start("attach", None)
        self._collection, key = collection, id_key or ID_FIELD
        pages = (
            (page["ids"], [as_id(field_of(metadata or {}, key)) for metadata in page["metadatas"]])
            for page in collection.pages(_PAGE, "metadatas")
        )
        super().__init__(pages, f"text or whole number in the metadata under '{key}'", "" if id_key else "id")

    def sample(self, rows: Int32Array) -> DocumentSample:
        """Read records with their documents, which Chroma returns in its own order."""
        page = self._collection.get(ids=self.keys(rows), include=["documents", "embeddings"])
        texts = page["documents"] or [None] * len(page["ids"])
        return DocumentSample(self.rows(page["ids"]), _vectors(page), {"Chroma's documents": texts})

    def metadata(self, fields: Sequence[str]) -> Iterator[tuple[Int32Array, Sequence[Mapping[str, Any]]]]:
        """Yield the metadata of all records."""
        for page in self._collection.pages(_PAGE, "metadatas"):
            yield self.rows(page["ids"]), [record or {} for record in page["metadatas"]]

    def pages(self) -> Iterator[tuple[Int32Array, Float32Array]]:
        """Yield all vectors."""
        for page in self._collection.pages(_PAGE_OF_VECTORS, "embeddings"):
            yield self.rows(page["ids"]), _vectors(page)


def similarity_of(collection: Collection, requested: str) -> Similarity:
    """Return the similarity by which a collection is searched, as Chroma reports it and as measured.

    The report can be wrong: a folder that Chroma 0.5 made with the metadata ``hnsw:space`` is searched by that space,
    but Chroma 1.5 reports ``l2`` (seen with 0.5.23 and 1.5.9).

    Raises:
        RejectedInputError: The collection has no HNSW graph, is searched by another distance than Chroma reports, or
            ``requested``, unless empty, is another similarity: its distances would mean something else.
    """
    declared = next((name for name, space in SPACES.items() if space == collection.configured().get("space")), None)
    if declared is None:
        raise RejectedInputError(
            f"the collection '{collection.name}' has no HNSW graph", fix="other indexes than HNSW cannot be searched"
        )
    similarity = _measured(collection) or declared
    searched = f"the collection '{collection.name}' is searched by Chroma's '{SPACES[similarity]}'"
    if similarity != declared:
        raise RejectedInputError(
            f"{searched}, and Chroma says '{SPACES[declared]}', as of folders that Chroma before 1.0 made",
            fix="create the collection again with this version of Chroma",
        )
    if requested not in ("", similarity):
        raise RejectedInputError(
            f"{searched}, which is not similarity={requested}", fix=f"give similarity={similarity}, or leave it out"
        )
    return similarity


def _measured(collection: Collection) -> Similarity | None:
    """Return the similarity by which Chroma compares a stored vector with another; None without a vector to query.

    For ``-2 v / |v|²`` and ``v`` the three distances differ for any length of ``v``.
    """
    page = collection.get(limit=_PROBED, include=["embeddings"])
    vectors = _vectors(page).astype(np.float64)
    if not vectors.any():  # nor if there are no vectors at all
        return None
    squares = np.square(vectors).sum(axis=1)
    longest = int(squares.argmax())
    square = float(squares[longest])
    query = (-2 * vectors[longest] / square).astype(np.float32)
    with collection.translated(lambda: "measuring a distance"):
        answer = collection.query(query[None], 1, "distances", only=[page["ids"][longest]])
    distance = float(answer["distances"][0][0])
    expected: Mapping[Similarity, float] = {"cosine": 2.0, "dot": 3.0, "l2": square + 4 + 4 / square}
    for similarity, value in expected.items():
        if np.isclose(distance, value, rtol=_CLOSE):
            return similarity
    raise RejectedInputError(
        f"the collection '{collection.name}' gives the distance {distance:g} where "
        + ", ".join(f"{SPACES[name]} is {value:g}" for name, value in expected.items()),
        fix="this is none of the distances that the harness knows",
    )


def _vectors(page: Mapping[str, object]) -> Float32Array:
    return np.asarray(page["embeddings"], dtype=np.float32)
