"""One real server for each file of tests: that of ``HARNESS_<PRODUCT>_URL``, or one that is started here."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest
from search_indexes import index_names
from search_server import DISTRIBUTIONS, MissingServerError, SearchServer, serving

from harness.engines.opensearch.connection import Product


@pytest.fixture(scope="module")
def started(product: Product) -> Iterator[SearchServer | None]:
    """A server of the file's ``product`` that was started for its tests; None where the environment names one."""
    if product.server.url_variable in os.environ:
        yield None
        return
    try:
        with serving(DISTRIBUTIONS[product.name]) as server:
            yield server
    except MissingServerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def url(product: Product, started: SearchServer | None) -> Iterator[str]:
    """The address of a real server of the file's ``product``, in the environment too."""
    variable = product.server.url_variable
    with pytest.MonkeyPatch.context() as patch:
        if started is not None:
            patch.setenv(variable, started.url)
        yield os.environ[variable]


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers={"accept-encoding": "gzip"}, timeout=60) as client:
        yield client


@pytest.fixture
def server(client: httpx.Client) -> Iterator[httpx.Client]:
    """A client of the server; indexes that were made meanwhile are gone when the test is over."""
    before = index_names(client)
    yield client
    for name in index_names(client) - before:
        client.delete(f"/{name}")
