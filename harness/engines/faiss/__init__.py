"""FAISS: dense vectors in any index that its factory makes, and users' own files."""
