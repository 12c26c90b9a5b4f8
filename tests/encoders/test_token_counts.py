"""Tokens that models do not read are counted while they tokenise, each against the tokenizer called without a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from installed import skip_module_without
from tiny_models import tiny_dense, tiny_splade

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.encoders.sentence_transformer import SentenceTransformerModel
from harness.encoders.settings import Role, Settings
from harness.encoders.token_counts import limit_origin
from harness.registry.parameters import encoder_parameters

skip_module_without("sentence_transformers")

TEXTS = ["the dog sat on the mat", "", "garden " * 200, "the cat sat. " * 30, "a dog"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "dense": tiny_dense(folder / "dense", prompts={"query": "query: ", "document": ""}),
        "splade": tiny_splade(folder / "splade"),
        "free": tiny_splade(folder / "free", inference_free=True),
    }


def loaded(kind: Literal["dense", "splade"], folder: Path, **given: Any) -> SentenceTransformerModel:
    defaults = {name: one.default for name, one in encoder_parameters(kind).items()}
    return SentenceTransformerModel.load(
        Settings.of(kind, {**defaults, "model": str(folder), "device": "cpu", **given})
    )


def counts(model: SentenceTransformerModel, role: Role) -> np.ndarray:
    model.encode(Inputs(Ids.of(map(str, range(len(TEXTS)))), pa.chunked_array([TEXTS])), role)
    assert model.lengths is not None
    return model.lengths.counts


def expected(folder: Path, prompt: str, room: int) -> list[list[int]]:
    """Return the tokens of every text with its prompt, and those beyond the ``room`` for them."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    lengths = [len(tokenizer(prompt + text, add_special_tokens=False)["input_ids"]) for text in TEXTS]
    return [[length, max(0, length - room)] for length in lengths]


@pytest.mark.parametrize(("role", "prompt"), [("documents", ""), ("queries", "query: ")])
def test_a_dense_model_with_a_prompt(models, role, prompt):
    model = loaded("dense", models["dense"], batch_size=2)
    assert counts(model, role).tolist() == expected(models["dense"], prompt, 62)
    assert model.lengths is not None
    assert model.lengths[1:] == (64, "model_max_length in the model's tokenizer_config.json", "tokens")


def test_a_limit_that_the_user_set(models):
    model = loaded("dense", models["dense"], max_seq_length=10)
    assert counts(model, "documents").tolist() == expected(models["dense"], "", 8)
    assert model.lengths is not None
    assert model.lengths[1:3] == (10, "max_seq_length= of the backend")


@pytest.mark.parametrize("role", ["documents", "queries"])
def test_a_sparse_model(models, role):
    assert counts(loaded("splade", models["splade"]), role).tolist() == expected(models["splade"], "", 62)


def test_queries_that_are_only_looked_up_are_tokenised_again_where_they_fill_the_limit(models):
    model = loaded("splade", models["free"])
    tokenizer = next(iter(models["free"].glob("query*")))
    assert counts(model, "queries").tolist() == expected(tokenizer, "", 64)
    assert counts(model, "documents").tolist() == expected(tokenizer, "", 62)


def test_a_model_of_word_vectors_has_no_limit(tmp_path):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tiny_rerankers import WORDS, word_tokenizer

    torch.manual_seed(0)
    static = StaticEmbedding(word_tokenizer(WORDS), embedding_dim=8)
    SentenceTransformer(modules=[static], device="cpu").save(str(tmp_path / "static"), create_model_card=False)
    model = loaded("dense", tmp_path / "static")
    assert counts(model, "documents")[2].tolist() == [200, 0]
    assert model.lengths is not None
    assert model.lengths[1:3] == (None, "")
    assert "max_seq_length" not in model.facts


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("0_Transformer/sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
        ("config.json", "max_position_embeddings"),
    ],
)
def test_where_a_limit_is_set(tmp_path, file, name):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'{{"{name}": 256}}')
    assert limit_origin(tmp_path, 256) == f"{name} in the model's {path.name}"
    assert limit_origin(tmp_path, 512) == "the model's tokenizer"
