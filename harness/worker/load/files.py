"""What clients leave as files, and what a measurement under load is kept as."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import numpy as np
import orjson

from harness.data.types import Int64Array
from harness.engines.interface import SearchResult
from harness.statistics.under_load import Arrivals, Samples

__all__ = [
    "DUE",
    "GO",
    "TICKETS",
    "ClientRecord",
    "LoadKind",
    "LoadRecord",
    "read_client",
    "read_hits",
    "read_loads",
    "write_client",
    "write_loads",
]

LoadKind = Literal["cold", "closed", "open"]
GO = "go"
"""Holds the time at which all clients begin, in nanoseconds."""
DUE = "due.npy"
"""When the queries of an open loop are due, in nanoseconds from that time."""
TICKETS = "tickets"
"""The counter that gives each of them to one client."""
_HITS = ("indptr", "rows", "scores")
_LOADS = "loads.json"


@dataclass(frozen=True, eq=False, slots=True)
class ClientRecord:
    """What one client process leaves.

    ``gave_up`` is why one of its clients stopped early, ``different_queries`` the rows of queries that were answered
    otherwise than the single client's, ``resident_share`` how much of a cold index stayed in the page cache.
    """

    samples: Samples
    first_error: str | None
    gave_up: str | None
    different_queries: tuple[int, ...]
    open_ns: int
    resident_share: float | None


@dataclass(frozen=True, eq=False, slots=True)
class LoadRecord:
    """One measurement: a cold pass, a number of clients, or a rate.

    ``failures`` holds one sentence for each client process that died, whose samples are lost, or gave up, whose samples
    until then are among ``samples``. ``different_queries`` counts queries, however many clients differ. ``due_ns``
    int64 and ``end_ns`` are an open loop's schedule on the samples' clock, ``gave_up_ns`` when it stopped asking.
    Memory is the sum over all client processes, None where the system does not tell. ``index_copies`` counts the
    copies of the index that were made because the engine cannot share one.
    """

    kind: LoadKind
    clients: int
    threads: bool
    samples: Samples
    due_ns: Int64Array
    rate: float | None
    arrivals: Arrivals | None
    end_ns: int
    gave_up_ns: int
    failures: tuple[str, ...]
    first_error: str | None
    different_queries: int
    open_ns: int | None
    resident_share: float | None
    peak_rss_bytes: int | None
    peak_anonymous_bytes: int | None
    index_copies: int


def write_client(folder: Path, record: ClientRecord) -> None:
    """Write one client's record into its job folder."""
    _save(folder / "samples.npz", record.samples, {})
    described = {
        "first_error": record.first_error,
        "gave_up": record.gave_up,
        "different_queries": record.different_queries,
        "open_ns": record.open_ns,
        "resident_share": record.resident_share,
    }
    (folder / "client.json").write_bytes(orjson.dumps(described))


def read_client(folder: Path) -> ClientRecord:
    """Read what :func:`write_client` wrote."""
    described = orjson.loads((folder / "client.json").read_bytes())
    different = tuple(described.pop("different_queries"))
    return ClientRecord(_load(folder / "samples.npz")[0], different_queries=different, **described)


def read_hits(folder: Path) -> SearchResult:
    """The hits that a trial wrote, without times."""
    indptr, rows, scores = (np.load(folder / f"{name}.npy", allow_pickle=False) for name in _HITS)
    nothing = np.zeros(0, dtype=np.int64)
    return SearchResult(indptr, rows, scores, nothing, nothing)


def write_loads(folder: Path, records: tuple[LoadRecord, ...]) -> None:
    """Write all measurements of one trial into its folder."""
    described = []
    for number, record in enumerate(records):
        _save(folder / f"load-{number}.npz", record.samples, {"schedule": record.due_ns})
        plain = {field.name: getattr(record, field.name) for field in fields(record)}
        del plain["samples"], plain["due_ns"]
        described.append(plain)
    (folder / _LOADS).write_bytes(orjson.dumps(described))


def read_loads(folder: Path) -> tuple[LoadRecord, ...]:
    """Read what :func:`write_loads` wrote."""
    records = []
    for number, described in enumerate(orjson.loads((folder / _LOADS).read_bytes())):
        samples, due_ns = _load(folder / f"load-{number}.npz")
        failures = tuple(described.pop("failures"))
        records.append(LoadRecord(samples=samples, due_ns=due_ns, failures=failures, **described))
    return tuple(records)


def _save(path: Path, samples: Samples, more: dict[str, Int64Array]) -> None:
    columns = {field.name: getattr(samples, field.name) for field in fields(samples)}
    np.savez(path, allow_pickle=False, **columns, **more)


def _load(path: Path) -> tuple[Samples, Int64Array]:
    with np.load(path, allow_pickle=False) as stored:
        arrays = dict(stored)
    schedule: Int64Array = arrays.pop("schedule", np.zeros(0, dtype=np.int64))
    return Samples(**arrays), schedule
