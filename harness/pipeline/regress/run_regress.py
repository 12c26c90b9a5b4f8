"""``harness.regress``: run the plan of a baseline again, and judge whether it got worse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.data.arrow import strings, take_rows
from harness.data.progress import Display
from harness.data.types import Corpus
from harness.pipeline import compare as api
from harness.pipeline.regress.compare_sides import CompareRules, compare_sides
from harness.pipeline.regress.judging import Judging
from harness.pipeline.regress.labels import LABEL_FILE, check_no_grades, label_lines
from harness.pipeline.regress.pairing import refuse_missing
from harness.pipeline.regress.plan_again import Again
from harness.pipeline.regress.read_side import read_side
from harness.pipeline.regress.regression import Regression
from harness.pipeline.regress.stored_regression import without_texts
from harness.plan.config import Output
from harness.plan.plan import Plan
from harness.results.snapshot import ResultSnapshot, snapshots_of
from harness.store.result_folder import check_target

__all__ = ["regress", "run_regress"]


def regress(
    baseline: str | Path,
    *,
    backends: str | Sequence[str] | None = None,
    settings: Sequence[str] = (),
    dataset: str | Path | None = None,
    judging: Judging | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    no_text: bool = False,
    display: Display | None = None,
    **options: object,
) -> Regression:
    """Run the plan of a baseline again, with the changes asked for, and judge whether it got worse.

    ``baseline`` is a file that ``--save-baseline`` wrote, or a result folder. ``backends`` takes the place of the
    plan's; ``settings`` are changes of them, each as ``"lucene:k1=3;b=0.95"``; ``dataset`` is another state or place of
    the data, ``options`` replace other arguments of the plan. What a change of engine is, the environment decides. With
    ``out`` the new result and ``regression.json`` are stored there. Raises as :func:`harness.compare`, and ResultError
    for a baseline that cannot be read, or has no query or backend in common with the new result.
    """
    output = Output(out=Path(out) if out is not None else None, overwrite=overwrite, no_text=no_text)
    again = Again(Path(baseline), backends, settings, dataset, options)
    found = run_regress(again, judging or Judging(), output, display)
    return found if out is None else found.save(out, overwrite=overwrite, keep_text=not no_text)


def run_regress(again: Again, judging: Judging, output: Output, display: Display | None = None) -> Regression:
    """As :func:`regress`, and nothing is stored: ``output`` says where the caller will."""
    before = read_side(again.baseline)
    plan = again.plan(before)
    how = judging.rules(plan.request.seed)
    if output.out is not None:
        check_target(output.out, overwrite=output.overwrite)
        check_no_grades(output.out / LABEL_FILE)
    _refuse_unknown(before, plan, how)
    comparison = api.run(plan, display)
    (after,) = snapshots_of(comparison)
    compared = compare_sides("regress", before, after, how)
    report = compared.report.model_copy(update={"command": again.command(judging, output)})
    report = report if output.keep_text else without_texts(report)
    documents = {one.document for change in report.backends if change.dossier for one in change.dossier.to_label}
    corpus = comparison.corpus
    texts = _texts(corpus, sorted(documents)) if output.keep_text and corpus is not None else {}
    return Regression(report, comparison, label_lines(report, texts), compared, corpus)


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
