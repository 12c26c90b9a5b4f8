"""What is kept on disk: the cache, results and their folders, columns."""
