"""Read one of two results from wherever the user says that it is: a result folder of any verb, or a baseline file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from harness.errors import ResultError
from harness.pipeline.check.id_match import MatchRule
from harness.pipeline.regress.labels import to_qrels
from harness.results.baseline import read_baseline
from harness.results.check_schema import QuestionResult
from harness.results.schema import ContentDigests, DatasetInfo, ErrorInfo, PlanRecord, Result, TrialResult
from harness.results.snapshot import ResultSnapshot, stored_snapshots, text_digest
from harness.results.stored import FORMER_CHANGE, read_report, read_stored_run
from harness.store.result_folder import REPORT_NAME

__all__ = ["read_snapshots"]

_OF_NO_CONSEQUENCE = {"corpora", "against", "require", "confidence", "slice", "no_text", "notes"}
"""Settings of a check that change no figure of a question, and those that the data and the backends tell of."""


def read_snapshots(path: Path) -> list[ResultSnapshot]:
    """Read a result folder of ``compare`` or ``check``, its ``report.json``, or a baseline file, by dataset.

    A check is one dataset, whatever its corpora are.

    Raises ResultError where it is none of them, damaged, or of a newer schema.
    """
    folder = path.parent if path.name == REPORT_NAME else path
    if not folder.is_dir():
        return read_baseline(folder)
    if not (folder / REPORT_NAME).exists() and (folder / FORMER_CHANGE).exists():
        raise _only_a_change(folder)
    result = read_report(folder)
    if result.kind == "diff":
        raise _only_a_change(folder)
    return [_of_check(folder, result)] if result.kind == "check" else stored_snapshots(folder, result)


def _only_a_change(folder: Path) -> ResultError:
    return ResultError(
        f"'{folder}' holds what `harness diff` found, and no result of its own",
        fix="name one of the two results that it compared",
    )


def _of_check(folder: Path, result: Result) -> ResultSnapshot:
    """Return a check that was stored in ``folder``; raises ResultError for one in which nothing was scored.

    Metrics keep the names that the check shows (``Hit@5``). Judgments are what the questions expect. Where an expected
    id stands for its chunks (``--match document`` or ``prefix``), they are the chunks that were found first, and
    nothing can be scored again by them.
    """
    answered = {one.label: one for one in result.trials if one.questions}
    if not answered:
        reason = result.preflight[0].message if result.preflight else "every backend failed"
        raise ResultError(f"nothing was scored by the check in '{folder}': {reason}", fix="mend it, and check again")
    asked = next(iter(answered.values())).questions
    exact = result.golden is not None and result.golden.match == MatchRule.EXACT
    texts = {one.id: one.question for one in asked if one.question is not None}

    return ResultSnapshot(
        source=str(folder),
        report=_on_one_dataset(result),
        figures={one.label: _figures(one) for one in answered.values()},
        hits=lambda label: read_stored_run(folder, answered[label].dataset, label) if label in answered else None,
        texts=texts,
        digests={query: text_digest(text) for query, text in texts.items()},
        qrels=to_qrels(_expected(asked) if exact else _first_hits(answered.values())),
        kind="check",
        rescorable=exact,
    )


def _figures(trial: TrialResult) -> dict[str, dict[str, float]]:
    """Return metric to question to value, of the questions that expect something."""
    return {name: {one.id: one.values[name] for one in trial.questions if one.values} for name in trial.metrics}


def _expected(asked: Iterable[QuestionResult]) -> dict[str, dict[str, int]]:
    return {one.id: {expected.id: expected.grade for expected in one.expected} for one in asked if one.expected}


def _first_hits(trials: Iterable[TrialResult]) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for question in (one for trial in trials for one in trial.questions):
        for expected in question.expected:
            if expected.found is not None:
                grades.setdefault(question.id, {})[expected.found] = expected.grade
    return grades


def _on_one_dataset(result: Result) -> Result:
    """Return a check with all its corpora as one dataset, named as the golden set: the questions are the same."""
    settings = {name: value for name, value in result.plan.resolved.items() if name not in _OF_NO_CONSEQUENCE}
    settings["timing"] = not settings.pop("no_timing", False)
    places = result.plan.resolved.get("corpora")
    one_place = places[0].partition("=")[2] if isinstance(places, list) and len(places) == 1 else None
    dataset = _joined(result)
    return result.model_copy(
        update={
            "plan": PlanRecord(
                given={"dataset": one_place} if one_place is not None else {},
                resolved={**settings, "queries": "relevant"},
            ),
            "datasets": [dataset],
            "trials": [_scored_or_failed(result, trial, dataset.name) for trial in result.trials],
        }
    )


def _joined(result: Result) -> DatasetInfo:
    """Join the corpora of a check that hold documents; where there are none, backends have documents of their own."""
    corpora = [one for one in result.datasets if one.documents] or result.datasets[:1]
    first, contents = corpora[0], [one.content for one in corpora if one.content is not None]
    documents = hashlib.sha256("\n".join(one.documents for one in contents).encode()).hexdigest()
    provenance = first.provenance if len(corpora) == 1 else {f"corpus {one.name}": one.sha256 for one in corpora}
    update = {
        "name": result.golden.name if result.golden is not None else first.name,
        "sha256": hashlib.sha256("\n".join(one.sha256 for one in corpora).encode()).hexdigest(),
        "documents": sum(one.documents for one in corpora),
        "empty_documents": sum(one.empty_documents for one in corpora),
        "provenance": provenance,
        "content": ContentDigests(documents=documents, queries=contents[0].queries, judgments=contents[0].judgments)
        if contents
        else None,
    }
    return first.model_copy(update=update)


def _scored_or_failed(result: Result, trial: TrialResult, dataset: str) -> TrialResult:
    """Return a trial on the joined dataset; one that preflight refused has failed."""
    error = trial.error
    if error is None and trial.status != "ok":
        said = [one.message for one in result.preflight if one.backend == trial.label]
        error = ErrorInfo(type="preflight", message="; ".join(said), log=[])
    status = "ok" if error is None else "failed"
    return trial.model_copy(
        update={"dataset": dataset, "error": error, "status": status, "questions": [], "slices": []}
    )
