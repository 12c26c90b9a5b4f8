"""The command line's boundary: help, version, exit codes, pipes, completion."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from warm_harness import harness_command

# Runs main() with the table of verbs replaced by one verb that this file defines.
PROLOGUE = """
import sys, types
from click.exceptions import Exit
from harness.cli import app
from harness.cli.verb import DeclaredVerb
from harness.cli.verbs import Verb
from harness.errors import BackendError, HarnessError, UsageError, DataError

module = types.ModuleType("made_up")
{verb}
module.verb = DeclaredVerb(verb, ())
sys.modules["made_up"] = module
app.VERBS.clear()
app.VERBS["verb"] = Verb("made_up:verb", "A made-up verb.")
sys.argv = ["harness", *{arguments!r}]
app.main()
"""


def run_verb(verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = PROLOGUE.format(verb=verb, arguments=["verb", *arguments])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*harness_command(), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100", **environment},
    )


def test_help_lists_every_verb_with_its_line() -> None:
    from harness.cli.verbs import VERBS

    result = run("--help")
    assert result.returncode == 0
    assert result.stderr == ""
    for name, verb in VERBS.items():
        assert [line for line in result.stdout.splitlines() if line.split()[:1] == [name] and verb.help in line]


def test_version() -> None:
    from harness import __version__

    result = run("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"harness {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["compar"], "Did you mean 'compare'"),
        (["--nonsense"], "No such option"),
        (["report", ".", "--format", "xml"], "known: table, markdown, latex, csv, json, html"),
        ([], "Usage: harness"),
    ],
)
def test_usage_errors_end_with_2_on_stderr(arguments: list[str], says: str) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert says in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            "eval --qrels q --run r --ties foo",
            "--ties foo: no such choice\n  known: trec_eval, trec_eval_10, engine, average",
        ),
        ("eval --qrels q --run r --format xml", "known: table, markdown, latex, csv, json, html, trec_eval"),
        ("cache list --format xml", "--format xml: no such choice\n  known: table, json"),
        ("compare --k many", "--k is 'many'\n  it must be a whole number from 1 to"),
        ("compare --deadline soon", "--deadline is 'soon'\n  it must be a number of seconds above 0, such as 0.5"),
        ("compare --deadline 0.5s --k ten", "--k is 'ten'"),
        ("compare --memory-limit 1", "--memory-limit is '1', too little for any process\n  write bytes, or a number"),
        ("compare --save-runs beir", "--save-runs beir: no such choice\n  known: trec, mteb"),
        ("eval --qrels q", "--run is not given\n  write for example: harness eval --qrels qrels.tsv --run run.trec\n"),
        ("diff", "BEFORE and AFTER are not given\n  write for example: harness diff reports/baselines/cacm.json"),
        ("compare --ties trec", "--ties trec: no such choice (did you mean 'trec_eval'?)"),
        (
            "eval --qrels q --run r --relevance 0",
            "--relevance is 0\n  it must be a number above 0 and at most 2,147,483,647",
        ),
        (
            "eval --qrels q --run r -l 9999999999",
            "--relevance is 9999999999\n  it must be a number above 0 and at most 2,147,483,647",
        ),
        ("check golden.jsonl --k 9999999999", "--k is 9999999999\n  it must be a whole number from 1 to 999,999,999"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_refused_in_our_own_words(arguments: str, says: str) -> None:
    result = run(*arguments.split())
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("harness: ")
    assert says in result.stderr


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        ("UsageError('wrong thing', fix='do that')", 2, "harness: wrong thing\n  do that\n"),
        ("BackendError('engine down')", 3, "harness: engine down\n"),
        ("DataError('corpus.jsonl', ['line 3: no _id'])", 3, "harness: corpus.jsonl: 1 problem\n  line 3: no _id\n"),
        ("Exit(1)", 1, ""),
        ("KeyboardInterrupt", 130, "harness: interrupted\n"),
    ],
)
def test_expected_failures_print_a_message_without_traceback(raised: str, code: int, says: str) -> None:
    result = run_verb(f"def verb():\n    'V.'\n    print('a result')\n    raise {raised}")
    assert (result.returncode, result.stdout, result.stderr) == (code, "a result\n", says)


def test_unexpected_failures_print_the_traceback_and_how_to_report_it() -> None:
    result = run_verb("def verb():\n    'V.'\n    raise ZeroDivisionError('boom')")
    assert result.returncode == 70
    assert "Traceback" in result.stderr
    assert "ZeroDivisionError: boom" in result.stderr
    assert "defect of harness" in result.stderr


def test_a_current_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    command = ["sh", "-c", f'rmdir "$PWD" && "{sys.executable}" -m harness backends']
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (
        2, "harness: the current folder was deleted\n  cd into one that exists\n",
    )  # fmt: skip


def test_options_of_a_lazy_verb_are_parsed() -> None:
    wrong = run("compare", "--jobs", "three")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "harness: --jobs is 'three'\n  it must be a whole number from 1 to 999,999,999\n"
    assert "Backends that run side by side" in run("compare", "--help").stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("lines", [1, 200_000])
def test_a_reader_that_goes_away_ends_the_command_quietly(lines: int, unbuffered: str) -> None:
    verb = f"def verb():\n    'V.'\n    for i in range({lines}):\n        print(i)"
    reading, writing = os.pipe()
    os.close(reading)
    code = PROLOGUE.format(verb=verb, arguments=["verb"])
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    process = subprocess.run(
        [sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, check=False, env=environment
    )
    os.close(writing)
    assert (process.returncode, process.stderr) == (141, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_help_into_a_closed_pipe(unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "harness", "--help"]
    process = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, env=environment)
    os.close(writing)
    assert (process.returncode, process.stderr) == (141, b"")


@pytest.mark.parametrize("length", [1, 200_000])
def test_a_full_disk_behind_standard_output_is_no_defect(length: int) -> None:
    verb = f"from harness.cli.output import print_result\ndef verb():\n    'V.'\n    print_result('x' * {length})"
    code = PROLOGUE.format(verb=verb, arguments=["verb"])
    with Path("/dev/full").open("w") as full:
        process = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, check=False)
    said = b"harness: standard output cannot be written: No space left on device\n"
    assert (process.returncode, process.stderr) == (3, said)


def test_another_broken_pipe_is_not_taken_for_the_readers() -> None:
    result = run_verb("def verb():\n    'V.'\n    raise BrokenPipeError(32, 'worker gone')")
    assert result.returncode == 70
    assert "worker gone" in result.stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("harness comp", {"compare"}),
        ("harness backends cs", {"csr", "csr-splade"}),
        ("harness datasets info cac", {"cacm"}),
        ("harness compare --dry", {"--dry-run"}),
        ("harness compare --dataset cac", {"cacm"}),
        ("harness compare --dataset cacm,cac", {"cacm,cacm"}),
        ("harness compare --ties tr", {"trec_eval", "trec_eval_10"}),
        ("harness compare --dataset msmarco/dl", {"msmarco/dl19", "msmarco/dl20"}),
        (
            "harness compare --backends csr,luc",
            {"csr,lucene", "csr,lucene-flat", "csr,lucene-hnsw", "csr,lucene-impact"},
        ),
        ("harness backends nothing-of-the-kind", set()),
    ],
)
def test_completion_offers_verbs_options_and_names(typed: str, offered: set[str]) -> None:
    position = str(len(typed.split()) - 1)
    result = run(_HARNESS_COMPLETE="bash_complete", COMP_WORDS=typed, COMP_CWORD=position)
    plain = {line.partition(",")[2] for line in result.stdout.splitlines() if line.startswith("plain,")}
    assert (plain, result.stderr) == (offered, "")


@pytest.mark.parametrize("typed", ["harness compare --dataset ./co", "harness compare --out re", "harness report re"])
def test_the_shell_completes_files(typed: str) -> None:
    words = typed.split()
    result = run(_HARNESS_COMPLETE="bash_complete", COMP_WORDS=typed, COMP_CWORD=str(len(words) - 1))
    assert result.stdout == f"file,{words[-1]}\n"


@pytest.mark.parametrize(
    ("shell", "current", "offered"),
    [
        ("bash", "1", "plain,compare\n"),
        ("zsh", "1", "plain\ncompare\nRun backends on a dataset and hold each against its reference.\n"),
        ("fish", "comp", "plain,compare\tRun backends on a dataset and hold each against its reference.\n"),
    ],
)
def test_completion_answers_in_the_form_of_each_shell(shell: str, current: str, offered: str) -> None:
    result = run(_HARNESS_COMPLETE=f"{shell}_complete", COMP_WORDS="harness comp", COMP_CWORD=current)
    assert (result.returncode, result.stdout) == (0, offered)


@pytest.mark.parametrize(
    ("shell", "sign"), [("bash", "COMPREPLY"), ("zsh", "#compdef harness"), ("fish", "complete --no-files --command")]
)
def test_completion_script_is_printed(shell: str, sign: str) -> None:
    result = run(_HARNESS_COMPLETE=f"{shell}_source")
    assert result.returncode == 0
    assert sign in result.stdout
    assert "_HARNESS_COMPLETE" in result.stdout


def test_bash_completes_with_the_printed_script(tmp_path: Path) -> None:
    script, program = tmp_path / "script", tmp_path / "harness"
    script.write_text(run(_HARNESS_COMPLETE="bash_source").stdout, encoding="utf-8")
    program.write_text(f'#!/bin/sh\nexec {shlex.join(harness_command())} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    typed = f"COMP_WORDS=(harness comp) COMP_CWORD=1; _harness_completion {program}; echo ${{COMPREPLY[@]}}"
    command = ["bash", "--norc", "-c", f"source {script}; {typed}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "compare\n"


def test_running_from_another_folder(tmp_path: Path, repository: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "harness", "--version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.startswith("harness ")


@pytest.mark.parametrize("arguments", [["--version"], ["backends"]])
def test_a_closed_standard_output_is_one_message(arguments: list[str]) -> None:
    command = " ".join([shlex.quote(sys.executable), "-m", "harness", *arguments, ">&-"])
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "harness: standard output is closed: results have no place to go\n  redirect it to a file\n",
    )


def test_other_closed_streams_change_nothing() -> None:
    command = " ".join([shlex.quote(sys.executable), "-m", "harness", "--version", "2>&-", "<&-"])
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("harness ")
