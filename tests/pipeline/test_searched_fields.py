"""Fields with weights in a comparison: where their texts come from, which trials share them, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from installed import skip_module_without, skip_without
from small_world import write_collection

import harness
from harness.data.dataset import Dataset
from harness.errors import UnknownNameError, UsageError

skip_module_without("apsw")
pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
DOCUMENTS: Mapping[str, Mapping[str, Any]] = {
    "d1": {"title": "the cat", "text": "sat on the mat", "metadata": {"tags": ["pets", "mats"], "year": 1971}},
    "d2": {
        "title": "a dog",
        "text": "chased the cat across the garden",
        "metadata": {"tags": ["garden"], "year": 1972},
    },
    "d3": {"title": "gardens", "text": "need water and light", "metadata": {"year": 1971}},
    "d4": {"title": "", "text": "light rail reached the station", "metadata": {"tags": "trains"}},
    "d5": {"title": "station", "text": ""},
    "d6": {"title": "cats and dogs", "text": "in the garden, a cat on the mat"},
}
QUERIES = {"q1": "cat garden", "q2": "light station", "q4": "dog"}
QRELS = {"q1": {"d2": 1, "d6": 2}, "q2": {"d4": 1}, "q4": {"d2": 1}}
PLAIN = "analyzer=whitespace"


def write_titled(folder: Path) -> Path:
    """The collection as a folder of files, with metadata."""
    write_collection(folder)
    lines = (json.dumps({"_id": key, **record}) for key, record in DOCUMENTS.items())
    (folder / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def compared(backends: str | list[str], dataset: Any, **options: Any) -> harness.Comparison:
    comparison = harness.compare(backends, dataset, k=6, timing=False, **options)
    for trial in comparison.report.trials:
        assert trial.error is None
        if trial.parity is not None:
            assert trial.parity.tie_equivalent == trial.parity.queries
    return comparison


def ranked(comparison: harness.Comparison, label: str, query: str) -> list[str]:
    run = comparison.run(label)
    hits = run.of_query(run.query_ids.to_list().index(query))
    return list(run.doc_ids.take(run.rows[hits]))


def test_a_weight_lifts_documents_whose_title_matches(tmp_path: Path) -> None:
    """The index is built once for both weights, and an unnamed title is searched as part of the text."""
    low, high = f"low=sqlite:fields=title^0.1+text;{PLAIN}", f"high=sqlite:fields=title^10+text;{PLAIN}"
    comparison = compared([low, high, f"joined=sqlite:{PLAIN}"], str(write_titled(tmp_path / "small")))
    assert ranked(comparison, "low", "q1").index("d1") > ranked(comparison, "high", "q1").index("d1")
    indexes = {trial.label: trial.index for trial in comparison.report.trials}
    assert indexes["high"].built_by == "low"
    assert indexes["joined"].built_by is None
    assert {trial.label: trial.parameters["fields"] for trial in comparison.report.trials} == {
        "low": "title^0.1+text",
        "high": "title^10+text",
        "joined": "",
    }


def test_a_folder_and_objects_have_the_same_fields(tmp_path: Path) -> None:
    backend = f"a=sqlite:fields=title^3+text;{PLAIN}"
    of_files = compared(backend, str(write_titled(tmp_path / "small")))
    objects = {key: {**record, **record.get("metadata", {})} for key, record in DOCUMENTS.items()}
    of_objects = compared(backend, Dataset.of(objects, QUERIES, QRELS))
    renamed = [{"key": key, "head": one["title"], "body": one["text"]} for key, one in DOCUMENTS.items()]
    columns = {"id": "key", "title": "head", "text": "body"}
    of_names = compared(backend, Dataset.of(renamed, QUERIES, QRELS, columns=columns))
    for query in QUERIES:
        assert ranked(of_files, "a", query) == ranked(of_objects, "a", query) == ranked(of_names, "a", query)


def test_further_fields_of_the_metadata_are_searched(tmp_path: Path) -> None:
    """A list of texts is joined; a number is its text; a document without the field has none."""
    backend = f"a=sqlite:fields=title+text+tags^5+year;{PLAIN}"
    folder = write_titled(tmp_path / "small")
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "garden"}\n{"_id": "q2", "text": "1971 mats"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\nq2\td1\t1\n")
    comparison = compared(backend, str(folder))
    assert ranked(comparison, "a", "q1")[0] == "d2"
    assert ranked(comparison, "a", "q2") == ["d1", "d3"]


def test_fields_go_with_filters_fusion_second_stages_and_sweeps(tmp_path: Path) -> None:
    folder, backend = str(write_titled(tmp_path / "small")), f"a=sqlite:fields=title^3+text;{PLAIN}"
    backends = [backend, f"b=csr:{PLAIN}", "both=rrf:a+b", "a|keywords"]
    filtered = compared(backends, folder, filter="year=1971")
    assert set(ranked(filtered, "a", "q1")) == set(ranked(filtered, "a|keywords", "q1")) == {"d1"}
    assert filtered.trial("both").parity is not None
    swept = compared([], folder, sweep=[f"sqlite:{PLAIN};fields=title^1+text,title^3+text,title"])
    assert [trial.parameters["fields"] for trial in swept.report.trials] == ["title+text", "title^3+text", "title"]


@pytest.mark.parametrize("backend", ["sqlite", "tantivy"])
def test_changed_documents_keep_their_fields(backend: str) -> None:
    """After each change hits agree with the reference of the documents that are left, or the cause is proven."""
    documents = {f"d{n:02}": {"title": f"cat w{n % 3}", "text": f"garden w{n % 5} w{n % 7} cat"} for n in range(60)}
    comparison = harness.compare(
        f"a={backend}:fields=title^3+text;{PLAIN}",
        Dataset.of(documents, {"q1": "cat w1", "q2": "w2 w4"}, {"q1": {"d01": 1}, "q2": {"d02": 1}}),
        k=20,
        churn="insert=10%,delete=10%,update=10%,steps=2",
        isolation="none",
        timing=False,
    )
    trial = comparison.trial("a")
    assert trial.error is None
    churn = trial.probes["churn"]
    for state in (*churn["states"], churn["new_index"]):
        parity = state["parity"]
        assert 2 in (parity["bit_equal"], parity["identical"], sum(parity["causes"].values()))
        assert "unknown" not in parity["causes"]


def parts(comparison: harness.Comparison) -> dict[str, dict[str, tuple[str, str, int | None]]]:
    """The parts in which formulas differ, by backend."""
    return {
        one.b: {change.part: (change.before, change.after, change.queries) for change in one.changes}
        for one in comparison.report.formula_differences
    }


def test_backends_that_search_other_fields_differ_by_them(tmp_path: Path) -> None:
    """The other parts of the formula are named too, and proven if the reference searches one text."""
    folder = str(write_titled(tmp_path / "small"))
    three, one = f"three=sqlite:fields=title^3+text;{PLAIN}", f"one=sqlite:fields=title+text;{PLAIN}"
    changes = parts(compared([f"csr=csr:{PLAIN}", three, f"joined=sqlite:{PLAIN}"], folder))
    assert changes["three"]["searched fields"] == ("title and text as one", "title^3+text", None)
    assert changes["three"]["k1"][:2] == ("0.9", "1.2")
    assert changes["three"]["k1"][2] is not None
    assert "searched fields" not in changes["joined"]
    compared_weights = compared([three, one, f"csr=csr:{PLAIN}"], folder)
    weights = parts(compared_weights)
    assert weights["one"] == {"searched fields": ("title^3+text", "title+text", None)}
    assert weights["csr"]["k1"] == ("1.2", "0.9", None)
    text = " ".join(compared_weights.render("table").split())
    assert "one: searched fields title+text;" in text
    assert "csr: searched fields title and text as one, " in text


def test_statistics_of_fields_that_are_pooled_or_separate_differ(tmp_path: Path) -> None:
    skip_without("tantivy")
    backends = [f"{name}={name}:fields=title^3+text;{PLAIN}" for name in ("sqlite", "tantivy")]
    changes = parts(compared(backends, str(write_titled(tmp_path / "small"))))["tantivy"]
    assert changes["statistics of fields"] == ("of all fields together", "of each field", None)
    assert "searched fields" not in changes


def test_notes_count_the_documents_in_statistics_only_if_some_are_left_out(tmp_path: Path) -> None:
    """FTS5 counts every document, csr the documents with a term."""
    folder = write_titled(tmp_path / "small")
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('\n{"_id": "d7", "title": "", "text": "!"}')
    trials = compared(["csr", "sqlite", "fields=sqlite:fields=title+text"], str(folder)).report.trials
    note = "N, df and avgdl count the 6 documents with a term"
    assert [note in trial.notes for trial in trials] == [True, False, False]
    assert not any("avgdl" in text for trial in trials[1:] for text in trial.notes)


def test_a_stored_outcome_is_reused_only_for_the_same_titles(tmp_path: Path) -> None:
    backend, folder = f"a=sqlite:fields=title^3.5+text;{PLAIN}", write_titled(tmp_path / "small")
    first = compared(backend, str(folder), resume="missing")
    assert not first.trial("a").reused
    assert compared(backend, str(folder), resume="missing").trial("a").reused
    assert not compared(backend.replace("^3.5", "^2.5"), str(folder), resume="missing").trial("a").reused
    # the joined text stays the same, and a word moves from the text into the title
    moved = (folder / "corpus.jsonl").read_text().replace('"the cat", "text": "sat', '"the cat sat", "text": "')
    (folder / "corpus.jsonl").write_text(moved.replace('"text": " on', '"text": "on'))
    again = compared(backend, str(folder), resume="missing")
    assert again.report.datasets[0].sha256 == first.report.datasets[0].sha256
    assert not again.trial("a").reused


def test_a_regression_run_takes_another_weight(tmp_path: Path) -> None:
    backend, folder = f"a=sqlite:fields=title^0.1+text;{PLAIN}", write_titled(tmp_path / "small")
    compared(backend, str(folder), out=tmp_path / "before")
    again = harness.regress(tmp_path / "before", set=["sqlite:fields=title^10+text"]).comparison
    assert again is not None
    (trial,) = again.report.trials
    assert trial.error is None
    assert trial.parameters["fields"] == "title^10+text"
    assert ranked(again, trial.label, "q1") != ranked(compared(backend, str(folder)), "a", "q1")


def test_a_check_reads_the_fields_of_its_corpus(tmp_path: Path) -> None:
    folder = write_titled(tmp_path / "small")
    golden = tmp_path / "golden.jsonl"
    golden.write_text('{"id": "q", "question": "cat", "expected_relevant_doc_ids": ["d1"]}\n')
    backends = [f"a=sqlite:fields=title^10+text;{PLAIN}"]
    for corpus in (folder / "corpus.jsonl", Dataset.of(DOCUMENTS, QUERIES)):
        checked = harness.check(golden, corpus=corpus, backends=backends, k=3)
        (trial,) = checked.report.trials
        assert trial.error is None
        assert trial.questions[0].values["MRR@3"] == 1.0


@pytest.mark.parametrize(
    ("fields", "kind", "problem"),
    [
        (
            "titel+text",
            UnknownNameError,
            r"unknown field of documents 'titel' .*\n.*did you mean 'title'\? known: tags",
        ),
        ("title+year+empty", UnknownNameError, "unknown field of documents 'empty'"),
    ],
)
def test_a_field_that_no_document_has_is_refused(
    fields: str, kind: type[Exception], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=problem):
        compared(f"sqlite:fields={fields}", str(write_titled(tmp_path / "small")))


def test_titles_that_are_all_empty_and_documents_without_fields_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the field 'title' holds no text in any document of .*corpus.jsonl"):
        compared("sqlite:fields=title+text", str(write_collection(tmp_path / "small")))
    with pytest.raises(UnknownNameError, match="unknown field of documents 'title'"):
        compared("sqlite:fields=title+text", Dataset.of({"d": "a"}, {"q": "a"}))
    loaded = Dataset.of({"d": {"title": "a", "text": "b"}}, {"q": "a"})
    bare = Dataset(loaded.name, loaded.corpus, loaded.queries, None)
    with pytest.raises(UsageError, match="are in memory, each as one text"):
        compared("sqlite:fields=title+text", bare)
