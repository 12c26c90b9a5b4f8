"""What rerankers that run a model here have in common: its files, its place, its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.encoders.model_checks import load_whole, refuse_more_tokens, token_places
from harness.encoders.model_files import model_folder
from harness.encoders.settings import Settings
from harness.encoders.sources import encoding_key
from harness.errors import EngineUnavailableError, UsageError
from harness.registry.devices import require_device
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue, encoder_parameters
from harness.rerank.reranker import Facts
from harness.store.cache import JSON

__all__ = ["LocalModel", "Transformer"]

_SHARED = ("model", "revision", "dtype", "trust_remote_code")
_CANNOT_LOAD = (OSError, ValueError, RuntimeError, ImportError, KeyError, AttributeError, TypeError)
_NO_LIMIT = 100_000
"""Tokenizers without a limit name a huge one."""
_USUAL_LIMIT = 512
_VERSIONS = ("sentence-transformers", "transformers", "tokenizers", "torch")


class LocalModel:
    """A model of a folder, an installed package or the hub. Sub-classes say how it is loaded and asked."""

    whole_numbers: ClassVar[bool] = False
    group: ClassVar[int] = 2048
    stored: ClassVar[bool] = True
    paid: ClassVar[bool] = False
    name: ClassVar[str] = ""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        """Raises UsageError for a model that is not named, or is none that runs here."""
        self._parameters = parameters
        if not parameters["model"]:
            raise UsageError(
                "it has no model of its own", fix="name one with model=: a hub name, a folder, package:NAME"
            )
        declared = encoder_parameters("dense")
        defaults = {name: parameter.default for name, parameter in declared.items()}
        self._settings = Settings.of("dense", {**defaults, **{name: parameters[name] for name in _SHARED}})
        if not self._settings.source.has_files:
            fix = "name a hub model, a folder, or package:NAME"
            raise UsageError(f"model={parameters['model']} is no model that runs here", fix=fix)
        self.device = str(parameters["device"])

    def identity(self) -> dict[str, JSON]:
        """The model's files, and what is done with the pair before the model sees it."""
        return {
            "model": encoding_key(self._settings, "documents", "", fetch=True)["model"],
            "dtype": self._settings.dtype,
            "max_length": self.parameter("max_length"),
            **self.extra_identity(),
        }

    def extra_identity(self) -> dict[str, JSON]:
        """What else changes a score, for models of one kind."""
        return {}

    def content(self, query: str, document: str) -> str:  # noqa: ARG002 - the interface's
        """The document."""
        return document

    def allow(self, pairs: int) -> None:
        """No call is made."""

    def parameter(self, name: str) -> ParameterValue:
        """One of the parameters that were given."""
        return self._parameters[name]

    @property
    def facts(self) -> Facts:
        """Device and versions."""
        return {"device": self.device, **{f"version of {name}": version(name) for name in _VERSIONS}}

    def close(self) -> None:
        """The process ends with the job."""

    def loaded(self, load: Callable[[Path], Any]) -> Any:  # noqa: ANN401 - classes of optional libraries
        """What ``load`` makes of the model's folder.

        Raises EngineUnavailableError when it cannot, for files that lack weights and for a device that is not there.
        """
        require_device(self.device, feature=f"reranker '{self.name}'")
        folder = model_folder(self._settings, fetch=True)
        try:
            return load_whole(lambda: load(folder))
        except _CANNOT_LOAD as error:
            raise EngineUnavailableError(
                f"reranker '{self.name}': model '{self._parameters['model']}' in '{folder}' cannot be loaded: {error}",
                fix="another reranker may be for its kind; some need remote code",
            ) from error

    def options(self) -> dict[str, Any]:
        """Keyword arguments of Transformers' ``from_pretrained``."""
        remote = self._settings.trust_remote_code
        return {"trust_remote_code": remote, "local_files_only": not remote}


class Transformer(LocalModel):
    """A model that Transformers loads, asked in batches of tokens."""

    auto_class: ClassVar[str] = ""

    def load(self) -> None:
        """Tokenizer and model, the model on its device and ready to be asked."""
        library = require("transformers", extra="dense", feature=f"reranker {self.name}")
        torch = require("torch", extra="dense", feature=f"reranker {self.name}")
        self.torch: Any = torch
        if self.device == "auto":
            self.device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"

        def load(folder: Path) -> tuple[Any, Any]:
            tokenizer = library.AutoTokenizer.from_pretrained(str(folder), **self.options())
            model = getattr(library, self.auto_class).from_pretrained(
                str(folder), dtype=getattr(torch, self._settings.dtype), **self.options()
            )
            return tokenizer, model.to(self.device).eval()

        self.tokenizer, self.model = self.loaded(load)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if self.model.config.pad_token_id is None:
            self.model.config.pad_token_id = self.tokenizer.pad_token_id
        self.max_length = self.limit()
        self.prepare()

    def prepare(self) -> None:
        """What a kind of model needs besides, once it is loaded."""

    def batch_scores(self, queries: Sequence[str], documents: Sequence[str]) -> Any:  # noqa: ANN401 - a tensor
        """The scores of one batch, a float tensor (n,)."""
        raise NotImplementedError

    def score(self, queries: Sequence[str], documents: Sequence[str], out: Float32Array, progress: Progress) -> None:
        """Batch by batch."""
        size = int(self.parameter("batch_size"))
        for start in range(0, len(queries), size):
            part = slice(start, start + size)
            with self.torch.inference_mode():
                scores = self.batch_scores(queries[part], documents[part])
            out[part] = scores.float().cpu().numpy()
            progress.advance(len(scores))

    def limit(self) -> int:
        """The tokens of a pair: what was given, else the tokenizer's limit, else the model's."""
        given = int(self.parameter("max_length"))
        if given:
            refuse_more_tokens(self.model, given, "max_length")
            return given
        if self.tokenizer.model_max_length < _NO_LIMIT:
            return int(self.tokenizer.model_max_length)
        return token_places(self.model) or _USUAL_LIMIT
