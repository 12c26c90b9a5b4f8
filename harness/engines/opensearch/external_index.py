"""An index made outside the harness: the searched field, its analyzer, and the ids of its documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.data.field_paths import field_of, field_paths
from harness.data.types import Int32Array
from harness.engines.external_index import DocumentKeys, as_id, unique_ids
from harness.engines.external_metadata import ExternalMetadata
from harness.engines.index_folder import ID_FIELD
from harness.engines.opensearch.conditions import filterable_fields, mapped_fields, plain_value
from harness.engines.opensearch.index import ServerIndex
from harness.errors import RejectedInputError
from harness.registry.parameters import ParameterValue

__all__ = ["ExternalDocuments"]

_DEFAULT_ANALYZER = "default"


class ExternalDocuments(DocumentKeys, ExternalMetadata):
    """The documents of an index by row, in the order of its shards and of Lucene's numbers.

    Queries search the text ``fields``, and are analysed by ``analyzers``.
    """

    def __init__(
        self, index: ServerIndex, parameters: Mapping[str, ParameterValue], fields: Sequence[str] = ()
    ) -> None:
        """Read all ids; ``fields`` are searched in place of ``text_field``.

        Raises RejectedInputError for a field that is missing or not text, and for documents without an id.
        """
        self._index, self.fields = index, tuple(fields) or (str(parameters["text_field"]),)
        self.mapping = index.mapping()
        parameter = "fields" if fields else "text_field"
        self.analyzers = [_analyzer_of(self.mapping, field, index.name, parameter) for field in self.fields]
        self._before = index.summary()
        id_field = str(parameters["id_field"])
        field = id_field or ID_FIELD
        pages = [
            ([str(hit["_id"]) for hit in page], [as_id(field_of(hit.get("_source", {}), field)) for hit in page])
            for shard in range(index.shards)
            for page in index.pages(shard, _source=field_paths(field))
        ]
        unique_ids([name for names, _ in pages for name in names], "_id")
        super().__init__(pages, f"text or whole number in the field '{field}'", "" if id_field else "_id")

    def texts(self, rows: Int32Array) -> list[str | None]:
        """Return the searched text of each of some documents, of several fields between spaces; None if unknown."""
        requested, text_of = set(rows.tolist()), dict[int, str]()
        for shard in range(self._index.shards):
            for page in self._index.pages(shard, _source=[*self.fields]):
                for hit, row in zip(page, self.rows(str(hit["_id"]) for hit in page).tolist(), strict=True):
                    values = [field_of(hit.get("_source", {}), field) for field in self.fields]
                    texts = [value for value in values if isinstance(value, str)]
                    if row in requested and texts:
                        text_of[row] = " ".join(texts)
        return [text_of.get(row) for row in rows.tolist()]

    def metadata(self, fields: Sequence[str]) -> Iterator[tuple[Int32Array, Sequence[Mapping[str, Any]]]]:
        """Yield the indexed values of these fields; raises RejectedInputError for a field that cannot be compared."""
        mapped = {field: filterable_fields(field, self.mapping) for field in fields}
        names = list(dict.fromkeys(one.name for of_field in mapped.values() for one in of_field))
        for shard in range(self._index.shards):
            for page in self._index.pages(shard, docvalue_fields=[{"field": name} for name in names]):
                records = [
                    {
                        field: [
                            plain_value(one, value)
                            for one in of_field
                            for value in hit.get("fields", {}).get(one.name, ())
                        ]
                        for field, of_field in mapped.items()
                    }
                    for hit in page
                ]
                yield self.rows(str(hit["_id"]) for hit in page), records

    def changed(self) -> str | None:
        """Return a note if documents were added, changed or removed since they were listed; None if not."""
        same = self._index.summary() == self._before
        return None if same else f"the index '{self._index.name}' was written to"


def _analyzer_of(mapping: Mapping[str, Any], field: str, index: str, parameter: str) -> str:
    """Return the name of the analyzer that queries of a field are analysed by; raises RejectedInputError.

    ``parameter`` is the name of the parameter that names the field.
    """
    fields = {
        mapped.name: mapped.mapping
        for mapped in mapped_fields(mapping)
        if mapped.type in ("text", "match_only_text") and mapped.mapping.get("index", True)
    }
    if field not in fields:
        fields_text = ", ".join(sorted(fields)) or "there is none"
        raise RejectedInputError(
            f"the index '{index}' has no text field '{field}'",
            fix=f"name an existing one ({parameter}=): {fields_text}",
        )
    kind = fields[field]
    return str(kind.get("search_analyzer") or kind.get("analyzer") or _DEFAULT_ANALYZER)
