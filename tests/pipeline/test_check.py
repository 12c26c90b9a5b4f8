"""``harness check`` from the command line and from Python, on real engines and the bundled golden set."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import harness
from harness.errors import HarnessError, ResultError, UsageError
from harness.report.formats import render
from harness.results.stored_texts import documents_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

QUICK = {"timing": False, "isolation": "none"}


def command(*arguments, exit_code):
    """Run the verb in this process; stdout, which a failed requirement fills too."""
    from harness.cli.app import _build

    done = CliRunner().invoke(_build(), ["check", *arguments, "--isolation", "none"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == exit_code, done.output
    return done.stdout


@pytest.fixture
def small(tmp_path):
    """Two documents in chunks, and questions about them."""
    corpus = tmp_path / "chunks.jsonl"
    texts = {
        "fruit#0": "apples and pears grow on trees",
        "fruit#1": "apples are pressed for juice and pears too",
        "fish#0": "trout swim in rivers",
        "fish#10": "salmon swim upstream to spawn",
    }
    corpus.write_text("".join(json.dumps({"_id": k, "text": v}) + "\n" for k, v in texts.items()))
    golden = tmp_path / "golden.jsonl"
    questions = [
        {"id": "f", "question": "apples pears juice", "expected": ["fruit"], "lang": "en"},
        {"id": "s", "question": "salmon spawn", "expected": ["fish"], "lang": "de"},
        {"id": "none", "question": "who invented the wheel", "expected": []},
    ]
    golden.write_text("".join(json.dumps(one) + "\n" for one in questions))
    return golden, corpus


@pytest.fixture(scope="module")
def bundled():
    """The bundled golden set on exact search and on Lucene."""
    return harness.check(
        "chunking-eval", backends="csr,lucene", require=["Hit@5>=0.9", "MRR@5>=0.9"], timing=False, jobs=2
    )


def test_metrics_are_those_of_twenty_lines(bundled, repository):
    import gzip

    lines = gzip.decompress((repository / "datasets" / "chunking-eval" / "golden.jsonl.gz").read_bytes()).splitlines()
    expected = {one["id"]: one["expected_relevant_doc_ids"] for one in map(json.loads, lines)}
    for subject in bundled.report.trials:
        hits, ranks, recalls = [], [], []
        for question in subject.questions:
            wanted = expected[question.id]
            if not wanted:
                continue
            found = [rank for rank, doc in enumerate(question.top[:5], 1) if doc in wanted]
            hits.append(bool(found))
            ranks.append(1 / found[0] if found else 0)
            recalls.append(len(found) / len(wanted))
        metrics = subject.metrics
        assert metrics["Hit@5"].mean == pytest.approx(sum(hits) / len(hits), abs=1e-15)
        assert metrics["MRR@5"].mean == pytest.approx(sum(ranks) / len(ranks), abs=1e-15)
        assert metrics["Recall@5"].mean == pytest.approx(sum(recalls) / len(recalls), abs=1e-15)
        assert (metrics["Hit@5"].n, metrics["Hit@5"].metric, metrics["MRR@5"].metric) == (472, "Success@5", "RR@5")


def test_the_verdict_of_the_bundled_set(bundled):
    report = bundled.report
    assert (report.verdict, bundled.passed) == ("failed", False)
    assert [(one.text, one.backend, one.passed) for one in report.requirements] == [
        ("Hit@5>=0.9", "csr", True),
        ("MRR@5>=0.9", "csr", False),
        ("Hit@5>=0.9", "lucene", True),
        ("MRR@5>=0.9", "lucene", False),
    ]
    hit, rank = report.requirements[:2]
    assert hit.flips == round(hit.value * 472) - 424  # 425 of 472 are above 0.9
    assert rank.value is not None
    assert rank.questions_below_best
    assert report.golden.without_expectation == ["out-of-corpus"]
    assert (report.golden.questions, report.golden.evaluated) == (473, 472)
    assert [subject.parity.different for subject in report.trials if subject.parity] == [0, 0]


def test_a_failed_requirement_says_which_questions_missed(bundled):
    text = bundled.render()
    assert "✕ MRR@5>=0.9 failed on lucene" in text
    assert "questions would have to change for it to pass" in text
    assert "1 question without an expected document, left out of means: out-of-corpus" in text
    worst = bundled.report.requirements[1].questions_below_best[0]
    assert f"\n{worst} " in text


def test_missed_questions_are_in_the_order_of_the_ranks_of_their_documents(tmp_path):
    corpus = tmp_path / "chunks.jsonl"
    texts = {f"d{number}": "pump " * (5 - number) + "valve " * number for number in range(5)}
    corpus.write_text("".join(json.dumps({"_id": k, "text": v}) + "\n" for k, v in texts.items()))
    golden = [
        {"id": name, "question": question, "expected": [expected]}
        for name, question, expected in (
            ("absent", "pump", "d9"), ("fourth", "pump", "d3"), ("second", "pump", "d1"), ("third", "pump!", "d2")
        )
    ]  # fmt: skip
    checked = harness.check(
        golden, corpus=corpus, backends="csr:analyzer=whitespace", k=1, require=["Hit@1>=1"], accept=["missing-ids"],
        **QUICK,
    )  # fmt: skip
    assert checked.report.requirements[0].questions_below_best == ["second", "fourth", "absent", "third"]
    printed = checked.render("table", verbose=True)
    assert "d1 (not found, exact rank 2)" in printed.replace("\n", " ").replace("  ", " ")


def test_a_result_is_stored_and_read_back(bundled, tmp_path, capsys):
    from harness.cli.report import report

    stored = bundled.save(tmp_path / "result")
    again = harness.CheckResult.load(tmp_path / "result")
    assert again.report == bundled.report
    assert "csr.trec.gz" in {path.name for path in (tmp_path / "result" / "runs").rglob("*.gz")}
    report(folder=tmp_path / "result", format="markdown")
    assert capsys.readouterr().out == bundled.render("markdown")
    with pytest.raises(ResultError, match="harness check"):
        harness.Comparison.load(stored.folder)
    with pytest.raises(UsageError, match="already holds"):
        bundled.save(tmp_path / "result")


def test_every_format(bundled):
    assert json.loads(bundled.render("json"))["verdict"] == "failed"
    rows = list(csv.DictReader(io.StringIO(bundled.render("csv"))))
    means = {row["backend"]: row["mean"] for row in rows if row["metric"] == "Hit@5"}
    assert means == {one.label: str(one.metrics["Hit@5"].mean) for one in bundled.report.trials}
    assert bundled.render("markdown").startswith("<!-- harness check: chunking-eval -->")
    assert list(bundled.metrics().columns) == ["Hit@5", "MRR@5", "Recall@5", "nDCG@5"]
    assert len(bundled.requirements()) == 4
    assert len(bundled.per_question()) == 944


def test_long_labels_are_short_where_there_is_little_room(small):
    """As in the tables of a comparison, with the whole label once below them."""
    labels = ["csr:analyzer=whitespace;k1=1.2", "csr:analyzer=whitespace;k1=2.5"]
    golden, corpus = small
    checked = harness.check(
        golden, corpus=corpus, backends=labels, match="document", delimiter="#", require="Hit@5>=1", **QUICK
    )
    narrow = render(checked.report, "table", width=80)
    assert [narrow.count(label) for label in labels] == [1, 1]
    assert f"csr[k1=1.2] = {labels[0]}" in narrow
    assert labels[0] in render(checked.report, "table").partition("value")[2]


@pytest.mark.parametrize(("bound", "code"), [("0.9", 0), ("0.95", 1)])
def test_the_exit_code_follows_the_threshold(tmp_path, bound, code):
    out = tmp_path / "out"
    arguments = ["--backends", "csr", "--require", f"Hit@5>={bound}", "--no-timing", "--out", str(out), "--no-text"]
    text = command("chunking-eval", *arguments, exit_code=code)
    assert ("✕ Failed: 1 of 1 requirement not met" in text) == bool(code)
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] == ("failed" if code else "passed")
    assert {question["question"] for question in report["trials"][0]["questions"]} == {None}
    assert "Biden" not in (out / "report.json").read_text()


def test_a_missing_id_is_invalid_and_nothing_runs(small, tmp_path):
    golden, corpus = small
    text = command(
        str(golden), "--corpus", str(corpus), "--backends", "csr", "--out", str(tmp_path / "out"), exit_code=3
    )
    said = " ".join(text.split())
    assert "? Invalid: no backend was queried" in text.splitlines()
    assert "2 expected ids are not in the corpus 'chunks': no document has the id" in text
    assert f"{golden}, line 1: question 'f' expects 'fruit'" in said
    assert "--match document --delimiter" in said
    report = harness.CheckResult.load(tmp_path / "out").report
    assert (report.verdict, report.trials, report.requirements) == ("invalid", [], [])
    assert report.preflight[0].check == "missing-ids"


def test_a_wrong_corpus_is_named_and_the_right_one_is_checked(small, tmp_path):
    """The check is invalid, its dataset stands in every row, and the figures of the other are there."""
    golden, corpus = small
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"_id": "bird#0", "text": "swans swim"}\n')
    checked = harness.check(
        golden,
        corpus=[corpus, wrong],
        backends="csr",
        k=2,
        match="document",
        delimiter="#",
        require="Hit@2>=1",
        **QUICK,
    )
    report = checked.report
    assert (report.verdict, [problem.dataset for problem in report.preflight]) == ("invalid", ["wrong"])
    assert [(row.dataset, row.passed) for row in report.requirements] == [("chunks", True)]
    text = checked.render()
    assert "Invalid: not everything could be judged" in text
    assert "2 expected ids are not in the corpus 'wrong'" in text
    assert report.several


def test_documents_of_which_the_corpus_holds_chunks(small):
    golden, corpus = small
    checked = harness.check(
        golden, corpus=corpus, backends="csr", k=3, match="document", delimiter="#", require="Hit@3>=1", **QUICK
    )
    assert checked.report.verdict == "passed"
    (subject,) = checked.report.trials
    first = subject.questions[0]
    assert first.top == ["fruit#1", "fruit#0"]
    assert [(one.id, one.rank, one.hit) for one in first.expected] == [("fruit", 1, "fruit#1")]
    assert first.values == {"Hit@3": 1.0, "MRR@3": 1.0, "Recall@3": 1.0, "nDCG@3": 1.0}


def test_slices_have_figures_and_requirements_of_their_own(small):
    golden, corpus = small
    checked = harness.check(
        golden,
        corpus=corpus,
        backends="csr",
        k=1,
        match="prefix",
        delimiter="#",
        slice="lang",
        require=["lang=de: Hit@1>=1", "lang=en: MRR@1<1"],
        **QUICK,
    )
    (subject,) = checked.report.trials
    assert [(one.field, one.value, one.questions, one.metrics["Hit@1"].mean) for one in subject.slices] == [
        ("lang", "de", 1, 1.0),
        ("lang", "en", 1, 1.0),
    ]
    assert [(one.slice, one.passed, one.n) for one in checked.report.requirements] == [
        ("lang=de", True, 1),
        ("lang=en", False, 1),
    ]
    assert "By lang" in checked.render()


def test_several_corpora_stand_in_one_table(small, tmp_path):
    golden, corpus = small
    whole = tmp_path / "whole.jsonl"
    whole.write_text(
        json.dumps({"_id": "fruit", "text": "apples and pears grow on trees and are pressed for juice"})
        + "\n"
        + json.dumps({"_id": "fish", "text": "trout and salmon swim upstream to spawn"})
        + "\n"
    )
    checked = harness.check(
        golden,
        corpus=[f"small={corpus}", f"large={whole}"],
        backends="csr",
        k=2,
        match="document",
        delimiter="#",
        require="Hit@2>=1",
        **QUICK,
    )
    assert [(one.label, one.dataset) for one in checked.report.trials] == [
        ("csr", "small"),
        ("csr", "large"),
    ]
    assert [info.label for info in checked.report.backends] == ["csr"]
    assert [(one.backend, one.dataset, one.passed) for one in checked.report.requirements] == [
        ("csr", "small", True),
        ("csr", "large", True),
    ]
    assert sorted(checked.hits) == [("large", "csr"), ("small", "csr")]
    assert checked.run("csr", "large").doc_ids.to_list() == ["fruit", "fish"]
    assert checked.metrics().index.to_list() == [("small", "csr"), ("large", "csr")]
    assert list(checked.per_question().columns[:3]) == ["dataset", "backend", "question"]
    with pytest.raises(UsageError, match="'csr' was checked on several datasets: small, large"):
        _ = checked.runs
    shown = checked.render("markdown", verbose=True)
    assert "| backend | dataset |" in shown
    assert "csr on large: Hit@2\\>=1 is 1.0000" in shown
    given = checked.report.plan.arguments
    assert (given["golden"], given["corpus"]) == (str(golden), [f"small={corpus}", f"large={whole}"])
    assert (given["backends"], given["k"], given["metrics"]) == ("csr", 2, None)
    alone = checked.report.on("large")
    assert [(row.backend, row.dataset) for row in alone.requirements] == [("csr", "large")]
    assert {problem.dataset for problem in (*alone.preflight, *alone.warnings)} <= {"large", None}
    assert documents_of(alone).corpus.ids.to_list() == ["fruit", "fish"]


def test_latency_and_parity_are_required(small):
    golden, corpus = small
    checked = harness.check(
        golden,
        corpus=corpus,
        backends="csr",
        match="document",
        delimiter="#",
        require=["p95_ms<=10000", "mean_ms<=0", "parity>=1"],
        isolation="none",
    )
    slow, never, parity = checked.report.requirements
    assert (slow.passed, slow.best_possible) == (True, None)
    assert (never.passed, parity.passed, parity.value) == (False, True, 1.0)
    assert (slow.flips, never.flips) == (1, 2)
    assert "mean_ms<=0 failed on csr" in checked.render()


def test_what_even_a_perfect_retriever_would_fail_is_said(small):
    _, corpus = small
    options = {"corpus": corpus, "backends": "csr", "k": 1, "match": "document", "delimiter": "#", **QUICK}
    both = [{"id": "q", "question": "apples salmon", "expected": ["fruit", "fish"]}]
    impossible = harness.check(both, require="Recall@1>=0.6", **options)
    assert impossible.report.requirements[0].flips is None
    assert "nothing can meet it: a perfect backend would reach 0.5000" in impossible.render()
    alone = harness.check(both, require="Hit@1>=0.6", confidence=True, **options)
    assert (alone.report.verdict, alone.report.requirements[0].value) == ("failed", 1.0)
    assert "an interval needs 2 values" in alone.render()


def test_a_confidence_bound_can_decide():
    checked = harness.check("chunking-eval", backends="csr", require="Hit@5>=0.92", confidence=True, **QUICK)
    (found,) = checked.report.requirements
    assert found.value is not None
    assert found.ci_low is not None
    assert found.value > 0.92 > found.ci_low
    assert (found.passed, found.decided_by, checked.report.verdict) == (False, "confidence bound", "failed")
    assert found.flips is not None
    assert found.flips > 1


def test_a_failed_backend_is_invalid_and_never_zero(small, tmp_path):
    golden, corpus = small
    checked = harness.check(
        golden, corpus=corpus, backends=["csr", "run:" + str(other_run(tmp_path))], match="document", delimiter="#",
        require="Hit@5>=0", **QUICK,
    )  # fmt: skip
    ok, failed = checked.report.trials
    assert (ok.status, failed.status, failed.metrics) == ("ok", "failed", {})
    assert [one.passed for one in checked.report.requirements] == [True, None]
    assert checked.report.verdict == "invalid"
    assert "not judged ?" in checked.render()


def other_run(folder: Path) -> Path:
    path = folder / "other.trec"
    path.write_text("f Q0 nowhere 1 1.0 x\n")
    return path


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"k": 0}, UsageError, "--k is 0"),
        ({"require": "Hit@5"}, UsageError, "malformed"),
        ({"require": "p95_ms<=5", "timing": False}, UsageError, "--no-timing"),
        ({"slice": "langauge"}, UsageError, "did you mean 'lang'"),
        ({"require": "lang=fr: Hit@5>=1"}, UsageError, "no question has lang=fr"),
        ({"match": "document"}, UsageError, "--delimiter"),
        ({"backends": "csrr"}, UsageError, "did you mean 'csr'"),
        ({"metrics": "NumRet"}, UsageError, "is not a mean"),
        ({"corpus": ["a=x.jsonl", "a=y.jsonl"]}, UsageError, "two corpora"),
        ({"relevance": 9}, UsageError, "no question expects anything of that grade"),
        ({"corpus": ()}, UsageError, "no corpus was given"),
        ({"corpus": 5}, UsageError, "the documents cannot be read from an int"),
        (
            {"accept": ["no-hits", "same-lst"]},
            UsageError,
            "--accept same-lst: no such choice (did you mean 'same-list'",
        ),
        ({"corpus": "./nowhere.jsonl"}, UsageError, "there is no file"),
        (
            {"ties": "average", "match": "document", "delimiter": "#", "metrics": "RR@5"},
            UsageError,
            "is the first",
        ),
    ],
)
def test_wrong_arguments_are_refused(small, options, error, said):
    golden, corpus = small
    with pytest.raises(HarnessError) as raised:
        harness.check(golden, **{"corpus": corpus, "backends": "csr", **options})
    assert isinstance(raised.value, error)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("golden", "kind"), [(["a", "b"], "list of str"), ([1, "a"], "list of int and str"), (3, "int")]
)
def test_a_golden_set_of_other_objects_is_named_by_their_type(golden, kind):
    with pytest.raises(UsageError, match=f"the golden set is of type {kind}\n"):
        harness.check(golden, corpus="chunks.jsonl")


@pytest.mark.parametrize("name", ["corpus.parquet", "Corpus.jsonl.gz", "docs.csv"])
def test_documents_next_to_a_golden_set_are_proposed(small, tmp_path, name):
    golden, corpus = small
    corpus.rename(tmp_path / name)
    with pytest.raises(UsageError, match=f"--corpus {tmp_path / name}; or an existing backend"):
        harness.check(golden)


def test_the_command_of_a_report_runs_the_same_check_again(small, tmp_path):
    golden, corpus = small
    checked = harness.check(
        golden,
        corpus=corpus,
        backends="csr",
        metrics="MRR,P@2",
        match="document",
        delimiter="#",
        require=["Hit@5>=1"],
        no_text=True,
        **QUICK,
    )
    verb, *arguments = checked.report.command[1:]
    assert verb == "check"
    command(*arguments, "--out", str(tmp_path / "again"), exit_code=0)
    again = harness.CheckResult.load(tmp_path / "again").report
    assert again.command == [*checked.report.command[:-1], "--out", str(tmp_path / "again"), "--no-text"]
    first, second = (
        [trial.model_copy(update={"measured_at": None}) for trial in report.trials]
        for report in (checked.report, again)
    )
    assert first == second
    assert again.requirements == checked.report.requirements


def test_documents_that_read_like_questions_are_scored(tmp_path):
    """An FAQ of two tenants: each question has a twin that is another tenant's."""
    texts = [f"how do I reset device {number}" for number in (1, 2, 3)]
    corpus = {f"{tenant}-{number}": text for tenant in ("north", "south") for number, text in enumerate(texts, 1)}
    golden = [{"question": text, "expected": [f"south-{number}"]} for number, text in enumerate(texts, 1)]
    place = tmp_path / "faq.jsonl"
    place.write_text("".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in corpus.items()))
    checked = harness.check(
        golden, corpus=place, backends="csr:analyzer=whitespace", k=3, require=["Hit@3>=1"], **QUICK
    )
    assert checked.report.verdict == "passed"
    assert [one.check for one in checked.report.warnings] == ["duplicate-texts", "query-in-results"]
    # without the twins of the expected tenant the questions are in the corpus
    corpus |= {"south-1": "hold it", "south-2": "press reset", "south-3": "take the battery out"}
    place.write_text("".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in corpus.items()))
    options = {"corpus": place, "backends": "csr:analyzer=whitespace", "k": 3, **QUICK}
    assert [one.check for one in harness.check(golden, **options).report.preflight] == ["query-in-results"]
    accepted = harness.check(pd.DataFrame(golden), accept="query-in-results", **options)
    assert "--require 'Hit@3>=0.9'" in accepted.render()  # --k 3 refuses Hit@5
    assert (accepted.report.verdict, accepted.report.preflight) == ("passed", [])
    assert "--accept query-in-results" in " ".join(accepted.report.command)
