"""One row for each expected document: ``question,doc_id,grade``."""

from __future__ import annotations

from dataclasses import replace

from harness.data.frames import GRADE, first_of
from harness.data.golden_shapes.base import GoldenContent

_DOCUMENT_IDS = frozenset(
    {"doc_id", "docid", "docno", "document_id", "corpus-id", "corpus_id", "chunk_id", "passage_id", "node_id", "pid"}
)


class LongTableShape:
    """Rows with a question and one document's id, perhaps with its grade."""

    name = "a row for each expected document"
    content = (
        "the question, and `doc_id`, `docid`, `docno`, `document_id` or `chunk_id`; optionally `grade`, `relevance` or "
        "`score`"
    )
    example = "question,doc_id,grade\nwhy?,d1,2\nwhy?,d2,1"
    names = _DOCUMENT_IDS

    def read(self, content: GoldenContent) -> GoldenContent | None:
        """Return the records with the fields of a document's id and of its grade."""
        first, columns = content.records[0].values if content.records else {}, content.golden_columns
        expected = columns.column("expected")
        names = [name for name in first if name.lower() in _DOCUMENT_IDS]
        if expected is None and not columns.has_expected(first) and columns.has_question(first) and names:
            if len(names) > 1:
                quoted = " or ".join(f"'{name}'" for name in names)
                raise ValueError(f"the expected id may be {quoted}: say which, as {content.option} expected={names[0]}")
            expected = names[0]
        if expected not in names:
            return None
        grade = columns.column("grade") or first_of((*GRADE, "score"), [name for name in first if name != expected])
        paths = {"expected": expected, **({} if grade is None else {"grade": grade})}
        return replace(content, columns={**content.columns, **paths}, joins_ids=True)
