"""`--rebuilds N` with Chroma itself: two builds of the same vectors are two graphs, in the process and on a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from chroma_indexes import COLLECTION, served, write_folder
from installed import skip_module_without
from small_world import DOCUMENTS, write_collection

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.results.schema import SpreadStats
from harness.testing.expected import random_unit_vectors
from harness.testing.samples import random_texts

skip_module_without("chromadb")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
COUNT = 1_500


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def spread_of(compared: harness.Comparison, label: str) -> SpreadStats:
    found = compared.trial(label).spread
    assert found is not None
    return found


@pytest.fixture
def random_collection(tmp_path: Path) -> Path:
    """1,500 documents and 40 queries of seeded random words, for seeded random vectors; without judgments."""
    documents, queries = (
        {f"{name}{row}": f"{text} {row}" for row, text in enumerate(random_texts(seed, count))}
        for name, seed, count in (("d", 1, COUNT), ("q", 2, 40))
    )
    return write_collection(tmp_path / "random", judged=False, documents=documents, queries=queries)


def test_two_builds_of_random_vectors_are_two_graphs(random_collection: Path) -> None:
    chroma = "chroma:model=random;ef_search=10;ef_construction=10;max_neighbors=4"
    compared = harness.compare(f"{chroma},flat:model=random", random_collection, k=10, rebuilds=2, timing=False)
    found = spread_of(compared, chroma)
    assert (found.builds, found.queries) == (2, 40)
    assert found.identical["10"] < 40, "the same graph was searched twice"
    assert 0 < found.pairwise_overlap["10"] < 1
    recall, parity = found.reference_overlap["10"], compared.trial(chroma).parity
    assert parity is not None
    assert recall.min <= parity.overlap["10"] <= recall.max < 1
    assert compared.trial("flat:model=random").spread is None


def test_a_sweep_shares_the_first_build_and_builds_the_others_itself(random_collection: Path) -> None:
    swept = harness.compare(
        "chroma:model=random",
        random_collection,
        k=10,
        sweep="chroma:model=random;ef_search=10,200",
        rebuilds=2,
        timing=False,
    )
    built_by = [backend.index.built_by for backend in swept.report.trials if backend.index is not None]
    assert built_by == [None, "chroma:model=random", "chroma:model=random"]
    few, many = (spread_of(swept, backend.label) for backend in swept.report.trials[1:])
    assert few.reference_overlap["10"].max < many.reference_overlap["10"].min, (
        "each build is searched with its own ef_search"
    )


def test_every_build_on_a_server_is_a_collection_that_goes(chroma_url: str, tmp_path: Path) -> None:
    def names() -> set[str]:
        with served(chroma_url) as client:
            return {collection.name for collection in client.list_collections()}

    before = names()
    for keep, left in (("false", 0), ("true", 1)):
        label = f"chroma:url={chroma_url};model=random;keep={keep}"
        compared = harness.compare([label], write_collection(tmp_path / "small"), k=10, rebuilds=2, timing=False)
        assert compared.failed == []
        found = spread_of(compared, compared.report.trials[0].label)
        assert (found.builds, found.identical_share["10"]) == (2, 1.0), f"{len(DOCUMENTS)} documents are all found"
        added = names() - before
        index = compared.report.trials[0].index
        assert index is not None
        assert added == ({index.state["collection"]} if left else set())
    with served(chroma_url) as client:
        for name in added:
            client.delete_collection(name)


def test_an_index_that_was_there_is_not_built_again(tmp_path: Path) -> None:
    vectors = random_unit_vectors(1, len(DOCUMENTS), 384)
    write_folder(tmp_path / "theirs", Inputs(Ids.of(DOCUMENTS), dense=vectors))
    label = f"chroma:external=true;path={tmp_path / 'theirs'};collection={COLLECTION};model=random"
    collection = write_collection(tmp_path / "small")
    (backend,) = harness.compare([label], collection, k=10, rebuilds=2, timing=False).report.trials
    assert backend.status == "ok"
    assert "no spread over 2 builds: its index was there before, and is not built again" in backend.notes
