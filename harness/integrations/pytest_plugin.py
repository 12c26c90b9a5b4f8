"""The pytest plug-in: golden sets as test items, and fixtures to check backends and judge changes in code.

It comes with the package and does nothing if no golden set is named. Heavy modules are imported only then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.plan.config import GATE_OPTIONS, CheckRequest
from harness.plan.option_fields import OptionField, option_fields

if TYPE_CHECKING:
    from harness.document.model import Case
    from harness.pipeline.check.check_plan import CheckPlan
    from harness.pipeline.check.checked import CheckResult
    from harness.pipeline.regress.regression import Regression
    from harness.results.check_schema import PreflightProblem
    from harness.results.schema import Result, TrialResult

_TOML = "harness.toml"


_OPTIONS = tuple(
    option_fields(CheckRequest)[name]
    for name in (
        "corpus",
        "backends",
        "against",
        "k",
        "filter",
        "require",
        "match",
        "delimiter",
        "labels",
        "count_model_labels",
        "baseline",
        *GATE_OPTIONS,
    )
)
"""Options of a check that are ``--golden-NAME`` on pytest's command line and ``golden_NAME`` in an ini file."""
_SETS = pytest.StashKey[frozenset[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, and their counterparts in ini files. ``--golden`` is left to others."""
    group = parser.getgroup("harness", "golden sets, checked by retrieval-harness")
    group.addoption(
        "--golden-set",
        action="append",
        default=[],
        metavar="FILE",
        help=f"collect a golden set, or the [check] table of a {_TOML}; can be repeated",
    )
    parser.addini("golden_sets", f"golden sets to collect, or files like {_TOML}", type="paths", default=[])
    for field in _OPTIONS:
        kind = {"list": "linelist", "bool": "bool"}.get(field.kind, "string")
        help_text = field.help.replace("%", "%%")
        if field.kind == "bool":
            group.addoption(_flag(field), action="store_true", default=None, help=help_text)
        else:
            action = "append" if field.kind == "list" else "store"
            group.addoption(_flag(field), action=action, metavar=field.metavar, help=help_text)
        parser.addini(f"golden_{field.name}", field.help, type=kind, default=None)  # type: ignore[arg-type]
    group.addoption("--golden-per-query", action="store_true", help="also one test for each question of golden sets")
    parser.addini("golden_per_query", "also one test for each question of golden sets", type="bool", default=False)


def _flag(field: OptionField) -> str:
    return f"--golden-{field.flag.removeprefix('--')}"


def pytest_configure(config: pytest.Config) -> None:
    """Collect the golden sets from any folder.

    Golden sets in ini files are collected if pytest is called without paths; those of the command line always.
    """
    option_paths = [Path(config.invocation_params.dir, name) for name in config.getoption("--golden-set")]
    ini_paths = [Path(path) for path in config.getini("golden_sets")]
    for path in (*option_paths, *ini_paths):
        if not path.is_file():
            raise pytest.UsageError(f"golden set '{path}': there is no such file")
    config.stash[_SETS] = frozenset(path.resolve() for path in (*option_paths, *ini_paths))
    is_whole_run = config.args_source is not pytest.Config.ArgsSource.ARGS
    for path in (*option_paths, *(ini_paths if is_whole_run else ())):
        if not any(path.resolve().is_relative_to(_folder(config, argument)) for argument in config.args):
            config.args.append(str(path))


def _folder(config: pytest.Config, argument: str) -> Path:
    return Path(config.invocation_params.dir, argument.partition("::")[0]).resolve()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> GoldenFile | None:
    """Return the collector of a golden set's file, None for any other file."""
    sets = _sets(parent.config)
    if not sets or file_path.resolve() not in sets:
        return None
    return GoldenFile.from_parent(parent, path=file_path)


def _sets(config: pytest.Config) -> frozenset[Path]:
    return config.stash.get(_SETS, frozenset[Path]())


class GoldenFile(pytest.File):
    """A golden set: an item for each requirement and backend, and on request for each question and backend.

    The backends are queried once, when the first of its items runs.
    """

    plan: CheckPlan
    _outcome: CheckResult | Exception | None = None

    def collect(self) -> Iterator[GoldenItem]:
        """Yield the items; raises CollectError for a set that cannot be planned, or that has no items."""
        from harness.errors import HarnessError
        from harness.pipeline.check.check_plan import plan_check

        try:
            settings = _settings(self.config, self.path)
            keep_text = not settings.pop("no_text", False)
            self.plan = replace(plan_check(CheckRequest(**settings), keep_text=keep_text), gated=True)
        except HarnessError as error:
            raise self.CollectError(str(error)) from error
        per_question = self.config.getoption("--golden-per-query") or self.config.getini("golden_per_query")
        is_compared = self.plan.request.baseline is not None
        if not self.plan.requirements and not per_question and not is_compared:
            raise self.CollectError(
                f"nothing is required of the golden set '{self.path}'\n"
                f"  add --golden-require 'Hit@{self.plan.request.k}>=0.9', --golden-baseline or --golden-per-query"
            )
        labels = [trial.label for trial in self.plan.trials]
        for dataset, label in self.plan.trials:
            name = label if labels.count(label) == 1 else f"{label} on {dataset}"
            for requirement in self.plan.requirements:
                yield RequirementItem.make(self, requirement.text, name, None)
            if is_compared:
                yield BaselineItem.make(self, "baseline", name, None)
            if per_question:
                for question in self.plan.golden:
                    yield QuestionItem.make(self, question.id, name, question.line)

    def checked(self) -> CheckResult:
        """Run the check once and return its result; raises its error every time."""
        from harness.errors import HarnessError
        from harness.pipeline.check.run_check import run_check

        if self._outcome is None:
            try:
                self._outcome = run_check(self.plan)
                self._warn_of_labels(self._outcome.report)
            except HarnessError as error:
                self._outcome = error
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def _warn_of_labels(self, report: Result) -> None:
        """Warn of labels that people gave differently, that are of changed texts, and that are a model's."""
        from harness.data.labels import CHECKS

        for problem in report.warnings:
            if problem.check in CHECKS:
                self.warn(pytest.PytestWarning(f"{problem.message} ({'; '.join(problem.examples)}); {problem.fix}"))
        for words in dict.fromkeys(info.labels_in_words for info in report.datasets if info.model_labels is not None):
            self.warn(pytest.PytestWarning(words))


class _NotFoundError(Exception):
    """A requirement is not met; the text gives the expected and the actual outcome."""


def _invalid(text: str) -> BaseException:
    """Return the failure of an item that cannot be judged: pytest shows only the text of its own failures."""
    return pytest.fail.Exception(text, pytrace=False)


class GoldenItem(pytest.Item):
    """One case of a golden set: a failure if it does not hold, an error if it cannot be judged.

    ``label`` names its trial: the backend's label, with the dataset if it is on several.
    """

    kind: str
    label: str
    line: int | None

    @classmethod
    def make(cls, parent: GoldenFile, kind: str, label: str, line: int | None) -> GoldenItem:
        """Return the item of a trial."""
        item: GoldenItem = cls.from_parent(parent, name=f"{kind}[{label}]")
        item.kind, item.label, item.line = kind, label, line
        return item

    def case(self, report: Result) -> Case:
        """Return the report's text about it."""
        raise NotImplementedError

    def trial(self, report: Result) -> TrialResult:
        """Return its trial in the report."""
        return next(trial for trial in report.trials if report.trial_name(trial.label, trial.dataset) == self.label)

    def setup(self) -> None:
        """Run the questions, if no item did before; raises if nothing could be judged."""
        from harness.document.model import Outcome
        from harness.errors import HarnessError
        from harness.report.documents.check_cases import preflight_text

        try:
            report = cast("GoldenFile", self.parent).checked().report
        except HarnessError as error:
            raise _invalid(str(error)) from None
        problems = [problem for problem in report.preflight if self._concerned_by(report, problem)]
        if problems:
            raise _invalid("\n".join(preflight_text(report, problem) for problem in problems))
        self._case = self.case(report)
        if self._case.outcome is Outcome.ERROR:
            raise _invalid(self._case.text)

    def _concerned_by(self, report: Result, problem: PreflightProblem) -> bool:
        return problem.backend is None or report.trial_name(problem.backend, problem.dataset) == self.label

    def runtest(self) -> None:
        """Fail or skip as the case says."""
        from harness.document.model import Outcome

        if self._case.outcome is Outcome.SKIPPED:
            pytest.skip(self._case.message)
        if self._case.outcome is Outcome.FAILURE:
            raise _NotFoundError(self._case.text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return only the text, without the line of this module that raised it."""
        if isinstance(excinfo.value, _NotFoundError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the question's line, and a name in words: pytest replaces the dots of an item's name by ``::``."""
        return self.path, None if self.line is None else self.line - 1, f"{self.kind} on {self.label}"


class RequirementItem(GoldenItem):
    """One requirement of one backend."""

    def case(self, report: Result) -> Case:
        """Return the requirement's case, and put its figure into pytest's own JUnit XML."""
        from harness.report.documents.check_cases import requirement_case

        required = next(
            required
            for required in report.requirements
            if required.text == self.kind and report.trial_name(required.backend, required.dataset) == self.label
        )
        self.user_properties += [("value", required.value), ("n", required.n)]
        return requirement_case(report, required)


class BaselineItem(GoldenItem):
    """One backend compared with the baseline, on all metrics together."""

    def case(self, report: Result) -> Case:
        """Return the case: its text gives the metrics that are worse, and their questions."""
        from harness.report.documents.check_cases import baseline_case

        return baseline_case(report, self.trial(report))


class QuestionItem(GoldenItem):
    """One question put to one backend."""

    def case(self, report: Result) -> Case:
        """Return the question's case: its text gives the expected and the returned documents."""
        from harness.report.documents.check_cases import question_case, trial_error

        trial = self.trial(report)
        for question in trial.questions:
            if question.id == self.kind:
                return question_case(report, trial, question)
        return trial_error(report, trial)


@pytest.fixture(scope="session")
def golden_check(request: pytest.FixtureRequest) -> Callable[..., CheckResult]:
    """``golden_check(golden, corpus=…, backends=…, require=[…])``: send the questions of a golden set to backends.

    Takes the arguments of ``harness.check``; omitted ones come from ``harness.toml``, the ini file and the command
    line. The same call runs once in a session. ``golden_check().assert_requirements()`` fails with the unmet
    requirements.
    """
    import harness

    results: dict[str, tuple[object, CheckResult]] = {}

    def check(golden: object = None, **options: Any) -> CheckResult:
        settings = _settings(request.config, None) | options
        if golden is not None:
            settings["golden"] = golden
        if "golden" not in settings:
            sets = sorted(_sets(request.config))
            if len(sets) != 1:
                raise pytest.UsageError(f"golden_check(): no golden set is given, and {len(sets)} are configured")
            settings = _settings(request.config, sets[0]) | options
        key = repr(sorted(settings.items()))
        if key not in results:  # the settings are kept with it: a callable that was freed leaves its address to another
            results[key] = settings, harness.check(**settings)
        return results[key][1]

    return check


@pytest.fixture
def assert_gate() -> Callable[[Regression], None]:
    """``assert_gate(harness.diff(BEFORE, AFTER, max_drop=0.02))``: pass, fail or skip the test as the gate decided.

    Takes the results of ``harness.diff`` and ``harness.regress``. The test is skipped, with the reason, if the gate was
    not judged, unless ``when_not_judged="fail"`` was given; it fails if the gate is invalid.
    """
    from harness.document.cells import join_names
    from harness.document.model import Outcome
    from harness.errors import UsageError
    from harness.report.documents.regress import change_document

    def assert_passed(regression: Regression) -> None:
        change = regression.change
        if change.gate is None:
            raise UsageError("there is no gate: such a test could not fail", fix="give max_drop=0.01 or the like")
        if change.gate == "passed":
            return
        document = change_document(regression.report)
        cases = [case for suite in document.suites for case in suite.cases]
        alike: dict[tuple[str, str], list[str]] = {}
        for case in cases:
            if case.text:
                rest = case.text.removeprefix(case.name)
                rest = f": {rest}" if rest == case.text else rest
                alike.setdefault((case.classname, rest), []).append(case.name)
        lines = [
            f"{join_names(names, len(names))} of {group}{re.sub('^ is ', ' are ', text) if len(names) > 1 else text}"
            for (group, text), names in alike.items()
        ]
        text = "\n\n".join([document.verdicts[0].headline, *lines])
        if change.gate == "not judged" and Outcome.FAILURE not in [case.outcome for case in cases]:
            pytest.skip(text)
        raise _invalid(text)

    return assert_passed


def _settings(config: pytest.Config, path: Path | None) -> dict[str, Any]:
    """Return the fields of a request to check: of the command line, then the ini file, then ``harness.toml``.

    ``path`` is a golden set, or a file like ``harness.toml`` that names one. Raises UsageError for a file without a
    golden set, and for a ``k`` that is not a number.
    """
    from harness.errors import UsageError

    is_toml = path is not None and path.suffix == ".toml"
    toml = path if is_toml else config.rootpath / _TOML
    settings = _read_toml(toml) if toml is not None and toml.is_file() else {}
    folder = config.inipath.parent if config.inipath is not None else config.rootpath
    for field in _OPTIONS:
        name, option_value = field.name, config.getoption(_flag(field))
        value: Any = option_value
        if option_value is None:
            ini_value: Any = config.getini(f"golden_{field.name}")
            value = ini_value if isinstance(ini_value, bool) else ini_value or None
        if option_value is None and name == "corpus" and value is not None:
            value = [_placed(corpus, folder) for corpus in value]
        if option_value is None and field.holds_paths and value is not None:
            value = [folder / path for path in value] if isinstance(value, list) else folder / value
        if value is not None:
            settings[name] = field.parse(value) if field.kind == "float" else value
    if not str(settings.get("k", 1)).isdecimal():
        raise UsageError(f"golden_k is '{settings['k']}'", fix="give a whole number: how many documents to ask for")
    if "k" in settings:
        settings["k"] = int(settings["k"])
    if path is not None and not is_toml:
        settings["golden"] = path
    elif is_toml and "golden" not in settings:
        raise UsageError(f"[check] of '{path}' names no golden set", fix='add golden = "golden.jsonl" to it')
    return settings


def _read_toml(path: Path) -> dict[str, Any]:
    """Return the settings of ``[check]``, without options of the command line only."""
    from harness.cli.config import read_settings

    settings = read_settings(path, "check")
    return {name: settings[name] for name in (*option_fields(CheckRequest), "no_text") if name in settings}


def _placed(corpus: str, folder: Path) -> str:
    """Return a corpus of the ini file, whose paths are relative to it."""
    name, equals, path = corpus.rpartition("=")
    return f"{name}{equals}{folder / path}" if (folder / path).exists() else corpus
