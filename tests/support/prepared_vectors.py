"""A model that returns vectors made before, for evaluators: texts are numbers, which name the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from installed import Deferred

if TYPE_CHECKING:
    import torch

COSINE = Deferred("sentence_transformers.util", "cos_sim")


class Card:
    """What evaluators store their values in."""

    ir_model: bool | None = None

    def __init__(self) -> None:
        self.stored: list[tuple[Any, ...]] = []

    def set_evaluation_metrics(self, *given: Any) -> None:
        self.stored.append(given)


class PreparedVectors:
    """`queries` and `documents` are tensors with one row a text; `calls` says what was asked for, and how."""

    def __init__(
        self,
        queries: torch.Tensor,
        documents: torch.Tensor,
        name: str = "cosine",
        similarity: Callable[..., torch.Tensor] = COSINE,
    ) -> None:
        self.queries, self.documents = queries, documents
        self.similarity_fn_name, self.similarity = name, similarity
        self.model_card_data = Card()
        self.calls: list[tuple[str, int, dict[str, Any]]] = []

    def encode_query(self, texts: Sequence[str], **options: Any) -> torch.Tensor:
        self.calls.append(("query", len(texts), options))
        return self.queries[[int(text) for text in texts]]

    def encode_document(self, texts: Sequence[str], **options: Any) -> torch.Tensor:
        self.calls.append(("document", len(texts), options))
        return self.documents[[int(text) for text in texts]]
