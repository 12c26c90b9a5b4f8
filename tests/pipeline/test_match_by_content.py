"""Golden sets whose expectations are texts, or values of a field such as the file of a chunk."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pyarrow as pa
import pytest

import harness
from harness.errors import UsageError
from harness.pipeline.check.checked import CheckResult

pytestmark = pytest.mark.usefixtures("warm_workers")

CASES = Path(__file__).parents[1] / "cases" / "golden"
CHUNKS, UUID_CHUNKS = CASES / "chunks.jsonl", CASES / "chunks-uuid.jsonl"
FILES = CASES / "files.jsonl"
FOUR = [1.0, 0.875, 1.0, 0.9077]
"""Hit@3, MRR@3, Recall@3 and nDCG@3 of the case's plain golden set."""
CSR = "csr:analyzer=snowball-english"
FIELD = "field:metadata.source"


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def checked(golden: object, **options: object) -> CheckResult:
    return harness.check(golden, k=3, timing=False, **options)


def means(result: CheckResult, label: str | None = None) -> list[float]:
    name = label if label is not None else result.report.trials[0].label
    return [round(value.mean, 4) for value in result.trial(name).metrics.values()]


def rank(question: str, documents: Sequence[dict[str, object]], k: int) -> list[dict[str, object]]:
    """Rank the documents by the number of words that they share with a question, as a user's function would."""
    words = set(question.lower().strip("?").split())
    return sorted(documents, key=lambda one: -len(words & set(str(one["text"]).lower().split())))[:k]


def retrieve(question: str, k: int) -> list[dict[str, object]]:
    return rank(question, records_of(UUID_CHUNKS), k)


@pytest.mark.parametrize("name", ["ragas.csv", "ragas.jsonl", "deepeval.json"])
def test_a_golden_set_of_texts_gives_the_values_of_its_ids(name: str) -> None:
    result = checked(CASES / name, corpus=CHUNKS, backends=CSR)
    assert means(result) == FOUR
    assert result.report.preflight == result.report.warnings == []
    header = result.render("markdown")
    assert "matched by text, as the golden set has texts and no ids: 4 of 4 expected texts" in header
    last = result.trial(result.report.trials[0].label).questions[3].expected
    assert [(one.hit, one.matched_by, one.documents) for one in last] == [
        ("terms#2", "contains", ["terms#2"]),
        ("terms#1", "contains", ["terms#1"]),
    ]


def test_texts_are_matched_in_the_answers_of_a_function() -> None:
    documents = records_of(CHUNKS)
    result = checked(CASES / "ragas.jsonl", against={"mine": lambda question, k: rank(question, documents, k)})
    assert result.report.golden_set.matched[0].matched == 4
    assert [one.hit for one in result.trial("mine").questions[0].expected] == ["terms#1"]
    assert "4 of 4 expected texts in the hits" in result.render("markdown")


def test_answers_without_ids_are_matched_by_their_texts() -> None:
    documents = [{"text": one["text"]} for one in records_of(CHUNKS)]
    result = checked(CASES / "ragas.jsonl", against={"mine": lambda question, k: rank(question, documents, k)})
    assert result.report.preflight == []
    assert means(result)[0] == 1.0


def test_answers_of_ids_alone_are_matched_by_the_texts_of_the_corpus() -> None:
    documents = records_of(CHUNKS)

    def ids(question: str, k: int) -> list[object]:
        return [one["_id"] for one in rank(question, documents, k)]

    assert means(checked(CASES / "ragas.jsonl", against={"mine": ids}, corpus=CHUNKS))[0] == 1.0
    alone = checked(CASES / "ragas.jsonl", against={"mine": ids})
    (problem,) = [one for one in alone.report.preflight if one.check == "no-content"]
    assert problem.message.endswith("has text, so nothing can match")
    assert "--corpus" in problem.fix


def test_a_text_that_no_document_holds_is_named_with_the_nearest() -> None:
    golden = [
        {"id": "w", "question": "how long is the warranty?", "reference_contexts": ["The warranty runs for two years"]},
        {"id": "f", "question": "the filter", "reference_contexts": ["The filter lasts three months"]},
        {
            "id": "p",
            "question": "the pump is silent",
            "reference_contexts": ["If the pump makes no sound at all, look at the fuse behind the left panel."],
        },
    ]
    result = checked(golden, corpus=CHUNKS, backends=CSR)
    (warning,) = result.report.warnings
    assert warning.check == "missing-texts"
    assert "'p' expects" in warning.examples[0]
    assert "nearest is document 'pump#2' with 86% of the words: 'If the pump makes no sound" in warning.examples[0]
    assert "--match text:0.8" in warning.fix
    assert means(result)[0] == 0.6667
    shared = checked(golden, corpus=CHUNKS, backends=CSR, match="text:0.8")
    assert means(shared)[0] == 1.0
    assert shared.report.warnings == []
    assert "matched by text (0.8 of the words in order): 3 of 3 expected texts, 1 by share" in shared.render("markdown")
    assert shared.report.trials[0].questions[2].expected[0].matched_by == "share 0.86"


def test_texts_of_other_documents_are_no_score() -> None:
    golden = [{"id": "x", "question": "anything", "reference_contexts": ["Bees make honey in spring."]}]
    result = checked(golden, corpus=CHUNKS, backends=CSR, accept=["missing-texts"])
    assert result.report.verdict == "invalid"
    assert [one.check for one in result.report.preflight] == ["missing-texts"]


def test_one_hit_that_holds_two_expected_texts_counts_once(tmp_path: Path) -> None:
    texts = ["The warranty runs for two years.", "It does not cover seals."]
    corpus = [{"_id": "all", "text": " ".join(texts)}, {"_id": "part", "text": texts[1]}, {"_id": "x", "text": "tar"}]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    golden = [{"id": "q", "question": "warranty years", "reference_contexts": texts}]
    result = checked(golden, corpus=tmp_path / "c.jsonl", backends=CSR, require=["Recall@3>=1"])
    assert means(result) == [1.0, 1.0, 1.0, 1.0]
    assert [one.documents for one in result.report.trials[0].questions[0].expected] == [["all"], ["all", "part"]]


def test_expected_texts_are_read_as_texts_by_request() -> None:
    golden = [{"id": "q", "question": "the pump is silent", "expected": ["look at the fuse"]}]
    assert means(checked(golden, corpus=CHUNKS, backends=CSR, match="text"))[0] == 1.0


def test_no_text_leaves_expected_texts_out() -> None:
    assert "two years" in checked(CASES / "ragas.jsonl", corpus=CHUNKS, backends=CSR).report.model_dump_json()
    private = checked(CASES / "ragas.jsonl", corpus=CHUNKS, backends=CSR, no_text=True)
    assert "two years" not in private.report.model_dump_json()
    assert means(private) == FOUR


def test_files_are_matched_by_a_field_of_the_corpus() -> None:
    result = checked(FILES, corpus=UUID_CHUNKS, backends=CSR, match=FIELD)
    assert means(result) == [1.0, 1.0, 1.0, 1.0]
    assert "matched by the field metadata.source: 3 of 3 expected values" in result.render("markdown")
    expected = result.report.trials[0].questions[0].expected[0]
    assert (expected.id, expected.matched_by) == ("terms.md", "field")
    assert expected.documents == ["8534f457-38d0-48ec-8f10-99c6c3e1b258", "c79d6793-46d4-4c7a-9c39-02b38963dc6e"]
    assert expected.hit in expected.documents


@pytest.mark.parametrize("shape", ["records", "mapping", "frame", "table"])
def test_files_are_matched_by_a_field_of_documents_in_python(shape: str) -> None:
    records = [
        {"id": one["_id"], "text": one["text"], "source": one["metadata"]["source"]} for one in records_of(UUID_CHUNKS)
    ]
    corpus: object = records
    if shape == "mapping":
        corpus = {one["id"]: {"text": one["text"], "metadata": {"source": one["source"]}} for one in records}
    if shape == "frame":
        corpus = pd.DataFrame(records)
    if shape == "table":
        corpus = pa.Table.from_pylist(records)
    dataset = harness.Dataset.of(corpus, {"q": "unused"}, name="chunks")
    assert means(checked(FILES, corpus=dataset, backends=CSR, match=FIELD)) == [1.0, 1.0, 1.0, 1.0]
    with pytest.raises(harness.errors.HarnessError, match=r"(?s)sorce.*source"):
        checked(FILES, corpus=dataset, backends=CSR, match="field:sorce")


def test_texts_win_over_ids_by_request() -> None:
    golden = [
        {"id": "q", "question": "the pump is silent", "expected": ["no such id"], "reference_contexts": ["the fuse"]}
    ]
    assert means(checked(golden, corpus=CHUNKS, backends=CSR, match="text"))[0] == 1.0
    by_id = checked(golden, corpus=CHUNKS, backends=CSR)
    assert [one.check for one in by_id.report.preflight] == ["missing-ids"]


def test_files_are_matched_by_a_field_of_a_function_s_hits() -> None:
    result = checked(FILES, against={"mine": retrieve}, match=FIELD)
    assert means(result, "mine") == [1.0, 1.0, 1.0, 1.0]
    with_corpus = checked(
        FILES,
        against={"mine": lambda question, k: [one["_id"] for one in retrieve(question, k)]},
        corpus=UUID_CHUNKS,
        match=FIELD,
    )
    assert means(with_corpus, "mine") == [1.0, 1.0, 1.0, 1.0]


def test_names_of_files_that_repeat_are_matched_as_the_id() -> None:
    def names(question: str, k: int) -> list[object]:
        return [one["metadata"]["source"] for one in retrieve(question, k)]

    assert means(checked(FILES, against={"mine": names}, match="field:id")) == [1.0, 1.0, 1.0, 1.0]
    refused = checked(FILES, against={"mine": names})
    assert [one.check for one in refused.report.preflight] == ["duplicates"]


def test_a_field_that_hits_lack_is_named() -> None:
    result = checked(FILES, against={"mine": retrieve}, match="field:metadata.file")
    problem = result.report.preflight[0]
    assert (problem.check, "'metadata.file'" in problem.message) == ("no-content", True)


def test_a_misspelt_field_is_named_with_the_nearest() -> None:
    near = "'metadata.sorce' (did you mean 'metadata.source'?)"
    problem = checked(FILES, against={"mine": retrieve}, match="field:metadata.sorce").report.preflight[0]
    assert problem.message == f"none of 5 returned documents has {near}, so nothing can match"
    with pytest.raises(UsageError, match=r"did you mean 'metadata\.source'\?"):
        checked(FILES, corpus=UUID_CHUNKS, backends=CSR, match="field:metadata.sorce")


@pytest.mark.parametrize("match", ["exact", "field:metadata.page"])
@pytest.mark.parametrize("container", ["metadata", "meta"])
def test_the_field_of_hits_that_holds_expected_ids_is_proposed(container: str, match: str) -> None:
    def answer(question: str, k: int) -> list[dict[str, object]]:
        return [{"id": one["_id"], "text": one["text"], container: one["metadata"]} for one in retrieve(question, k)]

    problems = checked(FILES, against={"mine": answer}, match=match).report.preflight
    advice = f"hits for 4 questions have an expected id in their field '{container}.source'"
    assert f"{advice}: --match field:{container}.source" in problems[-1].fix
    nothing = [{**one, "expected": ["x.md"]} for one in records_of(FILES)]
    problems = checked(nothing, against={"mine": answer}).report.preflight
    assert not any("--match field" in problem.fix for problem in problems)


def test_hits_are_named_by_the_value_that_is_compared(tmp_path: Path) -> None:
    golden = [
        {"id": "q0", "question": "pump", "expected": ["pump.md", "other.md"]},
        *records_of(FILES),
    ]
    options = {"match": FIELD, "require": "Recall@3>=1", "accept": ["missing-ids"]}
    result = checked(golden, against={"mine": retrieve}, **options)
    (question, *_) = result.trial("mine").questions
    source_of = {one["_id"]: one["metadata"]["source"] for one in records_of(UUID_CHUNKS)}
    assert question.top_values == [source_of[doc_id] for doc_id in question.top]
    names = [f"{source_of[doc_id]} ({doc_id[:8]}…)" for doc_id in question.top]
    with pytest.raises(AssertionError) as failure:
        result.assert_requirements()
    assert f"found {', '.join(names)}" in str(failure.value)
    assert names[0] in result.render("markdown")
    shown = CheckResult.load(result.save(tmp_path / "check").folder).render_query("q0", "markdown")
    assert all(name in shown for name in names)
    by_id = checked([{"question": "pump", "expected": ["terms#2"]}], corpus=CHUNKS, backends=CSR)
    assert by_id.report.trials[0].questions[0].top_values == []


class _Search(BaseHTTPRequestHandler):
    """Answers ``/search?q=…&k=…`` with chunks, each in an object with its metadata next to its id."""

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        hits = [{"doc": {"id": one["_id"]}, **one} for one in retrieve(query["q"][0], int(query["k"][0]))]
        content = json.dumps({"results": hits}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Search)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http:url=http://127.0.0.1:{server.server_port}/search?q={{question}}&k={{k}};ids=results[*]"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("ids", ["._id", ".doc.id", ".metadata.source", ".doc.id;field=results[*].metadata.source"])
def test_files_are_matched_in_the_answers_of_an_endpoint(endpoint: str, ids: str) -> None:
    result = checked(FILES, against=f"mine={endpoint}{ids}", match=FIELD)
    assert means(result) == [1.0, 1.0, 1.0, 1.0], result.render(verbose=True)


def test_texts_are_matched_in_the_answers_of_an_endpoint(endpoint: str) -> None:
    result = checked(CASES / "ragas.jsonl", against=f"mine={endpoint}._id;texts=results[*].text")
    assert means(result)[0] == 1.0
    without = checked(CASES / "ragas.jsonl", against=f"mine={endpoint}._id")
    assert "no-content" in [one.check for one in without.report.preflight]


def test_values_that_no_document_has_are_named_with_the_nearest() -> None:
    golden = [{"id": "q", "question": "the pump is silent", "expected": ["pumps.md"]}, *records_of(FILES)]
    result = checked(golden, corpus=UUID_CHUNKS, backends=CSR, match=FIELD)
    (problem,) = result.report.preflight
    corpus = "the corpus 'chunks-uuid'"
    assert problem.message == f"1 expected id is not in {corpus}: no document has it in 'metadata.source'"
    assert "did you mean 'pump.md'?" in problem.examples[0]


def test_several_chunks_of_a_file_count_once_at_the_first() -> None:
    golden = [{"id": "q", "question": "pump", "expected": ["pump.md", "filter.md"]}]
    pages = {"a": "tar.md", "b": "pump.md", "c": "pump.md", "d": "filter.md"}

    def hits(question: str, k: int) -> list[dict[str, object]]:
        return [{"id": name, "source": source} for name, source in pages.items()]

    result = harness.check(
        golden, against={"mine": hits}, k=4, match="field:source", metrics="P@4,MRR@4,Recall@4", timing=False
    )
    assert means(result) == [0.5, 0.5, 1.0]
    assert [(one.rank, one.hit) for one in result.trial("mine").questions[0].expected] == [(2, "b"), (4, "d")]


@pytest.mark.parametrize(
    ("match", "words"),
    [
        ("field", "names no field"),
        ("field:", "names no field"),
        ("text:2", "not a share of words"),
        ("text:no", "not a share of words"),
        ("txt", "did you mean 'text'"),
        ("exact:a", "takes nothing after a colon"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(match: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        checked(FILES, corpus=UUID_CHUNKS, backends=CSR, match=match)


def test_a_delimiter_and_ties_by_average_are_refused() -> None:
    with pytest.raises(UsageError, match="it would change nothing"):
        checked(FILES, corpus=UUID_CHUNKS, backends=CSR, match=FIELD, delimiter="#")
    with pytest.raises(UsageError, match="no hit of an expectation is the first"):
        checked(CASES / "ragas.jsonl", corpus=CHUNKS, backends=CSR, ties="average")


def test_an_unknown_field_of_the_corpus_is_refused() -> None:
    with pytest.raises(harness.errors.HarnessError, match=r"metadata\.sorce"):
        checked(FILES, corpus=UUID_CHUNKS, backends=CSR, match="field:metadata.sorce")


def test_faq_documents_that_read_like_questions_are_scored_with_a_warning() -> None:
    result = checked(CASES / "faq-golden.jsonl", corpus=CASES / "faq.jsonl", backends=CSR)
    assert result.report.verdict == "passed"
    assert [one.check for one in result.report.warnings].count("query-in-results") == 1
    assert means(result)


@pytest.mark.parametrize("match", ["exact", "field:metadata.page"])
@pytest.mark.parametrize("form", ["file", "objects", "flat", "table"])
def test_a_field_that_holds_every_expected_id_is_proposed(tmp_path: Path, form: str, match: str) -> None:
    records = [
        {**record, "metadata": {"source": record["metadata"]["source"], "page": 1}}
        for record in records_of(UUID_CHUNKS)
    ]
    flat = [{"_id": one["_id"], "text": one["text"], **one["metadata"]} for one in records]
    path = tmp_path / "chunks.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    pd.DataFrame(flat).to_csv(tmp_path / "chunks.csv", index=False)
    corpora = {
        "file": path,
        "table": tmp_path / "chunks.csv",
        "objects": harness.Dataset.of(records, {"q": "a question"}),
        "flat": harness.Dataset.of(flat, {"q": "a question"}),
    }
    field = "metadata.source" if form in ("file", "objects") else "source"
    (problem,) = checked(FILES, corpus=corpora[form], backends=CSR, match=match).report.preflight
    option = f"--match field:{field}"
    assert problem.fix.endswith(f"every expected id is a value of the documents' field '{field}': {option}")
    golden = [*records_of(FILES), {"id": "q5", "question": "how loud is it?", "expected": ["noise.md"]}]
    (problem,) = checked(golden, corpus=corpora[form], backends=CSR, match=match).report.preflight
    assert option not in problem.fix  # one of them is no value of the field


def test_an_id_with_a_separator_is_read_whole() -> None:
    assert means(checked(CASES / "pipe-ids.csv", corpus=CASES / "pipe-ids-corpus.jsonl", backends=CSR))[0] == 1.0


def test_questions_without_ids_are_paired_by_their_texts(tmp_path: Path) -> None:
    corpus = CASES / "no-ids-corpus.jsonl"
    for number in (1, 2):
        golden = CASES / f"no-ids-{number}.jsonl"
        checked(golden, corpus=corpus, backends=CSR, out=tmp_path / str(number))
    change = harness.diff(tmp_path / "1", tmp_path / "2")
    assert "20 queries have no id on either side: paired by their texts" in change.render("markdown")


def test_checks_by_text_are_compared(tmp_path: Path) -> None:
    for name in ("a", "b"):
        checked(CASES / "ragas.jsonl", corpus=CHUNKS, backends=CSR, out=tmp_path / name)
    assert "4 queries have no id on either side" in harness.diff(tmp_path / "a", tmp_path / "b").render("markdown")


def test_csv_cells_hold_lists_as_python_writes_them() -> None:
    with (CASES / "ragas.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["reference_contexts"].startswith("['")


@pytest.mark.parametrize("form", ["objects", "lines", "cells"])
def test_expected_texts_with_line_breaks_are_read_by_request(form: str, tmp_path: Path) -> None:
    texts = {"pump": " Check the pump:\n\tlook at the fuse. ", "lamp": "The lamp lights;\nthe yard;"}
    corpus = tmp_path / "texts.jsonl"
    corpus.write_text(
        "".join(json.dumps({"_id": name, "text": f"Intro. {text}"}) + "\n" for name, text in texts.items())
    )
    rows = [{"id": name, "question": f"the {name}", "expected": text} for name, text in texts.items()]
    golden: object = rows
    if form == "lines":
        golden = tmp_path / "golden.jsonl"
        golden.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    if form == "cells":
        golden = tmp_path / "golden.csv"
        pd.DataFrame(rows).to_csv(golden, index=False)
    result = checked(golden, corpus=str(corpus), backends=CSR, match="text")
    assert means(result)[0] == 1.0
    with pytest.raises(harness.errors.DataError, match="expected an id"):
        checked(golden, corpus=str(corpus), backends=CSR)
    with pytest.raises(harness.errors.DataError, match="expected a text"):
        checked([{"question": "q", "expected": [" \n"]}], corpus=str(corpus), backends=CSR, match="text")


def test_ids_that_are_read_as_texts_are_said_to_be_ids() -> None:
    golden = [{"question": "the pump is silent", "expected": ["pump#2"]}]
    (problem,) = checked(golden, corpus=CHUNKS, backends=CSR, match="text").report.preflight
    assert problem.check == "missing-texts"
    assert problem.fix.startswith("they look like ids: leave --match text out, or name the field of the texts")
    assert "text:0" not in problem.fix


def test_the_header_counts_one_question_with_texts_as_one():
    corpus = harness.Dataset.of({"a": "the pump moves water", "b": "oil"}, {"q": "x"})
    golden = [
        {"question": "pump", "reference_contexts": ["the pump moves water"]},
        {"question": "oil", "expected": "b"},
    ]
    header = checked(golden, corpus=corpus, backends=CSR).render("markdown")
    assert "matched by text, as 1 question has texts and no ids" in header
