"""Milvus: Milvus Lite in a process of its own, and a Milvus server."""
