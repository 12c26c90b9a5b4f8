"""How a result is shown: by functions that are found by name, because the report stands above the results it shows."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["HTML_NAME", "LEFT_OUT", "NOT_STORED", "presenter"]

HTML_NAME = "report.html"
LEFT_OUT = "Texts were left out of this file (--no-text)."
NOT_STORED = "Texts of documents are not in this file: the result does not hold them, and no dataset was given."
"""What the page says where it has no texts."""

_PRESENTERS: Mapping[str, str] = {
    "text": "harness.report.formats:render",
    "comparison page": "harness.report.html.comparison_page:comparison_html",
    "check page": "harness.report.html.check_page:check_html",
    "check failures": "harness.report.documents.check_cases:failures",
    "regression page": "harness.report.html.regression_page:regression_html",
}


def presenter(name: str) -> Callable[..., Any]:
    """Return the function that shows one kind of result in one way; raises KeyError for an unknown name."""
    module, _, function = _PRESENTERS[name].partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
