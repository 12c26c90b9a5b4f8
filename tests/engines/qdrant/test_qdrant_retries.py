"""When a failed call to Qdrant is made again, how long is waited, and when that ends. No test here waits."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace

import httpx
import pytest
from grpc import RpcError, StatusCode
from installed import Deferred, skip_module_without

from harness.engines.qdrant import server
from harness.engines.qdrant.connection import Connection, Retrier, address_of, check_versions, fault_of
from harness.engines.qdrant.parameters import QdrantSettings, ServerSettings
from harness.engines.qdrant.server import ServerCollection
from harness.engines.remote_server import Cause, FaultError, note_answer, redact, server_errors
from harness.errors import EngineFailureError, EngineUnavailableError
from harness.registry.lookup import find_cards

skip_module_without("qdrant_client")

ResourceExhaustedResponse = Deferred("qdrant_client.common.client_exceptions", "ResourceExhaustedResponse")
ResponseHandlingException = Deferred("qdrant_client.http.exceptions", "ResponseHandlingException")
UnexpectedResponse = Deferred("qdrant_client.http.exceptions", "UnexpectedResponse")


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


def answer(status: int, body: bytes = b"") -> Exception:
    return UnexpectedResponse(status, "Reason", body, httpx.Headers())


def remote(code: StatusCode, words: str = "words") -> Exception:
    error = RpcError()
    error.code, error.details = lambda: code, lambda: words  # type: ignore[attr-defined]
    return error


def failing(errors: list[Exception]) -> Callable[[], str]:
    left = list(errors)

    def operation() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return operation


def retrier(limit_s: float, time: Time, draw: float = 1.0) -> Retrier:
    return Retrier(limit_s, clock=lambda: time.now, sleep=time.sleep, draw=lambda: draw)


def test_pauses_double_up_to_ten_seconds() -> None:
    time = Time()
    calls = retrier(1000, time)
    assert calls.call(failing([answer(503)] * 8)) == "done"
    assert time.slept == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10])
    assert calls.repeated == 8


def test_pauses_are_spread_over_their_upper_half() -> None:
    time = Time()
    retrier(1000, time, draw=0.0).call(failing([answer(503)] * 2))
    assert time.slept == pytest.approx([0.1, 0.2])


def test_a_pause_that_is_asked_for_is_kept_to() -> None:
    time = Time()
    retrier(100, time).call(failing([ResourceExhaustedResponse("slowly", 7)]))
    assert time.slept == [7]


def test_it_ends_before_the_deadline_and_says_how_often_it_tried() -> None:
    time = Time()
    with pytest.raises(FaultError) as caught:
        retrier(2.0, time).call(failing([answer(503)] * 100))
    assert time.slept == pytest.approx([0.2, 0.4, 0.8])
    assert (caught.value.tries, caught.value.fault.cause) == (4, Cause.BUSY)
    assert caught.value.seconds == pytest.approx(1.4)


def test_a_pause_beyond_the_deadline_is_not_begun() -> None:
    time = Time()
    with pytest.raises(FaultError):
        retrier(5.0, time).call(failing([ResourceExhaustedResponse("slowly", 7)]))
    assert time.slept == []


def test_giving_up_ends_the_next_failure() -> None:
    time = Time()
    calls = retrier(1000, time)
    calls.give_up()
    with pytest.raises(FaultError):
        calls.call(failing([answer(503)]))
    assert time.slept == []


def test_errors_of_others_pass_untouched() -> None:
    with pytest.raises(KeyError):
        retrier(1000, Time()).call(failing([KeyError("mine")]))


def transport(error: Exception) -> Exception:
    return ResponseHandlingException(error)


def test_what_is_tried_again_and_what_is_not() -> None:
    expected = [
        (answer(400), Cause.REFUSED, False),
        (answer(401), Cause.UNAUTHORISED, False),
        (answer(403), Cause.UNAUTHORISED, False),
        (answer(404), Cause.MISSING, False),
        (answer(408), Cause.SLOW, True),
        (answer(409), Cause.CONFLICT, False),
        (answer(429), Cause.LIMITED, True),
        (answer(500), Cause.FAILED, False),
        (answer(500, b'{"status": {"error": "some replica of shard 3 failed"}}'), Cause.BUSY, True),
        (answer(500, b"The replica set for shard 3 has not enough active replicas"), Cause.BUSY, True),
        (answer(400, b"no replica of shard 3"), Cause.REFUSED, False),
        (answer(502), Cause.BUSY, True),
        (answer(503), Cause.BUSY, True),
        (answer(504), Cause.SLOW, True),
        (ResourceExhaustedResponse("", 0), Cause.LIMITED, True),
        (transport(httpx.ConnectError("refused")), Cause.UNREACHABLE, True),
        (transport(httpx.ConnectTimeout("late")), Cause.SLOW, True),
        (transport(httpx.ReadTimeout("late")), Cause.SLOW, True),
        (transport(httpx.ReadError("reset")), Cause.BROKEN, True),
        (transport(httpx.RemoteProtocolError("half")), Cause.BROKEN, True),
        (transport(ValueError("not the model")), Cause.CLIENT, False),
        (ValueError("invalid Vector model"), Cause.CLIENT, False),
        (transport(httpx.LocalProtocolError("Illegal header value")), Cause.CLIENT, False),
        (remote(StatusCode.UNAVAILABLE), Cause.UNREACHABLE, True),
        (remote(StatusCode.DEADLINE_EXCEEDED), Cause.SLOW, True),
        (remote(StatusCode.RESOURCE_EXHAUSTED), Cause.LIMITED, True),
        (remote(StatusCode.UNAUTHENTICATED), Cause.UNAUTHORISED, False),
        (remote(StatusCode.NOT_FOUND), Cause.MISSING, False),
        (remote(StatusCode.ALREADY_EXISTS), Cause.CONFLICT, False),
        (remote(StatusCode.INVALID_ARGUMENT), Cause.REFUSED, False),
        (remote(StatusCode.INTERNAL), Cause.FAILED, False),
        (remote(StatusCode.INTERNAL, "Exception serializing request!"), Cause.CLIENT, False),
        (remote(StatusCode.INTERNAL, "Exception deserializing response!"), Cause.UNREADABLE, False),
        (remote(StatusCode.INTERNAL, "some replica of shard 3 failed"), Cause.BUSY, True),
    ]
    note_answer(None)
    for error, cause, again in expected:
        assert fault_of(error).cause is cause, error
        try:
            retrier(1000, Time()).call(failing([error]))
        except FaultError:
            assert not again, error
        else:
            assert again, error


@pytest.mark.parametrize("error", [ValueError("not the model"), json.JSONDecodeError("no JSON", "", 0)])
def test_an_error_after_an_answer_is_one_of_the_answer(error: Exception) -> None:
    note_answer(answer(200))
    assert fault_of(error).cause is Cause.UNREADABLE


def test_an_answer_over_grpc_that_the_client_cannot_read() -> None:
    from qdrant_client.conversions.conversion import GrpcToRest

    note_answer(None)
    with pytest.raises(ValueError, match="invalid VectorsOutput") as raised:
        GrpcToRest.convert_vectors_output(SimpleNamespace(WhichOneof=lambda name: None))
    assert fault_of(raised.value).cause is Cause.UNREADABLE


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"status": {"error": "Wrong input: so"}}', "400 Reason: Wrong input: so"),
        (b"plain\n words", "400 Reason: plain words"),
        (b"", "400 Reason: without a message"),
        (b"[1]", "400 Reason: [1]"),
        (b"x" * 1000, f"400 Reason: {'x' * 288} …"),
    ],
)
def test_the_servers_words(body: bytes, words: str) -> None:
    assert redact(fault_of(answer(400, body)).text, None) == words


@pytest.mark.parametrize(
    ("server", "doubtful"), [("1.20.0", False), ("1.19.1-dev", False), ("v1.21.3", False), ("1.18.0", True)]
)
def test_versions_that_work(server: str, doubtful: bool) -> None:
    assert bool(check_versions(server, "1.20.0")) is doubtful


@pytest.mark.parametrize("server", ["2.0.0", "0.9.1", "1.9.9", "", "latest", "1.2"])
def test_versions_that_do_not(server: str) -> None:
    with pytest.raises(EngineUnavailableError):
        check_versions(server, "1.20.0")


def test_a_queue_of_updates_is_no_idle_server(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [
        SimpleNamespace(status="green", update_queue=SimpleNamespace(length=3, deferred_points=None)),
        SimpleNamespace(status="green", update_queue=SimpleNamespace(length=0, deferred_points=9)),
        SimpleNamespace(status="green", update_queue=SimpleNamespace(length=0, deferred_points=0)),
    ]
    settings = QdrantSettings.of({**find_cards("backends")["qdrant"].defaults, "url": "http://host"}, "sparse")
    client = SimpleNamespace(get_collection=lambda _: states.pop(0))
    connection = Connection(address_of(settings.server), Retrier(0), client, "1", "rest", "")
    monkeypatch.setattr(server, "connect", lambda *_: connection)
    collection = ServerCollection("c", settings)
    assert [collection.optimise() for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("before", range(264, 289, 4))
def test_no_part_of_a_key_survives_the_cut(before: int) -> None:
    """A message that is cut in the middle of a repeated key, or right before or after it."""
    settings = ServerSettings.of({**find_cards("backends")["qdrant"].defaults, "url": "http://host"})
    address = address_of(settings, {"QDRANT_API_KEY": "k3y-0f-the-house"})
    body = f"{'x' * before}k3y-0f-the-house and more words, so that it is cut".encode()
    with pytest.raises(EngineFailureError) as caught, server_errors(address, lambda: "asking"):
        raise FaultError(fault_of(answer(400, body)), 1, 0.0)
    assert "k3y" not in str(caught.value)
    assert " …" in str(caught.value)
