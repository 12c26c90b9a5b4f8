"""The documentation is true: its commands run, its generated blocks are current, its links lead somewhere."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from documented import Block, blocks_of
from warm_harness import harness_command, script_command

from harness.cli.verb import VerbGroup
from harness.cli.verbs import VERBS, load_verb

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), *REPOSITORY.glob("*/README.md")])
PAGES = sorted(set(PAGES))
INSTALLED = Path(sysconfig.get_path("scripts")) / "harness"
BY_THE_INSTALLED = "docs/how-to/install.md"
LANGUAGES = {"bash", "python", "text", "toml", "json", "yaml", "xml", "csv"}
LEFT_OUT = {"harness", "tests", ".git", ".venv"}


def name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def runs(page: Path) -> bool:
    return any(block.language in ("bash", "python") and not block.not_run for block in blocks_of(page))


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a checkout holds beside the package."""
    folder = tmp_path_factory.mktemp("beside")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for tracked in filter(None, listed.stdout.split("\0")):
        if tracked.partition("/")[0] not in LEFT_OUT and (REPOSITORY / tracked).is_file():
            (folder / tracked).parent.mkdir(parents=True, exist_ok=True)
            (folder / tracked).write_bytes((REPOSITORY / tracked).read_bytes())
    return folder


@pytest.fixture
def workplace(beside: Path, tmp_path: Path) -> Path:
    """A checkout for one page: none writes into another's."""
    return Path(shutil.copytree(beside, tmp_path / "checkout", copy_function=shutil.copyfile))


def write_programs(folder: Path, harness: Sequence[str | Path], scripts: Sequence[str]) -> None:
    """Write what the blocks of a page call, in front of what is installed; ``scripts`` runs a file of Python."""
    folder.mkdir()
    python = f'case $1 in *.py) exec {shlex.join(scripts)} "$@" ;; esac\n'
    programs = {"harness": harness, "pytest": [sys.executable, "-m", "pytest"], "python": [sys.executable]}
    for program, command in programs.items():
        text = f'#!/bin/sh\n{python if program == "python" else ""}exec {shlex.join(map(str, command))} "$@"\n'
        (folder / program).write_text(text, encoding="utf-8")
        (folder / program).chmod(0o755)


@pytest.mark.integration
@pytest.mark.parametrize("page", [page for page in PAGES if runs(page)], ids=name)
def test_every_block_of_a_page_runs(page: Path, workplace: Path, request: pytest.FixtureRequest) -> None:
    """By the installed command on the page of installing it, else by a warm one."""
    installed = name(page) == BY_THE_INSTALLED
    write_programs(
        workplace.parent / "bin",
        [INSTALLED] if installed else harness_command(),
        [sys.executable] if installed else script_command(),
    )
    if any(block.needs_shared for block in blocks_of(page)):
        shared = request.getfixturevalue("shared_collections")
        (workplace.parent / "shared").mkdir()
        (workplace.parent / "shared" / "collections").symlink_to(shared)
    environment = {
        **os.environ,
        "PATH": f"{workplace.parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
    }
    driver = Path(__file__).with_name("documented.py")
    result = subprocess.run(
        [*script_command(), str(driver), str(workplace / page.relative_to(REPOSITORY))],
        cwd=workplace, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, f"{result.stdout[-3000:]}\n{result.stderr[-6000:]}"


def test_every_block_says_its_language() -> None:
    blocks = ((name(page), block) for page in PAGES for block in blocks_of(page))
    assert [(page, block.line, block.language) for page, block in blocks if block.language not in LANGUAGES] == []


def test_what_is_not_run_is_listed_with_its_reason(golden: Callable[[str], None]) -> None:
    """Each exception is a line of the golden file, so that a new one shows in review."""
    lines = [f"{name(page)}: {block.not_run}" for page in PAGES for block in blocks_of(page) if block.not_run]
    golden("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", REPOSITORY / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.HARNESS = harness_command()
    return module


def test_generated_blocks_are_current(generator: ModuleType) -> None:
    texts = {name(page): page.read_text(encoding="utf-8") for page in PAGES}
    assert {page: generator.regenerate(text) for page, text in texts.items()} == texts, "run `make docs`"


def test_the_command_line_reference_has_every_verb() -> None:
    reference = (REPOSITORY / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    expected = []
    for verb in VERBS:
        loaded = load_verb(verb)
        below = [*loaded.verbs] if isinstance(loaded, VerbGroup) else []
        expected += [f"harness {verb}", *(f"harness {verb} {name}" for name in below)]
    assert re.findall(r"^### (harness .+)$", reference, re.MULTILINE) == expected


@functools.cache
def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    links = [
        (page, link, *link.partition("#")[::2])
        for page in PAGES
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:", link)
    ]
    assert [
        f"{name(page)}: {link}"
        for page, link, path, anchor in links
        for to in [page.parent / path if path else page]
        if not to.exists() or (anchor and anchor not in anchors(to))
    ] == []


def test_every_page_is_listed_in_the_index() -> None:
    index = REPOSITORY / "docs" / "README.md"
    linked = {(index.parent / link).resolve() for link in re.findall(r"\]\(([^)\s#]+)\)", index.read_text("utf-8"))}
    assert {page for page in (REPOSITORY / "docs").rglob("*.md") if page != index} - linked == set()


PAGE = """
<!-- not run: it would install -->
```bash
exit 3
```
```python
number = 1
```
1. in a list

   ```python
   assert number == {expected}
   ```
<!-- needs ../shared/collections -->
```bash
exit 4
```
"""


@pytest.mark.parametrize(("expected", "status"), [(1, 0), (2, 1)])
def test_the_runner_runs_blocks_in_order_and_fails_when_one_does(expected: int, status: int, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(expected=expected), encoding="utf-8")
    assert blocks_of(page)[0] == Block("bash", "exit 3", 3, "it would install", False)
    assert [block.needs_shared for block in blocks_of(page)] == [False, False, False, True]
    driver = Path(__file__).with_name("documented.py")
    result = subprocess.run([sys.executable, str(driver), str(page)], cwd=tmp_path, capture_output=True, check=False)
    assert result.returncode == status, result.stderr


def test_the_runner_stops_at_a_failing_shell_command(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\nfalse\necho not reached\n```\n", encoding="utf-8")
    driver = Path(__file__).with_name("documented.py")
    result = subprocess.run([sys.executable, str(driver), str(page)], cwd=tmp_path, capture_output=True, check=False)
    assert result.returncode == 1
    assert b"not reached" not in result.stdout
    assert f"{page}:1 ended with 1".encode() in result.stderr


def test_help_names_no_types_of_python(repository: Path) -> None:
    reference = (repository / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r".*<(?:str|int|float|bool|list\[\w+\])>.*", reference) == []
