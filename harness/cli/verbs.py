"""The table of verbs. The module behind a verb is imported when the verb is used.

So ``harness --help`` loads neither the numeric stack nor any client.
"""

from __future__ import annotations

import importlib
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from harness.cli.verb import DeclaredVerb, VerbGroup


class ExitCode(IntEnum):
    """Every code that the command ends with."""

    FINE = 0
    FAILED = 1
    """A threshold or a regression check failed."""
    USAGE = 2
    UNAVAILABLE = 3
    """A backend was unavailable or failed, or input was found invalid."""
    DEFECT = 70
    """An unexpected error: a defect of the harness (EX_SOFTWARE of BSD's sysexits)."""
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    """The reader of stdout closed it (128 + SIGPIPE, as a shell reports it)."""


class Verb(NamedTuple):
    """One verb: its location (``module:function``, or ``module:app`` with its own verbs) and its line of help.

    A ``configured`` verb takes options missing on the command line from ``harness.toml``.
    """

    target: str
    help: str
    configured: bool = False


VERBS = {
    "compare": Verb(
        "harness.cli.compare:compare", "Run backends on a dataset and hold each against its reference.", True
    ),
    "check": Verb("harness.cli.check:check", "Hold backends against a golden set of questions.", True),
    "init": Verb("harness.cli.init:init", "Write a harness.toml, so that CI needs no arguments."),
    "eval": Verb("harness.cli.evaluate:evaluate", "Score runs against relevance judgments."),
    "verify": Verb("harness.cli.verify:verify", "Run published configurations and compare every printed digit."),
    "regress": Verb("harness.cli.regress:regress", "Run a baseline's plan again and judge whether it got worse.", True),
    "diff": Verb("harness.cli.diff:diff", "Compare two stored results, without running anything."),
    "report": Verb("harness.cli.report:report", "Print a stored result again, in any format."),
    "explain": Verb("harness.cli.explain:explain", "Say why documents are ranked where they are, for one query.", True),
    "judge": Verb("harness.cli.judge:judge", "Have people or a model judge documents of a stored result.", True),
    "github": Verb(
        "harness.cli.github_actions:app", "In GitHub's actions: comment on a pull request, fetch a baseline."
    ),
    "backends": Verb("harness.cli.cards:backends", "List the backends, or show one with its parameters."),
    "datasets": Verb(
        "harness.cli.catalogue:datasets", "List, search, show or fetch datasets, or remove what was prepared."
    ),
    "doctor": Verb("harness.cli.doctor:doctor", "Check that this machine has everything that a comparison needs."),
    "cache": Verb("harness.cli.cache:cache", "List, verify or remove results kept for re-use."),
}


def load_verb(name: str) -> DeclaredVerb | VerbGroup:
    """Import the verb ``name``, or the group of its verbs."""
    module, _, target = VERBS[name].target.partition(":")
    verb: DeclaredVerb | VerbGroup = getattr(importlib.import_module(module), target)
    return verb
