"""Texts of documents that backends returned with their hits, for documents that no corpus holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings, take_rows
from harness.data.shown_hits import first_documents
from harness.data.types import Corpus, Ids, Run

LONGEST_TEXT = 1500
"""Characters of a document's text that a result shows."""


def returned_texts(run: Run, corpora: Collection[Corpus] = ()) -> Corpus | None:
    """Return the documents of a run's first hits that came with a text and are in none of ``corpora``; None without.

    Longer texts are cut one character after ``LONGEST_TEXT``, by which a reader knows that they were longer.
    """
    if run.content is None or run.content.texts is None:
        return None
    rows = first_documents(run.indptr, run.rows)
    ids = Ids.of(run.doc_ids.take(rows))
    in_corpus = np.zeros(len(rows), dtype=np.bool_)
    for corpus in corpora:
        in_corpus |= corpus.ids.rows_of(ids) >= 0
    texts = take_rows(run.content.texts, rows).to_pylist()
    pairs = zip(ids, texts, in_corpus.tolist(), strict=True)
    return _corpus({name: text[: LONGEST_TEXT + 1] for name, text, has_text in pairs if text and not has_text})


def merge_texts(parts: Iterable[tuple[str, Corpus]]) -> Corpus | None:
    """Return the documents of several backends, each with its label, as one corpus; None without any.

    A document that backends returned with different texts has all of them, each after the labels of its backends.
    """
    labels: dict[str, dict[str, list[str]]] = {}
    for label, corpus in parts:
        for name, text in zip(corpus.ids, corpus.texts.to_pylist(), strict=True):
            labels.setdefault(name, {}).setdefault(text, []).append(label)
    return _corpus(
        {
            name: "\n\n".join(f"{', '.join(of_text)}: {text}" for text, of_text in texts.items())
            if len(texts) > 1
            else next(iter(texts))
            for name, texts in labels.items()
        }
    )


def _corpus(texts: dict[str, str]) -> Corpus | None:
    return Corpus(Ids.of(texts), pa.chunked_array([strings(texts.values())], pa.string()), "") if texts else None
