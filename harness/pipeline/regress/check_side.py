"""The result of ``harness check`` as a side: what it found of each question, told as a comparison tells of itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from harness.errors import ResultError
from harness.pipeline.check.id_match import MatchRule
from harness.pipeline.regress.labels import to_qrels
from harness.results import schema
from harness.results.backend_info import LabelledBackend, backend_infos
from harness.results.check_schema import CheckReport, CheckSubject, QuestionResult
from harness.results.snapshot import ResultSnapshot, text_digest
from harness.results.stored import read_stored_run

__all__ = ["check_side"]

_OF_NO_CONSEQUENCE = {"corpora", "against", "require", "confidence", "slice", "no_text"}
"""Arguments of a check that change no figure of a question, and those that the data and the backends tell of."""


def check_side(folder: Path, report: CheckReport) -> ResultSnapshot:
    """A check that was stored in ``folder`` as a side; raises ResultError for one in which nothing was scored.

    Metrics keep the names that the check shows (``Hit@5``). Judgments are what the questions expect. Where an expected
    id stands for its chunks (``--match document`` or ``prefix``), they are the chunks that were found first, and
    nothing can be scored again by them.
    """
    answered = {one.label: one for one in report.subjects if one.questions}
    if not answered:
        reason = report.preflight[0].message if report.preflight else "every retriever failed"
        raise ResultError(f"nothing was scored by the check in '{folder}': {reason}", fix="mend it, and check again")
    asked = next(iter(answered.values())).questions
    exact = report.golden.match == MatchRule.EXACT
    texts = {one.id: one.question for one in asked if one.question is not None}
    return ResultSnapshot(
        source=str(folder),
        report=_as_comparison(report, asked),
        figures={one.label: _figures(one) for one in answered.values()},
        hits=lambda label: read_stored_run(folder, report.golden.name, label) if label in answered else None,
        texts=texts,
        digests={query: text_digest(text) for query, text in texts.items()},
        qrels=to_qrels(_expected(asked) if exact else _found(answered.values())),
        kind="check",
        rescorable=exact,
    )


def _figures(subject: CheckSubject) -> dict[str, dict[str, float]]:
    """Metric to question to value, of the questions that expect something."""
    return {name: {one.id: one.values[name] for one in subject.questions if one.values} for name in subject.metrics}


def _expected(asked: Iterable[QuestionResult]) -> dict[str, dict[str, int]]:
    return {one.id: {expected.id: expected.grade for expected in one.expected} for one in asked if one.expected}


def _found(subjects: Iterable[CheckSubject]) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for question in (one for subject in subjects for one in subject.questions):
        for expected in question.expected:
            if expected.found is not None:
                grades.setdefault(question.id, {})[expected.found] = expected.grade
    return grades


def _as_comparison(report: CheckReport, asked: list[QuestionResult]) -> schema.Result:
    """What a comparison says of the same: the plan, the data, and each subject as a backend."""
    resolved = {name: value for name, value in report.settings.items() if name not in _OF_NO_CONSEQUENCE}
    resolved["timing"] = not resolved.pop("no_timing", False)
    places = report.settings.get("corpora")
    one_place = places[0].partition("=")[2] if isinstance(places, list) and len(places) == 1 else None
    trials = [_backend(report, one) for one in report.subjects]
    return schema.Result(
        schema=schema.SCHEMA_VERSION,
        created=report.created,
        kind="compare",
        command=report.command,
        harness=report.harness,
        machine=report.machine,
        packages=report.packages,
        plan=schema.PlanRecord(
            given={"dataset": one_place} if one_place is not None else {}, resolved={**resolved, "queries": "relevant"}
        ),
        datasets=[_data(report, asked)],
        backends=backend_infos([LabelledBackend(one.label, one.name, {}) for one in trials]),
        trials=trials,
    )


def _data(report: CheckReport, asked: list[QuestionResult]) -> schema.DatasetInfo:
    golden, corpora = report.golden, report.corpora
    documents = _digest(one.sha256 for one in corpora)
    expected = _digest(f"{one.id} {of.id} {of.grade}" for one in asked for of in one.expected)
    provenance = {"golden set": golden.source, **{f"corpus {one.name}": one.sha256 for one in corpora}}
    if len(corpora) == 1:
        provenance["corpus_sha256"] = corpora[0].sha256
    return schema.DatasetInfo(
        name=golden.name,
        sha256=_digest([golden.sha256, documents]),
        documents=sum(one.documents for one in corpora),
        empty_documents=sum(one.empty_documents for one in corpora),
        queries=schema.QueryCounts(searched=golden.questions, judged=golden.expecting, relevant=golden.expecting),
        judgments=sum(len(one.expected) for one in asked),
        sampled_from=None,
        filter=None,
        provenance=provenance,
        content=schema.ContentDigests(
            documents=documents, queries=_digest(f"{one.id} {one.question}" for one in asked), judgments=expected
        ),
    )


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _backend(report: CheckReport, subject: CheckSubject) -> schema.TrialResult:
    """A subject as a backend; one that preflight found something of has failed."""
    error = subject.error
    if error is None and subject.status != "ok":
        said = [one.message for one in report.preflight if one.subject == subject.label]
        error = schema.ErrorInfo(type="preflight", message="; ".join(said), log=[])
    return schema.TrialResult(
        dataset=report.golden.name,
        name=subject.backend.partition(":")[0],
        label=subject.label,
        status="ok" if error is None else "failed",
        error=error,
        engine=subject.engine,
        parameters=subject.parameters,
        parity=subject.parity,
        deterministic=subject.deterministic,
        notes=subject.notes,
    )
