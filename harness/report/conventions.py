"""The page on the conventions of other tools, written from the table that the audit uses."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.conventions import ASPECTS, CONVENTIONS, HARNESS, Aspect, Convention

__all__ = ["conventions_page"]

_INTRODUCTION = """\
# What the same metric name means elsewhere

Written by `python docs/generate.py` from the table in `harness/metrics/conventions.py`, which `harness eval --audit`
[scores a run with](../how-to/find-the-convention-behind-a-number.md).

Tools that report nDCG@10 of one run can differ in how they order equal scores, what a grade is worth, and which queries
they average over. The table has what each of them does by default, read from the code of the version named below; a
value in bold differs from this package's own convention, the column *harness*.
"""

_VERIFIED = """\
## How this was checked

On random runs with equal scores, unanswered queries, identical ids, and graded, zero and negative judgments the values
are those of pytrec_eval (for trec_eval and Anserini), `EvaluateRetrieval` of beir, MTEB's retrieval evaluator,
`InformationRetrievalEvaluator.compute_metrics` of sentence-transformers and `ranx.evaluate`, up to the digits that the
library rounds to. The tests of beir and ranx run where those are installed, which this project's own test environment
does not do; they passed with the versions above. Anserini's own search was not run for this: its rules are those of its
source and of the regressions that it publishes.
"""


def conventions_page() -> str:
    """Return the whole page, as Markdown."""
    names = [HARNESS.name, *(convention.name for convention in CONVENTIONS)]
    head = [f"| aspect | {' | '.join(names)} |", f"|{' --- |' * (len(names) + 1)}"]
    rows = [f"| {aspect.title} | {' | '.join(_cells(aspect))} |" for aspect in ASPECTS]
    return "\n".join([_INTRODUCTION, *head, *rows, "", *_sections(), _VERIFIED])


def _cells(aspect: Aspect) -> Iterator[str]:
    own = getattr(HARNESS.settings, aspect.name)
    for convention in (HARNESS, *CONVENTIONS):
        value = getattr(convention.settings, aspect.name)
        text = aspect.describe(value)
        yield text if value == own else f"**{text}**"


def _sections() -> Iterator[str]:
    for convention in CONVENTIONS:
        yield f"## {convention.name}"
        yield ""
        yield f"- library: {convention.library}, version {convention.version}; decided in {convention.source}"
        yield f"- {convention.note}"
        yield from _exceptions(convention)
        if convention.decimals is not None:
            yield f"- means are rounded to {convention.decimals} digits"
        yield f"- metrics at a rank: {_names(convention.metrics)}"
        yield f"- metrics without a cutoff: {_names(convention.uncut)}"
        yield ""


def _names(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _exceptions(convention: Convention) -> Iterator[str]:
    titles = {aspect.name: aspect for aspect in ASPECTS}
    for name, changed in convention.exceptions.items():
        texts = (f"{titles[key].title} {titles[key].describe(value)}" for key, value in changed.items())
        yield f"- {name} differs: {', '.join(texts)}"
