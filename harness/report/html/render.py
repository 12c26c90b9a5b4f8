"""A page as one self-contained HTML file: no network, no further file, no script but its own.

A content security policy in the file allows exactly the style sheet and the script that it carries, by their hashes, so
that nothing which came with the data could run or load anything, even if it got past the escaping.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import orjson
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from harness.document.model import Block, Document, Facts, Figure, Notes, Section, Table, Verdict
from harness.report.html.payload import element_of, payload_of
from harness.report.html.pictures import draw
from harness.report.rankings.explorer import Explorer, judging_facts
from harness.wording import counted

LARGEST = 7_600_000
"""Bytes that a page without explanations may come to, as far as the texts of documents decide it."""
_SCRIPTS = (
    "data",
    "model",
    "dom",
    "words",
    "list",
    "explanation",
    "detail",
    "selection",
    "controls",
    "tables",
    "saving",
    "pictures",
    "judging",
    "grading",
    "main",
)
_WITHOUT_JUDGING = tuple(name for name in _SCRIPTS if name not in ("judging", "grading"))
_JUDGING_SCRIPTS = ("data", "dom", "words", "saving", "judging")
_TAG_OR_SIGN = re.compile("(<[^>]*>)|([:;|=+])")
_NAMED_FINDINGS = 2
_LONGEST_UNBROKEN = 28
"""Characters of a cell of text that stay on one line: more than short labels have."""
_SIGNS = {"good": "✓", "bad": "✕", "unsure": "?", "plain": "·"}
_KINDS = {Table: "table", Figure: "figure", Facts: "facts", Notes: "notes"}


def render_page(
    document: Document, explorers: Sequence[Explorer] = (), *, instead_of: str = "", largest: int = LARGEST
) -> str:
    """Render a document as one file, with a list of the queries of the ``explorers``, one a dataset.

    The list replaces the section with the anchor ``instead_of``. Texts of documents are left out, of the queries that
    changed least first, until the file has at most ``largest`` bytes; the page says how many queries have their texts.
    Explanations of hits are added up to as many bytes as the file has without them.
    """
    template = _environment().get_template("page.html.jinja")
    judging = judging_facts(explorers, document.made_by, " ".join(document.command))
    style = _asset("style.css") + (_asset("judging.css") if judging is not None else "")
    script, shortened = _script(_SCRIPTS if judging is not None else _WITHOUT_JUDGING), _shortening(document.labels)
    answers = [verdict for verdict in document.verdicts if verdict.answers] or list(document.verdicts[:1])
    further = [verdict for verdict in document.verdicts if all(verdict is not answer for answer in answers)]
    common = {
        "page": document,
        "answers": answers,
        "further": further,
        "further_findings": _findings_in_words(further),
        "parts": [part for part in _parts(document) if not explorers or part.section.anchor != instead_of],
        "returned": any(explorer.returned for explorer in explorers),
        "no_texts": next((explorer.no_texts for explorer in explorers if explorer.no_texts), ""),
        "style": Markup(style),  # noqa: S704 - a file of this package
        "script": Markup(script),  # noqa: S704 - files of this package
        "policy": _policy(style, script),
        "short": shortened,
        "is_long": lambda text: len(text) > _LONGEST_UNBROKEN < len(shortened(text).striptags()),
    }
    bare = template.render(**common, explored=bool(explorers), payload=None)
    if not explorers:
        return bare
    outside = len(bare.encode())
    payload = payload_of(explorers, largest - outside, document.labels, judging, outside)
    return template.render(**common, explored=True, payload=payload)


def render_judging(content: Mapping[str, object], facts: Mapping[str, object]) -> str:
    """Render the page on which people judge documents: ``content`` is its data, ``facts`` the words of the template."""
    style, script = _asset("style.css") + _asset("judging.css"), _script(_JUDGING_SCRIPTS)
    return (
        _environment()
        .get_template("judging.html.jinja")
        .render(
            **facts,
            content=element_of(orjson.dumps(content)),
            style=Markup(style),  # noqa: S704 - files of this package
            script=Markup(script),  # noqa: S704 - files of this package
            policy=_policy(style, script),
        )
    )


def _shortening(labels: Mapping[str, str]) -> Callable[[str], Markup]:
    """Return a function that escapes a text and replaces long labels by short ones, with the long label as the tip."""
    long = re.compile("|".join(map(re.escape, sorted(labels, key=len, reverse=True))) or r"(?!)")

    def shortened(text: str) -> Markup:
        parts, position = Markup(), 0
        for match in long.finditer(text):
            label = match[0]
            parts += text[position : match.start()]
            parts += Markup('<abbr title="{}">{}</abbr>').format(label, labels[label])
            position = match.end()
        return parts + escape(text[position:])

    return shortened


def _breakable(label: Markup) -> Markup:
    """Return a heading that may continue on the next line after the signs within a backend's label."""
    return Markup(_TAG_OR_SIGN.sub(lambda part: part[1] or f"{part[2]}<wbr>", label))  # noqa: S704 - escaped before


def _findings_in_words(verdicts: Sequence[Verdict]) -> str:
    """Return the line above folded findings: bad news in full, the others by their number."""
    bad = [verdict.headline for verdict in verdicts if verdict.tone == "bad"]
    headlines = bad if len(bad) <= _NAMED_FINDINGS else bad[: _NAMED_FINDINGS - 1]
    further = len(verdicts) - len(headlines)
    cautions = sum(verdict.tone == "unsure" for verdict in verdicts)
    caution = f", {counted(cautions, 'caution')}" if cautions else ""
    return "; ".join([*headlines, *([f"{counted(further, 'more finding')}{caution}"] if further else [])])


@dataclass(frozen=True, slots=True)
class _Part:
    """A section of the page: blocks that are shown at once, and blocks that are folded away."""

    section: Section
    blocks: Sequence[Block]
    folded: Sequence[Block]


def _parts(document: Document) -> list[_Part]:
    """Show the first table and everything open, blocks and sections; fold the rest away."""
    folding = [section for section in document.sections if not (section.detail or section.open)]
    first = next((block for section in folding for block in section.blocks if isinstance(block, Table)), None)
    parts = []
    for section in document.sections:
        visible_blocks = [
            block
            for block in section.blocks
            if not section.detail and (section.open or block is first or getattr(block, "open", False))
        ]
        folded = [block for block in section.blocks if all(block is not other for other in visible_blocks)]
        parts.append(_Part(section, visible_blocks, folded))
    return parts


def _policy(style: str, script: str) -> str:
    """Return a policy: nothing may be loaded, framed, sent or run, but the style and the script with these hashes."""
    hashes = [base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() for content in (script, style)]
    allowed = f"script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


@cache
def _asset(name: str) -> str:
    return (files("harness.report.html") / "assets" / name).read_text(encoding="utf-8")


@cache
def _script(modules: Sequence[str]) -> str:
    """Return the modules one after another, in a separate scope."""
    return "\n".join(['(() => {\n"use strict";', *(_asset(f"{name}.js") for name in modules), "})();\n"])


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["counted"] = counted
    environment.filters["breakable"] = _breakable
    environment.filters["kind"] = lambda block: _KINDS[type(block)]
    environment.filters["draw"] = draw
    environment.filters["best"] = lambda table: [table.best(column) for column in range(len(table.columns))]
    environment.filters["sign"] = lambda tone: _SIGNS[tone]
    return environment
