"""Sweeps become backends, one for each value."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.plan.config import CompareRequest
from harness.plan.expressions import expand
from harness.plan.plan import make_plan


def labels(backends: str | list[str], *sweeps: str) -> list[str]:
    request = CompareRequest(backends=backends, sweep=sweeps)
    return [trial.label for trial in make_plan(request, lucene_available=False).trials]


def test_a_swept_backend_stays_in_front_of_its_values() -> None:
    swept = labels("csr,qdrant,lucene", "qdrant:batch_size=10,20")
    assert swept == ["csr", "qdrant", "qdrant:batch_size=10", "qdrant:batch_size=20", "lucene"]


def test_other_parameters_come_first_and_name_the_backend_too() -> None:
    swept = labels(["csr:k1=1.20", "csr"], "csr:k1=1.2;b=0.1,0.9")
    assert swept == ["csr:k1=1.2", "csr:k1=1.2;b=0.1", "csr:k1=1.2;b=0.9", "csr"]


def test_a_backend_that_is_not_among_them_is_not_added_by_a_sweep_of_it() -> None:
    assert labels("csr", "lucene:b=0.3, 0.75") == ["csr", "lucene:b=0.3", "lucene:b=0.75"]
    assert labels([], "csr:b=0.1,0.9") == ["csr:b=0.1", "csr:b=0.9"]


def test_a_value_that_is_the_default_or_named_already_is_no_second_backend() -> None:
    assert labels("csr", "csr:b=0.4,0.9") == ["csr", "csr:b=0.9"], "0.4 is the default"
    assert labels("csr,best=csr:b=0.9", "csr:b=0.1,0.9") == ["csr", "csr:b=0.1", "best"]
    assert labels("csr", "csr:b=0.4,0.9", "csr:k1=0.9,2") == ["csr", "csr:b=0.9", "csr:k1=2.0"]
    assert labels([], "csr:b=0.4,0.8", "csr:k1=0.9,2") == ["csr:b=0.4", "csr:b=0.8", "csr:k1=2.0"]


def test_a_sweep_names_the_backend_of_each_of_its_values() -> None:
    request = CompareRequest(backends="base=csr", sweep=["csr:b=0.40,0.9", "lucene:b=0.4,0.5"])
    first, second = make_plan(request, lucene_available=False).sweeps
    assert (first.backend, first.parameter, first.labels) == ("csr", "b", {"0.4": "base", "0.9": "csr:b=0.9"})
    assert second.labels == {"0.4": "lucene:b=0.4", "0.5": "lucene:b=0.5"}


def test_a_label_is_swept_like_a_name_and_its_own_parameters_stay() -> None:
    backends = "lucene,fast=csr:k1=2;b=0.3,mix=rrf:fast+lucene,second=fast|keywords"
    assert labels(backends, "fast:b=0.3,0.9", "mix:k=10,60", "second:candidates=5,100") == [
        "lucene", "fast", "fast:b=0.9", "mix", "mix:k=10.0", "second", "second:candidates=5",
    ]  # fmt: skip
    plan = make_plan(CompareRequest(backends=backends, sweep=["fast:b=0.3,0.9"]), lucene_available=False)
    (swept,) = [trial for trial in plan.trials if trial.label == "fast:b=0.9"]
    assert (swept.parameters["k1"], swept.parameters["b"]) == (2.0, 0.9)
    assert plan.sweeps[0].labels == {"0.3": "fast", "0.9": "fast:b=0.9"}


def test_the_plain_backend_is_the_reference_where_it_is_named_first_and_can_be_named() -> None:
    request = CompareRequest(backends="csr", sweep=["csr:b=0.1,0.9"], reference="csr")
    assert make_plan(request, lucene_available=False).reference == "csr"


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ("chroma", "not of the form"),
        ("ef_search=10,20", "not of the form"),
        ("chroma:ef_search=10,,20", "not of the form"),
        ("chroma:ef_search=10", "at least two values"),
        ("chroma:ef_search=10,10", "has 10 twice"),
        (
            "faiss:index=Flat,IVF64,Flat",
            "has Flat twice\n.*quote a value that has a comma: \"faiss:index=Flat,'IVF64,Flat'\"",
        ),
    ],
)
def test_what_is_no_sweep_is_refused(sweep: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        expand(sweep)


def test_a_plan_has_one_trial_for_each_value() -> None:
    plan = make_plan(CompareRequest(backends="csr", sweep=["csr:b=0.1,0.9"]), lucene_available=False)
    assert [trial.label for trial in plan.trials] == ["csr", "csr:b=0.1", "csr:b=0.9"]
    assert plan.arguments()["sweep"] == ["csr:b=0.1,0.9"]
    assert plan.command()[2:8] == ["--backends", "csr", "--dataset", "cacm", "--sweep", "csr:b=0.1,0.9"]
    alone = make_plan(CompareRequest(backends=[], sweep=["csr:b=0.1,0.9"]), lucene_available=False)
    assert "csr:b=0.1,csr:b=0.9" in alone.command(), "the option --backends cannot be empty"


def test_an_unknown_parameter_of_a_sweep_is_told_with_the_rest() -> None:
    with pytest.raises(UsageError) as caught:
        make_plan(CompareRequest(backends="csr", sweep="csr:bb=0.1,0.9"), lucene_available=False)
    assert str(caught.value).count("unknown parameter 'bb' of backend 'csr'") == 1, "once, not once for each value"


def test_parameters_of_fusions_and_second_stages_are_swept() -> None:
    assert expand("rrf:csr+(lucene:where=a,b);k=10,60") == [
        "rrf:csr+(lucene:where=a,b);k=10",
        "rrf:csr+(lucene:where=a,b);k=60",
    ]
    assert expand("csr:k1=1.2|keywords:candidates=5,10") == [
        "csr:k1=1.2|keywords:candidates=5",
        "csr:k1=1.2|keywords:candidates=10",
    ]
