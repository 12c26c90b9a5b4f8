"""``harness init``: a commented ``harness.toml`` for the current folder, a workflow for CI, and a first baseline."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.exceptions import Exit

from harness.cli.config import FILE_NAME, read_settings
from harness.cli.init_discovery import EXAMPLE, discover, only_golden_set
from harness.cli.verb import verb
from harness.cli.verbs import ExitCode
from harness.errors import DataError, ResultError, UnknownNameError, UsageError
from harness.plan.config import InitRequest
from harness.plan.expressions import split_outside
from harness.user_path import existing_path
from harness.wording import unread_files_in_words

if TYPE_CHECKING:
    from harness.pipeline.check.check_plan import CheckPlan

_FILE = Path(FILE_NAME)
_WORKFLOW = Path(".github/workflows/retrieval.yml")
_BASELINE = "reports/baselines/main.json"
_CHECK_BASELINE = "reports/baselines/check.json"
_BACKEND = "python:my_app.search:retrieve"


class Choices(NamedTuple):
    """Choices that the file is written for; None leaves a line as a comment."""

    golden: str | None
    corpus: str | None
    dataset: str | None
    backends: str
    against: tuple[str, ...] = ()
    columns: str | None = None
    match: str | None = None
    delimiter: str | None = None
    baseline: str | None = None

    @property
    def only_against(self) -> bool:
        """Whether `check` queries an existing backend, and no other, which would need documents."""
        return bool(self.against) and self.corpus is None


@verb(InitRequest)
def init(request: InitRequest) -> None:
    """Write a commented harness.toml, from which `harness check`, `compare` and `regress` take their options.

    On a terminal it asks for the golden set. Without a terminal it asks nothing: unless options name them, it takes the
    only golden set of the current folder, with the only Chroma collection below it or the only file of documents,
    writes a workflow for GitHub, checks once, and writes the baseline with which later checks are compared. If two
    readings are possible, no data file can be read as a golden set, or a collection does not name its model, it exits
    with 2 and the options that decide. If the check is invalid, its report says why, and neither harness.toml nor the
    workflow is written. In a folder without any data file it takes the bundled chunking-eval.

    Example: harness init --golden golden.jsonl --corpus chunks.jsonl
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    written = [_FILE] if terminal else [_FILE, _WORKFLOW]
    for path in written if not request.force else ():
        if path.exists():
            raise UsageError(f"{path} already exists", fix="add --force to replace it")
    chosen = _chosen(_prompt(request) if terminal else _discover(request))
    checks = not terminal and chosen.golden is not None
    chosen = chosen._replace(baseline=_CHECK_BASELINE) if checks else chosen
    for line in _unread_files(chosen):
        click.echo(line, err=True)
    content = template(chosen)
    code = _check_once(content) if checks else ExitCode.FINE
    if code == ExitCode.UNAVAILABLE:
        problem = f"{_FILE} is not written, because its check is invalid"
        click.echo(f"{problem}: correct the input, or add an option, then run harness init again", err=True)
        raise Exit(code)
    _write(_FILE, content)
    run = "harness check" if chosen.golden is not None else "harness compare"
    click.echo(f"{_FILE} is written: look at it, then run {run}", err=True)
    if checks:
        _write(_WORKFLOW, workflow(_extras(chosen)))
        click.echo(f"{_WORKFLOW} is written: it runs harness check on GitHub", err=True)
        raise Exit(code)


def _prompt(request: InitRequest) -> Choices:
    """Return the choices of the options, or of the user's answers if nothing is named."""
    golden, corpus = request.golden, request.corpus
    if not (golden or corpus or request.dataset or request.against):
        golden = click.prompt("Golden set (a file, or nothing for the bundled example)", default="", show_default=False)
        corpus = click.prompt("Documents (a .jsonl file or a folder)") if golden else None
    return _choices(request, golden or None, corpus, tuple(request.against))


def _discover(request: InitRequest) -> Choices:
    """Return the choices of the options; if they name no documents, those that the current folder leaves."""
    is_file = request.golden is None or existing_path(request.golden) is not None
    if request.against and not (request.golden or request.corpus or request.dataset):
        return _choices(request, only_golden_set(Path(), request.columns), None, tuple(request.against))
    if request.corpus or request.dataset or request.against or not is_file:
        return _choices(request, request.golden, request.corpus, tuple(request.against))
    setting = discover(Path(), request.columns, request.golden)
    if setting is None:
        return _choices(request, None, None, ())
    return _choices(request, setting.golden, setting.corpus, setting.against)


def _choices(request: InitRequest, golden: str | None, corpus: str | None, against: tuple[str, ...]) -> Choices:
    columns = request.columns if isinstance(request.columns, str) else ",".join(request.columns)
    match = str(request.match) if request.match.rule != "exact" else None
    return Choices(
        golden, corpus, request.dataset, request.backends, against, columns or None, match, request.delimiter
    )


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultError(f"'{path}' cannot be written: {error.strerror}") from error


def _check_once(content: str) -> int:
    """Run the check of a file with this content, write its baseline, and return the exit code of the check."""
    from harness.cli.check import check

    try:
        check(**read_settings(_FILE, "check", content), save_baseline=Path(_CHECK_BASELINE))
    except Exit as ended:
        return ended.exit_code
    return ExitCode.FINE


def _extras(chosen: Choices) -> list[str]:
    """Return the extras of the packages that the check needs."""
    from harness.encoders.settings import DEFAULT_MODEL, parse_source

    plan = _plan(chosen)
    plans = [*plan.plans.values(), *([plan.against.indexes] if plan.against and plan.against.indexes else [])]
    specs = [trial.spec for backends in plans for trial in backends.trials]
    extras = {spec.card.extra for spec in specs if spec.card is not None and spec.card.extra is not None}
    all_parameters = [trial.parameters for backends in plans for trial in backends.trials]
    models = {str(parameters["model"]) for parameters in all_parameters if "model" in parameters}
    if DEFAULT_MODEL in models:
        extras.add("minilm")
    elif any(parse_source(model).has_files for model in models):
        extras.add("dense")
    return sorted(extras)


def workflow(extras: list[str]) -> str:
    """Return a workflow of GitHub that runs the check on every pull request and comments on it, in plain steps."""
    package = f"retrieval-harness[{','.join(extras)}]" if extras else "retrieval-harness"
    return f"""\
# Written by `harness init`: runs the check of {FILE_NAME}, compares it with the baseline, and comments on the result.
# Commit {FILE_NAME}, the baseline, and the data that they name.
name: retrieval
on:
  pull_request:
  push:
    branches: [main]

permissions:
  contents: read
  pull-requests: write  # for the comment

jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: python3 -m venv ../harness
      # If you install the harness from another place, name it here.
      - run: ../harness/bin/pip install '{package}'
      - run: ../harness/bin/harness check --junit reports/junit.xml --comment reports/comment.md
      - run: ../harness/bin/harness github comment reports/comment.md
        if: always() && github.event_name == 'pull_request' && hashFiles('reports/comment.md') != ''
        env:
          GITHUB_TOKEN: ${{{{ github.token }}}}
"""


def _unread_files(chosen: Choices) -> list[str]:
    """Return a line about each chosen folder with files that are not read."""
    from harness.loaders.fetching import stored_files

    folders = [name.rpartition("=")[2] for name in (chosen.corpus, chosen.dataset) if name is not None]
    paths = {folder: existing_path(folder) for folder in folders}
    unread = {folder: stored_files(folder).unread_files for folder, path in paths.items() if path and path.is_dir()}
    return [f"{folder}: {unread_files_in_words(counts)}" for folder, counts in unread.items() if counts]


def _plan(choices: Choices) -> CheckPlan:
    """Plan the check of the choices: a faulty golden set is found here, not in CI."""
    from harness.pipeline.check.check_plan import plan_check
    from harness.plan.config import CheckRequest

    options: dict[str, Any] = {
        "golden": choices.golden or "",
        "corpus": choices.corpus or (),
        "backends": None if choices.only_against else choices.backends,
        "against": choices.against,
        "columns": choices.columns or (),
        "match": choices.match or "exact",
        "delimiter": choices.delimiter,
    }
    return plan_check(CheckRequest(**options))


def _chosen(choices: Choices) -> Choices:
    """Return the choices when they can be planned."""
    from harness.pipeline.planning import plan_for
    from harness.plan.config import CompareRequest
    from harness.registry.lookup import dataset_names, find_dataset

    golden, corpus, dataset = choices.golden, choices.corpus, choices.dataset
    if corpus is not None and golden is None:
        raise UsageError("--corpus without --golden: there are no questions", fix="add --golden FILE")
    if dataset is not None:
        plan_for(CompareRequest(backends=choices.backends, dataset=dataset))
    if golden is None and dataset is not None:
        with suppress(DataError):  # it has no golden set
            _plan(choices._replace(golden=dataset))
            golden = dataset
    if choices.against and golden is None:
        raise UsageError("--against without --golden: no questions are named", fix="add --golden FILE")
    if golden is None and dataset is None:
        golden = EXAMPLE
    choices = choices._replace(golden=golden)
    if golden is not None:
        _plan(choices)
    if corpus is not None:
        path = corpus.rpartition("=")[2]
        if existing_path(path) is None and find_dataset(path) is None:
            raise UnknownNameError("file, folder or dataset", path, dataset_names())
    return choices


def template(chosen: Choices) -> str:
    """Write the file; every line of it that is commented out is valid when it is not."""
    backends = _toml([name.strip() for name in split_outside(chosen.backends, ",")])
    lines = [
        "# What `harness check`, `compare`, `regress`, `explain` and `judge` do unless the command line overrides it.",
        "# The keys are the options of each command, with _ for -: `harness check --help` lists them.",
        "# Paths are relative to this file.",
        "",
        "[check]",
        "# The questions and the documents to search; a golden set of a dataset brings its own documents.",
        _line("golden", chosen.golden, "golden.jsonl"),
        _line("corpus", chosen.corpus, "chunks.jsonl"),
        "# The fields of both, if they are called otherwise.",
        _line("columns", chosen.columns, "question=user_input,expected=gold_ids,id=qid"),
        "# The backends to check: `harness backends` lists the names.",
        f"{'# ' if chosen.only_against else ''}backends = {backends}",
        "# An existing backend can be queried too: an index, an HTTP endpoint or your own function.",
        _line("against", list(chosen.against) or None, [_BACKEND]),
        "k = 5",
        "# By default Hit, MRR, Recall and nDCG at k, and those of alternatives and of forbidden documents if needed.",
        '# metrics = ["Hit@5", "MRR@5", "Recall@5", "nDCG@5"]',
        "# Requirements; if one fails, the exit code is 1: on a metric, a latency, parity or a slice.",
        f'{"# " if chosen.baseline is not None else ""}require = ["Hit@5>=0.8"]',
        '# require = ["Hit@5>=0.9", "p95_ms<=50", "parity>=1", "lang=de: MRR@5>=0.7"]',
        '# slice = ["lang"]',
        "# If the expected ids are documents and the corpus holds their chunks, and the delimiter in a chunk's id:",
        _line("match", chosen.match, "document"),
        _line("delimiter", chosen.delimiter, "#"),
        f"# The earlier result to compare with: `harness check --save-baseline {_CHECK_BASELINE}` writes another one.",
        _line("baseline", chosen.baseline, _CHECK_BASELINE),
        "# The drop of a mean that is let pass. The means decide: a test needs more than a few questions.",
        f"{'' if chosen.baseline is not None else '# '}max_drop = 0.05",
        f'{"" if chosen.baseline is not None else "# "}rule = "tolerance"',
        "# Files for CI, in addition to the result folder:",
        '# junit = "reports/junit.xml"',
        "# no_text = true",
        "",
        "[compare]",
        "# A dataset: a name of `harness datasets`, or a folder in BEIR layout.",
        _line("dataset", chosen.dataset, "cacm"),
        f"backends = {backends}",
        'metrics = ["nDCG@10", "AP", "R@100", "RR@10"]',
        "# k = 100",
        "# The baseline for later runs; a small file, for git.",
        f"# save_baseline = {_toml(_BASELINE)}",
        "",
        "[regress]",
        f"# Written by `harness compare --save-baseline {_BASELINE}`.",
        f"# baseline = {_toml(_BASELINE)}",
        "# The drop of a mean that is let pass.",
        '# max_drop = ["nDCG@10=0.01"]',
        "# Let the means decide, without a test; and the outcome of a gate that was not judged.",
        '# rule = "tolerance"',
        '# when_not_judged = "invalid"',
        "",
        "[explain]",
        "# Documents of each backend to explain, and every table about them.",
        "# k = 10",
        "# verbose = true",
        "",
        "[judge]",
        "# First hits of each backend to judge, and the number of documents on the page.",
        "# depth = 10",
        "# budget = 200",
    ]
    return "\n".join(lines) + "\n"


def _line(key: str, value: str | list[str] | None, example: str | list[str]) -> str:
    return f"{key} = {_toml(value)}" if value is not None else f"# {key} = {_toml(example)}"


def _toml(value: str | list[str]) -> str:
    """Write a string or a list of strings; JSON text of these is valid TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
