"""Missing vectors and undeclared prompts are refused with the plan, before any backend runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.errors import UsageError
from harness.plan.backend_spec import parse_backends
from harness.plan.config import CompareRequest
from harness.plan.plan import Plan, make_plan


def vectors(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        if name.endswith(".txt"):
            (folder / name).write_text("a\n")
        else:
            np.save(folder / name, np.ones((1, 2), dtype=np.float32))
    return folder


COMPLETE = ("documents.npy", "documents.ids.txt", "queries.npy", "queries.ids.txt")


def plan(backend: str) -> Plan:
    return make_plan(CompareRequest(backends=[backend]), lucene_available=False)


def without(*names: str) -> Sequence[str]:
    return [name for name in COMPLETE if name not in names]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (without("queries.npy", "queries.ids.txt"), "vectors of queries is needed, but there are none"),
        (without("documents.npy", "documents.ids.txt"), "vectors of documents is needed, but there are none"),
        (without("queries.ids.txt"), "(?s)queries.npy.*no ids say whose vectors these are"),
        (without("documents.ids.txt"), "(?s)documents.npy.*no ids say whose vectors these are"),
        ([], "vectors of documents is needed, but there are none"),
    ],
)
@pytest.mark.parametrize("form", ["flat:model=precomputed:{}", "csr|dense:model=precomputed:{}"])
def test_vectors_that_are_missing_are_refused_before_anything_runs(tmp_path, form, files, message):
    folder = vectors(tmp_path / "vectors", *files)
    with pytest.raises(UsageError, match=message):
        plan(form.format(folder))


def test_complete_vectors_are_accepted_and_an_index_needs_those_of_queries_only(tmp_path):
    plan(f"flat:model=precomputed:{vectors(tmp_path / 'vectors', *COMPLETE)}")
    queries = vectors(tmp_path / "queries", "queries.npy", "queries.ids.txt")
    (tmp_path / "index").mkdir()
    external = f"faiss:external=true;path={tmp_path / 'index'};model=precomputed:{queries}"
    with pytest.raises(UsageError) as refused:
        plan(external.replace(str(queries), str(vectors(tmp_path / "none"))))
    assert "vectors of queries is needed" in str(refused.value)
    plan(external)


def model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    prompts = {"query": "query: ", "passage": "passage: "}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    return folder


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ("query_prompt_name=passges", "'query', which it declares for queries"),
        ("document_prompt_name=qery", "'passage', which it declares for documents"),
        ("passage_prompt_name=document", "'passage', which it declares for documents"),
    ],
)
def test_an_undeclared_prompt_is_refused_with_the_name_for_its_role(tmp_path, given, own):
    with pytest.raises(UsageError, match=f"declares no prompt .*\n.*did you mean {own}\\?"):
        plan(f"flat:model={model(tmp_path / 'model')};{given}")


@pytest.mark.parametrize("word", ["passage", "corpus"])
def test_other_words_for_documents_name_their_prompt(word):
    (spec,) = parse_backends(f"flat:{word}_prompt_name=x")
    assert spec.overrides == {"document_prompt_name": "x"}


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("passages_prompt_name", "passage_prompt_name"),
        ("doc_prompt_name", "document_prompt_name"),
        ("corpus_promptname", "corpus_prompt_name"),
        ("queries_prompt_name", "query_prompt_name"),
    ],
)
def test_a_misspelt_prompt_is_not_answered_with_the_other_role(written, near):
    with pytest.raises(UsageError, match=f"did you mean '{near}'"):
        parse_backends(f"flat:{written}=x")


@pytest.mark.parametrize("model", ["precomputed:nowhere", "./nowhere"])
def test_a_folder_that_is_missing_is_quoted_as_it_was_written(model: str) -> None:
    with pytest.raises(UsageError, match=f"model={model}: there is no such folder"):
        plan(f"flat:model={model}")
