"""The real collections behind `irds:` and `mteb:`, counted; run with ``-m network``.

Counts are those of ir_datasets' and MTEB's own statistics: SciFact's test split has 5,183 documents, 300 queries and
339 judgments in both; AutoRAGRetrieval has 720 documents and 114 queries with one judgment each.
"""

import pytest

from harness.loaders.dataset import load_dataset

pytestmark = [pytest.mark.network, pytest.mark.filterwarnings("ignore")]

SCIFACT = (5183, 300, 339)
KNOWN = {
    "irds:beir/scifact/test": SCIFACT,
    "mteb:SciFact": SCIFACT,
    "mteb:AutoRAGRetrieval": (720, 114, 114),
}


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)


@pytest.mark.parametrize("spec", KNOWN)
def test_has_the_counts_that_are_published(spec: str) -> None:
    loaded = load_dataset(spec)
    assert loaded.qrels is not None
    assert (len(loaded.corpus), len(loaded.queries), len(loaded.qrels)) == KNOWN[spec]


def test_both_libraries_give_the_same_scifact() -> None:
    first, second = load_dataset("irds:beir/scifact/test"), load_dataset("mteb:SciFact")
    assert set(first.corpus.ids) == set(second.corpus.ids)
    assert set(first.queries.ids) == set(second.queries.ids)


def test_candidates_of_a_reranking_task_are_documents() -> None:
    loaded = load_dataset("mteb:MIRACLReranking:yo@dev")
    assert loaded.candidates is not None
    assert set(loaded.candidates) == set(loaded.queries.ids)
