"""A correct engine that adds the scores of several fields, and engines that add them wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from contract_kills import breaks

from harness.data.inputs import columns_of
from harness.data.progress import Progress
from harness.engines.base import Capabilities, Documents, Engine, EngineInfo, LoadedIndex
from harness.registry.field_weights import fields_of
from harness.store.columns import load_table, save_table
from harness.testing import Bm25
from harness.testing.expected import bm25_scores


class FakeFields(Engine[pa.ChunkedArray]):
    """Keeps the texts of each field, and scores all of them at each search."""

    name = "fake-fields"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="text", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True, fields=True
    )
    texts: Mapping[str, list[str]]

    def info(self) -> EngineInfo:
        return EngineInfo(self.name, "1.0", "embedded")

    def build(self, folder: Path, documents: Documents[pa.ChunkedArray], progress: Progress) -> None:
        save_table(folder / "texts.arrow", pa.table({f"of {n}": c for n, c in columns_of(documents.column).items()}))

    def load(self, folder: Path) -> LoadedIndex:
        table = load_table(folder / "texts.arrow")
        self.texts = {name.removeprefix("of "): table.column(name).to_pylist() for name in table.column_names}
        return LoadedIndex(table.num_rows, {})

    def retrieve(self, query: str, k: int) -> tuple[list[int], list[float]]:
        parts = {name: bm25_scores(texts, [query], Bm25()) for name, texts in self.texts.items()}
        weights = self.weights() or {"": 1.0}
        scores = np.sum([weights[name] * part.scores[0] for name, part in parts.items()], axis=0)
        rows = np.flatnonzero(np.any([part.matches[0] for part in parts.values()], axis=0))
        best = rows[np.argsort(-scores[rows], kind="stable")][:k]
        return best.tolist(), scores[best].tolist()

    def weights(self) -> dict[str, float]:
        return {field.name: field.weight for field in fields_of(self.parameters)}


@breaks("test_adds_fields_with_weights")
class WeighsAllAlike(FakeFields):
    def weights(self) -> dict[str, float]:
        return dict.fromkeys(super().weights(), 1.0)


@breaks("test_adds_fields_with_weights")
class KeepsTheWeightsOfTheBuild(FakeFields):
    """Refuses to open its index under other weights."""

    @property
    def index_parameters(self) -> dict[str, str | int | float | bool]:
        return dict(self.parameters)


@breaks("test_adds_fields_with_weights", "test_searches_a_single_field")
class CountsDocumentsWithoutTheField(FakeFields):
    """An empty field counts in N and in the mean length, as if it had a term."""

    def load(self, folder: Path) -> LoadedIndex:
        loaded = super().load(folder)
        self.texts = {name: [text or "?" for text in texts] for name, texts in self.texts.items()}
        return loaded


@breaks("test_adds_fields_with_weights")
class JoinsTheFields(FakeFields):
    """Searches the joined text in every field."""

    def load(self, folder: Path) -> LoadedIndex:
        loaded = super().load(folder)
        self.texts = {name: list(map(" ".join, zip(*self.texts.values(), strict=True))) for name in self.texts}
        return loaded
