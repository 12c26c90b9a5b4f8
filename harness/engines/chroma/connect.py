"""The way to a Chroma server: is what answers a Chroma that this client understands?"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from harness.engines.address import Address
from harness.engines.chroma.address import headers_of
from harness.engines.chroma.client import http_client, http_sessions, require_chroma
from harness.engines.chroma.faults import Retrier, translated
from harness.engines.chroma.settings import ServerSettings
from harness.engines.faults import Cause, Fault, FaultError
from harness.errors import EngineUnavailableError

T = TypeVar("T")

__all__ = ["Connection", "connect", "within"]

_MAJOR = 1
_SILENT = (
    "Chroma's server calls itself 1.0.0 in every release that was looked at (1.5.9 is the newest of them): "
    "look at the package or image for its real version"
)


class Connection(NamedTuple):
    """A client of a server that answered; ``doubt`` is a remark on its version, or ''."""

    client: Any
    version: str
    doubt: str


def connect(address: Address, settings: ServerSettings, retrier: Retrier) -> Connection:
    """A client of the server at ``address``, whose answers ``retrier`` sees.

    Every later call ends after ``timeout_s``; the client itself knows no limit. Raises EngineUnavailableError when
    nothing answers, or when it is no Chroma of a known version; EngineTimeoutError and EngineFailureError for other
    faults.
    """
    headers = headers_of(address, settings.api_key_header)
    httpx = require_chroma("httpx")
    with httpx.Client(base_url=f"{address.url}/api/v2", headers=headers, timeout=settings.timeout_s) as asking:
        with translated(address, lambda: "asking for its version"):
            version = str(Retrier(0).call(lambda: _answer(asking, "/version")))
        doubt = _check(version, address)
        place = f"/tenants/{quote(settings.tenant)}/databases/{quote(settings.database)}"
        with translated(address, lambda: f"looking for the database '{settings.database}' of '{settings.tenant}'"):
            Retrier(0).call(lambda: _answer(asking, place))

    def made() -> Any:  # noqa: ANN401 - the client is untyped
        return http_client(address.url, dict(headers), settings.tenant, settings.database)

    with translated(address, lambda: "opening the client"):
        client = Retrier(0).call(lambda: within(settings.timeout_s, made))
    session, _ = http_sessions(client)
    session.timeout = httpx.Timeout(settings.timeout_s)
    session.event_hooks = {"response": [retrier.remember]}
    return Connection(client, version, doubt)


def within(seconds: float, operation: Callable[[], T]) -> T:
    """The result of ``operation``, which has no limit of its own; raises its error, and FaultError when it is late."""
    done: list[T] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            done.append(operation())
        except Exception as error:  # noqa: BLE001 - raised below, in the thread that waits
            failed.append(error)

    working = threading.Thread(target=work, daemon=True)
    working.start()
    working.join(seconds)
    if failed:
        raise failed[0]
    if working.is_alive():
        raise FaultError(Fault(Cause.SLOW, f"no answer within {seconds:g} s"), 1, seconds)
    return done[0]


def _answer(asking: Any, path: str) -> Any:  # noqa: ANN401 - httpx is imported late, and JSON is anything
    answer = asking.get(path)
    answer.raise_for_status()
    return answer.json()


def _check(version: str, address: Address) -> str:
    """A remark on the version, or ''; raises EngineUnavailableError for one that cannot work."""
    found = re.fullmatch(r"(\d+)\.\d+\.\d+\S*", version)
    if found is None:
        raise EngineUnavailableError(
            f"what answers at {address.url} is not Chroma: it gives '{address.hide(version)[:60]}' for its version",
            fix="mend 'url'",
        )
    if int(found[1]) != _MAJOR:
        raise EngineUnavailableError(
            f"Chroma {version} at {address.url} and the client do not go together", fix="run a Chroma of version 1"
        )
    return _SILENT if version == "1.0.0" else ""
