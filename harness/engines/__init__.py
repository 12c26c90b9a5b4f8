"""Engines: the guarded base class, exact sparse and dense search, and a package for each third-party engine."""
