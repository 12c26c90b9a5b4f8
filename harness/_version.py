"""The package's version, the only place that states it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
