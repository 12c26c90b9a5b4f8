"""Rerankers that run a model on this machine: cross-encoders, sequence classifiers, Qwen3-Reranker."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.encoders.model_checks import (
    CAUSAL,
    CLASSIFYING,
    head_of,
    is_qwen3_classifier,
    load_complete,
    position_limit,
    refuse_more_tokens,
)
from harness.encoders.model_files import model_folder
from harness.encoders.sentence_transformer import VERSIONS
from harness.encoders.settings import Settings
from harness.encoders.sources import encoding_key, model_digest
from harness.encoders.token_counts import TextLengths, TokenCounter, Unit, limit_origin, token_counts
from harness.errors import EngineUnavailableError, UsageError
from harness.registry.devices import require_device
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue, encoder_parameters
from harness.rerank.reranker import Facts, Reranker
from harness.store.cache import JSON

_SHARED = ("model", "revision", "dtype", "trust_remote_code")
_CANNOT_LOAD = (OSError, ValueError, RuntimeError, ImportError, KeyError, AttributeError, TypeError)
_NO_LIMIT = 100_000
"""Tokenizers without a limit name a huge one."""
_USUAL_LIMIT = 512

_QWEN3_SYSTEM = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".'
)
"""The wording that these models were trained with; any other makes them another model."""
_QWEN3_QUERY = "<Instruct>: {instruction}\n<Query>: {query}\n<Document>:"
_QWEN3_LENGTH = 8192
_LAST_ONLY = {"logits_to_keep": 1, "use_cache": False}
_PLACEHOLDER = "\ue000"
"""Represents the document while the template is filled in: a character for private use, which no text holds."""


class LocalModel(Reranker):
    """A model of a folder, an installed package or the hub. Sub-classes load it and score with it."""

    name: ClassVar[str] = ""
    unit: ClassVar[Unit | None] = "tokens"
    heads: ClassVar[tuple[str, ...]] = (CLASSIFYING,)
    """Kinds of models whose weights this reranker was made for."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        """Check the parameters; raises UsageError for a model that is missing or does not run here."""
        self.parameters = parameters
        self._lengths: TextLengths | None = None
        self._counts: list[tuple[int, int]] = []
        if not parameters["model"]:
            raise UsageError(
                "it has no default model", fix="name a model with model=: a hub name, a folder, package:NAME"
            )
        defaults = {name: parameter.default for name, parameter in encoder_parameters("dense").items()}
        self._settings = Settings.of("dense", {**defaults, **{name: parameters[name] for name in _SHARED}})
        if not self._settings.source.has_files:
            fix = "name a hub model, a folder, or package:NAME"
            raise UsageError(f"model={parameters['model']} is not a model that runs here", fix=fix)
        self.device = str(parameters["device"])

    def identity(self) -> dict[str, JSON]:
        """Return the model's files, and all that is done with the pair before the model sees it.

        Raises EngineUnavailableError for a model with another head than the reranker reads, even if scores are cached.
        """
        self._head()
        return {
            "model": encoding_key(self._settings, "documents", "", fetch=True)["model"],
            "dtype": self._settings.dtype,
            "max_length": self.parameters["max_length"],
            **self.extra_identity(),
        }

    def extra_identity(self) -> dict[str, JSON]:
        """Return further values that change a score, for models of one kind."""
        return {}

    @property
    def lengths(self) -> TextLengths | None:
        """Tokens of the pairs of the last call, and the tokens that the model did not read."""
        return self._lengths

    def limit_from(self, limit: int) -> str:
        """Return the source of the limit of tokens of a pair, in words."""
        if self.parameters["max_length"] == limit:
            return "max_length= of the backend"
        return limit_origin(model_folder(self._settings), limit, f"the default of the reranker '{self.name}'")

    @property
    def facts(self) -> Facts:
        """Return device, versions, and the id of the model's content."""
        facts = {"device": self.device, "model_digest": str(model_digest(self._settings))}
        return {**facts, **{f"version of {name}": version(name) for name in VERSIONS}}

    def _load_from(self, load: Callable[[Path], Any]) -> Any:
        """Call ``load`` with the model's folder.

        Raises EngineUnavailableError if that fails, if the files lack weights, and if the device is not there.
        """
        require_device(self.device, feature=f"reranker '{self.name}'")
        self.head = self._head()
        folder = model_folder(self._settings, fetch=True)
        try:
            return load_complete(lambda: load(folder))
        except _CANNOT_LOAD as error:
            raise self._cannot_load(folder, error) from error

    def _head(self) -> str:
        """Return which kind of head the model has; raises EngineUnavailableError for another than it is read with."""
        folder = model_folder(self._settings, fetch=True)
        try:
            return head_of(folder, self.heads, self.name)
        except ValueError as error:
            raise self._cannot_load(folder, error) from error

    def _cannot_load(self, folder: Path, error: Exception) -> EngineUnavailableError:
        return EngineUnavailableError(
            f"reranker '{self.name}': model '{self.parameters['model']}' in '{folder}' cannot be loaded: {error}",
            fix="another reranker may be for its kind; some need remote code",
        )

    def _options(self) -> dict[str, Any]:
        """Return keyword arguments of Transformers' ``from_pretrained``."""
        remote = self._settings.trust_remote_code
        return {"trust_remote_code": remote, "local_files_only": not remote}


class CrossEncoder(LocalModel):
    """sentence-transformers' ``CrossEncoder``: query and document read together, one number for the pair.

    The score is the model's raw output: its sigmoid would bring the best documents to the same float32. An
    ``instruction`` is for models that were trained with an instruction: in Qwen3's form (:class:`Qwen3` then scores),
    or with their own prompts.
    """

    name: ClassVar[str] = "cross-encoder"

    def load(self) -> None:
        """Load the model; raises MissingExtraError, or EngineUnavailableError (also for several labels)."""
        self._qwen3 = self._as_qwen3()
        if self._qwen3 is not None:
            self._qwen3.load()
            self.device = self._qwen3.device
            return
        library = require("sentence_transformers", extra="dense", feature="reranker cross-encoder")
        torch = require("torch", extra="dense", feature="reranker cross-encoder")
        length = int(self.parameters["max_length"])

        def load(folder: Path) -> Any:
            return library.CrossEncoder(
                str(folder),
                device=None if self.device == "auto" else self.device,
                max_length=length or None,
                activation_fn=torch.nn.Identity(),
                model_kwargs={"dtype": self._settings.dtype},
                **self._options(),
            )

        self._model = self._load_from(load)
        self._tokens = TokenCounter(self._model, self.limit_from)
        refuse_more_tokens(self._model, length, "max_length")
        self.device = str(self._model.device)
        if self._model.num_labels != 1:
            raise EngineUnavailableError(
                f"reranker 'cross-encoder': the model has {self._model.num_labels} labels, and no single score",
                fix="use the reranker classifier, and choose the label that counts with label=",
            )
        reads_messages = "message" in getattr(self._model[0], "modality_config", ())
        if self._instruction is not None and not (self._model.prompts or reads_messages):
            raise EngineUnavailableError(
                "reranker 'cross-encoder': instruction= has no effect on this model: it was trained without "
                "instructions",
                fix="leave it out",
            )

    @property
    def _instruction(self) -> str | None:
        return str(self.parameters["instruction"]) or None

    def extra_identity(self) -> dict[str, JSON]:
        """Return the instruction if there is one."""
        return {} if self._instruction is None else {"instruction": self._instruction}

    def _as_qwen3(self) -> Qwen3 | None:
        """Return the reranker that scores a model in Qwen3's form with an instruction; None for any other model."""
        folder = model_folder(self._settings, fetch=True)
        if self._instruction is None or not is_qwen3_classifier(folder):
            return None
        return Qwen3(self.parameters)

    def score(self, queries: Sequence[str], documents: Sequence[str], out: Float32Array, progress: Progress) -> None:
        """Score all pairs in one call; the library makes the batches."""
        if self._qwen3 is not None:
            self._qwen3.score(queries, documents, out, progress)
            self._lengths = self._qwen3.lengths
            return
        pairs = list(zip(queries, documents, strict=True))
        size = int(self.parameters["batch_size"])
        out[:] = self._model.predict(
            pairs, prompt=self._instruction, batch_size=size, show_progress_bar=False, convert_to_numpy=True
        )
        self._lengths = self._tokens.take(pairs)
        progress.advance(len(pairs))


class Transformer(LocalModel):
    """A model that Transformers loads, run on batches of tokens."""

    auto_classes: ClassVar[Mapping[str, str]] = {
        CLASSIFYING: "AutoModelForSequenceClassification",
        CAUSAL: "AutoModelForCausalLM",
    }

    def load(self) -> None:
        """Load tokenizer and model, and put the model on its device."""
        library = require("transformers", extra="dense", feature=f"reranker {self.name}")
        torch = require("torch", extra="dense", feature=f"reranker {self.name}")
        self.torch: Any = torch
        if self.device == "auto":
            self.device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"

        def load(folder: Path) -> tuple[Any, Any]:
            tokenizer = library.AutoTokenizer.from_pretrained(str(folder), **self._options())
            model = getattr(library, self.auto_classes[self.head]).from_pretrained(
                str(folder), dtype=getattr(torch, self._settings.dtype), **self._options()
            )
            return tokenizer, model.to(self.device).eval()

        self.tokenizer, self.model = self._load_from(load)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if self.model.config.pad_token_id is None:
            self.model.config.pad_token_id = self.tokenizer.pad_token_id
        self.max_length = self.limit()
        self.prepare()

    def prepare(self) -> None:
        """Prepare the loaded model, as its kind needs."""

    def limit(self) -> int:
        """Return the tokens of a pair: max_length, else the tokenizer's limit, else the model's."""
        max_length = int(self.parameters["max_length"])
        if max_length:
            refuse_more_tokens(self.model, max_length, "max_length")
            return max_length
        if self.tokenizer.model_max_length < _NO_LIMIT:
            return int(self.tokenizer.model_max_length)
        return position_limit(self.model) or _USUAL_LIMIT

    def score(self, queries: Sequence[str], documents: Sequence[str], out: Float32Array, progress: Progress) -> None:
        """Score batch by batch."""
        size = int(self.parameters["batch_size"])
        self._counts.clear()
        for start in range(0, len(queries), size):
            part = slice(start, start + size)
            with self.torch.inference_mode():
                scores = self.batch_scores(queries[part], documents[part])
            out[part] = scores.float().cpu().numpy()
            progress.advance(len(scores))
        counts = np.array(self._counts, dtype=np.int32).reshape(-1, 2)
        lengths = TextLengths(counts, self.max_length, self.limit_from(self.max_length))
        self._lengths = lengths if len(counts) == len(queries) else None

    def batch_scores(self, queries: Sequence[str], documents: Sequence[str]) -> Any:
        """Return the scores of one batch, a float tensor (n,), and note the lengths of its pairs."""
        raise NotImplementedError


class Classifier(Transformer):
    """Transformers' sequence classification.

    With one label the score is its logit; with several, the log odds of the label that ``label`` counts to (-1: the
    last).
    """

    name: ClassVar[str] = "classifier"

    def extra_identity(self) -> dict[str, JSON]:
        """Return the label."""
        return {"label": self.parameters["label"]}

    def prepare(self) -> None:
        """Find the label; raises EngineUnavailableError for a label that the model does not have."""
        labels, label = int(self.model.config.num_labels), int(self.parameters["label"])
        if not -labels <= label < labels:
            raise EngineUnavailableError(
                f"reranker 'classifier': label {label} of a model with {labels}",
                fix="count from 0, or from -1 backwards",
            )
        self._label = label % labels

    def batch_scores(self, queries: Sequence[str], documents: Sequence[str]) -> Any:
        """Return logits, or log odds of the label."""
        encoded = self.tokenizer(
            list(queries),
            list(documents),
            padding=True,
            truncation="longest_first",
            max_length=self.max_length,
            return_tensors="pt",
        )
        self._counts += map(token_counts, encoded.encodings or ())
        encoded = encoded.to(self.device)
        logits = self.model(**encoded).logits.float()
        if logits.shape[1] == 1:
            return logits[:, 0]
        other_logits = self.torch.cat([logits[:, : self._label], logits[:, self._label + 1 :]], dim=1)
        return logits[:, self._label] - self.torch.logsumexp(other_logits, dim=1)


class Qwen3(Transformer):
    """Rerankers like Qwen3-Reranker: a language model is prompted in its chat template.

    The score is the logit of ``yes`` minus the logit of ``no`` as the next token, the log odds of relevance. A model
    for sequence classification has a trained head instead: the score is the logit of its only label. Only the document
    is cut to ``max_length`` tokens of the whole, so that question and template stay; by default, to 8,192 or the
    model's own limit, whichever is less.
    """

    name: ClassVar[str] = "qwen3"
    heads: ClassVar[tuple[str, ...]] = (CAUSAL, CLASSIFYING)

    def extra_identity(self) -> dict[str, JSON]:
        """Return the instruction, and whether a trained head scores."""
        head = {"head": "classifier"} if self._head() == CLASSIFYING else {}
        return {"instruction": self.parameters["instruction"], "template": 2, **head}

    def prepare(self) -> None:
        """Prepare the prompt; raises EngineUnavailableError without a chat template or a single score.

        A language model has one if yes and no are tokens, a classifier if it has one label.
        """
        if not self.tokenizer.chat_template:
            raise EngineUnavailableError(
                f"reranker 'qwen3': model '{self.parameters['model']}' has no chat template", fix="use another reranker"
            )
        if self.head == CLASSIFYING:
            if self.model.config.num_labels != 1:
                raise EngineUnavailableError(
                    f"reranker 'qwen3': the model has {self.model.config.num_labels} labels, and no single score",
                    fix="use the reranker classifier, and choose the label that counts with label=",
                )
            return
        self._yes, self._no = (self._token(word) for word in ("yes", "no"))
        # only the last logits are read, and nothing is generated after them
        accepted = inspect.signature(self.model.forward).parameters
        self._last_only = {name: value for name, value in _LAST_ONLY.items() if name in accepted}

    def limit(self) -> int:
        """Return max_length, else 8,192 or the model's limit: the longest texts it can read would fill the memory."""
        model_limit = position_limit(self.model) or _QWEN3_LENGTH
        return int(self.parameters["max_length"]) or min(super().limit(), _QWEN3_LENGTH, model_limit)

    def batch_scores(self, queries: Sequence[str], documents: Sequence[str]) -> Any:
        """Return the log odds of yes, or the logits of the head."""
        rows = [self._tokens(query, document) for query, document in zip(queries, documents, strict=True)]
        longest = max(map(len, rows))
        padding = self.tokenizer.pad_token_id or 0
        # on the left, so that the last position of every row is before the answer
        ids = self.torch.tensor([[padding] * (longest - len(row)) + row for row in rows], device=self.device)
        mask = self.torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=self.device)
        if self.head == CLASSIFYING:
            return self.model(input_ids=ids, attention_mask=mask).logits[:, 0]
        last = self.model(input_ids=ids, attention_mask=mask, **self._last_only).logits[:, -1, :].float()
        return last[:, self._yes] - last[:, self._no]

    def _tokens(self, query: str, document: str) -> list[int]:
        question = _QWEN3_QUERY.format(instruction=self.parameters["instruction"], query=query)
        chat = [{"role": "system", "content": _QWEN3_SYSTEM}, {"role": "user", "content": question + _PLACEHOLDER}]
        text = self.tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        before, _, after = text.partition(_PLACEHOLDER)
        head, tail = self._encoded(before), self._encoded(after)
        room = max(self.max_length - len(head) - len(tail), 0)
        # byte-level tokenizers keep a space with the word after it: encoded apart, it would be a token that the model
        # never saw at this place
        tokens = self._encoded(f" {document}")
        self._counts.append((len(head) + len(tokens) + len(tail), max(len(tokens) - room, 0)))
        return [*head, *tokens[:room], *tail]

    def _encoded(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _token(self, word: str) -> int:
        ids = self._encoded(word)
        if len(ids) != 1 or ids[0] == self.tokenizer.unk_token_id:
            raise EngineUnavailableError(
                f"reranker 'qwen3': model '{self.parameters['model']}' has no token '{word}'",
                fix="use another reranker",
            )
        return ids[0]


LOCAL_MODELS: Mapping[str, type[LocalModel]] = {model.name: model for model in (CrossEncoder, Classifier, Qwen3)}
