"""A filter of each question: every backend returns only documents that match it, whichever way it filters."""

from __future__ import annotations

import csv
import http.server
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from installed import skip_without

import harness
from harness.data.golden_set import Expectation, GoldenSet
from harness.errors import DataError, HarnessError, UnknownNameError, UsageError
from harness.loaders.golden import load_golden
from harness.metrics.parse import parse_metric
from harness.pipeline.check.checked import CheckResult
from harness.report.documents.check_cases import failures
from harness.report.html.pages import check_html, comparison_html

pytestmark = pytest.mark.usefixtures("warm_workers")
CASES = Path(__file__).parents[1] / "cases" / "golden"
CORPUS = CASES / "tenants-corpus.jsonl"
FOUR_VALUES = {"Hit@3": 1.0, "MRR@3": 0.875, "Recall@3": 1.0, "nDCG@3": 0.9077}


def questions(filters: bool = True) -> GoldenSet:
    golden = load_golden(CASES / "tenants.jsonl")
    return golden if filters else replace(golden, questions=tuple(replace(each, filter=None) for each in golden))


def checked(golden: GoldenSet | None = None, **options: object) -> CheckResult:
    settings: dict[str, object] = {"backends": "csr", "corpus": CORPUS, "k": 3, "timing": False, **options}
    if "against" in options:
        settings = {name: value for name, value in settings.items() if name in ("k", "timing", *options)}
    return harness.check(golden or questions(), **settings)


def means(result: CheckResult, number: int = 0) -> dict[str, float]:
    return {name: round(value.mean, 4) for name, value in result.report.trials[number].metrics.items()}


def hits(result: CheckResult) -> dict[str, list[str]]:
    return {question.id: question.top for question in result.report.trials[0].questions}


@pytest.fixture(scope="module")
def filtered() -> CheckResult:
    return checked()


def test_each_question_is_searched_among_the_documents_of_its_filter(filtered: CheckResult) -> None:
    assert means(filtered) == FOUR_VALUES
    for name, top in hits(filtered).items():
        assert {doc.partition("/")[0] for doc in top} == {name.partition("-")[0]}
    parity = filtered.report.trials[0].parity
    assert parity is not None
    assert (parity.queries, parity.tie_equivalent) == (8, 8)
    without = means(checked(questions(filters=False)))
    assert all(without[name] < value for name, value in FOUR_VALUES.items())


def test_the_hits_are_those_of_one_filter_for_all_questions(filtered: CheckResult) -> None:
    """The order of the groups, and that several are searched on one index, change no bit."""
    mixed = questions(filters=False).questions
    for tenant in ("north", "south"):
        alone = replace(questions(), questions=tuple(each for each in mixed if each.id.startswith(tenant)))
        one = checked(alone, filter=[f"tenant={tenant}"])
        assert {name: top for name, top in hits(filtered).items() if name.startswith(tenant)} == hits(one)
        (run, several) = (next(iter(result.hits.values())) for result in (one, filtered))
        rows = several.query_ids.rows_of(run.query_ids)
        assert np.array_equal(several.of_queries(rows).scores, run.scores)


def test_questions_without_a_filter_are_searched_among_all_documents() -> None:
    golden = questions()
    mixed = [replace(each, filter=None) if number % 2 else each for number, each in enumerate(golden.questions)]
    result = checked(replace(golden, questions=tuple(mixed)))
    everything = hits(checked(questions(filters=False)))
    own = hits(checked())
    assert hits(result) == {each.id: (own if each.filter else everything)[each.id] for each in mixed}
    (info,) = result.report.datasets
    assert [(group.fields, group.queries, group.matching) for group in info.query_filters] == [
        ({"tenant": "north"}, 2, 6),
        ({}, 4, 12),
        ({"tenant": "south"}, 2, 6),
    ]


@pytest.mark.integration
@pytest.mark.parametrize(("backend", "package"), [("lucene", "jnius_config"), ("qdrant", "qdrant_edge")])
def test_a_real_engine_filters_each_question(backend: str, package: str) -> None:
    skip_without(package)
    result = checked(backends=backend)
    assert means(result) == FOUR_VALUES
    parity = result.report.trials[0].parity
    assert parity is not None
    assert parity.different == 0


@pytest.mark.integration
@pytest.mark.parametrize("backend", ["chroma:model=random", "qdrant-hybrid:model=random"])
def test_lists_and_hits_of_dense_vectors_agree_with_the_filtered_reference(backend: str) -> None:
    skip_without("chromadb" if backend.startswith("chroma") else "qdrant_edge")
    result = checked(backends=backend)
    parity = result.report.trials[0].parity
    assert parity is not None
    assert parity.different == 0
    for name, top in hits(result).items():
        assert {doc.partition("/")[0] for doc in top} == {name.partition("-")[0]}


def search(question: str, k: int, filter: Mapping[str, str]) -> Sequence[str]:
    """The words that a document shares with the question, among the documents of the filter."""
    words = set(question.lower().strip("?").split())
    records = [json.loads(line) for line in CORPUS.read_text().splitlines()]
    scored = [
        (-len(words & set(record["text"].lower().strip(".").split())), record["_id"])
        for record in records
        if all(record["metadata"][field] == value for field, value in filter.items())
    ]
    return [name for _, name in sorted(scored)][:k]


@pytest.fixture
def endpoint() -> Iterator[str]:
    """Answer as :func:`search` does; the filter is in the address, or in the body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            values = parse_qs(urlsplit(self.path).query)
            self.answer(values["q"][0], int(values["k"][0]), values["tenant"][0])

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(body["query"], body["limit"], body["where"]["tenant"])

        def answer(self, question: str, k: int, tenant: str) -> None:
            content = json.dumps({"ids": search(question, k, {"tenant": tenant})}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_function_gets_the_filter_as_its_third_argument() -> None:
    result = checked(against=search)
    assert means(result) == FOUR_VALUES
    assert hits(result) == {each.id: search(each.question, 3, each.filter or {}) for each in questions()}


def test_an_endpoint_gets_the_filter_in_its_placeholders(endpoint: str) -> None:
    in_url = f"http:url={endpoint}/?q={{question}}&k={{k}}&tenant={{filter.tenant}};ids=ids"
    body = '{"query": "{question}", "limit": {k}, "where": {"tenant": "{filter.tenant}"}}'
    in_body = f"http:url={endpoint}/;ids=ids;body={body}"
    expected = {each.id: search(each.question, 3, each.filter or {}) for each in questions()}
    for against in (in_url, in_body):
        result = checked(against=against)
        assert hits(result) == expected
        assert means(result) == FOUR_VALUES


@pytest.mark.parametrize(
    ("against", "message"),
    [
        (
            "http:url=http://h/?q={question};ids=ids",
            "question 'north-q1' has the filter tenant=north, which is not sent",
        ),
        (
            "http:url=http://h/?q={question}&t={filter.tenant}&l={filter.lang};ids=ids",
            "is sent {filter.lang}, and question 'north-q1' has no filter by 'lang'",
        ),
        (lambda question, k: [], "does not take them: it takes no third argument"),
        (lambda question, k, index="docs": [], "does not take them: its third argument is 'index'"),
    ],
)
def test_a_backend_that_is_not_sent_a_filter_is_refused(against: object, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        checked(against=against)
    assert message in str(refused.value)
    assert "\n" in str(refused.value), "the message says what to do"


def test_a_placeholder_without_filters_is_refused() -> None:
    against = "http:url=http://h/?q={question}&t={filter.tenant};ids=ids"
    with pytest.raises(UsageError, match=r"question 'north-q1' has no filter by 'tenant'"):
        checked(questions(filters=False), against=against)


def test_the_filter_of_all_is_combined_with_the_filter_of_each() -> None:
    golden = questions()
    some = replace(golden, questions=golden.questions[:4])
    assert hits(checked(some, filter="tenant=north")) == hits(checked(some))
    with pytest.raises(UsageError, match=r"--filter tenant=north: question 'south-q1' has the filter tenant=south"):
        checked(filter="tenant=north")


def test_engines_without_filters_are_refused_before_anything_runs() -> None:
    skip_without("usearch")
    with pytest.raises(UsageError, match=r"backend 'usearch:.*': questions have filters, and this engine does not"):
        checked(backends="csr,usearch:model=random", corpus="missing.jsonl")


def test_fields_and_values_that_no_document_has_are_named() -> None:
    golden = questions()

    def with_filter(number: int, conditions: Mapping[str, str]) -> GoldenSet:
        changed = replace(golden.questions[number], filter=conditions)
        return replace(golden, questions=(*golden.questions[:number], changed, *golden.questions[number + 1 :]))

    with pytest.raises(UnknownNameError, match=r"(?s)unknown metadata field 'tenat'.*did you mean 'tenant'"):
        checked(with_filter(2, {"tenat": "north"}))
    with pytest.raises(DataError, match=r"line 3: question 'north-q3': no document has tenant=nort.*'north'"):
        checked(with_filter(2, {"tenant": "nort"}))
    warned = checked(with_filter(0, {"tenant": "south"})).report.warnings
    (warning,) = [each for each in warned if each.check == "excluded-by-filter"]
    (example,) = warning.examples
    assert example.endswith("tenants.jsonl, line 1: question 'north-q1', tenant=south, expects 'north/terms#1'")


def test_values_are_compared_as_text_and_a_dot_leads_into_an_object(tmp_path: Path) -> None:
    values = {"a": 1971, "b": "1971", "c": 1971.5, "d": True, "e": None}
    lines = [{"_id": name, "text": "same words", "meta": {"year": value}} for name, value in values.items()]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    one = questions().questions[0]
    filters = {"1971": ["b", "a"], "1971.5": ["c"], "true": ["d"]}
    made = [
        replace(one, id=value, question="words", expected=(Expectation(found[0]),), filter={"meta.year": value})
        for value, found in filters.items()
    ]
    golden = replace(questions(), questions=tuple(made))
    assert hits(checked(golden, corpus=corpus)) == filters
    assert hits(checked(golden, corpus=corpus, backends="flat:model=random")).keys() == filters.keys()


def test_every_form_of_the_result_shows_the_filter_of_a_question(filtered: CheckResult, tmp_path: Path) -> None:
    failed = checked(require="MRR@3>=1", out=tmp_path / "result")
    terminal = " ".join(failed.render().split())
    assert "filters tenant=north (4 questions, 6 documents); tenant=south (4 questions, 6 documents)" in terminal
    rows = [line.split()[0] for line in failed.render().splitlines() if "  tenant=south  " in line]
    assert rows == ["south-q1"]
    stored = json.loads((tmp_path / "result" / "report.json").read_text())
    assert [question["filter"] for question in stored["trials"][0]["questions"][3:5]] == [
        {"tenant": "north"},
        {"tenant": "south"},
    ]
    assert "MRR@3 of question south-q1, filter tenant=south" in failed.render("csv")
    page = check_html(failed.report, failed.hits, failed.corpora, {}, "")
    assert '"filter":"tenant=south"' in page
    assert any("'how long is the warranty?' [tenant=south]: expected" in line for line in failures(failed.report))


def test_a_check_without_filters_stores_what_it_stored_before() -> None:
    report = checked(questions(filters=False)).report
    assert report.datasets[0].query_filters == []
    assert {question.filter for question in report.trials[0].questions} == {None}


def test_documents_that_are_objects_have_no_metadata() -> None:
    documents = harness.Dataset.of({"a": "words"}, {"q": "words"})
    with pytest.raises(HarnessError, match="an object in Python, without their metadata"):
        checked(corpus=documents)


def compared(**options: object) -> harness.Comparison:
    settings: dict[str, object] = {"backends": "csr", "queries": str(CASES / "tenants.jsonl"), "k": 3}
    return harness.compare(**{"dataset": str(CORPUS), **settings, **options})


def test_compare_searches_each_question_among_the_documents_of_its_filter() -> None:
    result = compared(backends=["csr", search], metrics=[*FOUR_VALUES])
    assert [trial.status for trial in result.report.trials] == ["ok", "ok"]
    for trial in result.report.trials:
        values = [round(trial.metrics[str(parse_metric(name))].mean, 4) for name in FOUR_VALUES]
        assert values == [*FOUR_VALUES.values()]
    parity = result.report.trials[0].parity
    assert parity is not None
    assert (parity.queries, parity.tie_equivalent) == (8, 8)
    assert [group.fields for group in result.report.dataset.query_filters] == [{"tenant": "north"}, {"tenant": "south"}]
    terminal = " ".join(result.render().split())
    assert "filters tenant=north (4 questions, 6 documents); tenant=south (4 questions, 6 documents)" in terminal


def test_compare_refuses_filters_before_anything_runs(tmp_path: Path) -> None:
    skip_without("usearch")
    with pytest.raises(UsageError, match="questions have filters, and this engine does not"):
        compared(backends="csr,usearch:model=random")
    with pytest.raises(UsageError, match="does not take them: it takes no third argument"):
        compared(backends=[lambda question, k: []])
    with pytest.raises(UsageError, match=r"--filter-sweep does not apply the filters that questions of"):
        compared(filter_sweep="0.5")
    with pytest.raises(UsageError, match=r"--filter tenant=north: question 'south-q1' has the filter tenant=south"):
        compared(filter="tenant=north")
    golden = tmp_path / "golden.jsonl"
    line = {"id": "q", "question": "pump", "expected": ["north/pump#1"], "filter": {"tenant": "nort"}}
    golden.write_text(json.dumps(line))
    with pytest.raises(DataError, match=r"question 'q': no document has tenant=nort.*'north'"):
        compared(queries=str(golden))
    records = [{"id": "q", "question": "pump", "expected": ["a"], "filter": {"tenant": "north"}}]
    documents = harness.Dataset.of({"a": "pump"}, records)
    with pytest.raises(UsageError, match="an object in Python, without their metadata"):
        compared(dataset=documents, queries="relevant")


@pytest.mark.parametrize("form", ["object", "text", "cells", "column"])
def test_filters_of_plain_queries_are_applied_as_those_of_a_golden_set(form: str, tmp_path: Path) -> None:
    golden = questions()
    rows = [
        {"id": one.id, "text": one.question, ("tenant" if form == "column" else "filter"): _written(one.filter, form)}
        for one in golden
    ]
    table = tmp_path / ("queries.csv" if form == "cells" else "queries.jsonl")
    if form == "cells":
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    judgments = tmp_path / "qrels.tsv"
    judgments.write_text("".join(f"{one.id}\t{document.id}\t1\n" for one in golden for document in one.expected))
    columns = {"columns": "filter=tenant"} if form == "column" else {}
    result = compared(queries=str(table), qrels=str(judgments), metrics=[*FOUR_VALUES], **columns)
    (trial,) = result.report.trials
    values = [round(trial.metrics[str(parse_metric(name))].mean, 4) for name in FOUR_VALUES]
    assert values == [*FOUR_VALUES.values()]
    groups = {str(group.fields["tenant"]): group.query_ids for group in result.report.dataset.query_filters}
    assert groups == {
        tenant: [one.id for one in golden if one.filter == {"tenant": tenant}] for tenant in ("north", "south")
    }
    assert '"filter":"tenant=south"' in comparison_html(result)


def _written(conditions: Mapping[str, str] | None, form: str) -> object:
    assert conditions is not None
    match form:
        case "column":
            return conditions["tenant"]
        case "object":
            return conditions
        case "cells":
            return json.dumps(conditions)
        case _:
            return [f"{field}={value}" for field, value in conditions.items()]


def test_filters_of_plain_queries_are_read_from_objects_and_refused_like_others(tmp_path: Path) -> None:
    documents = {"a": "pump", "b": "pump"}
    dataset = harness.Dataset.of(
        documents, [{"id": "q", "text": "pump", "filter": {"year": 1971}}, {"id": "r", "text": "x"}]
    )
    assert dataset.filters == {"q": {"year": "1971"}}
    with pytest.raises(
        DataError, match=r"record 1: 'filter' has null for 'year', expected text, a number, true or false"
    ):
        harness.Dataset.of(documents, [{"id": "q", "text": "pump", "filter": {"year": None}}])
    table = tmp_path / "queries.jsonl"
    table.write_text(json.dumps({"id": "q", "text": "pump", "filter": {"tenant": ["north"]}}))
    with pytest.raises(DataError, match=r"line 1: 'filter' has .* for 'tenant', expected text"):
        compared(queries=str(table))
    table.write_text(json.dumps({"id": "q", "text": "pump", "filter": "by hand"}))
    assert compared(queries=str(table)).report.dataset.query_filters == []
    with pytest.raises(HarnessError, match="filter"):
        compared(queries=str(table), columns="filter=no_such_field")


TAGS = {
    "a": ["red", "green"],
    "b": "red",
    "c": [1971, True],
    "d": [],
    "e": 1971,
    "f": None,
    "g": ["it's"],
    "h": ["green"],
}
OF_TAGS = {"red": "ab", "green": "ah", "1971": "ce", "true": "c", "it's": "g"}


def test_a_list_matches_if_one_of_its_elements_is_the_value(tmp_path: Path) -> None:
    """In the reference and in engines that filter by a mask, by a term, by SQL, by payload and by expressions."""
    names = [("csr", ""), ("bm25s", "bm25s"), ("sqlite", ""), ("tantivy", "tantivy"), ("qdrant", "qdrant_edge")]
    backends = [name for name, module in names if not module or find_spec(module) is not None]
    corpus = tmp_path / "tags.jsonl"
    lines = [{"_id": name, "text": "same words", "metadata": {"tags": tags}} for name, tags in TAGS.items()]
    corpus.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    golden = [
        {"id": value, "question": "words", "expected": [found[0]], "filter": {"tags": value}}
        for value, found in OF_TAGS.items()
    ]
    result = harness.check(golden, corpus=corpus, backends=backends, k=8, timing=False, isolation="none")
    for trial in result.report.trials:
        assert trial.error is None, trial.error
        assert {question.id: "".join(sorted(question.top)) for question in trial.questions} == OF_TAGS, trial.label
        assert trial.parity is not None
        assert trial.parity.different == 0
        assert trial.questions[0].filter == {"tags": "red"}
    with pytest.raises(DataError, match=r"no document has tags=gren \(did you mean 'green'\?\)"):
        harness.check([{**golden[0], "filter": {"tags": "gren"}}], corpus=corpus, backends="csr", k=8)
    corpus.write_text(json.dumps({"_id": "a", "text": "words", "metadata": {"tags": {"inner": 1}}}))
    with pytest.raises(
        UsageError, match=r"no filter by 'tags': it never holds .*\n  objects cannot be used in filters"
    ):
        harness.check([golden[0]], corpus=corpus, backends="csr", k=8)
