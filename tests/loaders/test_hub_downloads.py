"""Downloads from the hub that break: cut connections, wrong bytes, refusals, a full disk, no network."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hub_miniatures import CONTENT, write_beir_repositories, write_miracl, write_mteb_repository
from hub_stub import DatasetHub, serving, use
from installed import skip_module_without

from harness.errors import DataError, UsageError
from harness.loaders import load_dataset
from harness.loaders.base import DatasetSpec
from harness.loaders.hub_repository import HubRepository
from harness.loaders.hugging_face import HubLoader
from harness.store.cache import file_digest

pytestmark = pytest.mark.integration

skip_module_without("datasets")

FIRST = "corpus/corpus-00000-of-00002.parquet"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    with serving(DatasetHub(tmp_path / "hub")) as stub:
        use(stub, tmp_path / "hub cache", monkeypatch)
        write_beir_repositories(stub.root, CONTENT)
        yield stub


def loads(spec: str = "hf:BeIR/mini") -> bool:
    return len(load_dataset(spec).corpus) == 12


def stored(tmp_path: Path, name: str) -> list[Path]:
    """Files of that name in the hub's cache, and blobs whose download is not finished."""
    return sorted((tmp_path / "hub cache").rglob(name)) + sorted((tmp_path / "hub cache").rglob("*.incomplete"))


def test_a_connection_that_is_cut_anywhere_is_resumed(hub, tmp_path, monkeypatch):
    chunk = 16  # the client writes down whole chunks only: ten megabytes by itself
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", chunk)
    content = (hub.root / "BeIR/mini" / FIRST).read_bytes()
    places = np.random.default_rng(16).choice(len(content), 8, replace=False).tolist()
    for place in (0, chunk - 1, chunk, *places, len(content) - 1):
        hub.cuts = {FIRST: [place]}
        hub.ranges.clear()
        assert loads()
        assert hub.ranges == ([f"bytes={place // chunk * chunk}-"] if place >= chunk else [])
        (file,) = stored(tmp_path, Path(FIRST).name)
        assert file.read_bytes() == content
        shutil.rmtree(tmp_path / "hub cache" / "datasets--BeIR--mini")


def test_a_download_that_never_comes_whole_leaves_no_file_and_is_gone_on_with(hub, tmp_path):
    hub.cuts = {FIRST: [700] + [0] * 100}
    with pytest.raises(DataError) as raised:
        load_dataset("hf:BeIR/mini")
    assert f"'{FIRST}' was not downloaded from {hub.url}" in str(raised.value)
    assert "run the command again: it continues where it stopped" in str(raised.value)
    assert not list((tmp_path / "hub cache").rglob(Path(FIRST).name))
    told = HubLoader().local_files(DatasetSpec("hf:BeIR/mini"))
    assert told.complete is False
    hub.cuts.clear()
    assert loads()
    assert HubLoader().local_files(DatasetSpec("hf:BeIR/mini")).complete


def test_bytes_of_another_checksum_are_removed_again(hub, tmp_path):
    content = (hub.root / "BeIR/mini" / FIRST).read_bytes()
    hub.forged = {FIRST: content[:-1] + bytes([content[-1] ^ 1])}
    with pytest.raises(DataError, match=r"and the hub states .*\n.*it was removed again"):
        load_dataset("hf:BeIR/mini")
    assert stored(tmp_path, Path(FIRST).name) == []
    hub.forged = {}
    assert loads()


def test_small_files_are_compared_with_the_checksum_of_git(hub, tmp_path):
    content = (hub.root / "BeIR/mini-qrels/test.tsv").read_bytes()
    hub.forged = {"test.tsv": content.replace(b"\t2\n", b"\t1\n", 1)}
    with pytest.raises(DataError, match=r"the checksum of 'test\.tsv' is"):
        load_dataset("hf:BeIR/mini")
    assert stored(tmp_path, "test.tsv") == []


def test_a_file_of_another_size_is_refused(hub, tmp_path):
    hub.forged = {FIRST: b"PAR1"}
    with pytest.raises(DataError, match=f"'{FIRST}'"):
        load_dataset("hf:BeIR/mini")
    assert not list((tmp_path / "hub cache").rglob(Path(FIRST).name))


def test_a_file_that_the_card_names_and_the_repository_lacks(hub):
    write_miracl(hub.root, CONTENT.of_splits(dev="test", train="train"), "ko")
    (hub.root / "miracl/miracl-corpus/miracl-corpus-v1.0-ko/docs-2.jsonl.gz").unlink()
    with pytest.raises(DataError, match=r"the hub has no file 'miracl-corpus-v1\.0-ko/docs-2\.jsonl\.gz'"):
        load_dataset("hf:miracl/miracl:ko")


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, "GatedRepo", "accepted its terms\n  accept its terms on .*/datasets/BeIR/mini, then log in"),
        (403, "GatedRepo", "only to users who accepted its terms"),
        (404, "RepoNotFound", "the hub has no dataset 'BeIR/mini', or keeps it private"),
        (500, "", "the list of its files was not downloaded"),
    ],
)
def test_refusals(hub, status, code, words):
    hub.refused = {"BeIR/mini": (status, code)}
    with pytest.raises(DataError, match=words):
        load_dataset("hf:BeIR/mini")


def test_a_revision_that_is_not_there(hub):
    with pytest.raises(UsageError, match="the hub's dataset 'BeIR/mini' has no revision 'v2'"):
        load_dataset("hf:BeIR/mini@v2")


def test_a_full_disk_is_said(hub, monkeypatch):
    def full(*arguments, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("huggingface_hub.file_download.http_get", full)
    with pytest.raises(DataError, match=r"the disk is full\n.*HF_HUB_CACHE"):
        load_dataset("hf:BeIR/mini")


def test_a_hub_that_does_not_answer_is_named(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(DataError, match=r"was not downloaded from http://127\.0\.0\.1:1: "):
        load_dataset("hf:BeIR/mini")


def test_checksums_are_those_of_the_bytes_and_each_is_computed_once(hub, tmp_path, monkeypatch):
    """Files that another program put into the hub's cache are never compared with the names of their blobs."""
    assert loads()
    (file,) = stored(tmp_path, Path(FIRST).name)
    content, blob = file.read_bytes(), file.resolve()
    read = []
    monkeypatch.setattr(
        "harness.store.digests.file_digest", lambda path, name: read.append(path) or file_digest(path, name)
    )
    monkeypatch.setattr("harness.store.digests._SETTLED_NS", 0)
    source = HubRepository("BeIR/mini", "main").source()
    assert source.digest(FIRST) == source.digest(FIRST) == hashlib.sha256(content).hexdigest() == blob.name
    assert read == [blob]
    blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match=rf"its checksum is .*, and the hub states {blob.name}\n  delete it"):
        load_dataset("hf:BeIR/mini")
    file.unlink()
    blob.unlink()
    assert loads()


@pytest.fixture(params=["HARNESS_OFFLINE", "HF_HUB_OFFLINE"])
def offline(request, monkeypatch):
    """Switch the network off, as either variable does it; the client reads its own when it is imported."""

    def switch() -> None:
        if request.param == "HARNESS_OFFLINE":
            monkeypatch.setenv("HARNESS_OFFLINE", "1")
        else:
            monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    return switch


def test_what_was_loaded_once_needs_no_network(hub, offline):
    write_mteb_repository(hub.root, CONTENT)
    write_miracl(hub.root, CONTENT.of_splits(dev="test", train="train"), "ko")
    specs = ("hf:BeIR/mini", "hf:mteb/mini", "hf:miracl/miracl:ko")
    assert all(map(loads, specs))
    hub.fetched.clear()
    offline()
    assert all(map(loads, specs))
    assert hub.fetched == []


def test_without_a_network_the_error_says_what_belongs_where(hub, offline, tmp_path):
    offline()
    with pytest.raises(DataError) as raised:
        load_dataset("hf:BeIR/mini")
    folder = tmp_path / "hub cache" / "datasets--BeIR--mini"
    variable = "HARNESS_OFFLINE" if "HARNESS_OFFLINE" in os.environ else "HF_HUB_OFFLINE"
    assert f"it is not on this machine, and the network may not be used ({variable} is set)" in str(raised.value)
    assert f"`hf download BeIR/mini --repo-type dataset` fetches it; its folder belongs at '{folder}'" in str(
        raised.value
    )
    with pytest.raises(DataError, match=r"BeIR/mini@v2.*\n.*\n.*--revision v2`"):
        load_dataset("hf:BeIR/mini@v2")
    assert f"its folder belongs at '{folder}-qrels'" in str(raised.value), "the judgments are elsewhere"
    with pytest.raises(DataError) as raised:
        load_dataset("hf:miracl/miracl:de")
    assert "hf:miracl/miracl-corpus: 32 problems" in str(raised.value), "and the documents at once"
    names = [f"miracl-v1.0-de/{part}.miracl-v1.0-de-dev.tsv" for part in ("qrels/qrels", "topics/topics")]
    assert all(f"'{name}' is not on this machine" in str(raised.value) for name in names)
    assert f"`hf download miracl/miracl {' '.join(names)} --repo-type dataset`" in str(raised.value)
    assert hub.fetched == []


def test_many_files_that_are_missing_offline_are_named_by_a_pattern(hub, offline):
    write_miracl(hub.root, CONTENT.of_splits(dev="test"), "de")
    with pytest.raises(DataError, match=r"has no file 'miracl-corpus-v1\.0-de/docs-3"):
        load_dataset("hf:miracl/miracl:de")
    offline()
    with pytest.raises(DataError, match=r"hf download miracl/miracl-corpus --include 'miracl-corpus-v1\.0-de/docs-\*'"):
        load_dataset("hf:miracl/miracl:de")


def test_a_file_that_is_missing_offline_is_named_and_the_corpus_is_not_cut_short(hub, offline, tmp_path, monkeypatch):
    assert loads()
    (second,) = (tmp_path / "hub cache").rglob("corpus-00001-of-00002.parquet")
    second.unlink()
    offline()
    with pytest.raises(DataError, match=r"'corpus/corpus-00001-of-00002\.parquet' is not on this machine"):
        load_dataset("hf:BeIR/mini")
    # the same where the harness's own list of files is gone, and the numbers in the names alone tell
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "another cache"))
    with pytest.raises(DataError, match=r"'corpus/corpus-00001-of-00002\.parquet' is not on this machine"):
        load_dataset("hf:BeIR/mini")


def test_a_snapshot_that_the_hubs_own_tool_downloaded_is_read_offline(hub, offline, monkeypatch, tmp_path):
    import huggingface_hub

    for name in ("BeIR/mini", "BeIR/mini-qrels"):
        for file in [one for one in (hub.root / name).rglob("*") if one.is_file()]:
            path = file.relative_to(hub.root / name).as_posix()
            huggingface_hub.hf_hub_download(name, path, repo_type="dataset")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "another cache"))
    offline()
    assert loads()


def test_a_branch_that_moved_on_is_read_as_it_was_until_it_is_removed(hub, tmp_path):
    first = load_dataset("hf:BeIR/mini").provenance
    (hub.root / "BeIR/mini/README.md").write_text(
        (hub.root / "BeIR/mini/README.md").read_text() + "Another sentence.\n"
    )
    assert load_dataset("hf:BeIR/mini").provenance["repositories"] == first["repositories"]
    shutil.rmtree(tmp_path / "hub cache" / "datasets--BeIR--mini")
    commit = hub.commit_of("BeIR/mini")
    second = load_dataset("hf:BeIR/mini").provenance
    assert second["repositories"].startswith(f"BeIR/mini@{commit}")
    assert second != first
    assert second["corpus_sha256"] == first["corpus_sha256"]
    assert load_dataset(f"hf:BeIR/mini@{commit}").provenance["repositories"] == second["repositories"]


def test_names_that_lead_out_of_a_repository_are_passed_over(hub, monkeypatch):
    answer = hub.answer

    def hostile(path: str):
        status, headers, content = answer(path)
        more = b'"siblings": [{"rfilename": "../../outside.parquet"}, {"rfilename": "/tmp/outside.parquet"}, '
        return status, headers, content.replace(b'"siblings": [', more)

    monkeypatch.setattr(hub, "answer", hostile)
    assert loads()
    assert not [name for name in hub.fetched if "outside" in name]


def test_a_card_that_is_no_yaml_is_named(hub):
    (hub.root / "BeIR/mini/README.md").write_text("---\nconfigs: [\n---\n")
    with pytest.raises(DataError, match=r"README\.md: 1 problem\n  is not a card of a dataset"):
        load_dataset("hf:BeIR/mini")
