"""`irds:ID`: one content through the library's own code and as a BEIR folder, and downloads that break."""

import errno
import json
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from faulty_http import FaultyServer, Reply, dead, raw
from installed import skip_module_without
from miniatures import Content, FileServer, beir_folder, beir_zip, irds_home, miniature

from harness.data.dataset import DatasetFiles
from harness.errors import DataError, MissingExtraError, UnknownNameError, UsageError
from harness.loaders.base import DatasetSpec, Downloader, LocalFiles
from harness.loaders.dataset import load_corpus, load_dataset
from harness.loaders.irds import IrdsLoader, _documents, _handlers
from harness.loaders.irds_files import files_of
from harness.store import digests
from harness.store.cache import Cache, file_digest

skip_module_without("ir_datasets")

SPEC = "irds:beir/scifact/test"


class Home(NamedTuple):
    folder: Path
    server: FileServer
    content: Content

    @property
    def archive(self) -> Path:
        return self.folder / "beir" / "scifact" / "source.zip"

    def files(self) -> list[str]:
        """What lies in the library's folders, without marks of versions and an index that is still empty."""
        found = [path for path in self.folder.rglob("*") if path.is_file() and path.stat().st_size]
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in found
            if path.name not in ("irds_version.txt", "bin.meta")
        )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    content = miniature()
    archive = beir_zip(content, "scifact", tmp_path / "scifact.zip")
    monkeypatch.setenv("IR_DATASETS_DL_TRIES", "2")
    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)
    with irds_home(tmp_path / "home", archive, monkeypatch) as server:
        yield Home(tmp_path / "home", server, content)


class Told:
    """Progress that notes its phases."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, int | None]] = []
        self.advanced = 0

    def start(self, phase: str, total: int | None) -> None:
        self.phases.append((phase, total))

    def advance(self, amount: int) -> None:
        self.advanced += amount


def test_keeps_ids_and_texts_and_tells_what_it_is(home: Home, tmp_path: Path) -> None:
    loaded, folder = load_dataset(SPEC), load_dataset(str(beir_folder(home.content, tmp_path / "beir")))
    assert loaded.corpus.ids.to_list() == list(home.content.documents)
    assert loaded.corpus.digest == folder.corpus.digest
    assert loaded.queries.digest == folder.queries.digest
    assert loaded.name == SPEC
    assert loaded.identical_ids is None
    assert loaded.provenance["citation"] == "Wadden2020Scifact, Thakur2021Beir"
    assert loaded.provenance["ir_datasets_id"] == "beir/scifact/test"
    assert loaded.provenance["language"] == "en"


def test_reads_no_text_anew_and_tells_its_progress(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, told = Cache(tmp_path / "cache"), Told()
    load_dataset(SPEC, cache=cache, progress=told)
    size = home.archive.stat().st_size
    assert [phase for phase in told.phases if "fetching" in phase[0]] == [("fetching scifact.zip", size)]
    assert told.phases[-1] == (f"reading {SPEC}", None)
    assert told.advanced >= size + 30

    shutil.rmtree(home.folder / "beir" / "scifact" / "docs.pklz4")
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    again = load_dataset(SPEC, cache=cache)
    assert len(again.corpus) == 30
    assert home.server.calls["get"] == 1
    assert "beir/scifact/docs.pklz4/bin" not in home.files()


def test_prepares_documents_that_several_ids_share_once(home: Home, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    first, second = (load_dataset(f"irds:beir/scifact/{part}", cache=cache) for part in ("test", "train"))
    assert second.corpus.path == first.corpus.path
    named = load_dataset(SPEC, cache=cache, files=DatasetFiles(columns={"text": "title"}))
    assert named.corpus.path != first.corpus.path
    assert load_corpus("irds:beir/scifact", cache=cache).path == first.corpus.path


def documents_key(name: str) -> str:
    """What the documents of an id of the real library are kept under, once they are prepared."""
    import ir_datasets

    key = _documents(DatasetSpec(f"irds:{name}"), ir_datasets.registry._registered[name], None).key
    assert key is not None
    return json.dumps(key, sort_keys=True)


@pytest.mark.parametrize(
    "names",
    [
        ("msmarco-passage/dev", "msmarco-passage/trec-dl-2019/judged", "msmarco-passage/trec-dl-2020"),
        ("beir/msmarco/dev", "beir/msmarco/test", "beir/msmarco/train"),
        ("miracl/ko/dev", "miracl/ko/train"),
        ("trec-fair-2021", "trec-fair/2021/eval"),  # a former name
    ],
)
def test_ids_over_one_corpus_share_its_documents(names: tuple[str, ...]) -> None:
    assert len(set(map(documents_key, names))) == 1


@pytest.mark.parametrize(
    "names",
    [
        ("beir/cqadupstack/android", "beir/cqadupstack/english"),
        ("lotte/lifestyle/dev", "lotte/lifestyle/test", "lotte/pooled/dev"),
        ("neumarco/fa", "neumarco/ru"),
    ],
)
def test_corpora_of_one_archive_are_kept_apart(names: tuple[str, ...]) -> None:
    assert len(set(map(documents_key, names))) == len(names)


def test_knows_what_this_machine_has(home: Home) -> None:
    loader, spec = IrdsLoader(), DatasetSpec(SPEC)
    assert isinstance(loader, Downloader)
    assert loader.local_files(spec) == LocalFiles((), 0, complete=False)
    load_dataset(SPEC)
    held = loader.local_files(spec)
    assert held.complete
    assert home.archive in held.paths
    assert held.size > home.archive.stat().st_size


@pytest.fixture
def passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of MS MARCO's passages, of which the library registers its real datasets."""
    import ir_datasets
    from ir_datasets.datasets import msmarco_passage

    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(ir_datasets, "registry", ir_datasets.util.Registry())
    msmarco_passage._init()
    return tmp_path / "home" / "msmarco-passage"


COLLECTION = {"collectionandqueries.tar.gz", "collection.tsv"}
DEV = {"queries.tar.gz", "dev/queries.tsv", "dev/qrels"}
DL19 = {"trec-dl-2019/queries.tsv", "trec-dl-2019/qrels"}
DL20 = {"trec-dl-2020/queries.tsv.gz", "trec-dl-2020/qrels"}
TRAIN = {"train/docpairs.tsv.gz", "train/qidpidtriples.train.full.2.tsv.gz"}


def lay(folder: Path, names: set[str]) -> None:
    """Put files in place, with their own names in them."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


@pytest.mark.parametrize("name", ["msmarco-passage/trec-dl-2019", "msmarco-passage/trec-dl-2019/judged"])
def test_has_the_files_of_its_own_parts_alone(passages: Path, name: str) -> None:
    lay(passages, COLLECTION | DEV | DL19 | DL20 | TRAIN)
    held = IrdsLoader().local_files(DatasetSpec(f"irds:{name}"))
    assert {path.relative_to(passages).as_posix() for path in held.paths} == COLLECTION | DL19


def test_judged_queries_are_made_of_the_files_of_all_queries() -> None:
    import ir_datasets

    names = [name for name in ir_datasets.registry._registered if name.endswith("/judged")]
    assert len(names) > 20
    for name in names:
        loaders = [_handlers(ir_datasets.registry._registered[one]) for one in (name, name.removesuffix("/judged"))]
        judged, every = map(files_of, loaders)
        assert judged == every, name


@pytest.mark.parametrize(
    ("spec", "split", "error", "words"),
    [
        ("irds:beir/scifakt/test", None, UnknownNameError, "did you mean 'beir/scifact/test'"),
        ("irds:beir/scifact", None, UsageError, "has no judgments\n  of these ids there are: irds:beir/scifact/test"),
        ("irds:beir/scifact", "test", UsageError, "splits are part of the id: irds:beir/scifact/test"),
        ("irds:beir", None, UsageError, "irds:beir/arguana"),
        ("irds:beir/nfcorpus", None, UsageError, "irds:beir/nfcorpus/dev"),
    ],
)
def test_names_the_part_or_id_that_is_missing(
    home: Home, spec: str, split: str | None, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=r"ir_datasets|irds:") as caught:
        load_dataset(spec, split=split)
    assert words in str(caught.value)
    assert home.server.calls["get"] == 0


def test_reads_documents_alone_of_an_id_without_judgments(home: Home) -> None:
    assert len(load_corpus("irds:beir/scifact")) == 30


def test_takes_named_fields(home: Home) -> None:
    files = DatasetFiles(columns={"text": "title"})
    assert load_dataset(SPEC, files=files).corpus.texts[1].as_py() == list(home.content.documents.values())[1][0]
    with pytest.raises(UnknownNameError, match="titel"):
        load_dataset(SPEC, files=DatasetFiles(columns={"title": "titel"}))


@pytest.mark.parametrize("share", random.Random(20).sample(range(1000), 50))
def test_a_cut_archive_resumes_or_starts_again_and_leaves_nothing_half_written(home: Home, share: int) -> None:
    """Cut each time nothing is left; cut once the library goes on, or begins anew where the server has no ranges."""
    ranges = share % 2 == 0
    size = len(home.server.content)
    home.server.ranges = False
    home.server.fail("get", cut_at(share * size // 1000))
    with pytest.raises(DataError, match="nothing half-written was kept") as caught:
        load_dataset(SPEC)
    assert str(home.archive) in str(caught.value)
    assert home.files() == []

    home.server.ranges, home.server.faults = ranges, []
    asked = home.server.calls["get"]
    home.server.fail("get", cut_at(share * size // 1000), after=asked, times=1)
    assert len(load_dataset(SPEC).corpus) == 30
    assert home.server.calls["get"] == asked + 2
    resumed = any("range" in headers for headers in home.server.headers)
    assert resumed == (ranges and share * size // 1000 > 0)
    assert home.archive.read_bytes() == home.server.content


def cut_at(place: int) -> Any:
    """An answer of which only the first bytes arrive."""

    def act(carry_out: Any) -> Reply:
        reply = carry_out()
        return reply._replace(cut=max(0, len(reply.body) - place))

    return act


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (raw(200, b"<html>moved</html>"), "the downloaded file differs"),
        (raw(404, b"not here"), "the downloaded file differs"),
        (dead, "the download failed"),
    ],
)
def test_says_what_came_instead_of_the_file(home: Home, act: Any, words: str) -> None:
    home.server.fail("get", act)
    with pytest.raises(DataError, match=words) as caught:
        load_dataset(SPEC)
    assert str(caught.value).count(words) == 1  # of queries and documents, which lie in one archive
    assert home.files() == []


def test_holds_a_file_put_in_place_by_hand_against_its_checksum(home: Home) -> None:
    home.archive.parent.mkdir(parents=True, exist_ok=True)
    home.archive.write_bytes(home.server.content[:-1] + b"x")
    with pytest.raises(DataError, match="its MD5 is") as caught:
        load_dataset(SPEC)
    assert str(home.archive) in str(caught.value)


def test_reads_an_archive_for_its_checksum_once_for_all_processes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    load_dataset(SPEC)
    later, read = time.time_ns() + 3_600_000_000_000, list[Path]()

    def reading(path: Path, algorithm: str) -> str:
        read.append(path)
        return file_digest(path, algorithm)

    monkeypatch.setattr(digests.time, "time_ns", lambda: later)
    monkeypatch.setattr(digests, "file_digest", reading)
    for _ in range(2):
        digests._remembered.cache_clear()  # as in another process
        load_dataset(SPEC)
    assert read == [home.archive]

    home.archive.write_bytes(home.server.content[:-1] + b"x")
    with pytest.raises(DataError, match="its MD5 is"):
        load_dataset(SPEC)


def test_a_full_disk_leaves_nothing_and_says_so(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Any, sink: Any, *args: Any) -> None:
        sink.write(source.read(100))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ir_datasets.util.download.shutil.copyfileobj", full)
    with pytest.raises(DataError, match="no space is left") as caught:
        load_dataset(SPEC)
    assert "IR_DATASETS_HOME" in str(caught.value)
    assert home.files() == []


def test_a_disk_too_small_is_refused_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = beir_zip(miniature(), "scifact", tmp_path / "scifact.zip")
    with irds_home(tmp_path / "home", archive, monkeypatch, size=10**18) as server:
        with pytest.raises(DataError, match="no space is left"):
            load_dataset(SPEC)
        assert server.calls["get"] == 0


def test_offline_names_the_file_and_its_place(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    with pytest.raises(DataError, match="HARNESS_OFFLINE is set") as caught:
        load_dataset(SPEC)
    message = str(caught.value)
    assert f"put {home.server.url}/scifact.zip (MD5 " in message
    assert f"at {home.archive}" in message
    assert home.server.calls["get"] == 0
    assert home.files() == []

    home.archive.parent.mkdir(parents=True, exist_ok=True)
    home.archive.write_bytes(home.server.content)
    assert len(load_dataset(SPEC).corpus) == 30


def test_offline_names_the_files_of_all_parts(passages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    with pytest.raises(DataError) as caught:
        load_dataset("irds:msmarco-passage/trec-dl-2020")
    assert caught.value.count == 1
    assert caught.value.further == ()
    for place in ("collectionandqueries.tar.gz", "trec-dl-2020/queries.tsv.gz", "trec-dl-2020/qrels"):
        assert f" at {passages / place}" in str(caught.value)
    lay(passages, {"collection.tsv"})
    with pytest.raises(DataError) as caught:
        load_dataset("irds:msmarco-passage/trec-dl-2020")
    assert "collectionandqueries" not in str(caught.value), "it was taken out of its archive"


def test_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ir_datasets", None)
    with pytest.raises(MissingExtraError, match=r"retrieval-harness\[irds\]"):
        load_dataset(SPEC)


def test_knows_the_text_of_every_kind_of_record_or_says_which_fields_there_are() -> None:
    import ir_datasets

    kinds = {}
    for name, one in ir_datasets.registry._registered.items():
        fields = [getattr(one, f"{part}_cls")() if one.has(part) else None for part in ("docs", "queries", "qrels")]
        kinds.setdefault(tuple(fields), name)
    loader, refused = IrdsLoader(), set[str]()
    for name in kinds.values():
        spec = DatasetSpec(f"irds:{name}")
        try:
            loader.load(spec, None, None)
        except DataError as error:
            refused.add(error.problems[0])
        except UsageError as error:
            refused.add(error.problem.partition(" ")[2])
    assert refused == {
        "has no documents",
        "ir_datasets does not say which field of its documents is the text",
        "ir_datasets does not say which field of its queries is the text",
    }


class Page(NamedTuple):
    doc_id: str
    heading: str
    body: bytes


def test_reads_records_without_a_text_of_their_own_and_judgments_by_subtopic(monkeypatch: pytest.MonkeyPatch) -> None:
    import ir_datasets
    from ir_datasets.formats import BaseDocs, BaseQrels, BaseQueries, GenericQuery, TrecSubQrel

    class Pages(BaseDocs):
        def docs_iter(self) -> Iterator[Page]:
            yield Page("p1", "Dams", b"caf\xc3\xa9 by a dam")
            yield Page("p2", "Bees", b"broken \xff byte")

        def docs_cls(self) -> type:
            return Page

        def docs_lang(self) -> str:
            return "fr"

    class Asked(BaseQueries):
        def queries_iter(self) -> Iterator[GenericQuery]:
            yield GenericQuery("1", "dams")

        def queries_lang(self) -> str:
            return "en"

    class Judged(BaseQrels):
        def qrels_iter(self) -> Iterator[TrecSubQrel]:
            yield from (TrecSubQrel("1", "p1", grade, f"{grade}") for grade in (1, 3, 0))
            yield TrecSubQrel("1", "p2", -2, "1")

        def qrels_cls(self) -> type:
            return TrecSubQrel

    monkeypatch.setattr(ir_datasets, "registry", ir_datasets.util.Registry())
    ir_datasets.registry.register("pages", ir_datasets.Dataset(Pages(), Asked(), Judged()))
    with pytest.raises(DataError, match="does not say which field of its documents is the text") as caught:
        load_dataset("irds:pages")
    assert "--columns text=heading; there are: heading, body" in str(caught.value)
    loaded = load_dataset("irds:pages", files=DatasetFiles(columns={"text": "body", "title": "heading"}))
    assert loaded.corpus.texts.to_pylist() == ["Dams café by a dam", "Bees broken \ufffd byte"]
    assert loaded.qrels is not None
    assert loaded.qrels.grades.tolist() == [3, -2]
    assert "4 judgments, several of a pair by subtopic_id: the highest of each counts" in loaded.provenance["notes"]
    assert "language" not in loaded.provenance


def test_a_null_text_is_refused_and_not_taken_for_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import ir_datasets
    from ir_datasets.formats import BaseDocs, GenericDoc

    class Notes(BaseDocs):
        def docs_iter(self) -> Iterator[GenericDoc]:
            yield GenericDoc("n1", "words")
            yield GenericDoc("n2", None)

        def docs_cls(self) -> type:
            return GenericDoc

    monkeypatch.setattr(ir_datasets, "registry", ir_datasets.util.Registry())
    ir_datasets.registry.register("notes", ir_datasets.Dataset(Notes()))
    for columns in ({}, {"text": "text"}):
        with pytest.raises(DataError, match="1 problem\n  document 2: 'text' is null"):
            load_corpus("irds:notes", files=DatasetFiles(columns=columns))


def test_server_of_these_tests_serves_ranges() -> None:
    server = FileServer(content=b"0123456789")
    reply = FaultyServer.answer(server, "GET", "/x", {"range": "bytes=4-"}, b"")
    assert reply.status == 206
    assert reply.body == b"456789"
