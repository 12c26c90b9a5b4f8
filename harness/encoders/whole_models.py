"""Refuses what loads and is not the model that was trained: weights made up at random, and models of another kind.

Transformers gives a layer that a model's files do not have random weights, and sentence-transformers makes a dense
model of a sparse one and the other way round. Both are a beginning for training; scores from them mean nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.errors import EngineUnavailableError
from harness.registry.optional import require

__all__ = ["CONFIG", "load_whole", "refuse_more_tokens", "refuse_other_kind", "token_places"]

CONFIG = "config_sentence_transformers.json"
_SHOWN = 3
_TABLE = "position_embeddings"
_UNUSED = "pooler."
"""Of encoders, a layer whose output no module of sentence-transformers reads; many models are stored without it."""
_INSTEAD = {
    "SentenceTransformer": "its vectors are dense: take flat, chroma, qdrant-dense or lucene-hnsw",
    "SparseEncoder": "its vectors are sparse: take csr-splade, qdrant-splade or lucene-impact",
    "CrossEncoder": "it reads query and document together: take it as a second stage, A|cross-encoder:model=…",
}


def refuse_other_kind(folder: Path, kind: str) -> None:
    """Raise ValueError for a model that sentence-transformers saved as another kind than ``kind``, one of its classes.

    A folder without its list of modules is one of Transformers: of any it makes a ``SentenceTransformer``, but a
    ``SparseEncoder`` with trained weights only of one that has the head of a masked language model. Models of before
    there was more than one kind do not name theirs, and are ``SentenceTransformer``.
    """
    if not (folder / "modules.json").is_file():
        heads = _read(folder / "config.json").get("architectures") or []
        if kind == "SparseEncoder" and not any(str(head).endswith("ForMaskedLM") for head in heads):
            raise ValueError("it has no head of a masked language model, so there are no weights of terms in it")
        return
    saved = str(_read(folder / CONFIG).get("model_type", "SentenceTransformer"))
    if saved != kind:
        raise ValueError(f"it is a {saved}, and no {kind}; {_INSTEAD.get(saved, 'take a model of that kind')}")


def refuse_more_tokens(model: Any, asked: int, parameter: str) -> None:  # noqa: ANN401 - a model of Transformers, or None
    """Raise EngineUnavailableError where ``asked`` tokens, a ``parameter``, are more than the model has places for.

    Without this a long text would end the run, and short ones would not. Not every kind of model says how many it has.
    """
    places = token_places(model)
    if places is not None and asked > places:
        raise EngineUnavailableError(
            f"{parameter}={asked}, and the model has places for {places} tokens", fix=f"ask for {places} at most"
        )


def token_places(model: Any) -> int | None:  # noqa: ANN401 - a model of Transformers, or None
    """How many tokens a model has places for; None where it does not say.

    Models of RoBERTa's family count the places of tokens from behind that of padding, so they have fewer than rows.
    """
    rows = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if not rows:
        return None
    tables = (table for name, table in model.named_modules() if name.endswith(_TABLE))
    padding = getattr(next(tables, None), "padding_idx", None)
    return int(rows) - (0 if padding is None else int(padding) + 1)


def load_whole(load: Callable[[], Any]) -> Any:  # noqa: ANN401 - classes of optional libraries
    """What ``load`` gives, all of whose weights are from the model's files.

    Raises ValueError with the names of weights that Transformers had to make up, those of a pooler excepted where
    nothing but an encoder is loaded, and whatever ``load`` raises.
    """
    with _noting() as made_up:
        loaded = load()
    if made_up:
        names = sorted(made_up)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        listed = f"{', '.join(names[:_SHOWN])}{more}"
        raise ValueError(f"its files have no weights for {listed}, and random ones would stand there")
    return loaded


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


@contextmanager
def _noting() -> Iterator[set[str]]:
    """While this lasts, the names of missing weights of all models that Transformers loads come into the set.

    ``from_pretrained`` tells them when it is asked to, and libraries above it do not ask.
    """
    base: Any = require("transformers", extra="dense", feature="models").PreTrainedModel
    original: Any = base.__dict__["from_pretrained"]
    missing: set[str] = set()

    def noting(cls: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - stands in for a method of any signature
        asked = options.pop("output_loading_info", False)
        model, info = original.__func__(cls, *args, output_loading_info=True, **options)
        headless = model.base_model is model
        missing.update(name for name in info["missing_keys"] if not (headless and name.startswith(_UNUSED)))
        return (model, info) if asked else model

    base.from_pretrained = classmethod(noting)
    try:
        yield missing
    finally:
        base.from_pretrained = original
