"""Refuse models that load but are not the trained model: random weights, and models of another kind.

Transformers gives a layer that a model's files do not have random weights, and sentence-transformers makes a dense
model of a sparse one and the other way round. Both are a beginning for training; scores from them mean nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.errors import EngineUnavailableError
from harness.registry.optional import require

CONFIG = "config_sentence_transformers.json"
CLASSIFYING, CAUSAL = "for sequence classification", "that generate text"
"""Kinds of heads that score a pair of texts."""
_ENDINGS = {CLASSIFYING: ("ForSequenceClassification",), CAUSAL: ("ForCausalLM", "LMHeadModel")}
"""Ends of the names of Transformers' classes."""
_RERANKERS = {"cross-encoder": (CLASSIFYING,), "classifier": (CLASSIFYING,), "qwen3": (CAUSAL, CLASSIFYING)}
_MAX_NAMES = 3
_TABLE = "position_embeddings"
_UNUSED = "pooler."
"""An encoder's layer whose output no module of sentence-transformers reads; many models are stored without it."""
_INSTEAD = {
    "SentenceTransformer": "its vectors are dense: take flat, chroma, qdrant-dense or lucene-hnsw",
    "SparseEncoder": "its vectors are sparse: take csr-splade, qdrant-splade or lucene-impact",
    "CrossEncoder": "it reads query and document together: take it as a second stage, A|cross-encoder:model=…",
}


def refuse_other_kind(folder: Path, kind: str) -> None:
    """Raise ValueError if sentence-transformers saved the model as another class than ``kind``.

    A folder without a list of modules is a model of Transformers: any of them makes a ``SentenceTransformer``, but
    only one with the head of a masked language model makes a ``SparseEncoder`` with trained weights. Old models do not
    name their kind, and are ``SentenceTransformer``.
    """
    if not (folder / "modules.json").is_file():
        heads = _read(folder / "config.json").get("architectures") or []
        if kind == "SparseEncoder" and not any(str(head).endswith("ForMaskedLM") for head in heads):
            raise ValueError("it has no masked language model head, so it gives no term weights")
        return
    saved = str(_read(folder / CONFIG).get("model_type", "SentenceTransformer"))
    if saved != kind:
        raise ValueError(f"it is a {saved}, and no {kind}; {_INSTEAD.get(saved, 'take a model of that kind')}")


def head_of(folder: Path, accepted: Sequence[str], reranker: str) -> str:
    """Return which of the ``accepted`` kinds of heads a model of Transformers was saved with.

    Its ``config.json`` names the class that it was saved as. A model that names none is taken for the first kind, as
    are a model whose own program is run and a model that sentence-transformers saved, whose modules identify it.

    Raises:
        ValueError: It has another head, whose weights the reranker would ignore, or sentence-transformers saved it as
            another kind than a cross-encoder.
    """
    if (folder / "modules.json").is_file():
        refuse_other_kind(folder, "CrossEncoder")
        return accepted[0]
    config = _read(folder / "config.json")
    architectures = [str(name) for name in config.get("architectures") or ()]
    if not architectures or config.get("auto_map"):
        return accepted[0]
    for head in accepted:
        if architectures[0].endswith(_ENDINGS[head]):
            return head
    other_classes = [
        name for name, heads in _RERANKERS.items() if any(architectures[0].endswith(_ENDINGS[one]) for one in heads)
    ]
    instead = f"; take {' or '.join(other_classes)}" if other_classes else ""
    raise ValueError(
        f"its architecture is {architectures[0]}, and '{reranker}' reads models {' or '.join(accepted)}{instead}"
    )


def is_qwen3_classifier(folder: Path) -> bool:
    """Return whether Transformers saved the model as a ``Qwen3ForSequenceClassification``."""
    architectures = _read(folder / "config.json").get("architectures") or ()
    return not (folder / "modules.json").is_file() and "Qwen3ForSequenceClassification" in architectures


def refuse_more_tokens(model: Any, limit: int, parameter: str) -> None:
    """Raise EngineUnavailableError if ``limit``, the value of ``parameter``, exceeds the model's places for tokens.

    Without this check the first long text would end the run. Not every kind of model says how many places it has.
    """
    model_limit = position_limit(model)
    if model_limit is not None and limit > model_limit:
        raise EngineUnavailableError(
            f"{parameter}={limit}, and the model has places for {model_limit} tokens",
            fix=f"ask for {model_limit} at most",
        )


def position_limit(model: Any) -> int | None:
    """Return the number of tokens that a model has positions for; None if it does not say.

    Models of RoBERTa's family count positions after the padding's, so they have fewer positions than rows.
    """
    rows = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if not rows:
        return None
    tables = (table for name, table in model.named_modules() if name.endswith(_TABLE))
    padding = getattr(next(tables, None), "padding_idx", None)
    return int(rows) - (0 if padding is None else int(padding) + 1)


def load_complete(load: Callable[[], Any]) -> Any:
    """Call ``load`` and return its model, all of whose weights are from the model's files.

    Raises:
        ValueError: Transformers initialised weights randomly (their names are listed); a pooler's do not count if only
            an encoder is loaded. Any exception of ``load`` is passed on.
    """
    with _missing_weights() as made_up:
        loaded = load()
    if made_up:
        names = sorted(made_up)
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        names_text = f"{', '.join(names[:_MAX_NAMES])}{more}"
        raise ValueError(f"its files have no weights for {names_text}, and they would be random")
    return loaded


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return content


@contextmanager
def _missing_weights() -> Iterator[set[str]]:
    """Collect the names of missing weights of all models that Transformers loads inside the block.

    ``from_pretrained`` returns them on request only, and the libraries above it do not request them.
    """
    base: Any = require("transformers", extra="dense", feature="models").PreTrainedModel
    original: Any = base.__dict__["from_pretrained"]
    missing: set[str] = set()

    def from_pretrained(cls: Any, *args: Any, **options: Any) -> Any:
        requested = options.pop("output_loading_info", False)
        model, info = original.__func__(cls, *args, output_loading_info=True, **options)
        headless = model.base_model is model
        missing.update(name for name in info["missing_keys"] if not (headless and name.startswith(_UNUSED)))
        return (model, info) if requested else model

    base.from_pretrained = classmethod(from_pretrained)
    try:
        yield missing
    finally:
        base.from_pretrained = original
