"""Backends that ``harness check --against`` asks besides engines: Python callables and HTTP endpoints."""
