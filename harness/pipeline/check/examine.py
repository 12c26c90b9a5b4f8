"""Every subject is looked at before it is scored, and one that an error was found in is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

from harness.data.golden_set import GoldenQuestion, GoldenSet
from harness.data.problems import Finding
from harness.data.ranking import TieRule
from harness.data.types import Corpus, Qrels, Run
from harness.engines.callable.answers import Answer
from harness.metrics import Measure, score
from harness.pipeline.check.id_match import Expected, Match, MatchRule, Missing
from harness.pipeline.check.near_ids import Meant, meant_by
from harness.pipeline.check.preflight import Looked, answers_of, preflight
from harness.results.check_schema import PreflightProblem
from harness.results.subject import Subject

__all__ = ["Examined", "Examiner", "missing_ids", "problem_of"]

_EXAMPLES = 20
_DIMENSIONS = "dimensions"


class Examined(NamedTuple):
    """A subject, what it is held against, and what was found before it was scored."""

    subject: Subject
    expected: Expected
    findings: tuple[Finding, ...]


@dataclass(frozen=True, eq=False)
class Examiner:
    """Looks at runs of a golden set. ``corpus`` is None where a subject has its own documents."""

    golden: GoldenSet
    match: Match
    k: int
    ties: TieRule
    expected: Expected
    corpus: Corpus | None = None
    _found: WeakKeyDictionary[Run, tuple[Finding, ...]] = field(default_factory=WeakKeyDictionary, init=False)

    def judge(self, run: Run) -> Qrels | None:
        """Judgments by which to score a run; None for one that cannot be scored."""
        findings = self.findings(run)
        return None if _errors(findings) else self._expected_of(run).judgments(run, self.ties)

    def findings(self, run: Run) -> tuple[Finding, ...]:
        """What is odd about an engine's run."""
        if run not in self._found:
            corpus = self.corpus if self.corpus is not None and run.doc_ids is self.corpus.ids else None
            documents = len(self.corpus) if self.corpus is not None else len(run.doc_ids)
            found = self._look(answers_of(run, self.golden, self.k, corpus), documents)
            if self.corpus is None:
                found = [*missing_ids(self.golden, self._expected_of(run), "the index"), *found]
            self._found[run] = tuple(found)
        return self._found[run]

    def examined(self, subject: Subject) -> Examined:
        """A backend with what was found about its run; one that :meth:`judge` refused has no scores already."""
        if subject.run is None:
            return Examined(subject, self.expected, tuple(_of_failure(subject)))
        findings = self.findings(subject.run)
        return Examined(_marked(subject, findings), self._expected_of(subject.run), findings)

    def examined_answers(
        self, subject: Subject, answers: Sequence[Answer], measures: Sequence[Measure], relevance: int
    ) -> Examined:
        """A retriever whose documents nobody knows, by its ``answers`` to all questions; scored if nothing is wrong."""
        if subject.run is None:
            return Examined(subject, self.expected, ())
        findings = tuple(self._look(list(zip(self.golden, answers, strict=True)), None))
        if not _errors(findings):
            judged = self.expected.judgments(subject.run, self.ties)
            scored = score(subject.run, judged, list(measures), ties=self.ties, relevance=relevance)
            subject = replace(subject, scores=scored)
        return Examined(_marked(subject, findings), self.expected, findings)

    def _expected_of(self, run: Run) -> Expected:
        return self.expected if self.corpus is not None else Expected(self.golden, self.match, run.doc_ids)

    def _look(self, asked: Sequence[tuple[GoldenQuestion, Answer]], documents: int | None) -> list[Finding]:
        return preflight(Looked(tuple(asked), self.k, self.ties, self.match, documents))


def missing_ids(golden: GoldenSet, expected: Expected, where: str) -> list[Finding]:
    """Expected ids that no document can meet: questions that nothing could answer rightly."""
    missing, match = expected.missing, expected.match
    if not missing:
        return []
    rule = {
        MatchRule.EXACT: "no document has the id",
        MatchRule.DOCUMENT: f"no document is called so, or so before its last '{match.delimiter}'",
        MatchRule.PREFIX: f"no document is called so, or begins so before a '{match.delimiter}'",
    }[match.rule]
    meant = Meant("", {})
    if match.rule is MatchRule.EXACT and expected.corpus_ids is not None:
        meant = meant_by(golden, [one.expectation.id for one in missing], expected.corpus_ids)
    fix = "correct the ids of the golden set, or give the corpus that it was made for"
    count = "1 expected id is" if len(missing) == 1 else f"{len(missing)} expected ids are"
    return [
        Finding(
            "missing-ids",
            "error",
            f"{count} not in {where}: {rule}",
            "; ".join(filter(None, (fix, meant.fix))),
            tuple(_unmet(golden, one, meant.nearest.get(one.expectation.id)) for one in missing[:_EXAMPLES]),
        )
    ]


def _unmet(golden: GoldenSet, one: Missing, near: str | None) -> str:
    hint = f" (did you mean '{near}'?)" if near is not None else ""
    return (
        f"{golden.source}, line {one.question.line}: question '{one.question.id}' expects '{one.expectation.id}'{hint}"
    )


def problem_of(finding: Finding, *, subject: str | None = None, corpus: str | None = None) -> PreflightProblem:
    """A finding as the report stores it."""
    return PreflightProblem(
        check=finding.check,
        subject=subject,
        corpus=corpus,
        message=finding.message,
        fix=finding.fix,
        examples=list(finding.examples),
    )


def _errors(findings: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(one.check for one in findings if one.severity == "error")


def _marked(subject: Subject, findings: Sequence[Finding]) -> Subject:
    return replace(subject, problems=_errors(findings))


def _of_failure(subject: Subject) -> list[Finding]:
    """An index that was refused because its vectors have other dimensions than the model gives."""
    error = subject.error
    if error is None or error.type != "RejectedInputError" or _DIMENSIONS not in error.message:
        return []
    what, _, fix = error.message.partition("\n")
    return [Finding("dimension", "error", what, fix.strip() or "name the model that the index was made with: model=")]
