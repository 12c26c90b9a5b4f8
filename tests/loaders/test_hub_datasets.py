"""One collection in every layout of the hub's repositories, and as a folder of BEIR's: the same metrics."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from hub_miniatures import (
    CONTENT,
    binary,
    write_beir_repositories,
    write_miracl,
    write_mmarco,
    write_mteb_repository,
    write_nano_repository,
)
from hub_stub import DatasetHub, serving, use
from installed import skip_module_without
from miniatures import Content, beir_folder

import harness
from harness.data.dataset import DatasetFiles
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders import load_dataset
from harness.loaders.base import DatasetSpec, Downloader
from harness.loaders.fetching import fetch_dataset, remove_prepared, stored_files
from harness.loaders.hub_layouts import LAYOUTS
from harness.loaders.hugging_face import HubLoader
from harness.loaders.registry import loaders
from harness.store.cache import Cache

pytestmark = pytest.mark.integration

skip_module_without("datasets")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)
    with serving(DatasetHub(tmp_path / "hub")) as stub:
        use(stub, tmp_path / "hub cache", monkeypatch)
        yield stub


def figures(dataset: str | Path, split: str | None = None, **options):
    compared = harness.compare(
        "csr:analyzer=whitespace", str(dataset), k=10, split=split, isolation="none", timing=False, **options
    )
    (backend,) = compared.report.trials
    return {name: (one.mean, one.ci_low, one.ci_high) for name, one in backend.metrics.items()}


def texts(dataset) -> dict[str, str]:
    return dict(zip(dataset.corpus.ids.values.to_pylist(), dataset.corpus.texts.to_pylist(), strict=True))


def grades(dataset) -> dict[str, dict[str, int]]:
    qrels = dataset.qrels
    docs = [qrels.doc_ids[row] for row in qrels.rows.tolist()]
    found = {}
    for number, query in enumerate(qrels.query_ids.values.to_pylist()):
        place = slice(qrels.indptr[number], qrels.indptr[number + 1])
        found[query] = dict(zip(docs[place], qrels.grades[place].tolist(), strict=True))
    return found


def same_as_beir(spec: str, folder: Path, content: Content, split: str, of: str | None = None) -> None:
    """Hold a spec against the content in BEIR's layout: texts, judgments, and every metric to the last digit."""
    beir = beir_folder(content, folder)
    ours, theirs = load_dataset(spec, split=of or split), load_dataset(beir, split=split)
    assert texts(ours) == texts(theirs)
    assert grades(ours) == grades(theirs) == content.qrels[split]
    rule = ours.identical_ids or "keep"
    assert figures(spec, of or split) == figures(beir, split, identical_ids=rule)


@pytest.mark.parametrize("split", ["test", "train"])
def test_two_repositories_of_beir(hub, tmp_path, split):
    write_beir_repositories(hub.root, CONTENT)
    same_as_beir("hf:BeIR/mini", tmp_path / "beir", CONTENT, split)


def test_beir_repositories_drop_identical_ids_and_the_queries_of_other_splits(hub):
    write_beir_repositories(hub.root, CONTENT)
    dataset = load_dataset("hf:BeIR/mini")
    assert dataset.identical_ids == "drop"
    assert dataset.queries.ids.values.to_pylist() == ["q1", "q2", "3", "unjudged"]
    commits = [hub.commit_of(name) for name in ("BeIR/mini", "BeIR/mini-qrels")]
    assert dataset.provenance["repositories"] == f"BeIR/mini@{commits[0]}, BeIR/mini-qrels@{commits[1]}"
    assert dataset.provenance["splits"] in {"test, train", "train, test"}


@pytest.mark.parametrize("split", ["test", "train"])
def test_one_repository_as_mteb_has_it(hub, tmp_path, split):
    write_mteb_repository(hub.root, CONTENT)
    same_as_beir("hf:mteb/mini", tmp_path / "beir", CONTENT, split)


def test_a_subset_of_a_repository_in_several_languages(hub, tmp_path):
    write_mteb_repository(hub.root, CONTENT, "mteb/languages", ("ko", "de"))
    same_as_beir("hf:mteb/languages:ko", tmp_path / "beir", CONTENT, "test")
    assert {name for name in hub.fetched if "/" in name} == {
        f"ko-{part}-00000-of-00001.parquet"
        for part in ("corpus/corpus", "queries/queries", "qrels/test", "qrels/train")
    }
    with pytest.raises(UsageError, match=r"has several subsets\n.*: ko, de"):
        load_dataset("hf:mteb/languages")
    with pytest.raises(UsageError, match=r"no subset 'dee' \(did you mean 'de'\?\)"):
        load_dataset("hf:mteb/languages:dee")


def test_nanobeir_has_one_split_and_no_grades(hub, tmp_path):
    write_nano_repository(hub.root, binary())
    content = binary().without_titles()
    same_as_beir("hf:zeta-alpha-ai/NanoMini", tmp_path / "beir", content, "test", of="train")
    assert load_dataset("hf:zeta-alpha-ai/NanoMini").provenance["split"] == "train"


@pytest.mark.parametrize("split", ["test", "train"])
def test_miracl_from_its_files(hub, tmp_path, split):
    content = CONTENT.of_splits(dev="test", train="train")
    write_miracl(hub.root, content, "ko")
    asked = {name: text for name, text in CONTENT.queries.items() if name in CONTENT.qrels[split]}
    of = {"test": "dev", "train": "train"}[split]
    one = replace(content, queries=asked, qrels={of: CONTENT.qrels[split]})
    same_as_beir("hf:miracl/miracl:ko", tmp_path / "beir", one, of)


def test_miracl_keeps_identical_ids_and_takes_dev_by_itself(hub):
    write_miracl(hub.root, CONTENT.of_splits(dev="test", train="train"), "ko")
    dataset = load_dataset("hf:miracl/miracl:ko")
    assert (dataset.identical_ids, dataset.provenance["split"]) == ("keep", "dev")
    # the relevant document that has its query's id counts
    assert figures("hf:miracl/miracl:ko") != figures("hf:miracl/miracl:ko", identical_ids="drop")
    loaded = HubLoader().load(DatasetSpec("hf:miracl/miracl:ko"), None, None)
    assert loaded.language == "ko"


def use_miniature_judgments(hub: DatasetHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the collection's judgments be those of the miniature."""
    content = (hub.root / "unicamp-dl/mmarco/data/qrels.dev.small.tsv").read_bytes()
    layout = LAYOUTS["unicamp-dl/mmarco"]
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    known = {**LAYOUTS, "unicamp-dl/mmarco": replace(layout, md5={"dev.small": md5})}
    monkeypatch.setattr("harness.loaders.hugging_face.LAYOUTS", known)


def test_queries_of_a_split_with_judgments_of_the_user(hub, tmp_path):
    """A pair of languages has queries in two splits; the usual one is taken, or that of --split."""
    content = CONTENT.without_titles().of_splits(**{"dev.small": "test", "dev": "train"})
    write_mmarco(hub.root, content, "german", "english")
    qrels = tmp_path / "mine.qrels"
    for split, chosen in ((None, "dev.small"), ("dev", "dev")):
        judged = content.judgments(chosen)
        qrels.write_text("".join(f"{query} 0 {document} {grade}\n" for query, document, grade in judged))
        dataset = load_dataset("hf:unicamp-dl/mmarco:de-en", files=DatasetFiles(qrels=qrels), split=split)
        assert set(dataset.queries.ids) == {query for query, _, _ in judged}
        assert len(dataset.qrels) == len(judged)
        assert dataset.provenance["split of the queries"] == chosen
    with pytest.raises(UsageError, match=r"has no split 'test'\n  there are: dev\.small, dev"):
        load_dataset("hf:unicamp-dl/mmarco:de-en", files=DatasetFiles(qrels=qrels), split="test")


def test_mmarco_in_two_languages(hub, tmp_path, monkeypatch):
    content = CONTENT.without_titles().of_splits(**{"dev.small": "test"})
    write_mmarco(hub.root, content, "german", "german")
    asked = replace(content, queries=CONTENT.judged_queries("test"))
    use_miniature_judgments(hub, monkeypatch)
    same_as_beir("hf:unicamp-dl/mmarco:de", tmp_path / "de", asked, "dev.small")
    spanish = replace(asked, queries={name: f"{text} red" for name, text in asked.queries.items()})
    write_mmarco(hub.root, replace(spanish, documents={"x": ("", "y")}), "spanish", "spanish")
    # the judgments are the same file, and the hub's branch moved on
    commit = hub.commit_of("unicamp-dl/mmarco")
    same_as_beir(f"hf:unicamp-dl/mmarco@{commit}:de-es", tmp_path / "de-es", spanish, "dev.small")
    assert HubLoader().load(DatasetSpec("hf:unicamp-dl/mmarco:de"), None, None).language == "de"
    both = load_dataset(f"hf:unicamp-dl/mmarco@{commit}:de-es")
    assert both.provenance["languages"] == "documents de, queries es"
    with pytest.raises(UnknownNameError, match=r"unknown language of .* 'ko'"):
        load_dataset("hf:unicamp-dl/mmarco:ko-en")


def test_another_split_than_the_usual_one_may_be_here(hub, monkeypatch):
    content = CONTENT.without_titles()
    write_mmarco(hub.root, content.of_splits(**{"dev.small": "test", "dev": "train"}), "german", "german")
    monkeypatch.setattr(
        "harness.loaders.hugging_face.LAYOUTS",
        {**LAYOUTS, "unicamp-dl/mmarco": replace(LAYOUTS["unicamp-dl/mmarco"], md5={})},
    )
    spec = "hf:unicamp-dl/mmarco:de"
    assert load_dataset(spec, split="dev").queries.ids.to_list() == ["q4", "q5"]
    assert HubLoader().local_files(DatasetSpec(spec)).complete is None
    assert load_dataset(spec).queries.ids.to_list() == ["q1", "q2", "3"], "the split of the card and of the papers"
    assert HubLoader().local_files(DatasetSpec(spec)).complete


def test_judgments_that_are_not_ms_marcos_are_refused(hub):
    write_mmarco(hub.root, CONTENT.without_titles().of_splits(**{"dev.small": "test"}), "german", "german")
    with pytest.raises(
        DataError, match="but the MD5 of the collection's judgments is 38a80559a561707ac2ec0f150ecd1e8a"
    ):
        load_dataset("hf:unicamp-dl/mmarco:de")


def test_the_languages_and_files_of_the_layouts_are_those_of_the_collections():
    miracl, mmarco = LAYOUTS["miracl/miracl"], LAYOUTS["unicamp-dl/mmarco"]
    assert len(miracl.languages) == 18
    # counts of the corpus files in ir_datasets' list of downloads
    assert sum(one.files for one in miracl.languages.values()) == 222
    assert [code for code, one in miracl.languages.items() if one.splits == ("dev",)] == ["de", "yo"]
    assert len(mmarco.languages) == 14


def test_ids_stay_as_they_are_written_in_csv_too(hub):
    folder = hub.root / "x/texts"
    folder.mkdir(parents=True)
    (folder / "train.csv").write_text("id,text\n007,one\n2020-01-01,two\n1e5,three\n", encoding="utf-8")
    (hub.root / "q.jsonl").write_text('{"_id": "1", "text": "one"}\n')
    files = DatasetFiles(queries=hub.root / "q.jsonl")
    dataset = load_dataset("hf:x/texts", files=files)
    assert dataset.corpus.ids.values.to_pylist() == ["007", "2020-01-01", "1e5"]
    assert dataset.qrels is None


def test_columns_of_other_names_are_named_by_the_user(hub):
    folder = hub.root / "x/texts"
    folder.mkdir(parents=True)
    (folder / "train.csv").write_text("key,headline\n1,one\n", encoding="utf-8")
    (hub.root / "q.jsonl").write_text('{"_id": "1", "text": "one"}\n')
    query = hub.root / "q.jsonl"
    with pytest.raises(DataError, match="there are: key, headline"):
        load_dataset("hf:x/texts", files=DatasetFiles(queries=query))
    named = DatasetFiles(queries=query, columns={"id": "key", "text": "headline"})
    assert texts(load_dataset("hf:x/texts", files=named)) == {"1": "one"}


def test_configurations_that_cannot_be_told_apart_are_listed_and_may_be_named(hub, tmp_path):
    write_mteb_repository(hub.root, CONTENT, "x/odd")
    card = hub.root / "x/odd/README.md"
    features = "dataset_info:\n- config_name: passages-of-it\n  features:\n  - name: _id\n    dtype: string\n"
    renamed = card.read_text().replace("name: corpus", "name: passages-of-it").replace("name: default", "name: labels")
    card.write_text(renamed.replace("configs:", f"{features}configs:"))
    with pytest.raises(DataError) as raised:
        load_dataset("hf:x/odd")
    assert "'passages-of-it' (splits corpus; columns _id), 'queries' (splits queries)" in str(raised.value)
    assert "'labels' (splits test, train)" in str(raised.value)
    named = "hf:x/odd:documents=passages-of-it,queries=queries,qrels=labels"
    same_as_beir(named, tmp_path / "beir", CONTENT, "test")
    assert len(load_dataset(f"{named}/train").qrels) == 3
    with pytest.raises(DataError, match="no configuration 'label'"):
        load_dataset("hf:x/odd:documents=passages-of-it,qrels=label")
    with pytest.raises(UsageError, match="'document=a' names no part"):
        load_dataset("hf:x/odd:document=a")


def test_a_repository_in_beirs_own_layout_without_a_card(hub, tmp_path):
    beir_folder(CONTENT, hub.root / "x/dump")
    same_as_beir("hf:x/dump", tmp_path / "beir", CONTENT, "train")


def test_a_split_of_many_has_its_own_documents_and_queries(hub):
    small = replace(binary(), documents=dict(list(CONTENT.documents.items())[:10]))
    for name in ("NanoA", "NanoB"):
        write_nano_repository(hub.root, binary() if name == "NanoA" else small, f"x/{name}")
        for part in ("corpus", "queries", "qrels"):
            target = hub.root / f"st/NanoBEIR-en/{part}/{name}-00000-of-00001.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            (hub.root / f"x/{name}/{part}/train-00000-of-00001.parquet").rename(target)
    lines = ["---", "configs:"]
    for part in ("corpus", "queries", "qrels"):
        lines += [f"- config_name: {part}", "  data_files:"]
        for name in ("NanoA", "NanoB"):
            lines += [f"  - split: {name}", f"    path: {part}/{name}-*"]
    (hub.root / "st/NanoBEIR-en/README.md").write_text("\n".join([*lines, "---", ""]))
    with pytest.raises(UsageError, match=r"several splits and no 'test'\n.*choose one: NanoA, NanoB"):
        load_dataset("hf:st/NanoBEIR-en")
    assert len(load_dataset("hf:st/NanoBEIR-en", split="NanoA").corpus) == 12
    hub.fetched.clear()
    dataset = load_dataset("hf:st/NanoBEIR-en", split="NanoB")
    assert "12" in dataset.qrels.doc_ids.to_list()
    assert "12" not in dataset.corpus.ids.to_list(), "its documents are only those of NanoB"
    # the queries and judgments of both are the same bytes, which the hub's cache has
    assert hub.fetched == ["corpus/NanoB-00000-of-00001.parquet"]


def test_documents_to_rank_among_are_given_on(hub):
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_mteb_repository(hub.root, CONTENT)
    rows = [{"query-id": "q1", "corpus-ids": ["007", "7"]}, {"query-id": "3", "corpus-ids": ["39#0"]}]
    pq.write_table(pa.Table.from_pylist(rows), hub.root / "mteb/mini/top.parquet")
    card = hub.root / "mteb/mini/README.md"
    config = "configs:\n- config_name: top_ranked\n  data_files:\n  - split: test\n    path: top.parquet"
    card.write_text(card.read_text().replace("configs:", config))
    loaded = HubLoader().load(DatasetSpec("hf:mteb/mini"), None, None)
    assert loaded.language == "en"
    assert loaded.candidates is not None
    assert loaded.candidates() == {"q1": ["007", "7"], "3": ["39#0"]}


def test_a_folder_of_this_machine_is_read_like_a_repository(hub, tmp_path):
    write_beir_repositories(tmp_path / "local", CONTENT)
    same_as_beir(f"hf:{tmp_path}/local/BeIR/mini", tmp_path / "beir", CONTENT, "test")
    assert hub.fetched == []


def test_a_folder_of_this_machine_is_no_download_and_is_never_removed(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_beir_repositories(tmp_path, CONTENT)
    before, cache = sorted(tmp_path.joinpath("BeIR").rglob("*")), Cache(tmp_path / "cache")
    fetched = fetch_dataset("hf:./BeIR/mini", cache=cache)
    assert fetched.stored.downloaded is None
    assert len(fetched.stored.prepared) == 2
    assert remove_prepared("hf:./BeIR/mini", cache=cache).freed > 0
    assert stored_files("hf:./BeIR/mini", cache=cache).prepared == ()
    assert sorted(tmp_path.joinpath("BeIR").rglob("*")) == before
    with pytest.raises(DataError, match=r"^hf:\./BeIR/other: 1 problem\n  there is no such folder"):
        stored_files("hf:./BeIR/other")


def test_files_that_no_card_tells_apart_are_one_problem(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_mteb_repository(tmp_path, CONTENT)
    (folder,) = {path.parent for path in tmp_path.rglob("README.md")}
    (folder / "README.md").unlink()
    with pytest.raises(DataError) as raised:
        load_dataset(f"hf:./{folder.relative_to(tmp_path)}")
    assert str(raised.value).startswith(f"hf:./{folder.relative_to(tmp_path)}: 1 problem\n")
    assert "no README.md with 'configs:' states which files are documents, queries" in str(raised.value)


def test_what_is_here_is_told(hub):
    write_beir_repositories(hub.root, CONTENT)
    write_mteb_repository(hub.root, CONTENT, "mteb/languages", ("ko", "de"))
    loader = loaders()["hf"]
    assert isinstance(loader, Downloader)
    beir, ko, de = (DatasetSpec(f"hf:{name}") for name in ("BeIR/mini", "mteb/languages:ko", "mteb/languages:de"))
    assert loader.local_files(beir) == loader.local_files(ko) == type(loader.local_files(ko))((), 0, complete=False)
    for spec in (beir, ko, de):
        loader.load(spec, None, None)
        found = loader.local_files(spec)
        assert found.complete
        assert found.size == sum(path.stat().st_size for path in found.paths) > 0
    assert loader.local_files(DatasetSpec(f"hf:{hub.root}")) is None


def test_a_pair_of_languages_is_here_if_both_are(hub, monkeypatch):
    content = CONTENT.without_titles().of_splits(**{"dev.small": "test"})
    for language in ("german", "spanish"):
        write_mmarco(hub.root, content, language, language)
    use_miniature_judgments(hub, monkeypatch)
    loader = HubLoader()
    de, es, crossed = (DatasetSpec(f"hf:unicamp-dl/mmarco:{name}") for name in ("de", "es", "de-es"))
    loader.load(de, None, None)
    assert loader.local_files(crossed).complete is False
    loader.load(es, None, None)
    assert loader.local_files(crossed).complete
