"""What already exists: how it is named, what its answers may look like, and what becomes of bad ones."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from harness.engines.callable.answers import Answer, AnsweredQueries, ask, read_answer
from harness.engines.callable.frameworks import retriever_of
from harness.engines.callable.http_endpoint import HttpBackend, HttpSettings, JsonPath
from harness.engines.callable.python_callable import PythonBackend, load_callable
from harness.errors import EngineFailureError, EngineTimeoutError, EngineUnavailableError, UsageError
from harness.pipeline.check.against import parse_against
from harness.remote.calls import RemoteCalls
from harness.store.record_files import load, save
from harness.testing import RecordingProgress

ONE = uuid.UUID(int=1)


@pytest.mark.parametrize(
    ("returned", "answer"),
    [
        ([], Answer()),
        (["a", "b"], Answer(("a", "b"), None, (None, None))),
        ((7, np.int64(8), ONE), Answer(("7", "8", str(ONE)), None, (None,) * 3)),
        ([("a", 0.5), ["b", np.float32(0.25)]], Answer(("a", "b"), (0.5, 0.25), (None, None))),
        (iter([{"_id": 3, "_score": 2, "text": "t"}]), Answer(("3",), (2.0,), ("t",))),
        ([SimpleNamespace(id="a", page_content="t", metadata={})], Answer(("a",), None, ("t",))),  # LangChain
        ([(SimpleNamespace(id="a", page_content="t"), 0.5)], Answer(("a",), (0.5,), ("t",))),
        ([SimpleNamespace(node=SimpleNamespace(node_id="n", text="t"), score=0.5)], Answer(("n",), (0.5,), ("t",))),
        ([SimpleNamespace(id="h", content="t", score=0.0)], Answer(("h",), (0.0,), ("t",))),  # Haystack
    ],
)
def test_answers_of_every_shape(returned: object, answer: Answer) -> None:
    assert read_answer(returned) == answer


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "it returned None"),
        ("abc", "it returned 'abc'"),
        ({"documents": []}, "it returned {'documents': []}"),
        ([None], "hit 1 is None and has no id"),
        (["a", ""], "hit 2 is '' and has no id"),
        (["a", "\x1b[2J"], r"the id of hit 2, '\x1b[2J', is empty, or has outer spaces or control characters"),
        ([{"id": "a\n::error::b"}], "the id of hit 1"),
        ([SimpleNamespace(id=None, page_content="t")], "has no id"),
        ([("a", 1.0, "t")], "expected an id, or a pair"),
        ([("a", float("nan"))], "the score of hit 1 is nan"),
        ([("a", 1.0), ("b", float("-inf"))], "the score of hit 2 is -inf, expected a finite number"),
        ([("a", 1e39)], "the score of hit 1 is 1e+39, expected a finite number within float32"),
        ([("a", "0.5")], "the score of hit 1 is '0.5'"),
        ([("a", True)], "the score of hit 1 is True"),
        ([("a", 0.5), "b"], "hit 2 has no score, but others have"),
    ],
)
def test_answers_that_cannot_be_read(returned: object, said: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refusal:
        read_answer(returned)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("path", "document", "found"),
    [
        ("results[*].id", {"results": [{"id": "a"}, {"id": 2}]}, ["a", 2]),
        ("results[*].id", {"results": []}, []),
        ("$.hits.hits[*]._id", {"hits": {"hits": [{"_id": "x"}]}}, ["x"]),
        ("ids", {"ids": ["a", "b"]}, ["a", "b"]),
        ("ids[0]", {"ids": [["a", "b"], ["c"]]}, ["a", "b"]),
        ("ids[-1][0]", {"ids": [["a", "b"], ["c"]]}, ["c"]),
        ('["odd.name"][*]', {"odd.name": [1]}, [1]),
        ("[*].doc.id", [{"doc": {"id": "a"}}], ["a"]),
        ("", ["a"], ["a"]),
        ("a[*][*]", {"a": [["x"], ["y", "z"]]}, ["x", "y", "z"]),
    ],
)
def test_json_paths(path: str, document: Any, found: list[Any]) -> None:
    assert JsonPath.parse(path).find(document) == found


@pytest.mark.parametrize(
    ("path", "document", "said"),
    [
        ("results[*].id", {"hits": [], "took": 1}, "the answer has no 'results' (there is: hits, took)"),
        ("results[*].id", {"results": [{"id": 1}, {"doc": 1}]}, "element 1 of 'results' of the answer has no 'id'"),
        ("results[*]", {"results": None}, "'results' of the answer is null, expected a list"),
        ("results.id", {"results": []}, "is a list, and 'id' was looked for"),
        ("[2]", ["a"], "the answer has 1 elements, and [2] was looked for"),
    ],
)
def test_what_is_not_where_the_path_says(path: str, document: Any, said: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refusal:
        JsonPath.parse(path).find(document)
    assert said in str(refusal.value)


@pytest.mark.parametrize("path", ["a[", "a[b]", "a..b", "a b", "$x$", "id|keyword:x"])
def test_malformed_paths(path: str) -> None:
    with pytest.raises(UsageError, match="is malformed at"):
        JsonPath.parse(path)


def test_expressions_are_named_and_redacted() -> None:
    python, named, http, index = parse_against(
        [
            "python:my_app.search:retrieve",
            "mine=python:my_app:App.find",
            "http:url=http://me:hush1@host/s?q={question}&key=hush2;ids=hits[*].id;body={\"q\": \"hush3\"}",
            "chroma:path=db;collection=docs;model=m",
        ]
    )  # fmt: skip
    assert python.called is not None
    assert (python.label, python.called.target) == ("python:my_app.search:retrieve", "my_app.search:retrieve")
    assert (named.label, named.displayed) == ("mine", "mine=python:my_app:App.find")
    assert http.label == "http:http://host/s"
    assert http.displayed == "http:url=http://***@host/s?q={question}&***;ids=hits[*].id;body=***"
    assert "hush" not in http.label + http.displayed
    assert index.backend == "chroma:external=true;path=db;collection=docs;model=m"
    (given,) = parse_against(["chroma:external=true;path=db"])
    assert given.backend == "chroma:external=true;path=db"


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("chroma", "names no backend"),
        ("python:my_app", "names no function\n  write python:MODULE:FUNCTION, as python:my_app:search"),
        (
            "python:my_app.search.find",
            "names no function\n  write python:MODULE:FUNCTION, as python:my_app.search:find",
        ),
        ("python:my app:f", "names no function"),
        ("http:ids=a", "needs url="),
        ("http:url=http://h/{question}", "needs ids="),
        ("http:url=http://h/s;ids=a", "is not told the question"),
        ("http:url=http://h/{query};ids=a", "unknown placeholder {query}"),
        ("http:url=http://h/{question};idz=a;ids=b", "'idz' is not an option"),
        ("http:url=ftp://h/{question};ids=a", "is not of the form"),
        ("http:url=http://h/{question}#part;ids=a", "is not of the form"),
        ("http:url=http://h/{question};ids=a[;", "malformed"),
        ("http:url=http://h/;ids=a;body={question}", "body= is not JSON"),
        ("http:url=http://h/{question};ids=a;method=PUT", "method=PUT"),
        ("http:url=http://h/{question};ids=a;timeout_s=soon", "timeout_s=soon is not a number"),
        ("http:url=http://h/{question};ids=a;ids=b", "given twice"),
        ("http:uri=http://h/{question}", "has no option 'uri'"),
    ],
)
def test_malformed_expressions(expression: str, said: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_against([expression])
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    "expression",
    [
        "http://me:hush@h/s?q={question}&key=hush",
        "http:urll=http://me:hush@h/s?q={question}&key=hush;ids=a",
        "http:url=http://h/s?q={question};api_key=hush;ids=a",
        "http:url=http://h/s?q={question}&key=hush;ids=a;ids=a",
        'http:url=http://h/s;ids=a;body={"q": "{question}", "key": "hush"',
        "api_key=hush",
        "python:my_app:retrieve?token=hush",
        "python:my_app:retrieve:password=hush",
        "mine=http:token=hush",
    ],
)
def test_what_is_refused_is_not_repeated_with_its_secrets(expression: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_against([expression])
    assert "hush" not in str(refusal.value)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two backends are called 'python:m:f'"):
        parse_against(["python:m:f", "python:m:f"])


@dataclass
class Service:
    """Answers with ``replies`` in turn, then with the ids ``a`` and ``b``; remembers what it was asked."""

    replies: list[tuple[int, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, Any, str | None, str | None]] = field(default_factory=list)
    url: str = ""
    server: ThreadingHTTPServer | None = None

    def die(self) -> None:
        assert self.server is not None
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    known = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            headers = self.headers.get("Authorization"), self.headers.get("X-Key")
            known.asked.append((self.command, self.path, body, *headers))
            good = {"results": [{"id": "a", "score": 0.5, "text": "t"}, {"id": 2, "score": 0.25, "text": "u"}]}
            status, content = known.replies.pop(0) if known.replies else (200, good)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing: tests are silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        known.server, known.url = server, f"http://127.0.0.1:{server.server_address[1]}"
        yield known
        server.shutdown()


def asking(given: dict[str, str], question: str = "who?", k: int = 3) -> Answer:
    with HttpBackend(HttpSettings.of({"ids": "results[*].id", **given})) as retriever:
        return retriever.retrieve(question, k)


def test_a_question_is_encoded_into_the_url(service: Service) -> None:
    hostile = 'a&k=99 #/?"é{k}'
    answer = asking(
        {"url": f"{service.url}/s?q={{question}}&k={{k}}", "scores": "results[*].score", "texts": "results[*].text"},
        hostile,
    )
    assert answer == Answer(("a", "2"), (0.5, 0.25), ("t", "u"))
    ((method, path, body, *_),) = service.asked
    assert (method, body) == ("GET", None)
    assert parse_qs(urlsplit(path).query) == {"q": [hostile], "k": ["3"]}


def test_a_question_is_put_into_the_body(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "hush")
    hostile = '", "admin": true, "x": "{k} \\'
    template = '{"query": {"text": "{question}"}, "size": {k}, "list": ["{question}"]}'
    asking({"url": f"{service.url}/s", "body": template, "key_env": "MY_KEY", "key_header": "X-Key"}, hostile)
    ((method, _, body, bearer, key),) = service.asked
    assert (method, bearer, key) == ("POST", None, "hush")
    assert body == {"query": {"text": hostile}, "size": 3, "list": [hostile]}


def test_a_login_of_a_url_is_sent_and_never_shown(service: Service) -> None:
    url = service.url.replace("://", "://me:hush%2F1@") + "/s?q={question}&key=hush2"
    service.replies = [(403, "no: me hush/1 hush2 hush%2F1")]
    with pytest.raises(EngineUnavailableError, match="refused a call with 403") as refusal:
        asking({"url": url})
    assert "hush" not in str(refusal.value)
    assert (service.asked[0][3] or "").startswith("Basic ")


def test_what_passes_is_waited_for(service: Service) -> None:
    service.replies = [(503, "busy")]
    with HttpBackend(HttpSettings.of({"url": service.url + "/{question}", "ids": "results[*].id"})) as retriever:
        assert retriever.retrieve("a", 1).ids == ("a", "2")
        assert retriever.repeated == 1


@pytest.mark.parametrize(
    ("reply", "given", "said"),
    [
        ({"hits": []}, {}, "has no 'results' (there is: hits)"),
        ({"results": [{"id": None}]}, {}, "has no id"),
        ({"results": [{"id": "a", "s": []}]}, {"scores": "results[*].s[*]"}, "1 ids and 0 scores"),
    ],
)
def test_an_answer_that_cannot_be_read_says_why(
    service: Service, reply: object, given: dict[str, str], said: str
) -> None:
    service.replies = [(200, reply)] * 3
    with pytest.raises(EngineUnavailableError, match="sent an unusable answer") as refusal:
        asking({"url": f"{service.url}/{{question}}", "retry_s": "0", **given})
    assert said in str(refusal.value)
    assert "JSON paths" in str(refusal.value)


def test_a_service_that_is_down() -> None:
    with pytest.raises(EngineUnavailableError, match="cannot be reached"):
        asking({"url": "http://127.0.0.1:9/{question}", "retry_s": "0"})


async def later(question: str, k: int) -> list[str]:
    await asyncio.sleep(0)
    return [question] * k


def generated(question: str, k: int) -> Iterator[str]:
    yield from [question] * k


async def generated_later(question: str, k: int) -> AsyncIterator[str]:
    for _ in range(k):
        await asyncio.sleep(0)
        yield question


@pytest.mark.parametrize("function", [later, generated, generated_later, lambda question, k, limit=3: [question] * k])
def test_callables_of_every_kind(function: Any) -> None:
    with PythonBackend(function, "f") as retriever:
        assert retriever.retrieve("a", 2).ids == ("a", "a")
        assert retriever.retrieve("b", 1).ids == ("b",)


class LangChainRetriever(SimpleNamespace):
    def invoke(self, question: str, k: int) -> list[str]:
        return [question] * k


class LangChainStore:
    def similarity_search(self, query: str, k: int = 4) -> list[str]:
        return [query] * k


class LlamaIndexRetriever(SimpleNamespace):
    def retrieve(self, question: str) -> list[str]:
        return [question] * int(self.similarity_top_k)


class HaystackComponent(SimpleNamespace):
    __haystack_input__ = ("query", "top_k")

    def run(self, query: str, top_k: int) -> dict[str, list[str]]:
        return {"documents": [query] * top_k}


class HaystackPipeline(SimpleNamespace):
    def outputs(self) -> dict[str, list[str]]:
        return {"retriever": ["documents"]}

    def inputs(self) -> dict[str, dict[str, dict[str, object]]]:
        query: dict[str, object] = {"is_mandatory": True, "type": str}
        return {"retriever": {"query": query, "top_k": {"is_mandatory": False, "type": int}}}

    def get_component(self, name: str) -> object:
        return HaystackComponent(top_k=2)

    def run(self, data: dict[str, dict[str, int]]) -> dict[str, dict[str, list[str]]]:
        return {"retriever": {"documents": [str(data["retriever"]["query"])] * data["retriever"]["top_k"]}}


@pytest.mark.parametrize(
    ("framework", "candidate", "own_k"),
    [
        ("langchain", LangChainRetriever(search_kwargs={"k": 2}), 2),
        ("langchain", LangChainRetriever(search_kwargs={}, vectorstore=LangChainStore()), 4),
        ("langchain", LangChainRetriever(search_kwargs={}), None),
        ("llamaindex", LlamaIndexRetriever(similarity_top_k=2), 2),
        ("haystack", HaystackComponent(top_k=2), 2),
        ("haystack", HaystackPipeline(), 2),
    ],
)
def test_a_retriever_that_is_set_to_another_number_says_so(framework: str, candidate: Any, own_k: int | None) -> None:
    retriever = retriever_of(framework, candidate, "mine", "")
    assert retriever.fixed_k == own_k
    for k in (4, 2, 5):
        backend = PythonBackend(retriever.call, "mine", notes=retriever.notes, fixed_k=retriever.fixed_k)
        assert len(backend.retrieve("a", k).ids) == k
        said = f"it is configured to return {own_k} documents, and {k} were requested: --k {own_k} measures it "
        said += "as configured"
        assert backend.notes[1:] == ((said,) if own_k not in (None, k) else ())


def test_what_a_callable_raises_comes_with_its_place() -> None:
    def broken(question: str, k: int) -> list[str]:
        raise ValueError(f"dimension 384 expected, got 768 {question}{k}")

    with pytest.raises(EngineFailureError, match="'f' raised: ValueError: dimension 384") as failure:
        PythonBackend(broken, "f").retrieve("a", 1)
    assert "encode questions with the model that made it" in str(failure.value)
    assert any("in broken" in line for line in failure.value.log)
    assert not any("in retrieve" in line for line in failure.value.log)
    with pytest.raises(EngineFailureError, match="'f' raised: SystemExit: 4"):
        PythonBackend(lambda question, k: sys.exit(4), "f").retrieve("a", 1)
    with pytest.raises(EngineFailureError, match="cannot be read: it returned None"):
        PythonBackend(lambda question, k: None, "f").retrieve("a", 1)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda question: [question], "cannot be called with a question and a number"),
        (lambda *, question, k: [question, k], "cannot be called with a question and a number"),
        (lambda: "made", "(?s)cannot be called with a question and a number.*langchain:MODULE:NAME"),
        (Service, "is a class"),
        ("text", "is str, not a function"),
    ],
)
def test_what_cannot_be_called_is_refused(function: Any, said: str) -> None:
    with pytest.raises(EngineUnavailableError, match=said):
        PythonBackend(function, "f")


def test_modules_are_found_in_the_current_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lonely_module.py").write_text("class A:\n    def find(self, q, k): return [q]\napp = A()\n")
    (tmp_path / "broken_module.py").write_text("import nothing_of_this_name\n")
    monkeypatch.chdir(tmp_path)
    assert load_callable("lonely_module:app.find")("a", 1) == ["a"]
    with pytest.raises(EngineUnavailableError, match=r"'lonely_module' has no 'app\.search'\n"):
        load_callable("lonely_module:app.search")
    with pytest.raises(EngineUnavailableError, match=r"has no 'app\.fnid' \(did you mean 'find'\?\)"):
        load_callable("lonely_module:app.fnid")
    with pytest.raises(EngineFailureError, match="cannot be imported: ModuleNotFoundError") as failure:
        load_callable("broken_module:f")
    assert any("import nothing_of_this_name" in line for line in failure.value.log)


class Scripted:
    """Answers as it is told; every call takes a second of a clock of its own."""

    repeated = 2
    notes = ()

    def __init__(self, *failing: str) -> None:
        self.failing, self.calls, self.now = failing, [], 0

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def retrieve(self, question: str, k: int) -> Answer:
        self.calls.append(question)
        self.now += 10**9
        if question in self.failing:
            raise EngineFailureError("no", log=["line 1"])
        return Answer(("a",), None, (None,))


def asked(retriever: Scripted, questions: list[str], **given: Any) -> Any:
    options = {"repeats": 1, "warm_up": False, "deadline_s": None, **given}
    return ask(retriever, questions, 1, clock=lambda: retriever.now, progress=RecordingProgress(), **options)


def test_every_question_is_asked_and_timed(tmp_path: Any) -> None:
    retriever = Scripted("b")
    found = asked(retriever, ["a", "b", "c"], repeats=2, warm_up=True)
    assert retriever.calls == ["a", "a", "b", "c", "a", "b", "c"]
    assert found.search_ns.tolist() == [[10**9, -1, 10**9]] * 2
    assert [answer.failure for answer in found.answers] == [None, "no\nline 1", None]
    save(tmp_path, found)
    again = load(tmp_path, AnsweredQueries)
    assert (again.answers, again.repeated) == (found.answers, 2)
    assert np.array_equal(again.search_ns, found.search_ns)


def test_after_five_failures_in_a_row_nothing_more_is_asked() -> None:
    names = [f"q{number}" for number in range(9)]
    retriever = Scripted(*names)
    found = asked(retriever, names)
    assert retriever.calls == names[:5]
    assert found.answers[5].failure == "not queried: the 5 questions before it failed in a row"


def ask_all(retriever: HttpBackend, questions: list[str], *, warm_up: bool) -> Any:
    options = {"repeats": 2, "warm_up": warm_up, "deadline_s": None}
    return ask(retriever, questions, 1, clock=lambda: 0, progress=RecordingProgress(), **options)  # type: ignore[arg-type]


def test_an_endpoint_where_nobody_listens_fails_at_the_first_question() -> None:
    now, slept = 0.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        slept.append(seconds)

    url = "http://127.0.0.1:9"
    settings = HttpSettings.of({"url": url + "/{question}", "ids": "results[*].id"})
    calls = RemoteCalls(url, key_env="", limits=settings.limits, clock=lambda: now, sleep=sleep)
    with (
        HttpBackend(settings, calls) as retriever,
        pytest.raises(EngineUnavailableError, match=r"cannot be reached: ConnectError.*; asked 3 times"),
    ):
        ask_all(retriever, ["a", "b", "c"], warm_up=True)
    assert slept == [0.5, 1.0]
    assert calls.calls == 3


def test_an_endpoint_that_dies_keeps_its_answers_and_no_further_question_waits(service: Service) -> None:
    class Dying(HttpBackend):
        def retrieve(self, question: str, k: int) -> Answer:
            if question == "b":
                service.die()
            return super().retrieve(question, k)

    given = {"url": service.url + "/{question}", "ids": "results[*].id", "retry_s": "0.6"}
    with Dying(HttpSettings.of(given)) as retriever:
        found = ask_all(retriever, ["a", "b", "c", "d"], warm_up=False)
    assert retriever.repeated == 1
    first, second, third, fourth = found.answers
    assert first.ids == ("a", "2")
    assert "cannot be reached: ConnectError" in str(second.failure)
    assert third.failure == fourth.failure == "not queried: an earlier question reached no server"


def test_a_deadline_ends_the_asking() -> None:
    with pytest.raises(EngineTimeoutError, match="only 3 of 9 calls were made in 2 s"):
        asked(Scripted(), [f"q{number}" for number in range(9)], deadline_s=2.0)


def test_an_object_that_takes_no_number_says_how_many_it_returned() -> None:
    backend = PythonBackend(lambda _, k: ["a", "b"][:k], "f", takes_k=False)
    backend.retrieve("?", 2)
    assert backend.notes == (
        "it takes no number of documents: of the documents that it returns as configured, the first k count",
    )
    backend.retrieve("?", 3)
    (note,) = backend.notes
    assert note == (
        "it takes no number of documents, and returned at most 2 of the 3 requested: --k 2 measures it as configured"
    )
