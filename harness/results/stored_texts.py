"""Documents of stored results: no result holds them, so they are read again from where they were."""

from __future__ import annotations

from collections.abc import Sequence
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

__all__ = ["Documents", "documents_at", "documents_of", "with_documents"]


class Documents(NamedTuple):
    """The documents of a stored result; where they are gone, ``corpus`` is None and ``no_texts`` says why."""

    corpus: Corpus | None
    no_texts: str


def with_documents(comparison: Comparison, *, cards: Path | None = None) -> Comparison:
    """Return a stored comparison with the documents that it searched, where its datasets are still to be found.

    Where one is not where it was, nor known by its name, or holds other documents now, ``no_texts`` says so. A result
    whose texts of queries were left out (``--no-text``) gets none of documents either.
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
    """Return the documents that a stored comparison searched, from its dataset's place or name."""
    info, given = report.dataset, report.plan.given.get("dataset")
    places = [place for place in (given, info.provenance.get("path"), info.name) if isinstance(place, str)]
    columns = str(report.plan.given.get("columns") or "")
    return documents_at(places, info.provenance.get("corpus_sha256"), columns=columns, cards=cards)


def documents_at(
    places: Sequence[str], digest: str | None, *, columns: str = "", cards: Path | None = None
) -> Documents:
    """Return the documents with this digest, from the first place that holds them; ``columns`` as compare has it."""
    reasons = []
    for place in dict.fromkeys(places):
        try:
            corpus = load_corpus(place, files=DatasetFiles(columns=parse_columns(columns)), cards=cards)
        except HarnessError as error:
            reasons.append(error.what)
            continue
        if corpus.digest == digest:
            return Documents(corpus, "")
        reasons.append(f"'{place}' holds other documents now")
    return Documents(None, f"Texts of documents are not in this file: {'; '.join(reasons)}.")
