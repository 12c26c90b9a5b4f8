"""Texts to vectors by a model. Runs in a worker: the model may need torch, and may die of it."""

from __future__ import annotations

from pathlib import Path

from harness.data.progress import Clock, Progress
from harness.encoders.http_endpoint import EndpointModel, Spent
from harness.encoders.prompts import applied_prompt
from harness.encoders.settings import Settings
from harness.encoders.sources import create_model
from harness.encoders.stream import encode_into
from harness.worker.encoded_files import Encoded
from harness.worker.jobs import EncodeJob
from harness.worker.trial import load_inputs

__all__ = ["encode"]


def encode(job: EncodeJob, progress: Progress, clock: Clock) -> Encoded:
    """Encode every part with one model, into its target; what that took, beside what was there before."""
    settings = Settings.of(job.encoder, job.parameters)
    progress.start("load model", None)
    model = create_model(settings)
    done = {
        part.role: encode_into(
            Path(part.target),
            load_inputs(Path(part.texts), (), part.role),
            part.role,
            settings,
            model,
            prompt=applied_prompt(settings, part.role).text,
            progress=progress,
            clock=clock,
        )
        for part in job.parts
    }
    spent = model.spent if isinstance(model, EndpointModel) else Spent()
    rows: dict[str, int] = {role: one.rows for role, one in done.items()}
    return Encoded(rows, sum(one.chunks for one in done.values()), *spent)
