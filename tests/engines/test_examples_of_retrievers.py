"""The examples for LangChain, LlamaIndex and Haystack: against the real packages where they are, else stand-ins.

A stand-in has the classes and methods that an example uses, with the same signatures.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import harness

pytestmark = pytest.mark.integration


def ranked(texts: dict[str, str], question: str, k: int) -> list[tuple[str, float]]:
    words = set(question.lower().split())
    scored = [(one, float(len(words & set(text.split())))) for one, text in texts.items()]
    return sorted(scored, key=lambda hit: -hit[1])[:k]


class Documents:
    """A store of any framework's documents."""

    def __init__(self, *_: object, **__: object) -> None:
        self.held: dict[str, Any] = {}

    def add_documents(self, documents: list[Any]) -> None:
        self.held.update((one.id, one) for one in documents)

    write_documents = add_documents

    def found(self, question: str, k: int) -> list[tuple[Any, float]]:
        texts = {one: getattr(held, "page_content", None) or held.content for one, held in self.held.items()}
        return [(self.held[one], score) for one, score in ranked(texts, question, k)]

    def similarity_search_with_score(self, query: str, k: int = 4) -> list[tuple[Any, float]]:
        return self.found(query, k)

    def as_retriever(self, *, search_kwargs: dict[str, int]) -> Any:
        return SimpleNamespace(invoke=lambda query: [one for one, _ in self.found(query, search_kwargs["k"])])


class BM25:
    def __init__(self, *, document_store: Documents) -> None:
        self.store = document_store

    def run(self, *, query: str, top_k: int) -> dict[str, Any]:
        found = self.store.found(query, top_k)
        return {"documents": [SimpleNamespace(id=one.id, content=one.content, score=score) for one, score in found]}


class Nodes:
    def __init__(self, nodes: list[Any], *, embed_model: object) -> None:
        assert embed_model is not None
        self.nodes = {one.id_: one for one in nodes}

    def as_retriever(self, *, similarity_top_k: int) -> Any:
        texts = {one: node.text for one, node in self.nodes.items()}

        def retrieve(question: str) -> list[Any]:
            found = ranked(texts, question, similarity_top_k)
            return [SimpleNamespace(node=self.nodes[one], score=score) for one, score in found]

        return SimpleNamespace(retrieve=retrieve)


def text_node(*, id_: str, text: str) -> Any:
    return SimpleNamespace(id_=id_, node_id=id_, text=text)


STAND_INS: dict[str, dict[str, dict[str, object]]] = {
    "langchain": {
        "langchain_core": {},
        "langchain_core.documents": {"Document": SimpleNamespace},
        "langchain_core.embeddings": {"Embeddings": object},
        "langchain_core.vectorstores": {"InMemoryVectorStore": Documents, "VectorStoreRetriever": object},
    },
    "llamaindex": {
        "llama_index": {},
        "llama_index.core": {"VectorStoreIndex": Nodes},
        "llama_index.core.base": {},
        "llama_index.core.base.embeddings": {},
        "llama_index.core.base.embeddings.base": {"BaseEmbedding": object},
        "llama_index.core.schema": {"NodeWithScore": object, "TextNode": text_node},
    },
    "haystack": {
        "haystack": {"Document": SimpleNamespace},
        "haystack.components": {},
        "haystack.components.retrievers": {},
        "haystack.components.retrievers.in_memory": {"InMemoryBM25Retriever": BM25},
        "haystack.document_stores": {},
        "haystack.document_stores.in_memory": {"InMemoryDocumentStore": Documents},
    },
}
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
    for name in STAND_INS:
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
def test_an_example_with_a_stand_in(name: str, function: str, example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, content in STAND_INS[name].items():
        made = ModuleType(module)
        made.__dict__.update(content)
        monkeypatch.setitem(sys.modules, module, made)
    check(example(name), function)


@pytest.mark.parametrize(("name", "function"), FUNCTIONS)
def test_an_example_with_the_real_package(name: str, function: str, example: Any) -> None:
    try:
        importlib.import_module(REAL[name])
    except ImportError:
        pytest.skip(f"'{REAL[name]}' is no dependency of the harness: its example is run by hand, and with a stand-in")
    check(example(name), function)
