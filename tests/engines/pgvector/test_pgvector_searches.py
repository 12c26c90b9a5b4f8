"""What PostgreSQL answers with, and that the harness says so: plans, filters, fewer hits, halfvec, and faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from installed import skip_module_without
from postgres_server import write_table

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.doctor import State
from harness.doctor.servers import examine_server, find_servers, left_collections, remove_collections
from harness.engines.interface import ExpectedContent, IndexHandle
from harness.engines.pgvector.engine import PgvectorEngine, PgvectorSparseEngine
from harness.engines.pgvector.session import Retrier, Session, address_of
from harness.engines.remote_server import Cause
from harness.engines.server_collection import remove_collection
from harness.errors import BackendError, EngineUnavailableError, RejectedInputError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress
from harness.testing.expected import random_unit_vectors, to_vectors

skip_module_without("psycopg")

pytestmark = pytest.mark.integration
DEFAULTS = find_cards("backends")["pgvector"].defaults
ROWS = 1500
VECTORS = random_unit_vectors(1, ROWS, 24) * np.linspace(0.5, 3, ROWS, dtype=np.float32)[:, None]
METADATA = pa.table({"shelf": [f"it's {row % 30}" for row in range(ROWS)]})
GIVEN = Inputs(Ids.of(f"d{row}" for row in range(ROWS)), dense=VECTORS, metadata=METADATA)
FEW = Inputs(Ids.of(list(GIVEN.ids)[:60]), dense=VECTORS[:60])
ASKED = Inputs(Ids.of(f"q{row}" for row in range(6)), dense=random_unit_vectors(2, 6, 24))


@contextmanager
def built(folder: Path, url: str, **parameters: ParameterValue) -> Iterator[PgvectorEngine]:
    folder.mkdir()
    with closing(PgvectorEngine({**DEFAULTS, "url": url, "retry_s": 1.0, **parameters})) as engine:
        engine.open(folder, GIVEN.ids)
        engine.index(GIVEN, RecordingProgress(), perf_counter_ns)
        yield engine


@contextmanager
def attached(
    work: Path, url: str, table: str, **parameters: ParameterValue
) -> Iterator[tuple[PgvectorEngine, IndexHandle]]:
    work.mkdir()
    given = {**DEFAULTS, "similarity": "", "external": True, "url": url, "table": table, **parameters}
    with closing(PgvectorEngine(given)) as engine:
        yield engine, engine.attach(work, RecordingProgress())


def hits(engine: PgvectorEngine, k: int) -> list[int]:
    return np.diff(engine.search(ASKED, k, perf_counter_ns).indptr).tolist()


def tables(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]


def test_the_plan_is_told_and_a_graph_gives_no_more_than_ef(tmp_path: Path, postgres_url: str) -> None:
    with built(tmp_path / "a", postgres_url, force_index=True, ef_search=20) as engine:
        assert engine.loaded.state["vectors_in_graph"] == ROWS
        assert max(hits(engine, 50)) <= 20
        state = engine.searched_state(50)
        assert (state["plan"], state["ef_search"]) == (f"index scan using {engine._index}", 20)
        assert engine.caveats(50).notes == ("its graph gives at most ef_search=20 hits, of 50: iterative_scan goes on",)
        engine.parameters["ef_search"] = 0
        assert hits(engine, 50) == [50] * 6, "as many as requested"
        assert engine.caveats(50).notes == ()
    with built(tmp_path / "b", postgres_url, ef_search=20, force_index=True, iterative_scan="strict_order") as engine:
        assert hits(engine, 50) == [50] * 6
    with built(tmp_path / "c", postgres_url, exact=True) as engine:
        assert hits(engine, 50) == [50] * 6
        assert engine.searched_state(50) == {
            "plan": "scan of all rows",
            "vectors_in_graph": 0,
            "vectors_in_lists": 0,
        }
    assert tables(postgres_url) == [], "every table was removed"


def test_a_filter_after_the_graph_loses_hits_and_an_iterative_scan_finds_them(
    tmp_path: Path, postgres_url: str
) -> None:
    """Without an index of the field: with one, PostgreSQL looks the few matching rows up and compares them all."""
    graph: dict[str, ParameterValue] = {"force_index": True, "index_fields": False}
    with built(tmp_path / "off", postgres_url, **graph) as engine:
        engine.restrict({"shelf": "it's 7"})
        assert max(hits(engine, 20)) < 20
        (note,) = engine.caveats(20).notes
        assert (
            note
            == "the filter is applied to the results of the index, so queries may get fewer hits than documents match"
        )
    with built(tmp_path / "on", postgres_url, **graph, iterative_scan="strict_order") as engine:
        engine.restrict({"shelf": "it's 7"})
        found = engine.search(ASKED, 20, perf_counter_ns)
        assert np.diff(found.indptr).tolist() == [20] * 6
        assert set((found.rows % 30).tolist()) == {7}
        assert engine.caveats(20).notes == ()
    with built(tmp_path / "field", postgres_url) as engine:
        engine.restrict({"shelf": "it's 7"})
        assert hits(engine, 20) == [20] * 6
        assert engine.searched_state(20)["plan"] == "scan of all rows"


def test_halfvec_gives_back_what_it_compares(tmp_path: Path, postgres_url: str) -> None:
    with built(tmp_path / "half", postgres_url, type="halfvec", index="none") as engine:
        found = engine.search(ASKED, 20, perf_counter_ns)
        compared = engine.compared_vectors(ASKED)
    assert np.array_equal(compared.documents, VECTORS.astype(np.float16).astype(np.float32))
    vectors = (compared.documents, compared.queries)
    stored, asked = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in vectors)
    cosines = asked @ stored.T
    expected = cosines[np.repeat(np.arange(6), 20), found.rows]
    assert np.abs(found.scores - expected).max() < 1e-6
    exact = ASKED.dense @ (VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)).T
    assert np.abs(found.scores - exact[np.repeat(np.arange(6), 20), found.rows]).max() > 1e-5


def test_the_index_of_halfvec_orders_by_vectors_that_are_rounded_twice(tmp_path: Path, postgres_url: str) -> None:
    """Under cosine the graph keeps them normalised, in float16 again: its order is theirs, its scores are not."""
    with built(tmp_path / "half", postgres_url, type="halfvec", force_index=True) as engine:
        found = engine.search(ASKED, 200, perf_counter_ns)
        assert engine.searched_state(200)["plan"].startswith("index scan")
        compared = engine.compared_vectors(ASKED)
    assert compared.index_similarity == "dot"
    queries = np.repeat(np.arange(6), np.diff(found.indptr))
    inside = np.einsum("ij,ij->i", compared.index_queries[queries], compared.index_documents[found.rows])
    same_query = np.diff(queries) == 0
    assert (np.diff(inside)[same_query] <= 1e-6).all()
    assert (np.diff(found.scores)[same_query] > 1e-6).any()


def test_lists_are_looked_into(tmp_path: Path, postgres_url: str) -> None:
    with built(tmp_path / "lists", postgres_url, index="ivfflat", lists=20, probes=2, force_index=True) as engine:
        assert engine.loaded.state["vectors_in_lists"] == ROWS
        assert engine.loaded.state["index_options"] == "lists=20"
        assert hits(engine, 10) == [10] * 6
        assert engine.searched_state(10)["plan"] == f"index scan using {engine._index}"


@pytest.mark.parametrize("kind", ["vector", "halfvec"])
def test_a_table_is_proven_and_changes_are_noticed(kind: str, tmp_path: Path, postgres_url: str) -> None:
    table = f"chunks_{kind}"
    index = f"hnsw (embedding {kind}_ip_ops)"
    write_table(postgres_url, table, FEW, kind=kind, index=index, texts=[f"text {row}" for row in range(60)])
    try:
        with attached(tmp_path / "work", postgres_url, table) as (engine, handle):
            assert (handle.info.mode, handle.state["similarity"]) == ("server, an external table", "dot")
            rows = np.arange(60, dtype=np.int32)
            expected = Inputs(handle.ids, dense=VECTORS[FEW.ids.rows_of(handle.ids)])
            assert engine.mismatch(ExpectedContent(rows, expected, ASKED), RecordingProgress()) is None
            other = expected.dense.copy()
            other[7, 3] += 1e-2
            changed = ExpectedContent(rows, Inputs(handle.ids, dense=other), ASKED)
            reason = engine.mismatch(changed, RecordingProgress())
            assert reason.startswith("1 documents have other vectors than the encoder gives, ")
            assert f"'{handle.ids[7]}' first; values differ by up to 0.01" in reason
            assert engine.stored_documents(2).texts[0] == f"text {handle.ids[0][1:]}"
            before = engine.search(ASKED, 5, perf_counter_ns)
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                engine._session.connection().execute(f"DELETE FROM {table}")
            engine._session.renew()
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute(f"UPDATE {table} SET page = 0 WHERE id = 'd1'")
            assert handle.changed() == f"rows of the table '{table}' were changed"
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute(f"DELETE FROM {table} WHERE id = 'd1'")
            assert handle.changed() == f"the table '{table}' held 60 rows and now holds 59"
            assert len(before.rows) == 30
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"DROP TABLE {table}")


def test_the_frequencies_of_columns_are_kept_in_no_measured_time(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the harness's own: what PostgreSQL did for a change is timed, not what is read and written for them."""
    parameters = find_cards("backends")["pgvector-sparse"].defaults
    documents = Inputs(Ids.of(["a", "b"]), sparse=to_vectors([{0: 1.0, 2: 1.0}, {2: 3.0}], 4))
    events: list[str] = []
    ask, save = Session.ask, np.save

    def asked(session: Session, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        events.append(statement.partition(" ")[0])
        return ask(session, statement, values)

    def saved(*arguments: Any, **options: Any) -> None:
        events.append("save")
        save(*arguments, **options)

    def clock() -> int:
        events.append("clock")
        return perf_counter_ns()

    with closing(PgvectorSparseEngine({**parameters, "url": postgres_url})) as engine:
        engine.open(tmp_path, documents.ids)
        engine.index(documents, RecordingProgress(), perf_counter_ns)
        monkeypatch.setattr(Session, "ask", asked)
        monkeypatch.setattr(np, "save", saved)
        engine.apply(Ids.of(["a"]), documents.take(np.array([1])), RecordingProgress(), clock)
        changed = events[: events.index("VACUUM")]
        frequencies = [column.tolist() for column in engine._frequencies]
    assert changed == ["SELECT", "save", "save", "clock", "DELETE", "clock"]
    assert "save" not in events[len(changed) :]
    assert frequencies == [[-1, 2], [1, 1]]


def test_a_row_without_a_vector_is_no_hit(tmp_path: Path, postgres_url: str) -> None:
    write_table(postgres_url, "gaps", FEW)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE gaps SET embedding = NULL WHERE id = 'd1'")
    try:
        with attached(tmp_path / "work", postgres_url, "gaps", similarity="dot") as (engine, _):
            assert hits(engine, 60) == [59] * 6
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP TABLE gaps")


def test_a_percent_sign_in_a_name_is_no_placeholder(tmp_path: Path, postgres_url: str) -> None:
    write_table(postgres_url, "renamed", FEW)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute('ALTER TABLE renamed RENAME COLUMN embedding TO "100%"')
        connection.execute('ALTER TABLE renamed RENAME COLUMN id TO "%(id)"')
        connection.execute('ALTER TABLE renamed RENAME TO "at %s"')
        try:
            named: dict[str, ParameterValue] = {"similarity": "dot", "id_column": "%(id)"}
            with attached(tmp_path / "work", postgres_url, "at %s", **named) as (engine, handle):
                assert hits(engine, 5) == [5] * 6
                assert engine.searched_state(5)["plan"] == "scan of all rows"
                content = ExpectedContent(
                    np.arange(60, dtype=np.int32),
                    Inputs(handle.ids, dense=VECTORS[FEW.ids.rows_of(handle.ids)]),
                    ASKED,
                )
                assert engine.mismatch(content, RecordingProgress()) is None
                assert handle.changed() is None
        finally:
            connection.execute('DROP TABLE "at %s"')


def test_vectors_of_a_column_without_dimensions_and_of_a_view(tmp_path: Path, postgres_url: str) -> None:
    """LangChain's `PGVector` makes such a column, unless it is told the length."""
    write_table(postgres_url, "loose", FEW)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE loose ALTER COLUMN embedding TYPE vector")
        connection.execute("CREATE VIEW seen AS SELECT * FROM loose")
        try:
            with attached(tmp_path / "table", postgres_url, "loose", similarity="dot") as (engine, _):
                found = engine.search(ASKED, 5, perf_counter_ns)
            with attached(tmp_path / "view", postgres_url, "seen", similarity="dot") as (engine, handle):
                assert np.array_equal(engine.search(ASKED, 5, perf_counter_ns).scores, found.scores)
                connection.execute("DELETE FROM loose WHERE id = 'd1'")
                assert handle.changed() == "the table 'seen' held 60 rows and now holds 59"
            connection.execute("UPDATE loose SET embedding = '[1, 0]' WHERE id = 'd2'")
            with (
                pytest.raises(RejectedInputError, match="has no fixed number of dimensions, and its vectors differ"),
                attached(tmp_path / "mixed", postgres_url, "loose", similarity="dot"),
            ):
                pass
        finally:
            connection.execute("DROP TABLE loose CASCADE")


def test_what_cannot_be_searched_rightly_is_refused(tmp_path: Path, postgres_url: str) -> None:
    write_table(postgres_url, "plain", FEW)
    write_table(postgres_url, "by_l2", FEW, index="hnsw (embedding vector_l2_ops)")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA elsewhere")
        connection.execute("CREATE TABLE elsewhere.theirs AS SELECT * FROM plain")

    def refused(name: str, table: str, **parameters: ParameterValue) -> str:
        with pytest.raises(BackendError) as failure, attached(tmp_path / name, postgres_url, table, **parameters):
            pass
        return str(failure.value)

    try:
        said = refused("a", "none_such")
        assert said.startswith("there is no table 'none_such' in the database\n  name an existing table")
        assert "by_l2, elsewhere.theirs, plain" in said
        assert refused("b", "plain") == (
            "no index of the table 'plain' says how its vectors are compared\n  pass similarity=, one of cosine, "
            "dot, l2"
        )
        assert "and PostgreSQL scans all rows for similarity=dot" in refused("c", "by_l2", similarity="dot")
        assert refused("d", "by_l2", id_column="uid").endswith("it has: 'id', 'page', 'content'")
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP TABLE plain, by_l2, elsewhere.theirs; DROP SCHEMA elsewhere")


def test_a_connection_that_breaks_is_opened_again(tmp_path: Path, postgres_url: str) -> None:
    with built(tmp_path / "index", postgres_url, exact=True) as engine:
        before = engine.search(ASKED, 5, perf_counter_ns)
        pid = engine._session.rows("asking", "SELECT pg_backend_pid()")[0][0]
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
        after = engine.search(ASKED, 5, perf_counter_ns)
        assert np.array_equal(before.rows, after.rows)
        assert after.repeated_calls == 1
        assert engine.searched_state(5)["plan"] == "scan of all rows", "settings are those of before"


def test_servers_that_cannot_be_had(tmp_path: Path) -> None:
    with (
        pytest.raises(EngineUnavailableError, match=r"PostgreSQL at postgresql://127\.0\.0\.1:9/db cannot be reached"),
        built(tmp_path / "a", "postgresql://127.0.0.1:9/db", retry_s=0.0),
    ):
        pass
    for url in ("http://host/db", "postgresql://me:secret@host/db", "postgresql://host"):
        with pytest.raises(RejectedInputError, match=r"is not of the form postgresql://") as failure:
            address_of(url)
        assert "secret" not in str(failure.value)
    address = address_of("", {"HARNESS_POSTGRES_URL": "postgresql://me:s%40fe@host/db"})
    assert (address.url, address.hide("password s@fe")) == ("postgresql://host:5432/db", "password ***")
    with pytest.raises(EngineUnavailableError, match="no PostgreSQL server is named"):
        address_of("", {})


def test_what_a_url_or_the_environment_names_wrongly_is_said_to_be_so(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(url: str) -> str:
        with closing(Session.of_server({**DEFAULTS, "url": url})) as session:
            with pytest.raises(BackendError) as failure:
                session.rows("asking", "SELECT 1")
            return str(failure.value)

    assert "if the database is missing: the end of the URL names it" in refused(f"{postgres_url}_of_nobody")
    for password in ("", "hunter2"):
        monkeypatch.setenv("PGUSER", "nobody_of_this_name")
        monkeypatch.setenv("PGPASSWORD", password)
        assert refused(postgres_url).endswith(
            "\n  check the user name and the password, in PGUSER and PGPASSWORD or in HARNESS_POSTGRES_URL"
        )


@pytest.mark.parametrize(
    ("named", "shown"),
    [
        ("host=db port=5433 dbname=app user=me password=hunter2", "postgresql://db:5433/app"),
        ("postgresql://me:hunter2@one:5433,two:5434/app", "postgresql://one:5433,two:5434/app"),
        ("postgresql://me:hunter2@[::1]/app?sslmode=require", "postgresql://[::1]:5432/app"),
        ("postgresql:///app?host=/run/db&password=hunter2", "postgresql:///run/db:5432/app"),
        ("postgresql://me:hunter2/x@db/app", None),
        ("postgresql://me:12/hunter2@db/app", None),
        ("postgresql://me@db:hunter2/app", None),
        ("hunter2", None),
    ],
)
def test_no_password_of_the_address_is_shown(named: str, shown: str | None) -> None:
    if shown is None:
        with pytest.raises(RejectedInputError, match="does not hold the address of a PostgreSQL server") as failure:
            address_of("", {"HARNESS_POSTGRES_URL": named})
        assert "hunter2" not in str(failure.value)
    else:
        address = address_of("", {"HARNESS_POSTGRES_URL": named})
        assert (address.url, address.secrets) == (shown, ("hunter2",))


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (psycopg.errors.TooManyConnections("full"), Cause.LIMITED),
        (psycopg.errors.UndefinedTable("gone"), Cause.MISSING),
        (psycopg.errors.AdminShutdown("bye"), Cause.BROKEN),
        (psycopg.errors.InvalidPassword("no"), Cause.UNAUTHORISED),
        (psycopg.OperationalError('connection failed: FATAL: role "me" does not exist'), Cause.UNAUTHORISED),
        (psycopg.errors.DiskFull("full"), Cause.FAILED),
        (psycopg.errors.DataException("odd"), Cause.REFUSED),
        (psycopg.errors.QueryCanceled("late"), Cause.SLOW),
        (psycopg.OperationalError("the connection is lost"), Cause.BROKEN),
        (psycopg.OperationalError("connection failed: refused"), Cause.UNREACHABLE),
        (psycopg.DatabaseError("what is this"), Cause.UNREADABLE),
        (psycopg.ProgrammingError("cannot adapt type 'memmap'"), Cause.CLIENT),
    ],
)
def test_errors_are_sorted_by_cause(error: Exception, cause: Cause) -> None:
    assert Retrier(0).fault_of(error).cause is cause


def test_the_doctor_finds_and_removes_what_killed_comparisons_left(postgres_url: str) -> None:
    left = "harness_0123456789abcdef_89abcdef"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {left} (row integer)")
        connection.execute("CREATE TABLE harness_notes (row integer)")
    server = find_servers()["PostgreSQL"]
    try:
        assert left_collections(server, postgres_url) == [left]
        found = examine_server(server, postgres_url)
        assert found.state is State.WARN
        assert f" tables, 1 of them made by harness: {left}" in found.detail
        remove_collections(server, postgres_url, [left])
        assert {left, "harness_notes"} & set(tables(postgres_url)) == {"harness_notes"}
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP TABLE harness_notes")


def test_a_table_that_stays_is_named_with_what_removes_it(caplog: pytest.LogCaptureFixture) -> None:
    url = "postgresql://127.0.0.1:9/gone"
    remove_collection(Session.of_server({**DEFAULTS, "url": url, "retry_s": 60.0}), "harness_left")
    assert "left behind: the table 'harness_left' could not be removed: connection failed" in caplog.text
    assert f"'harness doctor --postgres-url {url} --remove-left-collections' does it" in caplog.text
