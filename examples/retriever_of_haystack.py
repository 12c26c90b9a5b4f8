"""A Haystack retriever, asked by the harness.

    harness check golden.jsonl --against haystack:retriever_of_haystack:retriever
    harness check golden.jsonl --against python:retriever_of_haystack:retrieve

Run it beside your ``chunks.jsonl`` (``_id`` and ``text``). Yours may be a whole pipeline, which is named in the same
way; :func:`retrieve` is for what returns its documents otherwise. Run with haystack-ai 3.4.0.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from haystack import Document
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore


@cache
def retriever() -> InMemoryBM25Retriever:
    """The retriever on its store, filled once."""
    store = InMemoryDocumentStore()
    lines = map(json.loads, Path("chunks.jsonl").read_text(encoding="utf-8").splitlines())
    store.write_documents([Document(id=line["_id"], content=line["text"]) for line in lines])
    return InMemoryBM25Retriever(document_store=store)


def retrieve(question: str, k: int) -> list[Document]:
    """Documents are hits as they are; a pipeline has them in ``run(…)["retriever"]["documents"]``."""
    return retriever().run(query=question, top_k=k)["documents"]
