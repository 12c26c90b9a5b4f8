"""What a stored trial is found under: everything about it that changes its hits, and parameters that change its times.

A key holds the scheme, the engine with what it says of itself (versions), the content of documents and queries, the
analyzer with what decides its terms or the model with what decides its vectors, k, the filter with the fields that it
is about, the candidates that each query is ranked among, and the backend's parameters but those whose card says that
they affect nothing. Measures, rules of scoring, the dataset's name, where results go, seeds of statistics and limits
are not in it, nor is the machine: times are judged by :mod:`harness.worker.resume.conditions`.
"""

from __future__ import annotations

from harness.data.dataset import Dataset
from harness.encoders.settings import model_encoder
from harness.plan.plan import Trial
from harness.registry.cards import BackendCard
from harness.registry.parameters import encoder_parameters
from harness.store.cache import JSON
from harness.worker.encodings import encoder_key
from harness.worker.resume.identity import Identities

__all__ = ["SCHEME", "is_kept", "trial_key"]

SCHEME = 7
"""To be raised when a change of the harness or of its adapters changes the hits of some engine, or what is stored."""


def is_kept(trial: Trial) -> bool:
    """Whether the trial's outcome is stored: not for runs that somebody else made, nor for indexes built elsewhere."""
    return trial.spec.card is not None and not trial.external


def trial_key(trial: Trial, card: BackendCard, dataset: Dataset, k: int, identities: Identities) -> dict[str, JSON]:
    """The key of one trial; nothing is analysed for it.

    Raises HarnessError where the engine, analyzer or model is missing, or the engine cannot say what it is.
    """
    encoder = encoder_key(trial, dataset, fetch=identities.fetch)
    identity = identities.of(card, trial.parameters)
    left_out = {*identity, *(("jar",) if encoder is not None else ())}  # the terms' key holds the jar's digest
    model = model_encoder(card.encoder)
    if model is not None:  # its key holds what they come to: a model's files, not its name
        left_out |= set(encoder_parameters(model))
    left_out |= {name for name, parameter in card.parameters.items() if parameter.affects == "nothing"}
    parameters: dict[str, JSON] = {name: value for name, value in trial.parameters.items() if name not in left_out}
    filtered = dataset.filtered
    kept: dict[str, JSON] = {}
    if filtered is not None:
        kept = {"filter": {**filtered.wanted}, "metadata": filtered.digest}
    if dataset.candidates is not None:
        kept["candidates"] = dataset.candidates_digest
    return {
        "scheme": SCHEME,
        "engine": card.engine,
        "identity": {**identity},
        "parameters": parameters,
        "encoder": encoder,
        "documents": dataset.corpus.digest,
        "queries": dataset.queries.digest,
        "k": k,
        **kept,
    }
