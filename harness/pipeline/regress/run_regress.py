"""``harness.regress`` and ``harness.diff``: two results compared; the later is run now or is stored."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from harness.data.arrow import strings, take_rows
from harness.data.progress import Display
from harness.data.types import Corpus
from harness.pipeline import compare as api
from harness.pipeline.regress.common_depth import names_at, refuse_deeper
from harness.pipeline.regress.compare_sides import CompareRules, compare_rules, compare_sides, sides_of_gate
from harness.pipeline.regress.pairing import refuse_missing
from harness.pipeline.regress.read_snapshot import read_snapshots
from harness.pipeline.regress.regression import Regression, documents_of_side, without_texts
from harness.pipeline.regress.rerun import rerun_command, rerun_plan
from harness.pipeline.regress.rescoring import LABEL_FILE, check_no_grades, lines_to_label
from harness.plan.config import CompareRequest, DiffRequest, JudgedOutput, Output, RegressRequest
from harness.plan.option_fields import command_words, from_keywords, keywords_of, option_fields, require
from harness.plan.plan import Plan
from harness.results.presenters import LEFT_OUT
from harness.results.regression_schema import Change
from harness.results.schema import SCHEMA_VERSION, Result
from harness.results.schema_base import HarnessInfo, MachineInfo, PlanRecord
from harness.results.snapshot import THIS_RUN, ResultSnapshot, snapshots_of
from harness.results.stored_texts import Documents
from harness.store.environment import harness_state, machine, package_versions
from harness.store.result_folder import check_target


@keywords_of(RegressRequest, JudgedOutput)
def regress(baseline: str | Path, *, display: Display | None = None, **options: object) -> Regression:
    """Run the plan of a baseline again, with the changes that are named, and judge whether it got worse.

    Args:
        baseline: a file that ``--save-baseline`` wrote, or a result folder.
        display: where progress is shown; None shows none.
        options: as in :class:`harness.plan.config.RegressRequest`: ``backends`` replaces the plan's, ``set`` changes
            their parameters, as ``"lucene:k1=3;b=0.95"``, ``dataset`` is another state or location of the data,
            ``max_drop``, ``margin``, ``test`` … say how to judge. Any other option of :func:`harness.compare` replaces
            the plan's. With ``out`` the new result is stored there. The environment decides the engine's version.

    Raises:
        UsageError, DataError: as :func:`harness.compare`.
        ResultError: for a baseline that cannot be read, or has no query or backend in common with the new result.
    """
    fields = {**option_fields(RegressRequest), **option_fields(JudgedOutput)}
    changes = {
        name: value for name, value in options.items() if name in set(option_fields(CompareRequest)) - set(fields)
    }
    regress_options = {name: value for name, value in options.items() if name not in changes}
    request, output = from_keywords(
        "harness.regress",
        {"baseline": baseline, **regress_options},
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
    """Run and compare as :func:`regress` does, but store nothing: ``output`` is where the caller will store it."""
    require(request)
    before = read_snapshots(request.baseline)
    plan = rerun_plan(request, changes, before)
    how = compare_rules(request, plan.request.seed)
    if output.out is not None:
        check_target(output.out, overwrite=output.overwrite)
        check_no_grades(output.out / LABEL_FILE)
    sides_of_gate(before, how)  # refused before anything runs
    _refuse_unknown(before, plan, how)
    comparison = api.run(plan, display)
    corpora = {name: content.corpus for name, content in comparison.contents.items()}
    compared = compare_sides(before, snapshots_of(comparison), how, corpora)
    change = compared.change if output.keep_text else without_texts(compared.change)
    update = {"kind": "regress", "command": rerun_command(request, changes, output, plan), "change": change}
    report = comparison.report.model_copy(update=update)
    documents = {name: Documents(content.corpus, content.no_texts) for name, content in comparison.contents.items()}
    texts = _texts_to_label(change, documents) if output.keep_text else {}
    return Regression(report, comparison, lines_to_label(change, texts), compared, documents)


@keywords_of(DiffRequest, JudgedOutput)
def diff(before: str | Path, after: str | Path, **options: object) -> Regression:
    """Compare two stored results, of ``compare`` or of ``check``, without running anything.

    Args:
        before: a result folder or a baseline file.
        after: the later result.
        options: as in :class:`harness.plan.config.DiffRequest`; there is no gate without ``max_drop``. With ``out`` the
            report is stored there, and the documents of the later result are read again for its page; ``cards`` is the
            folder of its dataset's card.

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
    """Compare as :func:`diff` does, but store nothing: ``output`` is where the caller will store it.

    ``documents`` of the later result are read if its page is going to be drawn, or for labels.
    """
    require(request)
    if output.out is not None:
        check_target(output.out, overwrite=output.overwrite, runs=False)
        check_no_grades(output.out / LABEL_FILE)
    before, after = read_snapshots(request.before), read_snapshots(request.after)
    how = compare_rules(request, int(str(after[0].report.plan.resolved["seed"])))
    is_read = how.labels is not None or (documents and output.keep_text)
    later = documents_of_side(after, cards=request.cards) if is_read else {}
    compared = compare_sides(before, after, how, {name: content.corpus for name, content in later.items()})
    change = compared.change if output.keep_text else without_texts(compared.change)
    report = Result(
        schema=SCHEMA_VERSION,
        kind="diff",
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        command=["harness", "diff", *command_words(request), *command_words(output)],
        harness=HarnessInfo(**asdict(harness_state())),
        machine=MachineInfo(**asdict(machine())),
        packages=package_versions(),
        plan=PlanRecord(arguments={"before": str(request.before), "after": str(request.after)}, resolved={}),
        change=change,
    )
    regression = Regression(report, to_label=lines_to_label(change, {}), compared=compared)
    if not documents:
        return regression
    if not output.keep_text:
        return replace(regression, no_texts=LEFT_OUT)
    return replace(regression, documents=later)


def _refuse_unknown(before: Sequence[ResultSnapshot], plan: Plan, how: CompareRules) -> None:
    """Refuse names that match nothing now, not after an hour of work."""
    k = plan.request.k
    refuse_deeper(how.rules.allowed, {before[0].source: before[0].k, THIS_RUN: k})
    metrics = {name for snapshot in before for figures in snapshot.figures.values() for name in figures}
    how.rules.refuse_unknown(metrics if k == before[0].k else names_at({*metrics, *map(str, plan.measures)}, k))
    for pair in how.pairs:
        refuse_missing(pair.before, {trial.label: None for snapshot in before for trial in snapshot.report.trials})
        refuse_missing(pair.after, [trial.label for trial in plan.trials])


def _texts_to_label(change: Change, documents: Mapping[str, Documents]) -> dict[tuple[str, str], str]:
    """Return dataset and id of the documents to label -> their text, as far as it is available."""
    ids_by_dataset: dict[str, set[str]] = {}
    for backend in change.backends:
        if backend.dossier is not None:
            ids_by_dataset.setdefault(backend.dataset, set()).update(
                label.document for label in backend.dossier.to_label
            )
    return {
        (dataset, document): text
        for dataset, ids in ids_by_dataset.items()
        if (corpus := documents[dataset].corpus) is not None
        for document, text in _texts(corpus, sorted(ids)).items()
    }


def _texts(corpus: Corpus, documents: Sequence[str]) -> dict[str, str]:
    """Return the texts of some documents by id, without documents that the corpus lacks."""
    rows = corpus.ids.rows_of(strings(documents))
    positions = np.flatnonzero(rows >= 0)
    texts = take_rows(corpus.texts, rows[positions]).to_pylist()
    return dict(zip((documents[position] for position in positions.tolist()), texts, strict=True))
