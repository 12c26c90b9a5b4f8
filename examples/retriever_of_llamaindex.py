"""A LlamaIndex retriever, asked by the harness.

    harness check golden.jsonl --against llamaindex:retriever_of_llamaindex:index
    harness check golden.jsonl --against python:retriever_of_llamaindex:retrieve

Run it beside your ``chunks.jsonl`` (``_id`` and ``text``). Yours has another index and a real embedding model; a
retriever may be named as well. :func:`retrieve` is for what is neither. Run with llama-index-core 0.14.25.
"""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import NodeWithScore, TextNode

DIMENSIONS = 512


class WordCounts(BaseEmbedding):
    """Stands for your model: words, counted."""

    def _get_text_embedding(self, text: str) -> list[float]:
        vector = [0.0] * DIMENSIONS
        for word in text.lower().split():
            vector[zlib.crc32(word.strip(".,?!").encode()) % DIMENSIONS] += 1.0
        return vector

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


@cache
def index() -> VectorStoreIndex:
    """The index, filled once."""
    lines = map(json.loads, Path("chunks.jsonl").read_text(encoding="utf-8").splitlines())
    nodes = [TextNode(id_=line["_id"], text=line["text"]) for line in lines]
    return VectorStoreIndex(nodes, embed_model=WordCounts())


def retrieve(question: str, k: int) -> list[NodeWithScore]:
    """Nodes with scores are hits as they are: their id is the node's.

    Where the golden set names documents: ``llamaindex:…;id_key=ref_doc_id``.
    """
    return index().as_retriever(similarity_top_k=k).retrieve(question)
