"""Clients of a Qdrant server, with the real client library and a loopback server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faulty_http import Reply, slow
from installed import skip_module_without
from qdrant_stub import Stub, error, serve
from small_world import QUERIES, write_collection

import harness

skip_module_without("qdrant_client")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serve() as serving:
        yield serving


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("data") / "small")


def test_clients_and_rates_find_the_collection_that_goes_afterwards(stub: Stub, collection: Path) -> None:
    backend = f"qdrant:url={stub.url};transport=rest;analyzer=whitespace"
    found = harness.compare(backend, collection, k=3, concurrency="2", rate="30", arrivals="constant", load_seconds=0.5)
    (served,) = found.report.trials
    assert served.error is None
    (closed,), (fixed,) = served.closed_loop, served.open_loop
    assert (closed.clients_failed, closed.errors, closed.different_queries) == (0, 0, 0)
    assert closed.milliseconds is not None
    assert closed.milliseconds.n >= 2 * (len(QUERIES) - 1)
    assert (fixed.queries, fixed.errors, fixed.unserved, fixed.clients) == (11, 0, 0, 2), "15, less every fourth"
    assert fixed.milliseconds is not None
    assert fixed.milliseconds.n == 11
    assert stub.collections == {}


def test_a_server_that_is_too_slow_for_the_rate_is_overloaded(stub: Stub, collection: Path) -> None:
    stub.fail("query", slow(0.05))
    backend = f"qdrant:url={stub.url};transport=rest;analyzer=whitespace"
    found = harness.compare(backend, collection, k=3, concurrency="1", rate="80", arrivals="constant", load_seconds=0.5)
    (served,) = found.report.trials
    assert served.error is None
    (fixed,) = served.open_loop
    assert fixed.overloaded
    assert fixed.queries == 30
    assert fixed.backlog > 12  # one client, 20 queries a second or fewer
    assert fixed.milliseconds is not None
    assert fixed.service_ms is not None
    assert fixed.milliseconds.n == 30
    assert fixed.service_ms.n == 30 - fixed.unserved
    assert fixed.milliseconds.p50 > 4 * fixed.service_ms.p50
    assert fixed.qps is not None
    assert fixed.qps < 30
    assert any("80 queries/s: overload" in note for note in served.notes)


def test_a_query_that_is_never_sent_is_no_sample(stub: Stub, collection: Path) -> None:
    """One query has no known term: with a server that fails all others, nothing is left to time."""
    connected = list[int]()

    def answer_the_trial_alone(carry_out: Callable[[], Reply]) -> Reply:
        connected.append(stub.calls["root"])  # every client asks for the version first
        return carry_out() if connected[-1] == connected[0] else error(500, "no")(carry_out)

    stub.fail("query", answer_the_trial_alone)
    backend = f"qdrant:url={stub.url};transport=rest;analyzer=whitespace;retry_s=0"
    found = harness.compare(backend, collection, k=3, concurrency="1", rate="40", arrivals="constant", load_seconds=0.5)
    (served,) = found.report.trials
    assert served.search is not None
    assert (served.search.queries, served.search.queries_without_terms) == (4, 1)
    assert served.search.milliseconds is not None
    assert served.search.milliseconds.n == 3 * served.search.repeats
    (closed,), (fixed,) = served.closed_loop, served.open_loop
    assert closed.errors > 0
    assert (closed.milliseconds, closed.transfer_ms) == (None, None)
    assert fixed.errors > 0
    assert fixed.errors + fixed.unserved == fixed.queries == 15, "20, less every fourth; clients give up a dead server"
    assert fixed.service_ms is None
    assert "1 query without a known term has no hits, and no part in times and queries/s" in served.notes
