"""`--filter-sweep`: filters of several selectivities, each held against the exact filtered search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_world import DOCUMENTS, write_cards, write_collection

import harness
from harness.data.filter_sweep import MOST_VALUES, FilterSweep, sweep_filters
from harness.data.types import Run
from harness.document.figures import Curves
from harness.errors import UsageError
from harness.parity.references import DenseReference
from harness.pipeline.probes.filtering import FilteringProbe
from harness.plan.config import CompareRequest
from harness.plan.option_values import parse_filter_sweep
from harness.plan.plan import make_plan
from harness.report.documents.compare import comparison_document
from harness.report.render.terminal import render_terminal
from harness.results.comparison import Comparison
from harness.results.schema import ParityStats, TrialResult
from harness.results.schema_costs import FilteredStats, FilterSweepStats

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
SECTIONS = {"d1": "news", "d2": "garden", "d3": "garden", "d4": "news", "d6": "garden"}


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_collection(tmp_path_factory.mktemp("data") / "sections")
    records = [
        {"_id": name, "text": text, "metadata": {"section": SECTIONS[name]} if name in SECTIONS else {}}
        for name, text in DOCUMENTS.items()
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cards")
    write_cards(folder, plain="BruteForce")
    return write_cards(folder, module="engines_that_filter", late="FiltersTheBest", never="ReturnsEverything")


def levels(comparison: Comparison, label: str) -> list[FilteredStats]:
    sweep = comparison.trial(label).filter_sweep
    assert sweep is not None
    return sweep.levels


@pytest.mark.parametrize(
    ("given", "shares", "fields"),
    [
        ("0.5,1%,section", (0.5, 0.01), ("section",)),
        ([0.1, "year"], (0.1,), ("year",)),
        (0.25, (0.25,), ()),
        ("section", (), ("section",)),
        (None, (), ()),
    ],
)
def test_shares_and_fields_are_told_apart(given: Any, shares: tuple[float, ...], fields: tuple[str, ...]) -> None:
    assert parse_filter_sweep(given) == FilterSweep(shares, fields)


@pytest.mark.parametrize(
    "given", ["0", "1.5", "-0.1", "-1", "0.1,0.1", "0.1,", "150%", "section,0.5,50%", "section,section"]
)
def test_what_is_no_share_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="--filter-sweep"):
        parse_filter_sweep(given)


def test_seeded_attributes_have_their_shares_and_lie_in_one_another() -> None:
    sweep = FilterSweep((0.5, 0.1, 0.0001))
    found = [one.filtered for one in sweep_filters(sweep, 200, None, 42)]
    assert [len(one) for one in found] == [100, 20, 1]
    assert (found[2].matching <= found[1].matching).all()
    assert (found[1].matching <= found[0].matching).all()
    assert found[0].metadata.column_names == ["filter_sweep_1", "filter_sweep_2", "filter_sweep_3"]
    again, other = (sweep_filters(sweep, 200, None, seed)[0].filtered.matching for seed in (42, 43))
    assert np.array_equal(again, found[0].matching)
    assert not np.array_equal(other, found[0].matching)


def test_of_many_values_some_are_taken_from_frequent_to_rare() -> None:
    values = [f"v{number}" for number in range(10) for _ in range(2**number)]
    attributes = pa.table({"tenant": pa.array([*values, None])})
    found = sweep_filters(FilterSweep(fields=("tenant",)), len(values) + 1, attributes, 42)
    counts = [len(one.filtered) for one in found]
    assert len(counts) == MOST_VALUES
    assert (counts[0], counts[-1]) == (512, 1)
    assert counts == sorted(counts, reverse=True)
    assert found[0].name == "tenant=v9"


@pytest.mark.parametrize("frequencies", [[1] * 8, [9, 1, 1, 1, 1, 1, 1], [5, 5, 5, 5, 5, 5, 1]])
def test_values_of_one_frequency_are_as_many_filters(frequencies: list[int]) -> None:
    values = [f"v{number}" for number, frequency in enumerate(frequencies) for _ in range(frequency)]
    attributes = pa.table({"price": pa.array(values)})
    found = sweep_filters(FilterSweep(fields=("price",)), len(values), attributes, 42)
    assert len({one.name for one in found}) == MOST_VALUES
    counts = [len(one.filtered) for one in found]
    assert (counts[0], counts[-1]) == (max(frequencies), min(frequencies))


def test_exact_engines_lose_nothing_and_late_filters_do(collection: Path, cards: Path) -> None:
    backends = ["csr", "flat:model=random", "late", "plain"]
    found = harness.compare(backends, collection, cards=cards, k=2, filter_sweep="section,0.4", metrics="nDCG@10")
    assert found.failed == []
    for label in ("csr", "flat:model=random"):
        assert [(one.filter, one.matching, one.selectivity) for one in levels(found, label)] == [
            ("seeded 0.4", 2, 2 / 6),
            ("section=garden", 3, 0.5),
            ("section=news", 2, 2 / 6),
        ]
        for one in levels(found, label):
            assert (set(one.recall.values()), one.queries_with_fewer_hits, one.error) == ({1.0}, 0, None)
            assert one.quality == one.exact
            assert one.milliseconds is not None
    # of the two best of all documents q1, "cat garden", has d2 and d1: d6 is third, and the second of the garden
    garden, news = levels(found, "late")[1:]
    assert (garden.queries_with_fewer_hits, garden.recall) == (1, {"2": 0.875})
    assert (news.queries_with_fewer_hits, news.recall) == (0, {"2": 1.0})
    assert [found.trial(label).filter_sweep.recall for label in ("csr", "late")] == [{"2": 1.0}] * 2  # type: ignore[union-attr]
    assert garden.quality is not None
    assert garden.exact is not None
    assert garden.quality < garden.exact
    (d4,) = [one.quality for one in levels(found, "csr") if one.filter == "section=news"]
    assert (d4, levels(found, "csr")[2].evaluated) == (1.0, 1)  # q2 alone has a relevant document among the news
    plain = found.trial("plain").filter_sweep
    assert plain is not None
    assert (plain.filters, plain.levels) == (False, [])
    assert any("does not filter" in note for note in found.trial("plain").notes)
    series = {"flat:model=random": 0, "csr": 1, "plain": 2, "late": 5}
    recall, loss = (figure.drawing for figure in FilteringProbe().figures(found.report.trials, series))
    assert isinstance(recall, Curves)
    assert isinstance(loss, Curves)
    assert (
        [row.label for row in recall.rows] == [row.label for row in loss.rows] == ["csr", "flat:model=random", "late"]
    )
    assert [row.series for row in recall.rows] == [1, 0, 5]
    assert recall.rows[2].points == [(2 / 6, 1.0), (2 / 6, 1.0), (0.5, 0.875), (1.0, 1.0)]
    assert [sorted(row.ringed) for row in recall.rows] == [[], [], [2]]
    assert sorted(recall.rows[2].apart) == [1, 2], "values of metadata"
    assert dict(loss.rows[2].points)[0.5] == garden.quality - garden.exact
    shown = found.render()
    assert "Search under filters" in shown
    assert "does not filter" in shown
    assert "? under filters late finds least: recall@2 0.8750, too few hits on 1 of 4 queries if 50 % match" in shown
    (verdict,) = FilteringProbe().verdicts([found.trial("csr")])
    assert (verdict.tone, verdict.headline) == ("good", "csr finds the exact filtered best 2 under every filter")
    assert "filter.section=garden.queries_with_fewer_hits,1," in found.render("csv")


def test_what_was_measured_is_stored_and_metadata_decide_whether_it_stands(collection: Path, tmp_path: Path) -> None:
    def ask(**options: Any) -> Comparison:
        return harness.compare("csr", collection, k=3, timing=False, resume="missing", **options)

    first = ask(filter_sweep="section")
    again = ask(filter_sweep="section")
    assert not first.trial("csr").reused
    assert again.trial("csr").reused
    assert levels(again, "csr") == levels(first, "csr")
    assert not ask(filter_sweep="section,0.5").trial("csr").reused
    again.save(tmp_path / "out")
    assert levels(Comparison.load(tmp_path / "out"), "csr") == levels(first, "csr")
    assert first.report.plan.arguments["filter_sweep"] == "section"


def test_searches_that_break_the_filter_fail_and_leave_the_backend(collection: Path, cards: Path) -> None:
    found = harness.compare("never", collection, cards=cards, k=3, filter_sweep=["section"])
    assert found.failed == []
    assert found.unmeasured == ["never"]
    garden = levels(found, "never")[0]
    assert garden.error is not None
    assert "do not match the filter section=garden" in garden.error
    assert any(note.startswith("filter section=garden: ") for note in found.trial("never").notes)
    assert "failed" in found.render()


def test_a_run_that_was_read_is_named_as_not_searched(collection: Path, tmp_path: Path) -> None:
    (tmp_path / "a.trec").write_text("q1 Q0 d2 1 2.0 x\n")
    found = harness.compare([f"run:{tmp_path / 'a.trec'}"], collection, k=3, filter_sweep=0.5)
    (trial,) = found.report.trials
    assert trial.filter_sweep is None
    assert "not searched under the filters of --filter-sweep: it has no index itself" in trial.notes


def test_a_field_that_no_document_has_is_refused(collection: Path) -> None:
    with pytest.raises(UsageError, match="unknown metadata field 'sction'"):
        harness.compare("csr", collection, filter_sweep="sction")


def test_a_field_that_no_document_of_a_sample_has_is_refused_before_anything_runs(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "years")
    records = [{"_id": f"d{n}", "text": "cat garden", "metadata": {}} for n in range(1, 61)]
    records[59]["metadata"] = {"year": 1971}
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    # three, and a fourth that is judged
    with pytest.raises(UsageError, match="--filter-sweep year: none of 4 documents has a value of it"):
        harness.compare("csr", folder, max_docs=3, filter_sweep="0.5,year")


def test_without_a_filter_recall_counts_ties_as_found_and_is_no_overlap() -> None:
    stored = {"filter": "seeded 0.5", "matching": 3, "selectivity": 0.5, "recall": {"10": 0.5}, "metric": None}
    sweep = FilterSweepStats.model_validate({"filters": True, "levels": [stored], "recall": {"10": 0.75}})
    parity = ParityStats.model_construct(overlap={"10": 0.25}, different=1, loss={})
    trial = TrialResult.model_construct(label="late", filter_sweep=sweep, parity=parity, metrics={})
    (table,) = FilteringProbe().tables([trial], 1)
    place = [column.name for column in table.columns].index("recall@10")
    assert [row[place].text for row in table.rows] == ["0.7500", "0.5000"]
    assert sweep.levels[0].model_dump()["recall"] == {"10": 0.5}


def test_a_narrow_table_keeps_what_a_filter_loses_and_costs(collection: Path) -> None:
    found = harness.compare(["csr", "flat:model=random"], collection, k=2, filter_sweep="section", metrics="nDCG@10")
    narrow = render_terminal(comparison_document(found.report), width=80).partition("Search under filters")[2]
    shown, _, left_out = narrow.partition("no room for")
    assert max(map(len, narrow.splitlines())) <= 80
    assert [name in shown for name in ("filter", "recall@2", "p95 ms", "too few")] == [True] * 4
    assert [name in left_out for name in ("evaluated", " n")] == [True] * 2


def test_one_filter_and_a_sweep_of_them_exclude_one_another() -> None:
    with pytest.raises(UsageError, match="--filter-sweep with --filter"):
        make_plan(CompareRequest(backends="csr", filter=("a=b",), filter_sweep="0.1"), lucene_available=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("0.5,50%", "a seeded attribute of 0.5 of the documents occurs twice"),
        ("year=2000", "a field goes without a value"),
    ],
)
def test_a_sweep_that_cannot_be_says_why(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_filter_sweep(text)


def test_backends_that_claim_the_same_scores_share_the_exact_filtered_search(
    collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    search = DenseReference._search

    def counting(reference: DenseReference, k: int) -> Run:
        searched.append(0 if reference.mask is None else int(reference.mask.sum()))
        return search(reference, k)

    monkeypatch.setattr(DenseReference, "_search", counting)
    backends = "flat:model=random,again=flat:model=random;threads=2"
    found = harness.compare(backends, collection, k=3, filter_sweep="section", timing=False)
    assert sorted(searched) == [0, 2, 3]
    assert levels(found, "flat:model=random") == levels(found, "again")
