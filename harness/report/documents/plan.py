"""Build the document of a plan, which ``--dry-run`` shows, and write it for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

import orjson

from harness.data.filtering import format_filter
from harness.document.cells import join_names
from harness.document.model import Block, Document, Facts, Notes, Section
from harness.pipeline.planning import Preview
from harness.pipeline.probes import PROBES
from harness.pipeline.resume import LookUp
from harness.plan.config import RunOptions
from harness.plan.option_values import WARM_UP_SECONDS
from harness.plan.plan import Plan, Trial, Tuning
from harness.wording import counted


def plan_document(previews: Sequence[Preview]) -> Document:
    """Return the plan of a run: for each dataset the settings, then the fate of each backend."""
    names = [preview.plan.request.dataset for preview in previews]
    names_of_datasets = list(map(str, names))
    return Document(
        title=f"Plan for {join_names(names_of_datasets)}",
        subtitle="nothing has been run (--dry-run)",
        sections=[
            Section(f"plan-{number}", name, list(_blocks(*preview)))
            for number, (name, preview) in enumerate(zip(names_of_datasets, previews, strict=True), 1)
        ],
        kind="compare",
        name=", ".join(names_of_datasets),
    )


def _blocks(plan: Plan, look_ups: Sequence[LookUp]) -> Iterator[Block]:
    settings = _settings(plan)
    yield Facts(f"dataset {settings.pop('dataset')}", list(settings.items()), open=True)
    for trial, preview in zip(plan.trials, look_ups, strict=True):
        lines = [("", line) for line in (_prospect(preview), *_trial_notes(plan, trial, preview))]
        yield Facts(f"backend {trial.label}", [("parameters", _parameters(trial)), *lines], open=True)
    yield Notes(plan.notes)


def plan_csv(previews: Sequence[Preview]) -> str:
    """Return a line for each parameter of each backend and dataset, and its fate in parentheses."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["dataset", "backend", "parameter", "value"])
    for plan, look_ups in previews:
        for trial, preview in zip(plan.trials, look_ups, strict=True):
            about = (str(plan.request.dataset), trial.label)
            writer.writerows([*about, name, value] for name, value in trial.parameters.items())
            writer.writerow([*about, "(stored outcome)", _prospect(preview)])
            writer.writerow([*about, "(builds)", preview.builds])
            if preview.remote is not None:
                writer.writerow([*about, "(remote calls)", preview.remote])
    return sink.getvalue()


def plan_json(previews: Sequence[Preview]) -> str:
    """Return the plan of a single dataset, or a list of several plans."""
    records = [_record(preview.plan, preview.look_ups) for preview in previews]
    return orjson.dumps(records[0] if len(records) == 1 else records, option=orjson.OPT_INDENT_2).decode() + "\n"


def _record(plan: Plan, look_ups: Sequence[LookUp]) -> dict[str, object]:
    trials = [
        {
            "label": trial.label,
            "backend": trial.spec.name,
            "parameters": dict(trial.parameters),
            "key": preview.name,
            "reused": preview.stored is not None,
            "reason": preview.reason,
            "remote": preview.remote,
            "builds": preview.builds,
        }
        for trial, preview in zip(plan.trials, look_ups, strict=True)
    ]
    measures = [str(measure) for measure in plan.measures]
    return {**plan.arguments(), "metrics": measures, "trials": trials, "notes": list(plan.notes)}


def _files(plan: Plan) -> str:
    files = {"queries": plan.files.queries, "judgments": plan.files.qrels}
    descriptions = [f"{part} {path}" for part, path in files.items() if path is not None]
    descriptions += [f"{role}={name}" for role, name in plan.files.columns.items()]
    descriptions += [f"at most {plan.request.max_docs:,} documents"] if plan.request.max_docs is not None else []
    descriptions += [f"identical ids: {plan.request.identical_ids}"] if plan.request.identical_ids != "auto" else []
    return "".join(f", {name}" for name in descriptions)


def _settings(plan: Plan) -> dict[str, str]:
    request = plan.request
    split = f", split {request.split}" if request.split else ""
    rules = f"k={request.k}, ties={plan.ties.value}, queries={plan.queries.value}, relevance={request.relevance}"
    return {
        "dataset": f"{request.dataset}{split}{_files(plan)}",
        **({"filter": format_filter(plan.filter)} if plan.filter else {}),
        "metrics": ", ".join(str(measure) for measure in plan.measures),
        "rules": rules,
        **({"compared": _compared(plan)} if len(plan.trials) > 1 else {}),
        **({"tuning": _tuned(plan.tuning, request.seed)} if plan.tuning is not None else {}),
        "execution": _execution(plan.request, request.rebuilds),
        **{probe.name: words for probe in PROBES if (words := probe.planned(plan))},
    }


def _compared(plan: Plan) -> str:
    if plan.request.all_pairs:
        return "every backend with every other"
    return f"all with {plan.reference if plan.reference is not None else 'the first that has scores'}"


def _tuned(tuning: Tuning, seed: int) -> str:
    """Return by which queries the combinations of each backend are chosen, and which report them."""
    how = "chosen on one half of the queries, reported on the other"
    if tuning.folds is not None:
        how = f"{tuning.folds} folds, each reported with the choice of the others"
    backends = (f"{one.backend} of {counted(len(one.candidates), 'combination')}" for one in tuning.backends)
    return f"{tuning.metric}, {how}, seed {seed}: {', '.join(backends)}"


def _execution(options: RunOptions, rebuilds: int) -> str:
    words = [f"isolation={options.isolation.value}", f"jobs={options.jobs}"]
    words.append(f"repeat={options.repeat}" if options.timing else "no timing")
    if options.timing and options.warm_up != WARM_UP_SECONDS:
        words.append(f"warm-up={options.warm_up:g} s at most")
    if rebuilds > 1:
        words.append(f"rebuilds={rebuilds}")
    if options.deadline is not None:
        words.append(f"deadline={options.deadline:g} s")
    if options.memory_limit is not None:
        words.append(f"memory limit={options.memory_limit:,} bytes")
    return ", ".join(words)


def _trial_notes(plan: Plan, trial: Trial, preview: LookUp) -> list[str]:
    """Return the measures that leave the trial out, the number of requested builds, and the calls of a remote model."""
    lines = [words for probe in PROBES if (words := probe.unmeasured(trial, plan))]
    if plan.request.rebuilds > 1 and preview.builds:
        lines.append(f"{preview.builds} builds" if preview.builds > 1 else "1 build: the engine is deterministic")
    if preview.remote is not None:
        lines.append(preview.remote)
    return lines


def _parameters(trial: Trial) -> str:
    if trial.spec.run_path is not None:
        return f"stored run {trial.spec.run_path}"
    if trial.spec.called is not None:
        return f"queried as it is: {trial.spec.called.expression}"
    made_of = [f"made of {', '.join(part.label for part in trial.spec.components)}"] if trial.spec.components else []
    return "; ".join([*made_of, *(f"{name}={value}" for name, value in trial.parameters.items())])


def _prospect(preview: LookUp) -> str:
    """Return whether a trial runs or is re-used, with the reason and the key."""
    key = f", key {preview.name}" if preview.name is not None else ""
    return f"{'is re-used' if preview.stored is not None else 'runs'}: {preview.reason}{key}"
