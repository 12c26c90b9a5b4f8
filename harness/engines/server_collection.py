"""Engines with a server: their mode, and the name, the saved name and the removal of a collection made there."""

from __future__ import annotations

import logging
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import orjson

from harness.engines.interface import LEFT_BEHIND
from harness.engines.remote_server import Cause, Fault, FaultError, Retrier, ServerConnection, redact
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.registry.parameters import ParameterValue

COLLECTION_FILE = "collection.json"
"""The file, next to the manifest, with the name of the server's collection that holds the index."""
_REMOVAL_S = 1.5
_ANSWER_S = 2.0
"""Both limits are shorter than the time that a worker has to end: a collection that stays must still be named."""
_log = logging.getLogger("harness")

T = TypeVar("T")


def mode_of(parameters: Mapping[str, ParameterValue], neutral: Mapping[str, Mapping[str, ParameterValue]]) -> str:
    """Return how an engine is reached: ``mode``, or if it is empty, ``server`` with a ``url``, else the other mode.

    ``neutral`` are the modes, the in-process mode first, each with the parameters that it cannot honour and their only
    allowed value. Raises RejectedInputError for another value.
    """
    mode = str(parameters["mode"]) or ("server" if parameters["url"] else next(iter(neutral)))
    wrong = [name for name, value in neutral[mode].items() if parameters[name] != value]
    if wrong:
        raise RejectedInputError(
            f"{', '.join(wrong)} cannot be set with mode={mode}",
            fix=f"leave {'it' if len(wrong) == 1 else 'them'} out, or choose another mode: {', '.join(neutral)}",
        )
    return mode


def new_name(folder: Path) -> str:
    """Return a unique name for the collection of the index in ``folder``."""
    key = re.sub(r"[^A-Za-z0-9_-]", "", folder.name)[:40]
    return f"harness-{key}-{secrets.token_hex(4)}"


def save_name(folder: Path, name: str) -> None:
    """Save the name of the collection that holds the index in ``folder``."""
    (folder / COLLECTION_FILE).write_bytes(orjson.dumps({"collection": name}))


def saved_name(folder: Path) -> str:
    """Return the name of the collection that holds the index in ``folder``; raises EngineUnavailableError."""
    path = folder / COLLECTION_FILE
    try:
        return str(orjson.loads(path.read_bytes())["collection"])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise EngineUnavailableError(
            f"'{path}' does not say which collection holds the index: {error}", fix="delete the folder and index again"
        ) from error


def create_collection(
    retrier: Retrier,
    create: Callable[[], object],
    already_exists: Callable[[Fault], bool] = lambda fault: fault.cause is Cause.CONFLICT,
) -> None:
    """Make a collection of a new name; raises FaultError.

    If it exists after a failure, as ``already_exists`` reports, a try whose answer was lost has made it.
    """
    try:
        retrier.call(create)
    except FaultError as error:
        if error.tries == 1 or not already_exists(error.fault):
            raise


def remove_collection(server: ServerConnection, name: str) -> None:
    """Remove a collection, even after a failure, without raising and without waiting for a server that hangs.

    The call is repeated for 1.5 seconds. A collection that stays is named on standard error.
    """
    address, retrier = server.address, type(server.retrier)(_REMOVAL_S)

    def remove() -> None:
        try:
            retrier.call(lambda: server.remove(name))
        except FaultError as error:
            if error.fault.cause is not Cause.MISSING:
                raise

    try:
        within(_ANSWER_S, remove)
    except FaultError as error:
        option = f"{address.doctor_option} {address.url} " if address.doctor_option else ""
        _log.warning(
            "%sthe %s '%s' could not be removed: %s; %s does it",
            *(LEFT_BEHIND, server.kind, name, redact(str(error), address)),
            f"'harness doctor {option}--remove-left-collections'",
        )


def within(seconds: float, operation: Callable[[], T]) -> T:
    """Return the result of ``operation``, which has no limit itself; raises its error, or FaultError if it is late."""
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
