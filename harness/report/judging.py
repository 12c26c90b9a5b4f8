"""``harness.judge``: a page on which people judge the documents that decide a stored comparison, as one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.data.arrow import strings, take_rows
from harness.data.labels import (
    WITHOUT_EFFECT,
    labels_by_dataset,
    labels_of_result,
    read_labels,
    refuse_foreign,
    settle,
    with_labels,
    without_effect,
)
from harness.data.problems import Finding
from harness.data.ranking import TieRule
from harness.data.texts import text_digest
from harness.errors import UsageError
from harness.metrics import counts_forbidden, parse_metric
from harness.pipeline.check.requirements import display_name
from harness.pipeline.read_result import read_result
from harness.pipeline.regress.regression import Regression
from harness.plan.config import JudgeRequest
from harness.plan.option_fields import from_keywords, is_set, keywords_of, require
from harness.report.html.render import render_judging
from harness.report.presenting import explorers_of
from harness.report.rankings.explorer import Explorer, judging_facts
from harness.report.rankings.judging_pool import JudgingPool, PoolRules, judging_pool
from harness.results.schema import Result
from harness.user_path import user_path
from harness.wording import counted

if TYPE_CHECKING:
    from harness.pipeline.check.checked import CheckResult
    from harness.results.comparison import Comparison

_TEXT_LENGTH = 20_000
"""Characters of a document's text that the page holds: its digest is of the whole text."""


@dataclass(frozen=True, eq=False)
class JudgingPage:
    """A page to judge documents on: the result of ``harness.judge``.

    ``html`` is the page as one file, ``pool`` the documents on it, ``settled`` what is known of the number of labels
    that settle the comparison; ``findings`` are warnings about the labels that were given.
    """

    html: str = field(repr=False)
    pool: JudgingPool = field(repr=False)
    findings: Sequence[Finding] = field(default=(), repr=False)

    @property
    def documents(self) -> int:
        """The number of documents to judge."""
        return sum(len(query.documents) for query in self.pool.queries)

    @property
    def settled(self) -> str:
        """What is known of the number of labels that settle the comparison."""
        return " ".join(self.pool.settled)

    def save(self, path: str | Path) -> Path:
        """Write the page as a file, and return its path."""
        target = user_path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.html, encoding="utf-8")
        return target


@keywords_of(JudgeRequest)
def judge(result: str | Path | Comparison | CheckResult | Regression, **options: object) -> JudgingPage:
    """Return the page on which people judge documents of a stored result; the command ``harness judge`` is this call.

    Args:
        result: a result of compare, check, regress or diff that is stored, or its folder.
        options: as in :class:`harness.plan.config.JudgeRequest`; with ``page`` the page is also written there.

    Raises:
        UsageError: for wrong options, a result without texts, and if nothing is left to judge.
        ResultError: for a result that cannot be read.
    """
    folder = getattr(result, "folder", result)
    if folder is None:
        raise UsageError("the result is not stored", fix="store it first: result.save(FOLDER)")
    (request,) = from_keywords("harness.judge", {"result": folder, **options}, JudgeRequest)
    for names, fix in (
        (("model", "prompt", "max_calls", "write_labels"), "grade with harness.grade_documents(model, result)"),
        (("agreement",), "compare labels with harness.agreement(first, second)"),
    ):
        if keywords := [f"{name}=" for name in names if is_set(request, name)]:
            raise UsageError(f"{', '.join(keywords)} {'is' if len(keywords) == 1 else 'are'} not for a page", fix=fix)
    page = judging_page(request)
    if request.page is not None:
        page.save(request.page)
    return page


def judging_page(request: JudgeRequest) -> JudgingPage:
    """Make the page as :func:`judge` does, but store nothing."""
    require(request)
    report, made_by, explorers, findings = rankings_to_judge(request)
    pool = judging_pool(explorers, pool_rules(request, report, explorers))
    if not pool.pooled:
        raise UsageError("no backend returned a document, so nothing can be judged", fix="judge another result")
    if not pool.queries:
        raise UsageError(
            f"all {counted(pool.pooled, 'document')} among the first {request.depth} hits are judged",
            fix="raise --depth, or judge another result",
        )
    content = _content(explorers, pool, report, made_by)
    documents = sum(len(query.documents) for query in pool.queries)
    name = report.golden.name if report.golden is not None else ", ".join(content["datasets"])
    facts = {
        "title": f"Judge {counted(documents, 'document')} of {name}",
        "subtitle": f"{counted(len(pool.queries), 'query')}. Which backend returned a document is not shown.",
        "notes": _notes(request, pool, documents),
        "made_by": made_by,
    }
    return JudgingPage(render_judging(content, facts), pool, findings)


class RankingsToJudge(NamedTuple):
    """A stored result, the rankings of its datasets with people's judgments, and warnings about later labels."""

    report: Result
    made_by: str
    explorers: Sequence[Explorer]
    findings: Sequence[Finding]


def rankings_to_judge(request: JudgeRequest, *, models: bool = True) -> RankingsToJudge:
    """Return the rankings of a result with people's judgments and the labels of ``request``.

    Documents to which only a model gave a grade in the result are not judged; without ``models``, its labels do not
    count either. Raises UsageError for a result that cannot be judged, and labels of other datasets, DataError for
    labels of documents that the dataset lacks.
    """
    result = read_result(request.result, request.cards)
    made_by, explorers = explorers_of(result, keep_text=True)
    report, findings = result.report, list[Finding]()
    for explorer in explorers:
        if explorer.unjudgeable:
            raise UsageError(explorer.unjudgeable, fix="check each corpus separately")
    explorers = [replace(one, qrels=None if one.qrels is None else one.qrels.by_people) for one in explorers]
    if request.labels is not None:
        names = [*(info.name for info in report.datasets), *([report.golden.name] if report.golden is not None else [])]
        datasets = [one.dataset or names[0] for one in explorers]
        aliases = names if len(datasets) == 1 else ()
        compared = result.compared if isinstance(result, Regression) else None
        scored = report if compared is None else compared.datasets[0].after.report
        labels = labels_by_dataset(read_labels(request.labels), datasets, aliases)
        for number, (dataset, explorer) in enumerate(zip(datasets, explorers, strict=True)):
            of_dataset = [one for one in labels[dataset] if models or one.model is None]
            settled = settle(of_dataset, explorer.corpus)
            findings += settled.findings
            if foreign := without_effect(settled.grades, explorer.query_ids, "in the result"):
                findings.append(Finding(WITHOUT_EFFECT, "warning", foreign, "give labels of the queries in the result"))
            if explorer.corpus is not None and not explorer.returned:
                refuse_foreign(settled.grades, documents=explorer.corpus.ids)
            earlier = labels_of_result(scored.plan.resolved, (dataset, *aliases))
            explorers[number] = replace(explorer, qrels=with_labels(explorer.qrels, settled, earlier))
    return RankingsToJudge(report, made_by, explorers, findings)


def pool_rules(request: JudgeRequest, report: Result, explorers: Sequence[Explorer]) -> PoolRules:
    """Return how documents are chosen; raises as :func:`harness.metrics.parse_metric` for an unknown metric."""
    resolved = report.plan.resolved
    rules = PoolRules(request.depth, request.budget, request.seed, TieRule(str(resolved.get("ties", "trec_eval"))))
    is_rescorable = report.golden is None or report.golden.match == "exact"
    names = [request.metric] if request.metric is not None else list(explorers[0].metrics if explorers else ())
    for name, metric in ((name, parse_metric(name)) for name in names):
        if is_rescorable and not counts_forbidden(metric):
            return rules._replace(metric=metric, alias=display_name(name, metric))
    return rules


def _content(explorers: Sequence[Explorer], pool: JudgingPool, report: Result, made_by: str) -> dict[str, Any]:
    """Return the data of the page; raises UsageError for a document whose text is not known."""
    of_check = report.kind == "check"
    texts = [
        texts_of(explorer, chain.from_iterable(one.documents for one in pool.queries if one.dataset == number))
        for number, explorer in enumerate(explorers)
    ]
    words = [dict(zip(explorer.query_ids, explorer.query_texts(), strict=True)) for explorer in explorers]
    queries = [
        {
            "dataset": "" if of_check else explorers[query.dataset].dataset,
            "id": query.query,
            "text": words[query.dataset][query.query],
            "documents": [_document(document, texts[query.dataset][document]) for document in query.documents],
        }
        for query in pool.queries
    ]
    return {
        **(judging_facts(explorers, made_by, " ".join(report.command)) or {}),
        "datasets": [info.name for info in report.datasets] or [report.golden.name if report.golden else ""],
        "relevance": explorers[0].relevance,
        "queries": queries,
    }


def texts_of(explorer: Explorer, documents: Iterable[str]) -> Mapping[str, str]:
    """Return the texts of documents by id; raises UsageError for a document whose text is not known."""
    ids = list(dict.fromkeys(documents))
    if not ids:
        return {}
    rows = explorer.corpus.ids.rows_of(strings(ids)) if explorer.corpus is not None else None
    if explorer.corpus is None or rows is None or (rows < 0).any():
        reason = explorer.no_texts or "some documents are in no corpus, and were returned without texts"
        fix = "put the data back where they were, or make the result again"
        raise UsageError(f"documents cannot be judged without their texts: {reason}", fix=fix)
    return dict(zip(ids, take_rows(explorer.corpus.texts, rows).to_pylist(), strict=True))


def _document(doc_id: str, text: str) -> dict[str, Any]:
    is_cut = len(text) > _TEXT_LENGTH
    return {"id": doc_id, "text": text[:_TEXT_LENGTH], "digest": text_digest(text), "cut": is_cut}


def _notes(request: JudgeRequest, pool: JudgingPool, documents: int) -> list[str]:
    unjudged = pool.pooled - pool.judged
    return [
        (
            f"The first {request.depth} hits of every backend are {counted(pool.pooled, 'document')}, once a query: "
            f"{pool.judged:,} are judged, {unjudged:,} are not, and {documents:,} of these are here (--budget)."
        ),
        (
            "Documents whose label can move a difference between backends most are here first, query by query; the "
            f"documents of a query are in an order drawn with seed {request.seed}."
        ),
        *pool.settled,
    ]
