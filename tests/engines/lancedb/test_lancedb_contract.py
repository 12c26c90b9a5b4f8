"""The contract suite on LanceDB: scanned, for each distance, and by the indexes whose scores are those of vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from engine_faults import FaultsInTheProcess
from installed import skip_module_without
from lancedb_tables import TABLE, write_table

from harness.data.inputs import Inputs
from harness.engines.lancedb.engine import LanceDbEngine
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract
from harness.testing.inputs import DenseContract
from harness.testing.suite import Base

skip_module_without("lancedb")

pytestmark = [pytest.mark.contract, pytest.mark.integration]


class LanceDb(Base):
    """What all of the classes below share."""

    engine = LanceDbEngine
    card = "lancedb"
    tolerance = 1e-6
    graph_parameters: ClassVar[Mapping[str, ParameterValue]] = {
        "index": "hnsw_flat",
        "m": 4,
        "ef_construction": 10,
        "ef": 1,
    }


class TestLanceDb(FaultsInTheProcess, LanceDb, EngineContract):
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"nprobes": 5, "exact": True}

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        write_table(folder, documents)
        return {"external": True, "path": str(folder), "table": TABLE}


class TestLanceDbL2(LanceDb, DenseContract):
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "l2"}


class TestLanceDbInnerProduct(LanceDb, DenseContract):
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "dot"}


class TestLanceDbRefined(LanceDb, EngineContract):
    """Codes choose, vectors decide: the scores are exact."""

    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"index": "ivf_pq", "refine_factor": 10}

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        write_table(folder, documents, index="IvfPq")
        return {"external": True, "path": str(folder), "table": TABLE}
