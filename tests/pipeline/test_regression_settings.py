"""What is compared with what: pairs of backends, common queries, changed settings, and `--set`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from regression_sides import AFTER, BEFORE, GRADES, TEXTS, backend, compare_one, result_of, side, with_dataset

from harness.data.memory import qrels_from_dict
from harness.document.model import Table
from harness.errors import HarnessError, ResultError, UnknownNameError, UsageError
from harness.pipeline.regress.compare_sides import CompareRules
from harness.pipeline.regress.pairing import Pair, changed_settings, common_queries, machine_changes, pair_backends
from harness.pipeline.regress.rerun import changed_backends
from harness.plan.backend_spec import parse_backends
from harness.report.documents.regress import change_document
from harness.report.formats import render
from harness.results.regression_schema import SettingChange
from harness.results.schema import RerankingStats, StageStats
from harness.results.schema_base import CandidatesInfo, ContentDigests, EngineDescription
from harness.results.snapshot import ResultSnapshot


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        (["csr", "lucene"], ["lucene", "csr"], ["lucene lucene", "csr csr"]),
        (["csr", "lucene"], ["csr", "lucene:k1=3.0"], ["csr csr", "lucene lucene:k1=3.0"]),
        (["csr:b=1", "csr:b=2"], ["csr:b=3", "csr:b=4"], ["csr:b=1 csr:b=3", "csr:b=2 csr:b=4"]),
        (["csr", "lucene"], ["csr", "qdrant"], ["csr csr", "lucene qdrant"]),
        (["csr", "lucene", "flat"], ["csr", "qdrant"], ["csr csr"]),
    ],
)  # fmt: skip
def test_backends_are_paired_by_label_then_name_then_position(
    before: Sequence[str], after: Sequence[str], pairs: Sequence[str]
) -> None:
    found = pair_backends([backend(label) for label in before], [backend(label) for label in after])
    assert [f"{one} {other}" for one, other in found.pairs] == pairs
    assert {*found.only_before, *(pair.before for pair in found.pairs)} == set(before)
    assert {*found.only_after, *(pair.after for pair in found.pairs)} == set(after)


def test_a_given_pair_comes_first_and_must_be_there() -> None:
    before, after = [backend("csr"), backend("lucene")], [backend("csr"), backend("qdrant")]
    found = pair_backends(before, after, [Pair("lucene", "csr")])
    assert found.pairs == {Pair("lucene", "csr"): "option", Pair("csr", "qdrant"): "position"}
    with pytest.raises(UsageError, match="no backend 'flat'"):
        pair_backends(before, after, [Pair("flat", "csr")])


def test_backends_that_only_their_place_pairs_are_called_unlike() -> None:
    before, after = side({"csr": BEFORE, "lucene": BEFORE}), side({"csr": BEFORE, "qdrant": AFTER}, source="after")
    report = compare_one(before, after, CompareRules()).change
    assert [one.paired_by for one in report.backends] == ["label", "position"]
    (warning,) = (one for one in report.warnings if "UNLIKE" in one)
    assert warning.startswith("UNLIKE BACKENDS ARE COMPARED (lucene before, qdrant now): ")
    verdicts = change_document(result_of(report)).verdicts
    assert (verdicts[1].tone, verdicts[1].headline) == ("unsure", warning)
    assert f"? {warning}" in render(result_of(report), "table").splitlines()
    assert "UNLIKE BACKENDS ARE COMPARED" in render(result_of(report), "markdown").partition("<details>")[0]
    assert "lucene before, qdrant now" in str(change_document(result_of(report)).suites[0].properties)
    told = [backend(label, parameters=given) for label, given in (("csr", {"idf": True}), ("qdrant", {}))]
    changed = compare_one(
        side({"csr": BEFORE}, backends=told[:1]),
        side({"qdrant": BEFORE}, backends=told[1:], source="after"),
        CompareRules(),
    ).change
    assert "idf true → – (qdrant)" in change_document(result_of(changed)).verdicts[0].detail
    asked = CompareRules(pairs=[Pair("lucene", "qdrant")])
    said = compare_one(before, after, asked).change
    assert said.backends[1].paired_by == "option"
    assert not any("UNLIKE" in one for one in said.warnings)


def test_results_without_a_common_backend_are_refused() -> None:
    with pytest.raises(ResultError, match="has a counterpart"):
        pair_backends([backend("csr"), backend("flat")], [backend("qdrant")])


@pytest.mark.parametrize(
    ("backends", "settings", "expected"),
    [
        ("csr,lucene", ["lucene:k1=3;b=0.95"], ["csr", "lucene:k1=3;b=0.95"]),
        ("lucene:k1=1.2", ["lucene:b=0.5", "lucene:k1=3"], ["lucene:k1=3;b=0.5"]),
        ("csr,lucene,flat", ["*:k1=2"], ["csr:k1=2", "lucene:k1=2", "flat"]),
        ("rrf:lucene+csr;k=10", ["csr:b=0.1"], ["rrf:lucene+(csr:b=0.1);k=10.0"]),
        ("rrf:lucene+csr", ["rrf:k=20"], ["rrf:lucene+csr;k=20"]),
        ("csr:k1=1.2|dense:candidates=50", ["csr:k1=2", "dense:candidates=20"], ["csr:k1=2|dense:candidates=20"]),
    ],
)
def test_set_changes_parameters_wherever_the_backend_stands(
    backends: str, settings: Sequence[str], expected: Sequence[str]
) -> None:
    changed = changed_backends(parse_backends(backends), settings)
    assert changed == expected
    assert len(parse_backends(changed)) == len(expected)


@pytest.mark.parametrize(
    ("setting", "error", "said"),
    [
        ("qdrant:k1=3", UnknownNameError, "unknown backend of the plan 'qdrant'"),
        ("*:nonsense=3", UnknownNameError, "unknown parameter"),
        ("lucene", UsageError, "is not key=value"),
        ("lucene:k1", UsageError, "'k1' is not key=value"),
        (":k1=3", UsageError, "is not key=value"),
    ],
)
def test_a_change_that_changes_nothing_is_refused(setting: str, error: type[HarnessError], said: str) -> None:
    with pytest.raises(error, match=said):
        changed_backends(parse_backends("csr,lucene"), [setting])


@pytest.mark.parametrize("setting", ["python:expression=python:a:c", "mine:expression=python:a:c"])
def test_own_code_has_no_parameters_to_change(setting: str) -> None:
    """It would be asked as before, and the result called the same."""
    specs = parse_backends("csr,mine=python:a:b")
    with pytest.raises(
        UsageError, match=r"'mine' has no parameters to change\n  name all backends of the new plan with --backends"
    ):
        changed_backends(specs, [setting])
    with pytest.raises(UnknownNameError, match="unknown parameter"):
        changed_backends(specs, ["*:expression=python:a:c"])


def test_every_setting_that_differs_is_told_once() -> None:
    before = side({"csr": BEFORE}, backends=[backend("csr", parameters={"k1": 0.9, "b": 0.4}, encoder={"k1": 0.9})])
    engine = EngineDescription(name="exact", version="2", mode="embedded")
    later = backend("csr:k1=3", parameters={"k1": 3.0, "b": 0.4}, encoder={"k1": 3.0}, engine=engine)
    machine = before.report.machine.model_copy(update={"system": "Linux 7.1", "cores": 8})
    after = side({"csr:k1=3": BEFORE}, backends=[later], machine=machine, packages={"numpy": "2.1"}, resolved={"k": 20})
    found = changed_settings(before, after, [Pair("csr", "csr:k1=3")])
    told = {(one.section, one.backend, one.setting): (one.before, one.after) for one in found}
    assert told.pop(("engine", "csr:k1=3", "version"))[1] == "2"
    told = {key: values for key, values in told.items() if key[0] != "engine"}
    assert told == {
        ("plan", None, "k"): (10, 20),
        ("parameters", "csr:k1=3", "k1"): (0.9, 3.0),
        ("packages", None, "numpy"): ("2.0", "2.1"),
        ("machine", None, "cores"): (2, 8),
    }
    assert [one.setting for one in machine_changes(before.report, after.report)] == ["cores"]
    assert changed_settings(before, before, [Pair("csr", "csr")]) == []


def test_a_prompt_that_was_applied_is_a_setting_though_nobody_gave_it() -> None:
    def dense(applied: str | None, given: str = "") -> ResultSnapshot:
        facts: dict[str, str | float | None] = {"normalize": "true", "query_prompt_from": "its configuration"}
        facts |= {} if applied is None else {"query_prompt": applied}
        parameters: dict[str, str | int | float | bool] = {"query_prompt": given, "k1": 1.0}
        return side({"flat": BEFORE}, backends=[backend("flat", parameters=parameters, encoder=facts)])

    def changed(before: ResultSnapshot, after: ResultSnapshot) -> list[tuple[str, str, object, object]]:
        found = changed_settings(before, after, [Pair("flat", "flat")])
        return [(one.section, one.setting, one.before, one.after) for one in found]

    assert changed(dense("query: "), dense("Query: ")) == [("encoder", "query_prompt", "query: ", "Query: ")]
    assert changed(dense(None), dense("Query: ")) == [("encoder", "query_prompt", None, "Query: ")]
    assert changed(dense("query: "), dense("")) == [("encoder", "query_prompt", "query: ", "")]
    assert changed(dense("query: "), dense("query: ")) == []
    assert changed(dense("a: ", "a: "), dense("b: ", "b: ")) == [("parameters", "query_prompt", "a: ", "b: ")]


def test_changed_weights_of_a_model_are_a_setting_that_differs() -> None:
    def dense(digest: str | None) -> ResultSnapshot:
        facts = {} if digest is None else {"model_digest": digest}
        return side({"flat": BEFORE}, backends=[backend("flat", encoder={"model": "m", **facts})])

    def reranked(digest: str | None) -> ResultSnapshot:
        facts: dict[str, str | int] = {"device": "cpu", **({} if digest is None else {"model_digest": digest})}
        stats = RerankingStats(
            candidates=1, pairs=1, scored=1, load_seconds=None, pairs_per_second=None, upper_bound={}, facts=facts
        )
        stages = StageStats(
            method="cross-encoder", components=["csr"], components_ms=None, method_ms=None, reranking=stats
        )
        return side({"csr|ce": BEFORE}, backends=[backend("csr|ce", stages=stages)])

    for made, label, section in ((dense, "flat", "encoder"), (reranked, "csr|ce", "second stage")):
        found = changed_settings(made("a" * 64), made("b" * 64), [Pair(label, label)])
        assert [(one.section, one.setting, one.before, one.after) for one in found] == [
            (section, "model_digest", "a" * 64, "b" * 64)
        ]
        assert changed_settings(made("a" * 64), made("a" * 64), [Pair(label, label)]) == []


def test_the_same_queries_are_those_with_the_same_id_and_text() -> None:
    before, after = side({"csr": BEFORE}), side({"csr": BEFORE}, texts={**TEXTS, "q2": "other words", "q9": "new"})
    found = common_queries(before, with_dataset(after, sha256="2" * 64))
    assert found.queries == {"q1", "q3"}
    assert (found.relation.documents, found.relation.queries, found.relation.judgments) == ("same", "different", "same")
    assert (found.relation.queries_before, found.relation.queries_after, found.relation.common_queries) == (3, 4, 2)
    assert "1 query has the same id and another text: left out" in found.warnings
    assert "3 queries before, 4 now: only the 2 that both have are compared" in found.warnings


def test_another_collection_under_the_same_ids_has_nothing_in_common() -> None:
    other = side({"csr": BEFORE}, texts={query: f"{text} of others" for query, text in TEXTS.items()})
    with pytest.raises(ResultError, match="have no query in common") as raised:
        common_queries(side({"csr": BEFORE}), with_dataset(other, sha256="2" * 64))
    assert raised.value.exit_code == 3


def test_other_documents_and_judgments_are_said_loudly() -> None:
    before = side({"csr": BEFORE})
    content = before.report.dataset.content
    assert content is not None
    digests = ContentDigests(documents="e" * 64, queries=content.queries, judgments="k" * 64)
    rejudged = qrels_from_dict({**GRADES, "q1": {"other": 1}})
    after = replace(with_dataset(before, sha256="2" * 64, content=digests, documents=1500), qrels=rejudged)
    found = common_queries(before, after)
    assert (found.relation.documents, found.relation.queries, found.relation.judgments) == (
        "different", "same", "different",
    )  # fmt: skip
    assert any("DOCUMENTS ARE NOT THE SAME (1,400 documents before, 1,500 now)" in one for one in found.warnings)
    assert any(
        "JUDGMENTS ARE NOT THE SAME: 1 of 3 compared queries has other judgments" in one for one in found.warnings
    )


@pytest.mark.parametrize(
    ("grades", "texts"),
    [
        ({**GRADES, "q9": {"a": 1}}, {**TEXTS, "q9": "added"}),
        ({name: GRADES[name] for name in ("q2", "q3")}, {name: TEXTS[name] for name in ("q2", "q3")}),
        (dict(reversed(GRADES.items())), dict(reversed(TEXTS.items()))),
        ({**GRADES, "q2": {"other": 1}}, {**TEXTS, "q2": "reworded, and expects another document"}),
    ],
)
def test_judgments_are_those_of_the_compared_queries(
    grades: Mapping[str, Mapping[str, int]], texts: Mapping[str, str]
) -> None:
    before, after = side({"csr": BEFORE}), side({"csr": BEFORE}, grades=grades, texts=texts)
    content = after.report.dataset.content
    assert content is not None
    digests = content.model_copy(update={"judgments": "k" * 64})
    for first, last in ((before, after), (after, before)):
        one, other = with_dataset(first, sha256="2" * 64, content=digests), last
        found = common_queries(one, other)
        assert found.relation.judgments == "same"
        assert not any("judgments" in warning.lower() for warning in found.warnings)
        unknown = common_queries(replace(one, qrels=None), other)
        assert unknown.relation.judgments == "different"
        assert any("judgments" in warning.lower() for warning in unknown.warnings)


def test_without_texts_queries_are_matched_by_their_ids() -> None:
    found = common_queries(side({"csr": BEFORE}), side({"csr": BEFORE}, texts={}))
    assert not found.relation.texts_compared
    assert any("matched only by their ids" in one for one in found.warnings)


def test_other_candidates_are_named_as_a_cause() -> None:
    before = side({"csr": BEFORE})
    content, info = before.report.dataset.content, CandidatesInfo(fewest=10, most=10, searched=1400)
    assert content is not None
    one, other = (
        with_dataset(
            before, sha256=digit * 64, candidates=info, content=content.model_copy(update={"candidates": digest})
        )
        for digit, digest in (("4", "a" * 64), ("5", "b" * 64))
    )
    found = common_queries(one, other)
    assert (found.relation.documents, found.relation.candidates) == ("same", "different")
    assert any("THE CANDIDATES ARE NOT THE SAME" in warning for warning in found.warnings)
    (change,) = changed_settings(one, other, [])
    assert (change.setting, change.before, change.after) == ("content of candidates", "a" * 64, "b" * 64)
    everything = common_queries(before, one)
    assert everything.relation.candidates == "different"
    assert common_queries(one, one).relation.candidates == "same"


@pytest.mark.parametrize(
    ("before", "after", "cells"),
    [
        (3.3333333333333335, 5.0, ("3.333", "5")),
        (0.1 + 0.2, 0.3, ("0.30000000000000004", "0.3")),
        (1.00001, 1.00002, ("1.00001", "1.00002")),
        (None, 1e-7, ("–", "1e-07")),
        (123456.7, 123456.8, ("123456.7", "123456.8")),
        (1200, 1.5, ("1200", "1.5")),
        ("3.3333333333333335", True, ("3.3333333333333335", "true")),
    ],
)
def test_numbers_in_changed_settings_are_short_and_still_differ(
    before: float, after: float, cells: tuple[str, str]
) -> None:
    one = side({"csr": BEFORE})
    change = compare_one(one, one, CompareRules()).change
    setting = SettingChange(section="encoder", backend="csr", setting="average_length", before=before, after=after)
    document = change_document(result_of(change.model_copy(update={"settings": [setting]})))
    assert f"Changed: average_length {' → '.join(cells)} (csr)." in document.verdicts[0].detail
    (table,) = next(section.blocks for section in document.sections if section.anchor == "settings")
    assert isinstance(table, Table)
    assert [cell.text for cell in table.rows[0][-2:]] == list(cells)
