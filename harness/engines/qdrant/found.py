"""What an index that was there before says of its vectors, and which of them is searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.data.types import Similarity
from harness.engines.qdrant.points import DENSE, TERMS
from harness.engines.qdrant.settings import QdrantSettings, WantedVector
from harness.errors import RejectedInputError

__all__ = ["Chosen", "Found", "FoundDense", "choose"]

_SIMILARITIES: Mapping[str, Similarity] = {"Cosine": "cosine", "Dot": "dot", "Euclid": "l2"}


@dataclass(frozen=True, slots=True)
class FoundDense:
    """A dense vector: Qdrant's name of its distance, and what it keeps. ``several``: a point has a list of them."""

    distance: str
    dimensions: int
    datatype: str
    several: bool
    m: int
    full_scan_threshold_kb: int


class Found(NamedTuple):
    """The vectors of an index by name: sparse ones with whether they have Qdrant's idf. An unnamed one is called ""."""

    sparse: Mapping[str, bool]
    dense: Mapping[str, FoundDense]


class Chosen(NamedTuple):
    """The names of the vectors to search by what they are to the harness, and the settings that they were made with."""

    names: Mapping[str, str]
    dimensions: int | None
    settings: QdrantSettings


def choose(found: Found, settings: QdrantSettings, where: str) -> Chosen:
    """The vectors that ``settings`` ask for; ``where`` is the index in messages.

    Raises RejectedInputError when there is none of that name or no single one, when one is not made as the settings
    say (idf, similarity), and for one that Qdrant compares in a way that the harness does not know.
    """
    if settings.external is None:
        raise RejectedInputError("no external index is named", fix="give external=true and path= or collection=")
    wanted, names, dimensions = settings.external.vectors, dict[str, str](), None
    if settings.sparse is not None:
        names[TERMS] = _name(found.sparse, wanted[TERMS], "sparse", where)
        _require_idf(names[TERMS], found.sparse[names[TERMS]], settings.sparse.idf, where)
    if settings.dense is not None:
        names[DENSE] = _name(found.dense, wanted[DENSE], "dense", where)
        held = found.dense[names[DENSE]]
        made = replace(
            settings.dense,
            similarity=_similarity(names[DENSE], held, settings.dense.similarity, where),
            datatype=held.datatype,
            m=held.m,
            full_scan_threshold_kb=held.full_scan_threshold_kb,
        )
        dimensions, settings = held.dimensions, replace(settings, dense=made)
    return Chosen(names, dimensions, settings)


def _name(vectors: Mapping[str, object], wanted: WantedVector, kind: str, where: str) -> str:
    known = ", ".join(f"'{name}'" for name in sorted(vectors)) or "none"
    if wanted.name and wanted.name not in vectors:
        raise RejectedInputError(f"{where} has no {kind} vector '{wanted.name}'", fix=f"it has: {known}")
    if not wanted.name and not vectors:
        raise RejectedInputError(f"{where} has no {kind} vectors", fix="take a backend that searches what it has")
    if not wanted.name and len(vectors) != 1:
        raise RejectedInputError(
            f"{where} has {len(vectors)} {kind} vectors: {known}",
            fix=f"say which one to search: {wanted.parameter}=",
        )
    return wanted.name or next(iter(vectors))


def _require_idf(name: str, held: bool, wanted: bool, where: str) -> None:
    if held != wanted:
        made = "with" if held else "without"
        raise RejectedInputError(
            f"the sparse vector '{name}' of {where} was made {made} Qdrant's idf", fix=f"say idf={str(held).lower()}"
        )


def _similarity(name: str, held: FoundDense, wanted: str, where: str) -> Similarity:
    """That of the vector; ``wanted`` is "" where none was asked for."""
    if held.several:
        raise RejectedInputError(
            f"a point of {where} has several vectors under '{name}' (a multivector)",
            fix="name a vector of which a point has one",
        )
    similarity = _SIMILARITIES.get(held.distance)
    if similarity is None:
        raise RejectedInputError(
            f"the dense vector '{name}' of {where} has the distance {held.distance}, which the harness does not know",
            fix=f"it knows {', '.join(_SIMILARITIES)}",
        )
    if wanted not in ("", similarity):
        raise RejectedInputError(
            f"the dense vector '{name}' of {where} has the distance {held.distance}, which is not similarity={wanted}",
            fix=f"say similarity={similarity}, or leave it out",
        )
    return similarity
