"""PostgreSQL with pgvector: a server of the worker's own, and one that is there."""
