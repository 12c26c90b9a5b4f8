"""Reports as one self-contained HTML file: a page model, pictures, and a list of queries to look into."""

from harness.reporting.html.from_check import check_page
from harness.reporting.html.from_comparison import comparison_page
from harness.reporting.html.from_regression import regression_page
from harness.reporting.html.page import Page
from harness.reporting.html.render import render_page

__all__ = ["Page", "check_page", "comparison_page", "regression_page", "render_page"]
