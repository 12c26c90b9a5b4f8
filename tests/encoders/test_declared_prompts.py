"""Prompts that a model declares, chosen by name: an empty one is declared all the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.encoders.prompts import declared_prompts
from harness.encoders.settings import Settings
from harness.encoders.sources import encoding_key
from harness.errors import UsageError
from harness.registry.parameters import encoder_parameters


def settings(folder: Path, **given: str) -> Settings:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    prompts = {"query": "ask: ", "document": "", "nothing": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    defaults = {name: one.default for name, one in encoder_parameters("dense").items()}
    return Settings.of("dense", {**defaults, "model": str(folder), **given})


def test_an_empty_prompt_is_a_declared_one(tmp_path: Path) -> None:
    chosen = settings(tmp_path / "model", query_prompt_name="query", document_prompt_name="document")
    assert declared_prompts(chosen) == {"query": "ask: ", "document": "", "nothing": ""}
    assert encoding_key(chosen, "queries", "", fetch=False)["prompt"] == "ask: "
    assert encoding_key(chosen, "documents", "", fetch=False)["prompt"] == ""
    without = settings(tmp_path / "model")
    assert encoding_key(without, "documents", "", fetch=False) == encoding_key(chosen, "documents", "", fetch=False)


def test_a_name_that_is_not_declared_is_told_with_those_that_are(tmp_path: Path) -> None:
    chosen = settings(tmp_path / "model", query_prompt_name="passage")
    with pytest.raises(UsageError, match=r"declares no prompt 'passage'\n.*it declares: query, document, nothing"):
        encoding_key(chosen, "queries", "", fetch=False)
