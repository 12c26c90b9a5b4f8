"""Filters of questions in the forms of LangChain, LlamaIndex and Haystack: real stores return only what matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from installed import skip_without

from harness.data.filtering import Conditions
from harness.engines.callable.frameworks import retriever_of
from harness.engines.callable.python_callable import PythonBackend
from harness.errors import EngineFailureError

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries
TENANTS = {"a": ("north", 1971), "b": ("north", 1972), "c": ("south", 1971), "d": ("south", "1971")}
FILTERS = {
    "ab": {"tenant": "north"},
    "cd": {"tenant": "south", "year": "1971"},
    "acd": {"year": "1971"},
    "abcd": {},
}


class Words:
    """An embedding for LangChain."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def metadata(name: str) -> dict[str, Any]:
    tenant, year = TENANTS[name]
    return {"name": name, "tenant": tenant, "year": year}


def langchain_store(module: str) -> Any:
    from langchain_core.documents import Document

    documents = [Document(page_content="same words", metadata=metadata(name)) for name in TENANTS]
    if module == "langchain_chroma":
        from langchain_chroma import Chroma

        return Chroma.from_documents(documents, Words(), collection_name="filters")
    from langchain_core.vectorstores import InMemoryVectorStore

    return InMemoryVectorStore.from_documents(documents, Words())


def haystack_component() -> Any:
    from haystack import Document
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore()
    store.write_documents([Document(id=name, content="same words", meta=metadata(name)) for name in TENANTS])
    return InMemoryBM25Retriever(store)


def require_filtered(framework: str, candidate: object, filters: Mapping[str, Conditions] = FILTERS) -> None:
    made = retriever_of(framework, candidate, "mine", "name")
    assert made.no_filter == ""
    backend = PythonBackend(made.call, "mine", read=made.read, filtered=True)
    for names, conditions in filters.items():
        assert "".join(sorted(backend.retrieve("same words", 10, conditions).ids)) == names


@pytest.mark.parametrize("module", ["langchain_core", "langchain_chroma"])
def test_langchain(module: str) -> None:
    skip_without(module)
    store = langchain_store(module)
    require_filtered("langchain", store)
    require_filtered("langchain", store.as_retriever(search_kwargs={"k": 2}))
    fixed = store.as_retriever(search_kwargs={"filter": {"tenant": "north"}})
    assert "is configured with a filter" in retriever_of("langchain", fixed, "mine", "name").no_filter


def test_haystack() -> None:
    skip_without("haystack")
    require_filtered("haystack", haystack_component())


def test_llamaindex() -> None:
    skip_without("llama_index.core")
    from llama_index.core import VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.schema import TextNode

    class Embedding(BaseEmbedding):  # type: ignore[misc]
        def _get_text_embedding(self, text: str) -> list[float]:
            return Words().embed_query(text)

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    nodes = [TextNode(text="same words", metadata=metadata(name)) for name in TENANTS]
    index = VectorStoreIndex(nodes, embed_model=Embedding())
    require_filtered("llamaindex", index, {"ab": {"tenant": "north"}, "abcd": {}})
    with pytest.raises(EngineFailureError, match="Nested MetadataFilters are not supported"):  # by this store
        require_filtered("llamaindex", index, {"acd": {"year": "1971"}})
    assert "name its index instead" in retriever_of("llamaindex", index.as_retriever(), "mine", "name").no_filter
