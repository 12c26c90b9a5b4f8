"""Hits of Lucene as arrays: they cross the border as one block of bytes, never one by one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from harness.data.types import Float32Array, Int32Array

__all__ = ["Hits", "read_hits"]


class Hits(NamedTuple):
    """Document numbers int32 and scores float32 of one query, in Lucene's order."""

    documents: Int32Array
    scores: Float32Array


def read_hits(block: Any) -> Hits:  # noqa: ANN401 - Java's array of bytes
    """All hits of one query."""
    content = block.tostring()
    half = len(content) // 8
    return Hits(np.frombuffer(content, "<i4", half), np.frombuffer(content, "<f4", half, 4 * half))
