from __future__ import annotations

import gzip
import json

import pytest

from harness.loaders import load_dataset, load_golden_of
from harness.registry.lookup import find_cards, find_families
from harness.store.cache import file_digest


def test_every_bundled_card_states_facts_and_digests_of_all_its_files(repository):
    files = {path.stem for path in (repository / "datasets").glob("*.toml")}
    cards = find_cards("datasets")
    assert files == {*cards, *find_families()}
    assert cards.keys() == {"cacm", "chunking-eval"}
    for name, card in cards.items():
        assert card.path == repository / "datasets" / f"{name}.toml"
        assert card.location is not None
        files = {str(file.relative_to(card.location)): file for file in card.location.rglob("*.gz")}
        assert dict(card.sha256) == {name: file_digest(file) for name, file in files.items()}
        assert None not in (card.documents, card.empty_documents, card.queries)
        assert card.judgments


def test_cacm():
    dataset = load_dataset("cacm")
    assert (len(dataset.corpus), len(dataset.queries)) == (3204, 64)
    assert len(dataset.corpus.empty_rows) == 0
    assert dataset.qrels is not None
    assert (len(dataset.qrels), len(dataset.qrels.query_ids)) == (796, 52)
    assert [dataset.corpus.ids[row] for row in (0, 9, 3203)] == ["CACM-0001", "CACM-0010", "CACM-3204"]
    assert dataset.corpus.texts[0].as_py().startswith("Preliminary Report-International Algebraic Language\n\nCACM")
    assert dataset.corpus.texts[3203].as_py().startswith("An On-Line Program for Non-Numerical Algebra\n\n   The goal")
    assert dataset.queries.ids[1] == "2"
    assert dataset.queries.texts[1].as_py().startswith("I am interested in articles written either by Prieve")


def test_cacm_keeps_the_judgments_that_name_no_document():
    dataset = load_dataset("cacm")
    assert dataset.qrels is not None
    missing = dataset.corpus.ids.rows_of(dataset.qrels.doc_ids) < 0
    assert int(missing[dataset.qrels.rows].sum()) == 55
    assert dataset.provenance["judgments_of_unknown_documents"] == "55"


@pytest.mark.parametrize("collection", ["cacm", "chunking-eval"])
def test_a_bundled_collection_equals_its_source(repository, shared_collections, collection):
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        bundled = gzip.decompress((repository / "datasets" / collection / f"{name}.gz").read_bytes())
        assert bundled == (shared_collections / collection / name).read_bytes()


def test_the_golden_set_of_chunking_eval_says_what_its_judgments_say():
    golden, of_dataset = load_golden_of("chunking-eval")
    dataset = load_dataset("chunking-eval")
    assert of_dataset
    assert (len(golden), len(golden.expecting()), golden.fields) == (473, 472, ("document",))
    expected = [(question.id, [one.id for one in question.expected]) for question in golden.expecting()]
    qrels = dataset.qrels
    assert qrels is not None
    slices = zip(qrels.query_ids, qrels.indptr[:-1].tolist(), qrels.indptr[1:].tolist(), strict=True)
    assert expected == [(query, qrels.doc_ids.take(qrels.rows[start:stop])) for query, start, stop in slices]
    asked = dict(zip(dataset.queries.ids, dataset.queries.texts.to_pylist(), strict=True))
    assert {question.id: question.question for question in golden.expecting()} == asked


@pytest.mark.integration
@pytest.mark.parametrize(
    ("folder", "counts", "empty"),
    [
        ("cranfield", (1400, 225, 1837), ["471", "995"]),
        ("chunking-eval", (1452, 472, 640), []),
        ("xquad-r/en", (1180, 1190, 1190), []),
    ],
)
def test_collections_by_path(shared_collections, folder, counts, empty):
    path = shared_collections / folder
    dataset = load_dataset(str(path))
    assert dataset.qrels is not None
    assert (len(dataset.corpus), len(dataset.queries), len(dataset.qrels)) == counts
    assert dataset.corpus.ids.take(dataset.corpus.empty_rows) == empty
    with (path / "corpus.jsonl").open(encoding="utf-8") as stream:
        expected = [json.loads(line) for line in stream]
    assert dataset.corpus.ids.to_list() == [record["_id"] for record in expected]
    assert dataset.corpus.texts.to_pylist() == [
        " ".join(part for part in (record["title"], record["text"]) if part) for record in expected
    ]
