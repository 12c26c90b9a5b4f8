"""The contract suite on pgvector: dense vectors for each operator, by an index, as halfvec, and sparse ones.

All on one server that is there; that of a worker's own is started by ``test_pgvector_private``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import psycopg
import pytest
from engine_faults import FaultsOfAServer
from installed import skip_module_without
from postgres_server import write_table

from harness.data.inputs import Inputs
from harness.engines.pgvector.engine import PgvectorEngine, PgvectorSparseEngine
from harness.engines.pgvector.session import URL_VARIABLE
from harness.registry.parameters import ParameterValue
from harness.testing import Bm25, EngineContract
from harness.testing.changes import ChangeContract
from harness.testing.inputs import DenseContract
from harness.testing.results import ResultContract
from harness.testing.suite import Base

skip_module_without("psycopg")

pytestmark = [pytest.mark.contract, pytest.mark.integration]
SERVED: Mapping[str, ParameterValue] = {"mode": "server", "retry_s": 5.0, "keep": True}


class Pgvector(Base):
    """What all of the classes below share."""

    engine = PgvectorEngine
    card = "pgvector"
    parameters: ClassVar[Mapping[str, ParameterValue]] = SERVED
    tolerance = 1e-6
    graph_parameters: ClassVar[Mapping[str, ParameterValue]] = {
        "index": "hnsw",
        "m": 4,
        "ef_construction": 8,
        "ef_search": 10,
    }

    url: ClassVar[str]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _named(cls, postgres_url: str) -> Iterator[None]:
        cls.url = postgres_url
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(URL_VARIABLE, postgres_url)
            yield
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
                connection.execute(f'DROP TABLE "{name}"')

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        name = f"chunks_{secrets.token_hex(4)}"
        index = "" if documents.sparse is not None else "hnsw (embedding vector_cosine_ops)"
        write_table(self.url, name, documents, index=index)
        return {"external": True, "table": name, "keep": False}


class TestPgvector(FaultsOfAServer, Pgvector, EngineContract):
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"exact": True}


class TestPgvectorL2(Pgvector, DenseContract):
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**SERVED, "similarity": "l2"}


class TestPgvectorInnerProduct(Pgvector, DenseContract):
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**SERVED, "similarity": "dot"}


class TestPgvectorSparse(FaultsOfAServer, Pgvector, EngineContract):
    engine = PgvectorSparseEngine
    card = "pgvector-sparse"
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**SERVED, "idf": False}
    tolerance = 2e-6
    largest_column = 999_999_999
    bm25 = Bm25(idf=False)


class TestPgvectorSparseIdf(Pgvector, ResultContract, ChangeContract):
    """With the idf that the harness multiplies queries by, which a table of a user's has not."""

    engine = PgvectorSparseEngine
    card = "pgvector-sparse"
    parameters: ClassVar[Mapping[str, ParameterValue]] = SERVED
    tolerance = 2e-6
