"""Vectors of one dataset by one encoder, for all backends that need them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.data.types import Float32Array, SparseVectors
from harness.encoders.settings import Role
from harness.encoders.token_counts import TextLengths
from harness.registry.parameters import ParameterValue
from harness.text import TermCounts


class Terms(NamedTuple):
    """The analyzer's term counts, stored in ``folder``; ``texts`` is the folder of the terms as texts, if needed."""

    analyzer: str
    counts: TermCounts
    folder: Path
    texts: Path | None = None


class SparsePair(NamedTuple):
    """Sparse vectors of a dataset; ``documents`` is None if only term counts were needed."""

    documents: SparseVectors | None
    queries: SparseVectors


class DensePair(NamedTuple):
    """Dense vectors of a dataset: two C-contiguous float32 arrays (n, d), memory-mapped."""

    documents: Float32Array
    queries: Float32Array


class Folders(NamedTuple):
    """Folders of the vectors of documents and of queries, for :func:`harness.store.columns.load_vectors`."""

    documents: Path
    queries: Path


class EncodedTexts(NamedTuple):
    """The ``number`` of texts of one role that a model encoded, with their lengths.

    ``lengths`` is None if they are unknown, and ``unknown`` says why.
    """

    role: Role
    number: int
    lengths: TextLengths | None
    unknown: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Vectors:
    """Vectors of documents and queries: ``sparse`` or ``dense`` by one encoder, or both by two.

    ``folders`` hold each encoder's vectors; empty if there are no vectors of documents. ``terms`` are the counts of
    BM25 weights, None for a model. ``steps_ns`` is the time of each step of making them, None for a step whose result
    existed before. ``texts`` are the texts that a model read of documents and queries, empty without a model. ``facts``
    and ``notes`` are for the report.
    """

    encoder: str
    sparse: SparsePair | None = None
    dense: DensePair | None = None
    folders: tuple[Folders, ...] = ()
    terms: Terms | None = None
    steps_ns: tuple[int | None, ...] = ()
    texts: tuple[EncodedTexts, ...] = ()
    facts: Mapping[str, ParameterValue | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def dimensions(self) -> int:
        """Columns that documents and queries have together: of the sparse vectors, if there are both kinds."""
        if self.sparse is None and self.dense is not None:
            return int(self.dense.queries.shape[1])
        return max((part.dimensions for part in self.sparse or () if part is not None), default=0)


def both(terms: Vectors, model: Vectors) -> Vectors:
    """Return sparse vectors of ``terms`` and dense ones of ``model``, for an engine that reads both."""
    return Vectors(
        encoder=f"{terms.encoder}+{model.encoder}",
        sparse=terms.sparse,
        dense=model.dense,
        folders=(*terms.folders, *model.folders),
        terms=terms.terms,
        steps_ns=(*terms.steps_ns, *model.steps_ns),
        texts=(*terms.texts, *model.texts),
        facts={**terms.facts, **model.facts, "encoder": f"{terms.encoder}+{model.encoder}"},
        notes=(*terms.notes, *model.notes),
    )
