"""Collections that somebody else made: their ids, distance, and whether they hold the expected vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array, Ids, Int32Array, Similarity
from harness.engines.chroma.collection import Collection
from harness.engines.chroma.parameters import SPACES
from harness.engines.external_index import as_id, compare_dense, rows_of, spread_rows, unique_ids
from harness.engines.index_folder import ID_FIELD
from harness.engines.interface import ExpectedContent, StoredDocuments
from harness.errors import RejectedInputError

_PAGE = 5_000
_PAGE_OF_VECTORS = 1_000
_PROBED = 16
"""Records of which the longest is used to measure the distance: zeros tell nothing."""
_CLOSE = 1e-3


class ExternalRecords:
    """The records of a collection by row, in the order in which Chroma lists them."""

    def __init__(self, collection: Collection, id_key: str, progress: Progress) -> None:
        """Read all ids; raises RejectedInputError for records without one, or with the same."""
        progress.start("attach", None)
        self._collection = collection
        names: list[str] = []
        under_key: list[str | None] = []
        for page in collection.pages(_PAGE, "metadatas"):
            names += page["ids"]
            under_key += [as_id((metadata or {}).get(id_key or ID_FIELD)) for metadata in page["metadatas"]]
        self._row_of = {name: row for row, name in enumerate(names)}
        key = id_key or (ID_FIELD if any(name is not None for name in under_key) else "")
        where = f"text or whole number in the metadata under '{key}'" if key else "id"
        self.ids: Ids = unique_ids(under_key if key else names, where)

    def rows(self, names: Sequence[str]) -> Int32Array:
        """Return the rows of Chroma's ids; raises IndexChangedError for a record that was not there before."""
        return rows_of(self._row_of, names, "record")

    def stored_documents(self, count: int) -> StoredDocuments:
        """Return records from all over the collection."""
        names = list(self._row_of)
        wanted = [names[row] for row in spread_rows(len(names), count).tolist()]
        page = self._collection.get(ids=wanted, include=["documents", "embeddings"])
        texts = page["documents"] or [None] * len(page["ids"])
        order = np.argsort(self.rows(page["ids"]))  # Chroma gives them in an order of its own
        return StoredDocuments(
            rows=self.rows(page["ids"])[order],
            texts=tuple(texts[place] for place in order.tolist()),
            dense=_vectors(page)[order],
            place="Chroma's documents",
        )

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare every stored vector, page by page; see :meth:`harness.engines.base.ExternalIndex.mismatch`."""
        # of a cosine graph Chroma keeps direction and length, and gives back their product
        pages = (
            (self.rows(page["ids"]), _vectors(page)) for page in self._collection.pages(_PAGE_OF_VECTORS, "embeddings")
        )
        return compare_dense(content, len(self.ids), pages, progress, "product")


def similarity_of(collection: Collection, wanted: str) -> Similarity:
    """Return the similarity by which a collection is searched: as Chroma says, and measured.

    Its account can be wrong: a folder that Chroma 0.5 made with the metadata ``hnsw:space`` is searched by that space,
    and Chroma 1.5 says that it is ``l2`` (seen with 0.5.23 and 1.5.9).

    Raises:
        RejectedInputError: The collection has no HNSW graph, is searched by another distance than Chroma says, or
            ``wanted`` is another similarity, unless it is empty: its distances would mean something else.
    """
    said = next((name for name, space in SPACES.items() if space == collection.configured().get("space")), None)
    if said is None:
        raise RejectedInputError(
            f"the collection '{collection.name}' has no HNSW graph", fix="other indexes than HNSW cannot be searched"
        )
    similarity = _measured(collection) or said
    searched = f"the collection '{collection.name}' is searched by Chroma's '{SPACES[similarity]}'"
    if similarity != said:
        raise RejectedInputError(
            f"{searched}, and Chroma says '{SPACES[said]}', as of folders that Chroma before 1.0 made",
            fix="make the collection anew with this version of Chroma",
        )
    if wanted not in ("", similarity):
        raise RejectedInputError(
            f"{searched}, which is not similarity={wanted}", fix=f"give similarity={similarity}, or leave it out"
        )
    return similarity


def _measured(collection: Collection) -> Similarity | None:
    """Return the similarity by which Chroma compares a stored vector with another; None without a vector to ask for.

    For ``-2 v / |v|²`` and ``v`` the three distances differ, whatever the length of ``v``.
    """
    page = collection.get(limit=_PROBED, include=["embeddings"])
    vectors = _vectors(page).astype(np.float64)
    if not vectors.any():  # nor where there are no vectors at all
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
