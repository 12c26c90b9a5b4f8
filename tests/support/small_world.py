"""A tiny collection and cards for the engines of `engines_for_tests`: comparisons in a second, without any client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

DOCUMENTS = {
    "d1": "the cat sat on the mat",
    "d2": "a dog chased the cat across the garden",
    "d3": "gardens need water and light",
    "d4": "light rail reached the station",
    "d5": "",
    "d6": "cats and dogs in the garden, a cat on the mat",
}
QUERIES = {"q1": "cat garden", "q2": "light station", "q3": "zeppelin", "q4": "dog"}
QRELS = [("q1", "d2", 1), ("q1", "d6", 2), ("q2", "d4", 1), ("q3", "d3", 0), ("q4", "d2", 1)]

_CARD = """\
name = "{name}"
summary = "an engine for tests"
engine = "{module}:{engine}"
encoder = "bm25"

[reference]
kind = "sparse"
tolerance = 4e-7

[parameters.analyzer]
type = "str"
default = "whitespace"
scope = "encoder"
help = "text to terms"

[parameters.k1]
type = "float"
default = 0.9
scope = "encoder"
help = "term-frequency saturation"

[parameters.b]
type = "float"
default = 0.4
scope = "encoder"
help = "length normalisation"

[parameters.idf]
type = "bool"
default = false
scope = "engine"
help = "whether the engine multiplies by the IDF"
"""


def write_collection(
    folder: Path,
    *,
    judged: bool = True,
    documents: Mapping[str, str] = DOCUMENTS,
    queries: Mapping[str, str] = QUERIES,
) -> Path:
    """A collection in BEIR layout."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus = [{"_id": name, "title": "", "text": text} for name, text in documents.items()]
    asked = [{"_id": name, "text": text} for name, text in queries.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in corpus))
    (folder / "queries.jsonl").write_text("".join(json.dumps(record) + "\n" for record in asked))
    if judged:
        (folder / "qrels").mkdir(exist_ok=True)
        rows = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in QRELS)
        (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    return folder


def write_plain_card(folder: Path, name: str, engine: str) -> Path:
    """A card whose input nothing encodes, into the same folder as :func:`write_cards`."""
    cards = folder / "backends"
    cards.mkdir(parents=True, exist_ok=True)
    card = _CARD.partition("encoder =")[0] + 'encoder = "none"\n[reference]\nkind = "none"\n'
    (cards / f"{name}.toml").write_text(card.format(name=name, module="engines_for_tests", engine=engine))
    return folder


def write_cards(folder: Path, *, module: str = "engines_for_tests", encoder: str = "bm25", **engines: str) -> Path:
    """One card for each ``name=EngineClass`` of ``module``; the folder is for ``--cards``."""
    plain = _CARD.partition("[reference]")[0] + '[reference]\nkind = "none"\n'
    card = _CARD if encoder == "bm25" else plain.replace('"bm25"', f'"{encoder}"')
    cards = folder / "backends"
    cards.mkdir(parents=True, exist_ok=True)
    for name, engine in engines.items():
        (cards / f"{name}.toml").write_text(card.format(name=name, module=module, engine=engine))
    return folder
