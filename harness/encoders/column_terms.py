"""The terms that columns of learned sparse vectors are: tokens of a model, or words of precomputed vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from harness.encoders.json_vectors import SUFFIXES, terms_of_files
from harness.encoders.model_files import model_folder
from harness.encoders.precomputed import find_files
from harness.encoders.settings import Settings

_OTHER_COLUMNS = "SparseAutoEncoder"
"""Module whose output has other columns than the vocabulary."""
_MODULE_FILES = ("modules.json", "router_config.json")


def column_terms(settings: Settings) -> dict[int, str]:
    """Return the term of each column, without columns that are known only by their number.

    Tokens are written as in the model's vocabulary, which is read from the files of its tokenizer; nothing is loaded.
    """
    source = settings.source
    if source.kind == "precomputed":
        files = find_files(Path(source.name), "queries")
        return dict(enumerate(terms_of_files(files) if files[0].name.endswith(SUFFIXES) else ()))
    return dict(_tokens(model_folder(settings))) if source.has_files else {}


def _tokens(folder: Path) -> Iterator[tuple[int, str]]:
    """Yield column and token of a model's vocabulary; none if its columns are not those of the vocabulary."""
    modules = [folder / name for name in _MODULE_FILES if (folder / name).is_file()]
    if any(_OTHER_COLUMNS in path.read_text(encoding="utf-8") for path in modules):
        return
    for path in sorted(folder.rglob("tokenizer.json"))[:1]:
        content = orjson.loads(path.read_bytes())
        vocabulary = content["model"].get("vocab", {})
        if isinstance(vocabulary, dict):
            yield from ((column, token) for token, column in vocabulary.items())
        else:  # pairs of token and score, in the order of their columns
            yield from ((column, token) for column, (token, _) in enumerate(vocabulary))
        yield from ((added["id"], added["content"]) for added in content.get("added_tokens", ()))
        return
    for path in sorted(folder.rglob("vocab.txt"))[:1]:
        yield from enumerate(path.read_text(encoding="utf-8").split("\n"))
