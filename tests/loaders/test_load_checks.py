"""Each pitfall of a dataset is found in data that loads well, with its numbers; honest data are left alone."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness.data.dataset import Dataset
from harness.data.filtering import QueryFilters
from harness.data.id_spelling import respelling
from harness.data.problems import Finding
from harness.data.types import Ids
from harness.errors import DataError
from harness.loaders import load_dataset
from harness.loaders.checks import DATASET_CHECKS, dataset_findings
from harness.pipeline.evaluate import as_qrels

WORDS = [f"word{number}" for number in range(200)]


def texts(count: int, seed: int = 0) -> list[str]:
    chosen = np.random.default_rng(seed)
    return [f"{' '.join(chosen.choice(WORDS, 12))} {number}" for number in range(count)]


def collection(
    documents: Mapping[str, str] | None = None,
    queries: Mapping[str, str] | None = None,
    qrels: Mapping[str, Mapping[str, int]] | None = None,
) -> Dataset:
    """100 documents and 40 queries with one relevant document each, or some of these replaced."""
    documents = documents or {f"d{number}": text for number, text in enumerate(texts(100))}
    queries = queries or {f"q{number}": f"what is {text}" for number, text in enumerate(texts(40, seed=1))}
    names = list(documents)
    qrels = qrels or {query: {names[row]: 1} for row, query in enumerate(queries)}
    return Dataset.of(documents, queries, qrels)


def only(dataset: Dataset, relevance: int = 1) -> Finding:
    (found,) = dataset_findings(dataset, relevance)
    return found


def write(folder: Path, documents: list[dict[str, str]], qrels: list[tuple[str, str, int]]) -> Path:
    folder.mkdir(parents=True)
    queries = [{"_id": name, "text": f"about {name}"} for name in dict.fromkeys(query for query, _, _ in qrels)]
    for name, records in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "qrels").mkdir()
    lines = [f"{query}\t{doc}\t{grade}\n" for query, doc, grade in qrels]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    return folder


def records(ids: list[str]) -> list[dict[str, str]]:
    return [{"_id": name, "text": text} for name, text in zip(ids, texts(len(ids)), strict=True)]


def test_honest_data_have_no_finding() -> None:
    assert dataset_findings(collection()) == []


@pytest.mark.parametrize("name", ["cacm", "chunking-eval"])
def test_bundled_collections_have_none(name: str) -> None:
    assert dataset_findings(load_dataset(name)) == []


@pytest.mark.parametrize("name", ["cranfield", *(f"xquad-r/{language}" for language in ("en", "de", "zh", "ar"))])
def test_shared_collections_have_none(shared_collections: Path, name: str) -> None:
    assert dataset_findings(load_dataset(shared_collections / name)) == []


def test_no_documents_and_no_judgments_are_no_pitfall() -> None:
    whole = collection()
    assert dataset_findings(replace(whole, qrels=None)) == []
    empty = replace(whole.corpus, ids=Ids.of([]), texts=whole.corpus.texts.slice(0, 0))
    assert dataset_findings(replace(whole, corpus=empty)) == []


def test_a_split_that_judges_few_of_the_queries() -> None:
    queries = {f"q{number}": text for number, text in enumerate(texts(1000, seed=1))}
    found = only(collection(queries=queries, qrels={f"q{number}": {f"d{number}": 1} for number in range(37)}))
    assert found.check == "wrong-split"
    assert found.message.startswith("37 of 1,000 queries are judged (3.7%)")
    assert "--split" in found.fix
    honest = {f"q{number}": {f"d{number}": 1} for number in range(54)}  # the share of FEVER's test split
    assert dataset_findings(collection(queries=queries, qrels=honest)) == []


def test_negatives_that_are_judged_as_relevant() -> None:
    """MIRACL's lists of ten passages a query, each with grade 1."""
    lists = {f"q{query}": {f"d{(7 * query + place) % 100}": 1 for place in range(10)} for query in range(40)}
    found = only(collection(qrels=lists))
    assert found.check == "negatives-as-relevant"
    assert "all 400 judgments are relevant" in found.message
    assert "each of 40 queries" in found.message
    assert "(10 to 10, 10.0 on average)" in found.message
    graded = {query: {doc: int(place < 3) for place, doc in enumerate(docs)} for query, docs in lists.items()}
    assert dataset_findings(collection(qrels=graded)) == []
    chosen = np.random.default_rng(0).negative_binomial(2, 0.15, size=40) + 1
    uneven = {f"q{query}": {f"d{doc}": 1 for doc in range(min(int(n), 100))} for query, n in enumerate(chosen)}
    assert dataset_findings(collection(qrels=uneven)) == []


def test_a_scale_whose_lowest_grade_means_not_relevant() -> None:
    graded = {f"q{query}": {f"d{query}": 3, f"d{query + 1}": 2, **{f"d{50 + place}": 1 for place in range(4)}}
              for query in range(40)}  # fmt: skip
    found = only(collection(qrels=graded))
    assert found.check == "negatives-as-relevant"
    assert "grades are 1, 2, 3, and 160 of 240 judgments have the lowest, 1" in found.message
    assert "--relevance 2" in found.fix
    assert dataset_findings(collection(qrels=graded), relevance=2) == []
    two_levels = {query: {doc: min(grade, 2) for doc, grade in docs.items()} for query, docs in graded.items()}
    assert dataset_findings(collection(qrels=two_levels)) == []


def test_relevant_documents_with_a_twin_that_nobody_judged() -> None:
    documents = {f"d{number}": text for number, text in enumerate(texts(100))}
    documents |= {f"copy{number}": documents[f"d{number}"] for number in range(12)}
    found = only(collection(documents))
    assert found.check == "duplicate-texts"
    assert found.message == (
        "24 of 112 documents have the same text as another document; 12 of 40 relevant judgments are of a document "
        "whose twin is "
        "not judged"
    )
    assert found.examples == ("'d0', 'copy0' are equal",)
    judged = {f"q{row}": {f"d{row}": 1, **({f"copy{row}": 1} if row < 12 else {})} for row in range(40)}
    assert dataset_findings(collection(documents, qrels=judged)) == []
    tenants = pa.table({"tenant": ["north"] * 100 + ["south"] * 12})
    filtered = QueryFilters.of_each(tenants, [{"tenant": "north"}] * 40)
    assert dataset_findings(replace(collection(documents), filtered=filtered)) == [], "a filter leaves out the twins"


def test_repeated_texts_alone_are_honest_up_to_half() -> None:
    """LoTTE repeats half of its texts."""
    documents = {f"d{number}": text for number, text in enumerate(texts(100))}
    lotte = documents | {f"d{50 + number}": documents[f"d{99 - number % 2}"] for number in range(48)}
    judged = {f"q{row}": {f"d{row}": 1} for row in range(40)}
    assert dataset_findings(collection(lotte, qrels=judged)) == []
    found = only(collection(lotte | {f"d{40 + number}": documents["d99"] for number in range(10)}, qrels=judged))
    assert found.message == "60 of 100 documents have the same text as another document"


def test_documents_with_next_to_no_text() -> None:
    documents = {f"d{number}": text for number, text in enumerate(texts(100))}
    documents |= {"d10": "nan", "d11": "  None ", "d12": "", "d50": "N/A"}
    found = only(collection(documents))
    assert found.check == "near-empty-documents"
    assert found.message == (
        "4 of 100 documents have no text (1 empty, 3 with 'nan', 'None', 'null' or 'N/A'), and 3 relevant judgments of "
        "them"
    )
    assert found.examples == ("'d10' is 'nan'", "'d11' is 'None'", "'d50' is 'N/A'")


def test_short_answers_are_whole_documents() -> None:
    """mteb-ko/mkqa has 6,658 answers, the shortest of one character."""
    answers = [chr(ord("가") + number) for number in range(50)] + [f"{number}년" for number in range(50)]
    assert dataset_findings(collection({f"d{number}": answer for number, answer in enumerate(answers)})) == []


def test_queries_that_are_documents_too() -> None:
    documents = {f"d{number}": text for number, text in enumerate(texts(100))}
    queries = {f"d{number}": documents[f"d{number}"] for number in range(60, 100)}  # as in ArguAna
    dataset = collection(documents, queries, {query: {f"d{row}": 1} for row, query in enumerate(queries)})
    found = only(dataset)
    assert found.check == "query-is-document"
    assert found.message.startswith("the text of 40 of 40 queries is the text of a document that is not relevant")
    assert found.fix == "--identical-ids drop leaves them out before scoring"
    assert dataset_findings(replace(dataset, identical_ids="drop")) == []


@pytest.mark.parametrize(
    ("own_ids", "fix"),
    [(0, "take these documents out of the corpus"), (25, "--identical-ids drop leaves 25 of them out before scoring")],
)
def test_queries_that_are_documents_of_another_id(own_ids: int, fix: str) -> None:
    documents = {f"d{number}": text for number, text in enumerate(texts(100))}
    queries = {f"d{n}" if n < 60 + own_ids else f"q{n}": documents[f"d{n}"] for n in range(60, 100)}
    dataset = collection(documents, queries, {query: {f"d{row}": 1} for row, query in enumerate(queries)})
    assert only(dataset).fix.startswith(fix)
    dropped = only(replace(dataset, identical_ids="drop"))
    assert dropped.message.startswith(f"the text of {40 - own_ids} of 40 queries")


def test_queries_that_are_the_text_of_their_answer() -> None:
    documents = {f"d{number}": text for number, text in enumerate(texts(100))}
    queries = {f"q{number}": documents[f"d{number}"] for number in range(40)}
    found = only(collection(documents, queries))
    assert found.check == "query-is-document"
    assert "the text of 40 of 40 queries is the whole text of a document that is relevant for it" in found.message


def test_titles_that_nearly_all_documents_lack(tmp_path: Path) -> None:
    made = records([f"d{number}" for number in range(50)])
    made = [{**one, "title": "A title" if row < 3 else ""} for row, one in enumerate(made)]
    qrels = [(f"q{row}", f"d{row}", 1) for row in range(10)]
    found = only(load_dataset(write(tmp_path / "few", made, qrels)))
    assert (found.check, found.message) == ("title-missing", "3 of 50 documents have a title (6.0%)")
    none = [{**one, "title": ""} for one in made]  # as BEIR writes FiQA
    assert dataset_findings(load_dataset(write(tmp_path / "none", none, qrels))) == []


def test_titles_in_a_field_that_nobody_reads(tmp_path: Path) -> None:
    made = [{**one, "headline": f"About {one['_id']}"} for one in records([f"d{number}" for number in range(50)])]
    folder = write(tmp_path / "news", made, [(f"q{row}", f"d{row}", 1) for row in range(10)])
    found = only(load_dataset(folder))
    assert found.check == "title-missing"
    assert found.message.startswith("50 of 50 documents have a field 'headline', which is not searched")
    assert found.fix == "if it is the title: --columns title=headline"


def test_titles_that_the_card_leaves_out(tmp_path: Path) -> None:
    made = [{**one, "title": f"About {one['_id']}"} for one in records([f"d{number}" for number in range(50)])]
    write(tmp_path / "datasets" / "papers", made, [(f"q{row}", f"d{row}", 1) for row in range(10)])
    card = (Path(__file__).parents[2] / "datasets" / "cacm.toml").read_text(encoding="utf-8")
    card = card[: card.index("[facts]")].replace("cacm", "papers").replace('["title", "text"]', '["text"]')
    (tmp_path / "datasets" / "papers.toml").write_text(card)
    found = only(load_dataset("papers", cards=tmp_path))
    assert found.check == "title-missing"
    assert found.message.startswith("50 of 50 documents have a title, and it is not searched")
    assert 'fields = ["title", "text"]' in found.fix


@pytest.mark.parametrize(
    ("corpus", "judged", "reason"),
    [
        ("doc{}", "{}", "50 of them are the same with 'doc' before them: '0' is 'doc0'"),
        ("{}", "{}.0", "50 of them are the same but for a decimal part: '0.0' is '0'"),
        ("A-{:05}", "A-{}", "50 of them are the same but for leading zeros: 'A-0' is 'A-00000'"),
        ("Page-{}", "page-{}", "50 of them are the same but for upper and lower case: 'page-0' is 'Page-0'"),
        ("{}.txt", "docs/{}.txt", "50 of them are the same but for folders: 'docs/0.txt' is '0.txt'"),
        ("{}", "{}-passage", "50 of them are the same without '-passage' after them: '0-passage' is '0'"),
    ],
)
def test_ids_that_are_spelled_otherwise(tmp_path: Path, corpus: str, judged: str, reason: str) -> None:
    qrels = [(f"q{row}", judged.format(row), 1) for row in range(50)]
    with pytest.raises(DataError) as caught:
        load_dataset(write(tmp_path / "toys", records([corpus.format(number) for number in range(100)]), qrels))
    assert (
        f"50 of 50 judged documents are not in corpus.jsonl (100 documents), and {reason}"
        in str(caught.value).splitlines()[1]
    )


def test_a_corpus_that_was_cut(tmp_path: Path) -> None:
    qrels = [(f"q{row}", f"doc{2 * row}", 1) for row in range(50)]
    with pytest.raises(DataError) as caught:
        load_dataset(write(tmp_path / "toys", records([f"doc{number}" for number in range(27)]), qrels))
    assert (
        "36 of 50 judged documents are not in corpus.jsonl (27 documents), and all of them come after its last, "
        "'doc26': the file was cut"
    ) in str(caught.value).splitlines()[1]
    assert str(caught.value).count("\n  line ") == 3, "a few of them are enough where all are explained"
    assert "… and 33 more" in str(caught.value)


def test_judged_documents_that_are_missing(tmp_path: Path) -> None:
    """Most are there: it goes on, and says how many are not; a relevant one counts and is never found."""
    held = [f"doc{number}" for number in range(100) if number % 4]
    qrels = [(f"q{row}", f"doc{row}", int(row > 0)) for row in range(50)]
    dataset = load_dataset(write(tmp_path / "toys", records(held), qrels))
    found = only(dataset)
    assert (found.check, found.examples) == ("unknown-judged-documents", ("'doc0', 'doc4', 'doc8'",))
    assert found.message == (
        "13 of 50 judgments are of documents not in the corpus; 12 of them relevant, which no backend can find"
    )
    assert found.fix.startswith("get the corpus that")
    assert "not in the corpus" not in dataset.provenance.get("notes", "")
    (single,) = [
        finding
        for finding in dataset_findings(load_dataset(write(tmp_path / "one", records(held), [*qrels[1:3], qrels[4]])))
        if finding.check == "unknown-judged-documents"
    ]
    assert single.message == (
        "1 of 3 judgments is of a document not in the corpus; it is relevant, and no backend can find it"
    )
    assert single.fix == "get the corpus that the judgments were made on; or remove these judgments"
    assert dataset.provenance["judgments_of_unknown_documents"] == "13"
    scores = harness.evaluate({query: {f"doc{query[1:]}": 1.0} for query in dataset.queries.ids}, dataset, "R@10")
    assert scores.means()[0].value == 1.0
    held_only = {f"q{row}": {f"doc{row}": 1.0} for row in range(50) if row % 4}
    assert harness.evaluate(held_only, dataset, "R@10").means()[0].value == 37 / 49


def test_judged_documents_of_objects_that_are_missing() -> None:
    documents = {f"doc{number}": text for number, text in enumerate(texts(20))}
    dataset = Dataset.of(documents, {"q": "what?"}, {"q": {"doc1": 1, "gone": 1}})
    assert only(dataset).message == (
        "1 of 2 judgments is of a document not in the corpus; it is relevant, and no backend can find it"
    )
    with pytest.raises(DataError, match="the document 'gone' is judged, but there is no such document"):
        Dataset.of(documents, {"q": "what?"}, {"q": {"gone": 1}})


def test_judgments_that_are_repeated_word_for_word(tmp_path: Path) -> None:
    """Counted once and told, in every layout and shape of judgments."""
    rows = [("q", "a", 1), ("q", "b", 0), ("q", "a", 1), ("r", "a", 2), ("q", "a", 1)]
    fields = ("query-id", "corpus-id", "score")
    trec = "".join(f"{query} 0 {document} {grade}\n" for query, document, grade in rows)
    written = {
        "trec.qrels": trec,
        "beir.tsv": "\n".join("\t".join(map(str, row)) for row in [fields, *rows]),
        "table.csv": "\n".join(",".join(map(str, row)) for row in [fields, *rows]),
        "table.jsonl": "\n".join(json.dumps(dict(zip(fields, row, strict=True))) for row in rows),
        "table.json": json.dumps([dict(zip(fields, row, strict=True)) for row in rows]),
    }
    for name, content in written.items():
        (tmp_path / name).write_text(content)
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])
    frame.to_parquet(tmp_path / "table.parquet")
    lists = {"q": [("a", 1), ("b", 0), ("a", 1), ("a", 1)], "r": {"a": 2}}
    for judgments in (*(tmp_path / name for name in written), tmp_path / "table.parquet", frame, rows, lists):
        dataset = Dataset.of({"a": "one", "b": "two"}, {"q": "x", "r": "y"}, as_qrels(judgments))
        assert dataset.qrels is not None
        assert (dataset.qrels.grades.tolist(), dataset.qrels.repeated) == ([1, 0, 2], 2), judgments
        for findings in (dataset_findings(dataset), harness.evaluate({"q": ["a"]}, judgments, "R@10").findings):
            assert findings[0].message == "2 judgments are repeated with the same grade, and counted once"


def test_judgments_that_are_repeated_in_a_folder(tmp_path: Path) -> None:
    qrels = [("q1", "d1", 1), ("q2", "d2", 1), ("q1", "d1", 1)]
    folder = write(tmp_path / "toys", records(["d1", "d2"]), qrels)
    assert only(load_dataset(folder)).check == "repeated-judgments"
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td1\t2\n")
    with pytest.raises(DataError, match="line 3: document 'd1' is judged for query 'q1' with grade 2, and on line 2"):
        load_dataset(folder)


def test_judgments_of_the_queries_of_another_split(tmp_path: Path) -> None:
    folder = write(tmp_path / "toys", records([f"d{n}" for n in range(60)]), [(f"q{n}", f"d{n}", 1) for n in range(50)])
    kept = (folder / "queries.jsonl").read_text().splitlines(keepends=True)[:3]
    (folder / "queries.jsonl").write_text("".join(kept))
    with pytest.raises(DataError) as caught:
        load_dataset(folder)
    assert (
        "47 of 50 judged queries are not in queries.jsonl, which looks like the judgments of another split"
        in (str(caught.value).splitlines()[1])
    )


def test_a_dataset_of_objects_says_it_too() -> None:
    documents = {f"doc{number}": text for number, text in enumerate(texts(20))}
    with pytest.raises(DataError) as caught:
        Dataset.of(documents, {"q": "what?"}, {"q": {str(number): 1 for number in range(5)}})
    assert "5 of them are the same with 'doc' before them" in str(caught.value).splitlines()[1]


def test_a_bundled_collection_cut_in_its_middle(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "datasets" / "chunking-eval"
    shutil.copytree(source, tmp_path / "cut")
    lines = gzip.decompress((source / "corpus.jsonl.gz").read_bytes()).splitlines(keepends=True)
    (tmp_path / "cut" / "corpus.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[:700])))
    with pytest.raises(DataError) as caught:
        load_dataset(tmp_path / "cut")
    assert "judged documents are not in corpus.jsonl.gz (700 documents)" in str(caught.value).splitlines()[1]


def test_every_check_is_reached_by_these_tests() -> None:
    """One test or more for each row of the table; a new check needs one."""
    assert [check.__name__ for check in DATASET_CHECKS] == [
        "_unread_files",
        "_unknown_judged_documents",
        "_repeated_judgments",
        "_few_judged_queries",
        "_pool_as_relevant",
        "_scale_without_zero",
        "_duplicate_texts",
        "_near_empty_documents",
        "_queries_as_documents",
        "_titles_missing",
        "_titles_unused",
    ]


NAMES = st.sets(st.text("abc0123-", min_size=1, max_size=6), min_size=1, max_size=30)


@given(known=NAMES, named=NAMES)
def test_a_rule_of_spelling_holds_for_its_example(known: set[str], named: set[str]) -> None:
    missing = sorted(named - known)
    found = respelling(missing, Ids.of(sorted(known)))
    if found is None:
        return
    assert 3 <= found.met <= len(missing)
    assert 2 * found.met >= len(missing)
    assert found.as_text in missing
    assert found.corpus_id in known
    assert f"{found.met} of them" in str(found)


@given(numbers=st.sets(st.integers(0, 10**6), min_size=3, max_size=30), prefix=st.text("xyz-_", min_size=1, max_size=4))
def test_a_prefix_is_always_found(numbers: set[int], prefix: str) -> None:
    names = [str(number) for number in sorted(numbers)]
    for known, missing in ((f"{prefix}{{}}", "{}"), ("{}", f"{prefix}{{}}")):
        found = respelling([missing.format(name) for name in names], Ids.of(known.format(name) for name in names))
        assert found is not None
        assert found.met == len(names)


def test_numbers_are_no_prefix() -> None:
    assert respelling(["3", "7", "9"], Ids.of(["13", "17", "19"])) is None
    assert respelling([], Ids.of(["1"])) is None
    assert respelling(["a", "b", "c"], Ids.of([])) is None
