"""PostgreSQL with pgvector: a private server of the worker, or an existing server."""
