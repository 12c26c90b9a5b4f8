"""The pytest plug-in in projects that the tests make: golden sets as items, the fixture, and projects without any."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from golden_world import LABEL, QUESTIONS, QUICK, write_golden_world
from installed import skip_without

import harness
from harness.cli.verbs import load_verb
from harness.pipeline.check.checked import CheckResult

pytestmark = pytest.mark.integration

pytest_plugins = ("pytester",)

HARNESS_TOML = f"""
[check]
golden = "golden.jsonl"
corpus = "chunks.jsonl"
backends = "{LABEL}"
match = "document"
delimiter = "#"
isolation = "none"
timing = false
require = ["Hit@5>=0.9", "MRR@5>=0.1"]
"""
WITHOUT_SETS = HARNESS_TOML.replace('golden = "golden.jsonl"', "").replace("require", "#")
INSTALLED = any(point.value == "harness.integrations.pytest_plugin" for point in entry_points(group="pytest11"))


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pytester forgets the modules that a run imported, and numpy cannot be imported a second time."""
    golden, corpus = write_golden_world(tmp_path_factory.mktemp("once"))
    checked = harness.check(golden, corpus=corpus, require=["MRR@5>=0.1"], **QUICK)
    checked.assert_requirements()
    assert len(checked.metrics()) == 1
    load_verb("check")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with a golden set in its root; nothing of this repository's pytest settings reaches it."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    write_golden_world(pytester.path)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    # an installed package brings its plug-in; -p would load it twice
    plugin = () if INSTALLED else ("-p", "harness.integrations.pytest_plugin")
    others = ("no:faulthandler", "no:cacheprovider", "no:langsmith_plugin")
    return project.runpytest_inprocess(*(word for name in others for word in ("-p", name)), *plugin, *arguments)


def write_labels(project: pytest.Pytester, name: str, grade: int, **fields: str) -> str:
    """Judge the document that question ``x`` finds, and does not expect."""
    line = {"query_id": "x", "doc_id": "fruit#0", "grade": grade, "by": name, **fields}
    project.path.joinpath(f"{name}.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    return f"{name}.jsonl"


def test_labels_of_people_and_of_a_model(project: pytest.Pytester) -> None:
    text = HARNESS_TOML.replace('golden = "golden.jsonl"', "").replace(', "MRR@5>=0.1"', "")
    project.path.joinpath("harness.toml").write_text(text, encoding="utf-8")
    anna, ben = write_labels(project, "anna", 1), write_labels(project, "ben", 0)
    model = write_labels(project, "model", 1, model="judge", prompt_digest="0123456789ab")
    outcomes = {
        (): "failed",
        ("--golden-labels", anna): "passed",
        ("--golden-labels", anna, "--golden-labels", ben): "failed",  # of two grades the lower counts
        ("--golden-labels", model): "failed",  # a gate counts people's labels
        ("--golden-labels", model, "--golden-count-model-labels"): "passed",
    }
    for words, outcome in outcomes.items():
        run(project, "-W", "default", "--golden-set", "golden.jsonl", *words).assert_outcomes(**{outcome: 1})
    settings = f"golden_sets = golden.jsonl\ngolden_labels = {model}\ngolden_count_model_labels = true\n"
    project.makeini(f"[pytest]\n{settings}")
    counted = run(project, "-W", "default")
    counted.assert_outcomes(passed=1, warnings=1)
    counted.stdout.fnmatch_lines(["*by a model, not by a person (judge, prompt 0123456789ab)*"])
    project.makeini(f"[pytest]\n{settings.replace('true', 'false')}")
    run(project, "-W", "default").assert_outcomes(failed=1)
    line = {"query_id": "nobody", "doc_id": "fruit#0", "grade": 1, "by": "anna"}
    project.path.joinpath("stray.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    result = run(project, "-W", "default", "--golden-labels", "stray.jsonl")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*nobody*"])


def test_the_fixture_takes_labels(project: pytest.Pytester) -> None:
    project.path.joinpath("harness.toml").write_text(HARNESS_TOML.replace(', "MRR@5>=0.1"', ""), encoding="utf-8")
    write_labels(project, "anna", 1)
    project.makepyfile(
        """
        def test_labels(golden_check):
            assert not golden_check().passed
            assert golden_check(labels="anna.jsonl").passed
        """
    )
    run(project).assert_outcomes(passed=1)


def test_a_golden_set_on_the_command_line(project: pytest.Pytester) -> None:
    project.path.joinpath("harness.toml").write_text(WITHOUT_SETS, encoding="utf-8")
    asked = ("--golden-set", "golden.jsonl", "--golden-require", "Hit@5>=0.9", "--golden-require", "lang=en: MRR>=0.1")
    result = run(project, *asked, "-v", "--junit-xml", "pytest.xml")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            f"golden.jsonl::Hit@5>=0.9[[]{LABEL}[]] FAILED*",
            f"golden.jsonl::lang=en: MRR@5>=0.1[[]{LABEL}[]] PASSED*",
            f"*___ Hit@5>=0.9 on {LABEL} ___*",
            f"Hit@5>=0.9 failed on {LABEL}: it is 0.7500*",
            "x 'trees *expected fish (not found); found fruit#0",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    assert 'name="value" value="0.75"' in project.path.joinpath("pytest.xml").read_text(encoding="utf-8")


def test_each_question_on_request(project: pytest.Pytester) -> None:
    project.path.joinpath("harness.toml").write_text(HARNESS_TOML, encoding="utf-8")
    result = run(project, "--golden-set", "harness.toml", "--golden-per-query", "-v")
    result.assert_outcomes(passed=4, failed=2, skipped=1)
    result.stdout.fnmatch_lines(
        [
            f"harness.toml::f[[]{LABEL}[]] PASSED*",
            f"harness.toml::x[[]{LABEL}[]] FAILED*",
            f"harness.toml::none[[]{LABEL}[]] SKIPPED (it expects nothing)*",
            "no expected document is among the first 5 hits",
            "x 'trees*: expected fish (not found); found fruit#0",
        ]
    )


def test_a_baseline_has_one_item_for_each_backend(project: pytest.Pytester) -> None:
    golden, corpus = project.path / "golden.jsonl", project.path / "chunks.jsonl"
    harness.check(golden, corpus=corpus, **QUICK).save_baseline(project.path / "b.json")
    toml = WITHOUT_SETS + 'baseline = "b.json"\nmax_drop = 0.1\n'
    project.path.joinpath("harness.toml").write_text(toml, encoding="utf-8")
    sets = ("--golden-set", "golden.jsonl", "-v")
    result = run(project, *sets)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*too few queries: if all 4 queries lost everything*"])
    result = run(project, *sets, "--golden-rule", "tolerance")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"golden.jsonl::baseline[[]{LABEL}[]] PASSED*"])
    later = corpus.read_text(encoding="utf-8").replace("salmon swim upstream to spawn", "herring")
    corpus.write_text(later, encoding="utf-8")
    project.makeini("[pytest]\ngolden_rule = tolerance\ngolden_max_drop = 0.05\n")
    result = run(project, *sets)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["Hit@5 fell by *"])
    result = run(project, *sets, "--golden-baseline", "other.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no baseline 'other.json'*", "*make it first: harness check *"])


def test_one_question_by_its_id(project: pytest.Pytester) -> None:
    project.path.joinpath("harness.toml").write_text(WITHOUT_SETS, encoding="utf-8")
    project.makeini("[pytest]\ngolden_sets = golden.jsonl\ngolden_per_query = true\n")
    result = run(project, f"golden.jsonl::s[{LABEL}]")
    result.assert_outcomes(passed=1)


def test_sets_of_the_ini_file(project: pytest.Pytester) -> None:
    """They are collected where pytest looks at everything, once, wherever they lie; and not beside a named file."""
    project.path.joinpath("harness.toml").write_text(WITHOUT_SETS, encoding="utf-8")
    (project.path / "data").mkdir()
    (project.path / "tests").mkdir()
    (project.path / "golden.jsonl").rename(project.path / "data" / "golden.jsonl")
    (project.path / "chunks.jsonl").rename(project.path / "data" / "documents.jsonl")
    (project.path / "tests" / "test_a.py").write_text("def test_a(): pass\n", encoding="utf-8")
    ini = (
        "[pytest]\ngolden_sets = data/golden.jsonl\ngolden_corpus = c=data/documents.jsonl\ngolden_require = MRR>=0.1\n"
    )
    for testpaths in ("testpaths = tests\n", ""):
        project.makeini(ini + testpaths)
        result = run(project, "-v")
        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines(["data/golden.jsonl::MRR@5>=0.1*PASSED*"])
    run(project, "tests").assert_outcomes(passed=1)
    run(project, "tests/test_a.py").assert_outcomes(passed=1)
    run(project, "data").assert_outcomes(passed=1)
    run(project, "tests", "--golden-set", "data/golden.jsonl").assert_outcomes(passed=2)
    run(project, "data", "--golden-set", "data/golden.jsonl", "--golden-require", "MRR>=1").assert_outcomes(failed=1)


def test_what_is_invalid_is_an_error_and_no_failure(project: pytest.Pytester) -> None:
    write_golden_world(project.path, [{"id": "q", "question": "trees", "expected": ["wood"]}])
    project.path.joinpath("harness.toml").write_text(HARNESS_TOML, encoding="utf-8")
    result = run(project, "--golden-set", "harness.toml", "--golden-per-query")
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*question 'q' expects 'wood'*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*.py:*")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--golden-set", "golden.jsonl"), "*no corpus was given*"),
        (
            ("--golden-set", "golden.jsonl", "--golden-corpus", "chunks.jsonl", "--golden-backends", LABEL),
            "*nothing is req*",
        ),
        (("--golden-set", "chunks.jsonl", "--golden-corpus", "chunks.jsonl"), "*chunks.jsonl: 2 problems*"),
        (("--golden-set", "empty.toml"), "*empty.toml' names no golden set*"),
        (("--golden-set", "golden.jsonl", "--golden-k", "five"), "*golden_k is 'five'*"),
        (("--golden-set", "absent.jsonl"), "*absent.jsonl': there is no such file*"),
    ],
)
def test_what_cannot_be_collected_says_why(project: pytest.Pytester, arguments: tuple[str, ...], says: str) -> None:
    project.path.joinpath("empty.toml").write_text("[check]\nk = 3\n", encoding="utf-8")
    result = run(project, *arguments)
    result.stdout.no_fnmatch_line("*Error: *")
    assert result.ret in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
    assert any(line for line in [*result.outlines, *result.errlines] if says.strip("*") in line)


def test_the_fixture_asks_once_and_asserts(project: pytest.Pytester) -> None:
    project.path.joinpath("harness.toml").write_text(HARNESS_TOML, encoding="utf-8")
    project.makepyfile(
        """
        def test_everything(golden_check):
            golden_check().assert_requirements()

        def test_some(golden_check):
            checked = golden_check(require=["MRR@5>=0.1"])
            checked.assert_requirements()
            assert checked is golden_check(require=["MRR@5>=0.1"])
            assert checked.metrics().loc[:, "Hit@5"].min() == 0.75

        def test_own(golden_check):
            golden = [{"id": "a", "question": "salmon", "expected": ["fish"]}]
            golden_check(golden, require=["Hit@1>=1"]).assert_requirements()
        """
    )
    result = run(project)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *AssertionError: the check of golden failed",
            f"E *Hit@5>=0.9 [[]{LABEL}[]]: Hit@5>=0.9 failed*it is 0.7500*",
        ]
    )


def test_the_fixture_takes_the_one_set_of_the_ini_file(project: pytest.Pytester) -> None:
    project.path.joinpath("harness.toml").write_text(WITHOUT_SETS, encoding="utf-8")
    project.makepyfile("def test_it(golden_check): golden_check(require='MRR>=0.1').assert_requirements()\n")
    run(project).assert_outcomes(failed=1)
    project.makeini("[pytest]\ngolden_sets = golden.jsonl\n")
    run(project, "test_the_fixture_takes_the_one_set_of_the_ini_file.py").assert_outcomes(passed=1)


def test_the_fixture_never_gives_one_callable_the_result_of_another(project: pytest.Pytester) -> None:
    """A function that is gone leaves its address, and with it its repr, to the next one."""
    project.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("right", [True, False, True])
        def test_own(golden_check, right):
            def retrieve(question, k):
                return ["fish" if right else "fowl", question]

            golden = [{"id": "a", "question": "salmon", "expected": ["fish"]}]
            golden_check(golden, against=retrieve, require=["Hit@1>=1"]).assert_requirements()
        """
    )
    run(project).assert_outcomes(passed=2, failed=1)


def test_a_project_without_golden_sets_loads_nothing_heavy(project: pytest.Pytester) -> None:
    """In a process of its own: here everything is loaded already."""
    project.makepyfile(
        """
        import sys

        def test_nothing_heavy():
            loaded = {name for name in sys.modules if name.partition(".")[0] == "harness"}
            options = {f"harness.plan.{name}" for name in ("config", "expressions", "option_fields", "option_values")}
            messages = {"harness.errors", "harness.plain_url", "harness.user_path", "harness.wording"}
            presenters = {"harness.results", "harness.results.presenters"}
            plugin = {"harness", "harness._version", "harness.integrations", "harness.integrations.pytest_plugin"}
            assert loaded == {"harness.plan"} | options | messages | presenters | plugin
            assert not {"numpy", "click", "pydantic", "pyarrow"} & sys.modules.keys()
        """
    )
    plugin = () if INSTALLED else ("-p", "harness.integrations.pytest_plugin")
    others = ("no:cacheprovider", "no:hypothesispytest", "no:langsmith_plugin")
    command = [sys.executable, "-m", "pytest", "-q", *(word for name in others for word in ("-p", name)), *plugin]
    done = subprocess.run(command, cwd=project.path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


GATED = """
from regression_sides import BEFORE, side, compare_one, result_of
from dataclasses import replace
from harness.pipeline.regress.compare_sides import CompareRules
from harness.pipeline.regress.regression import Regression
from harness.pipeline.regress.verdicts import Rules
import pytest

def changed(queries, lost, **rules):
    names = [f"q{number}" for number in range(queries)]
    base = replace(side({"csr": BEFORE}), digests=dict.fromkeys(names, "0"))
    values = dict.fromkeys(names, 1.0), {name: float(at >= lost) for at, name in enumerate(names)}
    before, after = (replace(base, figures={"csr": {"Hit@5": one, "Recall@5": one}}) for one in values)
    return Regression(result_of(compare_one(before, after, CompareRules(Rules(**rules))).change))

def test_passes(assert_gate): assert_gate(changed(5, 0))
def test_fails(assert_gate): assert_gate(changed(5, 5))
def test_is_skipped(assert_gate): assert_gate(changed(4, 4))
def test_is_skipped_too(assert_gate): assert_gate(changed(4, 4, when_not_judged="pass"))
def test_fails_as_told(assert_gate): assert_gate(changed(4, 0, when_not_judged="fail"))
def test_tolerates(assert_gate): assert_gate(changed(4, 1, rule="tolerance", allowed_drop=0.25))
def test_has_no_gate(assert_gate):
    with pytest.raises(Exception, match="there is no gate: such a test could not fail"):
        assert_gate(changed(5, 0, allowed_drop=None))
"""


def test_a_gate_passes_fails_or_skips_a_test(pytester: pytest.Pytester) -> None:
    support = Path(__file__).parents[1] / "support"
    pytester.syspathinsert(support)
    pytester.makepyfile(GATED)
    result = run(pytester, "-rs")
    result.assert_outcomes(passed=3, failed=2, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "*Failed: worse beyond the allowed drop (0): Hit@5 of csr*",
            "Hit@5 and Recall@5 of csr are worse: *",
            "*Not judged: the gate would have passed even after the loss of everything; counts as failed*",
            "SKIPPED*Not judged: the gate would have passed even after the loss of everything; counts as invalid*",
        ]
    )
    assert "Recall@5 of csr is worse" not in result.stdout.str()
    assert "if all 4 queries lost everything, the chance of that would be 6.2%" in result.stdout.str()


def test_assert_requirements_says_what_is_wrong(project: pytest.Pytester) -> None:
    def check(questions: object, *require: str) -> CheckResult:
        return harness.check(questions, corpus="chunks.jsonl", require=require, **QUICK)

    check(QUESTIONS, "MRR@5>=0.5").assert_requirements()
    with pytest.raises(AssertionError, match=r"(?s)golden set failed.*Hit@5>=0.9 .*x 'trees.*found fruit#0"):
        check(QUESTIONS, "Hit@5>=0.9", "MRR@5>=0.5").assert_requirements()
    with pytest.raises(AssertionError, match=r"(?s)golden set is invalid.*missing-ids.*expects 'wood'"):
        check([{"question": "a", "expected": "wood"}]).assert_requirements()
    with pytest.raises(harness.errors.UsageError, match="nothing is required"):
        check(QUESTIONS).assert_requirements()


def test_the_package_brings_the_plugin(repository: Path) -> None:
    import tomllib

    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"harness": "harness.integrations.pytest_plugin"}


def test_the_documented_project_works(project: pytest.Pytester, repository: Path) -> None:
    """The page's files are the project; its commands are run with pytest in this process."""
    page = (repository / "docs" / "how-to" / "run-in-ci.md").read_text(encoding="utf-8")
    questions = [
        {"id": "warranty", "question": "trout in rivers", "expected": ["fish#0"]},
        {"id": "reset", "question": "apples for juice", "expected": ["fruit#1"]},
    ]
    write_golden_world(project.path, questions)
    for name, text in re.findall(r"<!-- a file of the project: (\S+) -->\n```text\n(.*?)```", page, re.DOTALL):
        # Lucene's analyzer, which is the default, would start a JVM
        project.path.joinpath(name).write_text(text.replace("csr\n", f"{LABEL}\n"), encoding="utf-8")
    test = project.path / "test_search.py"
    test.write_text(test.read_text(encoding="utf-8").replace('"csr"', f'"{LABEL}"'), encoding="utf-8")
    (project.path / "harness.toml").write_text('[check]\nisolation = "none"\n', encoding="utf-8")
    commands = [shlex.split(line) for line in re.findall(r"```bash\n(pytest.*)\n```", page)]
    tests = [3, 4]
    for (_, *arguments), passed in zip(commands, tests, strict=True):
        options = [one.replace("csr", LABEL) for one in arguments]
        run(project, *options).assert_outcomes(passed=passed)


def test_the_documented_store_of_files_is_checked(pytester: pytest.Pytester, repository: Path) -> None:
    """LangChain's Chroma with random ids: the page's program, with the page's command of pytest."""
    skip_without("langchain_chroma")
    page = (repository / "docs" / "how-to" / "from-other-frameworks.md").read_text(encoding="utf-8")
    section = page.partition("### A golden set of files")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```bash\ncp (.*?)```", section, re.DOTALL)
    for name, text in re.findall(r"cat > (\S+) <<'END'\n(.*?)END\n", block, re.DOTALL):
        (pytester.path / name).write_text(text, encoding="utf-8")
    example, copy = block.split()[:2]
    (pytester.path / copy).write_bytes((repository / example).read_bytes())
    (golden,) = re.findall(r"echo '(.*)' > files.jsonl", block)
    (pytester.path / "files.jsonl").write_text(golden, encoding="utf-8")
    (command,) = re.findall(r"```bash\npytest (.*?)```", section, re.DOTALL)
    run(pytester, *shlex.split(command.replace("\\\n", ""))).assert_outcomes(passed=1)


def test_labels_by_people_count_and_warnings_name_the_others(project: pytest.Pytester) -> None:
    folder = project.path
    (folder / "chunks.jsonl").write_text('{"id": "a", "text": "red apple"}\n{"id": "b", "text": "green apple"}\n')
    (folder / "golden.jsonl").write_text('{"id": "q", "question": "apple", "expected_relevant_doc_ids": ["a"]}\n')
    label = '{"query_id": "q", "doc_id": "b", "grade": %s, "by": "%s"%s}\n'
    (folder / "anna.jsonl").write_text(label % (1, "anna", ""))
    (folder / "ben.jsonl").write_text(label % (0, "ben", ""))
    (folder / "model.jsonl").write_text('{"query_id": "q", "doc_id": "a", "grade": 1, "by": "m", "model": "m-1"}\n')
    (folder / "harness.toml").write_text(
        '[check]\ngolden = "golden.jsonl"\ncorpus = "chunks.jsonl"\nbackends = "csr:analyzer=whitespace"\n'
        'isolation = "none"\ntiming = false\nlabels = ["anna.jsonl", "ben.jsonl", "model.jsonl"]\n'
    )
    result = run(project, "--golden-set", "harness.toml", "--golden-per-query", "-W", "default")
    result.assert_outcomes(passed=1, warnings=2)
    result.stdout.fnmatch_lines(
        [
            "*1 document with different grades from different people (query 'q', document 'b': anna 1, ben 0; counts *",
            "*1 label by a model left out: gates and golden sets count people's labels (m-1, prompt unknown)*",
        ]
    )
