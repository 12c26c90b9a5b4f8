"""Several shards: Qdrant's own engine in each of them, dealt to and merged as a server does, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from installed import skip_module_without
from qdrant_stub import serve
from qdrant_trial import Counted, Trial, count, try_qdrant

from harness.exact.qdrant_shards import shards_of
from harness.loaders import load_dataset
from harness.parity import SparseReference, compare_run, make_recipe

skip_module_without("qdrant_client")

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cacm() -> Counted:
    dataset = load_dataset("cacm")
    corpus, queries = dataset.corpus, dataset.queries
    return count("snowball-english", corpus.ids, corpus.batches(1000), queries.ids, queries.texts.to_pylist())


@pytest.fixture(scope="module", params=[2, 5])
def tried(
    cacm: Counted, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Trial, list[int]]:
    """CACM in so many shards, and how many documents each of them held."""
    with serve() as stub:
        folder = tmp_path_factory.mktemp("shards")
        trial = try_qdrant(folder, cacm, 100, url=stub.url, transport="rest", shards=request.param, keep=True)
        (held,) = stub.collections.values()
        return trial, [shard.info().points_count for shard in held.shards]


def test_cacm_in_shards_is_tie_equivalent(tried: tuple[Trial, list[int]]) -> None:
    trial, counts = tried
    assert counts == np.bincount(shards_of(3204, len(counts))).tolist(), "the stub has other shards"
    assert trial.report.indexed == 3204
    assert trial.parity.queries == 64
    assert trial.parity.tie_equivalent == 64
    assert trial.parity.causes == {}
    assert trial.parity.max_rel_score_diff <= 4e-7


def test_an_oracle_that_knew_nothing_of_shards_would_be_wrong(cacm: Counted, tried: tuple[Trial, list[int]]) -> None:
    trial, _ = tried
    recipe = make_recipe(
        "sparse", doc_ids=cacm.document_ids, query_ids=cacm.query_ids, counts=cacm.counts, parameters={}
    )
    ignorant = compare_run(trial.run, SparseReference(recipe), k=100, tolerance=4e-7)
    assert ignorant.different > 50
    assert ignorant.max_rel_score_diff > 0.01
    assert trial.parity.different == 0
