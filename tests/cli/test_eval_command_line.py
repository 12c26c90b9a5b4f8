"""The command line of ``harness eval``: words without flags, a release of trec_eval, and options that it recommends."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import harness
from harness.cli.app import _build
from harness.cli.config import settings_of
from harness.data.columns import parse_columns
from harness.data.dataset import DatasetFiles
from harness.loaders import load_dataset

PLAIN_QRELS = "1 0 a 2\n1 0 c 1\n2 0 b 1\n"
PLAIN = "1 Q0 a 1 3.0 s\n1 Q0 b 2 2.0 s\n1 Q0 c 3 1.0 s\n2 Q0 c 1 3.0 s\n2 Q0 b 2 2.0 s\n"
VALUES = ["0.790582", "0.666667", "0.750000"]
METRICS = ("--metrics", "nDCG@10,AP,RR", "--format", "csv", "--per-query")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with judgments and two equal runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.qrels").write_text(PLAIN_QRELS)
    for name in ("a.trec", "b.trec"):
        (tmp_path / name).write_text(PLAIN)
    return tmp_path


def evaluate(*arguments: str, code: int = 0) -> tuple[str, str]:
    """Run the command in this process; its output and what it says on stderr."""
    done = CliRunner().invoke(_build(), ["eval", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def means(printed: str) -> dict[str, list[str]]:
    """Return the means of each run, to six digits."""
    found: dict[str, list[str]] = {}
    for line in printed.splitlines()[1:]:
        run, query, _, value, *_ = line.split(",")
        if query == "all":
            found.setdefault(run, []).append(f"{float(value):.6f}")
    return found


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("a.qrels a.trec", ["a.trec"]),
        ("a.qrels a.trec b.trec", ["a.trec", "b.trec"]),
        ("--qrels a.qrels a.trec b.trec", ["a.trec", "b.trec"]),
        ("--qrels a.qrels --run a.trec b.trec", ["a.trec", "b.trec"]),
        ("--run a.trec b.trec --qrels a.qrels", ["a.trec", "b.trec"]),
        ("a.qrels --run a.trec", ["a.trec"]),
        ("--qrels a.qrels --run a.trec --run b.trec", ["a.trec", "b.trec"]),
    ],
)
def test_files_may_stand_without_flags(folder: Path, words: str, runs: list[str]) -> None:
    assert means(evaluate(*words.split(), *METRICS)[0]) == dict.fromkeys(runs, VALUES)


def test_a_missing_run_is_named(folder: Path) -> None:
    with pytest.raises(harness.errors.UsageError, match="--run is not given"):
        evaluate("a.qrels")


def test_a_release_that_is_not_known_is_not_taken_for_a_file(folder: Path) -> None:
    with pytest.raises(harness.errors.UsageError, match="--trec-eval 11: no such choice"):
        evaluate("a.qrels", "a.trec", "--trec-eval", "11")


@pytest.mark.parametrize(
    ("option", "release", "rule", "value"),
    [
        ("", 9, "trec_eval", "0.9502"),
        ("--trec-eval", 9, "trec_eval", "0.9502"),
        ("--trec-eval 9", 9, "trec_eval", "0.9502"),
        ("--trec-eval 10", 10, "trec_eval_10", "0.7602"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_the_format_of_trec_eval_is_of_a_release(
    folder: Path, option: str, release: int, rule: str, value: str, first: bool
) -> None:
    (folder / "q").write_text("q1 0 a 1\nq1 0 b 0\nq1 0 c 2\n")
    (folder / "r").write_text("q1 Q0 a 1 100000001 s\nq1 Q0 b 2 100000000 s\nq1 Q0 c 3 99999999 s\n")
    named = ["--metrics", "ndcg_cut.10", "--format", "trec_eval"]
    words = [*option.split(), "q", "r", *named] if first else ["q", "r", *named, *option.split()]
    printed, told = evaluate(*words)
    assert printed.split() == ["ndcg_cut_10", "all", value]
    assert f"as trec_eval {release} prints it; ties: {rule} (" in told


def test_release_10_prints_its_own_metrics_under_their_names(folder: Path) -> None:
    (folder / "q").write_text("q1 0 a 3\nq1 0 b 1\nq1 0 missed 1\n")
    (folder / "r").write_text("q1 Q0 a 1 3 s\nq1 Q0 x 2 2 s\nq1 Q0 b 3 1 s\n")
    named = ("--metrics", "rbp,iprec_at_recall.0.4,11pt_avg,IPrec@0.4", "--format", "trec_eval")
    release_9 = evaluate("q", "r", *named)[0].split("\n")
    release_10 = evaluate("q", "r", *named, "--trec-eval", "10")[0].split("\n")
    # 1.2 of three relevant documents: floor(2.1) in release 9, 1 in release 10
    assert "iprec_at_recall_0.40  \tall\t0.6667" in release_9
    assert "iprec_at_recall_0.40  \tall\t1.0000" in release_10
    assert "IPrec@0.4             \tall\t0.6667" in release_10
    assert "rbp                   \tall\t0.1270" in release_10  # 0.1 · (3/3 + 0.9² · 1/3)
    assert "RBP                   \tall\t0.3280" in release_9  # ours: release 9 has none


def test_judgments_in_a_table_with_other_names_are_read_as_the_message_says(folder: Path) -> None:
    (folder / "points.csv").write_text("frage,dokument,points\n1,a,2\n1,c,1\n2,b,1\n")
    with pytest.raises(harness.errors.DataError, match="--columns query_id=…,doc_id=…"):
        evaluate("points.csv", "a.trec")
    named = "query_id=frage,doc_id=dokument,grade=points"
    assert means(evaluate("points.csv", "a.trec", "--columns", named, *METRICS)[0]) == {"a.trec": VALUES}
    columns = dict(part.split("=") for part in named.split(","))
    assert harness.evaluate("a.trec", "points.csv", "RR", columns=columns).means()[0].value == 0.75
    rows = [dict(zip(columns.values(), row, strict=True)) for row in (("1", "a", 2), ("1", "c", 1), ("2", "b", 1))]
    assert harness.evaluate("a.trec", rows, "RR", columns=columns).means()[0].value == 0.75


MESSAGES = (
    "results/findings.py", "metrics/*.py", "pipeline/evaluate.py", "loaders/qrels.py", "loaders/trec.py",
    "loaders/structured_files.py", "data/columns.py", "data/judgments.py", "data/memory.py",
)  # fmt: skip
"""Modules whose messages ``harness eval`` prints."""


def test_messages_recommend_options_that_the_command_has() -> None:
    options = {field.flag for field in settings_of("eval").values()}
    root, named = Path(harness.__file__).parent, set[str]()
    for pattern in MESSAGES:
        for path in root.glob(pattern):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            texts = [
                node.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
            ]
            named |= {option for text in texts for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text)}
    assert named >= {"--ties", "--queries", "--identical-ids", "--columns", "--accept"}
    assert named - options == set()


def test_a_run_may_have_a_number_for_a_name(folder: Path) -> None:
    (folder / "a.trec").rename("11")
    assert list(means(evaluate("a.qrels", "--trec-eval", "11", *METRICS)[0])) == ["11"]


def test_swapped_files_are_recognised(folder: Path) -> None:
    with pytest.raises(harness.errors.DataError) as raised:
        evaluate("a.trec", "a.qrels")
    assert "a.trec: 1 problem\n  looks like a run, not like judgments" in str(raised.value)
    assert str(raised.value).count("(harness eval takes the judgments first)") == 2
    (folder / "beir.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n")
    for judgments in ("a.qrels", "beir.tsv"):
        with pytest.raises(harness.errors.DataError, match="1 problem\n  looks like judgments, not like a run"):
            evaluate("a.qrels", "--run", f"./{judgments}")


@pytest.mark.parametrize(
    "content",
    [
        "query_id,doc_id,score\n1,a,3.0\n2,b,1.0\n",
        "query_id;doc_id;score\n1;a;3.0\n2;b;1.0\n",
        "query_id\tdoc_id\tscore\n1\ta\t3.0\n2\tb\t1.0\n",
        '"qid","docno","score"\n1,a,3.0\n2,b,1.0\n',
        "query,passage,value\n1,a,3.0\n2,b,1.0\n",
        "1,a,3.0\n2,b,1.0\n",
    ],
)
def test_a_run_may_be_a_table(folder: Path, content: str) -> None:
    (folder / "run.csv").write_text(content)
    named = ("--columns", "doc_id=passage,score=value") if "value" in content else ()
    lines = ["1 Q0 a 1 3.0 t", "2 Q0 b 1 1.0 t"]
    (folder / "same.trec").write_text("\n".join(lines))
    found, _ = evaluate("a.qrels", "run.csv", "same.trec", *METRICS, *named)
    table, trec = means(found).values()
    assert table == trec


def test_own_gains_and_a_fraction_as_relevance(folder: Path) -> None:
    (folder / "half.txt").write_text("2 qid:1 # a\n0.5 qid:1 # c\n1 qid:2 # b\n")
    gains = ("--gains", "0.5=1,1=1,2=3", "--relevance", "0.5", "--metrics", "nDCG@10,AP", "--format", "csv")
    printed, notes = evaluate("half.txt", "a.trec", *gains)
    assert "nDCG(gains='0.5=1,1=1,2=3')@10" in printed
    assert "AP(rel=0.5)" in printed
    assert "gain-without-relevance" not in notes
    assert "gain-without-relevance" in evaluate("half.txt", "a.trec", *gains[:2])[0]


def test_a_wrong_number_of_columns_is_told_once(folder: Path) -> None:
    (folder / "bad.trec").write_text("1 a b c 3.0\n" * 30)
    (folder / "bad.qrels").write_text("1 0 a 1 x y z\n" * 30)
    with pytest.raises(harness.errors.DataError, match=r"5 columns, expected 6: .*, and so for 29 lines more"):
        evaluate("a.qrels", "bad.trec")
    with pytest.raises(
        harness.errors.DataError, match=r"7 columns, expected TREC's four: .*, and so for 29 lines more"
    ):
        evaluate("bad.qrels", "a.trec")


def test_a_name_of_release_10_under_release_9_is_noted(folder: Path) -> None:
    named = ("a.qrels", "a.trec", "--metrics", "map,rbp,RBP")
    for option in (["--format", "trec_eval"], ["--trec-eval"]):
        notes = [line for line in evaluate(*named, *option)[1].splitlines() if line.startswith("note: ")]
        assert notes == ["note: only trec_eval 10 has 'rbp' (--trec-eval 10); RBP is computed here"]
    for option in (["--trec-eval", "10"], []):
        assert "note: " not in evaluate(*named, *option)[1]


def test_queries_of_a_run_without_judgments_are_counted(folder: Path) -> None:
    for queries, words in ((1, "1 query"), (7, "7 queries")):
        (folder / "more.trec").write_text(PLAIN + "".join(f"x{row} Q0 a 1 1 s\n" for row in range(queries)))
        told = evaluate("a.qrels", "more.trec", "--format", "json")[1]
        assert f"; {words} of the run left out, not judged" in told


TABLES = {
    "a.trec": PLAIN,
    "run.csv": "qid,docid,score\n1,a,3\n1,c,1\n2,b,2\n",
    "run.jsonl": '{"qid": "1", "docid": "a", "score": 3}\n{"qid": "2", "docid": "b", "score": 2}\n',
    "lines.tsv": "1\ta\t3.5\n1\tc\t1.5\n2\tb\t2.5\n",
}


@pytest.mark.parametrize("run", TABLES)
@pytest.mark.parametrize("column", ["query_id=qidd", "doc_id=nowhere", "grade=nowhere", "text=body"])
@pytest.mark.parametrize("audit", [(), ("--audit",)])
def test_a_field_that_no_file_has_is_refused(folder: Path, run: str, column: str, audit: tuple[str, ...]) -> None:
    (folder / run).write_text(TABLES[run])
    field = column.partition("=")[2]
    with pytest.raises(harness.errors.UsageError, match=f"have the field '{field}', which --columns") as error:
        evaluate("a.qrels", run, "--columns", column, *audit)
    names = ("qid", "docid", "score") if run.startswith("run.") else ("without named fields",)
    assert all(name in str(error.value) for name in names)
    with pytest.raises(harness.errors.UsageError, match="which columns names as"):
        harness.evaluate(run, "a.qrels", columns=column)
    with pytest.raises(harness.errors.UsageError, match="which columns names as"):
        harness.evaluate([{"query_id": "1", "doc_id": "a", "score": 1.0}], "a.qrels", columns={"doc_id": field})


def test_an_audit_reads_named_columns(folder: Path) -> None:
    (folder / "points.csv").write_text("topic,passage,points\n1,a,2\n1,c,1\n2,b,1\n")
    named = "query_id=topic,doc_id=passage,grade=points"
    audited, _ = evaluate("points.csv", "a.trec", "--audit", "--columns", named, "--format", "json")
    plain, _ = evaluate("a.qrels", "a.trec", "--audit", "--format", "json")
    assert audited == plain


@pytest.mark.parametrize("qrels", ["query-id\tcorpus-id\tscore\n1\ta\t1\n", "1\ta\t1\n", "1 0 a 1\n"])
@pytest.mark.parametrize("column", ["doc_id=nowhere", "grade=nowhere"])
def test_a_comparison_refuses_a_field_that_its_judgments_lack(folder: Path, qrels: str, column: str) -> None:
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "pump"}\n')
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "pump"}\n')
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text(qrels)
    files = DatasetFiles(columns=parse_columns(column))
    with pytest.raises(harness.errors.DataError, match="there is no field 'nowhere', which --columns names"):
        load_dataset(str(folder), files=files)
    with pytest.raises(harness.errors.UsageError, match="a comparison reads documents, queries and judgments"):
        harness.compare("csr", str(folder), columns={"score": "sim"})
