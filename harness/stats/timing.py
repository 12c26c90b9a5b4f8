"""Summarise times: percentiles of single queries, throughput of many clients, and latencies of an open loop.

Every figure comes from raw nanosecond samples of all repeats: no best-of, no averages of averages. Pure arithmetic, no
clock.

A closed-loop client sends its next query when the last is answered: a stall of the engine also stops the queries, so
that hardly any sample shows it (coordinated omission). In an open loop queries are due at times fixed beforehand, and a
latency counts from the time at which the query was due, whether or not a client was free to send it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.types import Int32Array, Int64Array

Arrivals = Literal["constant", "poisson"]
_NS_PER_S = 1_000_000_000
_BACKLOG_SHARE = 0.01
_NS_PER_MS = 1e6
_SHARES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of single queries in milliseconds; every figure is computed from ``n`` samples."""

    p50: float
    p90: float
    p95: float
    p99: float
    mean: float
    n: int


def latency(samples_ns: Int64Array) -> Latency:
    """Return percentiles of ``samples_ns`` (int64, any shape, at least one sample).

    A percentile is the smallest sample that at least that share of all samples does not exceed (the inverse of the
    empirical distribution function), so it is always a latency that was really seen. Raises ValueError without samples.
    """
    flat = np.ravel(samples_ns)
    if len(flat) == 0:
        raise ValueError("a percentile needs at least one sample")
    p50, p90, p95, p99 = (float(value) / _NS_PER_MS for value in np.percentile(flat, _SHARES, method="inverted_cdf"))
    return Latency(p50, p90, p95, p99, float(flat.mean()) / _NS_PER_MS, len(flat))


@dataclass(frozen=True, eq=False, slots=True)
class Samples:
    """Queries sent under load, a row each, all arrays of shape (n,); times in nanoseconds of one machine-wide clock.

    ``client`` and ``query`` int32. ``due_ns``, ``started_ns`` and ``ended_ns`` int64: when the query should have been
    sent (in a closed loop: when it was), was sent, and was answered. ``search_ns`` and ``transfer_ns`` int64 are the
    engine's work and the transfer of its hits. ``ok`` bool is False if the query failed.
    """

    client: Int32Array
    query: Int32Array
    due_ns: Int64Array
    started_ns: Int64Array
    ended_ns: Int64Array
    search_ns: Int64Array
    transfer_ns: Int64Array
    ok: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.client)

    @classmethod
    def joined(cls, parts: Sequence[Samples]) -> Samples:
        """Join the rows of ``parts``, which may be none."""
        empty = np.zeros(0, dtype=np.int64)
        kinds = {"client": np.int32, "query": np.int32, "ok": np.bool_}
        arrays: dict[str, npt.NDArray[np.generic]] = {
            field.name: np.concatenate([empty, *(getattr(part, field.name) for part in parts)]).astype(
                kinds.get(field.name, np.int64)
            )
            for field in fields(cls)
        }
        return cls(**arrays)  # type: ignore[arg-type] # the dtypes are those of the table above

    def answered(self) -> Samples:
        """Leave out the queries that failed."""
        return self.select(self.ok)

    def select(self, chosen: npt.NDArray[np.bool_]) -> Samples:
        """Return the rows at which ``chosen``, bool (n,), is True."""
        return Samples(*(getattr(self, field.name)[chosen] for field in fields(self)))


class Throughput(NamedTuple):
    """Throughput while all clients were sending.

    ``busy`` is the share of the clients' time that the engine's search and the transfer of hits took; the rest is the
    harness's own work between calls.
    """

    window_s: float
    completed: int
    per_second: float
    busy: float


def throughput(samples: Samples) -> Throughput | None:
    """Return queries a second over the common window of all clients.

    The window reaches from the last client's first query to the first client's last answer. None if there is no such
    window: there are no samples, or a client had finished before another began.
    """
    clients = [samples.client == number for number in np.unique(samples.client)]
    if not clients:
        return None
    begin = max(int(samples.started_ns[client_samples].min()) for client_samples in clients)
    end = min(int(samples.ended_ns[client_samples].max()) for client_samples in clients)
    if end <= begin:
        return None
    done = samples.ok & (samples.ended_ns > begin) & (samples.ended_ns <= end)
    completed, window_s = int(done.sum()), (end - begin) / _NS_PER_S
    inside = int(samples.search_ns[done].sum() + samples.transfer_ns[done].sum()) / _NS_PER_S
    return Throughput(window_s, completed, completed / window_s, inside / (window_s * len(clients)))


def arrivals_ns(rate: float, seconds: float, kind: Arrivals, seed: int) -> Int64Array:
    """Return when queries are due, in nanoseconds from the start (int64, rising, at least one).

    ``constant`` is one every 1/rate seconds; ``poisson`` draws independent gaps with that mean, as many independent
    users make them. The same seed gives the same times.
    """
    if kind == "constant":
        count = max(1, round(rate * seconds))
        return (np.arange(count) * (_NS_PER_S / rate)).astype(np.int64)
    generator = np.random.default_rng(seed)
    times = np.cumsum(generator.exponential(1.0 / rate, size=int(rate * seconds * 2) + 64))
    inside = times[: int(np.searchsorted(times, seconds))]
    if not len(inside):  # one arrival is at any time alike
        inside = generator.uniform(0.0, seconds, size=1)
    due: Int64Array = (inside * _NS_PER_S).astype(np.int64)
    return due


class OpenLoop(NamedTuple):
    """The fate of queries that were due at fixed times.

    ``latency_ns`` int64 counts from the time at which each query was due. Queries that had not been sent when the
    clients gave up are included with the time they had waited until then, which is a lower bound. ``service_ns`` int64
    is only the engine's work and the transfer, for the answered queries. Queries due a second are over the length of
    the schedule, answered queries until the last answer, if that came later.
    """

    latency_ns: Int64Array
    service_ns: Int64Array
    due_per_second: float
    answered_per_second: float
    failed: int
    unserved: int
    backlog: int
    overloaded: bool


def open_loop(
    due_ns: Int64Array, samples: Samples, *, start_ns: int, end_ns: int, gave_up_ns: int, clients: int
) -> OpenLoop:
    """Return latencies of the queries due at ``due_ns`` (rising, absolute), with coordinated omission accounted for.

    The schedule is from ``start_ns`` to ``end_ns``: queries due by then and not yet sent are the backlog. A backlog of
    more than the number of clients, and of more than one query in a hundred, is an overload: waiting times would only
    have grown.
    """
    answered = samples.answered()
    waiting = due_ns[~np.isin(due_ns, samples.due_ns)]
    waited = np.concatenate([answered.ended_ns - answered.due_ns, np.maximum(0, gave_up_ns - waiting)])
    backlog = len(waiting) + int(np.count_nonzero(samples.started_ns > end_ns))
    last = max(end_ns, int(answered.ended_ns.max(initial=end_ns)))
    return OpenLoop(
        latency_ns=waited.astype(np.int64),
        service_ns=answered.search_ns + answered.transfer_ns,
        due_per_second=len(due_ns) / ((end_ns - start_ns) / _NS_PER_S),
        answered_per_second=len(answered) / ((last - start_ns) / _NS_PER_S),
        failed=len(samples) - len(answered),
        unserved=len(waiting),
        backlog=backlog,
        overloaded=backlog > max(clients, _BACKLOG_SHARE * len(due_ns)),
    )
