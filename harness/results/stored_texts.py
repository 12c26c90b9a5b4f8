"""Documents of stored results: no result holds them, so they are read again from their source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.data.columns import parse_columns
from harness.data.dataset import DatasetFiles
from harness.data.types import Corpus
from harness.errors import HarnessError
from harness.loaders import load_corpus
from harness.results.comparison import Comparison
from harness.results.schema import Result


class Documents(NamedTuple):
    """The documents of a stored result; if they are unavailable, ``corpus`` is None and ``no_texts`` says why."""

    corpus: Corpus | None
    no_texts: str


def with_documents(comparison: Comparison, *, cards: Path | None = None) -> Comparison:
    """Return a stored comparison with the documents that it searched, if its datasets can still be found.

    If a dataset has moved, is not known by its name, or holds other documents now, ``no_texts`` says so. A result whose
    texts of queries were left out (``--no-text``) gets no texts of documents either.
    """
    contents = dict(comparison.contents)
    for name, content in contents.items():
        if content.queries is None:
            reason = "Texts of documents are not in this file: the result was stored without texts."
            contents[name] = replace(content, no_texts=reason)
        else:
            documents = documents_of(comparison.report.on(name), cards=cards)
            contents[name] = replace(content, corpus=documents.corpus, no_texts=documents.no_texts)
    return replace(comparison, contents=contents)


def documents_of(report: Result, *, cards: Path | None = None) -> Documents:
    """Return the documents that a stored comparison or check searched, from its dataset's path or name."""
    info, plan = report.dataset, report.plan
    if report.kind == "check":
        corpora = plan.resolved.get("corpora")
        corpus_by_name = dict(str(corpus).split("=", 1) for corpus in corpora) if isinstance(corpora, list) else {}
        sources = [corpus_by_name.get(info.name), plan.arguments.get("dataset")]
    else:
        sources = [plan.arguments.get("dataset"), info.provenance.get("path"), info.name]
    columns = str(plan.arguments.get("columns") or plan.resolved.get("columns") or "")
    reasons = []
    for source in dict.fromkeys(str(source) for source in sources if source is not None):
        try:
            files = DatasetFiles(columns=parse_columns(columns), shared_roles=frozenset({"id"}))
            corpus = load_corpus(source, files=files, cards=cards)
        except HarnessError as error:
            reasons.append(error.problem)
            continue
        if corpus.digest == info.provenance.get("corpus_sha256"):
            return Documents(corpus, "")
        reasons.append(f"'{source}' holds other documents now")
    return Documents(None, f"Texts of documents are not in this file: {'; '.join(reasons)}.")
