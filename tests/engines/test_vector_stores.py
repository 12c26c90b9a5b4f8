"""Vector stores behind retrievers: what the attributes of pgvector's, LanceDB's and Milvus's say of their place."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.engines.callable.vector_stores import StoreBehind, store_behind

SERVER = "postgresql://reader:secret@db.example:5432/app?sslmode=require"
PLAIN = "postgresql://db.example:5432/app"


class Url:
    """As SQLAlchemy's URL, which hides its password unless it is asked not to."""

    def render_as_string(self, *, hide_password: bool) -> str:
        return SERVER.replace("postgresql", "postgresql+psycopg").replace(
            "secret", "***" if hide_password else "secret"
        )


def behind(class_name: str, **attributes: Any) -> StoreBehind:
    """Return what is known of a store of a class with this name and these attributes."""
    store = store_behind(SimpleNamespace(vectorstore=type(class_name, (), attributes)()), Path("never made"))
    assert store is not None
    return store


def parameters(class_name: str, **attributes: Any) -> dict[str, str]:
    store = behind(class_name, **attributes)
    assert store.reason == ""
    assert "secret" not in f"{store.described}{store.parameters}"
    assert store.parameters["external"] == "true"
    return {name: value for name, value in store.parameters.items() if name != "external"}


def test_pgvector_of_langchain_with_one_table_for_all_collections() -> None:
    attributes = {
        "EmbeddingStore": SimpleNamespace(__tablename__="langchain_pg_embedding"),
        "collection_name": "notes",
        "_engine": SimpleNamespace(url=Url()),
        "_distance_strategy": SimpleNamespace(value="inner"),
    }
    expected = {"table": "langchain_pg_embedding", "url": PLAIN, "similarity": "dot"}
    assert parameters("PGVector", **attributes) == expected
    described = behind("PGVector", **attributes).described
    assert described.endswith("the table holds all collections, not 'notes' alone, and is searched as a whole")


def test_pgvector_of_langchain_with_a_table_of_its_own() -> None:
    asynchronous = SimpleNamespace(
        engine=SimpleNamespace(_pool=SimpleNamespace(url=Url())),
        table_name="notes",
        schema_name="texts",
        embedding_column="vector",
        id_column="name",
        distance_strategy=SimpleNamespace(value="l2"),
    )
    assert parameters("PGVectorStore", _PGVectorStore__vs=asynchronous) == {
        "table": "texts.notes",
        "vector_column": "vector",
        "id_column": "name",
        "similarity": "l2",
        "url": PLAIN,
    }


def test_pgvector_of_llamaindex_and_of_haystack() -> None:
    llama = {"embed_dim": 8, "table_name": "Notes", "schema_name": "public", "connection_string": SERVER}
    assert parameters("PGVectorStore", **llama) == {"table": "data_notes", "similarity": "cosine", "url": PLAIN}
    secret = SimpleNamespace(resolve_value=lambda: SERVER)
    haystack = {"table_name": "notes", "connection_string": secret, "vector_function": "l2_distance"}
    assert parameters("PgvectorDocumentStore", **haystack) == {"table": "notes", "similarity": "l2", "url": PLAIN}


def test_pgvector_that_does_not_say_where_it_is() -> None:
    store = behind("PgvectorDocumentStore", table_name="notes")
    assert (store.backend, store.reason) == ("", "the object does not say where it is (url)")


def test_pgvector_whose_server_stands_behind_the_question_mark_is_not_taken_for_another() -> None:
    store = behind("PgvectorDocumentStore", table_name="notes", connection_string=f"{SERVER}&host=/var/run/other")
    assert store.backend == ""
    assert store.reason == "its URL says among its parameters which server it is (host)"


def test_lancedb_of_langchain_and_of_llamaindex(tmp_path: Path) -> None:
    connection = pytest.importorskip("lancedb").connect(tmp_path / "lance")
    langchain = {"_connection": connection, "_table_name": "notes", "_vector_key": "embedding"}
    place = {"table": "notes", "path": str(tmp_path / "lance")}
    assert parameters("LanceDB", **langchain) == {**place, "vector_column": "embedding"}
    table = connection.create_table("notes", [{"id": "a", "vector": [1.0, 0.0]}])
    llama = {"_connection": connection, "_table": table, "vector_column_name": "vector"}
    assert parameters("LanceDBVectorStore", **llama) == {**place, "vector_column": "vector"}
    elsewhere = behind("LanceDB", uri="s3://bucket/lance", _table_name="notes")
    assert (elsewhere.backend, elsewhere.reason) == ("", "its tables are not in a folder of this machine")


def test_milvus_as_a_file_and_as_a_server(tmp_path: Path) -> None:
    server = {"collection_name": "notes", "_connection_args": {"uri": "http://host:19530"}, "_vector_field": "dense"}
    expected = {"collection": "notes", "url": "http://host:19530", "vector": "dense"}
    assert parameters("Milvus", **server) == expected
    file = str(tmp_path / "milvus.db")
    haystack = {"collection_name": "notes", "connection_args": {"uri": file}}
    assert parameters("MilvusDocumentStore", **haystack) == {"collection": "notes", "path": file}
    client = SimpleNamespace(_config=SimpleNamespace(uri="unix:/run/milvus.sock"))
    llama = behind("MilvusVectorStore", collection_name="notes", _milvusclient=client)
    assert (llama.backend, llama.reason) == ("", "the object does not say which file of Milvus Lite it is")


def test_a_store_with_credentials_in_its_address_is_not_searched() -> None:
    store = behind("Milvus", collection_name="notes", _connection_args={"uri": "https://me:secret@host:19530"})
    assert (store.backend, store.reason) == ("", "its URL holds more than a host, a port and a path")
    assert "secret" not in store.described
