"""Judge a check as test cases: one for each requirement and each question; and name the lines that are wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from harness.data.filtering import format_filter
from harness.document.cells import interval
from harness.document.model import Annotation, Case, Outcome, Suite
from harness.report.documents.regress import change_suites
from harness.results.check_schema import PreflightProblem, QuestionResult, RequirementResult
from harness.results.missed import is_missed, required_depth
from harness.results.schema import Result, TrialResult
from harness.wording import counted, value_and_id

_MAX_ANNOTATIONS = 20


def check_suites(report: Result) -> list[Suite]:
    """Return a suite for the golden set itself if it is invalid, then one for each backend."""
    facts = _facts(report)
    suites = []
    cases = []
    for problem in report.preflight:
        location = (
            report.trial_name(problem.backend, problem.dataset) if problem.backend else problem.dataset or "golden set"
        )
        cases.append(Case(problem.check, location, Outcome.ERROR, problem.message, preflight_text(report, problem)))
    if cases:
        suites.append(Suite(f"{report.golden_set.name}: preflight", cases, report.created, facts))
    for trial in report.trials:
        cases, name = list(_trial_cases(report, trial)), report.trial_name(trial.label, trial.dataset)
        engine = trial.engine
        properties = {"engine": f"{engine.name} {engine.version}"} if engine is not None else {}
        suites.append(
            Suite(f"{report.golden_set.name}: {name}", cases, report.created, facts | properties, _seconds(trial))
        )
    if report.change is not None:
        suites += change_suites(report, " against the baseline")
    return suites


def failures(report: Result) -> list[str]:
    """State for each case that did not pass the expected and the actual outcome."""
    cases = [case for suite in check_suites(report) for case in suite.cases if not case.detail]
    wrong = [Outcome.FAILURE, Outcome.ERROR]
    if report.change is not None and report.change.decision == "invalid":
        wrong.append(Outcome.SKIPPED)  # a gate that was not judged
    return [f"{case.name} [{case.classname}]: {case.text}" for case in cases if case.outcome in wrong]


def baseline_case(report: Result, trial: TrialResult) -> Case:
    """Return the case of a trial compared with the baseline, which sums up its metrics."""
    if trial.error is not None:
        return trial_error(report, trial)
    name = report.trial_name(trial.label, trial.dataset)
    if report.change is None:
        reason = "the check scored nothing to compare with the baseline"
        return Case("baseline", name, Outcome.ERROR, reason, reason)
    several = report.change.several
    names = {f"{f'{trial.dataset}: ' if several else ''}{trial.label}"}
    cases = [case for suite in change_suites(report) if suite.name in names for case in suite.cases]
    if not cases:
        reason = "the baseline has no such backend"
        return Case("baseline", name, Outcome.SKIPPED, reason, reason)
    for outcome in (Outcome.ERROR, Outcome.FAILURE, Outcome.SKIPPED):
        of_outcome = [case for case in cases if case.outcome is outcome]
        if of_outcome:
            invalid = outcome is Outcome.SKIPPED and report.change.when_not_judged == "invalid"
            text = "\n".join(dict.fromkeys(case.text for case in of_outcome))
            return Case("baseline", name, Outcome.ERROR if invalid else outcome, of_outcome[0].message, text)
    return Case("baseline", name)


def requirement_case(report: Result, required: RequirementResult) -> Case:
    """Return a requirement's case: a failure names the figure and its questions, an error why there is no figure.

    Its time is the time of running the questions, which the requirements of a trial share.
    """
    trial = report.trial(required.backend, required.dataset)
    name = report.trial_name(trial.label, trial.dataset)
    if required.passed is None:
        reason = required.reason or "it could not be judged"
        trouble = [trial_error(report, trial).text] if trial.error is not None else []
        return Case(required.text, name, Outcome.ERROR, reason, "\n".join([reason, *trouble]))
    if required.passed:
        return Case(required.text, name, seconds=_seconds(trial))
    message = verdict_in_words(required)
    lines = [f"{required.text} failed on {name}: {message}", *_missed_lines(trial, required)]
    return Case(required.text, name, Outcome.FAILURE, message, "\n".join(lines), _seconds(trial))


def question_case(
    report: Result, trial: TrialResult, question: QuestionResult, depths: Mapping[str, int] | None = None
) -> Case:
    """Return the case of a question, which passes when a document that it expects is among the hits that count.

    These are the first hits that the failed requirements on the question look at, as ``depths`` of the trial has them,
    or else all hits. Documents that only a model labelled as relevant count on request (``--count-model-labels``).
    A question that expects nothing passes when no hit is above the answer threshold; without one it is skipped.
    """
    if not report.plan.resolved.get("count_model_labels"):
        question = question.model_copy(update={"expected": [one for one in question.expected if not one.by_model]})
    expected_documents = [expected for expected in question.expected if expected.grade >= report.golden_set.relevance]
    depth = (_depths(report, trial) if depths is None else depths).get(question.id, int(str(report.plan.resolved["k"])))
    outcome, message, text = Outcome.PASSED, "", ""
    if question.failed:
        outcome, message = Outcome.ERROR, "the backend failed: it gave no answer"
        text = message
    elif not expected_documents and question.above_threshold is None:
        outcome, message = Outcome.SKIPPED, "it expects nothing"
    elif not expected_documents and question.above_threshold:
        message = "nothing answers it, and a hit has a score above the answer threshold"
        outcome, text = Outcome.FAILURE, f"{message}\n{_question_line(question)}"
    elif is_missed(question, report.golden_set.relevance, depth):
        message = f"no expected document is among the first {depth} hits"
        outcome, text = Outcome.FAILURE, f"{message}\n{_question_line(question)}"
    seconds, name = (question.milliseconds or 0.0) / 1000, report.trial_name(trial.label, trial.dataset)
    return Case(question.id, name, outcome, message, text, seconds, detail=True)


def trial_error(report: Result, trial: TrialResult) -> Case:
    """Return the case of a trial that has no answers, with the last lines that it wrote."""
    message, log = (trial.error.message, trial.error.log) if trial.error is not None else ("it has no answers", [])
    name = report.trial_name(trial.label, trial.dataset)
    return Case("answers questions", name, Outcome.ERROR, message, "\n".join([message, *log]))


def problem_headline(report: Result, problem: PreflightProblem) -> str:
    """State the problem and its backend."""
    if problem.backend is None:
        return problem.message
    return f"{report.trial_name(problem.backend, problem.dataset)}: {problem.message}"


def preflight_text(report: Result, problem: PreflightProblem) -> str:
    """State the problem and its subject, the first examples, and the fix."""
    examples = [f"  {example}" for example in problem.examples]
    return "\n".join([problem_headline(report, problem), *examples, problem.fix])


def _trial_requirements(report: Result, trial: TrialResult) -> list[RequirementResult]:
    """Return the requirements that a trial is held to."""
    name = trial.dataset, trial.label
    return [required for required in report.requirements if (required.dataset, required.backend) == name]


def _trial_cases(report: Result, trial: TrialResult) -> Iterator[Case]:
    requirements = _trial_requirements(report, trial)
    yield from (requirement_case(report, required) for required in requirements)
    if trial.error is not None and not requirements:
        yield trial_error(report, trial)
    if trial.status != "invalid":  # its answers mean nothing
        blamed = {
            name for required in requirements if required.passed is False for name in required.questions_below_best
        }
        depths = _depths(report, trial)
        for question in trial.questions:
            case = question_case(report, trial, question, depths)
            missed = case.outcome is Outcome.FAILURE and question.id not in blamed
            yield _allowed_miss(case, requirements) if missed else case


def _depths(report: Result, trial: TrialResult) -> dict[str, int]:
    """Return how many first hits count for each question of a failed requirement that looks at hits."""
    depths: dict[str, int] = {}
    for required in _trial_requirements(report, trial):
        depth = required_depth(report, required) if required.passed is False else None
        if depth is not None:
            for name in required.questions_below_best:
                depths[name] = min(depth, depths.get(name, depth))
    return depths


def _allowed_miss(case: Case, requirements: Sequence[RequirementResult]) -> Case:
    """Return the case of a question that was missed as a skipped one: no failed requirement is about it."""
    if not requirements:
        reason = "nothing is required"
    elif all(required.passed for required in requirements):
        reason = "the requirements are met"
    else:
        reason = "no requirement that failed is about it"
    return replace(case, outcome=Outcome.SKIPPED, message=f"{case.message}; {reason}", text=f"{case.text}\n{reason}")


def _seconds(trial: TrialResult) -> float:
    """Return how long the questions took, all passes together; 0 if no times were taken."""
    times = trial.milliseconds
    return times.n * times.mean / 1000 if times is not None else 0.0


def _facts(report: Result) -> dict[str, str]:
    golden, settings = report.golden_set, report.plan.resolved
    facts = {
        "harness": report.harness.version,
        "golden": golden.source,
        "golden.sha256": golden.sha256,
        "questions": str(golden.questions),
        "questions.evaluated": str(golden.evaluated),
        "k": str(settings["k"]),
        "ties": str(settings["ties"]),
        "match": golden.match,
    }
    if golden.delimiter is not None:
        facts["match.delimiter"] = golden.delimiter
    return facts | {f"corpus.{corpus.name}": f"{counted(corpus.documents, 'document')}" for corpus in report.corpora}


def verdict_in_words(required: RequirementResult) -> str:
    """Return the figure of a judged requirement, and the changes needed for it to pass."""
    digits = 3 if required.quantity.endswith("_ms") else 4
    message = f"it is {required.value:,.{digits}f}" if required.value is not None else "there is no value"
    message += f"{_brackets(required, digits)} over {required.n:,}"
    if required.decided_by != "estimate":
        message += ", and a bound of the interval decides"
    if required.flips is None:
        best = "" if required.best_possible is None else f": a perfect backend would reach {required.best_possible:.4f}"
        return f"{message}; nothing can meet it{best}{_too_few(required)}"
    unit = "sample" if required.best_possible is None else "question"
    return f"{message}; {counted(required.flips, unit)} would have to change for it to pass"


def _brackets(required: RequirementResult, digits: int) -> str:
    between = interval(required.ci_low, required.ci_high, f",.{digits}f")
    parts = [f"95 % interval {between}"] if between else []
    if required.min is not None and required.max is not None and f"{required.min:.4f}" != f"{required.max:.4f}":
        parts.append(f"ties leave {interval(required.min, required.max, f',.{digits}f')}")
    return f" ({', '.join(parts)})" if parts else ""


def _too_few(required: RequirementResult) -> str:
    """Explain that the estimate could meet the bound, but no bound of an interval over this few questions."""
    if required.decided_by == "estimate":
        return ""
    if required.n < 2:
        return ", and an interval needs 2 values"
    metric_text = (
        required.best_possible is not None
        and required.operator.startswith(">")
        and required.best_possible >= required.bound
    )
    return ", but so few questions cannot show it" if metric_text else ""


def _missed_lines(trial: TrialResult, required: RequirementResult) -> list[str]:
    """Return the questions behind a failed requirement, worst first: the expected and the returned documents."""
    by_id = {question.id: question for question in trial.questions}
    lines = [_question_line(by_id[name]) for name in required.questions_below_best[:_MAX_ANNOTATIONS]]
    if len(required.questions_below_best) > _MAX_ANNOTATIONS:
        lines.append(f"… and {len(required.questions_below_best) - _MAX_ANNOTATIONS:,} more, in report.json")
    return lines


def _question_line(question: QuestionResult) -> str:
    question_text = f" {question.question!r}" if question.question is not None else ""
    question_text += f" [{format_filter(question.filter)}]" if question.filter else ""
    expected, returned = expected_and_returned(question)
    return f"{question.id}{question_text}: expected {', '.join(expected)}; found {', '.join(returned)}"


def hit_names(question: QuestionResult) -> list[str]:
    """Return the id of each hit, after the value that is compared in place of it."""
    values = question.top_values or [None] * len(question.top)
    return list(map(value_and_id, values, question.top))


def expected_and_returned(
    question: QuestionResult, short: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[str], list[str]]:
    """Return each id that a question expects with its rank, and the ids that came back; ``short`` shortens ids.

    A hit is named by the value that is compared in place of its id, too.
    An id that did not come back has its rank in the exact ranking, if it is known. Alternatives are in one text;
    forbidden hits are marked.
    """
    groups: dict[str | int, list[str]] = {}
    for expected in question.expected:
        exact = f", exact rank {expected.reference_rank}" if expected.reference_rank is not None else ""
        rank = f"not found{exact}" if expected.rank is None else f"rank {expected.rank}"
        alternatives = groups.setdefault(expected.id if expected.group is None else expected.group, [])
        alternatives.append(f"{short.get(expected.id, expected.id)} ({rank})")
    returned = [
        f"{short.get(name, name)}{' (forbidden)' if doc in question.forbidden_hits else ''}"
        for doc, name in zip(question.top, hit_names(question), strict=True)
    ]
    return list(map(" or ".join, groups.values())), returned or ["nothing"]


def check_annotations(report: Result) -> list[Annotation]:
    """Return the problems: invalid data, failed requirements, then the golden lines behind them, each once."""
    made = [Annotation(f"invalid: {problem.check}", preflight_text(report, problem)) for problem in report.preflight]
    made += [
        annotation
        for problem in report.preflight
        for annotation in _line_annotations(problem, report.golden_set.source)
    ]
    made += [
        Annotation(f"{report.trial_name(trial.label, trial.dataset)} failed", trial.error.message)
        for trial in report.trials
        if trial.error is not None
    ]
    for required in report.requirements:
        name = report.trial_name(required.backend, required.dataset)
        if required.passed is False:
            made.append(Annotation(f"{required.text} failed on {name}", verdict_in_words(required)))
        elif required.passed is None:
            made.append(Annotation(f"{required.text} could not be judged on {name}", str(required.reason)))
    return [*made, *_missed_questions(report)]


def _line_annotations(problem: PreflightProblem, source: str) -> Iterator[Annotation]:
    """Yield a problem's examples that name a line of the golden set."""
    for example in problem.examples:
        match = re.match(r", line (\d+): ", example.removeprefix(source)) if example.startswith(source) else None
        if match is not None:
            message = example.removeprefix(source)[match.end() :]
            yield Annotation(f"invalid: {problem.check}", message, int(match[1]))


def _missed_questions(report: Result) -> Iterator[Annotation]:
    """Yield the questions of failed requirements, in the order of the file, with every backend that missed them."""
    lines: dict[tuple[int, str], list[str]] = {}
    for trial in report.trials:
        missed = {
            question for required in _trial_requirements(report, trial) for question in required.questions_below_best
        }
        name = report.trial_name(trial.label, trial.dataset)
        for question in trial.questions:
            if question.id in missed:
                messages = lines.setdefault((question.line, question.id), [])
                messages.append(f"{name}: {_question_line(question)}")
    for (line, question_id), messages in sorted(lines.items()):
        yield Annotation(f"question {question_id}", "\n".join(messages), line)
