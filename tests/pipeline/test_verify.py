"""Published configurations run again: every digit, the index before scores, and what explains a missed number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from installed import skip_without

import harness
from harness.data.progress import SilentDisplay
from harness.document.model import Notes
from harness.errors import UnknownNameError, UsageError
from harness.pipeline import verify
from harness.pipeline.verify import _Verifier
from harness.plan.capability_checks import plan_of_backends
from harness.plan.config import CompareRequest
from harness.report.documents.verify import verification_document
from harness.results.verification import PrintedNumber, Verification, VerifiedDataset, as_printed

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

DOCUMENTS = {
    "q1": ("", "cats in a garden"),
    "d1": ("Cats", "they sleep in the garden all day long"),
    "d2": ("Dogs", "a dog chased the cats of the garden"),
    "d3": ("Gardens", "water, light and cats"),
    "d4": ("", ""),
}
QUERIES = {"q1": "cats garden", "q2": "dog water", "q3": "zeppelin"}
QRELS = {"q1": {"d1": 2, "d3": 1}, "q2": {"d3": 1}}
CARD = """
name = "pets"
summary = "animals of a house"
format = "beir"
path = "../pets"
language = "en"
licence = "none"
source = "here"
"""
ROW = """
[[published]]
system = "BM25"
source = "a page"
backend = "{backend}"
options = {{ {options} }}
index = {{ {index} }}
scores = {{ {scores} }}
"""
CACM = """
[[published]]
system = "BM25"
source = "a planted claim"
backend = "csr"
options = {{ k = 1000, ties = "engine", queries = "judged" }}
index = {{ terms = {terms} }}
scores = {{ AP = "{ap}", "P@30" = "{p30}" }}
"""


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """No analyzer of Lucene is among the changes that are tried: each needs a Java machine for its texts."""
    tried = [(aspect, values) for aspect, values in verify._PARAMETERS if "lucene" not in str(values.get("analyzer"))]
    monkeypatch.setattr(verify, "_PARAMETERS", tuple(tried))


def claim(
    folder: Path, *scores: str, backend: str = "csr:analyzer=whitespace", options: str = "k = 9", index: str = ""
) -> Path:
    """Write the collection and its card, with a row for each of the scores; return the folder of cards."""
    pets = folder / "pets"
    (pets / "qrels").mkdir(parents=True, exist_ok=True)
    corpus = [{"_id": name, "title": title, "text": text} for name, (title, text) in DOCUMENTS.items()]
    (pets / "corpus.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in corpus))
    (pets / "queries.jsonl").write_text(
        "".join(f"{json.dumps({'_id': name, 'text': text})}\n" for name, text in QUERIES.items())
    )
    lines = [f"{query}\t{document}\t{grade}\n" for query, judged in QRELS.items() for document, grade in judged.items()]
    (pets / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    (folder / "datasets").mkdir(exist_ok=True)
    rows = [ROW.format(scores=printed, backend=backend, options=options, index=index) for printed in scores]
    (folder / "datasets" / "pets.toml").write_text("".join([CARD, *rows]))
    return folder


def claim_again(folder: Path, old: str, new: str) -> Path:
    """Replace a printed number of the card; return the folder of cards."""
    card = folder / "datasets" / "pets.toml"
    card.write_text(card.read_text().replace(old, new))
    return folder


def verified(folder: Path, *scores: str, **claims: str) -> VerifiedDataset:
    (dataset,) = harness.verify("pets", cards=claim(folder, *scores, **claims)).datasets
    assert dataset.unavailable is None
    return dataset


def number(folder: Path, scores: str, **claims: str) -> PrintedNumber:
    (found,) = verified(folder, scores, **claims).numbers
    return found


def reasons(found: PrintedNumber) -> list[str]:
    return [f"{one.aspect}: {one.after}" for one in found.variants]


@pytest.mark.parametrize(
    ("value", "printed", "shown"),
    [(0.31225, "0.3123", "0.3123"), (0.225, "0.2250", "0.2250"), (0.3971, "39.7%", "39.7%"), (0.5, "1", "0")],
)
def test_a_value_is_written_as_the_printed_number_is(value: float, printed: str, shown: str) -> None:
    assert as_printed(value, printed) == shown


def test_cacm_gives_all_twelve_published_numbers_to_the_digit() -> None:
    skip_without("jnius_config")
    verification = harness.verify("cacm")
    (dataset,) = verification.datasets
    assert [(fact.statistic, fact.printed, fact.measured) for fact in dataset.index] == [
        ("documents", 3204, 3204),
        ("terms", 320_968, 320_968),
    ]
    printed = {(one.system.removesuffix(" (Anserini)"), one.metric): one.printed for one in dataset.numbers}
    assert printed == {
        ("BM25", "AP"): "0.3123",
        ("BM25", "P@30"): "0.1942",
        ("BM25+RM3", "AP"): "0.3648",
        ("BM25+RM3", "P@30"): "0.2224",
        ("BM25+AX", "AP"): "0.3077",
        ("BM25+AX", "P@30"): "0.1955",
        ("QL", "AP"): "0.3265",
        ("QL", "P@30"): "0.1942",
        ("QL+RM3", "AP"): "0.3629",
        ("QL+RM3", "P@30"): "0.2250",
        ("QL+AX", "AP"): "0.2907",
        ("QL+AX", "P@30"): "0.1840",
    }
    assert [one.printed for one in dataset.numbers if not one.agrees] == []
    assert (verification.missed, verification.incomplete) == (0, False)


def test_planted_claims_on_cacm_are_explained(tmp_path: Path, repository: Path, without_java: None) -> None:
    skip_without("jnius_config")  # of the claim itself
    (tmp_path / "datasets").mkdir()
    bundled = (repository / "datasets" / "cacm.toml").read_text(encoding="utf-8").partition("[[published]]")[0]
    moved = bundled.replace('path = "cacm"', f'path = "{repository}/datasets/cacm"')
    claims = CACM.format(terms=320_967, ap="0.3079", p30="0.1568")
    (tmp_path / "datasets" / "cacm.toml").write_text(moved + claims)
    verification = harness.verify("cacm", cards=tmp_path)
    (dataset,) = verification.datasets
    assert [(fact.measured, fact.agrees) for fact in dataset.index] == [(320_968, False)]
    ap, p30 = dataset.numbers
    assert reasons(ap) == ["k1 and b: k1=1.2, b=0.75"]
    assert reasons(p30) == ["queries averaged over: all 64 of the file"]
    assert verification.missed == 3


@pytest.mark.parametrize(
    ("backend", "tried"),
    [
        (
            "lucene",
            "analyzer=lucene-yoruba|k1=1.2;b=0.75|k1=1.5;b=0.75|k1=2.0;b=0.75|k1=0.82;b=0.68|model=ql|rm3=true|axiom=true",
        ),
        (
            "lucene:model=ql;rm3=true",
            (
                "model=ql;rm3=true;analyzer=lucene-yoruba|model=bm25;rm3=true|model=ql;rm3=true;mu=1500.0|"
                "model=ql;rm3=true;mu=2000.0|model=ql;rm3=true;mu=2500.0|model=ql;rm3=false|model=ql;rm3=false;axiom=true"
            ),
        ),
    ],
)
def test_what_a_backend_of_lucene_takes_is_tried_one_change_at_a_time(backend: str, tried: str) -> None:
    (trial,) = plan_of_backends(CompareRequest(backends=[backend], dataset="cacm", timing=False)).trials
    verifier = _Verifier("cacm", None, "cacm", explain=True, cards=None, display=SilentDisplay())
    assert [other for _, other in verifier._other_backends(trial)] == [f"lucene:{each}" for each in tried.split("|")]


def test_a_number_that_agrees_is_not_explained(tmp_path: Path) -> None:
    dataset = verified(
        tmp_path, '"nDCG@3" = "0.095", AP = "20.8%"', index="documents = 5, terms = 27, unique_terms = 19"
    )
    assert [(one.agrees, one.tried) for one in dataset.numbers] == [(True, 0), (True, 0)]
    assert [(fact.statistic, fact.agrees) for fact in dataset.index] == [
        ("documents", True),
        ("terms", True),
        ("unique_terms", True),
    ]
    assert (dataset.documents, dataset.queries) == (5, 3)


def test_missed_numbers_are_explained_by_one_change(tmp_path: Path) -> None:
    expected = {
        '"nDCG@3" = "0.3100"': ["hits with their query's id: dropped before the ranking is cut"],
        '"nDCG@3" = "0.0689"': ["gain: 2^grade - 1"],
        '"nDCG@3" = "0.2500"': ["ideal ranking: the returned documents"],
        '"nDCG@3" = "0.0633"': ["queries averaged over: all 3 of the file"],
        '"nDCG@3" = "0.4354"': ["analyzer: analyzer=lucene-english", "analyzer: analyzer=snowball-english"],
        '"nDCG@3" = "0.00"': ["texts of documents: title alone"],
        'AP = "0.2500"': ["lowest relevant grade: 2"],
    }
    numbers = verified(tmp_path, *expected).numbers
    assert [reasons(found) for found in numbers] == list(expected.values())
    assert {(found.agrees, found.nearest) for found in numbers} == {(False, None)}


@pytest.mark.usefixtures("without_java")
def test_queries_that_do_not_count_find_nothing_in_a_mean_over_all_of_the_file(tmp_path: Path) -> None:
    cards = claim(tmp_path, '"nDCG@3" = "0.9999"')
    with (tmp_path / "pets" / "qrels" / "test.tsv").open("a") as judgments:
        judgments.write("q3\td1\t0\n")  # judged, and nothing is relevant
    with (tmp_path / "pets" / "queries.jsonl").open("a") as queries:
        queries.write(json.dumps({"_id": "q4", "text": "cats"}) + "\n")
    (before,) = harness.verify("pets", cards=cards, explain=False).datasets[0].numbers
    assert before.measured is not None
    all_of_file = before.measured * 2 / 4
    (found,) = harness.verify("pets", cards=claim_again(cards, "0.9999", f"{all_of_file:.4f}")).datasets[0].numbers
    (variant,) = [one for one in found.variants if one.after == "all 4 of the file"]
    assert (variant.before, variant.value) == ("2 with a relevant document", all_of_file)


def test_a_statistic_of_the_index_that_alone_is_missed_is_explained(tmp_path: Path) -> None:
    dataset = verified(tmp_path, '"nDCG@3" = "0.095"', index="terms = 17, documents = 4")
    assert [number.agrees for number in dataset.numbers] == [True]
    explained = {
        fact.statistic: [(one.aspect, one.after, one.value) for one in fact.variants] for fact in dataset.index
    }
    assert explained["terms"][0] == ("analyzer", "analyzer=lucene-english", 17.0)
    assert explained["documents"] == [("documents without text", "left out", 4.0)]
    shown = verification_document(Verification(datasets=[dataset])).sections[0].blocks[-1]
    assert isinstance(shown, Notes)
    assert "csr:analyzer=whitespace, terms: 17 is printed, 27 measured" in shown.lines


@pytest.mark.usefixtures("without_java")
def test_titles_are_added_where_they_are_not_searched(tmp_path: Path) -> None:
    cards = claim(tmp_path, 'AP = "0.2083"', index="terms = 27")
    card = cards / "datasets" / "pets.toml"
    card.write_text(card.read_text().replace("[[published]]", '[text]\nfields = ["text"]\n\n[[published]]'))
    (fact,) = harness.verify("pets", cards=cards).datasets[0].index
    (variant,) = fact.variants
    assert (variant.aspect, variant.before, variant.after) == ("texts of documents", "text alone", "title and text")


@pytest.mark.usefixtures("without_java")
def test_a_backend_that_two_rows_write_in_two_ways_is_searched_once(tmp_path: Path) -> None:
    rows = ('AP = "0.9"', 'AP = "0.8"')
    cards = claim(tmp_path, *rows, backend="csr:k1=0.9;b=0.75;analyzer=whitespace")
    card = cards / "datasets" / "pets.toml"
    first, _, second = card.read_text().rpartition("csr:k1=0.9;b=0.75")
    card.write_text(f"{first}csr:b=0.75;k1=0.8{second}")
    (dataset,) = harness.verify("pets", cards=cards).datasets
    assert [(one.agrees, one.tried > 5) for one in dataset.numbers] == [(False, True), (False, True)]


def test_options_decide_how_a_run_is_scored(tmp_path: Path) -> None:
    assert number(tmp_path, '"nDCG@3" = "0.3100"', options='k = 9, identical_ids = "drop"').agrees
    assert number(tmp_path, 'AP = "0.25"', options="k = 9, relevance = 2").agrees
    cards = claim(tmp_path, 'AP = "0.2083"', options="k = 1")
    (cut,) = harness.verify("pets", cards=cards, explain=False).datasets[0].numbers
    assert (cut.measured, cut.agrees) == (0.0, False)


def test_a_number_that_nothing_gives_has_a_nearest_variant(tmp_path: Path) -> None:
    found = number(tmp_path, '"R@2" = "0.9999"')
    assert (found.measured, found.agrees, found.variants) == (0.0, False, [])
    assert found.nearest is not None
    assert (found.nearest.aspect, found.nearest.value) == ("analyzer", 0.75)
    assert found.tried > 5
    (dataset,) = harness.verify("pets", cards=tmp_path, explain=False).datasets
    assert (dataset.numbers[0].tried, dataset.numbers[0].nearest) == (0, None)


def test_a_backend_that_fails_leaves_the_verification_incomplete(tmp_path: Path) -> None:
    cards = claim(tmp_path, 'AP = "0.1"', backend="lucene:heap=1k")
    verification = harness.verify("pets", cards=cards)
    (found,) = verification.datasets[0].numbers
    assert (found.measured, found.agrees, found.difference) == (None, False, None)
    assert found.error
    assert (verification.missed, verification.incomplete) == (0, True)


def test_folders_hold_datasets_under_their_names_and_the_card_s_rules_count(tmp_path: Path) -> None:
    cards = claim(tmp_path, 'AP = "0.2083"')
    with (tmp_path / "pets" / "qrels" / "test.tsv").open("a") as judgments:
        judgments.write("q2\tgone\t1\n")
    with (tmp_path / "datasets" / "pets.toml").open("a") as card:
        card.write("[facts]\njudgments_of_unknown_documents = { test = 1 }\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "pets").rename(tmp_path / "elsewhere" / "pets")
    (gone,) = harness.verify("pets", cards=cards).datasets
    assert gone.unavailable is not None
    (found,) = harness.verify("pets", cards=cards, data=tmp_path / "elsewhere").datasets
    assert [one.agrees for one in found.numbers] == [True]


def test_all_lists_what_is_not_here_and_available_leaves_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = claim(tmp_path, 'AP = "0.2083"')
    named = ["beir/scifact", "chunking-eval", "pets"]
    monkeypatch.setattr("harness.pipeline.verify.dataset_names", lambda _: dict.fromkeys(named, ""))
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "nothing"))
    every = harness.verify(all=True, cards=cards)
    assert [(one.name, one.unavailable is None) for one in every.datasets] == [("beir/scifact", False), ("pets", True)]
    assert every.incomplete
    here = harness.verify(available=True, cards=cards)
    assert [one.name for one in here.datasets] == ["pets"]
    assert (here.missed, here.incomplete) == (0, False)


def test_what_cannot_be_verified_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError):
        harness.verify("pots", cards=claim(tmp_path, 'AP = "0.1"'))
    for arguments, says in (({}, ": nothing is named"), ({"datasets": "cacm", "all": True}, ", and not both")):
        with pytest.raises(UsageError, match=f"verify takes names of datasets, or --available, or --all{says}"):
            harness.verify(**arguments)  # type: ignore[arg-type]
    (dataset,) = harness.verify("chunking-eval").datasets
    assert dataset.unavailable == "no published number says which backend computes it"
