"""What a check leaves for continuous integration, from the command line: JUnit XML, summary, annotations, Markdown."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from golden_world import COMMAND, HOSTILE, LABEL, QUESTIONS, QUICK, write_golden_world
from junit_files import read_junit
from markdown_it import MarkdownIt

import harness
from harness.cli.app import _build
from harness.cli.report import report as print_report
from harness.document.model import Annotation, Notes, Outcome
from harness.errors import ResultError, UsageError
from harness.pipeline.check.checked import CheckResult
from harness.plain_url import MAY_HIDE_SECRETS, without_secrets
from harness.report.documents.check import check_document
from harness.report.documents.check_cases import check_annotations, check_suites
from harness.report.formats import render
from harness.report.render.github import GITHUB_LIMIT, workflow_commands
from harness.report.render.junit import junit_xml, render_junit
from harness.report.render.markdown import COMMENT_BYTES
from harness.results.check_redaction import redacted, without_questions
from harness.results.check_schema import PreflightProblem
from harness.results.schema_base import ErrorInfo

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
REQUIRE = ("Hit@5>=0.9", "lang=en: MRR>=0.5", "parity>=1")


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


def command(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Done:
    everything = [*arguments, *COMMAND, "--out", str(folder / "out"), "--overwrite"]
    plain = {"GITHUB_ACTIONS": None, "GITHUB_STEP_SUMMARY": None, "GITHUB_WORKSPACE": None}
    done = CliRunner().invoke(_build(), ["check", *everything], env={**plain, **(environment or {})})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("golden")
    write_golden_world(place)
    return place


@pytest.fixture(scope="module")
def checked(folder: Path) -> CheckResult:
    return harness.check(folder / "golden.jsonl", corpus=folder / "chunks.jsonl", require=REQUIRE, **QUICK)


def test_junit_holds_a_case_for_each_requirement_and_question(folder: Path) -> None:
    file = folder / "new folder" / "junit.xml"
    places = (str(folder / "golden.jsonl"), "--corpus", str(folder / "chunks.jsonl"))
    done = command(folder, *places, "--require", "Hit@5>=0.9", "--junit", str(file), "--junit-per-query")
    assert done.code == 1
    root = read_junit(file)
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases == {"Hit@5>=0.9": ["failure"], "f": [], "s": [], "x": ["failure"], "none": ["skipped"], "t": []}
    said = root.findtext(".//testcase[@name='x']/failure") or ""
    assert "expected fish (not found); found fruit#0" in said
    properties = {one.get("name"): one.get("value") for one in root.iter("property")}
    assert (properties["k"], properties["match"], properties["match.delimiter"]) == ("5", "document", "#")
    assert properties["harness"] == harness.__version__


@pytest.mark.parametrize(
    ("require", "code", "tags", "reason"),
    [
        ((), 0, ["skipped"], "nothing is required"),
        (("Hit@5>=0.5",), 0, ["skipped"], "the requirements are met"),
        (("Hit@5>=0.5", "nDCG@5<=0.1"), 1, ["skipped"], "no requirement that failed is about it"),
        (("Hit@5>=0.5", "MRR@5>=0.95"), 1, ["failure"], ""),
    ],
)
def test_a_missed_question_fails_only_with_a_requirement(
    folder: Path, tmp_path: Path, require: tuple[str, ...], code: int, tags: list[str], reason: str
) -> None:
    """The exit code and the file agree, whatever single questions did."""
    places = (str(folder / "golden.jsonl"), "--corpus", str(folder / "chunks.jsonl"))
    required = [word for text in require for word in ("--require", text)]
    done = command(tmp_path, *places, *required, "--junit", str(tmp_path / "j.xml"), "--junit-per-query")
    root = read_junit(tmp_path / "j.xml")
    (case,) = root.iterfind(".//testcase[@name='x']")
    assert (done.code, [child.tag for child in case]) == (code, tags)
    assert (int(root.get("failures") or 0) > 0) == (code == 1)
    assert (case[0].get("message") or "").endswith(reason)
    assert "expected fish (not found); found fruit#0" in (case[0].text or "")


def test_requirements_share_the_time_of_asking(folder: Path) -> None:
    timed = {**QUICK, "timing": True}
    report = harness.check(folder / "golden.jsonl", corpus=folder / "chunks.jsonl", require=REQUIRE, **timed).report
    (suite,) = check_suites(report)
    required = [case.seconds for case in suite.cases if case.name in {one.text for one in report.requirements}]
    assert required
    assert {*required} == {suite.seconds}
    assert suite.seconds > 0.0
    asked = [case.seconds for case in suite.cases if case.name in {one.id for one in report.trials[0].questions}]
    passes = round(suite.seconds / sum(asked))
    assert sum(asked) * passes == pytest.approx(suite.seconds)
    assert sum(seconds > 0.0 for seconds in asked) == len(asked) - 1  # one has no term of the corpus


def test_warnings_about_a_backend_are_directly_below_its_failed_requirement(checked: CheckResult) -> None:
    report = checked.report
    (failed,) = [required for required in report.requirements if required.passed is False]
    message = "20 of 20 documents are longer than 256 tokens: 70.8% of all tokens are not read"
    cut = PreflightProblem(
        check="truncated-texts",
        backend=failed.backend,
        dataset=failed.dataset,
        message=message,
        fix="divide them",
        examples=[],
    )
    lacking = cut.model_copy(
        update={"check": "missing-ids", "backend": None, "message": "1 is gone", "examples": ["x"]}
    )
    empty = cut.model_copy(update={"check": "empty", "backend": None})
    warned = report.model_copy(update={"warnings": [empty, cut, lacking], "verdict": "failed"})
    document = check_document(warned)
    headlines = [verdict.headline for verdict in document.verdicts]
    label = report.trial_name(failed.backend, failed.dataset)
    below = headlines.index(f"{failed.text} failed on {label}") + 1
    assert headlines[below : below + 2] == [f"{label}: {message}", "1 is gone"]
    assert document.verdicts[below].detail == "divide them (truncated-texts)"
    (notes,) = [block for section in document.sections if section.anchor == "notes" for block in section.blocks]
    assert isinstance(notes, Notes)
    named = [line.partition(":")[0] for line in notes.lines if line.startswith("warning")]
    assert named == ["warning (empty)", "warning (missing-ids)"]
    for text in (render(document, "table"), render(document, "markdown")):
        words = " ".join(text.split())
        assert words.index("failed on") < words.index("(truncated-texts)") < words.index("Requirements")
    assert f"<strong>{label}: {message}" in replace(checked, report=warned).html()
    slow = failed.model_copy(update={"quantity": "p95_ms"})
    latency = check_document(warned.model_copy(update={"requirements": [slow]}))
    assert not [line for line in latency.verdicts if message in line.headline]


def test_a_missing_id_is_an_error_of_the_golden_set(folder: Path, tmp_path: Path) -> None:
    golden, corpus = write_golden_world(tmp_path, [{"id": "q", "question": "trees", "expected": ["wood"]}])
    done = command(tmp_path, str(golden), "--corpus", str(corpus), "--junit", str(tmp_path / "j.xml"))
    assert done.code == 3
    (case,) = read_junit(tmp_path / "j.xml").iter("testcase")
    assert [child.tag for child in case] == ["error"]
    assert "question 'q' expects 'wood'" in (case.findtext("error") or "")
    report = CheckResult.load(tmp_path / "out").report
    (_, place) = check_annotations(report)
    assert (place.title, place.message, place.line) == ("invalid: missing-ids", "question 'q' expects 'wood'", 1)
    comment = render(report, "markdown")
    assert "⚠️" in comment
    assert "question 'q' expects 'wood'" in comment


def test_a_backend_that_failed_is_an_error(checked: CheckResult) -> None:
    report = checked.report
    error = ErrorInfo(type="EngineFailureError", message="it broke", log=["the last line"])
    failed = report.trials[0].model_copy(update={"status": "failed", "error": error, "questions": []})
    unknown = [one.model_copy(update={"passed": None, "reason": "it failed"}) for one in report.requirements]
    broken = report.model_copy(update={"trials": [failed], "requirements": unknown, "verdict": "invalid"})
    for requirements in (unknown, []):
        suites = check_suites(broken.model_copy(update={"requirements": requirements}))
        cases = [case for one in suites for case in one.cases]
        assert [case.outcome for case in cases] == [Outcome.ERROR] * max(1, len(requirements))
        assert "it broke\nthe last line" in cases[0].text
        assert read_junit(junit_xml("check", suites)).get("errors") == str(len(cases))
    titles = [one.title for one in check_annotations(broken)]
    assert titles[:2] == [f"{LABEL} failed", f"Hit@5>=0.9 could not be judged on {LABEL}"]
    assert "the last line" in render(broken, "markdown")


def test_summary_and_annotations_where_github_runs(folder: Path) -> None:
    summary = folder / "summary.md"
    summary.write_text("## Before\n", encoding="utf-8")
    github = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_WORKSPACE": str(folder),
    }
    places = (str(folder / "golden.jsonl"), "--corpus", str(folder / "chunks.jsonl"))
    done = command(folder, *places, "--require", "Hit@5>=0.9", "--format", "json", environment=github)
    assert not [line for line in done.stdout.splitlines() if line.lstrip().startswith("::")]
    errors = [line for line in done.stderr.splitlines() if line.startswith("::error")]
    assert errors[0].startswith(
        "::error title=Hit@5>=0.9 failed on csr%3Aanalyzer=whitespace,file=golden.jsonl::it is "
    )
    assert errors[1].startswith("::error title=question x,file=golden.jsonl,line=3::csr:analyzer=whitespace: x ")
    assert "%250A::error::" in errors[1]
    assert len(errors) == 2
    written = summary.read_text(encoding="utf-8")
    assert written.startswith("## Before\n<!-- harness check: golden -->")
    assert "Hit@5>=0.9" in written


def test_nothing_is_written_where_nobody_asked(folder: Path) -> None:
    places = (str(folder / "golden.jsonl"), "--corpus", str(folder / "chunks.jsonl"))
    done = command(folder, *places, "--require", "Hit@5>=0.9")
    assert not [line for line in (done.stdout + done.stderr).splitlines() if line.lstrip().startswith("::")]


def test_a_check_of_which_nothing_is_required_does_not_say_that_it_passed(checked: CheckResult) -> None:
    plain = checked.report.model_copy(update={"requirements": [], "verdict": "passed"})
    said = "Nothing was required"
    text, comment = CheckResult(plain).render(), render(plain, "markdown")
    assert "harness check: `golden` checked" in comment
    assert said in text
    assert said in comment
    assert "Passed" not in text
    assert "✅" not in comment
    assert said not in checked.render()


def test_impossible_files_are_refused_before_anything_runs(folder: Path) -> None:
    with pytest.raises(UsageError, match="--junit-per-query without --junit"):
        command(folder, "absent.jsonl", "--junit-per-query")
    with pytest.raises(UsageError, match="is a folder"):
        command(folder, "absent.jsonl", "--junit", str(folder))


def test_a_file_that_cannot_be_written_says_so_and_the_result_stays(folder: Path) -> None:
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "file").write_text("", encoding="utf-8")
    places = (str(folder / "golden.jsonl"), "--corpus", str(folder / "chunks.jsonl"))
    with pytest.raises(ResultError, match="cannot be written"):
        command(folder, *places, "--junit", str(folder / "file" / "junit.xml"))
    assert CheckResult.load(folder / "out").report.verdict == "passed"


def test_commands_are_escaped_and_few() -> None:
    many = [Annotation(f"a:b,c{number}", "50 %\r\nof it: all, of it", 7) for number in range(12)]
    lines = workflow_commands(many, "a,b.jsonl")
    assert len(lines) == GITHUB_LIMIT
    assert lines[0] == "::error title=a%3Ab%2Cc0,file=a%2Cb.jsonl,line=7::50 %25%0D%0Aof it: all, of it"
    assert "3 more errors" in lines[-1]
    assert len(workflow_commands(many[:GITHUB_LIMIT], None)) == GITHUB_LIMIT
    assert workflow_commands(many[:1], None) == ["::error title=a%3Ab%2Cc0::50 %25%0D%0Aof it: all, of it"]


def test_markdown_shows_data_as_it_is(checked: CheckResult) -> None:
    text = checked.render("markdown")
    assert text.startswith("<!-- harness check: golden -->\n")
    page = MarkdownIt("commonmark").enable("table").render(text)
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    # mentions count outside code alone
    assert "@somebody" not in re.sub(r"<code.*?</code>", "", page, flags=re.DOTALL)
    rows = [row.count("<td") for row in re.findall(r"<tr>.*?</tr>", page, flags=re.DOTALL) if "<td" in row]
    assert set(rows) == {8, 5, 9, 11, 6}  # requirements, questions, metrics, slices, speed
    assert "<td><code>fish (not found)</code></td>" in page


def test_a_comment_fits_however_many_questions_fail(folder: Path, tmp_path: Path) -> None:
    questions = [{"id": f"q{n}", "question": f"trees {n} {'x' * 900}", "expected": ["fish"]} for n in range(200)]
    slices = [f"lang{n}" for n in range(30)]
    questions = [{**one, **dict.fromkeys(slices, f"value {number % 20}")} for number, one in enumerate(questions)]
    write_golden_world(tmp_path, questions)
    report = harness.check(
        tmp_path / "golden.jsonl",
        corpus=tmp_path / "chunks.jsonl",
        require=[f"Hit@{k}>=0.9" for k in range(1, 6)],
        slice=slices,
        **QUICK,
    ).report
    text = render(report, "markdown")
    assert len(text.encode()) <= COMMENT_BYTES < 65_536
    assert "not fit here" in text
    assert "Hit@5>=0.9" in text


def test_no_text_leaves_questions_out_of_everything(folder: Path, tmp_path: Path) -> None:
    places = (str(folder / "golden.jsonl"), "--corpus", str(folder / "chunks.jsonl"))
    files = ("--junit", str(tmp_path / "j.xml"), "--junit-per-query", "--summary", str(tmp_path / "s.md"))
    github = {"GITHUB_ACTIONS": "true"}
    said = {}
    for option in ((), ("--no-text",)):
        done = command(
            folder, *places, *files, "--require", "Hit@5>=0.9", "--format", "markdown", *option, environment=github
        )
        written = [(tmp_path / name).read_text(encoding="utf-8") for name in ("j.xml", "s.md")]
        said[option] = [done.stdout, done.stderr, *written]
        (tmp_path / "s.md").unlink()
    assert all("alert(1)" in text for text in said[()])
    texts = [str(one["question"]) for one in QUESTIONS]
    assert not [text for text in said[("--no-text",)] for question in (*texts, HOSTILE) if question in text]


def test_no_text_leaves_out_what_failures_quote(folder: Path) -> None:
    asked = ["Who said 'é'?", 'Who said "no"?']
    golden = [{"id": str(number), "question": text, "expected": ["a"]} for number, text in enumerate(asked)]

    def quotes(question: str, k: int) -> list[str]:
        raise ValueError(f"{question} as {question!r} as {json.dumps(question)}: {k} hits")

    found = {keep: harness.check(golden, against={"mine": quotes}, no_text=not keep, timing=False) for keep in (0, 1)}
    for checked in (found[0].report, without_questions(found[1].report)):
        assert "Who said" not in checked.model_dump_json()
        assert checked.preflight[0].examples[0].count("[question]") == 3
    assert "Who said" in found[1].report.preflight[0].examples[0]
    assert "Who said" not in found[1].html(keep_text=False)


def test_no_text_prints_a_stored_check_without_questions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = (str(folder / "golden.jsonl"), "--corpus", str(folder / "chunks.jsonl"))
    command(folder, *places, "--require", "Hit@5>=1")
    for keep in (True, False):
        print_report(folder=folder / "out", format="markdown", no_text=not keep)
        assert ("alert(1)" in capsys.readouterr().out) is keep


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("at http://me:secret@host:80/a?key=secret now", "at http://***@host:80/a?*** now"),
        ("'postgres://u:p@host/db'", "'postgres://***@host/db'"),
        ("qdrant:url=https://host/x#secret", "qdrant:url=https://host/x#***"),
        ("https://u:p@s@host", "https://***@host"),
        ("see https://host/path, and a@b", "see https://host/path, and a@b"),
        ("https:/u:p@host/golden.jsonl?sig=x", "https:/***@host/golden.jsonl?***"),
        ("http:url=http://h/s?q={question}&key=x&k={k};ids=r[*]", "http:url=http://h/s?q={question}&***"),
        (
            "url=http://h/s?q={question}&k={k};ids=r[*];api_key=x",
            "url=http://h/s?q={question}&k={k};ids=r[*];api_key=***",
        ),
        ("http://h/s?q={question}#frag", "http://h/s?q={question}#frag"),
        ("http://h/s?key=x#frag", "http://h/s?***#frag"),
        ("http://h/s#access=x", "http://h/s#***"),
        ("http://h/s#aZ3456789012345678901", "http://h/s#***"),
        ("http://us/er:pa#ss@host", "http://us/er:pa#***"),
        ("ids https://h/page#chunk-1, notes:/a.md#2 and a#3", "ids https://h/page#chunk-1, notes:/a.md#2 and a#3"),
        (
            "https://h/a#3f786850e387550fdab836ed7e6dc881de23001b",
            "https://h/a#3f786850e387550fdab836ed7e6dc881de23001b",
        ),
        ("'api_key=x y' and PASSWORD = \"a b\", my-token='x'", "'api_key=*** y' and PASSWORD = ***, my-token=***"),
        ("Authorization: Bearer abc", "Authorization: Bearer ***"),
        (
            "key_env=MY_KEY;api_key_header=x;tokenizer=y;max_tokens=5",
            "key_env=MY_KEY;api_key_header=x;tokenizer=y;max_tokens=5",
        ),
    ],
)
def test_what_can_be_a_secret_is_hidden(text: str, plain: str) -> None:
    assert without_secrets(text) == plain
    assert without_secrets(plain) == plain
    assert text == plain or MAY_HIDE_SECRETS.search(json.dumps(text)) is not None


def test_no_output_holds_the_secret_of_a_url(checked: CheckResult) -> None:
    url = "http://me:hush1@host/a?key=hush2"
    report = checked.report
    trial = report.trials[0].model_copy(update={"label": f"http:{url}", "parameters": {"url": url}, "notes": [url]})
    requirements = [one.model_copy(update={"backend": trial.label, "reason": url}) for one in report.requirements]
    plain = redacted(
        report.model_copy(
            update={
                "trials": [trial],
                "requirements": requirements,
                "command": ["harness", "check", url],
                "plan": report.plan.model_copy(update={"resolved": {**report.plan.resolved, "backends": [url]}}),
            }
        )
    )
    outputs = [CheckResult(plain).render(name) for name in ("table", "markdown", "csv", "json")]
    outputs.append(render_junit(check_document(plain), per_query=True))
    outputs += workflow_commands(check_annotations(plain), None)
    assert any("host" in text for text in outputs)
    assert not [text for text in outputs if "hush" in text]
    assert plain.trials[0].questions == report.trials[0].questions
    assert checked.report.trials[0].label == LABEL
