"""Sweeps become backends, one for each value."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.plan.config import CompareRequest
from harness.plan.plan import Plan, make_plan
from harness.plan.sweeps import parse_sweep


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


def test_sweeps_of_one_backend_share_one_default_which_comes_first() -> None:
    assert labels([], "csr:b=0.4,0.8", "csr:k1=0.9,2") == ["csr", "csr:b=0.8", "csr:k1=2.0"]
    assert labels("lucene", "csr:b=0.1,0.8", "csr:k1=1,2") == [
        "lucene", "csr", "csr:b=0.1", "csr:b=0.8", "csr:k1=1.0", "csr:k1=2.0",
    ]  # fmt: skip
    assert labels([], "csr:b=0.1,0.8", "lucene:b=0.1,0.8") == [
        "csr:b=0.1", "csr:b=0.8", "lucene:b=0.1", "lucene:b=0.8",
    ]  # fmt: skip
    assert labels([], "csr:k1=2;b=0.1,0.8", "csr:b=0.1,0.8") == [
        "csr:k1=2.0;b=0.1", "csr:k1=2.0;b=0.8", "csr:b=0.1", "csr:b=0.8",
    ], "a sweep that fixes k1 has another default"  # fmt: skip
    request = CompareRequest(backends=[], sweep=["csr:b=0.1,0.8", "csr:k1=1,2"])
    assert [sweep.default for sweep in make_plan(request, lucene_available=False).sweeps] == ["csr", "csr"]


def test_a_grid_has_a_backend_for_each_combination_and_the_last_parameter_changes_fastest() -> None:
    assert labels("csr", "csr:k1=0.6,0.90,1.2;threads=2;b=0.2,0.4") == [
        "csr",
        "csr:k1=0.6;threads=2;b=0.2",
        "csr:k1=0.6;threads=2;b=0.4",
        "csr:k1=0.9;threads=2;b=0.2",
        "csr:k1=0.9;threads=2;b=0.4",
        "csr:k1=1.2;threads=2;b=0.2",
        "csr:k1=1.2;threads=2;b=0.4",
    ]
    assert labels("csr", "csr:k1=0.6,0.9;b=0.2,0.4") == [
        "csr", "csr:k1=0.6;b=0.2", "csr:k1=0.6;b=0.4", "csr:k1=0.9;b=0.2",
    ], "0.9 and 0.4 are the defaults"  # fmt: skip
    fused = "rrf:csr+lucene;weights=0.3+0.7,0.5+0.5;k=10,60"
    assert parse_sweep(fused).expand() == [
        "rrf:csr+lucene;weights=0.3+0.7;k=10", "rrf:csr+lucene;weights=0.3+0.7;k=60",
        "rrf:csr+lucene;weights=0.5+0.5;k=10", "rrf:csr+lucene;weights=0.5+0.5;k=60",
    ]  # fmt: skip
    assert parse_sweep(fused).backend == "rrf:csr+lucene"


def test_a_grid_names_the_backend_of_each_combination() -> None:
    request = CompareRequest(backends="csr", sweep=["csr:k1=0.60,0.9;threads=2;b=0.2,0.4", "csr:k1=1,2"])
    grid, single = make_plan(request, lucene_available=False).sweeps
    assert (grid.backend, grid.parameter, grid.default) == ("csr:threads=2", "k1;b", "csr:k1=0.9;threads=2;b=0.4")
    assert grid.expression == "csr:k1=0.60,0.9;threads=2;b=0.2,0.4"
    assert grid.labels == {
        f"{k1};{b}": f"csr:k1={k1};threads=2;b={b}" for k1, b in [("0.6", "0.2"), ("0.6", "0.4"), ("0.9", "0.2")]
    } | {"0.9;0.4": "csr:k1=0.9;threads=2;b=0.4"}
    assert (single.backend, single.parameter, single.default) == ("csr", "k1", "csr")


def test_quotes_keep_commas_and_semicolons_of_one_value_together_in_a_grid() -> None:
    sweep = parse_sweep("faiss:index=Flat,'IVF64,Flat';nprobe=1,4;note=\"a;b\"")
    assert sweep.values == {"index": ("Flat", '"IVF64,Flat"'), "nprobe": ("1", "4")}
    assert sweep.expand()[3] == 'faiss:index="IVF64,Flat";nprobe=4;note="a;b"'


def test_a_repeated_number_is_one_value() -> None:
    assert labels("csr", "csr:b=0.1,0.1,0.8") == ["csr", "csr:b=0.1", "csr:b=0.8"]
    assert labels("csr", "csr:b=0.1,0.10,0.8;k1=1,1.0") == ["csr", "csr:b=0.1;k1=1.0", "csr:b=0.8;k1=1.0"]


def test_a_grid_of_too_many_combinations_is_refused_with_their_number_and_one_of_many_has_a_note() -> None:
    ten = ",".join(str(number / 10) for number in range(11))
    with pytest.raises(UsageError, match=r"1,331 combinations \(11 of k1 times 11 of b times 11 of threads\)"):
        parse_sweep(f"csr:k1={ten};b={ten};threads={ten}")
    plan = make_plan(CompareRequest(backends="csr", sweep=f"csr:k1={ten};b={ten}"), lucene_available=False)
    assert "the sweeps are of 121 backends, and each searches every query" in plan.notes
    assert len(plan.trials) == 121, "one of them is the default"


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
        ("chroma:ef_search=10,10", "at least two values"),
        ("csr:k1=1;b=0.4", "at least two values"),
        ("csr:analyzer=whitespace,whitespace;b=0.1,0.2", "has whitespace twice"),
        ("csr:b=0.1,'0.2'x", "a quoted value ends before its text does"),
        (
            "faiss:index=Flat,IVF64,Flat",
            "has Flat twice\n.*quote a value that has a comma: \"faiss:index=Flat,'IVF64,Flat'\"",
        ),
    ],
)
def test_what_is_no_sweep_is_refused(sweep: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_sweep(sweep)


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
    assert parse_sweep("rrf:csr+(lucene:where=a,b);k=10,60").expand() == [
        "rrf:csr+(lucene:where=a,b);k=10",
        "rrf:csr+(lucene:where=a,b);k=60",
    ]
    assert parse_sweep("csr:k1=1.2|keywords:candidates=5,10").expand() == [
        "csr:k1=1.2|keywords:candidates=5",
        "csr:k1=1.2|keywords:candidates=10",
    ]


def test_a_label_in_a_sweep_is_refused() -> None:
    with pytest.raises(UsageError, match="the label best would be that of each of its backends"):
        make_plan(CompareRequest(backends="csr", sweep="best=csr:b=0.1,0.2"), lucene_available=False)


def tuned(*sweeps: str, backends: str | list[str] | None = None) -> Plan:
    request = CompareRequest(backends=backends or [], sweep=sweeps, tune="nDCG@10")
    return make_plan(request, lucene_available=False)


def test_tune_adds_the_default_of_every_swept_backend_once() -> None:
    plan = tuned("csr:b=0.1,0.8", "lucene:b=0.1,0.8", "csr:k1=1,2")
    assert [trial.label for trial in plan.trials] == [
        "csr", "csr:b=0.1", "csr:b=0.8", "csr:k1=1.0", "csr:k1=2.0", "lucene", "lucene:b=0.1", "lucene:b=0.8",
    ]  # fmt: skip
    assert plan.tuning is not None
    assert [(one.backend, one.default, len(one.candidates)) for one in plan.tuning.backends] == [
        ("csr", "csr", 5), ("lucene", "lucene", 3),
    ]  # fmt: skip
    labelled = tuned("fast:b=0.1,0.8", backends="qdrant,fast=csr:k1=2")
    assert labelled.tuning is not None
    assert labelled.tuning.backends[0].candidates == ("fast", "fast:b=0.1", "fast:b=0.8")


def test_equal_means_prefer_the_default_then_few_changes_then_the_order_of_the_sweeps() -> None:
    plan = tuned("csr:k1=0.5,0.9,2;b=0.1,0.4", "csr:b=0.8,0.9")
    assert plan.tuning is not None
    assert plan.tuning.backends[0].candidates == (
        "csr", "csr:k1=0.5;b=0.4", "csr:k1=0.9;b=0.1", "csr:k1=2.0;b=0.4", "csr:b=0.8", "csr:b=0.9",
        "csr:k1=0.5;b=0.1", "csr:k1=2.0;b=0.1",
    )  # fmt: skip


def test_a_backend_that_needs_a_swept_parameter_has_its_first_combination_for_a_default() -> None:
    index = "qdrant-dense:external=true;collection=a;model={};url=http://127.0.0.1:6333"
    plan = tuned(index.format("random,precomputed"))
    assert plan.tuning is not None
    (backend,) = plan.tuning.backends
    assert backend.stands_in
    assert [trial.label for trial in plan.trials] == list(backend.candidates)
    assert "model=random" in backend.default
    command = plan.command()
    assert "model=random" in command[command.index("--backends") + 1]
    assert "model=precomputed" not in command[command.index("--backends") + 1]


def test_a_plan_without_tune_or_with_a_metric_that_is_computed_anyway_has_the_same_metrics() -> None:
    assert [str(measure) for measure in tuned("csr:b=0.1,0.8").measures] == ["nDCG@10", "AP", "R@100", "RR@10"]
    plan = make_plan(CompareRequest(backends="csr", sweep="csr:b=0.1,0.8", tune="ndcg_cut_5"), lucene_available=False)
    assert [str(measure) for measure in plan.measures] == ["nDCG@10", "AP", "R@100", "RR@10", "nDCG@5"]
    assert plan.tuning is not None
    assert str(plan.tuning.metric) == "nDCG@5"
