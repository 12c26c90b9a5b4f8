"""Transformers' sequence classification: one logit, or how one label stands against the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from harness.errors import EngineUnavailableError
from harness.rerank.local_model import Transformer
from harness.store.cache import JSON

__all__ = ["Classifier"]


class Classifier(Transformer):
    """With one label its logit; with several, the log odds of the label that ``label`` counts to (-1: the last)."""

    name: ClassVar[str] = "classifier"
    auto_class: ClassVar[str] = "AutoModelForSequenceClassification"

    def extra_identity(self) -> dict[str, JSON]:
        """The label."""
        return {"label": self.parameter("label")}

    def prepare(self) -> None:
        """Raises EngineUnavailableError for a label that the model does not have."""
        labels, label = int(self.model.config.num_labels), int(self.parameter("label"))
        if not -labels <= label < labels:
            raise EngineUnavailableError(
                f"reranker 'classifier': label {label} of a model with {labels}",
                fix="count from 0, or from -1 backwards",
            )
        self._label = label % labels

    def batch_scores(self, queries: Sequence[str], documents: Sequence[str]) -> Any:  # noqa: ANN401 - a tensor
        """float (n,)"""
        encoded = self.tokenizer(
            list(queries),
            list(documents),
            padding=True,
            truncation="longest_first",
            max_length=self.max_length,
            return_tensors="pt",
        ).to(self.device)
        logits = self.model(**encoded).logits.float()
        if logits.shape[1] == 1:
            return logits[:, 0]
        others = self.torch.cat([logits[:, : self._label], logits[:, self._label + 1 :]], dim=1)
        return logits[:, self._label] - self.torch.logsumexp(others, dim=1)
