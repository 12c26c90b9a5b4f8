"""A page as one HTML file that needs nothing else: no network, no file beside it, no script but its own.

A content security policy in the file allows exactly the style sheet and the script that it carries, by their hashes, so
that nothing which came with the data could run or load anything, even if it got past the escaping.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from harness.report.html.page import Facts, Notes, Page, Picture, Table
from harness.report.html.payload import payload_of
from harness.wording import counted

__all__ = ["LARGEST", "render_page"]

LARGEST = 7_600_000
"""Bytes that a page may come to, as far as the texts of documents decide it."""
_SCRIPTS = ("data.js", "model.js", "dom.js", "words.js", "list.js", "detail.js", "controls.js", "main.js")
_SIGNS = {"good": "✓", "bad": "✕", "unsure": "?", "plain": "·"}
_KINDS = {Table: "table", Picture: "picture", Facts: "facts", Notes: "notes"}


def render_page(page: Page, largest: int = LARGEST) -> str:
    """The whole file as text.

    Texts of documents are left out, of the queries that changed least first, until it has at most ``largest`` bytes;
    the page says how many queries have theirs.
    """
    template = _environment().get_template("page.html.jinja")
    style, script = _asset("style.css"), _script()
    common = {"page": page, "style": Markup(style), "script": Markup(script), "policy": _policy(style, script)}  # noqa: S704 - files of this package
    bare = template.render(**common, payload=None)
    payload = payload_of(page.explorer, largest - len(bare.encode())) if page.explorer is not None else None
    return template.render(**common, payload=payload) if payload is not None else bare


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded, framed, sent or run, but the style and the script with these hashes."""
    rules = (
        f"script-src {_hash(script)}",
        f"style-src {_hash(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(("default-src 'none'", *rules))


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return (files("harness.report.html") / "assets" / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """The modules one after another, in a scope of their own."""
    return "\n".join(['(() => {\n"use strict";', *(_asset(name) for name in _SCRIPTS), "})();\n"])


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["counted"] = counted
    environment.filters["kind"] = lambda block: _KINDS[type(block)]
    environment.filters["sign"] = lambda tone: _SIGNS[tone]
    return environment
