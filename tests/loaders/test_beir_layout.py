"""Collections in BEIR layout that are in order: where they may lie, and what is accepted."""

from __future__ import annotations

import gzip
import json
import shutil
import zipfile
from pathlib import Path

import pytest

from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders import load_corpus, load_dataset
from harness.loaders.checks import dataset_findings
from harness.store.cache import Cache

CORPUS = [
    {"_id": "d1", "title": "One", "text": "first text"},
    {"_id": "d2", "title": "", "text": "second text"},
    {"_id": 3, "title": None, "text": "third"},
    {"_id": "d4", "title": "Only a title", "text": ""},
    {"_id": "d5", "text": " \n", "metadata": {"a": [1]}},
]
TEXTS = ["One first text", "second text", "third", "Only a title", " \n"]
QUERIES = [{"_id": "q1", "text": "first?"}, {"_id": 2, "text": "second?"}, {"_id": "q3", "text": ""}]
QRELS = "query-id\tcorpus-id\tscore\n2\td1\t1\nq1\t3\t2\n2\td2\t-1\n"


def lines(records) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.fixture
def files():
    return {"corpus.jsonl": lines(CORPUS), "queries.jsonl": lines(QUERIES), "qrels/test.tsv": QRELS}


@pytest.fixture
def folder(tmp_path, files):
    return write(tmp_path / "toys", files)


def check(dataset) -> None:
    assert dataset.name == "toys"
    assert dataset.corpus.ids.to_list() == ["d1", "d2", "3", "d4", "d5"]
    assert dataset.corpus.texts.to_pylist() == TEXTS
    assert dataset.corpus.empty_rows.tolist() == [4]
    assert dataset.queries.ids.to_list() == ["q1", "2", "q3"]
    assert dataset.queries.texts.to_pylist() == ["first?", "second?", ""]
    assert dataset.qrels.query_ids.to_list() == ["2", "q1"]
    assert dataset.qrels.doc_ids.to_list() == ["d1", "3", "d2"]
    assert dataset.qrels.indptr.tolist() == [0, 2, 3]
    assert dataset.qrels.rows.tolist() == [0, 2, 1]
    assert dataset.qrels.grades.tolist() == [1, -1, 2]


def test_folder(folder):
    check(load_dataset(str(folder)))
    check(load_dataset(folder))


def test_gzip_members(tmp_path, files):
    check(load_dataset(write(tmp_path / "toys", {f"{name}.gz": gzip.compress(files[name].encode()) for name in files})))


@pytest.mark.parametrize("top", ["", "toys/", "any name/"])
@pytest.mark.parametrize("pack", [False, True])
def test_zip(tmp_path, files, top, pack):
    with zipfile.ZipFile(tmp_path / "toys.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        if top:
            archive.mkdir(top)
        archive.writestr("__MACOSX/._x", "")
        for name, text in files.items():
            if pack:
                archive.writestr(f"{top}{name}.gz", gzip.compress(text.encode()))
            else:
                archive.writestr(f"{top}{name}", text)
    check(load_dataset(str(tmp_path / "toys.zip")))


def test_relative_paths_and_names_of_folders(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    check(load_dataset("./toys"))
    check(load_dataset("toys"))
    monkeypatch.chdir(folder)
    check(load_dataset("."))


def test_byte_order_marks_crlf_and_blank_lines_are_accepted_and_noted(tmp_path, files):
    odd = {name: b"\xef\xbb\xbf\r\n" + text.replace("\n", "\r\n  \r\n").encode() for name, text in files.items()}
    dataset = load_dataset(write(tmp_path / "toys", odd))
    check(dataset)
    assert dataset.provenance["notes"].count("a byte-order mark on line 1 was ignored") == 3
    assert "corpus.jsonl: 6 blank lines were ignored" in dataset.provenance["notes"]


def test_last_line_without_end(tmp_path, files):
    check(load_dataset(write(tmp_path / "toys", {name: text.rstrip("\n") for name, text in files.items()})))


def test_judgments_without_header(tmp_path, files):
    files["qrels/test.tsv"] = QRELS.partition("\n")[2]
    check(load_dataset(write(tmp_path / "toys", files)))


def test_no_judgments(tmp_path, files):
    del files["qrels/test.tsv"]
    dataset = load_dataset(write(tmp_path / "toys", files))
    assert dataset.qrels is None
    assert dataset.provenance["split"] == ""


def test_documents_alone(tmp_path, files):
    folder = write(tmp_path / "toys", {"corpus.jsonl": files["corpus.jsonl"]})
    assert load_corpus(folder).texts.to_pylist() == TEXTS
    with pytest.raises(
        DataError, match=r"there is no 'queries.jsonl'(.|\n)*one .* per line; or .* In Python, .*load_corpus"
    ):
        load_dataset(folder)


def test_content_digest_is_independent_of_place_and_packing(tmp_path, files, folder):
    packed = write(tmp_path / "packed", {f"{name}.gz": gzip.compress(text.encode()) for name, text in files.items()})
    first, second = load_dataset(folder), load_dataset(packed)
    assert first.corpus.digest == second.corpus.digest
    assert first.queries.digest == second.queries.digest
    assert first.corpus.digest != first.queries.digest


class TestSplits:
    @pytest.fixture
    def split_folder(self, tmp_path, files):
        del files["qrels/test.tsv"]
        files["qrels/train.tsv"] = "query-id\tcorpus-id\tscore\nq1\td1\t1\n"
        files["qrels/dev.tsv.gz"] = gzip.compress(b"query-id\tcorpus-id\tscore\n2\td1\t1\n")
        return write(tmp_path / "toys", files)

    def test_queries_that_only_other_splits_judge_are_left_out(self, split_folder):
        dataset = load_dataset(split_folder, split="dev")
        assert dataset.queries.ids.to_list() == ["2", "q3"]
        assert dataset.queries.texts.to_pylist() == ["second?", ""]
        assert dataset.provenance["queries_of_other_splits"] == "1"
        assert dataset.provenance["splits"] == "dev, train"
        assert dataset.queries.digest != load_dataset(split_folder, split="train").queries.digest

    def test_several_splits_without_test_must_be_chosen(self, split_folder):
        with pytest.raises(UsageError, match="choose one: dev, train"):
            load_dataset(split_folder)

    def test_test_is_the_default(self, split_folder):
        write(split_folder, {"qrels/test.tsv": QRELS})
        check(load_dataset(split_folder))

    def test_the_only_split_is_the_default(self, split_folder):
        (split_folder / "qrels" / "train.tsv").unlink()
        assert load_dataset(split_folder).provenance["split"] == "dev"

    def test_a_wrong_split_lists_what_there_is(self, split_folder):
        with pytest.raises(UsageError, match=r"no split 'dve' \(did you mean 'dev'\?\)\n  there are: dev, train"):
            load_dataset(split_folder, split="dve")

    def test_a_split_of_a_collection_without_judgments(self, folder):
        shutil.rmtree(folder / "qrels")
        with pytest.raises(UsageError, match="no judgments"):
            load_dataset(folder, split="test")


class TestPlaces:
    def test_unknown_name(self):
        with pytest.raises(UnknownNameError, match=r"unknown dataset 'cacn'\n  did you mean 'cacm'"):
            load_dataset("cacn")

    def test_empty_name(self):
        with pytest.raises(UsageError, match="empty name"):
            load_dataset("")

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("./none", "does not exist"),
            ("./file.tar.gz", "is a tar archive, which is not read\n  unpack it"),
            ("./bad.zip", "not a readable zip"),
        ],
    )
    def test_paths_that_hold_no_collection(self, tmp_path, monkeypatch, name, expected):
        write(tmp_path, {"file.tar.gz": b"x", "bad.zip": b"PK but no archive"})
        monkeypatch.chdir(tmp_path)
        with pytest.raises(DataError, match=expected):
            load_dataset(name)

    def test_empty_archive(self, tmp_path):
        zipfile.ZipFile(tmp_path / "toys.zip", "w").close()
        with pytest.raises(DataError, match="is an empty archive"):
            load_dataset(tmp_path / "toys.zip")

    def test_missing_corpus_names_what_is_there(self, folder):
        (folder / "corpus.jsonl").rename(folder / "corpse.jsonl")
        with pytest.raises(DataError, match=r"no 'corpus.jsonl' .*did you mean 'corpse.jsonl'\?.*qrels/test.tsv"):
            load_dataset(folder)

    def test_plain_and_packed_file_at_once(self, folder):
        write(folder, {"corpus.jsonl.gz": gzip.compress(b"")})
        with pytest.raises(DataError, match="holds both"):
            load_dataset(folder)


CARD = """
name = "toys"
summary = "Five toys"
format = "beir"
path = "toys"
language = "en"
licence = "CC0-1.0"
source = "made up"
"""


class TestCards:
    @pytest.fixture
    def add_card(self, tmp_path, files):
        def add(more: str = "") -> Path:
            write(tmp_path / "datasets", {"toys.toml": CARD + more})
            write(tmp_path / "datasets" / "toys", files)
            return tmp_path

        return add

    def test_by_name(self, add_card):
        facts = "[facts]\ndocuments = 5\nempty_documents = 1\nqueries = 3\njudgments = { test = 3 }\n"
        dataset = load_dataset("toys", cards=add_card(facts))
        check(dataset)
        assert dataset.provenance["licence"] == "CC0-1.0"
        assert dataset.provenance["language"] == "en"

    @pytest.mark.parametrize(
        ("rule", "texts", "described"),
        [
            ('separator = "\\n"', ["One\nfirst text", "second text"], "title + '\\n' + text"),
            ('fields = ["text"]', ["first text", "second text"], "text alone"),
            ('fields = ["title"]', ["One", ""], "title alone"),
            ('fields = ["text", "title"]', ["first text One", "second text"], "text + ' ' + title"),
        ],
    )
    def test_join_rule(self, add_card, rule, texts, described):
        dataset = load_dataset("toys", cards=add_card(f"[text]\n{rule}\n"))
        assert dataset.corpus.texts.to_pylist()[:2] == texts
        assert dataset.provenance["join"].startswith(described)

    @pytest.mark.parametrize(
        ("facts", "expected"),
        [
            ("documents = 6", "documents: 5, the card says 6"),
            ("empty_documents = 0", "empty documents: 1, the card says 0"),
            ("queries = 4", "queries: 3, the card says 4"),
            ("judgments = { test = 4 }", "judgments of the split 'test': 3, the card says 4"),
            ("judgments = { tset = 4 }", "there is no split 'tset'"),
            (f'[sha256]\n"queries.jsonl" = "{"0" * 64}"', "the SHA-256 of 'queries.jsonl' is"),
            (f'[sha256]\n"querys.jsonl" = "{"0" * 64}"', "there is no file 'querys.jsonl'"),
        ],
    )
    def test_facts_are_verified(self, add_card, facts, expected):
        with pytest.raises(DataError) as caught:
            load_dataset("toys", cards=add_card(f"[facts]\n{facts}\n"))
        assert expected in str(caught.value)
        assert "toys.toml" in str(caught.value)

    def test_stated_judgments_of_unknown_documents_are_accepted_and_counted(self, add_card, files):
        files["qrels/test.tsv"] += "q1\tgone\t1\n"
        unstated = load_dataset("toys", cards=add_card())
        assert [finding.check for finding in dataset_findings(unstated)] == ["unknown-judged-documents"]
        dataset = load_dataset("toys", cards=add_card("[facts]\njudgments_of_unknown_documents = { test = 1 }\n"))
        assert dataset.provenance["judgments_of_unknown_documents"] == "1"
        assert dataset_findings(dataset) == []
        assert "gone" in dataset.qrels.doc_ids.to_list()
        with pytest.raises(DataError, match="line 5: document 'gone'"):
            load_dataset("toys", cards=add_card("[facts]\njudgments_of_unknown_documents = { test = 2 }\n"))


class TestCache:
    def test_a_second_load_does_not_parse_again(self, folder, tmp_path, monkeypatch):
        cache = Cache(tmp_path / "cache")
        first = load_dataset(folder, cache=cache)
        monkeypatch.setattr("harness.loaders.prepared._build", None)
        again = load_dataset(folder, cache=Cache(cache.root))
        check(again)
        assert again.corpus.path == first.corpus.path
        assert again.corpus.path.is_relative_to(cache.root)

    def test_an_edited_file_is_read_anew_whatever_its_time_and_size(self, folder, tmp_path):
        import os

        cache, path = Cache(tmp_path / "cache"), folder / "corpus.jsonl"
        load_dataset(folder, cache=cache)
        stat = path.stat()
        path.write_text(path.read_text().replace("first text", "worst text"))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert load_dataset(folder, cache=cache).corpus.texts[0].as_py() == "One worst text"

    def test_a_damaged_prepared_corpus_is_rebuilt(self, folder, tmp_path, caplog):
        cache = Cache(tmp_path / "cache")
        path = load_dataset(folder, cache=cache).corpus.path
        content = bytearray(path.read_bytes())
        content[content.index(b"second text")] = ord("X")
        path.write_bytes(content)
        check(load_dataset(folder, cache=Cache(cache.root)))
        assert "is damaged and is rebuilt: the checksum of 'texts.arrow' is wrong" in caplog.text

    def test_a_file_that_changes_while_it_is_read(self, folder, tmp_path, monkeypatch):
        from harness.loaders import parts

        read = parts.read_records

        def read_and_change(*arguments, **options):
            yield from read(*arguments, **options)
            with (folder / "corpus.jsonl").open("a") as stream:
                stream.write("\n")

        load_dataset(folder, cache=Cache(tmp_path / "cache"))
        (folder / "corpus.jsonl").write_text(lines(CORPUS[:3]))
        monkeypatch.setattr(parts, "read_records", read_and_change)
        with pytest.raises(DataError, match="changed while it was being read"):
            load_dataset(folder, cache=Cache(tmp_path / "cache"))


class Recorder:
    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def start(self, phase, total) -> None:
        self.calls.append((phase, total))

    def advance(self, amount) -> None:
        self.calls.append((amount,))


def test_progress_counts_documents(folder, tmp_path):
    recorder = Recorder()
    load_dataset(folder, cache=Cache(tmp_path / "cache"), progress=recorder)
    assert recorder.calls == [("reading corpus.jsonl", None), (5,)]


def test_many_batches(tmp_path, files):
    count = 20_000
    files["corpus.jsonl"] = "".join(f'{{"_id":"d{row}","text":"text {row}"}}\n' for row in range(count))
    files["qrels/test.tsv"] = f"query-id\tcorpus-id\tscore\nq1\td{count - 1}\t1\n"
    corpus = load_dataset(write(tmp_path / "toys", files)).corpus
    assert len(corpus) == count
    assert corpus.texts.num_chunks > 1
    assert corpus.ids[count - 1] == f"d{count - 1}"
    assert corpus.texts[count - 1].as_py() == f"text {count - 1}"


@pytest.mark.parametrize(
    "member", ["../outside.txt", "toys/../../outside.txt", "/etc/outside", "..\\outside", "C:\\outside", "toys/.."]
)
def test_a_zip_whose_members_lead_outside_is_refused(tmp_path, files, member):
    with zipfile.ZipFile(tmp_path / "toys.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(f"toys/{name}", text)
        archive.writestr(member, "overwritten")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match=r"leads out of the archive\n.*made to overwrite files") as raised:
        load_dataset(tmp_path / "toys.zip")
    assert f"the member '{member}'" in str(raised.value).replace("\\\\", "\\")
    assert sorted(tmp_path.rglob("*")) == before


def test_names_with_dots_that_stay_inside_are_read(tmp_path, files):
    with zipfile.ZipFile(tmp_path / "toys.zip", "w") as archive:
        for name, text in {**files, "..notes": "", "a..b/c...": ""}.items():
            archive.writestr(f"toys/{name}", text)
    check(load_dataset(tmp_path / "toys.zip"))
