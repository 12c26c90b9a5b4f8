"""Builders of documents, one module a verb."""
