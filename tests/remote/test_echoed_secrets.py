"""Servers that repeat what was sent to them: no secret reaches a message, a report or a page, in any spelling."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from harness.cli.app import _build
from harness.engines.callable.http_endpoint import HttpBackend, HttpSettings
from harness.engines.opensearch.connection import OPENSEARCH
from harness.engines.remote_server import read_address, redact
from harness.errors import EngineUnavailableError
from harness.remote.calls import Limits, RemoteCalls
from harness.remote.credentials import hide

PASSWORD = "correct horse/battery"
KEY = "sk-Zq7+Xw/93kLm"
TOKEN = "tok_9d8f7a6b5c4e"
SECRETS = (PASSWORD, KEY, TOKEN)
Answered = Callable[[BaseHTTPRequestHandler, str], tuple[int, bytes]]


def spellings(secret: str) -> set[str]:
    """The forms in which a server may write a secret, without the ends of base64 that neighbouring bytes change."""
    encoded = [base64.b64encode(before + secret.encode() + b"!!!").decode() for before in (b"", b"u", b"user:")]
    in_base64 = {text[8:-8] for text in encoded}
    return {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], *in_base64}


def leaked(text: str) -> list[str]:
    return [spelling for secret in SECRETS for spelling in spellings(secret) if spelling in text]


@contextmanager
def echoing(answer: Answered) -> Iterator[str]:
    """The address of a server that answers with what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            echo = "\n".join([self.path, *map(": ".join, self.headers.items()), sent.decode()])
            status, body = answer(self, echo)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def refusing(_: BaseHTTPRequestHandler, echo: str) -> tuple[int, bytes]:
    return 400, echo.encode()


def failing(_: BaseHTTPRequestHandler, echo: str) -> tuple[int, bytes]:
    return 500, json.dumps({"request": echo}).encode()


def in_base64(_: BaseHTTPRequestHandler, echo: str) -> tuple[int, bytes]:
    return 400, base64.b64encode(echo.encode())


def unreadable(_: BaseHTTPRequestHandler, echo: str) -> tuple[int, bytes]:
    return 200, echo.encode()


def as_texts(_: BaseHTTPRequestHandler, echo: str) -> tuple[int, bytes]:
    return 200, json.dumps({"hits": [{"id": "a", "text": echo}]}).encode()


def as_ids(_: BaseHTTPRequestHandler, echo: str) -> tuple[int, bytes]:
    return 200, json.dumps({"hits": [{"id": echo.replace("\n", " "), "text": "one"}]}).encode()


@pytest.mark.parametrize("answer", [refusing, failing, in_base64, unreadable, as_texts, as_ids])
def test_no_file_of_a_check_holds_a_secret_that_the_endpoint_repeats(
    answer: Answered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_KEY", KEY)
    golden = [{"id": "1", "question": "one?", "expected_relevant_doc_ids": ["a"]}]
    (tmp_path / "golden.jsonl").write_text("\n".join(map(json.dumps, golden)), encoding="utf-8")
    body = json.dumps({"q": "{question}", "access_token": TOKEN, "options": [{"mode": "hybrid"}]})
    with echoing(answer) as host:
        url = f"http://user:{quote(PASSWORD, safe='')}@{host}/s?key={TOKEN}"
        options = f"ids=hits[*].id;texts=hits[*].text;key_env=SEARCH_KEY;key_header=X-Key;retry_s=0;body={body}"
        arguments = [
            "check",
            str(tmp_path / "golden.jsonl"),
            "--against",
            f"http:url={url};{options}",
            "--k",
            "1",
            "--no-timing",
        ]
        done = CliRunner().invoke(_build(), [*arguments, "--verbose", "--out", str(tmp_path / "out")])
    assert done.exit_code in (0, 3), done.output
    written = {path.name: path.read_bytes().decode(errors="replace") for path in (tmp_path / "out").rglob("*.*")}
    assert {"report.json", "report.html"} <= written.keys()
    for name, text in {"terminal": done.output + done.stderr, **written}.items():
        assert leaked(text) == [], name


def test_short_values_of_a_request_stay_in_ids_and_texts_of_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", "hybrid")

    def answer(_: BaseHTTPRequestHandler, __: str) -> tuple[int, bytes]:
        return 200, json.dumps({"hits": [{"id": "hybrid", "text": "a hybrid index of products"}]}).encode()

    with echoing(answer) as host:
        body = '{"q": "{question}", "index": "products"}'
        options = {"url": f"http://{host}/s", "ids": "hits[*].id", "texts": "hits[*].text", "body": body}
        with HttpBackend(HttpSettings.of({**options, "key_env": "SEARCH_KEY"})) as backend:
            answered = backend.retrieve("one?", 1)
    assert (answered.ids, answered.texts) == (("hybrid",), ("a hybrid index of products",))


@pytest.mark.parametrize("answer", [refusing, failing, in_base64, unreadable])
def test_an_endpoint_of_a_model_shows_no_key(answer: Answered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", KEY)
    with echoing(answer) as host:
        calls = RemoteCalls(f"http://{host}/v1", key_env="MODEL_KEY", limits=Limits(retry_s=0.0))
        with calls, pytest.raises(EngineUnavailableError) as caught:
            calls.post("/embeddings", {"input": ["one"]}, lambda content: content["data"])
    assert leaked(str(caught.value)) == []


def test_servers_of_engines_hide_a_login_however_they_repeat_it() -> None:
    environment = {OPENSEARCH.server.url_variable: f"http://user:{quote(PASSWORD, safe='')}@h.example:9200"}
    address = read_address(OPENSEARCH.server, "", OPENSEARCH.server.key_variable, environment)
    sent = f"authorization: {address.headers['authorization']}; {PASSWORD}"
    for echo in (sent, json.dumps(sent), quote(sent), base64.b64encode(sent.encode()).decode()):
        assert leaked(redact(echo, address)) == []


def test_a_secret_is_hidden_in_base64_at_every_offset() -> None:
    for before in range(7):
        for urlsafe in (base64.b64encode, base64.urlsafe_b64encode):
            echo = urlsafe(b"x" * before + KEY.encode() + b"y").decode()
            hidden = hide(echo, [KEY], "(key)")
            assert "(key)" in hidden
            assert len(hidden.replace("(key)", "")) <= 4 * (before // 3 + 1) + 4
