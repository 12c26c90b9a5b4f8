"""What is looked at before anything is scored: every rule on bad answers, and on clean ones that look like bad ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from harness.data.golden_set import Expectation, GoldenQuestion, GoldenSet
from harness.data.ranking import TieRule
from harness.data.types import Corpus, DocumentContent, Ids, Run
from harness.engines.callable.answers import Answer, AnsweredQueries
from harness.errors import RankingError
from harness.loaders.golden import golden_of_records
from harness.metrics import parse_metrics
from harness.pipeline.asking import require_rankings, run_of_answers
from harness.pipeline.check.against import trial_of_backend
from harness.pipeline.check.id_match import ExpectedDocuments, Match
from harness.pipeline.check.preflight import (
    Answers,
    Examiner,
    LoadedContent,
    answers_of,
    missing_ids,
    preflight,
    repeated_questions,
)
from harness.plan.config import ACCEPTABLE_CHECKS
from harness.plan.option_values import parse_match
from harness.results.schema_base import ErrorInfo
from harness.results.scored import GoldenRun

CHUNKS = Match.of(parse_match("document"), "#")


def question(name: str, *expected: str, text: str = "") -> GoldenQuestion:
    return GoldenQuestion(name, text or f"what is {name}?", tuple(map(Expectation, expected)), {}, 1)


def answer(*ids: str, scores: Sequence[float] | None = None, texts: Sequence[str | None] = ()) -> Answer:
    return Answer(ids, None if scores is None else tuple(scores), tuple(texts) or (None,) * len(ids))


def found(
    *asked: tuple[GoldenQuestion, Answer],
    k: int = 3,
    ties: TieRule = TieRule.ENGINE,
    match: Match | None = None,
    documents: int | None = None,
    accept: Sequence[str] = (),
) -> list[tuple[str, str]]:
    """Names and severities of what preflight finds."""
    answers = Answers(asked, k, ties, match or Match(), documents)
    return [(one.check, one.severity) for one in preflight(answers, accept)]


def test_a_cell_that_was_split_and_is_the_id_of_a_hit() -> None:
    """Of a backend whose documents nobody can list; where the ids are known, the cell is read whole."""
    readings = ((Expectation("a.md|1"),), (Expectation("a.md"), Expectation("1")), (Expectation("a.md|1"),))
    split = replace(question("q", "a.md", "1"), readings=readings)
    for asked in ([(split, answer("a.md|1"))], [(split, answer("a.md|1")), (B, answer("b"))]):
        (finding,) = preflight(Answers(tuple(asked), 3, TieRule.ENGINE, Match(), None))
        assert (finding.check, finding.severity) == ("split-ids", "error")
        assert finding.fix == 'write a list in JSON into the cell: ["a.md|1"]'
    assert found((split, answer("a.md", "1"))) == []


def test_one_expected_id_that_a_hit_has_in_another_spelling() -> None:
    """Half of the ids meet: the other half was lost without a word."""
    composed, decomposed = question("q1", "é.md"), "e\u0301.md"
    asked = ((composed, answer(decomposed)), (B, answer("b")))
    (finding,) = preflight(Answers(asked, 3, TieRule.ENGINE, Match(), None))
    assert (finding.check, finding.severity) == ("ids-spelled-otherwise", "warning")
    assert finding.message == (
        "1 of 2 expected ids is in no hit, and 1 of them is the same but for Unicode normalisation: "
        "'\\xe9.md' is 'e\\u0301.md'"
    )
    chunks = ((composed, answer(f"{decomposed}#1")), (B, answer("b#1")))
    assert found(*chunks, match=CHUNKS) == [("ids-spelled-otherwise", "warning")]
    assert found(*asked, documents=9) == []  # ids that no document has are looked for then
    assert found((composed, answer("x", "é.md", decomposed)), (B, answer("b"))) == []
    assert found((question("q1", "page-2"), answer("page-3")), (B, answer("b"))) == []


A, B, C = question("qa", "a"), question("qb", "b"), question("qc", "c")


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ([(A, answer("a", "b")), (B, answer("b", "c")), (C, answer("c"))], {}),
        # ties, and one score for all
        ([(A, answer("a", "b", scores=[1, 1])), (B, answer("b", scores=[1]))], {}),
        # float32 makes them equal, and so does the run
        ([(A, answer("a", "b", scores=[1.0, 1.0 + 1e-9]))], {}),
        # a small corpus: all lists are alike because that is all there is
        ([(one, answer("a", "b")) for one in (A, B, C)], {"documents": 2}),
        ([(one, answer("a", "b", "c")) for one in (A, B, C)], {}),
        # questions and documents are both called by numbers
        ([(question("1", "2"), answer("2", "1")), (question("2", "3"), answer("3", "2", "1"))], {}),
        # paraphrases of one question
        ([(question(f"p{n}", "z"), answer("x", "y", "w")) for n in range(4)]
         + [(question("q", "z"), answer("z"))], {"documents": 50}),
        # the same text three times
        ([(question(f"t{n}", f"d{n}", text="same"), answer("d0", "y", "w")) for n in range(4)], {"documents": 50}),
        # two questions with one list
        ([(A, answer("x", "a")), (B, answer("x", "a"))], {"documents": 50}),
        # ids of questions and of documents are numbers of their own, with texts that differ
        ([(question("1", "3"), answer("1", "3", texts=["one", "three"])),
          (question("2", "3"), answer("2", "3", texts=["two", "three"]))], {"documents": 9}),
        # a question that is an expected document, word by word
        ([(question("f", "faq", text="Who  is it?"), answer("faq", texts=["who is it?"]))], {"documents": 9}),
        # chunks of what is expected
        ([(A, answer("a#1")), (B, answer("b#2")), (C, answer("c#1#2", "c#1"))], {"match": CHUNKS}),
    ],
)  # fmt: skip
def test_clean_answers_raise_no_alarm(given, options) -> None:
    assert found(*given, **options) == []


FAILED = Answer(failure="it broke")
ITSELF = [(one, answer(f"{one.id}-1", "x", texts=["text", one.question.upper()])) for one in (A, B, C)]


@pytest.mark.parametrize(
    ("given", "options", "expected"),
    [
        ([(A, FAILED), (B, answer("b"))], {}, ("failed-queries", "error")),
        ([(A, answer()), (B, answer("b"))], {}, ("no-hits", "warning")),
        ([(A, answer()), (B, answer())], {}, ("no-hits", "error")),
        ([(one, answer("a", "b")) for one in (A, B, C)], {}, ("same-list", "error")),
        ([(one, answer("a", "b")) for one in (A, B, C)], {"documents": 3}, ("same-list", "error")),
        ([(A, answer("a", "a")), (B, answer("b"))], {}, ("duplicates", "error")),
        ([(A, answer("a", "b", "c", "d"))], {}, ("too-many-hits", "error")),
        ([(A, answer("a", "b", scores=[0.1, 0.2])), (B, answer("b", scores=[1]))], {}, ("rising-scores", "warning")),
        ([(A, answer("a", "b", scores=[0.1, 0.2]))], {"ties": TieRule.TREC_EVAL}, ("unsorted-scores", "error")),
        ([(A, answer("a", "b", "c", scores=[0.2, 0.1, 0.3]))], {}, ("unsorted-scores", "error")),
        ([(A, answer("a", "b", scores=[1, 2])), (B, answer("b", "c", scores=[2, 1]))], {},
         ("unsorted-scores", "error")),
        (ITSELF, {"documents": 9}, ("query-in-results", "error")),
        ([*ITSELF[:1], (B, answer("b")), (C, answer("c"))], {"documents": 9}, ("query-in-results", "warning")),
        ([(A, answer("qa", "a")), (B, answer("qb", "b"))], {}, ("query-in-results", "error")),
        ([(A, answer("uuid-1")), (B, answer("b-uuid"))], {}, ("missing-ids", "warning")),
        ([(A, answer("x")), (B, answer("y", "z"))], {"documents": 9}, ("nothing-judged", "warning")),
        ([(question(f"q{n}", f"d{n}"), answer(f"{n}")) for n in range(10)], {}, ("missing-ids", "error")),
        # ids of two kinds, however few
        ([(A, answer("a-1")), (B, answer("b-2"))], {"match": CHUNKS}, ("missing-ids", "error")),
        ([(A, answer("8544a3db-0b16-5b1c-a72d-7b7f47536f62"))], {}, ("missing-ids", "error")),
        # all that expect something, and the hits of one that expects nothing
        ([(A, answer()), (GoldenQuestion("none", "who?", (), {}, 1), answer("x"))], {}, ("no-hits", "error")),
    ],
)  # fmt: skip
def test_bad_answers_are_found(given, options, expected) -> None:
    assert found(*given, **options) == [expected]


@pytest.mark.parametrize(
    ("given", "check"),
    [
        ([(A, answer()), (B, answer())], "no-hits"),
        ([(one, answer("a", "b")) for one in (A, B, C)], "same-list"),
        (ITSELF, "query-in-results"),
        ([(question(f"q{n}", f"d{n}"), answer(f"{n}")) for n in range(10)], "missing-ids"),
    ],
)
def test_an_error_that_guesses_is_accepted_by_name(given, check: str) -> None:
    (error,) = preflight(Answers(tuple(given), 3, TieRule.ENGINE, Match(), None if check == "missing-ids" else 9))
    assert error.fix.endswith(f"; to score it all the same: --accept {check}")
    documents = None if check == "missing-ids" else 9
    assert found(*given, documents=documents, accept=[check]) == [(check, "warning")]
    others = set(ACCEPTABLE_CHECKS) - {check}
    assert found(*given, documents=documents, accept=sorted(others)) == [(check, "error")]


def test_answers_that_cannot_be_scored_are_not_accepted() -> None:
    (finding,) = preflight(Answers(((A, FAILED),), 3, TieRule.ENGINE, Match(), 9), ["failed-queries"])
    assert finding.severity == "error"
    assert "--accept" not in finding.fix


FAQ = [question(f"r{n}", f"south-{n}", text=f"how do I reset device {n}") for n in range(3)]


@pytest.mark.parametrize(
    "given",
    [
        # two documents of one text, one of which is expected
        [(one, answer(f"north-{n}", f"south-{n}", texts=[one.question] * 2)) for n, one in enumerate(FAQ)],
        # the texts repeat, and the expected document is another one
        [(one, answer(f"north-{n}", f"west-{n}", texts=[one.question] * 2)) for n, one in enumerate(FAQ)],
    ],
)
def test_documents_that_read_like_questions_are_a_warning(given) -> None:
    assert found(*given, documents=9) == [("query-in-results", "warning")]


def test_an_expected_document_that_reads_like_its_question_need_not_be_found() -> None:
    pairs = tuple((one, answer(f"north-{n}", texts=[one.question])) for n, one in enumerate(FAQ))
    alone = Answers(pairs, 3, TieRule.ENGINE, Match(), 9)
    assert [one.severity for one in preflight(alone)] == ["error"]
    assert [one.severity for one in preflight(alone._replace(expected_texts=lambda one: [one.question.upper()]))] == [
        "warning"
    ]


def test_the_advice_fits_the_cause() -> None:
    nothing = Answers(((A, answer()), (B, answer())), 3, TieRule.ENGINE, Match(), 9)
    assert "whether the index is empty" in preflight(nothing)[0].fix
    assert "--identical-ids keep" in preflight(nothing._replace(drops_itself=True))[0].fix
    by_id = Answers(((A, answer("qa", "a")), (B, answer("qb", "b"))), 3, TieRule.ENGINE, Match(), 9)
    assert "--identical-ids drop" in preflight(by_id)[0].fix
    # --against refuses that option
    assert "--identical-ids" not in preflight(by_id._replace(documents=None))[0].fix
    foreign = Answers(((A, answer("uuid-1")),), 3, TieRule.ENGINE, Match(), None)
    assert "--match document" in preflight(foreign)[0].fix
    assert "--match document" not in preflight(foreign._replace(match=CHUNKS))[0].fix


def test_no_hits_for_what_expects_nothing_are_right() -> None:
    nothing = GoldenQuestion("none", "who?", (), {}, 1)
    assert found((A, answer("a")), (nothing, answer())) == []
    (finding,) = preflight(
        Answers(((A, answer("a")), (nothing, answer()), (B, answer())), 3, TieRule.ENGINE, Match(), None)
    )
    assert finding.message == "1 of 3 questions got no hits, and count as 0"
    assert finding.examples == ("question 'qb'",)


def test_a_finding_says_what_and_where_and_what_to_do() -> None:
    names = [question(f"q{number}", "z") for number in range(9)]
    given = [(one, Answer(failure="no\n  line 3" if place else "other dimension")) for place, one in enumerate(names)]
    (finding,) = preflight(Answers(tuple(given), 3, TieRule.ENGINE, Match(), None))
    assert finding.message == "9 of 9 questions failed"
    assert finding.examples == (
        "question 'q0': other dimension",
        "questions 'q1', 'q2', 'q3', 'q4', 'q5', …: no\n  line 3",
    )
    assert "another model" in finding.fix
    long = [(one, answer(*map(str, range(4 + place)))) for place, one in enumerate(names)]
    finding = preflight(Answers(tuple(long), 3, TieRule.ENGINE, Match(), 99))[0]
    assert finding.fix.endswith("--k 12")
    assert finding.examples[-1] == "… and 4 more"


def test_ids_that_an_index_lacks_are_missing() -> None:
    golden = GoldenSet("g", "g.jsonl", (A, B), "0")
    (finding,) = missing_ids(golden, ExpectedDocuments(golden, Match(), Ids.of(["a", "x"])), "the index")
    assert finding.message == "1 expected id is not in the index: no document has the id"
    assert finding.examples == ("g.jsonl, line 1: question 'qb' expects 'b'",)
    assert missing_ids(golden, ExpectedDocuments(golden, Match(), Ids.of(["a", "b"])), "the index") == []
    many = GoldenSet("g", "g.jsonl", tuple(question(f"q{number}", f"d{number}") for number in range(25)), "0")
    (finding,) = missing_ids(many, ExpectedDocuments(many, Match(), Ids.of(["a"])), "the index")
    assert finding.message.startswith("25 expected ids are not in the index")
    assert (len(finding.examples), finding.examples[-1]) == (21, "… and 5 more")


def test_an_index_without_any_expected_id_may_have_been_indexed_again() -> None:
    golden = GoldenSet("g", "g.jsonl", (A, B), "0")
    ids = ["5f0c", "77aa", "81b2", "9c1d"]
    (finding,) = missing_ids(golden, ExpectedDocuments(golden, Match(), Ids.of(ids)), "the index", external=True)
    assert finding.message == (
        "no expected id is in the index: all of its ids differ ('5f0c', '77aa', '81b2' …); they are new if it was "
        "indexed again"
    )
    assert "(--match field:NAME)" in finding.fix
    for corpus, external in (([*ids, "a"], True), (["B", "'a'"], True), (ids, False)):  # some are there, spelling
        (finding,) = missing_ids(
            golden, ExpectedDocuments(golden, Match(), Ids.of(corpus)), "the index", external=external
        )
        assert finding.fix.startswith("correct the ids of the golden set")


def test_some_missing_ids_are_accepted_and_all_are_another_corpus() -> None:
    golden = GoldenSet("g", "g.jsonl", (A, B), "0")
    for corpus, severity in ((["a"], "warning"), (["x"], "error")):
        expected = ExpectedDocuments(golden, Match(), Ids.of(corpus))
        (finding,) = missing_ids(golden, expected, "the corpus 'c'", ["missing-ids"])
        assert finding.severity == severity


def run_of(golden: GoldenSet, answers: list[Answer], k: int) -> Run:
    expected = [expectation.id for one in golden for expectation in one.expected]
    return run_of_answers(Ids.of(one.id for one in golden), answers, k, expected)


def test_answers_become_a_run() -> None:
    golden = GoldenSet("g", "g", (A, B, C), "0")
    run = run_of(golden, [answer("b", "a", "b", "c", "d"), Answer(failure="no"), answer("d")], k=3)
    assert [run.doc_ids.take(run.rows[run.of_query(place)]) for place in range(3)] == [["b", "a", "c"], [], ["d"]]
    assert run.scores.tolist() == [0, -1, -2, 0]
    single = run_of(golden, [answer("a", scores=[0.5])] * 3, k=3)
    assert single.scores.tolist() == [0.5] * 3
    distances = run_of(golden, [answer("a", "b", scores=[0.5, 0.75]), answer("c", scores=[0.25]), answer()], k=3)
    assert distances.scores.tolist() == [-0.5, -0.75, -0.25]
    assert run_of(golden, [answer()] * 3, k=3).hits == 0


def test_hits_of_which_none_is_in_the_dataset_may_be_spelled_otherwise() -> None:
    asked = AnsweredQueries((answer("b'd1'", "b'd2'"),), np.zeros((1, 1), dtype=np.int64))
    with pytest.raises(RankingError, match="2 of them are the same but for b'…' around them: 'b'd1'' is 'd1'"):
        require_rankings(asked, run_of_answers(Ids.of(["q"]), asked.answers, 3), Ids.of(["d1", "d2", "d3"]))


def examiner(corpus: Corpus | None) -> Examiner:
    golden = GoldenSet("g", "g", (A, B, C), "0")
    ids = corpus.ids if corpus is not None else None
    return Examiner(golden, Match(), 3, TieRule.ENGINE, ExpectedDocuments(golden, Match(), ids), corpus)


def test_a_run_with_errors_gets_no_judgments() -> None:
    ids = Ids.of(["a", "b", "c", "d"])
    corpus = Corpus(ids, pa.chunked_array([["x", "what is qb?", "y", "z"]]), "0")
    looking = examiner(corpus)
    same = run_of(looking.golden, [answer("d")] * 3, 3)
    assert looking.judge(same) is None
    examined = looking.examined(GoldenRun(trial_of_backend("golden", "s", "s"), run=same))
    assert examined.answered.problems == ("same-list",)
    good = run_of(looking.golden, [answer("a"), answer("b", "c"), answer("c")], 3)
    assert looking.judge(good) is not None
    assert looking.findings(good) == ()
    texts = [one.texts for _, one in answers_of(good, looking.golden, 3, None)]
    assert texts == [(None,), (None, None), (None,)]
    assert [one.ids for _, one in answers_of(good, looking.golden, 1, None)] == [("a",), ("b",), ("c",)]


@pytest.mark.parametrize(
    ("corpora", "expected"),
    [
        ([], [("missing-ids", "warning")]),
        ([["a", "b", "c"]], [("missing-ids", "error")]),
        ([["a", "b", "c", "new-2"]], [("nothing-judged", "warning")]),
        ([["a", "b", "c"], ["new-1"]], [("nothing-judged", "warning")]),
    ],
)
def test_ids_of_a_corpus_at_hand_decide_about_hits_that_no_question_expects(corpora, expected) -> None:
    """Of three questions of a function; without a corpus, fewer than ten are too few to refuse."""
    loaded = tuple(LoadedContent(Ids.of(ids), DocumentContent()) for ids in corpora)
    looking = replace(examiner(None), loaded=loaded)
    answers = [answer(f"new-{number}") for number in (1, 2, 3)]
    answered = GoldenRun(trial_of_backend("golden", "s", "s"), run=run_of(looking.golden, answers, 3))
    examined = looking.examined_answers(answered, answers, parse_metrics("Hit@3"), 1)
    assert [(one.check, one.severity) for one in examined.findings] == expected
    accepted = replace(looking, accept=["missing-ids"]).examined_answers(answered, answers, parse_metrics("Hit@3"), 1)
    assert accepted.answered.scores is not None


def test_many_questions_whose_hits_a_corpus_has_are_scored_and_chunks_of_its_documents_are_known() -> None:
    many = [(question(f"q{number}", f"d{number}"), answer(f"x{number}#1")) for number in range(12)]
    corpus = Ids.of(["x3", *(f"d{number}" for number in range(12))])
    (finding,) = preflight(Answers(tuple(many), 3, TieRule.ENGINE, CHUNKS, None, corpora=(corpus,)))
    assert (finding.check, finding.severity) == ("nothing-judged", "warning")
    (finding,) = preflight(Answers(tuple(many), 3, TieRule.ENGINE, Match(), None, corpora=(corpus,)))
    assert (finding.check, finding.severity) == ("missing-ids", "error")


def test_texts_of_a_corpus_are_looked_at() -> None:
    ids = Ids.of(["a", "b", "c", "d"])
    corpus = Corpus(ids, pa.chunked_array([["x", "y"], ["what is qa?", "z"]]), "0")
    looking = examiner(corpus)
    plain = run_of(looking.golden, [answer("a", "c"), answer("b"), answer("c")], 3)
    rows = ids.rows_of(plain.doc_ids)[plain.rows].astype(np.int32)
    run = type(plain)(plain.query_ids, ids, plain.indptr, rows, plain.scores)
    (finding,) = looking.findings(run)
    assert (finding.check, finding.severity) == ("query-in-results", "warning")
    assert "1 of 3 questions found itself" in finding.message


def test_an_index_of_another_model_is_a_finding() -> None:
    message = "the query vectors have 768 dimensions, the index has 384\n  encode with one model"
    failed = GoldenRun(
        trial_of_backend("golden", "s", "s", error=ErrorInfo(type="RejectedInputError", message=message, log=[]))
    )
    ((finding,),) = [examiner(None).examined(failed).findings]
    assert (finding.check, finding.severity, finding.fix) == ("dimension", "error", "encode with one model")
    other = GoldenRun(
        trial_of_backend("golden", "s", "s", error=ErrorInfo(type="EngineFailureError", message="x", log=[]))
    )
    assert examiner(None).examined(other).findings == ()


def test_answers_are_scored_when_nothing_is_wrong() -> None:
    looking = examiner(None)
    answers = [answer("a"), answer("x", "b"), answer("x")]
    subject = GoldenRun(trial_of_backend("golden", "s", "s"), run=run_of(looking.golden, answers, 3))
    scores = looking.examined_answers(subject, answers, parse_metrics("RR@3"), 1).answered.scores
    assert scores is not None
    assert scores.values[:, 0].tolist() == [1.0, 0.5, 0.0]
    repeated = [answer("a", "a"), *answers[1:]]
    refused = looking.examined_answers(subject, repeated, parse_metrics("RR@3"), 1).answered
    assert (refused.scores, refused.problems) == (None, ("duplicates",))


def test_a_text_that_is_asked_twice_with_other_expectations_is_named() -> None:
    asked = [{"id": name, "question": text, "expected": ids} for name, text, ids in (
        ("first", "How long?", ["a"]), ("second", "how  LONG?", []), ("third", "How wide?", ["b"]),
        ("fourth", "How wide?", ["b"]),
    )]  # fmt: skip
    (found,) = repeated_questions(golden_of_records(asked))
    assert (found.check, found.severity) == ("repeated-questions", "warning")
    assert found.message == "1 text is shared by several questions, which expect different documents"
    assert found.examples == ("question 'first' expects 'a'; question 'second' expects nothing",)
    (equal,) = repeated_questions(golden_of_records(asked[2:]))
    assert equal.message == "1 text is shared by several questions: each counts by itself"
    assert equal.examples == ("question 'third' expects 'b'; question 'fourth' expects 'b'",)
    assert repeated_questions(golden_of_records(asked[:1])) == []
    without_ids = [{name: value for name, value in row.items() if name != "id"} for row in asked[2:]]
    assert repeated_questions(golden_of_records(without_ids)) == []
