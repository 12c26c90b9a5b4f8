"""Filters and exclusions of plain queries count wherever in a file they are, and a field that is no filter is noted."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import DataError
from harness.loaders import load_dataset
from harness.loaders import records as readers
from harness.loaders import source as sources

pytestmark = pytest.mark.integration

RECORDS = [{"_id": f"q{number}", "text": "pump"} for number in range(5)]
OF_FILE = "the field 'filter' of 1 record is not {field: value} and is not applied"
FIELDS = {"filter": {"tenant": "north"}, "excluded_ids": ["b"]}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "_BATCH", 2)
    monkeypatch.setattr(sources, "_BLOCK_LINES", 2)


def written(folder: Path, records: list[dict[str, object]], form: str) -> str:
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "pump"}\n{"_id": "b", "text": "pump"}\n')
    path = folder / f"queries.{form}"
    names = list(dict.fromkeys(name for record in records for name in record))
    if form == "jsonl":
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    elif form in ("json", "yaml"):
        path.write_text(json.dumps(records))
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(records, schema=pa.Table.from_pylist(records[::-1]).schema), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names, delimiter="\t" if form == "tsv" else ",")
            writer.writeheader()
            cells = [
                {name: value if name in RECORDS[0] else json.dumps(value) for name, value in row.items()}
                for row in records
            ]
            writer.writerows(cells)
    return str(folder)


@pytest.mark.parametrize("form", ["jsonl", "json", "yaml", "csv", "tsv", "parquet"])
@pytest.mark.parametrize("fields", [FIELDS, {"filter": FIELDS["filter"]}, {"excluded_ids": ["b"]}])
def test_only_the_last_query_has_a_filter_and_excludes(form: str, fields: dict[str, object], tmp_path: Path) -> None:
    folder = written(tmp_path, [*RECORDS[:-1], {**RECORDS[-1], **fields}], form)
    for _ in ("from the file", "from the cache"):
        dataset = load_dataset(folder)
        assert dataset.filters == ({"q4": {"tenant": "north"}} if "filter" in fields else {})
        excluded = {query: ids for query, ids in (dataset.excluded or {}).items() if ids}
        assert excluded == ({"q4": ("b",)} if "excluded_ids" in fields else {})


def test_a_later_field_is_refused_or_noted_as_the_first(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 5: 'excluded_ids' holds"):
        load_dataset(written(tmp_path, [*RECORDS[:-1], {**RECORDS[-1], "excluded_ids": [["b"]]}], "jsonl"))
    with pytest.raises(DataError, match=r"line 5: 'filter' has .* for 'tenant', expected text"):
        load_dataset(written(tmp_path, [*RECORDS[:-1], {**RECORDS[-1], "filter": {"tenant": ["north"]}}], "jsonl"))
    dataset = load_dataset(written(tmp_path, [*RECORDS[:-1], {**RECORDS[-1], "filter": "by hand"}], "jsonl"))
    assert OF_FILE in dataset.provenance["notes"]


def test_lines_of_two_cells_have_no_fields_by_the_words_of_the_first(tmp_path: Path) -> None:
    folder = written(tmp_path, RECORDS[:1], "jsonl")
    (tmp_path / "queries.jsonl").unlink()
    (tmp_path / "queries.tsv").write_text("q1\tfilter\nq2\tpump\n")
    dataset = load_dataset(folder)
    assert (dataset.queries.texts.to_pylist(), dataset.filters, dataset.excluded) == (["filter", "pump"], {}, None)


@pytest.mark.parametrize("value", ["a", ["x", "y"], 7])
def test_objects_have_the_notes_of_files(value: object, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    records = [*RECORDS[:-1], {**RECORDS[-1], "filter": value}]
    from_file = load_dataset(written(tmp_path, records, "jsonl"))
    with caplog.at_level("INFO", logger="harness"):
        from_objects = harness.Dataset.of({"a": "pump"}, records, name="mine")
    assert from_objects.filters == from_file.filters == {}
    assert OF_FILE in from_file.provenance["notes"]
    assert from_objects.provenance["notes"] == f"queries: {OF_FILE}; to apply it as a filter: columns filter=filter"
    assert f"mine: {from_objects.provenance['notes']}" in caplog.messages


def test_objects_of_a_golden_set_have_the_notes_of_its_file(tmp_path: Path) -> None:
    golden = [{"id": "q", "question": "pump", "expected": ["a", "a"], "filter": "by hand"}]
    folder = Path(written(tmp_path, RECORDS[:1], "jsonl"))
    (folder / "queries.jsonl").write_text(f"{json.dumps(golden[0])}\n")
    notes = load_dataset(folder).provenance["notes"].replace("queries.jsonl: ", "queries: ")
    assert "1 repeated expected id" in notes
    assert harness.Dataset.of({"a": "pump"}, golden).provenance["notes"] == notes.replace("--columns", "columns")
    assert "notes" not in harness.Dataset.of({"a": "pump"}, {"q": "pump"}).provenance


def test_expectations_that_the_first_query_lacks_are_noted(tmp_path: Path) -> None:
    records = [*RECORDS[:3], *({**record, "expected": ["a"]} for record in RECORDS[3:])]
    note = (
        "2 records expect documents and the first record has no such field, so the queries are read without these "
        "judgments; write [] for a query that expects nothing"
    )
    folder = written(tmp_path, records, "jsonl")
    assert load_dataset(folder).provenance["notes"] == f"queries.jsonl: {note}"
    dataset = harness.Dataset.of({"a": "pump"}, records)
    assert (dataset.qrels, dataset.provenance["notes"]) == (None, f"queries: {note}")
    for further in (RECORDS, [{**record, "expected": []} for record in records]):
        assert "notes" not in load_dataset(written(tmp_path, further, "jsonl")).provenance
        assert "notes" not in harness.Dataset.of({"a": "pump"}, further).provenance
