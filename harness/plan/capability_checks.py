"""Plans that engines can serve: settings that they cannot are refused, as far as they declare it unopened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from harness.engines.interface import Capabilities
from harness.errors import EngineUnavailableError, HarnessError, RejectedInputError, UsageError
from harness.metrics import Metric
from harness.plan.callables import Function
from harness.plan.config import LOCAL, ClientKind, CompareRequest
from harness.plan.option_fields import is_set, raise_together
from harness.plan.plan import Plan, make_plan
from harness.registry.cards import BackendCard
from harness.registry.lookup import load_engine
from harness.registry.parameters import ParameterValue

BUILT_IN_ENGINES = "harness.engines."
"""Prefix of the harness's own engines: the meaning of their parameters is known."""


def plan_of_backends(
    request: CompareRequest,
    functions: Mapping[str, Function] = MappingProxyType({}),
    *,
    measures: Sequence[Metric] | None = None,
) -> Plan:
    """Return the plan of a request for a dataset that the caller brings along: the request's is only a name.

    ``measures`` are parsed metrics in place of the request's.
    """
    plan = make_plan(request, functions, measures=measures)
    refuse_impossible(plan)
    return plan


def refuse_impossible(plan: Plan) -> None:
    """Raise UsageError, with every mistake, for unsupported settings that engines declare without being opened.

    An engine that cannot be imported is left to its trial, which reports why.
    """
    mistakes = list[UsageError]()
    options = is_set(plan.request, "filter", "cold", "concurrency", "rate")
    for trial in plan.trials:
        card = trial.spec.card
        if card is None:
            continue
        try:
            engine = load_engine(card)
        except HarnessError:
            continue
        impossible = list(_impossible(plan, engine.capabilities, external=trial.external)) if options else []
        mistakes += [UsageError(f"backend '{trial.label}': {problem}", fix=fix) for problem, fix in impossible]
        try:
            if not impossible:
                # nodes of a cluster have their own variables, which may name the server
                refuse_parameters(trial.label, card, trial.parameters, addresses=plan.request.executor == LOCAL)
        except UsageError as error:
            mistakes.append(error)
    if mistakes:
        raise_together(mistakes)


def refuse_documents_without_metadata(name: str) -> NoReturn:
    """Raise UsageError for questions with filters on documents that are an object in Python."""
    raise UsageError(
        f"questions have filters, and the documents of '{name}' are an object in Python, without their metadata",
        fix="give the documents as a file or a folder: 'chunks.jsonl'",
    )


def refuse_filters(plan: Plan) -> None:
    """Raise UsageError, with every mistake, for backends that do not filter, on a plan whose queries have filters."""
    mistakes = list[UsageError]()
    for trial in plan.trials:
        card = trial.spec.card
        if card is None:
            continue
        try:
            capabilities = load_engine(card).capabilities
        except HarnessError:
            continue
        problem = None
        if trial.external and not capabilities.filters_external:
            problem = "this engine does not filter searches of an external index"
        elif not trial.external and not capabilities.filters:
            problem = "this engine does not filter searches"
        if problem is not None:
            text = f"backend '{trial.label}': questions have filters, and {problem}"
            mistakes.append(UsageError(text, fix="leave this backend out, or the filters"))
    if mistakes:
        raise_together(mistakes)


def refuse_parameters(
    label: str, card: BackendCard, parameters: Mapping[str, ParameterValue], *, addresses: bool = True
) -> None:
    """Raise UsageError for parameters that the engine does not take when it is made.

    With ``addresses``, a server that neither they nor the environment name is refused too. Only the harness's own
    engines are tried: creating other engines may be slow or fail in ways that only a worker survives.
    """
    if not card.engine.startswith(BUILT_IN_ENGINES):
        return
    try:
        engine = load_engine(card)(parameters)
        if addresses and "url" in parameters:
            engine.require_address()
    except (UsageError, RejectedInputError, EngineUnavailableError) as error:
        raise UsageError(f"backend '{label}': {error.problem}", fix=error.fix) from error


def _impossible(plan: Plan, capabilities: Capabilities, *, external: bool) -> Iterator[tuple[str, str | None]]:
    """Yield the options that such an engine or index cannot serve, each with a fix."""
    request, options, foreign = plan.request, "--cold, --concurrency and --rate", "built, not on an external index"
    several = request.concurrency or request.open_loop
    if request.measures_load and external:
        problem = f"{options} are measured on an index that the harness {foreign}"
        yield problem, "leave them or this backend out"
    elif request.measures_load and not capabilities.reopens:
        yield f"{options} need an engine that can open its index again", "leave them or this backend out"
    elif several and request.clients is ClientKind.THREADS and not capabilities.threads:
        problem = "--clients threads: this engine's client holds Python's lock while it searches, or may not be shared"
        yield problem, "use --clients processes"
    if plan.filter and external and not capabilities.filters_external:
        yield "--filter: this engine does not filter an external index", "leave --filter or this backend out"
    elif plan.filter and not external and not capabilities.filters:
        yield "--filter: this engine does not filter searches", "leave --filter or this backend out"
