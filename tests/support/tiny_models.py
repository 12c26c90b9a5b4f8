"""Random models of two layers, in the form that sentence-transformers saves: real code paths in a second."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = """the a cat dog cats dogs sat on mat garden gardens need water and light rail reached station in query passage
: zeppelin"""


def tiny_bert(folder: Path, kind: str = "BertModel", *, seed: int = 0) -> Path:
    """Weights and a word-piece tokenizer in Transformers' format."""
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    letters = "bcdefghijklmnopqrstuvwxyz"
    vocabulary = [*_SPECIAL, *_WORDS.split(), *letters, *(f"##{letter}" for letter in f"a{letters}")]
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    torch.manual_seed(seed)
    getattr(transformers, kind)(config).save_pretrained(folder)
    numbers = {word: number for number, word in enumerate(vocabulary)}
    transformers.BertTokenizerFast(vocab=numbers, model_max_length=64).save_pretrained(folder)
    return folder


def tiny_dense(
    folder: Path, *, prompts: Mapping[str, str] | None = None, default_prompt: str | None = None, seed: int = 0
) -> Path:
    """A ``SentenceTransformer`` of 32 dimensions; ``prompts`` are declared in its configuration."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(str(tiny_bert(folder.with_name(f"{folder.name}-bert"), seed=seed)))
    model = SentenceTransformer(modules=[transformer, Pooling(32)], device="cpu")
    model.save(str(folder), create_model_card=False)
    if prompts is not None:
        path = folder / "config_sentence_transformers.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps({**config, "prompts": dict(prompts), "default_prompt_name": default_prompt}))
    return folder


def tiny_splade(folder: Path, *, inference_free: bool = False, seed: int = 0) -> Path:
    """A ``SparseEncoder``: SPLADE; ``inference_free`` looks up a weight for each token of a query."""
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sentence_transformer.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import Router, SparseStaticEmbedding, SpladePooling

    bert = tiny_bert(folder.with_name(f"{folder.name}-bert"), "BertForMaskedLM", seed=seed)
    splade = [Transformer(str(bert), transformer_task="fill-mask"), SpladePooling(pooling_strategy="max")]
    if not inference_free:
        SparseEncoder(modules=splade, device="cpu").save(str(folder), create_model_card=False)
        return folder
    weights = torch.linspace(0.5, 2.0, len(splade[0].tokenizer))
    static = SparseStaticEmbedding(tokenizer=splade[0].tokenizer, weight=weights)
    router = Router.for_query_document(query_modules=[static], document_modules=splade)
    SparseEncoder(modules=[router], device="cpu").save(str(folder), create_model_card=False)
    return folder
