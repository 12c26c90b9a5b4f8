"""Retrievers of LangChain, LlamaIndex and Haystack on ``chunks.jsonl`` of the current folder, ids in their metadata."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from harness.testing.expected import embed_words


@cache
def langchain_words() -> Any:
    """Embeddings as LangChain's stores take them."""
    from langchain_core.embeddings import Embeddings

    class Words(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return embed_words(texts).tolist()

        def embed_query(self, text: str) -> list[float]:
            return embed_words([text])[0].tolist()

    return Words()


def lines() -> list[dict[str, str]]:
    return [json.loads(line) for line in Path("chunks.jsonl").read_text(encoding="utf-8").splitlines()]


def langchain_documents() -> list[Any]:
    from langchain_core.documents import Document

    return [
        Document(
            id=f"00000000-0000-0000-0000-{number:012}", page_content=line["text"], metadata={"source": line["_id"]}
        )
        for number, line in enumerate(lines())
    ]


@cache
def chroma_store() -> Any:
    from langchain_chroma import Chroma

    store = Chroma("notes", langchain_words(), persist_directory=str(Path("chroma").absolute()))
    store.add_documents(langchain_documents())
    return store


def chroma_retriever() -> Any:
    return chroma_store().as_retriever()


@cache
def langchain_store() -> Any:
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(langchain_words())
    store.add_documents(langchain_documents())
    return store


@cache
def fixed_retriever() -> Any:
    """A retriever that decides itself how many documents it returns: all of them."""
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    documents = langchain_documents()

    class Fixed(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
            words = set(query.split())
            return sorted(documents, key=lambda document: -len(words & set(document.page_content.split())))

    return Fixed()


@cache
def llama_index() -> Any:
    from llama_index.core import VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

    class Words(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return embed_words([text])[0].tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    nodes = [
        TextNode(
            text=line["text"],
            metadata={"source": line["_id"]},
            excluded_embed_metadata_keys=["source"],
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=line["_id"])},
        )
        for line in lines()
    ]
    return VectorStoreIndex(nodes, embed_model=Words())


def llama_retriever() -> Any:
    return llama_index().as_retriever(similarity_top_k=1)


@cache
def haystack_pipeline() -> Any:
    from haystack import Document, Pipeline, component
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore()
    vectors = embed_words([line["text"] for line in lines()])
    store.write_documents(
        [
            Document(content=line["text"], meta={"source": line["_id"]}, embedding=vector)
            for line, vector in zip(lines(), vectors.tolist(), strict=True)
        ]
    )

    @component
    class Embed:
        @component.output_types(embedding=list[float])
        def run(self, text: str) -> dict[str, object]:
            return {"embedding": np.asarray(embed_words([text])[0]).tolist()}

    pipeline = Pipeline()
    pipeline.add_component("embed", Embed())
    pipeline.add_component("find", InMemoryEmbeddingRetriever(store))
    pipeline.connect("embed.embedding", "find.query_embedding")
    return pipeline


@cache
def haystack_component() -> Any:
    """It returns what it finds, however many are wanted."""
    from haystack import Document, component

    @component
    class Whole:
        @component.output_types(documents=list[Document])
        def run(self, query: str) -> dict[str, object]:
            return haystack_pipeline().run({"embed": {"text": query}})["find"]

    return Whole()


def broken() -> Any:
    raise RuntimeError("no index today")


@cache
def pyterrier_pipeline() -> Any:
    """A transformer that finds documents by their words, and a cutoff behind it."""
    import pandas as pd
    import pyterrier

    def search(queries: pd.DataFrame) -> pd.DataFrame:
        words = set(queries["query"].iloc[0].split())
        rows = [("1", line["_id"], float(len(words & set(line["text"].split())))) for line in lines()]
        return pyterrier.model.add_ranks(pd.DataFrame(rows, columns=["qid", "docno", "score"]))

    return pyterrier.apply.generic(search) % 2
