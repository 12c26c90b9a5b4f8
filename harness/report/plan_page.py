"""A plan in words: what ``--dry-run`` shows."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

import orjson

from harness.data.filtering import in_words
from harness.errors import UnknownNameError
from harness.pipeline.planning import Preview
from harness.pipeline.resume import LookUp
from harness.plan.options import WARM_UP_SECONDS, ExecutionOptions, LoadOptions
from harness.plan.plan import Plan, Trial

__all__ = ["render_plan"]


def render_plan(previews: Sequence[Preview], format_name: str) -> str:
    """Return plans as ``table`` (lines of text), ``markdown``, ``csv`` or ``json``, one for each dataset.

    Raises UnknownNameError for another format.
    """
    if format_name not in _RENDERERS:
        raise UnknownNameError("format", format_name, _RENDERERS)
    return _RENDERERS[format_name](previews)


def _table(previews: Sequence[Preview]) -> str:
    return "\n".join(_lines(preview.plan, preview.known) for preview in previews)


def _lines(plan: Plan, known: Sequence[LookUp]) -> str:
    lines = [f"{name:<11}{value}" for name, value in _settings(plan).items()]
    for trial, found in zip(plan.trials, known, strict=True):
        lines += [f"backend    {trial.label}", f"             {_parameters(trial)}", f"             {_prospect(found)}"]
        lines += [f"             {said}" for said in _said(plan, found)]
    return "\n".join([*lines, *plan.notes]) + "\n"


def _markdown(previews: Sequence[Preview]) -> str:
    return "\n".join(_markdown_tables(preview.plan, preview.known) for preview in previews)


def _markdown_tables(plan: Plan, known: Sequence[LookUp]) -> str:
    lines = ["| setting | value |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in _settings(plan).items()]
    lines += ["", "| backend | parameters | stored outcome |", "|---|---|---|"]
    for trial, found in zip(plan.trials, known, strict=True):
        lines.append(f"| {trial.label} | {_parameters(trial)} | {_prospect(found)} |")
    for trial, found in zip(plan.trials, known, strict=True):
        lines += [f"\n{trial.label}: {said}" for said in _said(plan, found)]
    return "\n".join([*lines, *(f"\n{note}" for note in plan.notes)]) + "\n"


def _csv(previews: Sequence[Preview]) -> str:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["dataset", "backend", "parameter", "value"])
    for plan, known in previews:
        for trial, found in zip(plan.trials, known, strict=True):
            about = (str(plan.request.dataset), trial.label)
            writer.writerows([*about, name, value] for name, value in trial.parameters.items())
            writer.writerow([*about, "(stored outcome)", _prospect(found)])
            writer.writerow([*about, "(builds)", found.builds])
            if found.remote is not None:
                writer.writerow([*about, "(remote calls)", found.remote])
    return sink.getvalue()


def _json(previews: Sequence[Preview]) -> str:
    records = [_record(preview.plan, preview.known) for preview in previews]
    return orjson.dumps(records[0] if len(records) == 1 else records, option=orjson.OPT_INDENT_2).decode() + "\n"


def _record(plan: Plan, known: Sequence[LookUp]) -> dict[str, object]:
    trials = [
        {
            "label": trial.label,
            "backend": trial.spec.name,
            "parameters": dict(trial.parameters),
            "key": found.name,
            "reused": found.stored is not None,
            "reason": found.reason,
            "remote": found.remote,
            "builds": found.builds,
        }
        for trial, found in zip(plan.trials, known, strict=True)
    ]
    measures = [str(measure) for measure in plan.measures]
    return {**plan.given(), "metrics": measures, "trials": trials, "notes": list(plan.notes)}


def _files(plan: Plan) -> str:
    files = {"queries": plan.files.queries, "judgments": plan.files.qrels}
    named = [f"{part} {path}" for part, path in files.items() if path is not None]
    named += [f"{role}={name}" for role, name in plan.files.columns.items()]
    named += [f"at most {plan.request.max_docs:,} documents"] if plan.request.max_docs is not None else []
    named += [f"identical ids: {plan.request.identical_ids}"] if plan.request.identical_ids != "auto" else []
    return "".join(f", {one}" for one in named)


def _settings(plan: Plan) -> dict[str, str]:
    request = plan.request
    split = f", split {request.split}" if request.split else ""
    rules = f"k={request.k}, ties={plan.ties.value}, queries={plan.queries.value}, relevance={request.relevance}"
    return {
        "dataset": f"{request.dataset}{split}{_files(plan)}",
        **({"filter": in_words(plan.filter)} if plan.filter else {}),
        "metrics": ", ".join(str(measure) for measure in plan.measures),
        "rules": rules,
        **({"compared": _compared(plan)} if len(plan.trials) > 1 else {}),
        "execution": _execution(plan.execution, request.rebuilds),
        **({"load": _load(plan.load)} if plan.load.wanted else {}),
    }


def _compared(plan: Plan) -> str:
    if plan.request.all_pairs:
        return "every backend with every other"
    return f"all with {plan.reference if plan.reference is not None else 'the first that has scores'}"


def _execution(options: ExecutionOptions, rebuilds: int) -> str:
    words = [f"isolation={options.isolation.value}", f"jobs={options.jobs}"]
    words.append(f"repeat={options.repeat}" if options.timing else "no timing")
    if options.timing and options.warm_up != WARM_UP_SECONDS:
        words.append(f"warm-up={options.warm_up:g} s at most")
    if rebuilds > 1:
        words.append(f"rebuilds={rebuilds}")
    if options.deadline_s is not None:
        words.append(f"deadline={options.deadline_s:g} s")
    if options.memory_limit_bytes is not None:
        words.append(f"memory limit={options.memory_limit_bytes:,} bytes")
    return ", ".join(words)


def _load(options: LoadOptions) -> str:
    words = ["a cold pass"] if options.cold else []
    held = f"{options.seconds:g} s each"
    if options.concurrency:
        words.append(f"{', '.join(map(str, options.concurrency))} clients ({options.clients.value}), {held}")
    if options.rates:
        rates = ", ".join(f"{rate:g}" for rate in options.rates)
        words.append(f"{rates} queries/s ({options.arrivals}, {options.open_loop_clients} clients), {held}")
    return "; ".join(words)


def _said(plan: Plan, found: LookUp) -> list[str]:
    """What else is known of a trial: the number of builds where several are asked for, calls of a remote model."""
    said = []
    if plan.request.rebuilds > 1 and found.builds:
        said.append(f"{found.builds} builds" if found.builds > 1 else "1 build: the engine is deterministic")
    if found.remote is not None:
        said.append(found.remote)
    return said


def _parameters(trial: Trial) -> str:
    if trial.spec.run_path is not None:
        return f"stored run {trial.spec.run_path}"
    made_of = [f"made of {', '.join(part.label for part in trial.spec.components)}"] if trial.spec.components else []
    return "; ".join([*made_of, *(f"{name}={value}" for name, value in trial.parameters.items())])


def _prospect(found: LookUp) -> str:
    """``re-used`` or ``runs``, with the key and the reason."""
    key = f", key {found.name}" if found.name is not None else ""
    return f"{'is re-used' if found.stored is not None else 'runs'}: {found.reason}{key}"


_RENDERERS: dict[str, Callable[[Sequence[Preview]], str]] = {
    "table": _table,
    "markdown": _markdown,
    "csv": _csv,
    "json": _json,
}
