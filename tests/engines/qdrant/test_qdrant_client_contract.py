"""The client's code path keeps the contract: on the stub, and on a real server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from engine_faults import FaultsOfAServer
from test_qdrant_contract import DEFAULTS, QdrantContract

pytest.importorskip("qdrant_client", reason="the extra 'qdrant' is not installed")

from qdrant_indexes import write_collection
from qdrant_stub import serve

from harness.data.inputs import Inputs
from harness.engines.qdrant.address import URL_VARIABLE
from harness.engines.qdrant.client_store import COLLECTION_FILE
from harness.registry.parameters import ParameterValue

pytestmark = pytest.mark.contract


@pytest.fixture(scope="class")
def serving(request: pytest.FixtureRequest) -> Iterator[None]:
    """A stub for all tests of a class; collections are kept, because the suite opens indexes again."""
    with serve() as stub:
        request.cls.parameters = {**DEFAULTS, "url": stub.url, "transport": "rest", "keep": True}
        yield


class ServedContract(FaultsOfAServer, QdrantContract):
    """An index on a server; one that somebody else made is a collection there."""

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        """Somebody else's collection."""
        name = f"theirs-{folder.parent.name}"
        write_collection(self.url, name, documents, idf=self.bm25.idf)
        return {"external": True, "collection": name, "id_key": "docno"}

    @property
    def url(self) -> str:
        return str(self.parameters.get("url") or os.environ[URL_VARIABLE])


@pytest.mark.usefixtures("serving")
class TestStub(ServedContract):
    """Real requests over REST, answered by Qdrant's own engine behind the stub."""


@pytest.mark.skipif(URL_VARIABLE not in os.environ, reason=f"{URL_VARIABLE} names no server")
class TestServer(ServedContract):
    """A real server; the collections that a test made are removed after it."""

    parameters: ClassVar[Mapping[str, ParameterValue]] = {**DEFAULTS, "mode": "server", "keep": True}

    @pytest.fixture(autouse=True)
    def removed(self, tmp_path: Path) -> Iterator[None]:
        yield
        from harness.engines.qdrant.address import address_of
        from harness.engines.qdrant.connect import connect
        from harness.engines.qdrant.settings import ServerSettings

        settings = ServerSettings.of(self.parameters)
        client = connect(address_of(settings), settings).client
        left = {
            json.loads(file.read_text())["collection"]
            for file in tmp_path.rglob(COLLECTION_FILE)
            if file.stat().st_size  # the suite empties files
        }
        left |= {
            one.name
            for one in client.get_collections().collections
            if one.name.startswith((f"harness-{tmp_path.name}-", f"theirs-{tmp_path.name}"))
        }
        for name in left:
            client.delete_collection(name)
        client.close()
