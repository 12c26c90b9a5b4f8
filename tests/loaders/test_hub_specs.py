"""What a spec of the hub names, and how parts of a repository are found by their names."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from installed import skip_module_without

from harness.errors import MissingExtraError, UsageError
from harness.loaders import load_dataset
from harness.loaders.base import DatasetSpec
from harness.loaders.hub_layouts import LAYOUTS
from harness.loaders.hub_repository import Config, Listing, _beir_configs, _lacking_shards
from harness.loaders.hugging_face import HubLoader, _config_of, _HubLocation, _language
from harness.loaders.registry import loader_for

skip_module_without("huggingface_hub")

WORD = st.from_regex(re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,8}"), fullmatch=True).filter(
    lambda word: ".." not in word
)


@given(
    organisation=WORD, name=WORD, revision=st.none() | WORD | st.just("refs/convert/parquet"), config=st.none() | WORD
)
def test_a_spec_is_read_as_it_was_put_together(organisation, name, revision, config):
    text = f"hf:{organisation}/{name}" + (f"@{revision}" if revision else "") + (f":{config}" if config else "")
    place = _HubLocation.parse(text, network=False)
    assert place.repository.name == f"{organisation}/{name}"
    assert place.repository.revision == (revision or "main")
    assert place.config == (config or "")
    assert isinstance(loader_for(DatasetSpec(text)), HubLoader)


@pytest.mark.parametrize("text", ["hf:", "hf:a/b/c", "hf:a b", "hf:@main", "hf:a/b@../../x", "hf:a/b@", "hf:a/b:"])
def test_other_texts_are_refused_with_an_example(text):
    with pytest.raises(UsageError, match="names no dataset of the hub\n  write hf:ORG/NAME"):
        _HubLocation.parse(text, network=False)


def listing(*names: str) -> Listing:
    return Listing({name: Config({"train": ("a.parquet",)}) for name in names})


def test_configurations_are_found_as_mteb_finds_them():
    one = listing("corpus", "queries", "query", "default", "qrels", "bm25")
    assert _config_of(one, "documents", "") == "corpus"
    assert _config_of(one, "queries", "") == "query"
    assert _config_of(one, "qrels", "") == "default"
    assert _config_of(listing("corpus", "qrels"), "qrels", "") == "qrels"
    several = listing("ko-corpus", "ko-queries", "ko-qrels", "kor-corpus", "corpus")
    assert _config_of(several, "documents", "ko") == "ko-corpus"
    assert _config_of(several, "qrels", "ko") == "ko-qrels"
    assert _config_of(several, "qrels", "kor") is None


@pytest.mark.parametrize(
    ("languages", "subset", "code"),
    [
        (["en"], "", "en"),
        (["kor"], "", "ko"),
        (["zh-CN"], "", "zh"),
        ([], "", None),
        (["en", "ko"], "", None),
        (["en", "ko"], "ko", "ko"),
        (["eng", "kor"], "kor_Hang-kor_Hang", "ko"),
        (["en", "ko"], "fr", None),
        (["en", "ko"], "covid", None),
        (["multilingual"], "", None),
    ],
)
def test_the_language_is_that_of_the_card_or_of_the_subset(languages, subset, code):
    assert _language(languages, subset) == code


def test_numbered_files_tell_which_of_them_are_missing():
    names = ["c/corpus-00000-of-00003.parquet", "c/corpus-00002-of-00003.parquet", "q/q-00000-of-00001-ab12.parquet"]
    assert _lacking_shards(names) == ["c/corpus-00001-of-00003.parquet"]
    assert _lacking_shards(["docs-1.jsonl.gz"]) == []


def test_files_of_beirs_layout_are_parts():
    names = ["corpus.jsonl.gz", "queries.jsonl", "qrels/test.tsv", "qrels/dev.tsv", "README.md", "notes/corpus.jsonl"]
    parts = _beir_configs(names)
    assert parts["corpus"].splits == {"corpus": ("corpus.jsonl.gz",)}
    assert parts["qrels"].splits == {"test": ("qrels/test.tsv",), "dev": ("qrels/dev.tsv",)}
    assert _beir_configs(["queries.jsonl", "qrels/test.tsv"]) == {}


def test_miracls_languages_need_one_name_and_mmarcos_may_have_two():
    repository = _HubLocation.parse("hf:miracl/miracl", network=False).repository

    def other(name: str):
        return _HubLocation.parse(f"hf:{name}", network=False).repository

    parts = LAYOUTS["miracl/miracl"].parts(repository, "de", other)
    assert len(parts.documents["corpus"].names) == 32
    assert list(parts.judgments) == ["dev"]
    with pytest.raises(UsageError, match="unknown language of hf:miracl/miracl 'de-en'"):
        LAYOUTS["miracl/miracl"].parts(repository, "de-en", other)
    pair = LAYOUTS["unicamp-dl/mmarco"].parts(repository, "ZH-en", other)
    assert pair.documents["corpus"].names == ("data/google/collections/chinese_collection.tsv",)
    assert pair.queries["dev.small"].names == ("data/google/queries/dev/english_queries.dev.small.tsv",)
    assert pair.judgments["dev.small"].names == ("data/qrels.dev.small.tsv",)
    assert pair.language is None


def test_without_the_hubs_client_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"needs the Python module 'huggingface_hub'.*\n.*\[hub\]"):
        load_dataset("hf:BeIR/scifact")
