"""Queries that exclude documents, as BRIGHT's `excluded_ids`: such hits are left out before anything is scored."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chroma_indexes import write_folder
from installed import skip_without

import harness
from harness.data.arrow import strings
from harness.data.inputs import Inputs
from harness.data.ranking import TieRule
from harness.data.types import DocumentContent, Ids, Run
from harness.document.cells import excluded_documents
from harness.errors import DataError
from harness.loaders import load_dataset
from harness.loaders.golden import golden_of_records
from harness.pipeline.check import run_check
from harness.pipeline.check.checked import CheckResult
from harness.pipeline.check.id_match import ExpectedDocuments, Match
from harness.pipeline.check.preflight import Examiner
from harness.plan.option_values import parse_match
from harness.report.documents.check import check_document
from harness.report.documents.compare import comparison_header
from harness.results.hit_rules import HitRules
from harness.results.schema_base import ExcludedInfo

pytestmark = pytest.mark.integration

DOCUMENTS = {f"d{number}": "pump " * number + "water" for number in range(1, 7)}
QUERIES = [
    {"_id": "q1", "text": "pump", "excluded_ids": ["d6", "d5", "absent"]},
    {"_id": "q2", "text": "pump", "excluded_ids": ["N/A"]},
    {"_id": "q3", "text": "pump"},
]
QRELS = {"q1": {"d4": 1}, "q2": {"d6": 1}, "q3": {"d6": 1}}
UNTIMED: dict[str, Any] = {"timing": False, "isolation": "none"}
QUICK: dict[str, Any] = {**UNTIMED, "k": 3, "metrics": "RR@3"}


def lines(records: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in BEIR's layout."""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(lines([{"_id": key, "text": text} for key, text in DOCUMENTS.items()]))
    (tmp_path / "queries.jsonl").write_text(lines(QUERIES))
    rows = "".join(f"{query}\t{document}\t1\n" for query, judged in QRELS.items() for document in judged)
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return tmp_path


def hits(compared: harness.Comparison) -> dict[str, list[str]]:
    (run,) = compared.runs.values()
    return {query: run.doc_ids.take(run.rows[run.of_query(row)]) for row, query in enumerate(run.query_ids)}


def test_excluded_hits_are_left_out_counted_and_replaced(folder):
    compared = harness.compare("csr:k1=0.9", str(folder), **QUICK)
    plain = harness.compare("csr:k1=0.9", str(folder), **QUICK, queries=[str(_without_exclusions(folder))])
    of_plain = hits(plain)
    assert hits(compared) == {**of_plain, "q1": hits(compared)["q1"]}
    assert not {"d5", "d6"} & set(hits(compared)["q1"])
    assert len(hits(compared)["q1"]) == 3
    info = compared.report.dataset.excluded
    assert (info.queries, info.documents, info.unknown) == (1, 2, 1)
    assert plain.report.dataset.excluded is None
    assert compared.report.dataset.sha256 != plain.report.dataset.sha256
    assert "2 hits are left out because the query excludes the document" in compared.report.trials[0].notes
    assert "1 query excludes 2 documents, and 1 id that no document has" in comparison_header(compared.report)
    assert compared.report.trials[0].parity.different == 0


def _without_exclusions(folder: Path) -> Path:
    path = folder / "plain.jsonl"
    path.write_text(lines([{"_id": query["_id"], "text": query["text"]} for query in QUERIES]))
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_other_files_of_queries_exclude_too(folder, ending):
    (folder / "queries.jsonl").unlink()
    path = folder / f"queries.{ending}"
    if ending == "csv":
        path.write_text('_id,text,excluded_ids\nq1,pump,"[""d6"",""d5""]"\nq2,pump,d1;d2\nq3,pump,\n')
    elif ending == "json":
        path.write_text(json.dumps(QUERIES))
    else:
        excluded = [query.get("excluded_ids", []) for query in QUERIES]
        pq.write_table(pa.table({"_id": ["q1", "q2", "q3"], "text": ["pump"] * 3, "excluded_ids": excluded}), path)
    found = load_dataset(str(folder)).excluded
    assert set(found["q1"]) >= {"d6", "d5"}
    assert tuple(found.get("q2", ())) == (("d1", "d2") if ending == "csv" else ())
    assert not found.get("q3")


def test_a_repository_of_the_hub_layout(tmp_path):
    configs = {
        "corpus": [{"_id": key, "text": text} for key, text in DOCUMENTS.items()],
        "queries": QUERIES,
        "default": [{"query-id": "q1", "corpus-id": "d4", "score": 1}],
    }
    card = "".join(f"- config_name: {name}\n  data_files: {name}.parquet\n" for name in configs)
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n{card}---\n")
    for name, rows in configs.items():
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    assert load_dataset(f"hf:{tmp_path}").excluded["q1"] == ("d6", "d5", "absent")


def test_questions_of_a_golden_set_exclude(tmp_path, folder):
    golden = [{"id": "q1", "question": "pump", "expected": ["d4"], "excluded_ids": ["d6", "d5"]}]
    options = {"timing": False, "isolation": "none", "backends": "csr", "k": 3}
    corpus = str(folder / "corpus.jsonl")
    checked = harness.check(golden, corpus=corpus, **options)
    assert not {"d5", "d6"} & set(checked.report.trials[0].questions[0].top)
    assert "1 question excludes 2 documents" in check_document(checked.report).subtitle
    compared = harness.compare("csr", corpus, queries=[str(_golden_file(tmp_path, golden))], **QUICK)
    assert hits(compared)["q1"] == checked.report.trials[0].questions[0].top


def top(checked: CheckResult, label: str = "mine") -> list[str]:
    return list(checked.trial(label).questions[0].top)


def test_called_backends_leave_excluded_hits_out_and_return_as_many_more():
    golden = [{"id": "q1", "question": "pump", "expected": ["d4"], "excluded_ids": ["d6", "d5", "absent"]}]
    requested: list[int] = []

    def retrieve(question: str, k: int) -> list[tuple[str, float]]:
        requested.append(k)
        return [(name, float(name[1:])) for name in sorted(DOCUMENTS, reverse=True)][:k]

    options: dict[str, Any] = {"timing": False, "isolation": "none", "k": 2}
    checked = harness.check(golden, against={"mine": retrieve}, require="MRR@2>=1", **options)
    assert (set(requested), top(checked)) == ({5}, ["d4", "d3"])
    assert checked.report.verdict == "passed"
    assert "2 hits are left out because the query excludes the document" in checked.trial("mine").notes
    assert not any("kept with --against" in note for note in checked.report.notes)
    plain = harness.check([{**golden[0], "excluded_ids": []}], against={"mine": retrieve}, **options)
    assert (requested[-1], top(plain)) == (2, ["d6", "d5"])
    deaf = harness.check(golden, against={"mine": lambda question, k: sorted(DOCUMENTS)}, **options)
    assert [problem.check for problem in deaf.report.preflight] == ["too-many-hits"]


FILES = {"a1": "a.pdf", "a2": "a.pdf", "b1": "b.pdf", "b2": "b.pdf"}
TEXTS = {"a1": "old pump terms", "a2": "old water terms", "b1": "pump water", "b2": "water pump"}
BY_CONTENT = [
    ("field:source", {}, ["b.pdf"], ["a.pdf"]),
    ("text", {}, ["pump water"], ["old pump terms", "a2"]),
    ("document", {"delimiter": "1"}, ["b"], ["a", "a2"]),
    ("exact", {}, ["b1"], ["a1", "a2"]),
]


def chunks(folder: Path) -> Path:
    path = folder / "chunks.jsonl"
    records = [{"_id": key, "text": text, "source": FILES[key]} for key, text in TEXTS.items()]
    path.write_text(lines(records))
    return path


@pytest.mark.parametrize("name", ["excluded_ids", "forbidden"])
@pytest.mark.parametrize(("match", "options", "expected", "values"), BY_CONTENT)
def test_excluded_and_forbidden_values_are_matched_as_expected_values(tmp_path, name, match, options, expected, values):
    golden = [{"id": "q1", "question": "pump water", "expected": expected, name: [*values, "absent"]}]
    hits = [{"id": key, "source": FILES[key], "text": text} for key, text in TEXTS.items()]
    options = {**options, "match": match, "timing": False, "isolation": "none", "k": 3}
    corpus = str(chunks(tmp_path))
    of_corpus = harness.check(golden, corpus=corpus, backends="csr", **options)
    of_hits = harness.check(golden, against={"mine": lambda question, k: hits[:k]}, **options)
    (of_engine,), of_backend = of_corpus.report.trials, of_hits.trial("mine")
    if name == "forbidden":
        assert set(of_backend.questions[0].forbidden_hits) == {"a1", "a2"}
        assert not {"b1", "b2"} & set(of_engine.questions[0].forbidden_hits)
    else:
        assert set(of_engine.questions[0].top) == {"b1", "b2"}
        assert not {"a1", "a2"} & set(top(of_hits))
        assert top(of_hits)[0] == "b1"
        assert "2 hits are left out because the query excludes the document" in of_backend.notes
        info = of_corpus.report.dataset.excluded
        assert (info.queries, info.documents, info.unknown) == (1, 2, 1)
    kind = "excluded" if name == "excluded_ids" else "forbidden"
    (warning,) = [each for each in of_corpus.report.warnings if each.check == f"unknown-{kind}-ids"]
    assert warning.message == f"1 {kind} id is not in the corpus 'chunks': 'absent'"


CONTRADICTIONS = [
    ("document", {"delimiter": "#"}, ["d1#0"], ["d1"], "'d1#0' is expected and {}, by 'd1'"),
    ("document", {"delimiter": "#"}, ["d1"], ["d1#0", "d1#1"], "'d1' is expected and {}, by 'd1#0', 'd1#1'"),
    ("document", {"delimiter": "#"}, ["d1"], ["d1#0"], None),
    ("document", {"delimiter": "#"}, ["d1#0"], ["d1#1", "d2"], None),
    ("document", {"delimiter": "#"}, {"d1#0": 0, "d2": 1}, ["d1"], None),
    ("prefix", {"delimiter": "#"}, ["d3#0"], ["d3"], "'d3#0' is expected and {}, by 'd3'"),
    ("prefix", {"delimiter": "#"}, ["d3"], ["d3#0#0"], "'d3' is expected and {}, by 'd3#0#0'"),
    ("field:source", {}, ["a.pdf"], ["d1#0", "d1#1"], "'a.pdf' is expected and {}, by 'd1#0', 'd1#1'"),
    ("field:source", {}, ["a.pdf"], ["d1#0", "b.pdf"], None),
    ("text", {}, ["big  pump"], ["big pump"], "'big pump' is expected and {}"),
    ("text", {}, ["cold water pipes"], ["water pipes"], "'cold water pipes' is expected and {}"),
    ("text", {}, ["big pump"], ["d1#0", "d3#0#0"], "'big pump' is expected and {}"),
    ("text", {}, ["big pump"], ["d1#0"], None),
    ("text", {}, ["pump"], ["big pump"], None),
]
CHUNKS = {
    "d1#0": ("a.pdf", "the big pump"),
    "d1#1": ("a.pdf", "small pump"),
    "d2#0": ("b.pdf", "cold water pipes"),
    "d3#0#0": ("c.pdf", "a big pump too"),
}


@pytest.mark.parametrize(("name", "verb"), [("excluded_ids", "excluded"), ("forbidden", "forbidden")])
@pytest.mark.parametrize(("match", "options", "expected", "values", "message"), CONTRADICTIONS)
def test_documents_that_are_expected_and_forbidden_by_the_match_rule_are_refused(
    tmp_path, name, verb, match, options, expected, values, message
):
    records = [{"_id": key, "source": source, "text": text} for key, (source, text) in CHUNKS.items()]
    (tmp_path / "chunks.jsonl").write_text(lines(records))
    golden = tmp_path / "golden.jsonl"
    golden.write_text(
        lines([{"question": "oil", "expected": []}, {"question": "pump", "expected": expected, name: values}])
    )
    options = {**options, **UNTIMED, "corpus": str(tmp_path / "chunks.jsonl"), "match": match, "k": 3}
    if message is None:
        assert harness.check(str(golden), backends="csr", **options).report.trials[0].status == "ok"
        return
    with pytest.raises(DataError, match=re.escape(f"line 2: {message.format(verb)}\n")):
        harness.check(str(golden), backends="csr", **options)


@pytest.mark.parametrize("name", ["excluded_ids", "forbidden"])
def test_ids_are_compared_by_the_match_rule_before_a_backend_without_a_corpus_is_called(name):
    golden = [{"question": "pump", "expected": ["d1#0"], name: ["d1"]}]

    def retrieve(question: str, k: int) -> list[str]:
        raise AssertionError("called")

    with pytest.raises(DataError, match=r"'d1#0' is expected and (excluded|forbidden), by 'd1'"):
        harness.check(golden, against={"mine": retrieve}, match="document", delimiter="#", **UNTIMED)


def test_an_index_with_only_documents_that_are_expected_and_excluded_fails():
    documents = Ids.of(["c1", "c2", "c3"])
    values = pa.chunked_array([strings(["a.pdf", "a.pdf", "b.pdf"])])
    run = Run(Ids.of(["q1"]), documents, np.array([0, 1]), np.array([2], np.int32), np.ones(1, np.float32))
    run = replace(run, content=DocumentContent(values))
    match = Match.of(parse_match("field:source"), None)
    for excluded, is_refused in ((["c1", "c2"], True), (["c1"], False)):
        golden = golden_of_records([{"id": "q1", "question": "pump", "expected": "a.pdf", "excluded_ids": excluded}])
        examiner = Examiner(golden, match, 1, TieRule.ENGINE, ExpectedDocuments(golden, match, None))
        with pytest.raises(DataError, match=r"'a\.pdf' is expected and excluded") if is_refused else nullcontext():
            examiner.judge(run)


def test_a_value_of_many_documents_may_leave_few_hits_which_a_note_counts():
    hits = [{"id": f"a{number}", "source": "a.pdf"} for number in range(9)]
    golden = [{"id": "q1", "question": "pump", "expected": ["b.pdf"], "excluded_ids": ["a.pdf"]}]
    options: dict[str, Any] = {"timing": False, "isolation": "none", "k": 3, "match": "field:source"}
    found = [{"id": "b1", "source": "b.pdf"}, *hits]
    checked = harness.check(golden, against={"mine": lambda question, k: found[:k]}, **options)
    assert top(checked) == ["b1"]
    assert any("1 query has fewer than 3 hits left" in note for note in checked.trial("mine").notes)


def test_hits_that_only_name_a_document_are_completed_from_the_corpus(tmp_path):
    golden = [{"id": "q1", "question": "pump", "expected": ["b.pdf"], "excluded_ids": ["a.pdf"]}]
    options: dict[str, Any] = {"timing": False, "isolation": "none", "k": 3, "match": "field:source"}
    corpus = str(chunks(tmp_path))
    checked = harness.check(golden, corpus=corpus, against={"mine": lambda question, k: list(FILES)}, **options)
    assert top(checked) == ["b1", "b2"]


@pytest.mark.parametrize("name", ["excluded_ids", "forbidden"])
@pytest.mark.parametrize(
    ("cell", "ids", "known"),
    [
        ("d;1|x;d2", ("d;1|x;d2",), "d;1|x;d2"),
        ("d1;d2", ("d1", "d2"), "d1"),
        ("a|b;d2", ("a|b", "d2"), "a|b"),
        ("7.0", ("7",), "7"),
    ],
)
def test_a_cell_of_several_ids_is_read_as_the_corpus_writes_them(tmp_path, name, cell, ids, known):
    (tmp_path / "queries.csv").write_text(f'id,question,expected,{name}\nq1,pump,e,"{cell}"\n')
    documents = [{"_id": key, "text": "pump"} for key in ("e", known, "d2")]
    (tmp_path / "corpus.jsonl").write_text(lines(documents))
    dataset = load_dataset(str(tmp_path))
    assert (dataset.forbidden if name == "forbidden" else dataset.excluded) == {"q1": ids}
    options: dict[str, Any] = {"corpus": str(tmp_path / "corpus.jsonl"), "backends": "csr", "timing": False}
    checked = harness.check(str(tmp_path / "queries.csv"), **options, isolation="none", k=3)
    assert not [each for each in checked.report.warnings if each.check.startswith("unknown-")]
    question = checked.report.trials[0].questions[0]
    if name == "forbidden":
        assert question.forbidden == list(ids)
    else:
        assert not set(ids) & set(question.top)


def test_a_cell_of_queries_is_one_id_if_the_documents_have_it(folder):
    (folder / "queries.jsonl").unlink()
    (folder / "queries.csv").write_text("_id,text,excluded_ids\nq1,pump,d5;d6\nq2,pump,d|7\nq3,pump,\n")
    with (folder / "corpus.jsonl").open("a") as stream:
        stream.write(json.dumps({"_id": "d|7", "text": "pump"}) + "\n")
    assert load_dataset(str(folder)).excluded == {"q1": ("d5", "d6"), "q2": ("d|7",), "q3": ()}


def test_an_element_of_a_list_is_one_id(folder):
    (folder / "queries.jsonl").write_text(lines([{**QUERIES[0], "excluded_ids": ["a;b"]}, *QUERIES[1:]]))
    assert load_dataset(str(folder)).excluded["q1"] == ("a;b",)
    golden = [{"question": "pump", "expected": ["d4"], "excluded_ids": ["a;b"], "forbidden": ["c|d"]}]
    dataset = harness.Dataset.of({**DOCUMENTS, "a;b": "pump", "c|d": "pump"}, golden)
    assert (dataset.excluded, dataset.forbidden) == ({"line-1": ("a;b",)}, {"line-1": ("c|d",)})
    with pytest.raises(DataError, match="'excluded_ids' holds ''"):
        harness.Dataset.of(DOCUMENTS, [{**golden[0], "excluded_ids": [""]}])


def test_ids_that_a_cell_both_expects_and_excludes_are_refused_once_the_cell_is_read(tmp_path):
    path = tmp_path / "golden.csv"
    path.write_text("question,expected,excluded_ids\npump,a;b,a\n")
    options: dict[str, Any] = {"backends": "csr", "timing": False, "isolation": "none", "k": 3}
    joined = harness.Dataset.of({"a;b": "pump", "a": "pump", "c": "water"}, {"q": "pump"})
    assert harness.check(str(path), corpus=joined, **options).report.trials[0].questions[0].top[0] == "a;b"
    separate = harness.Dataset.of({"b": "pump", "a": "pump", "c": "water"}, {"q": "pump"})
    with pytest.raises(DataError, match="'a' is expected and excluded"):
        harness.check(str(path), corpus=separate, **options)


def test_an_external_index_leaves_excluded_hits_out(tmp_path):
    skip_without("chromadb")
    vectors = np.linspace(1, 2, 18, dtype=np.float32).reshape(6, 3)
    write_folder(tmp_path / "db", Inputs(ids=Ids.of(DOCUMENTS), dense=vectors), name="docs")
    (tmp_path / "made").mkdir()
    np.save(tmp_path / "made" / "queries.npy", vectors[[5]])
    (tmp_path / "made" / "queries.ids.txt").write_text("q1\n")
    golden = [{"id": "q1", "question": "pump", "expected": ["d4"], "excluded_ids": ["d6", "d5"]}]
    index = f"mine=chroma:path={tmp_path / 'db'};collection=docs;model=precomputed:{tmp_path / 'made'}"
    checked = harness.check(golden, against=index, k=2, timing=False, isolation="none")
    plain = harness.check(
        [{**golden[0], "excluded_ids": ["absent"]}], against=index, k=2, timing=False, isolation="none"
    )
    assert (top(checked), top(plain)) == (["d4", "d3"], ["d6", "d5"])
    assert "2 hits are left out because the query excludes the document" in checked.trial("mine").notes


def test_shared_values_of_an_index_are_compared_with_excluded_ids():
    run = Run(Ids.of(["q"]), Ids.of(["1", "2", "3"]), np.array([0, 3]), np.arange(3, dtype=np.int32), -np.arange(3.0))
    content = DocumentContent(pa.chunked_array([strings(["a", "a", None])]), repeats=True)
    rules = HitRules(Ids.of([]), drops_itself=False, candidates=None, excluded={"q": ["a", "3"]})
    by_value = rules.filter_hits(replace(run, content=content), 2)
    assert by_value.rows.tolist() == [2]
    assert by_value.content is content
    assert rules.notes(replace(run, content=content)) == ["2 hits are left out because the query excludes the document"]
    assert rules.filter_hits(run, None).rows.tolist() == [0, 1]


def test_documents_that_are_not_excluded_by_their_ids_are_left_out_of_an_index_with_a_note():
    ids = Ids.of(["1", "2", "3", "4"])
    run = Run(Ids.of(["q"]), ids, np.array([0, 4]), np.arange(4, dtype=np.int32), -np.arange(4.0))
    values = pa.chunked_array([strings(["a", "a", "a", "b"])])
    run = replace(run, content=DocumentContent(values))
    seen = []

    def find_excluded(searched: Run) -> Mapping[str, Sequence[str]]:
        seen.append(searched.content.values.to_pylist())
        return {"q": ["1", "2", "3"]}

    rules = HitRules(Ids.of([]), False, None, {"q": ["a"]}, most_excluded=1, find_excluded=find_excluded)
    assert rules.filter_hits(run, 3).rows.tolist() == [3]
    assert rules.notes(run, 3) == [
        "3 hits are left out because the query excludes the document",
        "1 query has fewer than 3 hits left after leaving out excluded documents",
    ]
    assert seen == [["a", "a", "a", "b"]] * 2


def _golden_file(folder: Path, golden: Sequence[Mapping[str, Any]]) -> Path:
    path = folder / "golden-questions.jsonl"
    path.write_text(lines(golden))
    return path


def test_datasets_of_objects_exclude_in_comparisons_checks_and_evaluations():
    dataset = harness.Dataset.of(DOCUMENTS, QUERIES, QRELS)
    run = {"q1": ["d6", "d5", "d4"], "q2": ["d6"], "q3": ["d6"]}
    assert harness.evaluate(run, dataset, "RR").means()[0].value == 1.0
    assert harness.evaluate(run, QRELS, "RR").means()[0].value < 1.0
    assert "d6" not in hits(harness.compare("csr", dataset, **QUICK))["q1"]
    checked = harness.check(dataset, backends="csr", k=3, timing=False, isolation="none")
    assert "d6" not in checked.report.trials[0].questions[0].top


@pytest.mark.parametrize(
    ("counts", "noun", "words"),
    [
        ((0, 0, 1), "question", ["questions exclude only 1 id that no document has"]),
        ((0, 0, 2), "query", ["queries exclude only 2 ids that no document has"]),
        ((1, 2, 1), "query", ["1 query excludes 2 documents, and 1 id that no document has"]),
        ((0, 0, 0), "query", []),
    ],
)
def test_excluded_documents_are_counted_in_words(counts: tuple[int, int, int], noun: str, words: list[str]) -> None:
    info = ExcludedInfo(**dict(zip(("queries", "documents", "unknown"), counts, strict=True)))
    assert excluded_documents(info, noun) == words


def test_a_field_without_ids_is_refused(folder):
    (folder / "queries.jsonl").write_text(lines([{**QUERIES[0], "excluded_ids": [["d6"]]}, *QUERIES[1:]]))
    with pytest.raises(DataError, match="'excluded_ids' holds"):
        load_dataset(str(folder))


@pytest.mark.parametrize("k", [1, 3])
def test_exact_ranks_leave_out_excluded_hits(folder, k):
    golden = [{"id": "q1", "question": "pump", "expected": ["d4", "d1"], "excluded_ids": ["d6", "d5", "d2", "absent"]}]
    corpus = str(folder / "corpus.jsonl")
    checked = harness.check(golden, corpus=corpus, backends="csr", k=k, **UNTIMED)
    ranks = [(each.rank, each.reference_rank) for each in checked.report.trials[0].questions[0].expected]
    assert ranks == [(1, 1), (3 if k == 3 else None, 3)]


def test_exact_ranks_leave_out_the_questions_own_document(folder):
    golden = [{"id": "d6", "question": "pump", "expected": ["d5", "d3"]}]
    options: dict[str, Any] = {"corpus": str(folder / "corpus.jsonl"), "backends": "csr", "k": 1, **UNTIMED}
    for rule, ranks in (("drop", [(1, 1), (None, 3)]), ("keep", [(None, 2), (None, 4)])):
        checked = harness.check(golden, identical_ids=rule, **options)
        expected = checked.report.trials[0].questions[0].expected
        assert [(each.rank, each.reference_rank) for each in expected] == ranks


def test_exact_ranks_are_followed_as_deep_as_without_exclusions(folder, monkeypatch):
    monkeypatch.setattr(run_check, "_FOLLOWED", 2)
    golden = [
        {"id": "q1", "question": "pump", "expected": ["d4", "d3", "d1"], "excluded_ids": ["d6", "d5"]},
        {"id": "q2", "question": "pump", "expected": ["d6", "d5", "d4"]},
    ]
    corpus = str(folder / "corpus.jsonl")
    checked = harness.check(golden, corpus=corpus, backends="csr", k=1, **UNTIMED)
    for question in checked.report.trials[0].questions:
        assert [each.reference_rank for each in question.expected] == [1, 2, None]
