"""Carry out a job in this process, whichever process that is: the worker's, or the harness's own."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness.data.progress import Progress
from harness.errors import HarnessError
from harness.worker.failure import harness_error
from harness.worker.jobs import (
    HELD,
    RELEASED,
    AnalyseJob,
    AskJob,
    ClientJob,
    EncodeJob,
    IdentityJob,
    RerankJob,
    TrialJob,
    TrialRecord,
    read_job,
    write_analysed,
    write_identity,
    write_trial,
)

__all__ = ["carry_out"]

_POLL_S = 0.05


def carry_out(folder: Path, progress: Progress, *, before_open: Callable[[], None]) -> None:
    """Read the job in ``folder``, do it, and leave its results there.

    ``before_open`` is called when everything but the engine is in memory. Raises HarnessError and nothing else: what
    nobody foresaw becomes an EngineFailureError with its traceback as the log.
    """
    try:
        _do(folder, progress, before_open)
    except HarnessError:
        raise
    except Exception as error:
        raise harness_error(error) from error


def _do(folder: Path, progress: Progress, before_open: Callable[[], None]) -> None:
    job = read_job(folder)
    match job:
        case AnalyseJob():
            from harness.worker.encodings import analyse

            write_analysed(folder, analyse(job, progress, time.perf_counter_ns))
        case AskJob():
            from harness.worker.ask import run_ask

            run_ask(folder, job, progress, time.perf_counter_ns)
        case EncodeJob():
            from harness.worker.encode import encode
            from harness.worker.encoded_files import write_encoded

            write_encoded(folder, encode(job, progress, time.perf_counter_ns))
        case TrialJob():
            from harness.worker.trial import run_trial

            hold = partial(_hold_open, folder, job, progress)
            record = run_trial(job, progress, time.perf_counter_ns, before_open=before_open, before_close=hold)
            write_trial(folder, record)
        case RerankJob():
            from harness.worker.rerank import carry_out_rerank

            carry_out_rerank(folder, job, progress, time.perf_counter_ns)
        case IdentityJob():
            module, _, name = job.engine.partition(":")
            write_identity(folder, getattr(importlib.import_module(module), name).identity(job.parameters))
        case ClientJob():
            from harness.worker.load.client import run_client
            from harness.worker.load.files import write_client

            client = run_client(job, progress, time.perf_counter_ns, time.sleep, before_open=before_open)
            write_client(folder, client)


def _hold_open(folder: Path, job: TrialJob, progress: Progress, record: TrialRecord) -> None:
    """Keep a server's index for the clients that are to come, and leave them the answers to compare theirs with."""
    if job.release is None or not record.engine.is_server:
        return
    write_trial(folder, record)
    progress.start(HELD, None)
    while not Path(job.release).exists():
        time.sleep(_POLL_S)
    progress.start(RELEASED, None)
