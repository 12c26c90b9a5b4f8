"""Shapes of golden sets: ways to write one, each in a module, in one table.

A shape turns the content of a file, or an object in Python, into records with usual names of fields. The shapes are
tried in their order, each on what the ones before it left.
"""

from __future__ import annotations

from dataclasses import replace

from harness.data.columns import RECORDS
from harness.data.golden_shapes.autorag import AutoRagShape
from harness.data.golden_shapes.base import GoldenContent, GoldenRecord, GoldenShape
from harness.data.golden_shapes.by_columns import ColumnsShape
from harness.data.golden_shapes.by_id import ByIdShape
from harness.data.golden_shapes.deepeval import DeepEvalShape
from harness.data.golden_shapes.langsmith import LangSmithShape
from harness.data.golden_shapes.llamaindex import LlamaIndexShape
from harness.data.golden_shapes.long_table import LongTableShape
from harness.data.golden_shapes.promptfoo import PromptfooShape
from harness.data.golden_shapes.ragas import RagasShape
from harness.data.golden_shapes.under_a_key import UnderAKeyShape

__all__ = ["SHAPES", "GoldenContent", "GoldenRecord", "GoldenShape", "is_golden", "read_shapes"]


def read_shapes(content: GoldenContent) -> GoldenContent:
    """Return the content as records.

    Raises ValueError for an object of no known shape, and for content that may be read in two ways.
    """
    names = _names(content)
    for shape in SHAPES:
        may_fit = not shape.names.isdisjoint(names) if shape.names else content.mapping is not None
        if may_fit and (closer := shape.read(content)) is not None:
            content, names = closer, _names(closer)
    if content.mapping is None and RECORDS in content.columns:
        path = content.columns[RECORDS]
        raise ValueError(f"{content.option} {RECORDS}={path}: the questions are in one list already, leave it out")
    if content.mapping is not None:
        keys = ", ".join(f"'{key}'" for key in list(content.mapping)[:10])
        subject = f"an object with the keys {keys}" if keys else "an empty object"
        raise ValueError(f"a list of questions is expected, not {subject}")
    return content


def _names(content: GoldenContent) -> frozenset[str]:
    """Return the object's keys, or the names of the records' fields, in lower case."""
    objects = [content.mapping] if content.mapping is not None else [record.values for record in content.records]
    return frozenset(str(name).lower() for value in objects for name in value)


def is_golden(content: GoldenContent) -> bool:
    """Return whether content has a question and expected ids or texts, by its first record."""
    try:
        content = read_shapes(replace(content, records=content.records[:1]))
    except ValueError:
        return False
    return any(content.golden_columns.covers(record.values) for record in content.records)


SHAPES: tuple[GoldenShape, ...] = (
    LlamaIndexShape(),
    PromptfooShape(),
    ColumnsShape(),
    ByIdShape(),
    UnderAKeyShape(is_golden),
    RagasShape(),
    DeepEvalShape(),
    LangSmithShape(),
    AutoRagShape(),
    LongTableShape(),
)
