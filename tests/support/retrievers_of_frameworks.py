"""Retrievers of LangChain, LlamaIndex and Haystack on ``chunks.jsonl`` of the current folder, ids in their metadata."""

from __future__ import annotations

import json
import os
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
def chroma_store(folder: str = "chroma") -> Any:
    from langchain_chroma import Chroma

    store = Chroma("notes", langchain_words(), persist_directory=str(Path(folder).absolute()))
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
        langchain_documents(), langchain_words(), location=":memory:", collection_name="notes"
    )


@cache
def qdrant_server_store() -> Any:
    from langchain_qdrant import QdrantVectorStore

    return QdrantVectorStore.from_documents(
        langchain_documents(),
        langchain_words(),
        ids=[1, 2, 3],
        url=os.environ["QDRANT_OF_RETRIEVERS"],
        collection_name="notes",
        vector_name="text",
    )


@cache
def langchain_faiss() -> Any:
    """An index in memory, of inner products."""
    from langchain_community.vectorstores import FAISS

    return FAISS.from_documents(langchain_documents(), langchain_words(), distance_strategy="MAX_INNER_PRODUCT")


def langchain_lancedb() -> Any:
    from langchain_community.vectorstores import LanceDB

    store = LanceDB(embedding=langchain_words(), uri="lance", table_name="notes")
    store.add_texts([line["text"] for line in lines()], [{"source": line["_id"]} for line in lines()])
    return store


def langchain_pgvector() -> Any:
    """Its table holds all collections."""
    from langchain_postgres import PGVector

    url = os.environ["POSTGRES_OF_RETRIEVERS"].replace("postgresql:", "postgresql+psycopg:")
    size = embed_words(["a"]).shape[1]
    store = PGVector(langchain_words(), connection=url, collection_name="notes", embedding_length=size)
    store.add_documents(langchain_documents())
    return store


def langchain_pgvector_store() -> Any:
    """A table of its own, with a column for the id."""
    from langchain_postgres import PGEngine, PGVectorStore

    engine = PGEngine.from_connection_string(os.environ["POSTGRES_OF_RETRIEVERS"].replace(":", "+psycopg:", 1))
    engine.init_vectorstore_table("notes", embed_words(["a"]).shape[1])
    store = PGVectorStore.create_sync(engine, langchain_words(), table_name="notes")
    store.add_documents(langchain_documents())
    return store


def retriever_with_a_threshold() -> Any:
    return langchain_faiss().as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"k": 2, "score_threshold": 0.4}
    )


def retriever_that_drops_a_hit() -> Any:
    """It does not show that it has a threshold."""
    store = langchain_faiss()

    class DropsTheLast:
        vectorstore, search_type, search_kwargs = store, "similarity", {"k": 2}

        def invoke(self, question: str, k: int) -> list[Any]:
            return store.similarity_search(question, k)[:-1]

    return DropsTheLast()


def chroma_retriever_with_mmr() -> Any:
    """Of two hits the second is the one that is least like the first, of all three."""
    return chroma_store().as_retriever(search_type="mmr", search_kwargs={"lambda_mult": 0.0})


def store_of_lists() -> Any:
    """Its index looks into one of four lists."""
    import faiss
    from langchain_community.docstore.in_memory import InMemoryDocstore
    from langchain_community.vectorstores import FAISS

    words = [word for line in lines() for word in line["text"].split()]
    vectors = embed_words(words)
    index = faiss.index_factory(vectors.shape[1], "IVF4,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    store = FAISS(langchain_words(), index, InMemoryDocstore(), {})
    store.add_texts(words, [{"source": name} for name in ("fruit", *words[1:])])
    return store


def store_without_embeddings() -> Any:
    """FAISS calls a function that is no embeddings of LangChain, and does not show it."""
    store = langchain_faiss()
    store.embedding_function = langchain_words().embed_query
    return store


def store_of_another_model() -> Any:
    from langchain_core.embeddings import FakeEmbeddings

    store = langchain_faiss()
    store.embedding_function = FakeEmbeddings(size=3)
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
