"""A plan in words: what ``--dry-run`` shows."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import orjson

from harness.errors import UnknownNameError
from harness.plan import Plan, Trial

__all__ = ["render_plan"]


def render_plan(plan: Plan, format_name: str) -> str:
    """The plan as ``table`` (lines of text), ``markdown``, ``csv`` or ``json``; raises UnknownNameError for another."""
    if format_name not in _RENDERERS:
        raise UnknownNameError("format", format_name, _RENDERERS)
    return _RENDERERS[format_name](plan)


def _table(plan: Plan) -> str:
    lines = [f"{name:<10}{value}" for name, value in _settings(plan).items()]
    for trial in plan.trials:
        lines += [f"backend   {trial.label}", f"            {_parameters(trial)}"]
    return "\n".join([*lines, *plan.notes]) + "\n"


def _markdown(plan: Plan) -> str:
    lines = ["| setting | value |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in _settings(plan).items()]
    lines += ["", "| backend | parameters |", "|---|---|"]
    lines += [f"| {trial.label} | {_parameters(trial)} |" for trial in plan.trials]
    return "\n".join([*lines, *(f"\n{note}" for note in plan.notes)]) + "\n"


def _csv(plan: Plan) -> str:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["backend", "parameter", "value"])
    for trial in plan.trials:
        writer.writerows([trial.label, name, value] for name, value in trial.parameters.items())
    return sink.getvalue()


def _json(plan: Plan) -> str:
    trials = [
        {"label": t.label, "backend": t.spec.name, "parameters": dict(t.parameters), "key": t.key} for t in plan.trials
    ]
    measures = [str(measure) for measure in plan.measures]
    record = {**plan.given(), "metrics": measures, "trials": trials, "notes": list(plan.notes)}
    return orjson.dumps(record, option=orjson.OPT_INDENT_2).decode() + "\n"


def _settings(plan: Plan) -> dict[str, str]:
    request = plan.request
    split = f", split {request.split}" if request.split else ""
    rules = f"k={request.k}, ties={plan.ties.value}, queries={plan.queries.value}, relevance={request.relevance}"
    return {
        "dataset": f"{request.dataset}{split}",
        "metrics": ", ".join(str(measure) for measure in plan.measures),
        "rules": rules,
    }


def _parameters(trial: Trial) -> str:
    if trial.spec.run_path is not None:
        return f"stored run {trial.spec.run_path}"
    return "; ".join(f"{name}={value}" for name, value in trial.parameters.items())


_RENDERERS: dict[str, Callable[[Plan], str]] = {"table": _table, "markdown": _markdown, "csv": _csv, "json": _json}
