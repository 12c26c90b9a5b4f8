"""The examples for LangChain, LlamaIndex and Haystack, with the real packages."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from installed import skip_without

import harness

pytestmark = pytest.mark.integration


REAL = {"langchain": "langchain_core", "llamaindex": "llama_index.core", "haystack": "haystack"}


@pytest.fixture
def example(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    chunks = {"fruit": "apples and pears", "fish": "trout and salmon", "road": "wheels and tar"}
    (tmp_path / "chunks.jsonl").write_text(
        "".join(json.dumps({"_id": one, "text": text}) + "\n" for one, text in chunks.items())
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(repository / "examples"))

    def load(name: str) -> ModuleType:
        return importlib.import_module(f"retriever_of_{name}")

    yield load
    for name in REAL:
        sys.modules.pop(f"retriever_of_{name}", None)


def check(module: ModuleType, function: str) -> None:
    golden = [
        {"id": "a", "question": "ripe pears", "expected": ["fruit"]},
        {"id": "b", "question": "smoked salmon", "expected": ["fish"]},
        {"id": "c", "question": "round wheels", "expected": ["road"]},
    ]
    checked = harness.check(golden, against=getattr(module, function), k=2, require="MRR@2>=1", timing=False)
    assert checked.report.verdict == "passed", checked.render()


FUNCTIONS = [
    ("langchain", "retrieve"),
    ("langchain", "retrieve_with_scores"),
    ("llamaindex", "retrieve"),
    ("haystack", "retrieve"),
]


@pytest.mark.parametrize(("name", "function"), FUNCTIONS)
def test_an_example(name: str, function: str, example: Any) -> None:
    skip_without(REAL[name])
    check(example(name), function)
