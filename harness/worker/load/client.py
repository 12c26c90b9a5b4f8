"""One client process: opens a finished index, warms up, waits for the others, and asks. Runs in a worker.

All clients read the same clock: ``perf_counter_ns`` is machine-wide, so that they begin together and their samples can
be laid side by side.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.engines.interface import EngineProtocol, SearchResult
from harness.statistics.under_load import Samples
from harness.worker.candidate_hits import CandidateHits
from harness.worker.jobs import ClientJob, TrialJob
from harness.worker.load import page_cache
from harness.worker.load.files import DUE, GO, TICKETS, ClientRecord, read_hits
from harness.worker.load.loop import Call, CallLog, Schedule, Sleep, Tickets, closed_loop, once, open_loop
from harness.worker.trial import create_engine, load_inputs, part_of, restrict

__all__ = ["READY", "run_client"]

READY = "waiting for the other clients"
"""The phase that a client announces when it could begin."""
_CALL_NS = 10_000_000
_LARGEST_CALL = 32
_POLL_S = 0.002


def run_client(
    job: ClientJob, progress: Progress, clock: Clock, sleep: Sleep, *, before_open: Callable[[], None]
) -> ClientRecord:
    """Open, warm up, wait for the start, ask until the time is over, compare the answers with the single client's.

    A cold client drops the index from the page cache first and asks every query once, without any warm-up.
    """
    trial = job.trial
    documents = load_inputs(Path(trial.corpus), trial.document_vectors, "documents", dimensions=trial.dimensions)
    queries = load_inputs(Path(trial.queries), trial.query_vectors, "queries", dimensions=trial.dimensions)
    kept = CandidateHits.load(trial, queries.ids, documents.ids)
    resident = None
    if job.kind == "cold":
        page_cache.drop(Path(trial.index_folder))
        resident = page_cache.resident_share(Path(trial.index_folder))
    engine = create_engine(trial)
    before_open()
    try:
        started = clock()
        engine.open(Path(trial.index_folder), documents.ids)
        opened = clock()
        restrict(engine, trial)
        size = _LARGEST_CALL
        if job.kind != "cold":
            progress.start("warm-up", trial.warm_up_queries)
            size = _call_size(_warm_up(engine, _calls(queries, 0, _LARGEST_CALL), trial, clock))
        progress.start(READY, None)
        logs = _ask(job, engine, queries, size, kept, _start_ns(Path(job.folder), sleep), clock, sleep)
    finally:
        engine.close()
    return ClientRecord(
        samples=Samples.joined([log.samples() for log in logs]),
        first_error=next((log.first_error for log in logs if log.first_error is not None), None),
        gave_up=next((log.gave_up for log in logs if log.gave_up is not None), None),
        different_queries=_different(logs, read_hits(Path(job.hits)), exactly=engine.capabilities.deterministic),
        open_ns=opened - started,
        resident_share=resident,
    )


def _ask(
    job: ClientJob,
    engine: EngineProtocol,
    queries: Inputs,
    size: int,
    kept: CandidateHits | None,
    start_ns: int,
    clock: Clock,
    sleep: Sleep,
) -> list[CallLog]:
    logs = [CallLog(job.client + thread, kept) for thread in range(job.threads)]
    run = partial(_ask_once, job, engine, queries, size, start_ns, clock, sleep)
    if len(logs) == 1:
        run(logs[0])
    else:
        with ThreadPoolExecutor(len(logs)) as pool:
            list(pool.map(run, logs))
    return logs


def _ask_once(
    job: ClientJob,
    engine: EngineProtocol,
    queries: Inputs,
    size: int,
    start_ns: int,
    clock: Clock,
    sleep: Sleep,
    log: CallLog,
) -> None:
    """One client's loop. Clients begin at different queries, so that they do not all ask the same one."""
    end_ns = start_ns + int(job.seconds * 1e9)
    k = job.trial.k
    if job.kind == "open":
        calls = _calls(queries, 0, 1)
        with closing(Tickets(Path(job.folder) / TICKETS)) as tickets:
            due = np.load(Path(job.folder) / DUE, allow_pickle=False) + start_ns
            schedule = Schedule(due, tickets.take, end_ns + int(job.patience_s * 1e9))
            open_loop(engine, calls, k, schedule, clock, sleep, log)
        return
    calls = _calls(queries, log.client * len(queries) // job.clients, size)
    sleep(max(0.0, (start_ns - clock()) / 1e9))
    if job.kind == "cold":
        once(engine, calls, k, clock, log)
    else:
        closed_loop(engine, calls, k, end_ns, clock, log)


def _start_ns(folder: Path, sleep: Sleep) -> int:
    """The time at which all begin; the parent writes it when every client is ready or gone."""
    go = folder / GO
    while not go.exists():
        sleep(_POLL_S)
    return int(go.read_text(encoding="ascii"))


def _warm_up(engine: EngineProtocol, calls: Sequence[Call], trial: TrialJob, clock: Clock) -> float:
    """Calls whose times are forgotten, until enough queries have run or the time is over.

    Gives the nanoseconds a query of the last call, when the engine was warmest; 0 when there was none.

    Single queries that fail are no reason to stop: they will be counted.
    """
    log, done, query_ns = CallLog(0), 0, 0.0
    until_ns = clock() + int(trial.warm_up_seconds * 1e9)
    for call in itertools.cycle(calls):
        if done >= trial.warm_up_queries or clock() >= until_ns or log.gave_up is not None:
            break
        begun = clock()
        log.ask(engine, call, trial.k, clock, until_ns=until_ns)
        query_ns = (clock() - begun) / len(call.rows)
        done += len(call.rows)
    return query_ns


def _call_size(query_ns: float) -> int:
    """So many queries that a call takes some 10 ms: few enough to stop in time, enough to hide the harness's work."""
    return int(np.clip(_CALL_NS / max(1.0, query_ns), 1, _LARGEST_CALL))


def _calls(queries: Inputs, first: int, size: int) -> list[Call]:
    """All queries from ``first`` on, then those before it, ``size`` to a call."""
    bounds = [(start, min(start + size, len(queries))) for start in range(first, len(queries), size)]
    bounds += [(start, min(start + size, first)) for start in range(0, first, size)]
    calls = []
    for start, stop in bounds:
        rows = np.arange(start, stop, dtype=np.int32)
        singles = [_call(queries, row, row + 1) for row in range(start, stop)] if stop - start > 1 else []
        calls.append(Call(rows, part_of(queries, start, stop), singles))
    return calls


def _call(queries: Inputs, start: int, stop: int) -> Call:
    return Call(np.arange(start, stop, dtype=np.int32), part_of(queries, start, stop))


def _different(logs: Sequence[CallLog], expected: SearchResult, *, exactly: bool) -> tuple[int, ...]:
    """The rows of queries that were answered otherwise than the single client's, ascending.

    ``exactly`` False compares scores alone.
    """
    different = set()
    for log in logs:
        for call, result in log.answers:
            for place, query in enumerate(call.rows.tolist()):
                here = slice(int(result.indptr[place]), int(result.indptr[place + 1]))
                there = slice(int(expected.indptr[query]), int(expected.indptr[query + 1]))
                same = np.array_equal(result.scores[here], expected.scores[there])
                if exactly:
                    same = same and np.array_equal(result.rows[here], expected.rows[there])
                if not same:
                    different.add(query)
    return tuple(sorted(different))
