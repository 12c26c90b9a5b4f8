"""Lucene's sum of several fields, equal to its reference to the last bit, and fields of an external index."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from installed import skip_module_without
from lucene_indexes import add, writer
from titled_cacm import write_titled_cacm

import harness
from harness.data.inputs import Inputs, records_of
from harness.data.types import Ids
from harness.engines.lucene.bm25 import LuceneEngine
from harness.errors import RejectedInputError, UsageError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock

skip_module_without("jnius_config")
pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
DEFAULTS = find_cards("backends")["lucene"].defaults


def test_cacm_with_a_weighted_title_is_equal_to_the_bit(tmp_path: Path) -> None:
    """Weights, a field without one, other k1 and b, a single field; one index for all weights of the same fields."""
    compared = harness.compare(
        [
            "lucene:fields=title^3+text",
            "flat=lucene:fields=title+text",
            "other=lucene:fields=title^0.7+text^2.3;k1=1.2;b=0.75",
            "title=lucene:fields=title^3",
        ],
        write_titled_cacm(tmp_path / "titled"),
        k=100,
        timing=False,
    )
    for trial in compared.report.trials:
        assert trial.error is None
        assert trial.parity is not None
        assert trial.parity.mode == "lucene"
        assert trial.parity.bit_equal == trial.parity.queries == 64
    built_by = {trial.label: trial.index.built_by for trial in compared.report.trials if trial.index is not None}
    assert built_by["flat"] == built_by["other"] == "lucene:fields=title^3+text"
    assert built_by["title"] != built_by["other"]
    index = compared.trial("flat").index
    assert index is not None
    assert index.state["documents_with_title"] == 3204
    assert {
        f"{kind}_{name}" for kind in ("documents_with", "terms_of") for name in ("title", "text")
    } <= index.state.keys()


def test_scores_are_those_of_anserini_s_searcher(tmp_path: Path) -> None:
    """Pyserini's ``search(query, fields={"title": 3.0, "text": 1.0})`` calls it; it rounds scores to four digits."""
    titles, texts = (
        ["light rail", "boats", "tram tram city", ""],
        ["trams", "a rail", "rail and light", "light rail city"],
    )
    question, ids = "light rail rail city", Ids.of("abcd")
    engine = LuceneEngine({**DEFAULTS, "fields": "title^3+text"})
    engine.open(tmp_path, ids)
    with closing(engine):
        columns = {"title": pa.chunked_array([titles]), "text": pa.chunked_array([texts])}
        engine.index(Inputs(ids, records_of(columns)), RecordingProgress(), StepClock())
        hits = engine.search(Inputs(Ids.of(["q"]), pa.chunked_array([[question]])), 9, StepClock())
        searcher = engine.bridge.load("io.anserini.search.SimpleSearcher")(str(tmp_path))
        searcher.set_bm25(0.9, 0.4)
        fields, number = (engine.bridge.load(f"java.{name}") for name in ("util.HashMap", "lang.Float"))
        weights = fields()
        for name, weight in (("title", 3.0), ("text", 1.0)):
            weights.put(f"text.{name}", number(weight))
        theirs = {hit.docid: hit.score for hit in searcher.search_fields(question, weights, 9)}
        searcher.close()
    ours = {ids[row]: score for row, score in zip(hits.rows.tolist(), hits.scores.tolist(), strict=True)}
    assert list(ours) == list(theirs)
    assert ours == pytest.approx(theirs, abs=1e-4)


def test_documents_without_the_searched_field_are_indexed_and_not_found() -> None:
    documents = {"a": {"title": "rail", "text": "city"}, "b": {"title": "", "text": "rail"}, "c": {"text": " "}}
    dataset = harness.Dataset.of(documents, {"q": "rail"}, {"q": {"a": 1}})
    compared = harness.compare("title=lucene:fields=title,both=lucene:fields=title^2+text", dataset, k=3, timing=False)
    found = []
    for trial in compared.report.trials:
        assert trial.error is None
        assert trial.index is not None
        assert trial.index.documents_indexed == 3
        assert trial.parity is not None
        assert trial.parity.bit_equal == 1
        run = compared.run(trial.label)
        found.append(run.doc_ids.take(run.rows))
    assert found == [["a"], ["b", "a"]]
    title, text = (
        f"N, df and avgdl of {name}" for name in ("title count the 1 document", "text count the 2 documents")
    )
    notes = [[note for note in trial.notes if "avgdl" in note] for trial in compared.report.trials]
    assert notes == [[f"{title} with a term"], [f"{title} with a term", f"{text} with a term"]]


def hits_of(folder: Path, **parameters: ParameterValue) -> dict[int, float]:
    engine = LuceneEngine({**DEFAULTS, "external": True, "path": str(folder), "id_field": "docid", **parameters})
    with closing(engine):
        engine.attach(folder / "not used", RecordingProgress())
        queries = Inputs(Ids.of(["q"]), pa.chunked_array([["rail tram"]]))
        hits = engine.search(queries, 9, StepClock())
    return dict(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True))


def test_fields_of_an_external_index_are_added_with_their_weights(tmp_path: Path) -> None:
    documents = [
        {"docid": "a", "title": "light rail", "body": "trams in the city"},
        {"docid": "b", "title": "boats", "body": "a rail on the river"},
        {"docid": "c", "title": "tram", "body": "rail"},
    ]
    with writer(tmp_path / "index") as made:
        add(made, documents, text=("title", "body"))
    title, body = (hits_of(tmp_path / "index", field=name) for name in ("title", "body"))
    both = hits_of(tmp_path / "index", fields="title^3+body")
    assert both == pytest.approx({row: 3 * title.get(row, 0.0) + body.get(row, 0.0) for row in range(3)}, rel=1e-6)
    with pytest.raises(RejectedInputError, match=r"has the text field 'headline'\n.*\(fields=\): body, docid, title"):
        hits_of(tmp_path / "index", fields="title+headline")


@pytest.mark.parametrize("feedback", ["rm3", "axiom"])
def test_feedback_reads_a_single_field(feedback: str) -> None:
    with pytest.raises(UsageError, match="rm3 and axiom expand queries of a single field"):
        LuceneEngine({**DEFAULTS, "fields": "title^3+text", feedback: True})


def test_a_field_is_not_named_beside_fields() -> None:
    with pytest.raises(UsageError, match="field and fields name searched fields twice"):
        LuceneEngine({**DEFAULTS, "external": True, "path": "x", "field": "body", "fields": "title+body"})
