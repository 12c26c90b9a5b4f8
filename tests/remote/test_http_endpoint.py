"""Vectors from an endpoint: what is sent, what is waited for, what is refused, and what it may cost."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
from collections.abc import Iterator
from email.utils import format_datetime
from pathlib import Path

import numpy as np
import pytest
from endpoint_stub import EndpointStub, serving_embeddings
from small_world import DOCUMENTS, QUERIES, write_cards, write_collection
from warm_harness import harness_command

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.encoders.embeddings_endpoint import EndpointModel
from harness.encoders.settings import Settings
from harness.errors import EngineUnavailableError, HarnessError, UsageError
from harness.registry.parameters import ParameterValue, encoder_parameters
from harness.remote.calls import Limits, RemoteCalls
from harness.results import schema


class Time:
    """A clock that only sleeping moves on."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def endpoint() -> Iterator[EndpointStub]:
    with serving_embeddings() as stub:
        yield stub


def calls(endpoint: EndpointStub, time: Time, *, key_env: str = "NO_KEY", **limits: float) -> RemoteCalls:
    given = Limits(**limits)  # type: ignore[arg-type]
    return RemoteCalls(endpoint.url, key_env=key_env, limits=given, clock=time.clock, sleep=time.sleep)


def model(endpoint: EndpointStub, time: Time, **limits: float) -> EndpointModel:
    defaults: dict[str, ParameterValue] = {name: one.default for name, one in encoder_parameters("dense").items()}
    given = {**defaults, "model": "http:tiny", "endpoint": endpoint.url, "batch_size": 2}
    return EndpointModel(Settings.of("dense", given), calls(endpoint, time, **limits))


def texts(*given: str) -> Inputs:
    import pyarrow as pa

    return Inputs(Ids.of(f"t{row}" for row in range(len(given))), texts=pa.chunked_array([list(given)], pa.string()))


def test_texts_go_in_batches_the_longest_first_and_vectors_come_back_in_order(endpoint: EndpointStub) -> None:
    found = model(endpoint, Time()).encode(texts("cat", "a dog in the garden", "mat mat"), "documents")
    assert [body["input"] for body in endpoint.bodies] == [["a dog in the garden", "mat mat"], ["cat"]]
    assert [body["model"] for body in endpoint.bodies] == ["tiny", "tiny"]
    assert found.dtype == np.float32
    assert found[:, 0].tolist() == [1.5, 0.5, 0.5]
    assert found[:, 5].tolist() == [0.5, 0.5, 2.5]


def test_what_passes_is_waited_for_as_long_as_the_server_says_else_twice_as_long_each_time(
    endpoint: EndpointStub,
) -> None:
    soon = format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=7), usegmt=True)
    endpoint.faults = [(429, {"Retry-After": "3"}), 500, "malformed", "too few", (503, {"Retry-After": soon}), 502]
    time = Time()
    made = model(endpoint, time)
    assert made.encode(texts("cat"), "queries")[0, 0] == 1.5
    assert time.slept[:4] == [3.0, 1.0, 2.0, 4.0]
    assert 4.0 < time.slept[4] <= 7.0
    assert time.slept[5] == 16.0
    assert made.spent[:2] == (7, 6)


@pytest.mark.parametrize("pause", ["0", "00", "Wed, 01 Jan 2020 00:00:00 GMT"])
def test_a_server_that_asks_for_no_pause_is_not_hammered(endpoint: EndpointStub, pause: str) -> None:
    endpoint.faults = [(503, {"Retry-After": pause})] * 50
    time = Time()
    with pytest.raises(EngineUnavailableError, match="asked 5 times"):
        model(endpoint, time, retry_s=2.0).encode(texts("cat"), "queries")
    assert time.slept == [0.5] * 4


def test_one_call_is_no_plural(endpoint: EndpointStub) -> None:
    endpoint.faults = [500] * 50
    with pytest.raises(EngineUnavailableError, match=r"answered 500: no such thing; asked 1 time\b(?!s)"):
        model(endpoint, Time(), retry_s=0.0).encode(texts("cat"), "queries")


def test_a_server_that_stays_broken_is_given_up_in_time(endpoint: EndpointStub) -> None:
    endpoint.faults = [500] * 50
    time = Time()
    with pytest.raises(EngineUnavailableError, match="answered 500: no such thing; asked 4 times"):
        model(endpoint, time, retry_s=5.0).encode(texts("cat"), "queries")
    assert time.now <= 5.0


def test_a_server_that_is_not_there_or_slow_says_so(endpoint: EndpointStub) -> None:
    time = Time()
    gone = RemoteCalls(
        "http://127.0.0.1:9/v1", key_env="", limits=Limits(retry_s=1.0), clock=time.clock, sleep=time.sleep
    )
    with pytest.raises(EngineUnavailableError, match="cannot be reached: ConnectError"):
        gone.post("/embeddings", {}, lambda answer: answer)
    endpoint.faults = ["slow", "slow"]
    with pytest.raises(EngineUnavailableError, match="cannot be reached: ReadTimeout"):
        model(endpoint, time, timeout_s=0.2, retry_s=0.1).encode(texts("cat"), "queries")


@pytest.mark.parametrize(("status", "fix"), [(401, "environment variable MY_KEY"), (404, "the path of the endpoint")])
def test_a_refusal_is_not_repeated_and_never_shows_the_key(
    endpoint: EndpointStub, status: int, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "no such")  # what the server's answer holds, as if it repeated the key
    endpoint.faults = [status]
    with pytest.raises(EngineUnavailableError) as caught:
        calls(endpoint, Time(), key_env="MY_KEY").post("/embeddings", {"input": ["cat"]}, lambda answer: answer)
    assert endpoint.keys == ["Bearer no such"]
    assert "(key) thing" in str(caught.value)
    assert fix in str(caught.value)


@pytest.mark.parametrize("around", ["\n", "\r\n", " "])
def test_a_mounted_key_is_sent_without_its_line_break(
    endpoint: EndpointStub, around: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", f"sesame{around}")
    calls(endpoint, Time(), key_env="MY_KEY").post("/embeddings", {"model": "tiny", "input": ["cat"]}, lambda one: one)
    assert endpoint.keys == ["Bearer sesame"]


@pytest.mark.parametrize("status", [401, 500, 200])
@pytest.mark.parametrize("before", [280, 295, 299])
def test_a_key_across_the_cut_of_an_answer_leaves_no_part(
    endpoint: EndpointStub, status: int, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-s3same0pen")
    endpoint.faults = [(status, {}, b"-" * before + b"sk-s3same0pen")]
    with pytest.raises(EngineUnavailableError) as caught:
        calls(endpoint, Time(), key_env="MY_KEY", retry_s=0).post("/embeddings", {"input": ["cat"]}, lambda one: one)
    assert "----" in str(caught.value)
    assert "sk-" not in str(caught.value)


def test_calls_keep_to_a_rate_and_end_at_a_limit(endpoint: EndpointStub) -> None:
    time = Time()
    with pytest.raises(EngineUnavailableError, match=r"3 calls .* were made, and --max-calls allows no more"):
        model(endpoint, time, per_minute=30, max_calls=3).encode(texts(*"abcdefgh"), "documents")
    assert len(endpoint.bodies) == 3
    assert time.slept == [2.0, 2.0]


def test_waiting_for_the_rate_is_no_failure(endpoint: EndpointStub) -> None:
    time = Time()
    asking = model(endpoint, time, per_minute=1, retry_s=30.0)
    asking.encode(texts("cat"), "queries")
    endpoint.faults = [500]
    assert asking.encode(texts("dog"), "queries")[0, 4] == 1.5
    assert time.slept == [60.0, 0.5, 59.5], "the turn, the pause, the turn of the repeated call"


@pytest.mark.parametrize("fault", ["malformed", "too few"])
def test_what_cannot_be_used_is_asked_for_three_times(endpoint: EndpointStub, fault: str) -> None:
    endpoint.faults = [500, *[fault] * 50]
    with pytest.raises(
        EngineUnavailableError,
        match=r"(answered with invalid JSON|sent an unusable answer).*; asked 4 times\n.*OpenAI's API",
    ):
        model(endpoint, Time(), retry_s=1e9).encode(texts("cat"), "queries")
    assert len(endpoint.bodies) == 4


def test_an_endpoint_that_holds_more_than_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        RemoteCalls("https://example.org/v1?key=secret", key_env="MY_KEY", limits=Limits())
    assert "secret" not in str(caught.value)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_collection(tmp_path / "small")
    write_cards(tmp_path, encoder="dense", dense="DenseBruteForce")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def compared(world: Path, backend: str, **options: int | str) -> schema.TrialResult:
    comparison = harness.compare(
        [backend],
        world / "small",
        timing=False,
        isolation="none",
        k=3,
        cards=world,
        **options,  # type: ignore[arg-type]
    )
    return comparison.report.trials[0]


def test_a_comparison_asks_once_says_what_it_asked_and_goes_on_after_its_limit(
    endpoint: EndpointStub, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_EMBEDDINGS_API_KEY", "sesame")
    backend = f"dense:model=http:tiny;endpoint={endpoint.url};batch_size=1;request_retry_s=0"
    first = compared(world, backend, max_calls=len(QUERIES))
    assert first.error is not None
    assert "--max-calls allows no more" in first.error.message
    second = compared(world, backend)
    assert second.error is None
    assert sorted(endpoint.texts) == sorted([*QUERIES.values(), *DOCUMENTS.values()]), "a text was sent twice"
    assert set(endpoint.keys) == {"Bearer sesame"}
    assert second.encoder["endpoint"] == endpoint.url
    assert "sesame" not in "".join(path.read_text(errors="replace") for path in world.rglob("*.json"))


def counted(result: schema.TrialResult) -> tuple[object, ...]:
    return tuple(result.encoder[name] for name in ("calls", "repeated_calls", "calls_before"))


def test_calls_of_this_run_stand_beside_those_of_earlier_ones(endpoint: EndpointStub, world: Path) -> None:
    backend = f"dense:model=http:tiny;endpoint={endpoint.url};batch_size=1"
    whole, first = len(QUERIES) + len(DOCUMENTS), len(QUERIES) + 2
    assert compared(world, backend, max_calls=first).error is not None
    endpoint.faults = [(429, {"Retry-After": "0"}, b"busy")]
    resumed = compared(world, backend)
    assert counted(resumed) == (whole - first + 1, 1, first)
    assert (resumed.encoder["documents_encoded"], resumed.encoder["queries_encoded"]) == (len(DOCUMENTS) - 2, 0)
    said = f"{whole - first + 1} calls of '{endpoint.url}' were made now (1 of them repeated); {first} answers were"
    assert any(note.startswith(said) for note in resumed.notes)
    cached = compared(world, backend)
    assert counted(cached) == (0, 0, whole)
    narrow = compared(world, f"{backend};truncate_dim=2", max_calls=0)
    assert counted(narrow) == (0, 0, whole)


def test_calls_that_verify_the_cache_are_counted(endpoint: EndpointStub, world: Path) -> None:
    backend = f"dense:model=http:tiny;endpoint={endpoint.url};batch_size=1"
    compared(world, backend)
    sent = len(endpoint.bodies)
    assert counted(compared(world, backend, verify_cache="50%")) == (len(endpoint.bodies) - sent, 0, sent)


def test_no_calls_at_all_is_an_error_that_says_how_many_are_missing(endpoint: EndpointStub, world: Path) -> None:
    backend = f"dense:model=http:tiny;endpoint={endpoint.url};batch_size=2"
    refused = compared(world, backend, max_calls=0)
    needed = -(-len(QUERIES) // 2) + -(-len(DOCUMENTS) // 2)
    assert f"the cache lacks vectors of {len(QUERIES)} queries and {len(DOCUMENTS)} documents" in str(refused.error)
    assert f"that takes {needed} calls of '{endpoint.url}', and --max-calls 0 allows none" in str(refused.error)
    assert endpoint.bodies == []
    compared(world, backend, max_calls=needed - 1)
    assert "lacks vectors of 2 documents: that takes 1 call of" in str(compared(world, backend, max_calls=0))
    assert compared(world, backend, max_calls=1).error is None
    assert len(endpoint.bodies) == needed
    assert compared(world, backend, max_calls=0).error is None
    assert compared(world, f"{backend};max_calls=0").error is None
    unverified = compared(world, backend, max_calls=0, verify_cache="100%")
    assert f"allow {needed} more, or leave --verify-cache out" in str(unverified.error)
    assert len(endpoint.bodies) == needed


def test_verifying_the_cache_keeps_to_the_same_limit_of_calls(endpoint: EndpointStub, world: Path) -> None:
    backend = f"dense:model=http:tiny;endpoint={endpoint.url};batch_size=1;request_retry_s=0"
    assert compared(world, backend).error is None
    (documents,) = (world / "cache" / "embeddings").glob("*/*/documents")
    sent, calls = len(endpoint.bodies), len(DOCUMENTS)
    shutil.rmtree(documents)
    refused = compared(world, backend, max_calls=calls, verify_cache="100%")
    assert f"{calls} calls were made, and --max-calls allows none to verify the cache" in str(refused.error)
    assert len(endpoint.bodies) == sent + calls
    shutil.rmtree(documents)
    short = compared(world, backend, max_calls=calls + 1, verify_cache="100%")
    assert "--max-calls allows no more" in str(short.error)
    assert len(endpoint.bodies) == sent + 2 * calls + 1
    shutil.rmtree(documents)
    assert compared(world, backend, max_calls=calls + len(QUERIES), verify_cache="100%").error is None


def test_each_call_is_kept_when_the_next_one_fails(endpoint: EndpointStub, world: Path) -> None:
    backend = f"dense:model=http:tiny;endpoint={endpoint.url};batch_size=2;request_retry_s=0"
    endpoint.faults = [None, None, None, 500]
    results = [compared(world, backend)]
    while results[-1].error is not None and len(results) < 20:
        results.append(compared(world, backend, max_calls=1))
    assert results[-1].error is None
    assert "answered 500" in str(results[0].error)
    assert len(results) == 3, "five calls: three, the one that failed, and one in each later comparison"
    del endpoint.bodies[3]  # the one that failed
    assert sorted(endpoint.texts) == sorted([*QUERIES.values(), *DOCUMENTS.values()]), "a text was paid for twice"


def test_vectors_that_are_no_numbers_are_refused_with_the_document(endpoint: EndpointStub, world: Path) -> None:
    endpoint.faults = [None, "not a number"]
    result = compared(world, f"dense:model=http:tiny;endpoint={endpoint.url}")
    assert result.error is not None
    assert "values that are NaN or infinite: d" in result.error.message


def test_a_dry_run_says_how_many_calls_and_tokens_and_makes_none(endpoint: EndpointStub, world: Path) -> None:
    backend = f"dense:model=http:tiny;endpoint={endpoint.url};batch_size=4"
    options = ["--dataset", str(world / "small"), "--cards", str(world), "--no-timing", "--isolation", "none"]
    words = [*harness_command(), "compare", "--backends", backend, *options, "--dry-run"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True)
    tokens = sum(map(len, DOCUMENTS.values())) // 4 + sum(map(len, QUERIES.values())) // 4
    assert f"3 calls of '{endpoint.url}', about {tokens} tokens" in " ".join(shown.stdout.split())
    assert endpoint.bodies == []
    assert compared(world, backend, max_calls=1).error is not None
    begun = subprocess.run(words, capture_output=True, text=True, check=True)
    assert f"2 calls of '{endpoint.url}'" in begun.stdout
    assert compared(world, backend).error is None
    again = subprocess.run([*words, "--format", "json"], capture_output=True, text=True, check=True)
    (trial,) = json.loads(again.stdout)["trials"]
    assert trial["remote"] == f"0 calls of '{endpoint.url}': all vectors are in the cache"


def test_an_endpoint_must_be_named_and_be_one(world: Path) -> None:
    for wrong in ("dense:model=http:tiny", "dense:model=http:tiny;endpoint=ftp://x"):
        with pytest.raises(HarnessError, match="needs endpoint=http"):
            compared(world, wrong)
    with pytest.raises(UsageError, match="endpoint: without meaning for model=random"):
        compared(world, "dense:model=random;endpoint=http://127.0.0.1:9/v1")
