"""LanceDB: vectors in a table on disk, in the process."""
