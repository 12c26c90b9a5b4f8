"""FAISS: dense vectors in any index that its factory makes, and files that somebody else wrote."""
