"""Qdrant: its own engine in the process, and its server."""
