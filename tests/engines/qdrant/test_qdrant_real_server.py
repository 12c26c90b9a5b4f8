"""A whole comparison against the server that HARNESS_QDRANT_URL names: parity, shards and a fixed rate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from installed import skip_module_without
from small_world import DOCUMENTS, write_collection

import harness
from harness.doctor.servers import find_servers, left_collections
from harness.engines.qdrant.connection import URL_VARIABLE

skip_module_without("qdrant_client")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(URL_VARIABLE not in os.environ, reason=f"{URL_VARIABLE} names no server"),
]


@pytest.mark.parametrize("shards", [1, 2])
def test_a_whole_comparison(shards: int, tmp_path: Path) -> None:
    before = left_collections(find_servers()["Qdrant"], "")
    found = harness.compare(
        f"qdrant:mode=server;analyzer=whitespace;shards={shards}",
        write_collection(tmp_path / "small"),
        k=3,
        rate="20",
        arrivals="constant",
        load_seconds=1.0,
    )
    (served,) = found.report.trials
    assert served.error is None
    assert served.index is not None
    assert served.index.documents_indexed == len(DOCUMENTS)
    assert served.index.state["shards"] == shards
    assert served.parity is not None
    assert (served.parity.queries, served.parity.different) == (4, 0)
    (fixed,) = served.open_loop
    assert (fixed.queries, fixed.errors, fixed.unserved, fixed.different_queries) == (15, 0, 0, 0)
    assert left_collections(find_servers()["Qdrant"], "") == before
