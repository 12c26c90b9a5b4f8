"""Retrievers of LangChain, LlamaIndex and Haystack on ``chunks.jsonl`` of the current folder, ids in their metadata."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from harness.testing.expected import embed_words


class LangChainWords:
    """Embeddings as LangChain asks them."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return embed_words(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return embed_words([text])[0].tolist()


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
def chroma_store(folder: str = "chroma") -> Any:
    from langchain_chroma import Chroma

    store = Chroma("notes", LangChainWords(), persist_directory=str(Path(folder).absolute()))
    store.add_documents(langchain_documents())
    return store


def chroma_retriever() -> Any:
    return chroma_store().as_retriever()


def chroma_retriever_in_an_odd_folder() -> Any:
    """Its folder's name holds what separates the parts of an expression."""
    return chroma_store("my docs; v2, final").as_retriever()


@cache
def qdrant_store() -> Any:
    from langchain_qdrant import QdrantVectorStore

    return QdrantVectorStore.from_documents(
        langchain_documents(), LangChainWords(), location=":memory:", collection_name="notes"
    )


@cache
def qdrant_server_store() -> Any:
    from langchain_qdrant import QdrantVectorStore

    return QdrantVectorStore.from_documents(
        langchain_documents(),
        LangChainWords(),
        ids=[1, 2, 3],
        url=os.environ["QDRANT_OF_RETRIEVERS"],
        collection_name="notes",
        vector_name="text",
    )


class FaissInMemory:
    """As LangChain's FAISS: an index in memory, documents by their places in it, and embeddings."""

    def __init__(self, index: Any, texts: list[str], names: list[str], embeddings: Any = None) -> None:
        self.index, self.names, self.embeddings = index, names, embeddings
        self.index.add(embed_words(texts))

    def similarity_search_with_score(self, question: str, k: int) -> list[tuple[Any, float]]:
        scores, places = self.index.search(embed_words([question]), k)
        hits = [(place, score) for place, score in zip(places[0], scores[0], strict=True) if place >= 0]
        return [(SimpleNamespace(metadata={"source": self.names[place]}), float(score)) for place, score in hits]


class LanceDB:
    """As LangChain's LanceDB, by its name and attributes, on a table of LanceDB's own."""

    def __init__(self) -> None:
        import lancedb

        self._connection, self._table_name, self._vector_key = lancedb.connect("lance"), "notes", "vector"
        self.embeddings = LangChainWords()
        vectors = self.embeddings.embed_documents([line["text"] for line in lines()])
        rows = [{"id": line["_id"], "vector": vector} for line, vector in zip(lines(), vectors, strict=True)]
        self._table = self._connection.create_table(self._table_name, rows)

    def similarity_search_with_score(self, question: str, k: int) -> list[tuple[Any, float]]:
        hits = self._table.search(self.embeddings.embed_query(question)).limit(k).to_list()
        return [(SimpleNamespace(id=hit["id"], metadata={"source": hit["id"]}), hit["_distance"]) for hit in hits]


def store_like_lancedb() -> LanceDB:
    return LanceDB()


class DropsTheLast:
    """As a retriever of LangChain with a threshold: it returns what its store returns, except the last hit."""

    search_type = "similarity_score_threshold"

    def __init__(self, store: FaissInMemory) -> None:
        self.vectorstore, self.search_kwargs = store, {"k": 2, "score_threshold": 0.4}

    def invoke(self, question: str, k: int) -> list[Any]:
        return [document for document, _ in self.vectorstore.similarity_search_with_score(question, k)[:-1]]


def retriever_with_a_threshold() -> DropsTheLast:
    return DropsTheLast(store_like_faiss())


def retriever_that_drops_a_hit() -> DropsTheLast:
    """It does not show that it has a threshold."""
    retriever = DropsTheLast(store_like_faiss())
    retriever.search_type, retriever.search_kwargs = "similarity", {"k": 2}
    return retriever


def chroma_retriever_with_mmr() -> Any:
    """Of two hits the second is the one that is least like the first, of all three."""
    return chroma_store().as_retriever(search_type="mmr", search_kwargs={"lambda_mult": 0.0})


def _store_like_faiss(embeddings: Any) -> FaissInMemory:
    import faiss

    index = faiss.IndexFlatIP(embed_words(["a"]).shape[1])
    return FaissInMemory(index, [line["text"] for line in lines()], [line["_id"] for line in lines()], embeddings)


def store_like_faiss() -> FaissInMemory:
    return _store_like_faiss(LangChainWords())


def store_without_embeddings() -> FaissInMemory:
    return _store_like_faiss(None)


def store_of_another_model() -> FaissInMemory:
    return _store_like_faiss(SimpleNamespace(embed_query=lambda _: [1.0, 0.0, 0.0]))


def store_of_lists() -> FaissInMemory:
    import faiss

    words = [word for line in lines() for word in line["text"].split()]
    vectors = embed_words(words)
    index = faiss.index_factory(vectors.shape[1], "IVF4,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    return FaissInMemory(index, words, ["fruit", *words[1:]], LangChainWords())


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
    from llama_index.core import StorageContext, VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
    from llama_index.vector_stores.qdrant import QdrantVectorStore
    from qdrant_client import QdrantClient

    class Words(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return embed_words([text])[0].tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    store = QdrantVectorStore(client=QdrantClient(":memory:"), collection_name="notes")
    nodes = [
        TextNode(
            text=line["text"],
            metadata={"source": line["_id"]},
            excluded_embed_metadata_keys=["source"],
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=line["_id"])},
        )
        for line in lines()
    ]
    context = StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex(nodes, storage_context=context, embed_model=Words())


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
