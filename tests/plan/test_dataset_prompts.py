"""Prompts and instructions of one dataset among several, and the instructions that datasets state themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_world import write_collection

import harness
from harness.errors import UnknownNameError, UsageError
from harness.loaders import load_dataset
from harness.pipeline.planning import plan_for, resolved_for
from harness.plan.config import CompareRequest
from harness.plan.dataset_prompts import set_prompts
from harness.plan.plan import Plan, make_plan
from harness.report.documents.compare import comparison_header

MODEL = "flat:model=python:word_vectors:Words"
FIND = {"instruction": "Find it", "document_instruction": "Keep it"}


def plan_of(*backends: str) -> Plan:
    return make_plan(CompareRequest(backends=list(backends)), lucene_available=False)


def prompt_on(dataset: str, backend: str, parameter: str = "query_prompt") -> object:
    (*_, trial) = set_prompts(plan_of(backend), [dataset], FIND).trials
    return trial.parameters[parameter]


@pytest.mark.parametrize(
    ("parameters", "on_one", "on_other"),
    [
        ("query_prompt=a: ", "a:", "a:"),
        ('query_prompt=a;query_prompt@one="b: "', "b: ", "a"),
        ("query_prompt@one=b", "b", ""),
        ("query_prompt@one=none;query_prompt=a", "none", "a"),
        ("query_prompt@one=b;query_prompt@beir/x=c", "b", ""),
        ("query_prompt={instruction}: ", '"Find it:"', '"Find it:"'),
        ('query_prompt="Instruct: {instruction}\\nQuery: "', '"Instruct: Find it\\nQuery: "', None),
        ("query_prompt=a;query_prompt@one={instruction}", '"Find it"', "a"),
    ],
)
def test_a_prompt_of_a_dataset_comes_before_the_prompt_of_all(parameters, on_one, on_other):
    backend = f"{MODEL};{parameters}"
    assert prompt_on("one", backend) == on_one
    assert on_other is None or prompt_on("other", backend) == on_other


def test_a_misspelt_instruction_is_not_sent_to_the_model():
    with pytest.raises(UsageError, match=r"holds \{Instruction\}, which the model would read as it stands"):
        prompt_on("one", f"{MODEL};query_prompt=Instruct: {{Instruction}}")


def test_prompts_of_documents_names_and_second_stages_follow_too(tmp_path):
    backend = f"{MODEL};passage_prompt@one=x;document_prompt={{instruction}}"
    assert prompt_on("one", backend, "document_prompt") == "x"
    assert prompt_on("other", backend, "document_prompt") == '"Keep it"'
    stage = "csr|dense:model=python:word_vectors:Words;query_prompt@one=x"
    assert (prompt_on("one", stage), prompt_on("other", stage)) == ("x", "")
    model = tmp_path / "model"
    model.mkdir()
    qwen = f"csr|qwen3:model={model};instruction@one=Find pages: {{instruction}}"
    assert prompt_on("one", qwen, "instruction") == "Find pages: Find it"
    assert "search query" in str(prompt_on("other", qwen, "instruction"))


def test_a_text_for_a_dataset_replaces_the_name_of_a_prompt_for_all():
    trial = plan_of(f"{MODEL};query_prompt@one=x").trials[0]
    named = replace(trial, parameters={**trial.parameters, "query_prompt_name": "query"})
    plan = replace(plan_of(MODEL), trials=(named,))
    (changed,) = set_prompts(plan, ["one"], {}).trials
    assert (changed.parameters["query_prompt"], changed.parameters["query_prompt_name"]) == ("x", "")


def test_an_instruction_in_a_file(tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("Task: {instruction}\n")
    assert prompt_on("one", f"{MODEL};query_prompt=@{file}") == '"Task: Find it\\n"'


def test_a_dataset_without_an_instruction_is_named():
    plan = plan_of(f"{MODEL};query_prompt={{instruction}}")
    with pytest.raises(UsageError, match=r"query_prompt holds \{instruction\}, and dataset 'one' states no") as refused:
        set_prompts(plan, ["one"], {})
    assert "query_prompt@one=…" in str(refused.value)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ("similarity@one=dot", UsageError, "'similarity' cannot differ by dataset"),
        ("query_prompt@=x", UsageError, "'query_prompt@' does not name a dataset"),
        ("query_prompt@one=x;query_prompt@one=y", UsageError, "'query_prompt@one' is given twice"),
        ("prompt@one=x", UnknownNameError, "unknown parameter 'prompt@one'"),
    ],
)
def test_what_cannot_be_given_for_a_dataset(parameters, error, message):
    with pytest.raises(error, match=message):
        plan_of(f"{MODEL};{parameters}")


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    return [str(write_collection(tmp_path / name)) for name in ("one", "other")]


def test_an_unknown_dataset_is_refused_with_the_known_ones(folders):
    request = CompareRequest(backends=[f"{MODEL};query_prompt@onn=x"], dataset=",".join(folders))
    with pytest.raises(UnknownNameError, match=r"unknown dataset 'onn' of query_prompt@(.|\n)*did you mean 'one'"):
        plan_for(request)


def test_each_dataset_is_encoded_reported_and_cached_with_its_own_prompt(folders):
    backend = f'{MODEL};query_prompt@one=find ;query_prompt@other="look: "'

    def run() -> harness.Comparison:
        return harness.compare(backend, folders, k=3, timing=False, isolation="none")

    comparison = run()
    prompts = {trial.dataset: trial.encoder["query_prompt"] for trial in comparison.report.trials}
    assert prompts == {"one": "find", "other": "look: "}
    header = comparison_header(comparison.report)
    assert "(query prompt 'find') on one" in header
    assert "(query prompt 'look: ') on other" in header
    assert {trial.encoder["queries_encoded"] for trial in comparison.report.trials} == {4}
    assert {trial.encoder["queries_encoded"] for trial in run().report.trials} == {0}
    assert all(trial.parity is not None and trial.parity.bit_equal == 4 for trial in comparison.report.trials)


def test_a_card_states_the_instruction_of_its_dataset(tmp_path):
    cards = tmp_path / "cards" / "datasets"
    write_collection(cards / "mine")
    lines = {
        "name": "mine",
        "summary": "a test",
        "format": "beir",
        "path": "mine",
        "language": "en",
        "licence": "none",
        "source": "a test",
        "instruction": "Find pages",
    }
    (cards / "mine.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items()))
    request = CompareRequest(
        backends=[f"{MODEL};query_prompt={{instruction}}"], dataset="mine", cards=tmp_path / "cards"
    )
    dataset = load_dataset("mine", cards=tmp_path / "cards")
    (trial,) = resolved_for(plan_for(request).on(plan_for(request).datasets[0]), dataset).trials
    assert trial.parameters["query_prompt"] == '"Find pages"'


def test_a_check_takes_the_prompt_of_its_corpus(tmp_path):
    chunks = tmp_path / "chunks.jsonl"
    chunks.write_text('{"id": "a", "text": "apple"}\n{"id": "b", "text": "brick"}\n')
    golden = [{"id": "q", "question": "apple", "expected_relevant_doc_ids": ["a"]}]
    options = {"corpus": str(chunks), "k": 1, "timing": False, "isolation": "none"}
    found = harness.check(golden, backends=f"{MODEL};query_prompt@chunks=find", **options)
    (trial,) = found.report.trials
    assert trial.encoder["query_prompt"] == "find"
    with pytest.raises(UnknownNameError, match=r"unknown dataset 'other'(.|\n)*known: chunks"):
        harness.check(golden, backends=f"{MODEL};query_prompt@other=find", **options)
