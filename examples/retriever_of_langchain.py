"""A LangChain retriever, asked by the harness.

    harness check golden.jsonl --against langchain:retriever_of_langchain:retriever
    harness check golden.jsonl --against python:retriever_of_langchain:retrieve

Run it beside your ``chunks.jsonl`` (``_id`` and ``text``). Yours has another vector store and a real embedding model;
:func:`retrieve` is for what is no retriever of LangChain's alone. Run with langchain-core 1.7.2.
"""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStoreRetriever

DIMENSIONS = 512


class WordCounts(Embeddings):
    """Stands for your model: words, counted."""

    def embed_query(self, text: str) -> list[float]:
        """One vector."""
        vector = [0.0] * DIMENSIONS
        for word in text.lower().split():
            vector[zlib.crc32(word.strip(".,?!").encode()) % DIMENSIONS] += 1.0
        return vector

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector a text."""
        return [self.embed_query(text) for text in texts]


@cache
def store() -> InMemoryVectorStore:
    """The store, filled once."""
    made = InMemoryVectorStore(WordCounts())
    lines = map(json.loads, Path("chunks.jsonl").read_text(encoding="utf-8").splitlines())
    made.add_documents([Document(id=line["_id"], page_content=line["text"]) for line in lines])
    return made


def retriever() -> VectorStoreRetriever:
    """The retriever, which the harness asks for k documents; a vector store may be named as well."""
    return store().as_retriever()


def retrieve(question: str, k: int) -> list[Document]:
    """Documents are hits as they are, when they have an ``id``; a pair of a document and its score is one, too.

    Where the id is in the metadata, return that: ``[one.metadata["chunk"] for one in …]``.
    """
    return store().as_retriever(search_kwargs={"k": k}).invoke(question)


def retrieve_with_scores(question: str, k: int) -> list[tuple[Document, float]]:
    """The same with scores. Stores that give distances here rise from hit to hit; the harness says so."""
    return store().similarity_search_with_score(question, k=k)
