"""AutoRAG's table of questions, ``qa.parquet``, whose folder also has ``corpus.parquet``."""

from __future__ import annotations

from harness.data.golden_shapes.base import GoldenContent

QUESTIONS = "qa"
"""The name of the table of questions in AutoRAG's folder."""


class AutoRagShape:
    """``qid``, ``query`` and ``retrieval_gt``, which holds lists of alternatives: a document of each list is needed."""

    name = "AutoRAG"
    content = "`query` and `retrieval_gt`, which holds lists of alternatives; the folder also has `corpus.parquet`"
    example = '{"qid": "q1", "query": "why?", "retrieval_gt": [["d1", "d2"], ["d3"]]}'
    names = frozenset({"retrieval_gt"})

    def read(self, content: GoldenContent) -> GoldenContent | None:
        """Return None: all names of its fields are usual ones."""
        return None
