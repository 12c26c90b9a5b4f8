"""A collection that the user already has on a server: only calls that read ever reach it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.adapters.qdrant_client_store import ClientStore
from harness.adapters.qdrant_existing import choose_vector
from harness.adapters.qdrant_points import SCROLL, SCROLL_VECTORS, TERMS, StoredPoint
from harness.adapters.qdrant_settings import ExistingQdrant, QdrantSettings
from harness.errors import EngineUnavailableError
from harness.protocols import ParameterValue

__all__ = ["ExistingCollection"]

_OF_OURS = ("kept", "replicas")


class ExistingCollection(ClientStore):
    """What a store needs to be searched, and to be read; made by :meth:`attach`."""

    _shards = 1
    _found: tuple[int, str] = (0, "")

    @classmethod
    def attach(cls, existing: ExistingQdrant, settings: QdrantSettings) -> ExistingCollection:
        """Look at the collection; raises EngineUnavailableError when there is none of that name, and what
        :func:`choose_vector` raises.
        """
        store = cls._connected(Path(), settings, existing.collection)
        try:
            store.look(existing.vector, idf=settings.sparse is not None and settings.sparse.idf)
        except BaseException:
            store.close()
            raise
        return store

    def look(self, wanted: str, *, idf: bool) -> None:
        """Choose the vector, and note what the collection holds."""
        if not self.exists():
            raise EngineUnavailableError(
                f"there is no collection '{self.collection}' on the server", fix="name one that is there: collection="
            )
        parameters, modifier = self._config().params, self._models.Modifier.IDF
        idf_of = {name: held.modifier == modifier for name, held in (parameters.sparse_vectors or {}).items()}
        vector = choose_vector(idf_of, wanted, idf=idf, where=f"the collection '{self.collection}'")
        self._names = {TERMS: vector}
        self._shards = int(parameters.shard_number or 1)
        self.info = replace(self.info, mode=f"{self.info.mode}, an existing collection")
        self._found = self._content()

    def points(self, *, key: str | None, vectors: bool) -> Iterator[list[StoredPoint]]:
        """All points page by page, each with what is asked for of it."""
        offset: Any = None
        while True:
            with self.translated(lambda: "listing the points"):
                page, offset = self._call(lambda: self._page(offset, key, vectors))  # noqa: B023 - called at once
            yield [StoredPoint.of(record, self._names[TERMS]) for record in page]
            if offset is None:
                return

    def _page(self, offset: Any, key: str | None, vectors: bool) -> Any:  # noqa: ANN401 - the client's own types
        return self._client.scroll(
            self.collection,
            limit=SCROLL_VECTORS if vectors else SCROLL,
            offset=offset,
            with_payload=[key] if key is not None else False,
            with_vectors=[self._names[TERMS]] if vectors else False,
        )

    def state(self) -> Mapping[str, ParameterValue]:
        """As for a collection of the harness's own, without what only those have."""
        told = {name: value for name, value in super().state().items() if name not in _OF_OURS}
        return {**told, "shards": self._shards}

    def changed(self) -> str | None:
        """How many points there are now, or that the configuration is another; None when both are as they were."""
        (points, config), (now, config_now) = self._found, self._content()
        if points != now:
            return f"the collection '{self.collection}' held {points:,} points and now holds {now:,}"
        return None if config == config_now else f"the configuration of the collection '{self.collection}'"

    def _content(self) -> tuple[int, str]:
        """What can be told of a collection's content without reading all of it."""
        return self.count(), str(self._config().model_dump_json())

    def _config(self) -> Any:  # noqa: ANN401 - the client's own types
        with self.translated(lambda: f"looking at the collection '{self.collection}'"):
            return self._call(lambda: self._client.get_collection(self.collection)).config
