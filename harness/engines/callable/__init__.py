"""Retrievers that ``harness check --against`` asks besides backends: Python callables and HTTP endpoints."""
