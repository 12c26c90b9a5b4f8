"""Somebody's own code as a backend of a comparison: functions, endpoints, and retrievers of frameworks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from installed import skip_without
from small_world import QUERIES, write_collection

import harness
from harness.errors import UsageError
from harness.plan.backend_spec import parse_backends
from harness.plan.config import CompareRequest
from harness.plan.plan import make_plan
from harness.results.comparison import Comparison

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

MODULE = """
import json
import pathlib

RUN = json.loads((pathlib.Path(__file__).parent / "run.json").read_text())
called = 0


def scored(question, k):
    return RUN[question][:k]


def ids(question, k):
    return [doc_id for doc_id, _ in RUN[question]]


def distances(question, k):
    return [(doc_id, -score) for doc_id, score in RUN[question][:k]]


def failing(question, k):
    raise RuntimeError("no index today")


def later(question, k):
    global called
    called += 1
    if called > 3:
        raise RuntimeError("tired")
    return ids(question, k)


def nothing(question, k):
    return []


def strangers(question, k):
    return ["x1", "x2"]


def one_stranger(question, k):
    return ["x1", *ids(question, k)][:k]


def repeating(question, k):
    return ["d1", "d1"]


def unsorted(question, k):
    return [("d1", 1.0), ("d2", 3.0), ("d3", 2.0)]


def pipeline():
    import pandas
    import pyterrier

    def hits(queries):
        rows = [
            {"qid": query.qid, "query": query.query, "docno": doc_id, "score": score}
            for query in queries.itertuples()
            for doc_id, score in RUN[query.query]
        ]
        return pandas.DataFrame(rows)

    return pyterrier.apply.generic(hits)
"""


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("callables") / "small")


@pytest.fixture(scope="module")
def exact(collection: Path) -> Comparison:
    return harness.compare("csr", collection, k=5, timing=False)


@pytest.fixture
def app(exact: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder whose functions know csr's own answers."""
    run = exact.run("csr")
    texts = exact.queries.texts.to_pylist()
    answers = {
        texts[query]: [
            (run.doc_ids[int(row)], float(score))
            for row, score in zip(run.rows[run.of_query(query)], run.scores[run.of_query(query)], strict=True)
        ]
        for query in range(len(run.query_ids))
    }
    (tmp_path / "run.json").write_text(json.dumps(answers))
    (tmp_path / "own_app.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return "own_app"


def values(comparison: Comparison, label: str) -> list[float]:
    return [metric.mean for metric in comparison.trial(label).metrics.values()]


@pytest.mark.parametrize("function", ["scored", "ids", "distances"])
def test_a_function_with_the_hits_of_csr_has_its_figures(collection: Path, app: str, function: str) -> None:
    comparison = harness.compare(f"csr,mine=python:{app}:{function}", collection, k=5, repeat=2)
    trial = comparison.trial("mine")
    assert values(comparison, "mine") == values(comparison, "csr")
    assert trial.search is not None
    assert trial.search.milliseconds is not None
    assert trial.search.milliseconds.n == 2 * trial.search.queries
    assert trial.parity is None
    assert trial.parameters == {"expression": f"python:{app}:{function}"}
    assert any("no exact reference" in note for note in trial.notes)
    assert any("taken for distances" in note for note in trial.notes) == (function == "distances")
    assert "of a run, of all that it holds" not in comparison.render(verbose=True)
    own, theirs = comparison.run("csr"), comparison.run("mine")
    assert own.doc_ids.take(own.rows) == theirs.doc_ids.take(theirs.rows)


def test_documents_that_the_dataset_lacks_are_counted_among_those_that_were_found(collection: Path, app: str) -> None:
    comparison = harness.compare(f"python:{app}:one_stranger", collection, k=2, timing=False)
    (trial,), run = comparison.report.trials, comparison.run(f"python:{app}:one_stranger")
    found = len(set(run.rows.tolist()))
    assert found < len(run.doc_ids), "judged documents that it did not find are in the run, too"
    assert f"1 of its {found} documents are not in the dataset (x1): their hits keep their ranks" in trial.notes


def test_what_cannot_be_measured_of_own_code_is_said(collection: Path, app: str) -> None:
    wanted = {"rebuilds": 2, "churn": "insert=25%,steps=1", "concurrency": "1", "load_seconds": 0.1, "warm_up": 0}
    (trial,) = harness.compare(f"python:{app}:ids", collection, k=5, **wanted).report.trials  # type: ignore[arg-type]
    assert "no spread over 2 builds: its own code answers, and nothing is built" in trial.notes
    assert "not changed (--churn): its own code answers, and nothing is indexed" in trial.notes
    assert "not measured cold or under load: its own code answers, one query after another" in trial.notes


def test_its_hits_can_be_fused_and_reranked(collection: Path, app: str) -> None:
    mine = f"python:{app}:scored"
    comparison = harness.compare([f"rrf:csr+({mine})", f"{mine}|keywords"], collection, k=5)
    assert not comparison.failed
    assert {"csr", mine, f"rrf:csr+({mine})", f"{mine}|keywords"} == {trial.label for trial in comparison.report.trials}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("failing", "queries failed, query"),
        ("later", "'own_app:later' raised: RuntimeError: tired"),
        ("nothing", "got a hit"),
        ("strangers", "none of its documents is in the dataset: it has 'x1'"),
        ("repeating", "a document is ranked twice: query"),
        ("unsorted", "hits are not in the order of their scores: query"),
        ("absent", "'own_app' has no 'absent'"),
    ],
)
def test_answers_that_cannot_be_scored_fail_the_backend_alone(
    collection: Path, app: str, function: str, message: str
) -> None:
    comparison = harness.compare(f"csr,python:{app}:{function}", collection, k=5, timing=False)
    failed = comparison.trial(f"python:{app}:{function}")
    assert failed.status == "failed"
    assert failed.error is not None
    assert message in failed.error.message
    assert not failed.metrics
    assert comparison.trial("csr").status == "ok"


def test_a_transformer_of_pyterrier_stands_beside_the_engines(collection: Path, app: str) -> None:
    skip_without("pyterrier")
    comparison = harness.compare(f"csr,terrier=pyterrier:{app}:pipeline", collection, k=5, timing=False)
    assert comparison.trial("terrier").error is None
    assert values(comparison, "terrier") == values(comparison, "csr")


def test_a_query_without_relevant_hits_counts_and_is_no_mistake(collection: Path, exact: Comparison, app: str) -> None:
    """A backend that finds documents of the dataset, none of them judged, is bad and not broken."""
    judged = set(exact.qrels.doc_ids)
    other = next(doc_id for doc_id in exact.corpus.ids if doc_id not in judged)
    Path("poor.py").write_text(f"def search(question, k):\n    return ['{other}']\n")
    comparison = harness.compare("python:poor:search", collection, k=5, timing=False)
    assert values(comparison, "python:poor:search") == [0.0] * 4


class Search(BaseHTTPRequestHandler):
    """Answers with the hits of ``run.json`` in the current folder, once ``busy`` calls were refused."""

    busy = 0

    def do_GET(self) -> None:
        if Search.busy:
            Search.busy -= 1
            self.send_error(503)
            return
        query = parse_qs(urlsplit(self.path).query)
        hits = json.loads(Path("run.json").read_text())[query["q"][0]][: int(query["k"][0])]
        body = json.dumps({"hits": [{"id": doc_id, "score": score} for doc_id, score in hits]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep standard error for what the test prints."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Search) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_endpoint_is_asked_and_its_key_is_stored_nowhere(
    collection: Path, app: str, endpoint: str, tmp_path: Path
) -> None:
    url = f"{endpoint}/search?q={{question}}&k={{k}}&key=hush-hush"
    backends = f"csr,(mine=http:url={url};ids=hits[*].id;scores=hits[*].score)"
    comparison = harness.compare(backends, collection, k=5, timing=False, out=tmp_path / "result")
    assert values(comparison, "mine") == values(comparison, "csr")
    assert "hush" not in (tmp_path / "result" / "report.json").read_text()
    assert any("replaces text that could be secret" in note for note in comparison.trial("mine").notes)


def test_calls_that_were_made_again_are_told(
    collection: Path, app: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Search, "busy", 1)
    url = f"{endpoint}/search?q={{question}}&k={{k}}"
    comparison = harness.compare(f"mine=http:url={url};ids=hits[*].id", [collection], k=5, warm_up=0)
    assert "made again after a failure: 1 call; its milliseconds include that" in comparison.trial("mine").notes


def test_calls_of_an_endpoint_are_limited(collection: Path, app: str, endpoint: str) -> None:
    url = f"{endpoint}/search?q={{question}}&k={{k}}"
    comparison = harness.compare(f"http:url={url};ids=hits[*].id", collection, k=5, timing=False, max_calls=1)
    (trial,) = comparison.report.trials
    assert trial.error is not None
    assert "max" in trial.error.message


def test_the_recorded_command_asks_the_same_again(collection: Path, app: str) -> None:
    comparison = harness.compare(f"mine=python:{app}:ids", collection, k=5, timing=False)
    recorded = comparison.report.command
    (spec,) = parse_backends(recorded[recorded.index("--backends") + 1])
    assert spec.called is not None
    assert (spec.label, spec.kind, spec.name) == ("mine", "callable", "python")
    assert spec.called.target == f"{app}:ids"


def test_an_endpoint_in_a_fusion_is_recorded_so_that_it_can_be_asked_again() -> None:
    endpoint = "http:url=http://host/s?q={question};ids=hits[*].id"
    (spec,) = parse_backends(f"both=rrf:csr+({endpoint})")
    (again,) = parse_backends(spec.expression)
    for found in (spec, again):
        called = found.components[1].called
        assert called is not None
        assert called.http is not None
        assert called.expression == endpoint


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("python", "'python' does not name a backend"),
        ("python:own_app", "names no function"),
        ("langchain:own_app:retriever;key=x", "'key' is not an option"),
        ("http://me:hush@host/search", "without the location of the ids"),
        ("csr,http:url=http://host/{question}?key=hush;idz=a;ids=b", "'idz' is not an option"),
        ("qdrant:url=http://me:hush@host,python:a:b", "is not of the form"),
        ("qdrant:url=http://me:hush@host,http:url=http://host/{question};ids=a", "is not of the form"),
        (
            "http:url=http://me:pass,hush@host/{question};ids=a",
            "the text after an endpoint in the list is not a backend",
        ),
        ("http:ids=a;url=http://host/{question}?key=a,hush", "the text after an endpoint in the list is not a backend"),
        (
            "rrf:csr+http:url=http://me:a+hush@host/{question};ids=a",
            "'http:…' is more than a name, and has no parentheses",
        ),
        ("http:url=me:hush@host/{question};ids=a", "the url '***@host/{question}' is not of the form"),
        ("python:a:b,python:a:b", "are the same"),
    ],
)
def test_malformed_expressions_are_refused_without_their_secrets(expression: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_backends(expression)
    assert message in str(refusal.value)
    assert "hush" not in str(refusal.value)


def test_a_sweep_repeats_no_part_of_a_password_that_holds_a_comma(collection: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        harness.compare("csr,http:url=http://me:a,hush@host/{question};ids=a", collection, sweep="csr:k1=1,2")
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    ("backends", "sweep", "stored"),
    [
        ("csr,m={}", "csr:k1=1,2", "csr:k1=1,2"),
        ("csr", "rrf:csr+({});k=10,60", "rrf:csr+(http:url=http://***@host/s?q={question}&***;ids=a);k=10,60"),
        ("csr", "{};timeout_s=1,2", "http:url=http://***@host/s?q={question}&***;ids=a;timeout_s=1,2"),
    ],
)
def test_a_sweep_is_recorded_without_the_secrets_of_endpoints(
    collection: Path, backends: str, sweep: str, stored: str
) -> None:
    endpoint = "http:url=http://me:hush@host/s?q={question}&key=hush;ids=a"
    request = CompareRequest(
        dataset=str(collection),
        backends=backends.replace("{}", endpoint),
        sweep=(sweep.replace("{}", endpoint),),
    )
    plan = make_plan(request, lucene_available=False)
    assert plan.arguments()["sweep"] == [stored]
    assert "hush" not in str([plan.arguments(), plan.command(), [trial.label for trial in plan.trials]])


def test_times_of_its_calls_are_stored_as_those_of_engines(collection: Path, app: str) -> None:
    comparison = harness.compare(f"python:{app}:ids", collection, k=5, repeat=3)
    assert comparison.latencies is not None
    times = comparison.latencies.to_pydict()
    assert len(times["query_id"]) == 3 * len(QUERIES)
    assert min(times["search_ns"]) > 0
    assert set(times["transfer_ns"]) == {0}


def test_a_function_itself_is_a_backend(tmp_path: Path) -> None:
    dataset = write_collection(tmp_path / "small")
    asked = []

    def best(question: str, k: int) -> list[str]:
        asked.append((question, k))
        return ["d2", "d6", "d4"][:k]

    comparison = harness.compare([best, "csr"], dataset, k=2, timing=False)
    label = f"python:{__name__}:test_a_function_itself_is_a_backend.locals.best"
    assert [trial.label for trial in comparison.report.trials] == [label, "csr"]
    assert comparison.failed == []
    assert sorted(asked) == sorted((question, 2) for question in QUERIES.values())
    alone = harness.compare(lambda question, k: ["d4"], dataset, k=2, timing=False).report.trials[0]
    assert alone.metrics["nDCG@10"].mean > 0


def ranker(*hits: str) -> Callable[[str, int], list[str]]:
    return lambda question, k: list(hits[:k])


def test_functions_of_one_name_are_told_apart_by_the_names_of_a_mapping(tmp_path: Path) -> None:
    dataset = write_collection(tmp_path / "small")
    good, bad = ranker("d2", "d6", "d4"), ranker("d5")
    comparison = harness.compare({"good": good, "bad": bad, "bm25": "csr"}, dataset, k=3, timing=False)
    assert [trial.label for trial in comparison.report.trials] == ["good", "bad", "bm25"]
    assert comparison.failed == []
    assert [comparison.runs[name].hits for name in ("good", "bad")] == [3 * len(QUERIES), len(QUERIES)]


@pytest.mark.parametrize(
    ("backends", "message"),
    [
        ([ranker("d1"), ranker("d2")], 'ranker.locals.lambda\'; name them: backends={"a": f, "b": g}'),
        (dict.fromkeys(["a", "b"], ranker("d1")), "backends 'a' and 'b' are the same"),
        ({"my own": ranker("d1")}, "'my own' is not the name of a backend; letters, digits and . _ - will do"),
        ({"x": "csr", "y": "nonsense"}, "unknown backend 'nonsense'"),
    ],
)
def test_functions_that_cannot_be_told_apart_are_refused(
    collection: Path, backends: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        harness.compare(backends, collection)
    assert message in str(refusal.value).replace("\n  ", "; ")
