"""sentence-transformers' ``CrossEncoder``: query and document read together, one number for the pair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.encoders.model_checks import refuse_more_tokens
from harness.errors import EngineUnavailableError
from harness.registry.optional import require
from harness.rerank.local_model import LocalModel

__all__ = ["CrossEncoder"]


class CrossEncoder(LocalModel):
    """The model's raw output: its sigmoid would bring the best documents to the same float32."""

    name: ClassVar[str] = "cross-encoder"

    def load(self) -> None:
        """Raises MissingExtraError, EngineUnavailableError, and the latter for a model with several labels."""
        library = require("sentence_transformers", extra="dense", feature="reranker cross-encoder")
        torch = require("torch", extra="dense", feature="reranker cross-encoder")
        length = int(self.parameter("max_length"))

        def load(folder: Path) -> Any:  # noqa: ANN401 - a class of an optional library
            return library.CrossEncoder(
                str(folder),
                device=None if self.device == "auto" else self.device,
                max_length=length or None,
                activation_fn=torch.nn.Identity(),
                model_kwargs={"dtype": self._settings.dtype},
                **self.options(),
            )

        self._model = self.loaded(load)
        refuse_more_tokens(self._model, length, "max_length")
        self.device = str(self._model.device)
        if self._model.num_labels != 1:
            raise EngineUnavailableError(
                f"reranker 'cross-encoder': the model has {self._model.num_labels} labels, and no single score",
                fix="use the reranker classifier, and say with label= which one counts",
            )

    def score(self, queries: Sequence[str], documents: Sequence[str], out: Float32Array, progress: Progress) -> None:
        """All at once; the library makes the batches."""
        pairs = list(zip(queries, documents, strict=True))
        size = int(self.parameter("batch_size"))
        out[:] = self._model.predict(pairs, batch_size=size, show_progress_bar=False, convert_to_numpy=True)
        progress.advance(len(pairs))
