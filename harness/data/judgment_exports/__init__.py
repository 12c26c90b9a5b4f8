"""Judgments as other tools export them, in JSON or as the same objects in Python. Adding a tool is a module and a line.

The reference page of accepted shapes is generated from this list.
"""

from __future__ import annotations

from harness.data.judgment_exports.export import Export
from harness.data.judgment_exports.quepid import BOOK, CASE
from harness.data.judgment_exports.rank_eval import REQUEST
from harness.data.judgment_exports.rre import RATINGS

__all__ = ["EXPORTS", "Export"]

EXPORTS = (CASE, BOOK, REQUEST, RATINGS)
