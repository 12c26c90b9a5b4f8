"""Evaluators for sentence-transformers: its arguments, files and conventions, computed by this package's metrics.

Both are used wherever that library takes an evaluator. Importing this needs sentence-transformers 6 (extra ``dense``),
and raises MissingExtraError without it: the classes are subclasses of its ``BaseEvaluator``.
"""

from harness.registry.optional import require

require(
    "sentence_transformers.base.evaluation",
    extra="dense",
    feature="harness.integrations.sentence_transformers",
    also=" 'sentence-transformers>=6'",
)

from harness.integrations.sentence_transformers.evaluator import InformationRetrievalEvaluator  # noqa: E402 - needs the above
from harness.integrations.sentence_transformers.sparse import SparseInformationRetrievalEvaluator  # noqa: E402

__all__ = ["InformationRetrievalEvaluator", "SparseInformationRetrievalEvaluator"]
