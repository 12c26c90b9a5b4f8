"""`harness.toml`: what it may hold, what comes before what, and what `harness init` writes."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from golden_world import COMMAND, LABEL, write_golden_world

from harness.cli import init as init_verb
from harness.cli.app import _build
from harness.cli.config import FILE_NAME, configured_verbs, read_settings, settings_of
from harness.cli.init import Choices, template
from harness.errors import CardError, DataError, UnknownNameError, UsageError
from harness.pipeline.check.checked import CheckResult

CHECK = f"""
[check]
golden = "golden.jsonl"
corpus = "chunks.jsonl"
backends = ["{LABEL}"]
match = "document"
delimiter = "#"
isolation = "none"
timing = false
require = ["Hit@5>=0.9", "MRR@5>=0.1"]
"""


BASELINE = "reports/baselines/check.json"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a golden set; ``init`` checks nothing in it."""
    monkeypatch.setattr(init_verb, "_check_once", lambda content: 0)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    write_golden_world(tmp_path)
    return tmp_path


def harness(*arguments: str, code: int) -> str:
    """Run a command in this process; its stderr."""
    done = CliRunner().invoke(_build(), arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stderr


def write(text: str, place: str = FILE_NAME) -> Path:
    path = Path(place)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_init_and_info_count_the_files_of_a_folder_that_are_not_read(folder: Path) -> None:
    write("one", "docs/a.txt")
    write("%PDF", "docs/b.pdf")
    said = harness("init", "--golden", "golden.jsonl", "--corpus", "documents=docs", "--backends", LABEL, code=0)
    assert said.startswith("docs: 1 file not read: 1 .pdf\n")
    page = CliRunner().invoke(_build(), ["datasets", "info", "./docs"])
    assert "1 file not read: 1 .pdf" in page.stdout
    plain = CliRunner().invoke(_build(), ["datasets", "info", "./docs", "--format", "json"])
    assert json.loads(plain.stdout)["on_this_machine"]["unread_files"] == {".pdf": 1}


def test_what_nobody_gave_is_asked_for_with_a_whole_command(folder: Path) -> None:
    text = refused("check")
    assert "'golden' is not given, and there is no harness.toml here" in text
    assert "harness check golden.jsonl --corpus chunks.jsonl" in text
    assert "`harness init`" in text
    write("[check]\nk = 3\n")
    assert "'golden' is not given, and [check] of harness.toml has none" in refused("check")
    write("[check]\nk = 3\n", "ci/other.toml")
    text = refused("regress", "--config", "ci/other.toml")
    assert "'baseline' is not given, and [regress] of ci/other.toml has none" in text
    assert "harness regress --baseline reports/baselines/cacm.json" in text


def refused(*arguments: str) -> str:
    """What a command that cannot start says."""
    done = CliRunner().invoke(_build(), arguments)
    assert isinstance(done.exception, UsageError), done.output
    return str(done.exception)


def test_check_needs_no_arguments(folder: Path) -> None:
    write(CHECK)
    said = harness("check", "--out", "out", code=1)
    assert said.startswith("options from harness.toml: golden, corpus, backends, isolation, require, ")
    report = CheckResult.load("out").report
    assert [one.passed for one in report.requirements] == [False, True]
    assert report.plan.resolved["require"] == ["Hit@5>=0.9", "MRR@5>=0.1"]


def test_the_command_line_comes_before_the_file_and_the_file_before_the_defaults(folder: Path) -> None:
    write(CHECK + "k = 3\nseed = 7\n")
    harness("check", "--require", "MRR>=0.1", "--k", "4", "--out", "out", code=0)
    settings = CheckResult.load("out").report.plan.resolved
    assert (settings["k"], settings["seed"], settings["relevance"]) == (4, 7, 1)
    assert settings["require"] == ["MRR@4>=0.1"]


def test_without_a_file_nothing_is_read(folder: Path) -> None:
    said = harness("check", "golden.jsonl", "--corpus", "chunks.jsonl", *COMMAND, "--out", "out", code=0)
    assert "options from" not in said


def test_paths_are_relative_to_the_file(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    place = write(
        '[check]\nout = "results"\nbackends = "csr:path=index,run:a.trec,csr"\ncorpus = ["small=c.jsonl"]\n', "ci/x"
    )
    for name in ("index", "a.trec", "c.jsonl", "csr"):
        (folder / "ci" / name).write_text("", encoding="utf-8")
    found = read_settings(place, "check")
    assert found == {
        "out": "ci/results",
        "backends": "csr:path=ci/index,run:ci/a.trec,csr",
        "corpus": ["small=ci/c.jsonl"],
    }
    write(CHECK + f'out = "{elsewhere}/out"\n')
    (folder / "deeper").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "deeper")
        harness("check", "--config", "../harness.toml", code=1)
    assert CheckResult.load(elsewhere / "out").report.golden.questions == 5


def test_every_mistake_is_named_with_the_nearest_match(folder: Path) -> None:
    write(
        '[check]\nbackend = "csr"\nk = "5"\nno_txt = true\nrequire = [1]\ntiming = "no"\nbackends = [1]\n'
        'match = ["exact"]\n'
        "[regres]\na = 1\n[compare]\nmetrics = 1\n"
    )
    with pytest.raises(CardError) as caught:
        harness("check", code=2)
    said = str(caught.value)
    assert caught.value.exit_code == 2
    assert said.startswith("file 'harness.toml': 9 problems")
    for line in (
        "unknown key 'check.backend' (did you mean 'backends'?)",
        "unknown key 'check.no_txt' (did you mean 'no_text'?)",
        "unknown key 'regres' (did you mean 'regress'?)",
        "'check.k' must be an integer, not '5'",
        "'check.timing' must be true or false, not 'no'",
        "'check.require' must be a list of strings, not [1]",
        "'check.backends' must be a list of strings, not [1]",
        "'check.match' must be a string, not ['exact']",
        "'compare.metrics' must be a string, not 1",
    ):
        assert line in said


@pytest.mark.parametrize(("content", "says"), [("[check", "is not TOML"), (None, "cannot be read: No such file")])
def test_a_file_that_is_none_is_refused(folder: Path, content: str | None, says: str) -> None:
    if content is not None:
        write(content, "other.toml")
    with pytest.raises(CardError, match=says):
        harness("check", "--config", "other.toml", code=2)


def test_a_broken_file_hides_no_help(folder: Path) -> None:
    write("[check")
    harness("check", "--help", code=0)
    harness("backends", code=0)


def test_every_option_of_the_verbs_can_stand_in_the_file() -> None:
    assert configured_verbs() == ("compare", "check", "regress", "explain", "judge")
    assert {"golden", "corpus", "require", "deadline", "junit", "no_text", "format"} <= settings_of("check").keys()
    assert settings_of("check")["deadline"].kind == "float"
    assert settings_of("check")["timing"].kind == "bool"
    assert settings_of("check")["out"].kind == "path"
    assert {"dataset", "save_baseline", "sweep", "tune", "folds"} <= settings_of("compare").keys()
    assert {"baseline", "set", "max_drop"} <= settings_of("regress").keys()
    assert {"result", "query", "doc", "golden", "corpus", "k", "verbose"} <= settings_of("explain").keys()
    assert {"result", "depth", "budget", "labels", "model", "page"} <= settings_of("judge").keys()


@pytest.mark.parametrize(
    "chosen",
    [
        Choices("golden.jsonl", "chunks.jsonl", None, "csr"),
        Choices(None, None, "cacm", "csr,lucene:k1=1.2;b=0.75"),
        Choices('a "quoted"\\ \x7f\n name', "ü", None, "csr"),
        Choices("golden.jsonl", None, None, "csr", ("mine=python:app:find", 'http:url=http://h/{question};ids="a"')),
    ],
)
def test_every_line_of_the_template_is_valid_commented_out_or_not(folder: Path, chosen: Choices) -> None:
    text = template(chosen)
    assert read_settings(write(text), "check").get("golden") == chosen.golden
    assert read_settings(write(text), "compare").get("dataset") == ([chosen.dataset] if chosen.dataset else None)
    lines = text.splitlines()
    commented = [line.removeprefix("# ") for line in lines if re.match(r"# \w+ = ", line)]
    assert commented
    for line in commented:
        key = line.partition(" = ")[0]
        table = next(one for one in reversed(lines[: lines.index(f"# {line}")]) if one.startswith("["))
        assert read_settings(write(f"{table}\n{line}\n"), table.strip("[]"))
        assert key in tomllib.loads(line)


def test_init_writes_what_check_reads(folder: Path) -> None:
    matched = ("--match", "document", "--delimiter", "#")
    given = ("--golden", "golden.jsonl", "--corpus", "chunks.jsonl", "--backends", LABEL, *matched)
    said = harness("init", *given, code=0)
    assert said.startswith("harness.toml is written: look at it, then run harness check\n")
    quick = ("--isolation", "none", "--no-timing", "--require", "Hit@5>=0.8", "--save-baseline", BASELINE)
    harness("check", *quick, "--out", "out", code=1)
    stored = CheckResult.load("out").report
    assert [one.text for one in stored.requirements] == ["Hit@5>=0.8"]
    assert (stored.golden_set.match, stored.golden_set.delimiter) == ("document", "#")


def test_init_for_what_is_there_already_needs_no_corpus(folder: Path) -> None:
    harness("init", "--golden", "golden.jsonl", "--against", "mine=python:my_app:find", code=0)
    settings = read_settings(Path(FILE_NAME), "check")
    assert settings["against"] == ["mine=python:my_app:find"]
    assert "backends" not in settings
    assert "corpus" not in settings
    harness(
        "init", "--golden", "golden.jsonl", "--corpus", "chunks.jsonl", "--against", "python:a:b", "--force", code=0
    )
    settings = read_settings(Path(FILE_NAME), "check")
    assert (settings["against"], settings["backends"]) == (["python:a:b"], "csr")


def test_init_without_a_terminal_asks_nothing_and_takes_the_example(folder: Path) -> None:
    for name in ("golden.jsonl", "chunks.jsonl"):
        Path(name).unlink()
    harness("init", code=0)
    assert read_settings(Path(FILE_NAME), "check")["golden"] == "chunking-eval"
    before = Path(FILE_NAME).read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        harness("init", "--dataset", "cacm", code=2)
    assert Path(FILE_NAME).read_bytes() == before
    said = harness("init", "--dataset", "cacm", "--force", code=0)
    assert "run harness compare" in said
    assert "golden" not in read_settings(Path(FILE_NAME), "check")


def test_init_asks_on_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["golden.jsonl", "chunks.jsonl"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(answers))
    init_verb.init()
    assert read_settings(Path(FILE_NAME), "check")["corpus"] == ["chunks.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--corpus", "chunks.jsonl"), UsageError),
        (("--golden", "golden.jsonl", "--against", "python:a.b"), UsageError),
        (("--golden", "absent.jsonl", "--corpus", "chunks.jsonl"), UsageError),
        (("--golden", "chunks.jsonl", "--corpus", "chunks.jsonl"), DataError),
        (("--golden", "golden.jsonl", "--corpus", "c=absent.jsonl"), UsageError),
        (("--dataset", "no-such-dataset"), UnknownNameError),
        (("--backends", "no-such-backend"), UnknownNameError),
    ],
)
def test_init_writes_nothing_that_cannot_run(folder: Path, arguments: tuple[str, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        harness("init", *arguments, code=2)
    assert not Path(FILE_NAME).exists()
