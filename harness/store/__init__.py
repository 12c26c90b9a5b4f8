"""Data on disk: the cache, records and columns, folders of results."""
