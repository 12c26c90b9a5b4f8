"""Renderers of documents, one module a format."""
