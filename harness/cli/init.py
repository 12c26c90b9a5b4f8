"""``harness init``: a commented ``harness.toml`` for the current folder."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click

from harness.cli.verb import verb
from harness.errors import DataError, ResultError, UnknownNameError, UsageError
from harness.plan.config import InitRequest
from harness.plan.expressions import split_outside
from harness.user_path import existing_path
from harness.wording import unread_files_in_words

_FILE = Path("harness.toml")
_EXAMPLE = "chunking-eval"
_BASELINE = "reports/baselines/main.json"
_BACKEND = "python:my_app.search:retrieve"


class Choices(NamedTuple):
    """Choices that the file is written for; None leaves a line as a comment."""

    golden: str | None
    corpus: str | None
    dataset: str | None
    backends: str
    against: tuple[str, ...] = ()

    @property
    def only_against(self) -> bool:
        """Whether `check` queries an existing backend, and no other, which would need documents."""
        return bool(self.against) and self.corpus is None


@verb(InitRequest)
def init(request: InitRequest) -> None:
    """Write a commented harness.toml, from which `harness check`, `compare` and `regress` take their options.

    Asks for the golden set on a terminal; without one, and where nothing is named, it is the bundled chunking-eval.

    Example: harness init --golden golden.jsonl --corpus chunks.jsonl
    """
    if _FILE.exists() and not request.force:
        raise UsageError(f"{_FILE} already exists", fix="add --force to replace it")
    golden, corpus = request.golden, request.corpus
    anything = golden or corpus or request.dataset or request.against
    if not anything and sys.stdin.isatty() and sys.stdout.isatty():
        golden = click.prompt("Golden set (a file, or nothing for the bundled example)", default="", show_default=False)
        corpus = click.prompt("Documents (a .jsonl file or a folder)") if golden else None
    chosen = _chosen(Choices(golden or None, corpus, request.dataset, request.backends, tuple(request.against)))
    unread = _unread_files(chosen)
    try:
        _FILE.write_text(template(chosen), encoding="utf-8")
    except OSError as error:
        raise ResultError(f"'{_FILE}' cannot be written: {error.strerror}") from error
    run = "harness check" if chosen.golden is not None else "harness compare"
    click.echo("\n".join([*unread, f"{_FILE} is written: look at it, then run {run}"]), err=True)


def _unread_files(chosen: Choices) -> list[str]:
    """Return a line about each chosen folder with files that are not read."""
    from harness.loaders.fetching import stored_files

    folders = [name.rpartition("=")[2] for name in (chosen.corpus, chosen.dataset) if name is not None]
    paths = {folder: existing_path(folder) for folder in folders}
    unread = {folder: stored_files(folder).unread_files for folder, path in paths.items() if path and path.is_dir()}
    return [f"{folder}: {unread_files_in_words(counts)}" for folder, counts in unread.items() if counts]


def _chosen(choices: Choices) -> Choices:
    """Return the choices when they can be planned: a faulty golden set is found here, not in CI."""
    from harness.pipeline.check.check_plan import plan_check
    from harness.pipeline.planning import plan_for
    from harness.plan.config import CheckRequest, CompareRequest
    from harness.registry.lookup import dataset_names, find_dataset

    golden, corpus, dataset, backends, against = choices
    if corpus is not None and golden is None:
        raise UsageError("--corpus without --golden: there are no questions", fix="add --golden FILE")
    if dataset is not None:
        plan_for(CompareRequest(backends=backends, dataset=dataset))
    if golden is None and dataset is not None:
        with suppress(DataError):  # it has no golden set
            plan_check(CheckRequest(golden=dataset))
            golden = dataset
    if against and golden is None:
        raise UsageError("--against without --golden: there are no questions", fix="add --golden FILE")
    if golden is None and dataset is None:
        golden = _EXAMPLE
    if golden is not None:
        indexed = None if choices.only_against else backends
        plan_check(CheckRequest(golden=golden, corpus=corpus or (), backends=indexed, against=against))
    if corpus is not None:
        path = corpus.rpartition("=")[2]
        if existing_path(path) is None and find_dataset(path) is None:
            raise UnknownNameError("file, folder or dataset", path, dataset_names())
    return choices._replace(golden=golden)


def template(chosen: Choices) -> str:
    """Write the file; every line of it that is commented out is valid when it is not."""
    backends = _toml([name.strip() for name in split_outside(chosen.backends, ",")])
    lines = [
        "# What `harness check`, `harness compare` and `harness regress` do unless the command line overrides it.",
        "# The keys are the options of each command, with _ for -: `harness check --help` lists them.",
        "# Paths are relative to this file.",
        "",
        "[check]",
        "# The questions and the documents to search; a golden set of a dataset brings its own documents.",
        _line("golden", chosen.golden, "golden.jsonl"),
        _line("corpus", chosen.corpus, "chunks.jsonl"),
        "# The backends to check: `harness backends` lists the names.",
        f"{'# ' if chosen.only_against else ''}backends = {backends}",
        "# An existing backend can be queried too: an index, an HTTP endpoint or your own function.",
        _line("against", list(chosen.against) or None, [_BACKEND]),
        "k = 5",
        'metrics = ["Hit@5", "MRR@5", "Recall@5", "nDCG@5"]',
        "# Requirements; if one fails, the exit code is 1: on a metric, a latency, parity or a slice.",
        'require = ["Hit@5>=0.8"]',
        '# require = ["Hit@5>=0.9", "p95_ms<=50", "parity>=1", "lang=de: MRR@5>=0.7"]',
        '# slice = ["lang"]',
        "# If the expected ids are documents and the corpus holds their chunks, and the delimiter in a chunk's id:",
        '# match = "document"',
        '# delimiter = "#"',
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
    ]
    return "\n".join(lines) + "\n"


def _line(key: str, value: str | list[str] | None, example: str | list[str]) -> str:
    return f"{key} = {_toml(value)}" if value is not None else f"# {key} = {_toml(example)}"


def _toml(value: str | list[str]) -> str:
    """Write a string or a list of strings; JSON text of these is valid TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
