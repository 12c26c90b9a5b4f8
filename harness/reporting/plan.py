"""A plan in words: what ``--dry-run`` shows."""

from __future__ import annotations

import orjson

from harness.errors import UnknownNameError
from harness.plan import Plan

__all__ = ["render_plan"]


def render_plan(plan: Plan, format_name: str) -> str:
    """The plan as ``table`` (lines of text) or ``json``; raises UnknownNameError for another format."""
    if format_name == "json":
        return orjson.dumps(_record(plan), option=orjson.OPT_INDENT_2).decode() + "\n"
    if format_name != "table":
        raise UnknownNameError("format of a plan", format_name, ("table", "json"))
    request = plan.request
    lines = [
        f"dataset   {request.dataset}" + (f", split {request.split}" if request.split else ""),
        f"metrics   {', '.join(str(measure) for measure in plan.measures)}",
        f"rules     k={request.k}, ties={plan.ties.value}, queries={plan.queries.value}, relevance={request.relevance}",
    ]
    for trial in plan.trials:
        values = "; ".join(f"{name}={value}" for name, value in trial.parameters.items())
        lines += [f"backend   {trial.label}", f"            {values or f'stored run {trial.spec.run_path}'}"]
    return "\n".join([*lines, *plan.notes]) + "\n"


def _record(plan: Plan) -> dict[str, object]:
    trials = [
        {"label": t.label, "backend": t.spec.name, "parameters": dict(t.parameters), "key": t.key} for t in plan.trials
    ]
    return {**plan.given(), "metrics": [str(m) for m in plan.measures], "trials": trials, "notes": list(plan.notes)}
