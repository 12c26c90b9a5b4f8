"""The engine's own explanation beside the reference's numbers: equal trees agree, and a planted difference is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_world import write_cards

import harness
from harness.data.dataset import Dataset
from harness.data.types import Ids, SparseVectors
from harness.engines.interface import ScoreTree, ScoreTrees
from harness.parity import SparseReference, make_recipe
from harness.parity.contributions import collection_of, lucene_numbers, score_rows, term_scores
from harness.pipeline.engine_explanations import add_engine_explanation
from harness.results.explanation import (
    BackendExplanation,
    DocumentScore,
    EngineExplanation,
    Explanation,
    TermContribution,
)
from harness.text import count_terms, create_analyzer
from harness.text.field_counts import join_fields

TEXTS = ["fuse panel fuse wire", "the fuse of a house " * 20, "panel wire", "garden", "wire " * 60]
QUERY = "fuse panel wire wire"
TITLES = ["fuse", "", "panel panel", "fuse garden", "wire"]
Change = Callable[[ScoreTree], ScoreTree]


def reference_of(k1_plus_1: bool = False, weights: tuple[float, ...] = (), k1: float = 0.9) -> SparseReference:
    analyzer = create_analyzer("whitespace")
    counts = count_terms(analyzer, [[*TITLES, *TEXTS] if weights else TEXTS], [QUERY])
    if weights:
        counts = replace(join_fields(counts, ("title", "text")), field_weights=np.array(weights))
    recipe = make_recipe(
        "lucene",
        doc_ids=Ids.of(f"d{row}" for row in range(len(TEXTS))),
        query_ids=Ids.of(["q"]),
        counts=counts,
        parameters={"k1": k1, "b": 0.4, "k1_plus_1": k1_plus_1},
    )
    return SparseReference(recipe).of_queries(np.array([0], dtype=np.int32))


def tree_of(reference: SparseReference, row: int, prefix: str = "contents:") -> ScoreTree:
    """The tree that Lucene makes of a document's score, with a filter that matches."""
    recipe = reference.recipe
    assert recipe.counts is not None
    parts = []
    numbers = [
        {key: float(np.float32(value)) for key, value in number.items()}
        for number in lucene_numbers(reference, collection_of(recipe), row)
    ]
    names = recipe.counts.vocabulary.take(recipe.queries.row(0)[0])
    for name, number in zip(names, numbers, strict=True):
        if "freq" not in number:
            continue
        weight = np.float32(number["boost"]) * np.float32(number["idf"])
        inverse = np.float32(reference.weighted.documents.take(np.array([row])).row(0)[1][len(parts)])
        value = float(weight - weight / inverse)
        idf = ScoreTree(
            number["idf"],
            "idf, computed as log(…) from:",
            (leaf("n, number", number["n"]), leaf("N, total", number["N"])),
        )
        counts = tuple(leaf(f"{name}, …", number[name]) for name in ("freq", "k1", "b", "dl", "avgdl"))
        boosts = (leaf("boost", number["boost"]),) if number["boost"] != 1 else ()
        score = ScoreTree(
            value,
            "score(freq=1.0), computed as boost * idf * tf from:",
            (*boosts, idf, ScoreTree(number["tf"], "tf, computed as …", counts)),
        )
        parts.append(ScoreTree(value, f"weight({prefix}{name} in 7) [BM25Similarity], result of:", (score,)))
    (total,) = score_rows(reference, np.array([row], dtype=np.int32)).tolist()
    condition = ScoreTree(0.0, "match on required clause, product of:", (leaf("# clause", 0.0), leaf("room:shed", 1.0)))
    return ScoreTree(total, "sum of:", (ScoreTree(total, "sum of:", tuple(parts)), condition))


def leaf(description: str, value: float) -> ScoreTree:
    return ScoreTree(value, description)


def explained(
    reference: SparseReference, tree: ScoreTree | None, row: int = 0, terms: Mapping[str, str] | None = None
) -> EngineExplanation | None:
    scores = term_scores(reference, np.array([row], dtype=np.int32))
    numbers = lucene_numbers(reference, collection_of(reference.recipe), row)
    assert reference.recipe.counts is not None
    names = reference.recipe.counts.vocabulary.take(scores.columns)
    parts = tuple(
        TermContribution(name, (), 1.0, number.get("freq"), 0, 0, None, contribution)
        for name, number, contribution in zip(names, numbers, scores.contributions[:, 0].tolist(), strict=True)
    )
    (score,) = scores.scores.tolist()
    document = DocumentScore(f"d{row}", 1, score, 1, score, terms=parts)
    before = BackendExplanation("x", "terms", (document,))
    answer = ScoreTrees((tree,), {"contents:": ""} if terms is None else terms)
    (after,) = add_engine_explanation(before, answer, reference).documents
    return after.engine


def planted(tree: ScoreTree, description: str, change: Change, *, of: int = 1) -> ScoreTree:
    """The tree with the ``of``-th node changed whose description begins so."""
    left = [of]

    def visit(node: ScoreTree) -> ScoreTree:
        if node.description.startswith(description):
            left[0] -= 1
            if left[0] == 0:
                return change(node)
        return replace(node, details=tuple(map(visit, node.details)))

    return visit(tree)


def valued(value: float) -> Change:
    return lambda node: replace(node, value=value)


@pytest.mark.parametrize("k1_plus_1", [False, True])
@pytest.mark.parametrize("row", range(len(TEXTS)))
def test_an_equal_tree_agrees_in_every_number(row: int, k1_plus_1: bool) -> None:
    reference = reference_of(k1_plus_1)
    engine = explained(reference, tree_of(reference, row), row)
    assert engine is not None
    assert engine.note == ""
    assert engine.first_difference is None
    assert not any(number.differs for number in engine.numbers)
    present = [name for name in ("fuse", "panel", "wire") if name in TEXTS[row].split()]
    names = ["n", "N", "freq", "dl", "avgdl", "k1", "b", "idf", "tf", "boost", "contribution"]
    expected = [(term, name) for term in present for name in names]
    assert [(number.term, number.name) for number in engine.numbers] == [*expected, ("", "score")]
    assert all(None not in (number.exact, number.engine) for number in engine.numbers)


@pytest.mark.parametrize(
    ("description", "of", "value", "expected"),
    [
        ("k1", 1, 1.2, ("fuse", "k1", 0.9, 1.2)),
        ("n,", 2, 3.0, ("panel", "n", 2.0, 3.0)),
        ("N,", 1, 2.0**24 + 1, ("fuse", "N", 5.0, 2.0**24 + 1)),
        ("dl", 3, 5.0, ("wire", "dl", 4.0, 5.0)),
        ("avgdl", 1, 20.0, ("fuse", "avgdl", None, 20.0)),
        ("b,", 1, 0.75, ("fuse", "b", 0.4, 0.75)),
        ("idf", 1, 0.5, ("fuse", "idf", None, 0.5)),
        ("tf", 1, 0.5, ("fuse", "tf", None, 0.5)),
        ("boost", 1, 3.0, ("wire", "boost", 2.0, 3.0)),
        ("weight(contents:wire", 1, 0.25, ("wire", "contribution", None, 0.25)),
        ("sum of:", 1, 9.0, ("", "score", None, 9.0)),
    ],
)
def test_the_first_number_that_differs_is_named(
    description: str, of: int, value: float, expected: tuple[str, str, float | None, float]
) -> None:
    reference = reference_of()
    engine = explained(reference, planted(tree_of(reference, 0), description, valued(value), of=of))
    assert engine is not None
    first = engine.first_difference
    assert first is not None
    assert (first.term, first.name, first.engine) == (expected[0], expected[1], expected[3])
    assert expected[2] in (None, first.exact)
    assert [number for number in engine.numbers if number.differs] == [first]
    assert engine.note == ("the explained score is 9, and the hit's score 1.91177619" if not expected[0] else "")


def test_a_difference_of_one_float32_step_is_found_and_a_smaller_one_is_none() -> None:
    reference = reference_of()
    tree = tree_of(reference, 0)
    step = float(np.nextafter(np.float32(0.9), np.float32(1)))
    engine = explained(reference, planted(tree, "k1", valued(step)))
    assert engine is not None
    assert engine.first_difference is not None
    engine = explained(reference, planted(tree, "k1", valued(0.9 + 1e-9)))
    assert engine is not None
    assert engine.first_difference is None


def test_all_numbers_of_another_k1_differ_and_k1_comes_first() -> None:
    reference = reference_of()
    engine = explained(reference, tree_of(reference_of(k1=1.5), 0))
    assert engine is not None
    assert [number.name for number in engine.numbers if number.differs] == [
        *("k1", "tf", "contribution") * 3,
        "score",
    ]
    assert engine.first_difference == engine.numbers[5]


def test_a_term_of_one_side_is_a_difference() -> None:
    reference = reference_of()
    tree = tree_of(reference, 0)
    without = planted(tree, "sum of:", lambda node: replace(node, details=node.details[1:]), of=2)
    engine = explained(reference, without)
    assert engine is not None
    assert engine.first_difference is not None
    assert (engine.first_difference.term, engine.first_difference.exact, engine.first_difference.engine) == (
        "fuse",
        2.0,
        None,
    )
    other = planted(
        tree,
        "weight(contents:wire",
        lambda node: replace(node, description="weight(contents:wires in 7) [BM25Similarity]"),
    )
    engine = explained(reference, other)
    assert engine is not None
    assert [(number.term, number.name) for number in engine.numbers if number.differs] == [
        ("wire", "freq"),
        ("wires", "freq"),
    ]


def test_fields_are_matched_by_their_names() -> None:
    reference = reference_of(weights=(3.0, 0.5))
    for row in range(len(TEXTS)):
        tree = tree_of(reference, row, prefix="index.")
        engine = explained(reference, tree, row, {"index.title:": "title:", "index.text:": "text:"})
        assert engine is not None
        assert engine.first_difference is None
    assert engine.numbers[0].term == "title:wire"
    assert [(number.name, number.exact) for number in engine.numbers if number.name in ("dl", "boost")] == [
        ("dl", 1.0), ("boost", 6.0), ("dl", 60.0), ("boost", 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (
            lambda tree: ScoreTree(1.0, "within top 10 docs"),
            "not compared: 'within top 10 docs' is not a sum of terms",
        ),
        (lambda tree: ScoreTree(1.0, "product of:", (tree,)), "not compared: 'product of:' is not a sum of terms"),
        (lambda tree: ScoreTree(2.0, "sum of:", (tree, tree)), "not compared: its term 'contents:fuse' occurs twice"),
        (
            lambda tree: planted(tree, "weight(", lambda node: replace(node, description="weight(body:a in 3) [X]")),
            "not compared: its term 'body:a' is in a field that is not searched",
        ),
    ],
)
def test_an_unknown_tree_is_shown_and_not_compared(change: Change, note: str) -> None:
    reference = reference_of()
    tree = change(tree_of(reference, 0))
    engine = explained(reference, tree)
    assert engine == EngineExplanation(tree, note=note)


def test_documents_without_a_tree_have_no_explanation_unless_they_are_hits() -> None:
    reference = reference_of()
    assert explained(reference, None) == EngineExplanation(None, note="the engine explains that it is not a hit")
    before = BackendExplanation("x", "hits", (DocumentScore("d9", None, None, None, None),), note="of a run")
    assert add_engine_explanation(before, ScoreTrees((None,)), None) == before
    noted = add_engine_explanation(before, ScoreTrees(note="it failed"), None)
    assert noted == replace(before, note="of a run; it failed")
    tree = ScoreTree(1.0, "x")
    (document,) = add_engine_explanation(before, ScoreTrees((tree,)), None).documents
    assert document.engine == EngineExplanation(tree, note="not compared: there is no reference of terms")


@pytest.mark.integration
@pytest.mark.usefixtures("warm_workers")
def test_engines_that_explain_otherwise_or_not_at_all_leave_the_rest(tmp_path: Path) -> None:
    cards = write_cards(
        tmp_path, own="ExplainsItself", broken="StumblesOverScores", nan="ExplainsByNaN", silent="BruteForce"
    )
    dataset = Dataset.of({"d1": "fuse panel", "d2": "wire"}, {"q1": "fuse", "q2": "wire"})
    explanation = harness.explain(
        query="q1",
        dataset=dataset,
        backends=["own", "broken", "nan", "silent"],
        cards=cards,
        doc=["d2", "d1"],
        engine_explanation=True,
    )
    assert {backend.label: backend.note for backend in explanation.backends} == {
        "own": "",
        "broken": "its engine failed to explain scores: it forgot how it scores",
        "nan": "its engine failed to explain scores: the engine explained a score by a number that is NaN or infinite",
        "silent": "its engine does not explain scores",
    }
    for document, row in zip(explanation.backends[0].documents, (1.0, 0.0), strict=True):
        assert document.exact_score is not None
        tree = ScoreTree(1.5, "found by looking", (leaf("row", row),))
        assert document.engine == EngineExplanation(tree, note="not compared: 'found by looking' is not a sum of terms")
    table = explanation.render("table")
    assert "not compared: 'found by looking' is not a sum" in table
    assert "\u00a0\u00a0row" in table
    assert json.loads(explanation.render("json")) == json.loads(json.dumps(explanation.to_dict()))


def test_the_first_difference_is_marked_in_every_form() -> None:
    reference = reference_of()
    engine = explained(reference, planted(tree_of(reference, 0), "k1", valued(1.2)))
    document = DocumentScore("d0", 1, 1.0, 1, 1.0, engine=engine)
    backend = BackendExplanation("lucene", "terms", (document,))
    explanation = Explanation("house", "q", QUERY, 10, ("d0",), True, (backend,))
    table = explanation.render("table")
    assert "k1 of fuse: 1.2, in the reference 0.9" in table
    assert [line.split() for line in table.splitlines() if line.split()[:2] == ["fuse", "k1"]] == [
        ["fuse", "k1", "0.9", "1.2", "≠"]
    ]
    assert "| `fuse` | `k1` | 0.9 | 1.2 ≠ |" in explanation.render("markdown")
    first = json.loads(explanation.render("json"))["backends"][0]["documents"][0]["engine"]["first_difference"]
    assert first == {"term": "fuse", "name": "k1", "exact": 0.9, "engine": 1.2, "differs": True}
    frame = explanation.engine_numbers()
    assert frame[frame.differs].to_dict("records") == [{"backend": "lucene", "document": "d0", **first}]


def test_impacts_are_compared_with_the_document_s() -> None:
    vectors = SparseVectors(
        np.array([0, 2]), np.array([3, 4], dtype=np.int32), np.array([150, 225], dtype=np.float32), 5
    )
    queries = replace(vectors, values=np.array([2, 3], dtype=np.float32))
    recipe = make_recipe(
        "sparse",
        doc_ids=Ids.of(["d0"]),
        query_ids=Ids.of(["q"]),
        documents=vectors,
        queries=queries,
        parameters={"idf": False},
    )
    reference = SparseReference(recipe)
    terms = tuple(
        TermContribution(name, (), 1.0, 1.0, 1, 1, None, value) for name, value in (("fuse", 300.0), ("fuses", 675.0))
    )
    document = DocumentScore("d0", 1, 975.0, 1, 975.0, terms=terms)
    parts = tuple(
        ScoreTree(
            value,
            f"weight(impacts:{term} in 0) [ImpactSimilarity], result of:",
            (leaf(f"impact(freq={value})", value),),
        )
        for term, value in (("fuse", 150.0), ("fuses", 226.0))
    )
    answer = ScoreTrees((ScoreTree(975.0, "sum of:", parts),), {"impacts:fuse": "3", "impacts:fuses": "4"})
    (after,) = add_engine_explanation(BackendExplanation("x", "terms", (document,)), answer, reference).documents
    assert after.engine is not None
    assert after.engine.first_difference is not None
    first = after.engine.first_difference
    assert (first.term, first.name, first.exact, first.engine) == ("fuses", "freq", 225.0, 226.0)
    assert [(number.term, number.name, number.engine) for number in after.engine.numbers] == [
        ("fuse", "freq", 150.0),
        ("fuse", "contribution", None),
        ("fuses", "freq", 226.0),
        ("fuses", "contribution", None),
        ("", "score", 975.0),
    ]
