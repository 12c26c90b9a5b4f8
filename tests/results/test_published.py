"""Published numbers stand beside measured ones where configuration and metric are the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed import skip_without
from small_world import write_collection

import harness
from harness.report.documents.published import published_mean_tables
from harness.results.schema import PublishedNumber

pytestmark = pytest.mark.integration

CARD = """
name = "pets"
summary = "animals"
format = "beir"
path = "../pets"
language = "en"
licence = "none"
source = "here"
"""
ROW = """
[[published]]
system = "{system}"
source = "{source}"
{rest}
scores = {{ AP = "0.5", "P@1" = "50%", "nDCG@20" = "0.40" }}
"""
BM25 = (
    'backend = "csr:k1=1.2;b=0.75;analyzer=snowball-english"\noptions = { k = 9, ties = "engine", queries = "judged" }'
)
MINE = "csr:k1=1.2;b=0.75;analyzer=snowball-english"


@pytest.fixture
def cards(tmp_path: Path) -> Path:
    write_collection(tmp_path / "pets")
    (tmp_path / "datasets").mkdir()
    rows = (("BM25 (first)", "a page", BM25), ("BM25 (second)", "another", ""), ("QL", "a page", ""))
    text = "".join(ROW.format(system=system, source=source, rest=rest) for system, source, rest in rows)
    (tmp_path / "datasets" / "pets.toml").write_text(CARD + text)
    return tmp_path


def published(cards: Path, backends: str, **options: object) -> list[PublishedNumber]:
    settings = {"k": 9, "metrics": "AP,P@1", "timing": False, "isolation": "none", **options}
    return harness.compare(backends, "pets", cards=cards, **settings).report.published


def test_numbers_of_the_same_configuration_and_of_other_sources_stand_beside_a_backend(cards: Path) -> None:
    found = published(cards, f"{MINE},csr:k1=1.3;b=0.75;analyzer=snowball-english")
    assert [(one.system, one.metric, one.printed) for one in found] == [
        ("BM25 (first)", "AP", "0.5"),
        ("BM25 (first)", "P@1", "50%"),
        ("BM25 (second)", "AP", "0.5"),
        ("BM25 (second)", "P@1", "50%"),
    ]
    assert {one.backend for one in found} == {MINE}
    assert [one.source for one in found[1:3]] == ["a page", "another"]
    means = harness.compare(MINE, "pets", cards=cards, k=9, metrics="AP", timing=False, isolation="none").report
    assert found[0].difference == pytest.approx(means.trials[0].metrics["AP"].mean - 0.5)
    assert found[1].difference == pytest.approx(found[3].difference)


def test_conventions_that_differ_and_have_an_effect_are_named(cards: Path) -> None:
    found = published(cards, MINE)
    # one judged query has no relevant document, so that the set of queries matters here
    assert found[0].conditions == ["ties=engine", "queries=judged"]
    assert found[2].conditions == ["settings not stated"]
    assert published(cards, MINE, ties="engine", queries="judged")[0].conditions == []


def test_a_metric_must_look_as_deep(cards: Path) -> None:
    shallow = published(cards, MINE, k=5, metrics="AP,P@1,nDCG@20")
    assert {one.metric for one in shallow if one.system == "BM25 (first)"} == {"P@1"}


@pytest.mark.parametrize("options", [{"sample_queries": 2}, {"max_docs": 4}])
def test_nothing_stands_beside_a_part_of_the_data(cards: Path, options: dict[str, int]) -> None:
    assert published(cards, MINE, **options) == []


def test_nothing_stands_beside_a_folder_of_the_same_files(cards: Path) -> None:
    found = harness.compare(MINE, cards / "pets", k=9, metrics="AP", timing=False, isolation="none")
    assert found.report.published == []


def test_other_engines_with_the_same_weights_are_the_same_configuration(cards: Path) -> None:
    skip_without("qdrant_edge")
    parameters = MINE.partition(":")[2]
    assert {one.backend for one in published(cards, f"qdrant:{parameters}")} == {f"qdrant:{parameters}"}
    assert published(cards, f"qdrant:{parameters};datatype=float16") == []


def test_a_leaderboard_s_row_stands_beside_its_model_in_any_engine_of_vectors(cards: Path) -> None:
    card = cards / "datasets" / "pets.toml"
    card.write_text(card.read_text() + ROW.format(system="python:word_vectors:Words", source="a leaderboard", rest=""))
    found = published(cards, "flat:model=python:word_vectors:Words;similarity=dot")
    assert [(one.system, one.source, one.metric, one.conditions) for one in found] == [
        ("python:word_vectors:Words", "a leaderboard", metric, ["settings not stated"]) for metric in ("AP", "P@1")
    ]


FAMILY = """
name = "farm"
summary = "animals of several places"
format = "beir"
language = "en"
licence = "none"
source = "here"

[[published]]
system = "BM25"
source = "a leaderboard"
options = { over = "north,south" }
scores = { AP = "0.5" }

[[published]]
system = "BM25"
source = "another leaderboard"
options = { over = "north,south,west" }
scores = { AP = "0.25" }
"""
MEMBER = """
[members.{name}]
summary = "{name}"
path = "../{name}"

[[members.{name}.published]]
system = "BM25 (first)"
source = "a page"
backend = "csr:k1=1.2;b=0.75;analyzer=snowball-english"
scores = {{ AP = "0.4" }}
"""


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    (tmp_path / "datasets").mkdir()
    for name in ("north", "south", "west"):
        write_collection(tmp_path / name)
    card = FAMILY + "".join(MEMBER.format(name=name) for name in ("north", "south", "west"))
    (tmp_path / "datasets" / "farm.toml").write_text(card)
    return tmp_path


def test_a_published_mean_stands_beside_the_mean_over_the_same_members(farm: Path) -> None:
    settings = {"cards": farm, "k": 9, "metrics": "AP", "timing": False, "isolation": "none"}
    other = "csr:k1=1.3;b=0.75;analyzer=snowball-english"
    report = harness.compare(f"{MINE},{other}", "farm/north,farm/south", **settings).report
    means = [one for one in report.published if one.datasets]
    assert [(one.dataset, one.datasets, one.backend, one.source, one.printed) for one in means] == [
        ("farm", ["farm/north", "farm/south"], MINE, "a leaderboard", "0.5")
    ]
    assert report.leaderboard is not None
    mean = next(row.mean for row in report.leaderboard.rows if row.backend == MINE)
    assert mean is not None
    assert means[0].difference == pytest.approx(mean - 0.5)
    assert means[0].conditions == ["settings not stated"]
    (table,) = published_mean_tables(report)
    assert table.title == "Published, means over 2 datasets of farm"
    assert [cell.text for cell in table.rows[0][:3]] == [MINE, "BM25 [1]", "0.5"]


def test_no_mean_stands_where_a_member_was_not_searched_whole(farm: Path) -> None:
    settings = {"cards": farm, "k": 9, "metrics": "AP", "timing": False, "isolation": "none"}
    sampled = harness.compare(MINE, "farm/north,farm/south", sample_queries=2, **settings).report
    assert sampled.published == []
    all_three = harness.compare(MINE, "farm", **settings).report
    assert [len(one.datasets) for one in all_three.published if one.datasets] == [2, 3]
    lacking = harness.compare(MINE, "farm/south,farm/west", **settings).report
    assert [one for one in lacking.published if one.datasets] == []
