"""sentence-transformers' evaluator of sparse encoders: the same values, and how sparse the vectors are."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from harness.encoders.sparsity import DimensionCounts, Sparsity, sparsity_of
from harness.integrations.sentence_transformers.evaluator import InformationRetrievalEvaluator
from harness.integrations.sentence_transformers.values import Values

if TYPE_CHECKING:
    from sentence_transformers import SparseEncoder
    from torch import Tensor


def _signature() -> inspect.Signature:
    """Return the base class's signature, with ``max_active_dims`` in the place of ``truncate_dim``."""
    parameters = inspect.signature(InformationRetrievalEvaluator).parameters.values()
    return inspect.Signature(
        [each.replace(name="max_active_dims") if each.name == "truncate_dim" else each for each in parameters]
    )


class SparseInformationRetrievalEvaluator(InformationRetrievalEvaluator):
    """The evaluator for ``SparseEncoder``: as its base class, and how sparse queries and documents are.

    ``max_active_dims`` replaces ``truncate_dim``: at most this many dimensions of a vector are kept (None: the model's
    setting). Further values: mean active dimensions and share of zeros of queries and of documents, and ``avg_flops``,
    the products that an average query and document share.
    """

    __signature__ = _signature()

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        bound_arguments = dict(self.__signature__.bind(*arguments, **keywords).arguments)
        self.max_active_dims: int | None = bound_arguments.pop("max_active_dims", None)
        self._sparsity = {"query": DimensionCounts(), "corpus": DimensionCounts()}
        super().__init__(**bound_arguments)

    def compute_all_metrics(
        self,
        model: SparseEncoder,
        corpus_model: SparseEncoder | None = None,
        corpus_embeddings: Tensor | None = None,
        output_path: str | PathLike[str] | None = None,
    ) -> dict[str, Values]:
        """Search and score, as the base class does; ``corpus_embeddings`` is a tensor, dense or sparse (COO)."""
        self._sparsity = {"query": DimensionCounts(), "corpus": DimensionCounts()}
        if corpus_embeddings is not None:
            corpus_embeddings = corpus_embeddings.cpu()  # where queries are put too
            _count(corpus_embeddings, self._sparsity["corpus"])
        return super().compute_all_metrics(model, corpus_model, corpus_embeddings, output_path)

    compute_metrices = compute_all_metrics  # the library's older name

    def embed_inputs(
        self,
        model: SparseEncoder,
        sentences: Sequence[Any],
        encode_fn_name: str | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return embeddings as a sparse tensor on the CPU, and count their dimensions."""
        vectors = super().embed_inputs(model, sentences, encode_fn_name, prompt_name, prompt, **kwargs)
        _count(vectors, self._sparsity["corpus" if encode_fn_name == "document" else "query"])
        return vectors

    def get_config_dict(self) -> dict[str, Any]:
        """Return the given prompts and ``max_active_dims``, for the model card."""
        keywords = {} if self.max_active_dims is None else {"max_active_dims": self.max_active_dims}
        return super().get_config_dict() | keywords

    @property
    def sparsity_stats(self) -> dict[str, float]:
        """The further values of the last call; empty before one."""
        query, corpus = self._sparsity["query"], self._sparsity["corpus"]
        if not (query.vectors and corpus.vectors):
            return {}
        return sparsity_of(corpus, query)._asdict()

    def _encode_options(self) -> dict[str, Any]:
        return {"convert_to_sparse_tensor": True, "save_to_cpu": True, "max_active_dims": self.max_active_dims}

    def _further_columns(self) -> Sequence[str]:
        return Sparsity._fields

    def _further_values(self) -> dict[str, float]:
        return self.sparsity_stats


def _count(vectors: Tensor, counts: DimensionCounts) -> None:
    """Add a batch of embeddings, dense or sparse (n, dimensions)."""
    stored = vectors if vectors.is_sparse else vectors.to_sparse()
    used = stored.coalesce().indices()[1].bincount(minlength=vectors.shape[1]).cpu().numpy()
    counts.add(used, len(vectors))
