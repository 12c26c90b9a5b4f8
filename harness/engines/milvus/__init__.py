"""Milvus: Milvus Lite in a separate process, and a Milvus server."""
