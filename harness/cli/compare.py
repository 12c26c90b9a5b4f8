"""``harness compare``: run backends on a dataset and hold each against its reference."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from harness.cli.early_worker import early_worker
from harness.cli.output import (
    check_sort_metric,
    print_result,
    progress_display,
    result_location,
    time_stamped,
    write_baseline_file,
    write_report,
)
from harness.cli.verb import verb
from harness.cli.verbs import ExitCode
from harness.errors import UsageError
from harness.plan.config import CompareOutput, CompareRequest

if TYPE_CHECKING:
    from harness.plan.plan import Plan
    from harness.results.comparison import Comparison


_DEFAULT_OUT = Path("reports")


@verb(CompareRequest, CompareOutput)
def compare(request: CompareRequest, output: CompareOutput) -> None:
    """Push the same documents into real engines, run the same queries, score them with one metric core, and hold each
    engine against an exact reference.

    Example: harness compare --backends 'qdrant,lucene:k1=1.2;b=0.75,csr' --dataset ./my-dataset --k 100
    """
    with (
        nullcontext()
        if output.dry_run
        else early_worker(str(request.backends), request.isolation, request.executor, request.cards)
    ):
        from harness.pipeline.planning import plan_for

        plan = plan_for(request)
        check_sort_metric(output.sort, map(str, plan.measures))
        _check_targets(output)
        if output.dry_run:
            _preview(plan, output)
        else:
            _run(plan, output)


def _preview(plan: Plan, output: CompareOutput) -> None:
    from harness.pipeline.planning import preview
    from harness.report.documents.plan import plan_csv, plan_document, plan_json

    with progress_display() as display:
        previews = preview(plan, display)
    for_programs = {"csv": plan_csv, "json": plan_json}
    if output.format in for_programs:
        print_result(for_programs[output.format](previews))
    else:
        write_report(plan_document(previews), output.format, verbose=output.verbose)


def _check_targets(output: CompareOutput) -> None:
    from harness.store.result_folder import check_target

    check_target(output.out if output.out is not None else _DEFAULT_OUT / "new", overwrite=output.overwrite)
    if output.save_baseline is not None:
        from harness.results.baseline import check_baseline_target

        check_baseline_target(output.save_baseline)


def _run(plan: Plan, output: CompareOutput) -> None:
    from harness.pipeline import compare as api

    with progress_display() as display:
        comparison = api.run(plan, display, output, explained=output.keep_text)
    stored = _save(comparison, output, plan.dataset_name)
    with result_location(stored.folder):
        if output.save_baseline is not None:
            write_baseline_file(comparison, output.save_baseline, comparison.failed)
        write_report(comparison.report, output.format, verbose=output.verbose, sort=output.sort)
    _print_kept(comparison)
    if comparison.failed or comparison.unmeasured:
        raise Exit(ExitCode.UNAVAILABLE)


def _print_kept(comparison: Comparison) -> None:
    """Say which collections stay on servers, and how a later comparison searches them."""
    from harness.plan.expressions import quoted

    for trial in comparison.report.trials:
        state = trial.index.state if trial.index is not None else {}
        if state.get("kept"):
            kind = next(kind for kind in ("collection", "table", "index") if kind in state)
            model = f";model={quoted(str(trial.parameters['model']))}" if "model" in trial.parameters else ""
            options = f"url={state['server']};external=true;{kind}={state[kind]}{model}"
            collection = f"{trial.label}: {kind} '{state[kind]}' at {state['server']}"
            use = {
                "collection": f"; search it with {trial.name}:{options}",
                "index": "; it holds the harness's terms, not texts, so it cannot be searched as an external index",
            }.get(kind, "")
            earlier = ", kept by an earlier comparison, whose outcome was reused" if trial.reused else ""
            click.echo(f"kept: {collection}{earlier}{use}", err=True)


def _save(comparison: Comparison, output: CompareOutput, dataset: str) -> Comparison:
    out = output.out
    if out is None:
        target = time_stamped(dataset)
        return comparison.save(target, keep_text=output.keep_text, numbered=True, save_runs=output.save_runs)
    try:
        return comparison.save(out, overwrite=output.overwrite, keep_text=output.keep_text, save_runs=output.save_runs)
    except UsageError as error:  # the folder was free when this comparison began
        raise UsageError(
            f"{error.problem}: another process wrote it in the meantime",
            fix="choose another --out, and --resume missing takes what finished from the cache",
        ) from error
