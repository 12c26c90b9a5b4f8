"""Models that sentence-transformers loads: dense (``SentenceTransformer``) and learned sparse (``SparseEncoder``)."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from harness.data.inputs import Inputs
from harness.data.types import Float32Array, SparseVectors
from harness.encoders.model_checks import load_complete, refuse_more_tokens, refuse_other_kind
from harness.encoders.model_files import model_folder
from harness.encoders.prompts import applied_prompt, text_list
from harness.encoders.settings import Facts, Role, Rows, Settings
from harness.encoders.token_counts import TextLengths, TokenCounter, finite_limit, limit_origin
from harness.errors import DataError, EngineUnavailableError
from harness.registry.devices import require_device
from harness.registry.optional import require

_CLASSES = {"dense": "SentenceTransformer", "splade": "SparseEncoder"}
VERSIONS = ("sentence-transformers", "transformers", "tokenizers", "torch")


class SentenceTransformerModel:
    """A loaded model. Texts are sorted by length within a call, so that little is padded."""

    def __init__(self, settings: Settings, model: Any) -> None:
        self._settings, self._model = settings, model
        self._tokens = TokenCounter(model, self._limit_from)
        self._lengths: TextLengths | None = None

    @classmethod
    def load(cls, settings: Settings) -> SentenceTransformerModel:
        """Load the model of a folder, a package or the hub's cache.

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            EngineUnavailableError: The device is missing, or the model cannot be loaded, is of the other kind, or lacks
                weights.
        """
        feature = f"encoder {settings.encoder}"
        library = require("sentence_transformers", extra="dense", feature=feature)
        require_device(settings.device, feature=feature)
        folder, kind = model_folder(settings), _CLASSES[settings.encoder]

        def load() -> Any:
            return getattr(library, kind)(
                str(folder),
                device=None if settings.device == "auto" else settings.device,
                trust_remote_code=settings.trust_remote_code,
                local_files_only=not settings.trust_remote_code,
                model_kwargs={"dtype": settings.dtype},
            )

        try:
            refuse_other_kind(folder, kind)
            model = load_complete(load)
        except (OSError, ValueError, RuntimeError, ImportError, KeyError, AttributeError, TypeError) as error:
            raise EngineUnavailableError(
                f"model '{settings.source.name}' in '{folder}' cannot be loaded: {error}",
                fix="it must be a model that sentence-transformers saved; some need remote code",
            ) from error
        if settings.max_seq_length:
            refuse_more_tokens(model.transformers_model, settings.max_seq_length, "max_seq_length")
            model.max_seq_length = settings.max_seq_length
        return cls(settings, model)

    @property
    def facts(self) -> Facts:
        """Device, size, limit of tokens, and the libraries' versions."""
        limit = finite_limit(self._model.max_seq_length)
        return {
            "device": str(self._model.device),
            "parameters_millions": sum(weights.numel() for weights in self._model.parameters()) / 1e6,
            **({"max_seq_length": limit} if limit is not None else {}),
            **{f"version of {name}": version(name) for name in VERSIONS},
        }

    def encode(self, texts: Inputs, role: Role) -> Rows:
        """Call ``encode_document`` or ``encode_query`` with the prompt of :func:`applied_prompt`, never another."""
        settings, documents = self._settings, text_list(texts)
        method = self._model.encode_document if role == "documents" else self._model.encode_query
        # "" is a prompt too: without it the library would put a declared prompt before each text by itself
        prompt = applied_prompt(settings, role).text
        options = {"prompt": prompt, "batch_size": settings.batch_size, "show_progress_bar": False}
        if settings.encoder == "dense":
            rows: Rows = self._dense(method(documents, convert_to_numpy=False, convert_to_tensor=True, **options))
        else:
            limit = {"max_active_dims": settings.max_active_dims} if settings.max_active_dims else {}
            rows = _sparse(method(documents, convert_to_sparse_tensor=True, save_to_cpu=True, **options, **limit))
        self._lengths = self._tokens.take(documents)
        return rows

    @property
    def lengths(self) -> TextLengths | None:
        """Tokens of the texts of the last call, and the tokens that the model did not read."""
        return self._lengths

    def _limit_from(self, limit: int) -> str:
        if self._settings.max_seq_length == limit:
            return "max_seq_length= of the backend"
        return limit_origin(model_folder(self._settings), limit)

    def _dense(self, encoded: Any) -> Float32Array:
        array: Float32Array = np.ascontiguousarray(encoded.float().cpu().numpy())
        if array.ndim != 2:
            problem = f"gave an array of shape {array.shape}, not (n, d)"
            raise DataError(f"model '{self._settings.source.name}'", [problem])
        return array


def _sparse(encoded: Any) -> SparseVectors:
    tensor = encoded.coalesce()
    (rows, columns), values = tensor.indices().numpy(), tensor.values().float().numpy()
    is_nonzero = values != 0
    counts = np.bincount(rows[is_nonzero], minlength=tensor.shape[0])
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return SparseVectors(
        indptr, columns[is_nonzero].astype(np.int32), values[is_nonzero].astype(np.float32), int(tensor.shape[1])
    )
