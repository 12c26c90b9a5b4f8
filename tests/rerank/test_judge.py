"""The judge against an endpoint on a loopback port: what is sent, what is accepted, and what goes wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from chat_stub import KEY, ChatServer, Fault, chat_server

from harness.data.progress import SilentDisplay
from harness.errors import EngineUnavailableError
from harness.plan.stages import rerankers
from harness.rerank.judge import Judge, read_grade

QUERIES = ["cat garden", "cat garden", "light", "zeppelin"]
DOCUMENTS = ["a dog chased the cat across the garden", "cats", "light rail", "nothing " * 50]
GRADES = [2.0, 0.0, 1.0, 0.0]
PROGRESS = SilentDisplay().section("")


def judge(server: ChatServer, **given: Any) -> Judge:
    limits = {"request_timeout_s": 5.0, "request_retry_s": 5.0}
    parameters = {**rerankers()["judge"].defaults, "model": "judge-1", "endpoint": server.url, **limits, **given}
    return Judge(parameters)


def graded(asked: Judge) -> list[float]:
    out = np.full(len(QUERIES), np.nan, dtype=np.float32)
    asked.load()
    try:
        asked.score(QUERIES, DOCUMENTS, out, PROGRESS)
    except EngineUnavailableError as error:
        error.grades = out.tolist()  # type: ignore[attr-defined]
        raise
    finally:
        asked.close()
    return out.tolist()


def test_each_pair_is_asked_once_with_deterministic_settings(monkeypatch):
    monkeypatch.setenv("HARNESS_JUDGE_API_KEY", KEY)
    with chat_server() as server:
        asked = judge(server, seed=7, max_characters=20)
        assert graded(asked) == [1.0, 0.0, 1.0, 0.0]  # the first document is cut before the garden
    assert asked.facts == {"endpoint": server.url, "calls": 4, "repeated_calls": 0}
    assert asked.lengths is not None
    assert asked.lengths.counts.tolist() == [[38, 18], [4, 0], [10, 0], [400, 380]]
    assert asked.lengths[1:] == (20, "max_characters= of the backend", "characters")
    assert server.keys == [f"Bearer {KEY}"] * 4
    body = server.asked[0]
    assert {name: body[name] for name in body if name != "messages"} == {
        "model": "judge-1",
        "temperature": 0,
        "seed": 7,
        "max_tokens": 256,
        "response_format": {"type": "json_object"},
    }
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][1]["content"] == "Query: cat garden\n\nPassage: a dog chased the cat"


def test_an_endpoint_without_json_mode_is_not_asked_for_it():
    with chat_server() as server:
        graded(judge(server, json_mode=False))
    assert all("response_format" not in body for body in server.asked)
    assert server.keys == [None] * 4


@pytest.mark.parametrize(
    "fault",
    [
        Fault(429, {"Retry-After": "0"}, b"slow down"),
        Fault(500, body=b"oops"),
        Fault(503, body=b"loading"),
        Fault(body=b"<html>"),
        Fault(content="I would say 2"),
        Fault(content='{"grade": 7}'),
        Fault(wait_s=1.5),
    ],
    ids=["429", "500", "503", "not JSON", "prose", "no grade", "slow"],
)
def test_what_passes_is_waited_for(fault):
    with chat_server(fault) as server:
        asked = judge(server, request_timeout_s=0.7)
        assert graded(asked) == GRADES
    assert asked.facts["repeated_calls"] == 1
    assert len(server.asked) == len(QUERIES) + 1


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(500, body=b"oops"), "answered 500: oops"),
        (Fault(content="seven"), "a message that is not JSON: 'seven'"),
        (Fault(401, body=b"who are you?"), "refused a call with 401: who are you"),
    ],
    ids=["500", "prose", "401"],
)
def test_what_does_not_pass_ends_it_and_keeps_what_was_graded(fault, message):
    with chat_server(Fault(), *[fault] * 50) as server, pytest.raises(EngineUnavailableError, match=message) as failed:
        graded(judge(server, request_retry_s=0.4))
    grades = failed.value.grades  # type: ignore[attr-defined]
    assert grades[0] == GRADES[0]
    assert np.isnan(grades[1:]).all()


def test_an_answer_without_a_grade_is_asked_for_three_times_and_has_its_own_remedy():
    with chat_server(*[Fault(content="seven")] * 50) as server, pytest.raises(EngineUnavailableError) as failed:
        graded(judge(server, request_retry_s=20.0))
    assert len(server.asked) == 3
    assert "json_mode=false" in str(failed.value)
    assert "max_tokens" in str(failed.value)


def test_a_key_is_never_told(monkeypatch):
    monkeypatch.setenv("HARNESS_JUDGE_API_KEY", KEY)
    refused = Fault(401, body=f"{KEY} is not known".encode())
    with chat_server(refused) as server, pytest.raises(EngineUnavailableError) as failed:
        graded(judge(server))
    assert KEY not in str(failed.value)


def test_a_key_that_a_message_repeats_is_not_told_in_part(monkeypatch):
    monkeypatch.setenv("HARNESS_JUDGE_API_KEY", KEY)
    for before in (110, 115, 250, 280):
        with (
            chat_server(Fault(content="." * before + KEY)) as server,
            pytest.raises(EngineUnavailableError, match="not JSON") as failed,
        ):
            graded(judge(server, request_retry_s=0.0))
        assert KEY[:3] not in str(failed.value)


def test_a_judge_that_may_not_be_called_says_how_many_calls_are_missing():
    with chat_server() as server:
        asked = judge(server, max_calls=0)
        asked.allow(0)
        with pytest.raises(
            EngineUnavailableError, match=r"(?s)the cache lacks 4 grades: that takes 4 calls of .*--max-calls 4"
        ):
            asked.allow(4)
        judge(server).allow(4)
        judge(server, max_calls=3).allow(4)
        with pytest.raises(EngineUnavailableError, match=r"no call of .* was made, and --max-calls allows none"):
            graded(asked)
    assert server.asked == []


def test_no_more_calls_than_allowed():
    with chat_server() as server, pytest.raises(EngineUnavailableError, match=r"2 calls .* allows no more"):
        graded(judge(server, max_calls=2))
    assert len(server.asked) == 2


def test_the_prompt_is_what_a_grade_depends_on():
    with chat_server() as server:
        one, cut = judge(server), judge(server, max_characters=3)
    assert one.content("cat", "a dog") == judge(server, request_retry_s=1.0).content("cat", "a dog")
    assert len({one.content("cat", "a dog"), one.content("dog", "a dog"), cut.content("cat", "a dog")}) == 3
    assert cut.content("cat", "a dog") == cut.content("cat", "a door")
    assert one.identity() == judge(server, endpoint=f"{server.url}/", max_calls=3).identity()
    assert one.identity() != judge(server, endpoint="http://127.0.0.1:1/v1").identity()
    assert one.identity() != judge(server, model="judge-2").identity()
    assert one.identity() != judge(server, revision="after the update").identity()


def answer(content: object) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content}}]}


@pytest.mark.parametrize(
    "content",
    ['{"grade": 2}', ' {"grade": 2, "why": "x"}\n', '```json\n{"grade": 2}\n```', '<think>2 {3}</think>\n{"grade": 2}'],
)
def test_grades_are_read(content):
    assert read_grade(answer(content)) == 2


@pytest.mark.parametrize(
    "given",
    [
        *map(answer, ["", "2", '{"grade": "2"}', '{"grade": 2.0}', '{"grade": true}', '{"grade": -1}', "[]", None]),
        {},
        {"choices": []},
        json.loads("[]"),
    ],
)
def test_what_is_no_grade_is_refused(given):
    with pytest.raises((ValueError, TypeError, KeyError, IndexError)):
        read_grade(given)
