"""Backends besides engines that ``harness check --against`` queries: Python callables and HTTP endpoints."""
