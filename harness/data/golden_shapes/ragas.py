"""ragas' datasets and test sets, as JSON Lines, CSV or objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.data.golden_shapes.base import GoldenContent


class RagasShape:
    """``user_input`` with ``reference_context_ids`` or ``reference_contexts``; samples of a test set."""

    name = "ragas"
    content = "`user_input`, with `reference_context_ids` or the texts of `reference_contexts`"
    example = '{"user_input": "why?", "reference_context_ids": ["d1"], "reference": "…"}'
    names = frozenset({"user_input", "eval_sample"})

    def read(self, content: GoldenContent) -> GoldenContent | None:
        """Return the samples; raises ValueError for conversations, which have no single question."""
        nested = any(isinstance(record.values.get("eval_sample"), Mapping) for record in content.records)
        if nested:
            records = [
                record._replace(values={**record.values.get("eval_sample", {}), **_without_sample(record.values)})
                for record in content.records
            ]
            content = replace(content, records=records)
        for record in content.records:
            turns = record.values.get("user_input")
            if isinstance(turns, list) and "question" not in content.columns and "query" not in content.columns:
                raise ValueError(f"record {record.line}: 'user_input' is a conversation, expected one question")
        return content if nested else None


def _without_sample(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if name != "eval_sample"}
