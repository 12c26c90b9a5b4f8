"""What the cache holds, listed, checked and removed: as functions, and through `harness cache`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from filelock import FileLock
from warm_harness import harness_command

from harness.cli.app import _build
from harness.errors import CacheError
from harness.store.cache import Cache, entry_lock, entry_name
from harness.store.cache_entries import comparison_running, list_entries, remove_entry, sweep
from harness.store.scratch import in_use, scratch_folder

TEXTS, TRIAL = {"scheme": 1, "sha256": "ab" * 32, "member": "corpus.jsonl"}, {"k": 10, "nested": {"k1": 0.9}}


def fill(folder: Path) -> None:
    (folder / "data").write_text("content")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    cache = Cache(tmp_path / "cache")
    cache.get_or_build("texts", TEXTS, fill)
    cache.put("trials", TRIAL, fill, about="csr on cacm", state="finished")
    return cache


@contextmanager
def process_that_holds(lock: Path) -> Iterator[None]:
    program = "import sys; from filelock import FileLock\nwith FileLock(sys.argv[1]): print(flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program, str(lock)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate("\n", timeout=30)


def run(cache: Cache, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*harness_command(), "cache", *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "HARNESS_CACHE": str(cache.root)},
    )


def kinds(cache: Cache) -> list[str]:
    return [entry.kind for entry in list_entries(cache)]


def test_entries_say_what_they_are(cache: Cache) -> None:
    texts, trial = list_entries(cache)
    assert (texts.kind, texts.state, texts.about, texts.key) == ("texts", "complete", "", TEXTS)
    assert (trial.kind, trial.state, trial.about, trial.key) == ("trials", "finished", "csr on cacm", TRIAL)
    assert trial.name == entry_name("trials", TRIAL)
    assert trial.bytes == sum(path.stat().st_size for path in trial.path.iterdir())
    assert abs(trial.made - time.time()) < 60
    assert list_entries(Cache(cache.root / "nowhere")) == []


def test_a_stored_entry_is_read_until_it_is_replaced_or_damaged(cache: Cache) -> None:
    def read(folder: Path) -> str:
        return (folder / "data").read_text()

    assert cache.get("trials", TRIAL, read) == "content"
    assert cache.get("trials", {**TRIAL, "k": 11}, read) is None
    cache.put("trials", TRIAL, lambda folder: (folder / "data").write_text("new") and None, about="", state="failed")
    assert cache.get("trials", TRIAL, read) == "new"
    (entry,) = [entry for entry in list_entries(cache) if entry.kind == "trials"]
    assert (entry.state, entry.fault()) == ("failed", None)
    (entry.path / "data").write_text("nww")
    assert cache.get("trials", TRIAL, read) is None
    assert entry.fault() == "the checksum of 'data' is wrong"


def test_an_entry_that_cannot_be_replaced_stays(cache: Cache) -> None:
    def fail(folder: Path) -> None:
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        cache.put("trials", TRIAL, fail, about="", state="finished")
    assert cache.get("trials", TRIAL, lambda folder: (folder / "data").read_text()) == "content"
    assert not list(cache.root.glob("*/*.tmp"))


_KILLED = """
import os, sys
from pathlib import Path
from harness.store.cache import Cache

renames = int(sys.argv[2])
whole = Path.rename

def rename(self, target):
    global renames
    renames -= 1
    if renames < 0:
        os._exit(9)
    return whole(self, target)

Path.rename = rename
words = {"about": "", "state": "finished"}
with Cache(Path(sys.argv[1])).lock("trials", {"k": 10, "nested": {"k1": 0.9}}) as entry:
    known = entry.get(lambda folder: (folder / "data").read_text())
    entry.put(lambda folder: (folder / "data").write_text(f"{known}, new"), **words)
"""


@pytest.mark.parametrize(("renames", "left"), [(0, "content"), (1, "content"), (2, "content, new")])
def test_a_replacement_that_is_killed_leaves_the_one_or_the_other(cache: Cache, renames: int, left: str) -> None:
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(cache.root), str(renames)], check=False)
    assert killed.returncode == (9 if renames < 2 else 0)
    assert cache.get("trials", TRIAL, lambda folder: (folder / "data").read_text()) == left


@pytest.mark.parametrize("renames", [0, 1])
def test_what_a_killed_replacement_left_is_swept_and_removed_with_its_entry(cache: Cache, renames: int) -> None:
    words = [sys.executable, "-c", _KILLED, str(cache.root), str(renames)]
    subprocess.run(words, check=False)
    sweep(cache)
    assert list(cache.root.glob("*/*.tmp")) == []
    texts, trial = list_entries(cache)
    subprocess.run(words, check=False)
    trial.path.mkdir(exist_ok=True)
    assert remove_entry(trial)
    assert cache.get("trials", TRIAL, lambda folder: (folder / "data").read_text()) is None
    assert kinds(cache) == ["texts"] == [texts.kind]


def test_a_replacement_that_is_interrupted_between_the_renames_leaves_the_old_one(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, seen = Path.rename, list[Path]()

    def rename(self: Path, target: Path) -> Path:
        seen.append(self)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return whole(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        cache.put("trials", TRIAL, lambda folder: (folder / "data").write_text("new") and None, about="", state="")
    assert cache.get("trials", TRIAL, lambda folder: (folder / "data").read_text()) == "content"


def test_what_a_process_builds_is_never_removed(cache: Cache) -> None:
    texts, trial = list_entries(cache)
    with process_that_holds(trial.path.with_suffix(".lock")):
        assert [entry.state for entry in list_entries(cache)] == ["complete", "in use"]
        assert not remove_entry(trial)
        assert trial.path.is_dir()
    assert remove_entry(trial)
    assert remove_entry(texts)
    assert list_entries(cache) == []
    assert [path for path in cache.root.rglob("*") if path.is_file()] == []


def test_leftovers_are_swept_but_nothing_that_is_alive(cache: Cache) -> None:
    texts, trial = list_entries(cache)
    for entry in (texts, trial):
        (entry.path.parent / f"{entry.name}.killed.tmp").mkdir()
    with entry_lock(trial.path), scratch_folder(cache.folder("work"), "compare-") as work:
        (cache.root / "work" / "compare-killed").mkdir()
        (cache.root / "work" / "compare-killed.lock").touch()
        assert comparison_running(cache)
        sweep(cache)
        assert work.is_dir()
        assert sorted(cache.root.glob("*/*.tmp")) == [trial.path.parent / f"{trial.name}.killed.tmp"]
    assert not comparison_running(cache)
    assert list((cache.root / "work").iterdir()) == []
    sweep(cache)
    assert list(cache.root.glob("*/*.tmp")) == []
    assert kinds(cache) == ["texts", "trials"]


def test_a_scratch_folder_lives_as_long_as_its_process(tmp_path: Path) -> None:
    def interrupted() -> None:
        with scratch_folder(tmp_path, "x-") as folder:
            (folder / "deep").mkdir()
            assert in_use(tmp_path, "x-")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_list_in_words_and_as_json(cache: Cache) -> None:
    shown = run(cache, "list").stdout
    assert "csr on cacm, k=10" in shown
    assert "member=corpus.jsonl" in shown
    assert f"sha256={'ab' * 6}" in shown
    assert "2 entries, 0.0 MiB in" in shown
    (trial,) = json.loads(run(cache, "list", "--kind", "trials", "--format", "json").stdout)
    assert (trial["state"], trial["about"], trial["key"]) == ("finished", "csr on cacm", TRIAL)
    empty = Cache(cache.root / "nowhere")
    assert run(empty, "list").stdout == f"the cache '{empty.root}' is empty\n"
    assert run(empty, "verify").stdout == f"the cache '{empty.root}' is empty\n"
    assert run(empty, "list", "--format", "json").stdout == "[]\n"
    unknown = run(cache, "list", "--kind", "tins")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "--kind tins: no such choice" in unknown.stderr


def test_verify_names_what_is_damaged(cache: Cache) -> None:
    whole = run(cache, "verify")
    assert (whole.returncode, whole.stdout) == (0, "2 entries, 0.0 MiB, every checksum is right\n")
    texts, trial = list_entries(cache)
    (texts.path / "data").write_text("kontent")
    (trial.path / "manifest.json").write_text("{")
    found = run(cache, "verify")
    assert found.returncode == 1
    assert f"damaged: texts {texts.name[:12]} ('{texts.path}'): the checksum of 'data' is wrong" in found.stdout
    assert f"damaged: trials {trial.name[:12]} ('{trial.path}'): its manifest cannot be read" in found.stdout
    faults = {one["entry"]: one["fault"] for one in json.loads(run(cache, "verify", "--format", "json").stdout)}
    assert faults[texts.name] == "the checksum of 'data' is wrong"
    assert [entry.state for entry in list_entries(cache)] == ["complete", "damaged"]


def test_remove_by_name_kind_and_age(cache: Cache) -> None:
    _, trial = list_entries(cache)
    refused = run(cache, "remove", "--all")
    assert (refused.returncode, kinds(cache)) == (2, ["texts", "trials"])
    assert "pass --yes" in refused.stderr
    assert run(cache, "remove", "--older-than", "1h", "--yes").stdout == "nothing was removed\n"
    assert run(cache, "remove", trial.name[:8], "--yes").stdout == "removed 1 entry, 0.0 MiB\n"
    assert kinds(cache) == ["texts"]
    os.utime(cache.root / "texts" / list_entries(cache)[0].name / "manifest.json", (0, 0))
    assert run(cache, "remove", "--older-than", "30d", "--kind", "texts", "--yes").returncode == 0
    assert kinds(cache) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no entries are selected"),
        (["zz", "--yes"], "no entry begins with 'zz'"),
        (["", "--yes"], "2 entries begin with ''"),
        (["--older-than", "soon"], "write minutes, hours, days or weeks"),
    ],
)
def test_remove_refuses_what_it_cannot_understand(cache: Cache, arguments: list[str], message: str) -> None:
    refused = run(cache, "remove", *arguments)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert kinds(cache) == ["texts", "trials"]


def test_remove_leaves_what_a_running_comparison_may_read(cache: Cache) -> None:
    work = cache.folder("work")
    with FileLock(work / "compare-running.lock"):
        kept = run(cache, "remove", "--all", "--yes")
        assert kept.returncode == 3
        assert kept.stdout == "removed 1 entry, 0.0 MiB\n"
        assert "1 of 2 entries are in use and were kept" in kept.stderr
        assert kinds(cache) == ["texts"]
    assert run(cache, "remove", "--all", "--yes").returncode == 0
    assert kinds(cache) == []


def test_a_comparison_that_begins_while_entries_are_removed_keeps_the_rest(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.get_or_build("texts", {**TEXTS, "member": "queries.jsonl"}, fill)
    running = iter([False, True, True])
    monkeypatch.setattr("harness.store.cache_entries.comparison_running", lambda cache: next(running))
    monkeypatch.setenv("HARNESS_CACHE", str(cache.root))
    done = CliRunner().invoke(_build(), ["cache", "remove", "--kind", "texts", "--yes"])
    assert isinstance(done.exception, CacheError)
    assert kinds(cache) == ["texts", "trials"]
