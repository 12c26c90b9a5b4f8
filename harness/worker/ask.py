"""Ask somebody's callable in a worker: what it prints, allocates or never returns from concerns it alone."""

from __future__ import annotations

from pathlib import Path

from harness.data.progress import Clock, Progress
from harness.engines.callable.python_callable import PythonRetriever, load_callable
from harness.engines.callable.retriever import ask, write_asked
from harness.store.columns import load_table
from harness.worker.jobs import AskJob

__all__ = ["run_ask"]


def run_ask(folder: Path, job: AskJob, progress: Progress, clock: Clock) -> None:
    """Carry out a job; raises EngineUnavailableError when the callable cannot be loaded."""
    questions = load_table(Path(job.questions)).column("text").to_pylist()
    with PythonRetriever(load_callable(job.target), job.target) as retriever:
        asked = ask(
            retriever,
            questions,
            job.k,
            repeats=job.repeats,
            warm_up=job.warm_up,
            deadline_s=None,  # the executor's
            clock=clock,
            progress=progress,
        )
    write_asked(folder, asked)
