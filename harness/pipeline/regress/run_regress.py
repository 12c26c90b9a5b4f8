"""``harness.regress``: run the plan of a baseline again, and judge whether it got worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from harness.data.arrow import strings, take_rows
from harness.data.progress import Display
from harness.data.types import Corpus
from harness.pipeline import compare as api
from harness.pipeline.regress.compare_sides import CompareRules, compare_sides
from harness.pipeline.regress.gate_rules import compare_rules
from harness.pipeline.regress.labels import LABEL_FILE, check_no_grades, label_lines
from harness.pipeline.regress.pairing import refuse_missing
from harness.pipeline.regress.read_snapshot import read_snapshot
from harness.pipeline.regress.regression import Regression, without_texts
from harness.pipeline.regress.rerun import rerun_command, rerun_plan
from harness.plan.config import CompareRequest, JudgedOutput, Output, RegressRequest
from harness.plan.option_fields import from_keywords, keywords_of, option_fields, require
from harness.plan.plan import Plan
from harness.results.snapshot import ResultSnapshot, snapshots_of
from harness.store.result_folder import check_target

__all__ = ["regress", "run_regress"]


@keywords_of(RegressRequest, JudgedOutput)
def regress(baseline: str | Path, *, display: Display | None = None, **options: object) -> Regression:
    """Run the plan of a baseline again, with the changes that are named, and judge whether it got worse.

    Args:
        baseline: a file that ``--save-baseline`` wrote, or a result folder.
        display: where progress is shown; None shows none.
        options: those of :class:`harness.plan.config.RegressRequest`: ``backends`` takes the place of the plan's,
            ``set`` changes their parameters, as ``"lucene:k1=3;b=0.95"``, ``dataset`` is another state or place of the
            data, ``max_drop``, ``margin``, ``test`` … say how to judge. Any other option of :func:`harness.compare`
            replaces the plan's. With ``out`` the new result is stored there. What a change of engine is, the
            environment decides.

    Raises:
        UsageError, DataError: as :func:`harness.compare`.
        ResultError: for a baseline that cannot be read, or has no query or backend in common with the new result.
    """
    own = {**option_fields(RegressRequest), **option_fields(JudgedOutput)}
    changes = {name: value for name, value in options.items() if name in set(option_fields(CompareRequest)) - set(own)}
    given = {name: value for name, value in options.items() if name not in changes}
    request, output = from_keywords(
        "harness.regress",
        {"baseline": baseline, **given},
        RegressRequest,
        JudgedOutput,
        also=option_fields(CompareRequest).keys(),
    )
    require(output)
    regression = run_regress(request, changes, output, display)
    if output.out is None:
        return regression
    return regression.save(output.out, overwrite=output.overwrite, keep_text=output.keep_text)


def run_regress(
    request: RegressRequest, changes: Mapping[str, object], output: Output, display: Display | None = None
) -> Regression:
    """As :func:`regress`, and nothing is stored: ``output`` says where the caller will."""
    require(request)
    before = read_snapshot(request.baseline)
    plan = rerun_plan(request, changes, before)
    how = compare_rules(request, plan.request.seed)
    if output.out is not None:
        check_target(output.out, overwrite=output.overwrite)
        check_no_grades(output.out / LABEL_FILE)
    _refuse_unknown(before, plan, how)
    comparison = api.run(plan, display)
    (after,) = snapshots_of(comparison)
    compared = compare_sides(before, after, how)
    change = compared.change if output.keep_text else without_texts(compared.change)
    update = {"kind": "regress", "command": rerun_command(request, changes, output), "change": change}
    report = comparison.report.model_copy(update=update)
    documents = {one.document for pair in change.backends if pair.dossier for one in pair.dossier.to_label}
    corpus = comparison.corpus
    texts = _texts(corpus, sorted(documents)) if output.keep_text and corpus is not None else {}
    return Regression(report, comparison, label_lines(change, texts), compared, corpus)


def _refuse_unknown(before: ResultSnapshot, plan: Plan, how: CompareRules) -> None:
    """What names nothing is refused now, not after an hour of work."""
    how.rules.refuse_unknown({name for figures in before.figures.values() for name in figures})
    for pair in how.pairs:
        refuse_missing(pair.before, [backend.label for backend in before.report.trials])
        refuse_missing(pair.after, [trial.label for trial in plan.trials])


def _texts(corpus: Corpus, documents: Sequence[str]) -> dict[str, str]:
    """Texts of some documents by id; those that the corpus lacks are left out."""
    rows = corpus.ids.rows_of(strings(documents))
    known = np.flatnonzero(rows >= 0)
    texts = take_rows(corpus.texts, rows[known]).to_pylist()
    return dict(zip((documents[place] for place in known.tolist()), texts, strict=True))
