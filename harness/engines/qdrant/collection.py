"""A collection that the user already has on a server: only calls that read ever reach it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.engines.qdrant.client_store import ClientStore
from harness.engines.qdrant.found import Found, FoundDense, choose
from harness.engines.qdrant.points import SCROLL, SCROLL_VECTORS, StoredPoint
from harness.engines.qdrant.settings import QdrantSettings
from harness.errors import EngineUnavailableError
from harness.registry.parameters import ParameterValue

__all__ = ["ExternalCollection"]

_OF_OURS = ("kept", "replicas")


class ExternalCollection(ClientStore):
    """What a store needs to be searched, and to be read; made by :meth:`attach`."""

    _shards = 1
    _found: tuple[int, str] = (0, "")

    @classmethod
    def attach(cls, collection: str, settings: QdrantSettings) -> ExternalCollection:
        """Look at the collection; raises EngineUnavailableError when there is none of that name, and what
        :func:`choose` raises.
        """
        store = cls._connected(Path(), settings, collection)
        try:
            store.look()
        except BaseException:
            store.close()
            raise
        return store

    def look(self) -> None:
        """Choose the vectors, and note what the collection holds."""
        if not self.exists():
            raise EngineUnavailableError(
                f"there is no collection '{self.collection}' on the server", fix="name one that is there: collection="
            )
        config = self._config()
        found = Found(self._sparse_of(config), self._dense_of(config))
        chosen = choose(found, self.settings, f"the collection '{self.collection}'")
        self._names, self.dimensions, self.settings = dict(chosen.names), chosen.dimensions, chosen.settings
        self._shards = int(config.params.shard_number or 1)
        self.info = replace(self.info, mode=f"{self.info.mode}, an external collection")
        self._found = self._content()

    def _sparse_of(self, config: Any) -> dict[str, bool]:  # noqa: ANN401 - the client's own types
        modifier = self._models.Modifier.IDF
        return {name: held.modifier == modifier for name, held in (config.params.sparse_vectors or {}).items()}

    @staticmethod
    def _dense_of(config: Any) -> dict[str, FoundDense]:  # noqa: ANN401 - the client's own types
        held = config.params.vectors or {}
        named = held if isinstance(held, dict) else {"": held}  # a collection may have one without a name
        return {name: _dense(one, config.hnsw_config) for name, one in named.items()}

    def points(self, *, key: str | None, vectors: bool) -> Iterator[list[StoredPoint]]:
        """All points page by page, each with what is asked for of it."""
        offset: Any = None
        while True:
            with self.translated(lambda: "listing the points"):
                page, offset = self._call(lambda: self._page(offset, key, vectors))  # noqa: B023 - called at once
            yield [StoredPoint.of(record, self._names) for record in page]
            if offset is None:
                return

    def retrieve(self, ids: Sequence[Hashable]) -> list[StoredPoint]:
        """The points of these ids, with their whole payload and the vectors searched."""
        names = list(self._names.values())
        with self.translated(lambda: "reading some points"):
            found = self._call(
                lambda: self._client.retrieve(self.collection, ids, with_payload=True, with_vectors=names)
            )
        return [StoredPoint.of(record, self._names) for record in found]

    def _page(self, offset: Any, key: str | None, vectors: bool) -> Any:  # noqa: ANN401 - the client's own types
        return self._client.scroll(
            self.collection,
            limit=SCROLL_VECTORS if vectors else SCROLL,
            offset=offset,
            with_payload=[key] if key is not None else False,
            with_vectors=list(self._names.values()) if vectors else False,
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


def _dense(held: Any, graphs: Any) -> FoundDense:  # noqa: ANN401 - the client's own types
    """A vector's own graph parameters go before those of its collection."""
    graph = held.hnsw_config
    m = graph.m if graph is not None and graph.m is not None else graphs.m
    threshold = graph.full_scan_threshold if graph is not None else None
    return FoundDense(
        distance=str(held.distance.value),
        dimensions=int(held.size),
        datatype=str(held.datatype.value) if held.datatype is not None else "float32",
        several=held.multivector_config is not None,
        m=int(m),
        full_scan_threshold_kb=int(graphs.full_scan_threshold if threshold is None else threshold),
    )
