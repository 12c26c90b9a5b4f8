"""What a page for a browser is called, and what it says where it holds no texts; importing this draws nothing."""

__all__ = ["HTML_NAME", "LEFT_OUT", "NOT_STORED"]

HTML_NAME = "report.html"
LEFT_OUT = "Texts were left out of this file (--no-text)."
NOT_STORED = "Texts of documents are not in this file: the result does not hold them, and no dataset was given."
