"""What an error of Chroma's client means, with and without an answer of the server."""

from __future__ import annotations

import httpx
import pytest
from installed import Deferred, skip_module_without

from harness.engines.chroma.connection import Retrier, fault_of
from harness.engines.remote_server import Cause

skip_module_without("chromadb")

errors = Deferred("chromadb.errors")


def answer(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, headers=headers, request=httpx.Request("GET", "http://host"))


def bare(text: str, status: int) -> Exception:
    """As the client raises it for an answer that has not Chroma's form."""
    try:
        try:
            answer(status).raise_for_status()
        except httpx.HTTPStatusError:
            raise Exception(text)  # noqa: B904 - what the client does
    except Exception as error:  # noqa: BLE001 - handed to the test
        return error


@pytest.mark.parametrize(
    ("error", "status", "cause"),
    [
        ("NotFoundError", 404, Cause.MISSING),
        ("InternalError", 500, Cause.FAILED),
        ("InternalError", 503, Cause.BUSY),
        ("RateLimitError", 429, Cause.LIMITED),
        (bare("<html>", 502), None, Cause.BUSY),
        (bare("no", 403), None, Cause.UNAUTHORISED),
        (KeyError("ids"), 200, Cause.UNREADABLE),
        (ValueError("no JSON"), 200, Cause.UNREADABLE),
        (ValueError("Expected IDs to be a list"), None, Cause.CLIENT),
        (TypeError("Type is not JSON serializable: memmap"), None, Cause.CLIENT),
        (httpx.ConnectError("refused"), 404, Cause.UNREACHABLE),
        (httpx.ReadTimeout("late"), None, Cause.SLOW),
        (httpx.ReadError("reset"), None, Cause.BROKEN),
    ],
)
def test_causes(error: Exception | str, status: int | None, cause: Cause) -> None:
    """A name is that of one of the client's own errors."""
    error = getattr(errors, error)("words") if isinstance(error, str) else error
    assert fault_of(error, answer(status) if status is not None else None).cause is cause


@pytest.mark.parametrize(("asked", "pause"), [("7", 7.0), ("Sat, 21 Nov 2026 10:00:00 GMT", None), ("", None)])
def test_the_pause_that_is_asked_for(asked: str, pause: float | None) -> None:
    assert fault_of(errors.RateLimitError("slowly"), answer(429, **{"retry-after": asked})).pause_s == pause


def test_errors_of_others_pass_untouched() -> None:
    def broken() -> None:
        raise MemoryError("mine")

    with pytest.raises(MemoryError, match="mine"):
        Retrier(10.0).call(broken)
