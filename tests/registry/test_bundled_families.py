"""The families of the field: every member is there, and says what the sources say.

The tables of sourced facts are not part of the repository: `HARNESS_SHARED_FACTS`, or beside the checkout.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import EngineUnavailableError
from harness.metrics import parse_metrics
from harness.plan.config import CompareRequest
from harness.plan.plan import make_plan, set_language
from harness.registry.dataset_cards import DatasetCard
from harness.registry.lookup import dataset_names, find_dataset, find_families
from harness.registry.published import PublishedNumber
from harness.text import analyzer_names, preferred_analyzers

Row = dict[str, str]
Table = Callable[[str], list[Row]]

FAMILIES = find_families()
MEMBERS = {card.name: card for family in FAMILIES.values() for card in family.members.values()}
ELSEWHERE = ("bioasq", "robust04", "signal1m", "trec-news")
MS_MARCO_PASSAGES = 8_841_823


@pytest.fixture(scope="module")
def facts(repository: Path) -> Table:
    named = os.environ.get("HARNESS_SHARED_FACTS")
    folder = Path(named) if named else repository.parent / "shared" / "facts"
    if not folder.is_dir():
        pytest.skip("the tables of sourced facts are absent (set HARNESS_SHARED_FACTS)")

    def table(name: str) -> list[Row]:
        with (folder / f"{name}.tsv").open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))

    return table


def by_split(text: str) -> dict[str, int]:
    return {split: int(count) for split, count in (part.split(":") for part in text.split(";"))} if text else {}


def published_of(name: str) -> tuple[PublishedNumber, ...]:
    named = find_dataset(name)
    assert named is not None
    return named.published


def published(card: DatasetCard, system: str) -> PublishedNumber:
    (row,) = (row for row in published_of(card.name) if row.system == system)
    return row


def test_every_family_has_all_of_its_members() -> None:
    assert {name: len(family.members) for name, family in FAMILIES.items()} == {
        "beir": 19 + 12,
        "miracl": 18,
        "mmarco": 14,
        "msmarco": 3,
        "mteb-ko": 31,
        "nanobeir": 13,
        "xquad-r": 12,
    }
    assert {*MEMBERS, *FAMILIES} <= dataset_names().keys()
    named = {name: find_dataset(name) for name in MEMBERS}
    assert {name: replace(card, published=()) for name, card in named.items() if card is not None} == MEMBERS


@pytest.mark.parametrize("name", MEMBERS)
def test_every_member_says_how_to_get_it_and_under_which_rules(name: str) -> None:
    card = MEMBERS[name]
    assert re.fullmatch(r"[a-z]{2}", card.language)
    assert card.identical_ids == ("drop" if name.startswith("beir/") else "keep")
    assert [way is not None and way != () for way in (card.spec, card.obtain, card.parts)].count(True) == 1
    assert card.spec is None or re.fullmatch(r"(irds|mteb|hf):\S+", card.spec)
    assert card.summary
    assert card.licence
    assert card.metric is not None
    if card.spec is not None:
        assert card.documents is not None
        assert card.queries_of(card.split) is not None


def test_all_metrics_are_ones_that_can_be_computed() -> None:
    rows = [row for name in (*MEMBERS, *FAMILIES, "cacm") for row in published_of(name)]
    names = {metric for row in rows for metric in row.scores} | {str(card.metric) for card in MEMBERS.values()}
    assert [str(measure) for measure in parse_metrics(",".join(sorted(names)))] == sorted(names)
    assert all(0 <= float(score) <= 1 for row in rows for score in row.scores.values())


def test_every_row_of_the_file_is_of_a_dataset_and_a_split_that_there_is(repository: Path) -> None:
    lines = (repository / "datasets" / "published.tsv").read_text(encoding="utf-8").splitlines()[1:]
    placed = {(name, split) for name, card in MEMBERS.items() for split in card.splits or (card.split,)}
    stated = {(cells[0], cells[1]) for cells in (line.split("\t") for line in lines)}
    assert stated <= placed | {(name, "") for name in FAMILIES}
    assert len(set(lines)) == len(lines)


def test_a_mean_over_several_datasets_names_members_of_its_family() -> None:
    for name, family in FAMILIES.items():
        for row in published_of(name):
            assert len(row.over) > 1
            assert {*row.over} <= family.members.keys()


def test_every_backend_that_published_numbers_name_can_be_planned() -> None:
    rows = [row for name in (*MEMBERS, "cacm") for row in published_of(name) if row.backend is not None]
    assert len(rows) > 100
    for backend, options in {(row.backend, tuple(row.options.items())) for row in rows}:
        request = CompareRequest(backends=[str(backend)], **dict(options))
        assert len(make_plan(request, lucene_available=True).trials) == 1


@pytest.mark.parametrize("lucene", [True, False])
@pytest.mark.parametrize("backend", ["csr", "qdrant", "lucene"])
def test_every_member_has_an_analyzer_or_is_told_what_to_install(backend: str, lucene: bool) -> None:
    made = make_plan(CompareRequest(backends=backend), lucene_available=lucene)
    refused, messages = set(), []
    for card in MEMBERS.values():
        try:
            (trial,) = set_language(made, card.language, card.analyzer).trials
        except EngineUnavailableError as error:
            messages.append(str(error))
            refused.add(card.language)
            continue
        named = card.analyzer if backend != "lucene" and not lucene else None
        assert trial.analyzer is not None
        assert trial.analyzer in {named, *preferred_analyzers(card.language, analyzer_names())}, card.name
    assert all("pip install 'retrieval-harness[lucene]'" in message for message in messages)
    assert refused == (set() if lucene or backend == "lucene" else {"bn", "ja", "ko", "sw", "te", "th", "zh"})


def test_an_analyzer_is_named_where_only_white_space_is_left_without_lucene() -> None:
    named = {name: card.analyzer for name, card in MEMBERS.items() if card.analyzer is not None}
    assert named == dict.fromkeys(["miracl/yo", "mmarco/vi", "xquad-r/vi"], "whitespace")


def test_ids_of_ir_datasets_are_ones_that_it_has_with_its_counts() -> None:
    library = pytest.importorskip("ir_datasets")
    for card in MEMBERS.values():
        for split in card.splits if (card.spec or "").startswith("irds:") else ():
            metadata = library.registry[card.location_of(split).removeprefix("irds:")].metadata()
            counts = [metadata[part]["count"] for part in ("docs", "queries", "qrels")]
            assert counts == [card.documents, card.queries_of(split), card.judgments[split]], (card.name, split)


def test_beir(facts: Table) -> None:
    rows = facts("beir")
    assert list(FAMILIES["beir"].members) == [row["name"] for row in rows]
    forums = tuple(row["name"] for row in rows if row["name"].startswith("cqadupstack/"))
    for row in rows:
        card = MEMBERS[f"beir/{row['name']}"]
        if row["name"] == "cqadupstack":
            assert card.parts == forums
            continue
        assert card.documents == int(row["docs"])
        assert card.queries_of("test") == int(row["test_queries"])
        assert card.judgments.get("test") == (int(row["test_judgments"]) if row["test_judgments"] else None)
        assert (card.obtain is not None) == (row["public_zip"] == "no") == (row["name"] in ELSEWHERE)
        if card.spec is not None:
            assert dict(card.split_queries) == by_split(row["per_split_queries"])
            assert dict(card.judgments) == by_split(row["per_split_judgments"])
            assert {*card.splits} == card.judgments.keys()
        stated = row["licence_mteb_task"]
        if card.obtain is None:
            assert card.licence.lower().removesuffix(" (as mteb states it)") == stated.replace("specified", "stated")


def test_baselines_of_beir(facts: Table) -> None:
    systems = {
        "Anserini BM25 flat": "BM25 (Anserini)",
        "SPLADE++ EnsembleDistil (Anserini, onnx)": "SPLADE++ ED (Anserini)",
        "SPLADE-v3 (Anserini, onnx)": "SPLADE-v3 (Anserini)",
    }
    rows = [row for row in facts("baselines") if row["dataset"].startswith("beir/") and row["system"] in systems]
    assert len(rows) == 3 * 3 * 29
    for row in rows:
        found = published(MEMBERS[row["dataset"]], systems[row["system"]])
        assert (found.scores[row["metric"]], found.split) == (row["value"], row["split"])


def test_the_guide_s_rows_beside_anserini_s(facts: Table) -> None:
    named = {"NQ": "nq", "FiQA": "fiqa", "SciFact": "scifact", "HotpotQA": "hotpotqa"}
    means = {row.system: row.scores["nDCG@10"] for row in published_of("beir")}
    for row in facts("sparse_reference_baselines"):
        assert means.pop(row["model"]) == row["avg"]
        for column, name in named.items():
            assert published(MEMBERS[f"beir/{name}"], row["model"]).scores == {"nDCG@10": row[column]}
    assert means == {}


def test_nanobeir(facts: Table) -> None:
    for row in facts("nanobeir"):
        card = MEMBERS[f"nanobeir/{row['beir_name']}"]
        assert card.summary.startswith(row["name"])
        assert (card.documents, card.split) == (int(row["docs"]), row["hf_split"])
        assert dict(card.split_queries) == {"train": int(row["queries"])}
        assert dict(card.judgments) == {"train": int(row["judgments"])}


def test_miracl(facts: Table) -> None:
    rows = {row["lang"]: row for row in facts("miracl")}
    assert rows.keys() == FAMILIES["miracl"].members.keys()
    for language, row in rows.items():
        card = MEMBERS[f"miracl/{language}"]
        assert (card.language, card.documents, card.split) == (language, int(row["passages"]), "dev")
        splits = [split for split in ("dev", "train") if row[f"{split}_queries"]]
        assert list(card.splits) == splits
        assert dict(card.split_queries) == {split: int(row[f"{split}_queries"]) for split in splits}
        assert dict(card.judgments) == {split: int(row[f"{split}_judgments"]) for split in splits}


def test_baselines_of_miracl(facts: Table) -> None:
    systems = {"Anserini BM25": "BM25 (Anserini)", "Pyserini BM25": "BM25 (Pyserini)"}
    rows = [row for row in facts("baselines") if row["dataset"].startswith("miracl/") and row["system"] in systems]
    assert {row["dataset"] for row in rows} == {name for name in MEMBERS if name.startswith("miracl/")}
    for row in rows:
        found = published(MEMBERS[row["dataset"]], systems[row["system"]])
        assert (found.scores[row["metric"]], found.split) == (row["value"], row["split"])


def test_mmarco(facts: Table) -> None:
    rows = [row for row in facts("mmarco") if row["version"].startswith("v2")]
    assert {row["lang"] for row in rows} == FAMILIES["mmarco"].members.keys()
    for row in rows:
        card = MEMBERS[f"mmarco/{row['lang']}"]
        assert card.documents == MS_MARCO_PASSAGES == int(row["passages"] or MS_MARCO_PASSAGES)
        if row["passages"]:
            assert dict(card.split_queries) == {"dev.small": int(row["dev_small_query_count"])}
            judged = {"dev.small": int(row["dev_small_judgments"]), "dev": int(row["dev_judgments"])}
            assert dict(card.judgments) == judged
    pairs = [FAMILIES["mmarco"].member(f"{one}-{two}") for one in ("ja", "vi") for two in ("en", "de")]
    assert [pair.spec for pair in pairs if pair is not None] == [
        f"hf:unicamp-dl/mmarco:{pair}" for pair in ("ja-en", "ja-de", "vi-en", "vi-de")
    ]


def test_msmarco(facts: Table) -> None:
    rows = {(row["collection"], row["part"]): row for row in facts("trec")}
    stated = {
        "dev": ("dev", rows["msmarco-passage", "dev small (Anserini: msmarco-passage.dev-subset)"]),
        "dl19": ("test", rows["trec-dl-2019-passage", "qrels"]),
        "dl20": ("test", rows["trec-dl-2020-passage", "qrels"]),
    }
    for name, (split, row) in stated.items():
        card = MEMBERS[f"msmarco/{name}"]
        assert (card.documents, card.split) == (MS_MARCO_PASSAGES, split)
        assert dict(card.split_queries) == {split: int(row["queries"])}
        assert dict(card.judgments) == {split: int(row["judgments"])}
    systems = {
        "Anserini BM25 [bm25-default]": "BM25 (Anserini)",
        "Anserini BM25 [bm25-tuned]": "BM25 (k1 0.82, b 0.68) (Anserini)",
        "SPLADE++ EnsembleDistil (Anserini, onnx) [splade-pp-ed-onnx]": "SPLADE++ ED (Anserini)",
        "SPLADE-v3 (Anserini, onnx) [splade-v3-onnx]": "SPLADE-v3 (Anserini)",
    }
    named = {"msmarco-passage": "dev", "trec-dl-2019-passage": "dl19", "trec-dl-2020-passage": "dl20"}
    checked = 0
    for row in facts("baselines"):
        if row["system"] in systems and row["dataset"] in named:
            found = published(MEMBERS[f"msmarco/{named[row['dataset']]}"], systems[row["system"]])
            metric = row["metric"].replace("AP@1000", "AP")
            if named[row["dataset"]] != "dev":  # TREC counts grades from 2 there
                metric = re.sub(r"^(AP|R)(?=@|$)", r"\1(rel=2)", metric)
            assert found.scores[metric] == row["value"]
            checked += 1
    assert checked == 4 * 3 * 4


def mteb_rows(facts: Table, card: DatasetCard) -> Iterator[tuple[str, Row]]:
    """The rows of a card's task and subset by split, which the spec names."""
    parsed = re.fullmatch(r"mteb:([^:@]+)(?::([^@]+))?@\{split\}", card.spec or "")
    assert parsed is not None, card.spec
    rows = [*facts("mteb_ko"), *facts("mteb_subsets")]
    for split in card.splits:
        key = (parsed[1], parsed[2] or "default", split)
        yield split, next(row for row in rows if (row["task"], row["subset"], row["split"]) == key)


@pytest.mark.parametrize("family", ["mteb-ko", "xquad-r"])
def test_tasks_of_mteb(facts: Table, family: str) -> None:
    for card in (card for card in FAMILIES[family].members.values() if not card.parts):
        for split, row in mteb_rows(facts, card):
            assert "INCONSISTENT" not in row["counts"]
            assert card.documents == int(row["docs"]), card.name
            assert card.queries_of(split) == int(row["queries"])
            assert card.judgments.get(split, int(row["num_relevant_docs"])) == int(row["num_relevant_docs"])
            if family == "mteb-ko":
                spoken = [{"kor": "ko", "eng": "en"}[code[:3]] for code in row["languages"].split(",")]
                assert [card.language, card.query_language or card.language][: len(spoken)] == spoken


def test_the_korean_leaderboard(facts: Table) -> None:
    rows = facts("ko_leaderboard")
    found = published_of("mteb-ko")
    assert [row.system for row in found] == [row["model"] for row in rows]
    for one, row in zip(found, rows, strict=True):
        columns = {"nDCG@1+3+5+10": "avg_ndcg", **{f"nDCG@{k}": f"ndcg@{k}" for k in (1, 3, 5, 10)}}
        assert dict(one.scores) == {metric: f"{float(row[column]):.4f}" for metric, column in columns.items()}
        assert ("ranked anew" in one.source) == (row["kind"] == "Reranking")
    of_the_mean = ("ko-strategyqa", "autorag", "miracl", "publichealthqa", "belebele", "multilongdoc")
    assert FAMILIES["mteb-ko"].members["leaderboard"].parts == of_the_mean
    assert all(row.over == of_the_mean for row in found)


def test_results_of_mteb_are_on_the_revision_that_the_task_has(facts: Table) -> None:
    baselines = [row for row in facts("baselines") if row["system"] == "mteb/baseline-bm25s"]
    checked = 0
    for card in FAMILIES["mteb-ko"].members.values():
        for row in published_of(card.name):
            if row.system != "BM25 (bm25s, MTEB)":
                continue
            ((_, task),) = ((split, one) for split, one in mteb_rows(facts, card) if split == row.split)
            dataset = f"mteb/{task['task']}" + ("" if task["subset"] == "default" else f"/{task['subset']}")
            values = {
                one["metric"]: f"{float(one['value']):.5f}"
                for one in baselines
                if (one["dataset"], one["split"]) == (dataset, row.split) and task["revision"] in one["settings"]
            }
            assert dict(row.scores) == {"nDCG@10": values["ndcg_at_10"], "R@100": values["recall_at_100"]}
            checked += 1
    assert checked >= 5


def test_the_page_counts_the_members(repository: Path) -> None:
    page = (repository / "docs" / "how-to" / "find-a-dataset.md").read_text(encoding="utf-8")
    counted = {name: int(count) for name, count in re.findall(r"^\| `([\w-]+)` \| (\d+) \|", page, re.MULTILINE)}
    assert counted == {name: len(family.members) for name, family in FAMILIES.items()}


@pytest.mark.integration
def test_tasks_of_mteb_are_ones_that_it_has() -> None:
    library = pytest.importorskip("mteb")
    for name in ("mteb-ko", "xquad-r"):
        for card in (card for card in FAMILIES[name].members.values() if not card.parts):
            task, _, subset = (card.spec or "").removeprefix("mteb:").removesuffix("@{split}").partition(":")
            metadata = library.get_task(task).metadata
            assert (subset or "default") in metadata.hf_subsets, card.name
            assert {*card.splits} <= {*metadata.eval_splits}, card.name
