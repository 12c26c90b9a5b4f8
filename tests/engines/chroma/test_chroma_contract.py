"""The contract suite on Chroma: in the process for each space, and on the server that Chroma itself starts."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from chroma_indexes import COLLECTION, served, write_collection, write_folder
from engine_faults import FaultsInTheProcess, FaultsOfAServer
from installed import skip_module_without

from harness.data.inputs import Inputs
from harness.engines.chroma.connection import URL_VARIABLE
from harness.engines.chroma.engine import ChromaEngine
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract
from harness.testing.inputs import DenseContract
from harness.testing.suite import Base

skip_module_without("chromadb")

pytestmark = [pytest.mark.contract, pytest.mark.integration]


class Chroma(Base):
    """What all of the classes below share."""

    engine = ChromaEngine
    card = "chroma"
    tolerance = 1e-6
    graph_parameters: ClassVar[Mapping[str, ParameterValue]] = {
        "max_neighbors": 4,
        "ef_search": 1,
        "ef_construction": 10,
    }


class TestChroma(FaultsInTheProcess, Chroma, EngineContract):
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"ef_search": 50}

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        write_folder(folder, documents)
        return {"external": True, "path": str(folder), "collection": COLLECTION}


class TestChromaL2(Chroma, DenseContract):
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "l2"}


class TestChromaInnerProduct(Chroma, DenseContract):
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "dot"}


class TestChromaServer(FaultsOfAServer, Chroma, EngineContract):
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"retry_s": 4.0}
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"mode": "server", "retry_s": 5.0, "keep": True}

    url: ClassVar[str]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _named(cls, chroma_url: str) -> Iterator[None]:
        cls.url = chroma_url
        with pytest.MonkeyPatch.context() as patch, served(chroma_url) as client:
            patch.setenv(URL_VARIABLE, chroma_url)
            yield
            for one in client.list_collections():
                client.delete_collection(one.name)

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        name = f"{COLLECTION}-{secrets.token_hex(4)}"
        write_collection(self.url, documents, name=name)
        return {"external": True, "collection": name, "keep": False}
