"""A check as test cases: one for each requirement, and one for each question where that is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from harness.report.check_tables import expected_and_found, missed_lines, verdict_in_words
from harness.report.junit import Case, Outcome, Suite
from harness.results.check_schema import (
    CheckReport,
    CheckSubject,
    PreflightProblem,
    QuestionResult,
    RequirementResult,
)
from harness.wording import counted

__all__ = ["check_suites", "failures", "preflight_text", "question_case", "requirement_case", "subject_error"]

_SHOWN = 20


def check_suites(report: CheckReport, *, per_question: bool = False) -> list[Suite]:
    """One suite for the golden set itself where it is invalid, then one for each subject."""
    facts = _facts(report)
    suites = []
    if report.preflight:
        cases = [_preflight_case(problem) for problem in report.preflight]
        suites.append(Suite(f"{report.golden.name}: preflight", cases, report.created, facts))
    for subject in report.subjects:
        cases = list(_subject_cases(report, subject, per_question=per_question))
        engine = subject.engine
        own = {"engine": f"{engine.name} {engine.version}"} if engine is not None else {}
        suites.append(
            Suite(f"{report.golden.name}: {subject.label}", cases, report.created, facts | own, _seconds(subject))
        )
    return suites


def failures(report: CheckReport) -> list[str]:
    """Say of each case that did not pass what was expected and what was found."""
    cases = [case for suite in check_suites(report) for case in suite.cases]
    return [f"{case.name} [{case.classname}]: {case.text}" for case in cases if case.outcome is not Outcome.PASSED]


def requirement_case(report: CheckReport, one: RequirementResult) -> Case:
    """A requirement: a failure says the figure and the questions behind it, an error why there is no figure.

    Its time is that of asking the questions, which the requirements of a subject share.
    """
    if one.passed is None:
        reason = one.reason or "it could not be judged"
        trouble = [
            subject_error(subject).text for subject in report.subjects if subject.label == one.subject and subject.error
        ]
        return Case(one.text, one.subject, Outcome.ERROR, reason, "\n".join([reason, *trouble]))
    subject = next(subject for subject in report.subjects if subject.label == one.subject)
    if one.passed:
        return Case(one.text, one.subject, seconds=_seconds(subject))
    said = verdict_in_words(one)
    lines = [f"{one.text} failed on {one.subject}: {said}", *missed_lines(subject, one, _SHOWN)]
    return Case(one.text, one.subject, Outcome.FAILURE, said, "\n".join(lines), _seconds(subject))


def question_case(report: CheckReport, subject: CheckSubject, question: QuestionResult) -> Case:
    """A question: it passes when something that it expects is among the hits; one that expects nothing is skipped."""
    wanted = [one for one in question.expected if one.grade >= report.golden.relevance]
    seconds = (question.milliseconds or 0.0) / 1000
    if question.failed:
        message = "the retriever failed: it gave no answer"
        return Case(question.id, subject.label, Outcome.ERROR, message, message, seconds)
    if not wanted:
        return Case(question.id, subject.label, Outcome.SKIPPED, "it expects nothing", seconds=seconds)
    if any(one.rank is not None for one in wanted):
        return Case(question.id, subject.label, seconds=seconds)
    message = f"nothing that is expected is among the first {report.settings['k']} hits"
    told = f"{message}\n{expected_and_found(question)}"
    return Case(question.id, subject.label, Outcome.FAILURE, message, told, seconds)


def subject_error(subject: CheckSubject) -> Case:
    """A subject that has no answers, and the last lines that it wrote."""
    message = subject.error.message if subject.error is not None else "it has no answers"
    return Case("answers questions", subject.label, Outcome.ERROR, message, "\n".join([message, *_log(subject)]))


def preflight_text(problem: PreflightProblem) -> str:
    """What is wrong and with whom, the first of the things it is about, and what to do."""
    about = f"{problem.subject}: " if problem.subject is not None else ""
    return "\n".join([f"{about}{problem.message}", *(f"  {example}" for example in problem.examples), problem.fix])


def _subject_cases(report: CheckReport, subject: CheckSubject, *, per_question: bool) -> Iterator[Case]:
    required = [one for one in report.requirements if one.subject == subject.label]
    yield from (requirement_case(report, one) for one in required)
    if subject.error is not None and not required:
        yield subject_error(subject)
    if per_question and subject.status != "invalid":  # its answers mean nothing
        yield from (question_case(report, subject, question) for question in subject.questions)


def _preflight_case(problem: PreflightProblem) -> Case:
    classname = problem.subject or problem.corpus or "golden set"
    return Case(problem.check, classname, Outcome.ERROR, problem.message, preflight_text(problem))


def _seconds(subject: CheckSubject) -> float:
    """Return how long the questions took, all passes together; 0 where no times were taken."""
    times = subject.milliseconds
    return times.n * times.mean / 1000 if times is not None else 0.0


def _log(subject: CheckSubject) -> list[str]:
    return subject.error.log if subject.error is not None else []


def _facts(report: CheckReport) -> dict[str, str]:
    golden, settings = report.golden, report.settings
    facts = {
        "harness": report.harness.version,
        "golden": golden.source,
        "golden.sha256": golden.sha256,
        "questions": str(golden.questions),
        "questions.expecting": str(golden.expecting),
        "k": str(settings["k"]),
        "ties": str(settings["ties"]),
        "match": golden.match,
    }
    if golden.delimiter is not None:
        facts["match.delimiter"] = golden.delimiter
    return facts | {f"corpus.{corpus.name}": f"{counted(corpus.documents, 'document')}" for corpus in report.corpora}
