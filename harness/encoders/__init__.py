"""Text and terms to vectors."""
