"""Pages, help and messages keep to the words of the glossary."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

OTHER_WORDS = {
    "backend": re.compile(r"\b(retrievers?|subjects?)\b", re.IGNORECASE),
    "reference": re.compile(r"\boracles?\b", re.IGNORECASE),
    "metric": re.compile(
        r"\b(an?|any|each|every|no|of|the|these|those|which|other|another|first) measures?\b(?! (how|what|up|by)\b)"
        r"|\bmeasure '|\[measures?\]",
        re.IGNORECASE,
    ),
    "external index": re.compile(r"\b(existing|held) index(es)?\b", re.IGNORECASE),
}
STEMS = re.compile("retriever|subject|oracle|measure|existing|held", re.IGNORECASE)
"""One of them is in every match."""
ALLOWED = {
    ("harness/rerank/judge.py", "subject"): "a prompt: what a text is about",
    **dict.fromkeys(
        (
            ("docs/how-to/from-other-frameworks.md", "retriever"),
            ("docs/reference/cli.md", "retriever"),
            ("harness/engines/callable/frameworks.py", "retriever"),
            ("harness/plan/callables.py", "retriever"),
            ("harness/plan/config.py", "retriever"),
        ),
        "what LangChain, LlamaIndex and Haystack call their own classes",
    ),
}
"""Page or module and word, with the reason."""


@functools.cache
def texts(path: Path) -> list[str]:
    """Return the prose of a page, or the messages of a module: its texts of several words that are no docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md" or STEMS.search(text) is None:
        return [text]
    nodes = list(ast.walk(ast.parse(text)))
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in prose]
    return [node.value for node in constants if isinstance(node.value, str) and " " in node.value]


def places(repository: Path) -> list[Path]:
    return [
        repository / "README.md",
        *sorted((repository / "docs").rglob("*.md")),
        *sorted((repository / "harness").rglob("*.py")),
    ]


@pytest.mark.parametrize("word", OTHER_WORDS)
def test_no_other_word_stands_for(word: str, repository: Path) -> None:
    strays = []
    for path in places(repository):
        name = str(path.relative_to(repository))
        if name == "docs/explanation/glossary.md":
            continue
        strays += [
            f"{name}: …{text[max(0, match.start() - 40) : match.end() + 20]}…"
            for text in texts(path)
            for match in OTHER_WORDS[word].finditer(text)
            if (name, match[0].lower().rstrip("s")) not in ALLOWED
        ]
    assert strays == [], f"the word is '{word}'"


def test_every_exception_is_needed(repository: Path) -> None:
    for name, word in ALLOWED:
        found = {
            match[0].lower().rstrip("s")
            for text in texts(repository / name)
            for pattern in OTHER_WORDS.values()
            for match in pattern.finditer(text)
        }
        assert word in found, f"{name}: '{word}' is gone"


def test_the_words_of_the_glossary_are_in_order(repository: Path) -> None:
    page = (repository / "docs" / "explanation" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| ([a-z][^|]*?) \|", page, re.MULTILINE)[1:]
    assert words == sorted(words)
    assert {"backend", "dataset", "metric", "reference", "trial"} <= set(words)


NOT_NAMES = frozenset(
    """
    place places at what where here there own whole every others
    known named wanted kept listed shown said found given asked held told
    """.split()  # noqa: SIM905 - a list of words to read
)
"""Words that do not say what the thing is that they name."""
PREPOSITION = re.compile(r"_(of|in|with|by|on|at|under)(_|$)")


def bound_names(path: Path) -> Iterator[tuple[str, int, type[ast.AST]]]:
    """Yield each name that a module binds, with its line and kind: variables, attributes, functions and classes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno, type(node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno, type(node)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name, node.lineno, type(node)


def test_names_are_nouns_and_verbs(repository: Path) -> None:
    """Classes are no participles, private functions begin with no preposition, and names are not empty words."""
    strays = []
    for path in sorted((repository / "harness").rglob("*.py")):
        for name, line, kind in bound_names(path):
            plain = name.strip("_").lower()
            participle = kind is ast.ClassDef and re.search(r"(?<!fi)(?<!nee)ed$", plain) is not None
            preposition = kind is ast.FunctionDef and PREPOSITION.match(name) is not None
            if plain in NOT_NAMES or participle or preposition:
                strays.append(f"{path.relative_to(repository)}:{line}: {name}")
    assert strays == []
