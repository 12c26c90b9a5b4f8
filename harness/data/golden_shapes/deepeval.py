"""deepeval's goldens and test cases, as JSON, CSV or objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.data.golden_cells import is_structure
from harness.data.golden_shapes.base import GoldenContent

_NAMES = frozenset({"input", "context", "expected_output", "retrieval_context"})
_SEPARATOR = "|"


class DeepEvalShape:
    """``input`` with a list ``context``; deepeval's CSV joins the texts of a context with ``|``."""

    name = "deepeval"
    content = "`input` and the texts of `context`, which CSV joins by `|`"
    example = '{"input": "why?", "context": ["The text that answers it."], "expected_output": "…"}'
    names = _NAMES

    def read(self, content: GoldenContent) -> GoldenContent | None:
        """Return the records with their contexts as lists, of tables too."""
        if not content.records or not content.records[0].table or not content.records[0].values.keys() >= _NAMES:
            return None
        records = [
            record._replace(values={**record.values, "context": _texts(record.values["context"])})
            for record in content.records
        ]
        return replace(content, records=records)


def _texts(context: Any) -> Any:
    """Return the texts of a cell; None for an empty one."""
    if not isinstance(context, str) or is_structure(context.strip()):
        return context
    return [text.strip() for text in context.split(_SEPARATOR) if text.strip()] or None
