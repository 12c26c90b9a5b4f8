"""An audit names the one aspect in which a planted run differs, and what gives a published number."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from reference_pages import conventions_page

import harness
from harness.cli.app import _build
from harness.data.memory import run_from_dict
from harness.data.ranking import TieBreak, order_as
from harness.errors import DataError, UsageError
from harness.metrics import parse_metric
from harness.metrics.audit import parse_published
from harness.metrics.conventions import ASPECTS, CONVENTIONS, HARNESS, Settings, aspects_of
from harness.pipeline.evaluate import as_qrels
from harness.pipeline.probes.combining import best_order

OTHERS = {f"x{number:04}": 1.0 - number / 5000 for number in range(1200)}
"""Hits without a judgment, worse than any planted one."""


def causes(run, qrels, metric, convention, **options):
    """The titles of the causes: one set for each smallest set of changes."""
    difference = harness.audit(run, qrels, metric, **options).difference(metric, convention)
    return [[change.aspect for change in cause] for cause in difference.causes]


def changed(audit):
    """The conventions whose value differs in any measure."""
    return {one.convention for one in audit.differences if one.causes}


def test_every_field_is_an_aspect_and_has_alternatives():
    assert [aspect.name for aspect in ASPECTS] == [one.name for one in fields(Settings)]
    for aspect in ASPECTS:
        own = getattr(HARNESS.settings, aspect.name)
        assert any(value != own for value in aspect.alternatives), aspect.name


def test_a_run_without_any_trap_gives_one_value_everywhere():
    audit = harness.audit({"q": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"q": {"a": 1, "c": 1}})
    assert not changed(audit)
    assert {round(value, 12) for value in audit.values[parse_metric("nDCG@10")].values()} == {0.919720789148}


class TestPlantedDifferences:
    def test_order_of_equal_scores(self):
        run, qrels = {"q": {"a": 1.0, "b": 1.0}}, {"q": {"a": 1}}
        for convention in ("Anserini", "sentence-transformers", "ranx"):
            assert causes(run, qrels, "RR@10", convention) == [["order of equal scores"]]
        audit = harness.audit(run, qrels, "RR@10,nDCG@10")
        assert changed(audit) == {"Anserini", "BEIR", "sentence-transformers", "ranx"}
        assert "BEIR" not in {one.convention for one in audit.differences if one.causes and one.measure.name == "nDCG"}
        (example,) = audit.difference("RR@10", "ranx").examples
        assert example == ("q", 0.5, 1.0, 2, 1)

    def test_ascending_ids_and_the_order_of_the_run_differ(self):
        run, qrels = {"q": {"c": 1.0, "b": 1.0, "a": 1.0}}, {"q": {"a": 1}}
        assert changed(harness.audit(run, qrels, "RR@10")) == {"sentence-transformers"}

    def test_quicksort_moves_equal_scores_of_long_rankings(self):
        rng = np.random.default_rng(3)
        run = {"q": {f"d{number:03}": float(rng.integers(3)) for number in reversed(range(300))}}
        qrels = {"q": {f"d{number:03}": 1 for number in range(0, 300, 7)}}
        assert causes(run, qrels, "nDCG@10", "ranx") == [["order of equal scores"]]
        assert "Anserini" not in changed(harness.audit(run, qrels, "nDCG@10"))

    def test_scores_compared_as_float64(self):
        run, qrels = (
            {"q": {"a": 1.0 + 1e-9, "b": 1.0}, "p": {"a": 1.0, "b": 1.0 - 1e-9}},
            {"q": {"a": 1}, "p": {"a": 1}},
        )
        assert causes(run, qrels, "RR@10", "MTEB") == [["scores compared as"]]
        assert "MTEB" not in {
            one.convention for one in harness.audit(run, qrels, "nDCG@10").differences if one.causes
        }  # only its RR is sorted in Python

    def test_either_of_two_changes_may_be_the_cause(self):
        """In ranx's order and in float64 alike the first document comes first."""
        run, qrels = {"q": {"a": 1.0 + 1e-9, "b": 1.0}}, {"q": {"a": 1}}
        assert causes(run, qrels, "RR@10", "ranx") == [["order of equal scores"], ["scores compared as"]]

    def test_an_unanswered_query(self):
        run, qrels = {"q": {"a": 1.0}}, {"q": {"a": 1}, "p": {"a": 1}}
        audit = harness.audit(run, qrels, "nDCG@10")
        assert changed(audit) == {"trec_eval 9", "trec_eval 10", "BEIR", "MTEB"}
        assert causes(run, qrels, "nDCG@10", "trec_eval 9") == [["queries averaged over"]]
        assert audit.difference("nDCG@10", "trec_eval 9").examples == (("p", 0.0, None, None, None),)

    def test_a_query_without_relevant_documents(self):
        run, qrels = {"q": {"a": 1.0}, "p": {"a": 1.0}}, {"q": {"a": 1}, "p": {"a": 0}}
        assert changed(harness.audit(run, qrels, "AP@100")) == {
            "trec_eval 9",
            "trec_eval 10",
            "Anserini",
            "BEIR",
            "MTEB",
            "ranx",
        }
        assert causes(run, qrels, "AP@100", "ranx") == [["queries averaged over"]]

    def test_identical_ids(self):
        run, qrels = {"q": {"q": 2.0, "a": 1.0}}, {"q": {"a": 1}}
        assert changed(harness.audit(run, qrels, "RR@10")) == {"BEIR"}
        assert causes(run, qrels, "RR@10", "BEIR") == [["hits with their query's id"]]
        dropped = harness.audit(run, qrels, "RR@10", identical_ids="drop")
        assert changed(dropped) == {"trec_eval 9", "trec_eval 10", "sentence-transformers", "ranx"}

    def test_identical_ids_after_the_cut(self):
        """One of the thousand hits is lost where the query's own document is dropped after the cut."""
        hits = dict(list(OTHERS.items())[:1000])
        run = {"q": {"q": 2.0, **hits, "a": 0.1}, "p": {"a": 1.0}}
        run["q"]["a"] = 0.799
        qrels = {"q": {"x0999": 1}, "p": {"a": 1}}
        audit = harness.audit(run, qrels, "R@1000", identical_ids="drop")
        assert audit.values[parse_metric("R@1000")] == {
            "harness": 1.0, "trec_eval 9": 0.5, "trec_eval 10": 0.5, "Anserini": 0.5, "BEIR": 1.0, "MTEB": 0.5,
            "sentence-transformers": 0.5,
            "ranx": 0.5,
        }  # fmt: skip
        found = causes(run, qrels, "R@1000", "MTEB", identical_ids="drop")
        assert found == [["hits with their query's id", "hits measured"]]

    def test_hits_beyond_the_thousandth(self):
        run, qrels = {"q": OTHERS}, {"q": {"x0000": 1, "x1100": 1}}
        audit = harness.audit(run, qrels, "AP")
        assert changed(audit) == {"Anserini"}
        assert causes(run, qrels, "AP", "Anserini") == [["hits measured"]]

    def test_gain(self):
        run, qrels = {"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1, "b": 3}}
        assert changed(harness.audit(run, qrels)) == {"sentence-transformers"}
        assert causes(run, qrels, "nDCG@10", "sentence-transformers") == [["gain"]]

    def test_denominator_of_average_precision(self):
        run, qrels = {"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1, "c": 1, "d": 1}}
        assert causes(run, qrels, "AP@2", "sentence-transformers") == [["AP divided by"]]
        assert changed(harness.audit(run, qrels, "AP@2,nDCG@2,R@2")) == {"sentence-transformers"}

    def test_two_changes_together_are_named_with_what_each_gives_alone(self):
        run, qrels = {"q": {"a": 1.0, "b": 1.0}, "p": {"c": 1.0}}, {"q": {"a": 1}, "p": {"z": 0}}
        difference = harness.audit(run, qrels, "RR@10").difference("RR@10", "ranx")
        (cause,) = difference.causes
        assert {change.aspect for change in cause} == {"order of equal scores", "queries averaged over"}
        assert [(change.aspect, value) for change, value in difference.alone] == [
            ("order of equal scores", 1.0), ("queries averaged over", 0.25)
        ]  # fmt: skip
        assert difference.other_value == 0.5
        assert [change.aspect for change in difference.without_effect] == ["scores compared as"]

    def test_equal_means_of_different_values_are_a_difference(self):
        """Two queries change places: the mean stays, the values do not."""
        run = {"q": {"a": 1.0, "b": 1.0}, "p": {"b": 1.0, "a": 1.0}}
        qrels = {"q": {"a": 1}, "p": {"b": 1}}
        difference = harness.audit(run, qrels, "RR@10").difference("RR@10", "sentence-transformers")
        assert (difference.harness_value, difference.other_value) == (0.75, 0.75)
        assert [change.aspect for change in difference.causes[0]] == ["order of equal scores"]


RUN = {"q": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}}
QRELS = {"q": {"a": 1, "c": 3, "e": 1, "f": 1}}


class TestPublished:
    def given_by(self, value, metrics="nDCG@10", run=None, qrels=None):
        audit = harness.audit(run or RUN, qrels or QRELS, metrics, published=value)
        return [
            (str(one.measure), one.convention, one.change and (one.change.aspect, one.change.other_value))
            for one in audit.published.matches
        ]

    @pytest.mark.parametrize(
        ("metric", "aspect", "value", "gives"),
        [
            ("nDCG@10", "gain", "2^grade - 1", (1 + 7 / 2) / (7 + 1 / np.log2(3) + 1 / 2 + 1 / np.log2(5))),
            ("nDCG@10", "ideal ranking", "the returned documents", 2.5 / (3 + 1 / np.log2(3))),
            ("AP@3", "AP divided by", "relevant documents returned", (1 + 2 / 3) / 2),
            ("R@3", "recall divided by", "min(R, k)", 2 / 3),
            ("P@3", "lowest relevant grade", "2", 1 / 3),
        ],
    )
    def test_a_single_change_that_no_tool_makes(self, metric, aspect, value, gives):
        found = self.given_by(f"{gives:.6f}", metric)
        assert (metric, "harness", (aspect, value)) in found
        assert all(change is not None and change[0] == aspect for _, _, change in found)

    def test_a_cut_of_the_reciprocal_rank(self):
        run = {"q": {**{f"x{number}": 30.0 - number for number in range(12)}, "a": 1.0}, "p": {"a": 1.0}}
        found = self.given_by("0.50000", "RR", run, {"q": {"a": 1}, "p": {"a": 1}})
        tools = ("harness", "trec_eval 9", "trec_eval 10", "Anserini", "ranx")
        assert found == [("RR", name, ("hits measured", "10")) for name in tools]

    def test_a_convention_as_it_is(self):
        run, qrels = {"q": {"a": 1.0}}, {"q": {"a": 1}, "p": {"a": 1}}
        found = self.given_by("1.000", "AP@100", run, qrels)
        assert [convention for _, convention, change in found if change is None] == [
            "trec_eval 9",
            "trec_eval 10",
            "BEIR",
            "MTEB",
        ]
        assert ("AP@100", "harness", ("queries averaged over", "judged and answered")) not in found  # as trec_eval

    def test_percent_and_a_metric_of_its_own(self):
        value = 100 * harness.evaluate(RUN, QRELS, "AP@100").means()[0].value
        for text in (f"AP@100={value:.1f}", f"AP@100={value:.1f}%", f"map_cut_100={value / 100:.3f}"):
            assert ("AP@100", "harness", None) in self.given_by(text, "nDCG@10")

    def test_the_nearest_is_told_when_nothing_gives_it(self):
        audit = harness.audit(RUN, QRELS, "nDCG@10", published="0.123456")
        assert not audit.published.matches
        assert audit.published.nearest.measure == parse_metric("nDCG@10")

    def test_precision_is_that_of_the_text(self):
        parsed = parse_published("nDCG@10=0.40")
        assert (parsed.value, parsed.half) == (0.4, 0.005)
        assert parse_published("39.7%").value == pytest.approx(0.397)
        assert parse_published("DCG@10=3.2").value == 3.2

    @pytest.mark.parametrize("text", ["", "abc", "nDCG@10=", "-0.4", "0.4 0.5", "397", "nan", 0.4])
    def test_no_number(self, text):
        with pytest.raises(UsageError, match="published value"):
            parse_published(text)


class TestInput:
    def test_sums_are_refused(self):
        with pytest.raises(UsageError, match="NumRet, gm_map is not a mean"):
            harness.audit({"q": {"a": 1.0}}, {"q": {"a": 1}}, "AP,NumRet,gm_map")

    def test_foreign_ids_are_refused(self):
        with pytest.raises(DataError, match="query id"):
            harness.audit({"x": {"a": 1.0}}, {"q": {"a": 1}})

    def test_not_computed_is_none(self):
        audit = harness.audit({"q": {"a": 1.0}}, {"q": {"a": 1}}, "AP,ERR@10,R_cap@10")
        assert audit.values[parse_metric("AP")]["MTEB"] is None
        assert {name for name, value in audit.values[parse_metric("R_cap@10")].items() if value is not None} == {
            "harness", "BEIR"
        }  # fmt: skip
        frame = audit.to_frame()
        assert list(frame.columns) == ["harness", *(one.name for one in CONVENTIONS)]
        assert frame.loc["ERR@10"].isna().sum() == len(CONVENTIONS)

    def test_no_query_counts(self):
        audit = harness.audit({"q": {"a": 1.0}}, {"q": {"a": 0}}, "nDCG@10")
        assert np.isnan(audit.values[parse_metric("nDCG@10")]["harness"])
        assert audit.values[parse_metric("nDCG@10")]["trec_eval 9"] == 0.0

    def test_wide_scores_are_kept_where_float32_loses_order_only(self, tmp_path):
        assert run_from_dict({"q": {"a": 0.1, "b": 0.2}}).wide_scores is None
        wide = run_from_dict({"q": {"a": 1.0, "b": 0.1, "c": 1.0 + 1e-9}}).wide_scores
        assert wide.tolist() == [1.0, 0.1, 1.0 + 1e-9]
        assert run_from_dict({"q": {"a": 1.0}, "p": {"a": 1.0 + 1e-9}}).wide_scores is None
        file = tmp_path / "run.trec"
        file.write_text("q Q0 a 2 1.0 x\nq Q0 c 1 1.000000001 x\n")
        ordered = order_as(harness.pipeline.evaluate.as_run(file), TieBreak.ID_ASCENDING, wide=True)
        assert ordered.doc_ids.take(ordered.rows) == ["c", "a"]

    def test_candidates_of_a_dataset_keep_the_scores_as_they_were_read(self):
        """Only float64 tells the relevant document from others; what is no candidate is left out beforehand."""
        run = {"q": {"z": 2.0, "d": 1.0, "c": 1.0 + 1e-9, "b": 1.0 + 2e-9, "a": 1.0 + 3e-9}}
        judged = harness.Dataset.of(dict.fromkeys("abcdz", "text"), {"q": "text"}, {"q": {"a": 1}})
        ranked = replace(judged, candidates={"q": ["a", "b", "c", "d"]})
        kept = {"q": {document: score for document, score in run["q"].items() if document != "z"}}
        values = harness.audit(run, ranked, "nDCG@10").values[parse_metric("nDCG@10")]
        assert values == harness.audit(kept, judged, "nDCG@10").values[parse_metric("nDCG@10")]
        assert values["ranx"] == 1.0
        assert values["trec_eval 9"] < 0.5

    def test_a_best_order_has_only_its_own_scores(self):
        run = run_from_dict({"q": {"a": 1.0, "b": 1.0 + 1e-9}})
        assert run.wide_scores is not None
        best = best_order(run, as_qrels({"q": {"a": 1}}))
        assert best.wide_scores is None
        ordered = order_as(best, TieBreak.ID_DESCENDING, wide=True)
        assert ordered.doc_ids.take(ordered.rows) == ["a", "b"]

    def test_the_metrics_of_a_relevance_level_have_no_aspect_for_it(self):
        names = [aspect.name for aspect in aspects_of(parse_metric("AP(rel=2)@10"))]
        assert "relevance" not in names
        assert "ap_total" in names


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "qrels").write_text("q 0 a 1\np 0 c 1\n")
    (tmp_path / "run.trec").write_text("q Q0 a 1 1.0 x\nq Q0 b 2 1.0 x\n")
    return ["--qrels", str(tmp_path / "qrels"), "--run", str(tmp_path / "run.trec"), "--audit"]


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(_build(), ["eval", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


class TestCommand:
    def test_text(self, files):
        text = invoke(*files, "--metrics", "RR@10,AP", "--published", "0.5")
        assert "trec_eval 9 0.5000 *" in " ".join(text.split())
        table = text[text.index("Scores\n") :].split("\n\n")[0]
        assert max(map(len, table.splitlines()[:9])) <= 80
        said = " ".join(text.split())
        assert "because of queries averaged over: judged and answered (harness: with a relevant document)" in said
        assert "query q: 1.0000 instead of 0.5000; first relevant document at rank 1 instead of 2" in said
        assert "– not computed by that tool" in text
        assert "RR@10 as trec_eval 9 (0.500000)" in text

    def test_an_equal_mean_of_other_queries_is_not_marked(self, tmp_path):
        (tmp_path / "qrels").write_text("q 0 a 1\nunanswered 0 c 1\nr 0 d 0\n")
        (tmp_path / "run.trec").write_text("q Q0 b 1 3.0 x\nq Q0 a 2 2.0 x\nr Q0 d 1 1.0 x\n")
        audited = ["--qrels", str(tmp_path / "qrels"), "--run", str(tmp_path / "run.trec"), "--audit"]
        text = invoke(*audited, "--metrics", "RR@10")
        assert "trec_eval 9 0.2500 trec_eval 10 0.2500 Anserini" in " ".join(text.split())
        assert "RR@10, trec_eval 9, trec_eval 10: the same mean, 0.2500, of other values" in text

    def test_markdown(self, files):
        text = invoke(*files, "--metrics", "RR@10", "--format", "markdown")
        assert "| `trec_eval 9` | 0.5000 * |" in text
        assert "RR@10, trec_eval 9, trec_eval 10: 0.5000 instead of 0.2500" in text

    def test_csv(self, files):
        text = invoke(*files, "--metrics", "RR@10", "--format", "csv", "--published", "0.5")
        rows = list(csv.DictReader(io.StringIO(text)))
        means = {one["metric"]: float(one["mean"]) for one in rows if one["mean"]}
        assert means["RR@10 as trec_eval 9"] == means["published.RR@10 as trec_eval 9"] == 0.5
        assert means["difference.RR@10 as trec_eval 9"] == 0.25
        assert any(name.startswith("published.RR@10 as harness, but ") for name in means)

    def test_json(self, files):
        content = json.loads(invoke(*files, "--metrics", "RR@10,AP", "--format", "json", "--published", "0.77"))
        assert content["measures"]["RR@10"]["trec_eval 9"] == 0.5
        assert content["measures"]["AP"]["MTEB"] is None
        (one,) = (d for d in content["differences"] if (d["measure"], d["convention"]) == ("RR@10", "trec_eval 9"))
        assert one["causes"][0][0]["other_value"] == "judged and answered"
        assert content["published"]["matches"] == []
        assert content["published"]["nearest"]["value"] is not None

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--ties", "engine", "--relevance", "2"], "--audit does not take --ties, --relevance"),
            (["--format", "trec_eval"], "no format 'trec_eval'"),
            (["--run", "other.trec"], "one run, not 2"),
            (["--published", "high"], "not a number"),
        ],
    )
    def test_refused(self, files, more, message):
        with pytest.raises(UsageError, match=message):
            CliRunner().invoke(_build(), ["eval", *files, *more], catch_exceptions=False)

    def test_published_without_an_audit(self, files):
        with pytest.raises(UsageError, match="part of --audit"):
            CliRunner().invoke(_build(), ["eval", *files[:-1], "--published", "0.4"], catch_exceptions=False)


def test_the_page_is_the_table(repository: Path):
    page = (repository / "docs" / "explanation" / "conventions.md").read_text(encoding="utf-8")
    assert page.partition("-->\n\n")[2] == conventions_page(), "run: python docs/generate.py"
