"""Loaders: files to columnar documents, queries and judgments."""

from harness.loaders.dataset import check_dataset, filter_dataset, load_corpus, load_dataset, load_golden_of

__all__ = ["check_dataset", "filter_dataset", "load_corpus", "load_dataset", "load_golden_of"]
