"""By which distance an external index is searched: as Chroma says, and measured, because its account can be wrong.

A folder that Chroma 0.5 made with the metadata ``hnsw:space`` is searched by that space, and Chroma 1.5 says that it is
``l2`` (seen with 0.5.23 and 1.5.9): such a folder is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from harness.data.types import Float32Array, Similarity
from harness.engines.chroma.settings import SPACES, ChromaSettings
from harness.engines.chroma.store import ChromaStore
from harness.errors import RejectedInputError

__all__ = ["similarity_of"]

_PROBED = 16
"""Records of which one is asked for again, the longest: zeros tell nothing."""
_SCALES = (2.0, 3.0, 0.5)
"""Of a query made of a stored vector: one of them sets the three distances apart, whatever its length."""
_CLOSE = 1e-3


def similarity_of(store: ChromaStore, settings: ChromaSettings) -> Similarity:
    """The similarity by which ``store`` is searched.

    Raises RejectedInputError for a collection without an HNSW graph, for one that is searched by another distance than
    Chroma says, and where ``settings`` say another similarity: its distances would mean something else.
    """
    told = next((name for name, space in SPACES.items() if space == store.configured().get("space")), None)
    if told is None:
        raise RejectedInputError(
            f"the collection '{store.name}' has no HNSW graph", fix="other indexes than HNSW cannot be searched"
        )
    found = _measured(store) or told
    if found != told:
        raise RejectedInputError(
            f"the collection '{store.name}' is searched by Chroma's '{SPACES[found]}', and Chroma says "
            f"'{SPACES[told]}', as of folders that Chroma before 1.0 made",
            fix="make the collection anew with this version of Chroma",
        )
    if settings.similarity not in (None, found):
        raise RejectedInputError(
            f"the collection '{store.name}' is searched by Chroma's '{SPACES[found]}', and "
            f"similarity={settings.similarity} is '{settings.space}'",
            fix=f"give similarity={found}, or leave it out",
        )
    return found


def _measured(store: ChromaStore) -> Similarity | None:
    """The distance that Chroma gives for a query made of a stored vector; None for a collection without one."""
    stored = store.sample(_PROBED)
    longest = max(stored, key=lambda one: float(np.linalg.norm(one)), default=None)
    if longest is None or not longest.any():
        return None
    query = max((np.float32(scale) * longest for scale in _SCALES), key=lambda one: _gap(_distances(one, longest)))
    hit = store.nearest(query)
    expected = _distances(query, hit.vector)
    found = min(expected, key=lambda name: abs(expected[name] - hit.distance))
    if abs(expected[found] - hit.distance) > _CLOSE * max(1.0, abs(hit.distance)):
        raise RejectedInputError(
            f"the collection '{store.name}' gives the distance {hit.distance:g} where "
            + ", ".join(f"{SPACES[name]} is {value:g}" for name, value in expected.items()),
            fix="this is none of the distances that the harness knows",
        )
    return found


def _distances(query: Float32Array, vector: Float32Array) -> Mapping[Similarity, float]:
    """Chroma's three distances of two vectors, neither of them zero."""
    one, other = query.astype(np.float64), vector.astype(np.float64)
    product = float(one @ other)
    cosine = product / float(np.linalg.norm(one) * np.linalg.norm(other))
    return {"cosine": 1.0 - cosine, "dot": 1.0 - product, "l2": float(np.square(one - other).sum())}


def _gap(distances: Mapping[Similarity, float]) -> float:
    return min(abs(one - other) for one, other in combinations(distances.values(), 2))
