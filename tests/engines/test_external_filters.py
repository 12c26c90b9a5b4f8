"""Collections and tables of the user: questions with filters, by the engines' filters with values compared as text.

And expectations that are matched by a field of their documents, and by their texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from external_filters import (
    BY_TEXT,
    MIXED,
    OF_MIXED,
    OF_TYPED,
    TYPED,
    checked,
    in_container,
    inputs_of,
    require_filtered,
)
from external_matches import FIELDS, INPUTS, TEXTS, require_matches
from installed import skip_without

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.testing.expected import embed_words

pytestmark = pytest.mark.integration


@pytest.fixture
def remove_afterwards(postgres_url: str) -> Iterator[Callable[[str], None]]:
    """Names a table to remove when the test is over: tests share the server."""
    tables = list[str]()
    yield tables.append
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for table in tables:
            connection.execute(f"DROP TABLE IF EXISTS {table}")


def chroma_folder(folder: Path) -> str:
    import chromadb

    metadata: list[Mapping[str, Any] | None] = [
        {"year": year, "tenant": "north"} if year is not None else None for year in MIXED.values()
    ]
    with chromadb.PersistentClient(path=str(folder)) as client:
        collection = client.create_collection("docs", embedding_function=None)
        vectors = inputs_of(MIXED).dense
        collection.add(ids=list(MIXED), embeddings=vectors, metadatas=metadata)  # type: ignore[arg-type]
    return f"chroma:path={folder};collection=docs"


def test_chroma_compares_values_as_text(tmp_path: Path) -> None:
    skip_without("chromadb")
    require_filtered(checked(chroma_folder(tmp_path / "db"), tmp_path, OF_MIXED), OF_MIXED)


def test_a_field_or_a_value_that_no_document_of_an_index_has_is_named(tmp_path: Path) -> None:
    skip_without("chromadb")
    against = chroma_folder(tmp_path / "db")
    cases = [({"year": "1972"}, ""), ({"year": "1971", "tenant": "south"}, "")]
    result = checked(against, tmp_path, cases)
    (problem,) = [problem for problem in result.report.warnings if problem.check == "filter-without-documents"]
    assert problem.message == "2 questions have filters that no document of the index matches"
    assert problem.examples == [
        "golden set, line 1: question 'q0': no document has year=1972 (did you mean '1971'?)",
        "golden set, line 2: question 'q1': no document has tenant=south (did you mean 'north'?)",
    ]
    (trial,) = checked(against, tmp_path, [({"yaer": "1971"}, "a")]).report.trials
    assert trial.error is not None
    assert trial.error.message.startswith(
        "no document of the external index has the metadata field 'yaer' (did you mean 'year'?)"
    )


def qdrant_shard(folder: Path, *, nested: bool = False) -> str:
    from qdrant_indexes import write_shard

    def payload(name: str) -> dict[str, Any]:
        fields = {"year": MIXED[name]} if MIXED[name] is not None else {}
        return {"docno": name, **({"metadata": fields} if nested else fields)}

    write_shard(folder, inputs_of(MIXED), similarity="dot", payload=payload)
    return f"qdrant-dense:path={folder};exact=true;id_key=docno"


@pytest.mark.parametrize("nested", [False, True])
def test_qdrant_compares_values_as_text(nested: bool, tmp_path: Path) -> None:
    skip_without("qdrant_edge")
    cases = in_container(BY_TEXT, "metadata") if nested else BY_TEXT
    require_filtered(checked(qdrant_shard(tmp_path / "shard", nested=nested), tmp_path, cases), cases)


def test_lancedb_compares_columns_by_their_types(tmp_path: Path) -> None:
    skip_without("lancedb")
    from lancedb_tables import TABLE, write_table

    write_table(tmp_path / "db", inputs_of(TYPED), records=list(TYPED.values()))
    against = f"lancedb:path={tmp_path / 'db'};table={TABLE};similarity=dot"
    cases = [*OF_TYPED, *in_container(OF_TYPED[:-1], "metadata")]
    require_filtered(checked(against, tmp_path, cases), cases)
    (trial,) = checked(against, tmp_path, [({"made": "1971"}, "a")]).report.trials
    assert trial.error is not None
    assert trial.error.message.startswith(
        "'made' is a column of the type timestamp[us], by which the harness does not filter\n  filter by a column of"
    )


def test_columns_of_lancedb_with_a_backtick_are_refused_and_fields_inside_a_struct_are_compared(tmp_path: Path) -> None:
    skip_without("lancedb")
    import pyarrow as pa
    from lancedb_tables import TABLE, write_table

    write_table(tmp_path / "db", inputs_of({"a": None, "b": None}), metadata=[{"ten`ant": "x"}, {"ten`ant": "y"}])
    import lancedb

    table = lancedb.connect(tmp_path / "db").open_table(TABLE)
    table.add_columns(pa.field("ye`ar", pa.string()))
    against = f"lancedb:path={tmp_path / 'db'};table={TABLE};similarity=dot"
    cases = [({"ten`ant": "x"}, "a"), ({"metadata.ten`ant": "y"}, "b")]
    require_filtered(checked(against, tmp_path, cases), cases)
    for parameters, fields in (("", {"ye`ar": "1971"}), (";id_column=ye`ar", {}), (";text_column=ye`ar", {})):
        (trial,) = checked(against + parameters, tmp_path, [(fields, "a")]).report.trials
        assert trial.error is not None
        assert trial.error.message == (
            "the column 'ye`ar' has a backtick in its name, and LanceDB cannot read such columns\n"
            "  rename the column, or use another one"
        )


def test_pgvector_compares_columns_by_their_types_and_json_by_containment(
    tmp_path: Path, postgres_url: str, remove_afterwards: Callable[[str], None]
) -> None:
    skip_without("psycopg")
    from postgres_server import write_table

    remove_afterwards("typed")
    write_table(postgres_url, "typed", inputs_of(TYPED), records=list(TYPED.values()))
    against = f"pgvector:url={postgres_url};table=typed;id_column=id;similarity=dot"
    of_columns = [case for case in OF_TYPED if "deep.er" not in case[0]]
    cases = [
        *of_columns,
        *in_container(OF_TYPED[:-1], "cmetadata"),
        ({"deep.er": "x"}, "a"),
        ({"made": "2024-02-03"}, "b"),
    ]
    require_filtered(checked(against, tmp_path, cases), cases)


def test_texts_arrays_and_domains_of_pgvector_are_compared_by_their_values(
    tmp_path: Path, postgres_url: str, remove_afterwards: Callable[[str], None]
) -> None:
    """Arrays by their elements, a domain by the type that it restricts, ``char`` without the blanks at its end."""
    skip_without("psycopg")
    import psycopg
    from postgres_server import write_table

    texts, chosen = ("red", "green"), "red"
    uuids = tuple(f"6f1c1f0a-0000-0000-0000-00000000000{digit}" for digit in (1, 2))
    columns: Mapping[str, tuple[str, Any, str]] = {
        "varchars": ("varchar(20)[]", list(texts), chosen),
        "unlimited": ("varchar[]", list(texts), chosen),
        "chars": ("char(10)[]", list(texts), chosen),
        "codes": ('"char"[]', ["r", "g"], "r"),
        "names": ("name[]", list(texts), chosen),
        "uuids": ("uuid[]", list(uuids), uuids[0]),
        "prices": ("numeric[]", ["0.10", "3"], "0.1"),
        "doubles": ("double precision[]", [0.1, 3.0], "3"),
        "smallints": ("smallint[]", [1, 2], "2"),
        "flags": ("boolean[]", [True, False], "false"),
        "charges": ("charge[]", list(texts), chosen),
        "domains": ("charlist", list(texts), chosen),
        "charge": ("charge", "red", "red"),
        "padded": ("char(10)", "red", "red"),
        "blank": ("bpchar", "red", "red"),
        "of_domain": ("inner_code", "red", "red"),
        "count_char": ("charcount", 3, "3"),
        "code": ('"char"', "r", "r"),
    }
    kinds = {
        "charge": "TYPE charge AS ENUM ('red', 'green')",
        "charlist": "DOMAIN charlist AS varchar(20)[]",
        "outer_code": "DOMAIN outer_code AS char(10)",
        "inner_code": "DOMAIN inner_code AS outer_code",
        "charcount": "DOMAIN charcount AS integer",
    }
    remove_afterwards("kinds")
    write_table(postgres_url, "kinds", inputs_of({"a": None, "b": None}))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for kind in kinds.values():
            connection.execute(f"CREATE {kind}")
        try:
            for name, (kind, value, _) in columns.items():
                connection.execute(f"ALTER TABLE kinds ADD COLUMN {name} {kind}")
                connection.execute(f"UPDATE kinds SET {name} = %s::text::{kind} WHERE id = 'a'", (_literal(value),))
            connection.execute("ALTER TABLE kinds ADD COLUMN grid text[] DEFAULT '{{red},{green}}'")
            cases = [({"grid": "red"}, ""), *(({name: text}, "a") for name, (_, _, text) in columns.items())]
            cases += [({name: text}, "") for name in columns for text in ("red ", "yellow", "{red,green}", "ref")]
            against = f"pgvector:url={postgres_url};table=kinds;id_column=id;similarity=dot"
            require_filtered(checked(against, tmp_path, cases), cases)
        finally:
            connection.execute("DROP TABLE kinds")
            for name, kind in reversed(kinds.items()):
                connection.execute(f"DROP {kind.split()[0]} {name}")


def _literal(value: Any) -> str:
    """Return a value as the text that PostgreSQL reads, an array in braces."""
    return "{" + ",".join(map(str, value)) + "}" if isinstance(value, list) else str(value)


def test_json_of_pgvector_may_hold_values_of_all_types(
    tmp_path: Path, postgres_url: str, remove_afterwards: Callable[[str], None]
) -> None:
    skip_without("psycopg")
    from postgres_server import write_table

    records = [{"year": value} if value is not None else {} for value in MIXED.values()]
    remove_afterwards("mixed")
    write_table(postgres_url, "mixed", inputs_of(MIXED), metadata=records)
    against = f"pgvector:url={postgres_url};table=mixed;id_column=id;similarity=dot"
    require_filtered(checked(against, tmp_path, OF_MIXED), OF_MIXED)


def test_milvus_compares_fields_by_their_types_and_dynamic_fields_as_json(tmp_path: Path) -> None:
    skip_without("pymilvus")
    from milvus_indexes import COLLECTION, write_file

    write_file(tmp_path / "typed.db", inputs_of(TYPED), metric="IP", records=list(TYPED.values()))
    against = f"milvus:path={tmp_path / 'typed.db'};collection={COLLECTION};id_key=docno"
    cases = [*OF_TYPED, *in_container(OF_TYPED[:-1], "of_json")]
    require_filtered(checked(against, tmp_path, cases), cases)


def test_dynamic_fields_of_milvus_may_hold_values_of_all_types(tmp_path: Path) -> None:
    skip_without("pymilvus")
    from milvus_indexes import COLLECTION, write_file

    records = [{"year": value} if value is not None else {} for value in MIXED.values()]
    write_file(tmp_path / "mixed.db", inputs_of(MIXED), metric="IP", dynamic=records)
    against = f"milvus:path={tmp_path / 'mixed.db'};collection={COLLECTION};id_key=docno"
    require_filtered(checked(against, tmp_path, OF_MIXED), OF_MIXED)


def test_rows_of_lancedb_are_matched_by_a_field_of_a_struct_and_by_text(tmp_path: Path) -> None:
    skip_without("lancedb")
    from lancedb_tables import TABLE, write_table

    write_table(tmp_path / "db", INPUTS, texts=TEXTS, metadata=FIELDS)
    require_matches(f"lancedb:path={tmp_path / 'db'};table={TABLE};similarity=dot", tmp_path)


def test_rows_of_pgvector_are_matched_by_a_field_of_json_and_by_text(
    tmp_path: Path, postgres_url: str, remove_afterwards: Callable[[str], None]
) -> None:
    skip_without("psycopg")
    from postgres_server import write_table

    remove_afterwards("chunks")
    write_table(postgres_url, "chunks", INPUTS, texts=TEXTS, metadata=FIELDS)
    require_matches(f"pgvector:url={postgres_url};table=chunks;similarity=dot", tmp_path)


def test_entities_of_milvus_are_matched_by_a_nested_field_and_by_text(tmp_path: Path) -> None:
    skip_without("pymilvus")
    from milvus_indexes import COLLECTION, write_file

    nested = [{"metadata": fields} for fields in FIELDS]
    write_file(tmp_path / "chunks.db", INPUTS, metric="IP", texts=TEXTS, dynamic=nested)
    require_matches(f"milvus:path={tmp_path / 'chunks.db'};collection={COLLECTION}", tmp_path)


def test_texts_that_milvus_analyses_are_matched_too(tmp_path: Path) -> None:
    skip_without("pymilvus")
    import pyarrow as pa
    from milvus_indexes import COLLECTION, write_file

    documents = Inputs(INPUTS.ids, texts=pa.chunked_array([TEXTS]))
    write_file(tmp_path / "texts.db", documents, dynamic=FIELDS)
    require_matches(f"milvus-bm25:path={tmp_path / 'texts.db'};collection={COLLECTION}", tmp_path, of_texts=True)


def test_compare_notes_a_filter_that_no_document_of_an_index_matches(tmp_path: Path) -> None:
    """The corpus has such documents, and the index has other metadata."""
    skip_without("lancedb")
    from lancedb_tables import TABLE, write_table

    texts = {"a": "light rail", "b": "a dog", "c": "the garden"}
    documents = Inputs(Ids.of(texts), dense=embed_words(list(texts.values())))
    write_table(tmp_path / "db", documents, metadata=[{"tenant": tenant} for tenant in ("nord", "south", "south")])
    corpus, queries = tmp_path / "corpus.jsonl", tmp_path / "queries.jsonl"
    tenants = {"a": "north", "b": "south", "c": "south"}
    corpus.write_text(
        "".join(
            json.dumps({"_id": name, "text": text, "metadata": {"tenant": tenants[name]}}) + "\n"
            for name, text in texts.items()
        )
    )
    queries.write_text(
        "".join(
            json.dumps({"_id": tenant, "text": "the dog", "filter": {"tenant": tenant}}) + "\n"
            for tenant in ("north", "south")
        )
    )
    index = f"lancedb:external=true;path={tmp_path / 'db'};table={TABLE};similarity=dot"
    result = harness.compare(
        f"{index};model=python:word_vectors:Words", str(corpus), queries=str(queries), k=3, isolation="none"
    )
    (trial,) = result.report.trials
    assert trial.error is None, trial.error
    run = result.run(trial.label)
    assert sorted(run.doc_ids.take(run.rows)) == ["b", "c"]
    (note,) = [note for note in trial.notes if "that no document of the index matches" in note]
    assert note == (
        "1 query has a filter that no document of the index matches: query 'north': no document has tenant=north (did "
        "you mean 'nord'?)"
    )
