"""A benchmarking and regression harness for retrieval backends, held against an exact reference."""

from harness._version import __version__

__all__ = ["__version__"]
