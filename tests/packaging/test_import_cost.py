"""`harness --help` loads no numeric stack and no client, and is quick; so does whatever only reads cards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging

COUNT = """
import json, sys
before = set(sys.modules)
try:
    {statement}
except SystemExit:
    pass
print(json.dumps(sorted(set(sys.modules) - before)), file=sys.stderr)
"""

MAIN = "sys.argv = {arguments}; from harness.cli.app import main; main()"

ALLOWED = {"click"}


def modules_loaded_by(statement: str, repository: Path) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-c", COUNT.format(statement=statement)],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(result.stderr.splitlines()[-1]))


def third_party(modules: set[str]) -> set[str]:
    packages = {module.partition(".")[0] for module in modules if not module.startswith("_sysconfigdata")}
    return packages - set(sys.stdlib_module_names) - {"harness"}


@pytest.mark.parametrize("arguments", [["harness", "--help"], ["harness", "--version"]])
def test_help_loads_neither_numbers_nor_clients(arguments: list[str], repository: Path) -> None:
    loaded = modules_loaded_by(MAIN.format(arguments=arguments), repository)
    assert third_party(loaded) <= ALLOWED
    ours = {module for module in loaded if module.partition(".")[0] == "harness"}
    assert ours == {
        "harness",
        "harness._version",
        "harness.cli",
        "harness.cli.app",
        "harness.cli.group",
        "harness.cli.verbs",
        "harness.errors",
        "harness.plain_url",  # messages are shown without secrets
        "harness.results",
        "harness.results.presenters",  # where the package registers the report
        "harness.wording",  # and shortened
    }


@pytest.mark.parametrize("verb", ["backends", "datasets"])
def test_reading_cards_loads_neither_numbers_nor_clients(verb: str, repository: Path) -> None:
    loaded = modules_loaded_by(MAIN.format(arguments=["harness", verb]), repository)
    assert third_party(loaded) <= ALLOWED | {"rich"}, "which draws their tables"


def test_importing_the_package_loads_nothing_else(repository: Path) -> None:
    assert third_party(modules_loaded_by("import harness", repository)) == set()


def test_a_comparison_begins_without_what_writes_its_report(repository: Path) -> None:
    """Nor with what reads labels, regressions and checks: each is imported when there is such a thing."""
    loaded = modules_loaded_by("import harness.pipeline.compare", repository)
    assert "harness.pipeline.run" in loaded
    later = {
        "harness.data.labels",
        "harness.report.html.render",
        "jinja2",
        "pyarrow.dataset",
        "pyarrow.parquet",
    }
    assert not loaded & {*later, "pandas", "scipy.special", "scipy.sparse", "statsmodels", "httpx", "huggingface_hub"}


def test_the_first_worker_is_started_before_anything_is_imported(repository: Path) -> None:
    program = (
        "from pathlib import Path; from harness.cli.early_worker import early_worker; "
        'context = early_worker("csr", "process", "local", None); '
        "context.__enter__(); context.__exit__(None, None, None)"
    )
    loaded = modules_loaded_by(program, repository)
    assert "harness.worker.spawn" in loaded
    assert third_party(loaded) == set()


def test_rankings_of_one_kind_of_result_import_nothing_of_other_kinds(repository: Path) -> None:
    """Each in turn, in one process that forgets the harness in between: most of the time is other packages'."""
    kinds = ("comparison", "check", "change")
    program = f"""
import importlib, json, sys
for kind in {kinds}:
    for name in [name for name in sys.modules if name.partition(".")[0] == "harness"]:
        del sys.modules[name]
    importlib.import_module(f"harness.report.rankings.of_{{kind}}")
    print(json.dumps([one for one in {kinds} if f"harness.report.rankings.of_{{one}}" in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[kind] for kind in kinds]


def test_help_answers_within_300_ms(repository: Path) -> None:
    """The best of several, in processor time: what the command costs, not what else the machine is doing."""
    seconds = []
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", "--help"], cwd=repository, stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        seconds.append(usage.ru_utime + usage.ru_stime)
    assert min(seconds) < 0.3


def test_intervals_and_the_usual_test_load_no_distributions(repository: Path) -> None:
    """``scipy.stats`` takes half a second and ``scipy.special`` a tenth, in every comparison."""
    program = (
        "import numpy as np; from harness.stats import bootstrap_interval, compare_pairs; "
        "values = np.random.default_rng(0).random(50); assert bootstrap_interval(values, 1); "
        "assert compare_pairs(values, values[::-1], 1).p; assert compare_pairs(values[:9], values[9:18], 1).p"
    )
    loaded = modules_loaded_by(program, repository)
    assert "harness.stats.intervals" in loaded
    assert not loaded & {"scipy.stats", "scipy.special"}


def test_compiled_kernels_load_without_what_compiles(repository: Path) -> None:
    """What Numba makes known before it compiles takes half a second, in every process that has kernels."""
    program = "from harness.exact import compile_kernels; compile_kernels()"
    modules_loaded_by(program, repository)  # compiles where that was not done yet
    loaded = modules_loaded_by(program, repository)
    assert "numba.core.runtime.nrt" in loaded
    assert not loaded & {"numba.np.linalg", "numba.misc.cffiimpl"}
