"""What scores candidates: one interface for models, word counts and judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.errors import UsageError
from harness.registry.parameters import ParameterValue
from harness.store.cache import JSON

__all__ = ["Facts", "Reranker", "create_reranker", "require_sense"]

Facts = Mapping[str, ParameterValue]


class Reranker(Protocol):
    """Scores pairs of a query and a document. The constructor checks parameters and loads nothing."""

    whole_numbers: ClassVar[bool]
    """True for scores that few documents do not share: equal ones keep the order of the first stage."""
    group: ClassVar[int]
    """How many pairs are scored before their scores are stored."""
    stored: ClassVar[bool]
    """False for scores that are made faster than read."""
    paid: ClassVar[bool]
    """True where each score is a call that somebody may pay for: it is stored before the next pair is asked for."""

    def identity(self) -> dict[str, JSON]:
        """Everything that changes a score beside the two texts, and nothing else; loads no model.

        Raises HarnessError for a model that is not there.
        """

    def content(self, query: str, document: str) -> str:
        """What of the pair the score depends on, where the query is known."""

    def allow(self, pairs: int) -> None:
        """Asked of a ``paid`` reranker before anything is scored: so many pairs have no score yet.

        Raises EngineUnavailableError where no call may be made for them.
        """

    def load(self) -> None:
        """Make ready to score; called once, and not where every score is cached. Raises HarnessError."""

    def score(self, queries: Sequence[str], documents: Sequence[str], out: Float32Array, progress: Progress) -> None:
        """Write the score of each pair into ``out`` (float32, shape (n,)), as soon as it is known.

        Pairs come sorted by length, the longest first. Raises HarnessError.
        """

    @property
    def facts(self) -> Facts:
        """What a reader of the scores should know: device, versions, calls. Asked for at the end."""

    def close(self) -> None:
        """Let go of everything."""


def create_reranker(name: str, parameters: Mapping[str, ParameterValue]) -> Reranker:
    """The reranker of that name; raises UsageError for parameters that make no sense together."""
    match name:
        case "keywords":
            from harness.rerank.keywords import Keywords

            return Keywords()
        case "cross-encoder":
            from harness.rerank.cross_encoder import CrossEncoder

            return CrossEncoder(parameters)
        case "classifier":
            from harness.rerank.classifier import Classifier

            return Classifier(parameters)
        case "qwen3":
            from harness.rerank.qwen3 import Qwen3

            return Qwen3(parameters)
        case "judge":
            from harness.rerank.judge import Judge

            return Judge(parameters)
        case other:
            raise AssertionError(f"unknown reranker: {other}")


def require_sense(name: str, parameters: Mapping[str, ParameterValue]) -> None:
    """Raise UsageError for parameters that make no sense, before anything runs."""
    if name == "dense":
        from harness.encoders.settings import Settings

        Settings.of("dense", parameters)
        return
    try:
        create_reranker(name, parameters)
    except UsageError as error:
        raise UsageError(f"reranker '{name}': {error.what}", fix=error.fix) from error
