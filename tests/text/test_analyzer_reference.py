"""The page on analyzers lists those that there are; ``--update-golden`` writes its lists anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from installed import skip_module_without
from jackson import to_python

from harness.java.bridge import JavaBridge
from harness.java.jvm import start
from harness.text import analyzer_names
from harness.text.lucene_analyzer import language_code

skip_module_without("jnius_config")
pytestmark = pytest.mark.integration

_ENGLISH = "io.anserini.analysis.DefaultEnglishAnalyzer"


def lucene_table() -> str:
    bridge = JavaBridge(start())
    at_white_space = dict.fromkeys(("ha", "so", "sw", "yo"), "WhitespaceAnalyzer")
    beside = {"el": "GreekAnalyzer", "ro": "RomanianAnalyzer", "vi": "StandardAnalyzer"}
    classes = {
        "en": _ENGLISH,
        **at_white_space,
        **beside,
        **to_python(bridge, bridge.load("io.anserini.analysis.AnalyzerMap").analyzerMap),
    }
    rows = ["| analyzer | language code | class |", "|---|---|---|"]
    for name in analyzer_names():
        if name.startswith("lucene-"):
            code = language_code(name.removeprefix("lucene-"))
            rows.append(f"| `{name}` | {code} | `{classes[code].rpartition('.')[2]}` |")
    return "\n".join(rows)


def snowball_list() -> str:
    names = [name for name in analyzer_names() if name.startswith("snowball-")]
    lines, line = [], ""
    for name in names:
        word = f"`{name}`" + ("." if name == names[-1] else ",")
        if len(line) + len(word) > 118:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def test_the_page_lists_every_analyzer(repository: Path, update_golden: bool):
    page = repository / "docs" / "reference" / "analyzers.md"
    text = page.read_text(encoding="utf-8")
    for kind, content in (("lucene", lucene_table()), ("snowball", snowball_list())):
        block = f"<!-- {kind} analyzers -->\n{content}\n<!-- end -->"
        pattern = re.compile(rf"<!-- {kind} analyzers -->\n(?:.*?\n)??<!-- end -->", re.DOTALL)
        assert len(pattern.findall(text)) == 1
        if update_golden:
            text = pattern.sub(lambda _, block=block: block, text)
            page.write_text(text, encoding="utf-8")
        assert block in text
