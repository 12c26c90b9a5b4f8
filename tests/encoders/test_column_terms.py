"""Columns of learned sparse vectors as the model's tokens, read without loading a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.encoders.column_terms import column_terms
from harness.encoders.settings import Settings
from harness.registry.parameters import encoder_parameters


def settings(model: str) -> Settings:
    defaults = {name: parameter.default for name, parameter in encoder_parameters("splade").items()}
    return Settings.of("splade", {**defaults, "model": model})


def write(folder: Path, name: str, content: object) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    "tokenizer",
    [
        {"model": {"vocab": {"##s": 1, "물": 0}}, "added_tokens": [{"id": 2, "content": "[CLS]"}]},
        {"model": {"vocab": [["물", -1.5], ["##s", -2.0], ["[CLS]", 0]]}},
    ],
)
def test_tokens_are_those_of_the_tokenizers_file(tokenizer: object, tmp_path: Path) -> None:
    write(tmp_path, "config.json", {})
    write(tmp_path, "query_0_SparseStaticEmbedding/tokenizer.json", tokenizer)
    assert column_terms(settings(str(tmp_path))) == {0: "물", 1: "##s", 2: "[CLS]"}


def test_an_older_vocabulary_has_a_token_a_line(tmp_path: Path) -> None:
    write(tmp_path, "config.json", {})
    write(tmp_path, "vocab.txt", "[PAD]\nwater\n##s")
    assert column_terms(settings(str(tmp_path))) == {0: "[PAD]", 1: "water", 2: "##s"}


def test_columns_of_an_autoencoder_are_no_tokens(tmp_path: Path) -> None:
    write(tmp_path, "modules.json", [{"type": "sentence_transformers.sparse_encoder.modules.SparseAutoEncoder"}])
    write(tmp_path, "tokenizer.json", {"model": {"vocab": {"a": 0}}})
    assert column_terms(settings(str(tmp_path))) == {}


def test_precomputed_vectors_keep_their_words(tmp_path: Path) -> None:
    write(tmp_path, "documents.jsonl", json.dumps({"id": "d", "vector": {"wire": 1, "fuse": 2.5}}))
    write(tmp_path, "queries.jsonl", json.dumps({"id": "q", "vector": {"panel": 1}}))
    assert column_terms(settings(f"precomputed:{tmp_path}")) == {0: "fuse", 1: "panel", 2: "wire"}
    write(tmp_path, "documents.jsonl", json.dumps({"id": "d", "vector": {"7": 1}}))
    write(tmp_path, "queries.jsonl", json.dumps({"id": "q", "vector": {"3": 1}}))
    assert column_terms(settings(f"precomputed:{tmp_path}")) == {}


def test_a_python_object_names_no_columns() -> None:
    assert column_terms(settings("python:json:loads")) == {}
