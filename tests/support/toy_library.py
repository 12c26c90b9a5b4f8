"""A library that downloads datasets, and its loader: ``toy:NAME/SPLIT``, from a folder that stands for the network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from harness.data.columns import TextBatch
from harness.data.progress import Progress
from harness.errors import DataError
from harness.loaders.base import DatasetSpec, JudgmentSource, LoadedDataset, LocalFiles, TextSource

CARD = """
name = "zoo"
summary = "Animals"
licence = "CC0-1.0 (made up)"
source = "made up"
citation = "Keeper, Animals, 2020"
metric = "nDCG@10"
spec = "toy:{member}/{split}"
splits = ["train", "test"]

[pairs]
spec = "toy:{documents}-{queries}/{split}"

[[published]]
system = "a mean"
source = "a page"
scores = { "nDCG@10" = 0.5 }

[members.de]
summary = "Tiere"
language = "de"
identical_ids = "drop"
facts.documents = 3
facts.queries = { train = 1, test = 2 }
facts.judgments = { train = 1, test = 3 }
published = [{ system = "BM25", source = "a page", scores = { "nDCG@10" = 0.6 } }]

[members.en]
summary = "Animals"
language = "en"
analyzer = "whitespace"

[members.rare]
summary = "Rare ones"
language = "en"
obtain = "ask the keeper"

[members.all]
summary = "All of them"
language = "en"
parts = ["de", "en"]
"""
DOCUMENTS = {"d1": "Hund", "d2": "Katze", "d3": "Maus"}
QUERIES = {"train": {"q1": "Hund"}, "test": {"q2": "Katze", "q3": "Maus"}}
QRELS = {"train": {"q1": {"d1": 1}}, "test": {"q2": {"d2": 1, "d1": 0}, "q3": {"d3": 1}}}


class ToyLoader:
    """Reads what is in ``home``, after copying from ``network`` what is missing there."""

    name = "toy"

    def __init__(self, network: Path, home: Path) -> None:
        self.network, self.home = network, home
        self.downloads: list[str] = []

    def offer(self, name: str) -> None:
        """Put a dataset of three documents onto the network."""
        parts = {"documents": DOCUMENTS} | {f"queries.{one}": QUERIES[one] for one in QUERIES}
        for part, content in {**parts, **{f"qrels.{one}": QRELS[one] for one in QRELS}}.items():
            path = self.network / name / f"{part}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content), encoding="utf-8")

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether the spec has the loader's prefix."""
        return spec.location.startswith("toy:")

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Return the parts; raises DataError for a name that the network does not have."""
        assert split is None, "the split is part of the spec"
        documents, queries, qrels = map(self._here, self._files(spec))
        return LoadedDataset(
            self._texts(spec, "documents", documents),
            self._texts(spec, "queries", queries),
            JudgmentSource.of_dict(qrels.name, json.loads(qrels.read_text(encoding="utf-8"))),
        )

    def local_files(self, spec: DatasetSpec) -> LocalFiles:
        """Return which of the three files are there."""
        here = [path for path in self._files(spec) if path.exists()]
        return LocalFiles(tuple(here), sum(path.stat().st_size for path in here), len(here) == len(self._files(spec)))

    def _files(self, spec: DatasetSpec) -> list[Path]:
        name, _, split = spec.location.removeprefix("toy:").partition("/")
        parts = ("documents", f"queries.{split}", f"qrels.{split}")
        return [self.home / name / f"{part}.json" for part in parts]

    def _here(self, path: Path) -> Path:
        source = self.network / path.relative_to(self.home)
        if not path.exists():
            if not source.exists():
                raise DataError(str(source), ["is not on the network"], fix="look at the name")
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, path)
            self.downloads.append(str(path.relative_to(self.home)))
        return path

    @staticmethod
    def _texts(spec: DatasetSpec, part: str, path: Path) -> TextSource:
        texts = json.loads(path.read_text(encoding="utf-8"))
        batch = TextBatch(list(texts), list(texts.values()), None, None)
        key = {"toy": str(path), "part": part}
        return TextSource(f"{spec.location} {part}", lambda problems, notes: iter([batch]), part, key=key)
