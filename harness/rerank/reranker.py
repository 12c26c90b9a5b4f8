"""Base class of rerankers, which score pairs of a query and a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.encoders.token_counts import TextLengths, Unit
from harness.registry.parameters import ParameterValue
from harness.store.cache import JSON

Facts = Mapping[str, ParameterValue]


class Reranker:
    """Scores pairs of a query and a document. The constructor checks parameters and loads nothing."""

    integer_scores: ClassVar[bool] = False
    """True if many documents share a score: equal scores keep the order of the first stage."""
    group: ClassVar[int] = 2048
    """Number of pairs that are scored before their scores are stored."""
    stored: ClassVar[bool] = True
    """False if a score is computed faster than read."""
    paid: ClassVar[bool] = False
    """True if scores come from calls that may cost money: those of a call are stored before the next call is made."""

    unit: ClassVar[Unit | None] = None
    """Unit of the lengths of pairs; None for a reranker that does not report them."""

    @property
    def documents_per_call(self) -> int:
        """Largest number of documents of one query that a ``paid`` reranker scores in one call."""
        return 1

    @property
    def parallel_calls(self) -> int:
        """Number of queries whose documents a ``paid`` reranker scores at the same time, in threads."""
        return 1

    def identity(self) -> dict[str, JSON]:
        """Return everything but the two texts that changes a score; loads no model. Raises HarnessError."""
        raise NotImplementedError

    def content(self, query: str, document: str) -> str:
        """Return the part of the pair that the score depends on, for a known query: the document."""
        return document

    def allow(self, calls: int) -> None:
        """Raise EngineUnavailableError if a ``paid`` reranker may not make this many calls for missing scores."""

    def load(self) -> None:
        """Get ready to score; called once, and not if every score is cached. Raises HarnessError."""

    def score(self, queries: Sequence[str], documents: Sequence[str], out: Float32Array, progress: Progress) -> None:
        """Write the score of each pair into ``out`` (float32, shape (n,)), as soon as it is known.

        Pairs come sorted by length, the longest first; a ``paid`` reranker gets documents of one query, at most
        :attr:`documents_per_call`. Raises HarnessError.
        """
        raise NotImplementedError

    @property
    def lengths(self) -> TextLengths | None:
        """Lengths of the pairs of the last call of :meth:`score`, in its order; None if they are not known."""
        return None

    @property
    def facts(self) -> Facts:
        """Facts for readers of the scores: device, versions, calls. Read at the end."""
        return {}

    def close(self) -> None:
        """Release connections."""
