"""The plan of a baseline, run again with the changes that the options of ``harness regress`` name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from harness.errors import UsageError
from harness.pipeline.planning import plan_for
from harness.pipeline.regress.set_option import changed_backends
from harness.plan.backend_spec import parse_backends
from harness.plan.config import CompareRequest, Output, RegressRequest, rerun_fields
from harness.plan.option_fields import command_words, from_keywords, keyword_arguments, option_fields, option_words
from harness.plan.plan import Plan
from harness.results.schema import PlanRecord
from harness.results.snapshot import ResultSnapshot

__all__ = ["rerun_command", "rerun_plan"]

_NOT_TAKEN_OVER = {"resume", "reference", "all_pairs"}
"""Options of a baseline's plan that a new run leaves: it measures, and compares with another result, not within."""


def rerun_plan(regress: RegressRequest, changes: Mapping[str, object], before: ResultSnapshot) -> Plan:
    """Return the plan of ``before``, which the baseline holds, with the changes.

    Raises:
        UsageError: for the result of a check, whose plan is no comparison's, and for wrong changes.
    """
    if before.kind == "check":
        raise UsageError(
            f"'{before.source}' is the result of a check, and a check has a command of its own to run it again",
            fix="run `harness check` again, and compare both results: harness diff BEFORE AFTER",
        )
    if regress.dataset is None and before.report.dataset.provenance.get("format") == "objects":
        raise UsageError(
            f"the dataset '{before.report.dataset.name}' of '{before.source}' was an object in Python",
            fix="name where it is now, as dataset=…; or run it again in Python, then: harness diff BEFORE AFTER",
        )
    request = _request(before.report.plan, changes)
    if regress.dataset is not None:
        request = replace(request, dataset=regress.dataset)
    if regress.backends is not None:
        request = replace(request, backends=regress.backends, sweep=())
    if regress.set:
        request = replace(request, backends=_expanded(before, request), sweep=())
        specs = parse_backends(request.backends, cards=request.cards)
        request = replace(request, backends=changed_backends(specs, regress.set))
    return plan_for(request)


def rerun_command(regress: RegressRequest, changes: Mapping[str, object], output: Output) -> list[str]:
    """Return the command that runs the same again, a call in Python where the command line has no option for it."""
    known = rerun_fields()
    if changes.keys() <= known.keys() and regress.max_drop is not None:
        changed = [word for name, value in changes.items() for word in option_words(known[name], value)]
        return ["harness", "regress", *command_words(regress), *changed, *command_words(output)]
    named = keyword_arguments(regress) | dict(changes) | keyword_arguments(output)
    shown = [f"{name}={_written(value)}" for name, value in named.items() if name != "baseline"]
    call = f"harness.regress({', '.join([repr(str(regress.baseline)), *shown])})"
    return ["python", "-c", f"import harness; print({call})"]


def _written(value: object) -> str:
    return repr(str(value)) if isinstance(value, Path) else repr(value)


def _request(record: PlanRecord, changes: Mapping[str, object]) -> CompareRequest:
    """Return the request as it was given then, with the changes of now on top."""
    known = option_fields(CompareRequest).keys() - _NOT_TAKEN_OVER
    arguments = {name: value for name, value in record.given.items() if name in known and value is not None}
    merged = {**arguments, **changes}
    if not merged.get("timing", True) and "warm_up" not in changes:
        merged.pop("warm_up", None)  # the baseline's, which had times
    (request,) = from_keywords("harness.regress", merged, CompareRequest)
    return cast("CompareRequest", request)


def _expanded(before: ResultSnapshot, request: CompareRequest) -> str | Sequence[str]:
    """Return the backends with sweeps as the labels that they had become."""
    return [backend.label for backend in before.report.trials] if request.sweep else request.backends
