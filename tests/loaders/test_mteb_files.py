"""Which files of a repository are one subset's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hub_stub import DatasetHub, serving, use
from installed import skip_module_without
from miniatures import miniature, mteb_tables, mteb_task, parquet_repository

from harness.errors import DataError
from harness.loaders.base import DatasetSpec, Downloader, LocalFiles
from harness.loaders.dataset import load_dataset
from harness.loaders.hub_repository import HubRepository
from harness.loaders.mteb import MtebLoader
from harness.loaders.mteb_files import hub_folders

skip_module_without("mteb")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries: whatever they deprecate of one another

NAME = "mteb/ManyTongues"
LANGS = {"ko": ["kor-Hang"], "de": ["deu-Latn"]}
KO, DE = (DatasetSpec(f"mteb:Tongues:{one}") for one in LANGS)
NOTHING = LocalFiles((), 0, complete=False)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatasetHub]:
    import datasets

    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "tables")
    with serving(DatasetHub(tmp_path / "hub")) as stub:
        use(stub, tmp_path / "hub cache", monkeypatch)
        yield stub


@pytest.fixture
def loader() -> MtebLoader:
    return MtebLoader()


def write(hub: DatasetHub, *, card: bool = True) -> None:
    """Write a repository in two languages, of other documents each."""
    content = miniature()
    german = replace(
        content, documents={one: (title, f"{text} Ja.") for one, (title, text) in content.documents.items()}
    )
    tables = {**mteb_tables(content, "ko-"), **mteb_tables(german, "de-")}
    folder = parquet_repository(hub.root / NAME, tables)
    if not card:
        (folder / "README.md").write_text("# no metadata\n")


def register(hub: DatasetHub, patch: pytest.MonkeyPatch, name: str = "Tongues", **attributes: object) -> None:
    mteb_task(patch, name, Path(NAME), langs=LANGS, revision=hub.commit_of(NAME), **attributes)


def download(hub: DatasetHub, *subsets: str) -> list[Path]:
    """Put a repository's files into the caches as the libraries do, a table of each configuration too."""
    from datasets.packaged_modules.parquet.parquet import Parquet

    repository = HubRepository(NAME, hub.commit_of(NAME))
    known = [one.relative_to(hub.root / NAME).as_posix() for one in (hub.root / NAME).rglob("*.parquet")]
    names = [name for name in known if name.startswith(tuple(f"{subset}-" for subset in subsets))]
    repository.fetch(["README.md", *names], None)
    for config in {name.partition("/")[0] for name in names}:
        builder = Parquet(dataset_name=NAME.partition("/")[2], repo_id=NAME, config_name=config, hash=repository.commit)
        table = Path(builder.cache_dir)
        table.mkdir(parents=True)
        (table / "table.arrow").write_bytes(b"1234")
    return [repository.folder / name for name in names]


def test_files_and_tables_of_a_subset_are_named_after_it(
    hub: DatasetHub, loader: MtebLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(hub)
    register(hub, monkeypatch)
    assert isinstance(loader, Downloader)
    assert loader.local_files(KO) == NOTHING
    files = download(hub, "ko", "de")
    ko = [file for file in files if file.parent.name.startswith("ko-")]
    held, other = loader.local_files(KO), loader.local_files(DE)
    tables = hub_folders(NAME)[1]
    assert {path for path in held.paths if path.is_file()} == set(ko)
    assert {path.parent.parent for path in held.paths if path.is_dir()} == {
        tables / f"ko-{part}" for part in ("corpus", "queries", "qrels")
    }
    assert held.complete is None
    # the judgments and the queries of both languages are the same blobs
    assert held.size == sum(file.stat().st_size for file in ko) + 3 * 4
    assert set(held.paths).isdisjoint(other.paths)


def test_files_of_another_commit_are_not_the_task_s(
    hub: DatasetHub, loader: MtebLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `hf:` reads them."""
    write(hub)
    main = HubRepository(NAME, "main")
    main.fetch(["ko-corpus/corpus-00000-of-00001.parquet"], None)
    (hub.root / NAME / "README.md").open("a").write("Another commit.\n")
    register(hub, monkeypatch)
    assert loader.local_files(KO) == NOTHING
    download(hub, "ko")
    assert main.local_files().isdisjoint(loader.local_files(KO).paths)


def test_files_that_nothing_tells_apart_may_be_any_subset_s(
    hub: DatasetHub, loader: MtebLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a task's own loader where no file is called after the subset."""
    write(hub)
    langs = {"korean": ["kor-Hang"], "german": ["deu-Latn"]}
    mteb_task(
        monkeypatch,
        "Tongues",
        Path(NAME),
        langs=langs,
        revision=hub.commit_of(NAME),
        load_data=lambda task: None,
    )
    files = download(hub, "ko", "de")
    assert set(files) <= set(loader.local_files(DatasetSpec("mteb:Tongues:korean")).paths)


def test_all_files_are_those_of_a_task_in_one_language(
    hub: DatasetHub, loader: MtebLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(hub, card=False)
    mteb_task(monkeypatch, "Single", Path(NAME), langs=["kor-Hang"], revision=hub.commit_of(NAME))
    files = download(hub, "ko", "de")
    assert set(files) <= set(loader.local_files(DatasetSpec("mteb:Single")).paths)


@pytest.mark.parametrize("name", ["mteb/MIRACLRetrieval", "taeminlee/Ko-StrategyQA", "mteb/scifact", "squad_kor_v1"])
def test_tables_lie_where_the_library_puts_them(hub: DatasetHub, name: str) -> None:
    from datasets.packaged_modules.parquet.parquet import Parquet

    repository = name if "/" in name else None
    builder = Parquet(dataset_name=name.rpartition("/")[2], repo_id=repository, config_name="corpus", hash="a" * 40)
    assert Path(builder.cache_dir).parents[2] == hub_folders(name)[1]


def test_the_offline_error_names_that_folder(hub: DatasetHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    with pytest.raises(DataError, match="mteb___miracl_retrieval"):
        load_dataset("mteb:MIRACLRetrieval:ko@dev")
