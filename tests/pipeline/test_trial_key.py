"""What a stored trial is found under: everything that changes its hits, and parameters that change its times."""

from __future__ import annotations

import hashlib
import importlib
import sys
import tempfile
import zipfile
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from small_world import write_cards, write_collection

from harness.data.arrow import strings
from harness.data.dataset import Dataset
from harness.data.filtering import NO_FILTER, Conditions, QueryFilters
from harness.data.progress import SilentDisplay
from harness.engines.interface import EngineInfo, IndexReport, Remains, Storage
from harness.engines.qdrant.engine import QdrantEngine
from harness.errors import EngineUnavailableError, MissingExtraError
from harness.loaders import load_dataset
from harness.pipeline.probes import PROBES
from harness.pipeline.probes.filtering import FilteredSearch
from harness.pipeline.probes.load_runs import LoadRecord
from harness.pipeline.probes.rebuilds import BuildCost, RebuildHits
from harness.pipeline.resume import SCHEME, Identities, StoredTrials, trial_key
from harness.plan.config import CompareRequest
from harness.plan.plan import make_plan
from harness.registry.lookup import find_cards
from harness.registry.parameters import Parameter
from harness.store.cache import JSON, Cache
from harness.worker.executor import InProcess
from harness.worker.jobs import ChurnPass, ClientRecord, ExternalIndexRecord, TrialRecord
from harness.worker.process import FinishedProcess


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return load_dataset(str(write_collection(tmp_path / "small")), cache=Cache(tmp_path / "cache"))


def identities() -> Identities:
    """Asks engines in this process, where tests replace what they say."""
    return Identities(InProcess(), Path(tempfile.mkdtemp()), SilentDisplay())


def key(dataset: Dataset, backend: str, *, cards: Path | None = None, k: int = 10, **options: int) -> dict[str, JSON]:
    request = CompareRequest(backends=backend, cards=cards, **options)  # type: ignore[arg-type]
    (trial,) = make_plan(request, lucene_available=False).trials
    assert trial.spec.card is not None
    return trial_key(trial, trial.spec.card, dataset, k, identities())


def test_what_changes_hits_or_times_of_a_backend_is_in_the_key(dataset: Dataset) -> None:
    plain = key(dataset, "csr")
    for same in ({"repeat": 5}, {"seed": 7}, {"relevance": 2}):
        assert key(dataset, "csr", **same) == plain
    assert key(dataset, "csr:k1=0.9") == plain
    for other in ("csr:b=0.75", "csr:analyzer=whitespace", "csr:idf=false", "csr:threads=2"):
        assert key(dataset, other) != plain
    assert key(dataset, "csr", k=11) != plain
    assert key(dataset, "csr", threads=2) == key(dataset, "csr:threads=2")


def test_the_filter_of_each_query_is_in_the_key(dataset: Dataset) -> None:
    """So are the values of the documents; the order of a filter's fields is not."""
    size = len(dataset.corpus)
    metadata = pa.table({name: strings(["a", *["b"] * (size - 1)]) for name in ("f", "g")})

    def of_each(*conditions: Conditions, table: pa.Table = metadata) -> dict[str, JSON]:
        queries = len(dataset.queries)
        filters = [*conditions, *[conditions[-1]] * (queries - len(conditions))]
        return key(replace(dataset, filtered=QueryFilters.of_each(table, filters)), "csr")

    one, other, both = {"f": "a"}, {"f": "b"}, {"f": "a", "g": "a"}
    several = of_each(one, other)
    assert several == of_each(one, other)
    assert of_each(both, one) == of_each({"g": "a", "f": "a"}, one)
    different = [
        key(dataset, "csr"),
        several,
        of_each(one),  # of all queries
        of_each(other, one),
        of_each(one, other, one),  # another filter of one query
        of_each(one, NO_FILTER),
        of_each(both, other),
        of_each(one, other, table=metadata.set_column(0, "f", strings(["b", *["a"] * (size - 1)]))),
    ]
    assert len({orjson.dumps(each, option=orjson.OPT_SORT_KEYS) for each in different}) == len(different)


@pytest.mark.parametrize("name", ["csr", "lucene", "qdrant"])
def test_a_bundled_card_s_parameters_are_in_the_key_unless_they_affect_nothing(
    dataset: Dataset, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.text.lucene_analyzer.identity", lambda language, *, jar: {})
    monkeypatch.setattr("harness.engines.qdrant.engine.QdrantEngine.identity", lambda parameters: {})
    card = find_cards("backends")[name]
    dataset = replace(dataset, field_texts=pa.table({"lucene-german": strings([""] * len(dataset.corpus))}))
    plain = key(dataset, name)
    for parameter in card.parameters.values():
        if parameter.name in ("external", "jar"):  # one is never stored, the other is in the key by its digest
            continue
        (trial,) = make_plan(CompareRequest(backends=name), lucene_available=False).trials
        other = replace(trial, parameters={**trial.parameters, parameter.name: _another_value(parameter)})
        if parameter.name == "analyzer":
            other = replace(other, analyzer="lucene-german")
        changed = trial_key(other, card, dataset, 10, identities()) != plain
        assert changed == (parameter.affects != "nothing"), parameter.name


def test_the_texts_of_searched_fields_are_in_the_key(dataset: Dataset) -> None:
    titles = [f"title {row}" for row in range(len(dataset.corpus))]
    first, second = (
        replace(dataset, field_texts=pa.table({"title": strings(texts), "text": strings(texts)}))
        for texts in (titles, [*titles[1:], "another"])
    )
    backend = "sqlite:fields=title^3+text;analyzer=whitespace"
    assert key(first, backend) == key(first, backend)
    assert key(first, backend) != key(second, backend)
    assert key(first, "sqlite:analyzer=whitespace") == key(second, "sqlite:analyzer=whitespace")


def _another_value(parameter: Parameter) -> str | float:
    if parameter.choices:
        return next(choice for choice in parameter.choices if choice != parameter.default)
    if isinstance(parameter.default, bool):
        return not parameter.default
    return "lucene-german" if isinstance(parameter.default, str) else parameter.default + 1


def test_what_an_index_may_be_reopened_with_changes_no_hit() -> None:
    cards = find_cards("backends")
    no_hit = {parameter.name for parameter in cards["qdrant"].parameters.values() if parameter.affects != "hits"}
    of_search = set(cards["qdrant-dense"].scope("search")) | set(cards["qdrant-hybrid"].scope("search"))
    assert QdrantEngine.search_parameters == no_hit | of_search | {
        "url"
    }  # where a server is decides which index it holds


def test_an_unknown_threads_counts_as_changing_hits(dataset: Dataset, tmp_path: Path) -> None:
    cards = write_cards(tmp_path / "cards", mine="BruteForce")
    file = cards / "backends" / "mine.toml"
    declared = '[parameters.threads]\ntype = "int"\ndefault = 1\nscope = "engine"\nhelp = "threads"\n'
    file.write_text(f"{file.read_text()}\n{declared}")
    assert key(dataset, "mine:threads=2", cards=cards) != key(dataset, "mine", cards=cards)
    file.write_text(file.read_text().replace(declared, f'{declared}affects = "nothing"\n'))
    assert key(dataset, "mine:threads=2", cards=cards) == key(dataset, "mine", cards=cards)


def test_a_jar_is_its_content_and_another_heap_another_trial(dataset: Dataset, tmp_path: Path) -> None:
    jars = []
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).mkdir()
        jars.append(tmp_path / name / "anserini-1.7.1-fatjar.jar")
        with zipfile.ZipFile(jars[-1], "w") as archive:
            archive.writestr(zipfile.ZipInfo("io/anserini/analysis/AnalyzerMap.class"), content)
    one, copy, other = (key(dataset, f"lucene:jar={jar}") for jar in jars)
    assert one == copy != other
    assert key(dataset, f"lucene:jar={jars[0]};heap=1g") != one
    with pytest.raises(EngineUnavailableError):
        key(dataset, f"lucene:jar={tmp_path / 'absent.jar'}")


def test_the_version_of_the_engine_is_in_the_key(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    assert key(dataset, "qdrant")["identity"] == {"mode": "edge", "qdrant-edge-py": version("qdrant-edge-py")}
    assert key(dataset, "qdrant") == key(dataset, "qdrant:mode=edge")
    assert key(dataset, "bm25s")["identity"] == {"bm25s": version("bm25s")}
    newer = "harness.engines.qdrant.engine.versions_of", "harness.pipeline.resume.versions_of"
    for name in newer:
        monkeypatch.setattr(name, lambda *packages: {package: f"{package} 99" for package in packages})
    assert key(dataset, "qdrant")["identity"] == {"mode": "edge", "qdrant-edge-py": "qdrant-edge-py 99"}
    assert key(dataset, "bm25s")["identity"] == {"bm25s": "bm25s 99"}
    with pytest.raises((EngineUnavailableError, MissingExtraError)):
        key(dataset, "qdrant:url=http://127.0.0.1:9")


def test_an_engine_of_another_package_is_its_file(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "my_engine_for_keys.py"
    source = "from engines_for_tests import BruteForce\nclass Mine(BruteForce): pass\n"
    module.write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    cards = write_cards(tmp_path / "cards", mine="Mine")
    card = cards / "backends" / "mine.toml"
    card.write_text(card.read_text().replace("engines_for_tests:", "my_engine_for_keys:"))
    first = key(dataset, "mine", cards=cards)
    module.write_text(source + "# another version\n")
    importlib.reload(sys.modules["my_engine_for_keys"])
    assert key(dataset, "mine", cards=cards) != first
    card.write_text(card.read_text().replace("an engine for tests", "other words"))
    module.write_text(source)
    assert key(dataset, "mine", cards=cards) == first


def test_runs_and_indexes_made_elsewhere_are_never_stored(dataset: Dataset, tmp_path: Path) -> None:
    file = tmp_path / "x.trec"
    file.write_text("q1 Q0 d2 1 1.0 x\n")
    elsewhere = f"csr:external=true;path={tmp_path}"
    plan = make_plan(CompareRequest(backends=[f"run:{file}", elsewhere, "csr"]), lucene_available=False)
    stored = StoredTrials(Cache(tmp_path / "cache"), plan, dataset, identities())
    reasons = [stored.look_up(trial).reason for trial in plan.trials]
    assert reasons == ["never stored", "never stored", "--resume never"]


def test_a_record_of_other_fields_is_of_another_scheme() -> None:
    """When this fails, raise SCHEME and put the new number and fields here: older outcomes cannot be read any more."""
    made_of = (
        TrialRecord,
        ExternalIndexRecord,
        *(probe.record for probe in PROBES if probe.record is not None),
        RebuildHits,
        FilteredSearch,
        ChurnPass,
        Remains,
        LoadRecord,
        ClientRecord,
        EngineInfo,
        IndexReport,
        FinishedProcess,
    )
    names = [f"{one.__name__}.{field.name}" for one in made_of for field in fields(one)]
    names += [f"{one.__name__}.{name}" for one in (Storage, BuildCost) for name in one._fields]
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
    assert (SCHEME, digest) == (25, "841e86a42005")
