"""Prompts that well-known models need: applied where their own files declare none, never guessed."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.encoders import prompts
from harness.encoders.prompts import Prompt, applied_prompt, published_prompts
from harness.encoders.settings import Role, Settings
from harness.encoders.sources import encoding_key
from harness.errors import DataError
from harness.registry.parameters import encoder_parameters

E5 = "intfloat/multilingual-e5-small"


def settings(model: str | Path, **given: str) -> Settings:
    defaults = {name: one.default for name, one in encoder_parameters("dense").items()}
    return Settings.of("dense", {**defaults, "model": str(model), **given})


def folder(path: Path, declared: dict[str, Any] | None = None, name: str | None = E5) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({} if name is None else {"_name_or_path": name}))
    if declared is not None:
        (path / "config_sentence_transformers.json").write_text(json.dumps(declared))
    return path


def texts(model: Settings) -> tuple[str, str]:
    roles: tuple[Role, Role] = ("queries", "documents")
    query, document = (applied_prompt(model, role).text for role in roles)
    return query, document


def test_a_model_gets_what_it_is_known_to_need_where_its_files_declare_nothing(tmp_path: Path) -> None:
    assert texts(settings(folder(tmp_path / "a"))) == ("query: ", "passage: ")
    empty = {"prompts": {"query": "", "document": ""}}  # what sentence-transformers writes for a model without any
    saved = settings(folder(tmp_path / "b", empty))
    assert texts(saved) == ("query: ", "passage: ")
    assert applied_prompt(saved, "queries") == Prompt("query: ", f"the prompt of {E5}")


def test_declared_prompts_come_before_known_ones_under_the_library_s_names(tmp_path: Path) -> None:
    own = {"prompts": {"passage": "p: ", "corpus": "c: ", "other": "o: "}}
    assert texts(settings(folder(tmp_path / "a", own))) == ("", "p: ")
    assert texts(settings(folder(tmp_path / "b", {**own, "default_prompt_name": "other"}))) == ("o: ", "p: ")
    others = {"prompts": {"web_search_query": "w: "}, "default_prompt_name": None}
    assert texts(settings(folder(tmp_path / "c", others))) == ("", ""), "whose prompt is whose is not guessed"


def test_what_is_given_wins_and_none_is_nothing(tmp_path: Path) -> None:
    model = folder(tmp_path / "a")
    assert texts(settings(model, query_prompt="ask: ")) == ("ask: ", "passage: ")
    assert texts(settings(model, query_prompt="none", document_prompt='""')) == ("", "")
    assert texts(settings(model, query_prompt='"none"')) == ("none", "passage: "), "the word itself, in quotes"


def test_the_key_of_vectors_holds_the_prompt(tmp_path: Path) -> None:
    known, unknown = folder(tmp_path / "a"), folder(tmp_path / "b")
    plain = encoding_key(settings(known, query_prompt="none"), "queries", "", fetch=False)
    default = encoding_key(settings(known), "queries", "", fetch=False)
    assert (plain["prompt"], default["prompt"]) == ("", "query: ")
    assert default == encoding_key(settings(unknown, query_prompt='"query: "'), "queries", "", fetch=False)


def test_a_folder_s_own_name_says_nothing(tmp_path: Path) -> None:
    named = folder(tmp_path / "intfloat" / "multilingual-e5-small", name=None)
    assert texts(settings(named)) == ("", "")
    assert texts(settings(folder(tmp_path / "fine-tuned", name="../multilingual-e5-small"))) == ("", "")


def test_hub_models_go_by_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = folder(tmp_path / "snapshot", name="checkpoints/last")
    monkeypatch.setattr(prompts, "model_folder", lambda settings: files)
    assert texts(settings(E5)) == ("query: ", "passage: ")
    assert texts(settings("BAAI/BGE-small-en-v1.5")) == (
        "Represent this sentence for searching relevant passages: ",
        "",
    )
    assert texts(settings("Qwen/Qwen3-Embedding-0.6B"))[0] == "Instruct: Retrieve text based on user query.\nQuery:"
    assert texts(settings("somebody/multilingual-e5-small")) == ("", "")


def test_models_without_files_get_what_is_given_alone() -> None:
    at = {"endpoint": "http://127.0.0.1:9/v1"}
    assert texts(settings(f"http:{E5}", **at)) == ("", ""), "the server may put prompts before texts itself"
    assert texts(settings(f"http:{E5}", query_prompt="q: ", **at)) == ("q: ", "")


def test_a_configuration_that_is_no_json_is_named(tmp_path: Path) -> None:
    broken = folder(tmp_path / "a")
    (broken / "config_sentence_transformers.json").write_text("{")
    with pytest.raises(DataError, match=r"config_sentence_transformers\.json"):
        texts(settings(broken))
    (broken / "config_sentence_transformers.json").write_text("[]")
    with pytest.raises(DataError, match="is not a JSON object"):
        texts(settings(broken))


def test_the_table_has_a_source_and_a_prompt_for_each_model_once() -> None:
    families = tomllib.loads(Path(prompts.__file__).with_name("prompts.toml").read_text(encoding="utf-8")).values()
    listed = [name for family in families for name in family["models"]]
    known = published_prompts()
    assert sorted(known) == sorted(name.casefold() for name in listed), "a model is there twice"
    for name, one in known.items():
        assert name.count("/") == 1
        assert one.query
        assert one.source
        assert "{" not in one.query + one.document, "a template that was not filled in"
