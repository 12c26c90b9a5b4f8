"""Refuse what engines cannot do for a plan, as far as they say so without being opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from harness.engines.interface import Capabilities, EngineProtocol
from harness.errors import HarnessError, RejectedInputError, UsageError
from harness.plan.config import ClientKind
from harness.plan.option_fields import raise_together
from harness.plan.options import LoadOptions
from harness.plan.plan import Plan
from harness.registry.lookup import load_engine
from harness.registry.parameters import ParameterValue

OWN_ADAPTERS = "harness.engines."
"""Prefix of the engines of the harness itself: what their parameters mean is known."""


def refuse_impossible(plan: Plan) -> None:
    """Raise UsageError, with every mistake, for what engines cannot do as far as they say so without being opened.

    An engine that cannot be imported is left to its trial, which tells why. Parameters are tried on the harness's own
    engines alone: what others do when they are made may be slow or fail in ways that only a worker survives.
    """
    mistakes = []
    for trial in plan.trials:
        card = trial.spec.card
        if card is None:
            continue
        try:
            engine = load_engine(card)
        except HarnessError:
            continue
        try:
            _refuse_load(plan.load, engine.capabilities, external=trial.external)
            _refuse_filter(plan, engine.capabilities, external=trial.external)
            if card.engine.startswith(OWN_ADAPTERS):
                cast("Callable[[Mapping[str, ParameterValue]], EngineProtocol]", engine)(trial.parameters)
        except (UsageError, RejectedInputError) as error:
            mistakes.append(UsageError(f"backend '{trial.label}': {error.what}", fix=error.fix))
    raise_together(mistakes)


def _refuse_filter(plan: Plan, capabilities: Capabilities, *, external: bool) -> None:
    """Raise UsageError when searches cannot be filtered on such an engine or index."""
    if plan.filter and external:
        raise UsageError(
            "--filter works on an index that the harness built, with the metadata in it, not on an external one",
            fix="leave --filter or this backend out",
        )
    if plan.filter and not capabilities.filters:
        raise UsageError("--filter: this engine does not filter searches", fix="leave --filter or this backend out")


def _refuse_load(load: LoadOptions, capabilities: Capabilities, *, external: bool) -> None:
    """Raise UsageError when what is to be measured under load cannot be had of such an engine or index."""
    if load.wanted and external:
        raise UsageError(
            "--cold, --concurrency and --rate are measured on an index that the harness built, not on an external one",
            fix="leave them or this backend out",
        )
    if load.wanted and not capabilities.reopens:
        raise UsageError(
            "--cold, --concurrency and --rate need an engine that can open its index again",
            fix="leave them or this backend out",
        )
    several = load.concurrency or load.open_loop
    if several and load.clients is ClientKind.THREADS and not capabilities.threads:
        raise UsageError(
            "--clients threads: this engine's client holds Python's lock while it searches, or may not be shared",
            fix="use --clients processes",
        )
