"""The client's code path keeps the contract: on the stub, and on a real server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from engine_faults import FaultsOfAServer
from installed import skip_module_without
from qdrant_indexes import write_collection
from qdrant_stub import serve
from test_qdrant_contract import QdrantContract

from harness.data.inputs import Inputs
from harness.engines.qdrant.connection import URL_VARIABLE, address_of, connect
from harness.engines.qdrant.parameters import ServerSettings
from harness.engines.server_collection import COLLECTION_FILE
from harness.registry.parameters import ParameterValue

skip_module_without("qdrant_client")

pytestmark = pytest.mark.contract

ON_SERVER: Mapping[str, ParameterValue] = {"mode": "server", "keep": True}
"""The server is the one that the environment names; collections are kept, because the suite opens indexes again."""


class ServedContract(FaultsOfAServer, QdrantContract):
    """An index on a server; one that somebody else made is a collection there."""

    parameters: ClassVar[Mapping[str, ParameterValue]] = ON_SERVER

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        """Somebody else's collection."""
        name = f"theirs-{folder.parent.name}"
        write_collection(os.environ[URL_VARIABLE], name, documents, idf=self.bm25.idf)
        return {"external": True, "collection": name, "id_key": "docno"}


@pytest.fixture(scope="class")
def stub_is_named() -> Iterator[None]:
    """Name a stub as a user would name a server."""
    with serve() as stub, pytest.MonkeyPatch.context() as patch:
        patch.setenv(URL_VARIABLE, stub.url)
        yield


@pytest.mark.usefixtures("stub_is_named")
class TestStub(ServedContract):
    """Real requests over REST, answered by Qdrant's own engine behind the stub, set up as for a real server."""

    stub = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**ON_SERVER, "transport": "rest"}


@pytest.mark.skipif(URL_VARIABLE not in os.environ, reason=f"{URL_VARIABLE} names no server")
class TestServer(ServedContract):
    """A real server, by whatever transport it answers."""

    @pytest.fixture(autouse=True)
    def removed(self, tmp_path: Path) -> Iterator[None]:
        """Remove the collections that a test made."""
        yield
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
