"""Sweeps become backends, one for each value."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.plan.config import CompareRequest
from harness.plan.expressions import expand
from harness.plan.plan import make_plan


def test_a_sweep_takes_the_place_of_the_backend_that_it_names() -> None:
    expanded = expand("csr,qdrant,lucene", ["qdrant:batch_size=10,20"])
    assert expanded == ["csr", "qdrant:batch_size=10", "qdrant:batch_size=20", "lucene"]


def test_other_parameters_come_first_and_name_the_backend_too() -> None:
    expanded = expand(["csr:k1=1.2", "csr"], ["csr:k1=1.2;b=0.1,0.9"])
    assert expanded == ["csr:k1=1.2;b=0.1", "csr:k1=1.2;b=0.9", "csr"]


def test_a_backend_that_is_not_among_them_is_added() -> None:
    assert expand("csr", ["lucene:b=0.4, 0.75"]) == ["csr", "lucene:b=0.4", "lucene:b=0.75"]


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
        expand("csr", [sweep])


def test_a_plan_has_one_trial_for_each_value() -> None:
    plan = make_plan(CompareRequest(backends="csr", sweep=["csr:b=0.1,0.9"]), lucene_available=False)
    assert [trial.label for trial in plan.trials] == ["csr:b=0.1", "csr:b=0.9"]
    assert plan.given()["sweep"] == ["csr:b=0.1,0.9"]
    assert plan.command()[2:8] == ["--backends", "csr", "--dataset", "cacm", "--sweep", "csr:b=0.1,0.9"]
    alone = make_plan(CompareRequest(backends=[], sweep=["csr:b=0.1,0.9"]), lucene_available=False)
    assert "csr:b=0.1,csr:b=0.9" in alone.command(), "the option --backends cannot be empty"


def test_an_unknown_parameter_of_a_sweep_is_told_with_the_rest() -> None:
    with pytest.raises(UsageError) as caught:
        make_plan(CompareRequest(backends="csr", sweep="csr:bb=0.1,0.9"), lucene_available=False)
    assert str(caught.value).count("unknown parameter 'bb' of backend 'csr'") == 1, "once, not once for each value"


def test_parameters_of_fusions_and_second_stages_are_swept():
    assert expand("lucene,rrf:csr+(lucene:where=a,b)", ["rrf:csr+(lucene:where=a,b);k=10,60"]) == [
        "lucene",
        "rrf:csr+(lucene:where=a,b);k=10",
        "rrf:csr+(lucene:where=a,b);k=60",
    ]
    assert expand("csr", ["csr:k1=1.2|keywords:candidates=5,10"]) == [
        "csr",
        "csr:k1=1.2|keywords:candidates=5",
        "csr:k1=1.2|keywords:candidates=10",
    ]
