"""LangSmith's examples: ``inputs`` and ``outputs`` of a dataset, as JSON, JSON Lines or objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.data.golden_shapes.base import GoldenContent

_INPUTS, _OUTPUTS = "inputs", ("outputs", "reference_outputs", "metadata")


class LangSmithShape:
    """A question with a usual name in ``inputs``, expected documents with a usual name in ``outputs``."""

    name = "LangSmith"
    content = "the question in `inputs`, and expected documents in `outputs` or `metadata`; other names by `--columns`"
    example = '{"inputs": {"question": "why?"}, "outputs": {"relevant_doc_ids": ["d1"]}}'
    names = frozenset({_INPUTS})

    def read(self, content: GoldenContent) -> GoldenContent | None:
        """Return the records with the paths of their fields."""
        first = content.records[0].values if content.records else {}
        if not isinstance(first.get(_INPUTS), Mapping):
            return None
        columns = content.golden_columns
        paths = columns.paths_in(first, _INPUTS, ("question",))
        for part in _OUTPUTS:
            paths = columns.paths_in(first, part, ("expected", "expected_texts", "forbidden")) | paths
        return replace(content, columns={**paths, **content.columns})
