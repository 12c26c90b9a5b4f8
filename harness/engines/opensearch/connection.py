"""The connection to a server: its product and version, calls of its REST interface, and the meaning of its errors."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import orjson

from harness.engines.http_server import HttpRetrier, HttpServer
from harness.engines.remote_server import Address, AddressRules, Cause, Fault, ServerConnection, read_address
from harness.errors import EngineUnavailableError

__all__ = ["ELASTICSEARCH", "OPENSEARCH", "Connection", "Product", "Retrier", "connect"]

_ENCODING = "gzip"
"""The only encoding offered: OpenSearch 2.19 without direct buffers never answers a client that offers zstd."""


_REMEDIES = {Cause.LIMITED: "lower 'batch_size', raise 'retry_s', or give the server more memory"}


class Product(NamedTuple):
    """A server product: its variables, its known versions, and the form in which a key is sent.

    ``legacy_from`` is the first major version that has Lucene's older similarity under a separate name, None for a
    product whose BM25 is always the older similarity.
    """

    name: str
    server: AddressRules
    majors: range
    scheme: str
    legacy_from: int | None


OPENSEARCH = Product(
    "OpenSearch",
    AddressRules(
        *("OpenSearch", 9200, "HARNESS_OPENSEARCH_URL", "OPENSEARCH_API_KEY"),
        remedies=_REMEDIES,
        doctor_option="--opensearch-url",
    ),
    range(1, 4),
    "Bearer",
    3,
)
ELASTICSEARCH = Product(
    "Elasticsearch",
    AddressRules(
        *("Elasticsearch", 9200, "HARNESS_ELASTICSEARCH_URL", "ELASTICSEARCH_API_KEY"),
        remedies=_REMEDIES,
        doctor_option="--elasticsearch-url",
    ),
    range(7, 10),
    "ApiKey",
    None,
)


class Connection(HttpServer, ServerConnection):
    """A client of a server that answered."""

    kind, kinds = "index", "indexes"

    def __init__(self, product: Product, address: Address, headers: Mapping[str, str], timeout_s: float) -> None:
        super().__init__(address.url, headers, timeout_s)
        self.product, self.address, self.version, self.retrier = product, address, "", Retrier(0)

    @property
    def major(self) -> int:
        """Return the server's major version."""
        return int(self.version.partition(".")[0])

    def list_names(self) -> list[str]:
        """Return the names of all indexes."""
        return [str(index["index"]) for index in self.call("GET", "/_cat/indices", options={"format": "json"})]

    def remove(self, name: str) -> None:
        """Remove an index."""
        self.call("DELETE", f"/{quote(name, safe='')}")


def address_of(product: Product, url: str, key_variable: str, environment: Mapping[str, str] = os.environ) -> Address:
    """Return the server at ``url``, or at the address in the product's variable; raises as :func:`read_address`."""
    return read_address(product.server, url, key_variable, environment)


def connect(
    product: Product, url: str, key_variable: str, timeout_s: float, environment: Mapping[str, str] = os.environ
) -> Connection:
    """Return a connection with the server at ``url``, or at the address in the product's environment variable.

    Raises:
        EngineUnavailableError: Nothing answers, or it is another product or an unknown version.
        RejectedInputError: The address contains secrets.
        EngineTimeoutError, EngineFailureError: Other faults.
    """
    address = address_of(product, url, key_variable, environment)
    headers = {"accept-encoding": _ENCODING, **address.headers}
    if address.api_key is not None:
        headers["authorization"] = f"{product.scheme} {address.api_key}"
    connection = Connection(product, address, headers, timeout_s)
    try:
        root = Retrier(0).identify(address, lambda: connection.call("GET", "/"))
        connection.version = _version_of(root, product, address)
    except BaseException:
        connection.close()
        raise
    return connection


def _version_of(root: Any, product: Product, address: Address) -> str:
    """Return the version that a server reports; raises EngineUnavailableError for another product or version."""
    version = root.get("version") if isinstance(root, dict) else None
    number = str(version.get("number", "")) if isinstance(version, dict) else ""
    numbers = re.match(r"(\d+)\.\d+", number)
    if not isinstance(version, dict) or numbers is None:
        raise EngineUnavailableError(f"the server at {address.url} is not {product.name}", fix="correct 'url'")
    answering = OPENSEARCH if version.get("distribution") == "opensearch" else ELASTICSEARCH
    if answering is not product:
        raise EngineUnavailableError(
            f"the server at {address.url} is {answering.name} {number}", fix=f"name it {answering.name.lower()}:url=…"
        )
    if int(numbers[1]) not in product.majors:
        versions = f"{product.majors[0]} to {product.majors[-1]}"
        raise EngineUnavailableError(
            f"{product.name} {number} at {address.url} is not known here", fix=f"run a version {versions}"
        )
    return number


class Retrier(HttpRetrier):
    """Calls repeated while the fault may be transient; documents rejected by a busy server are also a fault."""

    def errors(self) -> tuple[type[Exception], ...]:
        """Return the errors of a call, rejected documents among them."""
        return (*super().errors(), RejectedItemsError)

    def fault_of(self, error: Exception) -> Fault:
        """Return the fault of a call's error."""
        return Fault(Cause.LIMITED, str(error)) if isinstance(error, RejectedItemsError) else super().fault_of(error)

    def words_of(self, answer: httpx.Response) -> str:
        """Return the server's own reason, the innermost first, or else the body's beginning."""
        try:
            error = orjson.loads(answer.content)["error"]
            reasons = [cause["reason"] for cause in [*error.get("root_cause", []), error] if cause.get("reason")]
            inner = error.get("failed_shards") or []
            reasons += [shard["reason"]["caused_by"]["reason"] for shard in inner if "caused_by" in shard["reason"]]
            return "; ".join(dict.fromkeys(map(str, reasons))) or str(error)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            return str(answer.text)


class RejectedItemsError(Exception):
    """Documents of a bulk request that a busy server rejected: it may accept them later."""
