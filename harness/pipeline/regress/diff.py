"""``harness.diff``: hold two stored results against each other, without running anything."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, replace
from pathlib import Path

from harness.pipeline.regress.compare_sides import compare_sides
from harness.pipeline.regress.gate_rules import compare_rules
from harness.pipeline.regress.labels import LABEL_FILE, check_no_grades, label_lines
from harness.pipeline.regress.read_snapshot import read_snapshot
from harness.pipeline.regress.regression import Regression, documents_of_side, without_texts
from harness.plan.config import DiffRequest, JudgedOutput, Output
from harness.plan.option_fields import command_words, from_keywords, keywords_of, require
from harness.results.presenters import LEFT_OUT
from harness.results.schema import SCHEMA_VERSION, Result
from harness.results.schema_base import HarnessInfo, MachineInfo, PlanRecord
from harness.results.stored_texts import Documents
from harness.store.environment import harness_state, machine, package_versions
from harness.store.result_folder import check_target

__all__ = ["diff", "run_diff"]


@keywords_of(DiffRequest, JudgedOutput)
def diff(before: str | Path, after: str | Path, **options: object) -> Regression:
    """Compare two stored results, of ``compare`` or of ``check``, without running anything.

    Args:
        before: a result folder or a baseline file.
        after: the same, of later.
        options: those of :class:`harness.plan.config.DiffRequest`; there is no gate without ``max_drop``. With ``out``
            the report is stored there, and the documents of the later result are read again for its page; ``cards``
            is where its dataset's card is.

    Raises:
        UsageError: for wrong options.
        ResultError: as :func:`harness.regress`, and for a check against a comparison.
    """
    request, output = from_keywords(
        "harness.diff", {"before": before, "after": after, **options}, DiffRequest, JudgedOutput
    )
    require(output)
    regression = run_diff(request, output, documents=output.out is not None)
    if output.out is None:
        return regression
    return regression.save(output.out, overwrite=output.overwrite, keep_text=output.keep_text)


def run_diff(request: DiffRequest, output: Output, *, documents: bool = True) -> Regression:
    """As :func:`diff`, and nothing is stored: ``output`` says where the caller will.

    ``documents`` of the later result are read where its page is going to be drawn.
    """
    require(request)
    if output.out is not None:
        check_target(output.out, overwrite=output.overwrite, runs=False)
        check_no_grades(output.out / LABEL_FILE)
    one, other = read_snapshot(request.before), read_snapshot(request.after)
    compared = compare_sides(one, other, compare_rules(request, int(str(other.report.plan.resolved["seed"]))))
    change = compared.change if output.keep_text else without_texts(compared.change)
    report = Result(
        schema=SCHEMA_VERSION,
        kind="diff",
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        command=["harness", "diff", *command_words(request), *command_words(output)],
        harness=HarnessInfo(**asdict(harness_state())),
        machine=MachineInfo(**asdict(machine())),
        packages=package_versions(),
        plan=PlanRecord(given={"before": str(request.before), "after": str(request.after)}, resolved={}),
        change=change,
    )
    found = Regression(report, to_label=label_lines(change, {}), compared=compared)
    if not documents:
        return found
    read = documents_of_side(other, cards=request.cards) if output.keep_text else Documents(None, LEFT_OUT)
    return replace(found, corpus=read.corpus, no_texts=read.no_texts)
