"""Labels stand for their backends: in fusions, before second stages, with parameters, wherever they are defined."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.errors import UsageError
from harness.pipeline.check.against import parse_against
from harness.pipeline.regress.rerun import changed_backends
from harness.plan.backend_spec import parse_backends
from harness.plan.config import CompareRequest
from harness.plan.plan import Plan, make_plan


def planned(backends: str | list[str], **options: object) -> Plan:
    return make_plan(CompareRequest(backends=backends, **options), lucene_available=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "labelled",
    [
        "fast=csr:k1=2,rrf:fast+flat,fast|keywords",
        "rrf:fast+flat,fast|keywords,fast=csr:k1=2",
        "fast = csr:k1=2 , rrf: fast + flat , fast | keywords",
        "fast=(csr:k1=2),rrf:(fast)+flat,(fast)|keywords",
        "rrf:(fast=csr:k1=2)+flat,fast|keywords,fast",
        "rrf:( fast = csr:k1=2 )+flat,(fast=csr:k1=2)|keywords,csr:k1=2",
    ],
)
def test_a_label_stands_for_its_backend(labelled: str) -> None:
    plan = planned(labelled)
    plain = planned("csr:k1=2,rrf:(csr:k1=2)+flat,csr:k1=2|keywords")
    assert {trial.spec.identity for trial in plan.trials} == {trial.spec.identity for trial in plain.trials}
    assert {trial.label for trial in plan.trials} == {"fast", "flat", "rrf:fast+flat", "fast|keywords"}
    words = plan.command()
    again = planned(words[words.index("--backends") + 1])
    assert [(trial.label, trial.spec.identity) for trial in again.trials] == [
        (trial.label, trial.spec.identity) for trial in plan.trials
    ]


def test_a_label_of_stages_and_of_labels() -> None:
    specs = parse_backends("second=fast|keywords:candidates=5,fast=csr:k1=2,both=rrf:second+fast;k=10")
    second, fast, both = specs
    assert (second.label, second.components) == ("second", (fast,))
    assert both.components == (second, fast)
    assert parse_backends(["fast:b=0.2;k1=1"], labelled=specs)[0].parameters["b"] == 0.2


def test_a_label_with_parameters_changes_those_of_its_backend() -> None:
    _, changed, fused = parse_backends("fast=csr:k1=2;b=0.3,fast:b=0.9,rrf:(fast:k1=1)+lucene")
    assert changed.identity == parse_backends("csr:k1=2;b=0.9")[0].identity
    assert (changed.label, changed.expression) == ("fast:b=0.9", "fast:b=0.9")
    assert fused.components[0].identity == parse_backends("csr:k1=1;b=0.3")[0].identity


def test_a_label_that_is_the_name_of_another_backend_stands_for_its_own() -> None:
    flat, fused = parse_backends("flat=csr:k1=2,rrf:flat+lucene")
    assert (flat.name, fused.components[0]) == ("csr", flat)
    (own,) = parse_backends("csr=csr:k1=2")
    assert (own.label, own.parameters["k1"]) == ("csr", 2.0)


@pytest.mark.parametrize(
    ("backends", "message"),
    [
        ("quick=csr,rrf:quikc+flat", "unknown backend 'quikc'\n  did you mean 'quick'"),
        ("quick=csr,quikc|keywords", "unknown backend 'quikc'\n  did you mean 'quick'"),
        ("a=b|keywords,b=a|keywords", "the label 'a' is used in its own definition"),
        ("a=a", "the label 'a' is used in its own definition"),
        ("a=csr,rrf:(a=flat)+lucene", "two backends have the label 'a'"),
        ("a=csr,rrf:(b=csr)+lucene", "backends 'a' and 'b' are the same"),
        ("a=csr,a", "two backends have the label 'a'"),
        ("a=python:m:f,a:k=3", "'a' has no parameters: it is python:m:f"),
        ("a=csr,a:bb=3", "unknown parameter 'bb' of backend 'a'"),
        ("mix=rrf:csr+flat,mix:weights=1+2+3", "has 2 components and the weights 1.0\\+2.0\\+3.0|1\\+2\\+3"),
    ],
)
def test_labels_that_contradict_are_refused_once(backends: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_backends(backends)
    assert "problems" not in str(caught.value), "one mistake is reported once"


@pytest.mark.parametrize("reference", ["fast", " fast ", "fast|keywords", "fast | keywords", "csr:k1=2"])
def test_the_reference_may_be_written_with_a_label(reference: str) -> None:
    plan = planned("flat,fast=csr:k1=2,fast|keywords", reference=reference)
    assert plan.reference == ("fast|keywords" if "|" in reference else "fast")


def test_labels_after_an_endpoint_are_no_part_of_its_password() -> None:
    specs = parse_backends("fast=csr,http:url=http://host/{question};ids=a,fast|keywords")
    assert [spec.label for spec in specs][::2] == ["fast", "fast|keywords"]


def test_functions_have_labels_in_fusions(tmp_path: Path) -> None:
    def first(question: str, k: int) -> list[str]:
        return ["a"]

    def second(question: str, k: int) -> list[str]:
        return ["b"]

    dataset = harness.Dataset.of({"a": "one", "b": "two"}, {"q": "which one"}, {"q": {"a": 1}})
    comparison = harness.compare({"one": first, "two": second, "mix": "rrf:one+two"}, dataset, k=2, timing=False)
    assert comparison.run("mix").hits == 2, "a document of each function"


def test_changes_of_a_baselines_plan_reach_labelled_components_and_keep_their_labels() -> None:
    specs = parse_backends("fast=csr:k1=2,rrf:fast+flat,(a=csr)|keywords")
    changed = parse_backends(changed_backends(specs, ["csr:b=0.9"]))
    assert [spec.label for spec in changed] == ["fast", "rrf:fast+flat", "a|keywords"]
    assert changed[1].components[0].identity == parse_backends("csr:k1=2;b=0.9")[0].identity
    assert changed[2].components[0].identity == parse_backends("csr:b=0.9")[0].identity


@pytest.mark.parametrize("expression", ["mine=python:m:f", "mine = python:m:f", " mine= python:m:f "])
def test_names_of_existing_backends_may_have_spaces_around_the_sign(expression: str) -> None:
    (backend,) = parse_against([expression])
    assert (backend.label, backend.displayed) == ("mine", "mine=python:m:f")
