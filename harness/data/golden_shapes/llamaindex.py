"""LlamaIndex's ``EmbeddingQAFinetuneDataset``: queries, documents and their pairs in one object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.data.golden_shapes.base import GoldenContent, GoldenRecord

_PAIRS = ("relevant_docs", "qrels")


class LlamaIndexShape:
    """``queries``, ``relevant_docs`` and ``corpus``, each by id."""

    name = "LlamaIndex `EmbeddingQAFinetuneDataset`"
    content = (
        "`queries`, `relevant_docs` (or `qrels`) and `corpus`, each by id; the corpus is searched without `--corpus`"
    )
    example = '{"queries": {"q1": "why?"}, "corpus": {"d1": "…"}, "relevant_docs": {"q1": ["d1"]}}'
    names = frozenset(_PAIRS)

    def read(self, content: GoldenContent) -> GoldenContent | None:
        """Return the queries as records, and the corpus as documents."""
        value = content.mapping or {}
        pairs = next((name for name in _PAIRS if isinstance(value.get(name), Mapping)), None)
        queries = value.get("queries")
        if pairs is None or not isinstance(queries, Mapping):
            return None
        expected = value[pairs]
        unknown = next((query for query in expected if query not in queries), None)
        if unknown is not None:
            raise ValueError(f"'{pairs}' names the query '{unknown}', which 'queries' lacks")
        records = tuple(
            GoldenRecord(number, {"id": query, "question": text, "expected": expected.get(query, [])})
            for number, (query, text) in enumerate(queries.items(), 1)
        )
        corpus = value.get("corpus")
        documents = [_document(name, text) for name, text in corpus.items()] if isinstance(corpus, Mapping) else None
        return GoldenContent(records, documents=documents)


def _document(name: str, value: Any) -> dict[str, Any]:
    return {**value, "_id": name} if isinstance(value, Mapping) else {"_id": name, "text": value}
