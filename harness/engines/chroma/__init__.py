"""Chroma: embedded, and its server."""
