"""Questions to which no file gives an id go by their line: two results pair them by their texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from regression_sides import compare_one, read_one, result_of, side, with_dataset, write_one

import harness
from harness.data.golden_set import is_line_id, line_id
from harness.data.types import Ids
from harness.errors import ResultError
from harness.pipeline.regress.compare_sides import CompareRules
from harness.pipeline.regress.read_snapshot import read_snapshots
from harness.pipeline.regress.verdicts import Rules
from harness.report.documents.regress import change_document
from harness.results.regression_schema import Change
from harness.results.schema_base import QueryCounts
from harness.results.snapshot import ResultSnapshot

UNGATED = CompareRules(Rules(allowed_drop=None))
Rows = Sequence[tuple[str, Sequence[str], str]]
"""A question, the documents that were found for it, and the one that it expects."""
THREE: Rows = [("pump?", ["p", "x"], "p"), ("valve?", ["v"], "v"), ("filter?", ["x", "f"], "f")]
NEW = ("seal?", ["s"], "s")


def asked(rows: Rows, *, without_id: int | None = None, **options: Any) -> ResultSnapshot:
    """A result of questions by their line."""
    ids = [line_id(line) for line in range(1, len(rows) + 1)]
    made = side(
        {"csr": {name: found for name, (_, found, _) in zip(ids, rows, strict=True)}},
        grades={name: {expected: 1} for name, (_, _, expected) in zip(ids, rows, strict=True)},
        texts={name: text for name, (text, _, _) in zip(ids, rows, strict=True)},
        **options,
    )
    count = len(rows) if without_id is None else without_id
    return with_dataset(made, queries=QueryCounts(searched=len(rows), judged=3, relevant=3, without_id=count))


def differences(change: Change) -> dict[str, tuple[int, float]]:
    """Queries and difference of each metric."""
    return {one.metric: (one.queries, one.difference) for one in change.backends[0].metrics}


@pytest.mark.parametrize("stored", [False, True], ids=["results", "baseline"])
@pytest.mark.parametrize(
    ("later", "common", "moved"),
    [
        ([NEW, *THREE], 3, True),
        (THREE[1:], 2, True),
        ([THREE[2], THREE[0], THREE[1]], 3, True),
        ([THREE[0], ("valve, please?", *THREE[1][1:]), THREE[2]], 2, False),
        ([*THREE[:1], NEW, *THREE[1:]], 3, True),
    ],
    ids=["one on top", "one removed", "another order", "another text", "one between"],
)
def test_lines_that_moved_are_paired_by_their_texts(
    later: Rows, common: int, moved: bool, stored: bool, tmp_path: Path
) -> None:
    before, after = asked(THREE), asked(later, source="after")
    if stored:
        write_one(tmp_path / "baseline.json", before)
        before = read_one(tmp_path / "baseline.json")
    compared = compare_one(before, after, UNGATED)
    change = compared.change
    relation = change.data[0]
    assert (relation.common_queries, relation.paired_by_text) == (common, common)
    assert differences(change) == {"nDCG@2": (common, 0.0), "AP": (common, 0.0)}
    dossier = change.backends[0].dossier
    assert dossier is not None
    assert (dossier.changed_queries, dossier.lost, dossier.gained, dossier.counts.same_ranking) == (0, 0, 0, common)
    said = any("on another line than before: paired by their texts" in warning for warning in change.warnings)
    assert said == moved
    assert not any("same id and another text" in warning for warning in change.warnings)
    notes = [line for section in change_document(result_of(change)).sections for line in note_lines(section)]
    assert f"{common} queries have no id on either side: paired by their texts" in notes


def note_lines(section: Any) -> list[str]:
    return [line for block in section.blocks for line in getattr(block, "lines", ())]


def test_what_a_moved_question_lost_is_told_under_its_later_id() -> None:
    worse = [NEW, THREE[0], ("valve?", ["x", "y"], "v"), THREE[2]]
    change = compare_one(asked(THREE), asked(worse, source="after"), UNGATED).change
    dossier = change.backends[0].dossier
    assert dossier is not None
    (query,) = dossier.queries
    assert (query.query, query.text, query.lost, query.gained) == ("line-3", "valve?", ["v"], [])
    assert {one.document: (one.rank_before, one.rank_after, one.grade) for one in query.documents} == {
        "x": (None, 1, None), "y": (None, 2, None), "v": (1, None, 1),
    }  # fmt: skip


def test_a_text_that_occurs_twice_is_paired_in_order() -> None:
    twice: Rows = [("pump?", ["p"], "p"), ("pump?", ["q"], "q")]
    change = compare_one(asked(twice), asked([NEW, *twice], source="after"), UNGATED).change
    assert (change.data[0].common_queries, differences(change)["AP"]) == (2, (2, 0.0))
    assert change.backends[0].dossier is not None
    assert change.backends[0].dossier.changed_queries == 0


def test_ids_that_a_file_gives_pair_queries_whatever_they_look_like() -> None:
    """The same text under another id is another query then."""
    before, after = (with_count(asked(rows), 0) for rows in (THREE, [NEW, *THREE]))
    with pytest.raises(ResultError, match="have no query in common"):
        compare_one(before, after, UNGATED)


def with_count(one: ResultSnapshot, count: int) -> ResultSnapshot:
    counts = one.report.dataset.queries.model_copy(update={"without_id": count})
    return with_dataset(one, queries=counts)


def test_a_side_with_ids_and_one_without_are_refused_with_the_reason() -> None:
    named = side({"csr": {"pump": ["p"]}}, grades={"pump": {"p": 1}}, texts={"pump": "pump?"})
    with pytest.raises(ResultError, match="have no query in common") as raised:
        compare_one(named, asked(THREE, source="after"), UNGATED)
    assert raised.value.fix == "give both files the same ids: one file has none"


def test_without_texts_only_the_same_questions_are_paired() -> None:
    def hidden(rows: Rows) -> ResultSnapshot:
        return replace(asked(rows), texts={}, digests={})

    same = compare_one(hidden(THREE), hidden(THREE), UNGATED).change
    assert (same.data[0].common_queries, same.data[0].paired_by_text) == (3, 3)
    with pytest.raises(ResultError, match="nothing says which belong together") as raised:
        compare_one(hidden(THREE), with_dataset(hidden([NEW, *THREE]), sha256="a" * 64), UNGATED)
    assert "--no-text" in raised.value.fix


def test_the_form_of_a_line_as_an_id() -> None:
    names = ["line-1", "line-20", "line-", "line-x", "xline-1", "line-1x", "1"]
    assert [is_line_id(name) for name in names] == [True, True, False, False, False, False, False]
    assert Ids.of(names).count_line_ids() == 2
    assert Ids.of([]).count_line_ids() == 0


PARTS = [{"question": f"find part {number}", "expected": [f"part-{number}"]} for number in range(20)]
"""As of a file whose rows have a question and what it expects, and no more."""


def written(path: Path, rows: Sequence[Mapping[str, Any]]) -> object:
    """Rows in a file of the path's ending, or as they are."""
    if path.suffix == ".objects":
        return rows
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".csv":
        pd.DataFrame([{**row, "expected": row["expected"][0]} for row in rows]).to_csv(path, index=False)
    else:
        pd.DataFrame(rows).to_parquet(path)
    return path


@pytest.mark.integration
@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "parquet", "objects"])
@pytest.mark.parametrize("hidden", [False, True], ids=["texts", "no texts"])
def test_two_checks_of_a_golden_set_without_ids_compare_20_of_20(tmp_path: Path, form: str, hidden: bool) -> None:
    rows = {"before": PARTS, "after": [{"question": "find part 99", "expected": ["part-99"]}, *PARTS]}
    for when, golden in rows.items():
        harness.check(
            written(tmp_path / f"{when}.{form}", golden),
            against={"mine": lambda question, _: [question.removeprefix("find ").replace(" ", "-")]},
            k=3, timing=False, isolation="none", out=tmp_path / when, no_text=hidden,
        )  # fmt: skip
    found = harness.diff(tmp_path / "before", tmp_path / "after")
    (relation,) = found.change.data
    assert (relation.queries_before, relation.queries_after, relation.common_queries) == (20, 21, 20)
    assert {(one.queries, one.losses, one.after) for one in found.change.backends[0].metrics} == {(20, 0, 1.0)}
    (snapshot,) = read_snapshots(tmp_path / "after")
    assert snapshot.report.dataset.queries.without_id == 21


@pytest.mark.integration
def test_a_comparison_and_its_repetition_pair_queries_by_their_texts(tmp_path: Path) -> None:
    """``--queries`` takes a golden set."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"_id": f"part-{n}", "text": f"this is part {n}"}) + "\n" for n in range(20)))
    golden = tmp_path / "golden.jsonl"
    written(golden, PARTS)
    harness.compare(
        "csr:analyzer=whitespace", str(corpus), queries=str(golden), k=5, metrics="nDCG@3", timing=False,
        isolation="none", out=tmp_path / "before",
    )  # fmt: skip
    written(golden, PARTS[1:])
    found = harness.regress(tmp_path / "before")
    (relation,) = found.change.data
    assert (relation.common_queries, relation.paired_by_text) == (19, 19)
    assert [(one.queries, one.verdict, one.gate) for one in found.change.backends[0].metrics] == [
        (19, "same", "passed")
    ]
