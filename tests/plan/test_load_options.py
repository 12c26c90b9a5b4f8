from __future__ import annotations

from typing import Any

import pytest
from plan_texts import plan_text
from sample_report import OVERLOADED, sample_report

from harness.errors import UsageError
from harness.pipeline.planning import Preview
from harness.pipeline.probes.load import LoadProbe, open_loop_clients
from harness.pipeline.resume import LookUp
from harness.plan.config import CompareRequest
from harness.plan.option_values import parse_levels, parse_rates
from harness.plan.plan import make_plan

KNOWN = [LookUp({"k": 10}, None, "no outcome is stored")]


def test_lists_of_numbers() -> None:
    assert parse_levels("1, 2,8") == parse_levels([1, 2, 8]) == (1, 2, 8)
    assert parse_levels(4) == parse_levels("4") == (4,)
    assert parse_rates("50,0.5") == (50.0, 0.5)
    assert parse_rates(20.0) == (20.0,)
    assert parse_levels(None) == parse_rates(None) == ()


def test_a_high_rate_is_written_out_wherever_it_stands() -> None:
    plan = make_plan(CompareRequest(backends="csr", rate="1000000"), lucene_available=False)
    assert plan.arguments()["rate"] == "1000000"
    assert "1000000 queries/s" in LoadProbe().planned(plan)
    like = next(trial for trial in sample_report().trials if trial.open_loop)
    trial = like.model_copy(update={"open_loop": [OVERLOADED.model_copy(update={"rate": 1e6})]})
    cells = [cell.text for table in LoadProbe().tables([trial], 2) for row in table.rows for cell in row]
    assert "1,000,000" in cells


@pytest.mark.parametrize("given", ["", "1,,2", "two", "0", "-1", "1.5", "257", "2,2"])
def test_wrong_levels_are_refused(given: str) -> None:
    with pytest.raises(UsageError, match="--concurrency"):
        parse_levels(given)


@pytest.mark.parametrize("given", ["", "fast", "0", "-1", "inf", "nan", "5,5"])
def test_wrong_rates_are_refused(given: str) -> None:
    with pytest.raises(UsageError, match="--rate"):
        parse_rates(given)


def test_an_open_loop_has_as_many_clients_as_the_largest_closed_one() -> None:
    assert open_loop_clients(CompareRequest(concurrency=(1, 16, 4)), 2) == 16
    assert open_loop_clients(CompareRequest(rate=5.0)) == open_loop_clients(CompareRequest(rate="sweep"), 64) == 8
    assert open_loop_clients(CompareRequest(rate=5.0), 2) == 2
    assert not CompareRequest().measures_load


def test_a_plan_says_what_it_was_given_and_how_to_run_it_again() -> None:
    options: dict[str, Any] = {"cold": True, "concurrency": [1, 2], "rate": "50", "arrivals": "constant"}
    plan = make_plan(CompareRequest(backends="qdrant:url=http://127.0.0.1:6333", **options), lucene_available=False)
    assert (plan.request.concurrency, plan.request.rates, plan.request.cold) == ((1, 2), (50.0,), True)
    words = " ".join(plan.command())
    assert words.endswith("--concurrency 1,2 --rate 50 --cold --arrivals constant --warm-up 0.1")
    plain = make_plan(CompareRequest(backends="qdrant:url=http://127.0.0.1:6333"), lucene_available=False)
    assert "--concurrency" not in plain.command()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": "fibres"}, "--clients fibres: no such choice"),
        ({"arrivals": "bursts"}, "--arrivals bursts: no such choice"),
        ({"load_seconds": 0}, "--load-seconds is 0"),
        ({"cold": True, "timing": False}, "--cold, --concurrency and --rate with --no-timing"),
        ({"rate": 5, "timing": False}, "--cold, --concurrency and --rate with --no-timing"),
        ({"load_seconds": 1, "cold": True}, "--load-seconds without --concurrency or --rate"),
        ({"clients": "threads"}, "--clients without --concurrency or --rate"),
        ({"arrivals": "constant", "concurrency": 2}, "--arrivals without --rate"),
        (
            {"executor": "ray", "concurrency": 2},
            "with --executor ray: load is measured on the machine that sends the queries",
        ),
        ({"executor": "rays"}, "--executor rays: no such executor"),
        ({"executor": "ray:", "cold": True}, "--executor ray:: no such executor"),
        ({"executor": "ray", "isolation": "none"}, "--executor ray with --isolation none"),
    ],
)
def test_contradictions_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_plan(CompareRequest(backends="qdrant:url=http://127.0.0.1:6333", **options), lucene_available=False)


def test_a_dry_run_says_what_would_be_measured() -> None:
    request = CompareRequest(
        backends="qdrant:url=http://127.0.0.1:6333", cold=True, concurrency="1,4", rate="50", load_seconds=2
    )
    shown = plan_text([Preview(make_plan(request, lucene_available=False), KNOWN)], "table")
    wanted = "a cold pass; 1, 4 clients (processes), 2 s each; 50 queries/s (poisson, 4 clients), 2 s each"
    assert wanted in shown
    assert "a cold pass" not in plan_text(
        [
            Preview(
                make_plan(CompareRequest(backends="qdrant:url=http://127.0.0.1:6333"), lucene_available=False), KNOWN
            )
        ],
        "table",
    )


def test_a_dry_run_says_which_backends_changes_leave_out() -> None:
    plans = [
        make_plan(CompareRequest(backends=name, churn=churn), lucene_available=False)
        for name, churn in (("bm25s", "insert=10%"), ("csr", "insert=10%"), ("bm25s", None))
    ]
    left_out, changed, unasked = (plan_text([Preview(plan, KNOWN)], "table") for plan in plans)
    assert "will not be changed (--churn): " in left_out
    assert "only index everything again" in " ".join(left_out.split())
    assert "will not be changed" not in changed + unasked


def test_rates_are_a_list_or_rise_to_saturation() -> None:
    listed = make_plan(CompareRequest(backends="csr", rate="10,20"), lucene_available=False)
    assert (listed.request.rates, listed.request.sweeps_rates, listed.arguments()["rate"]) == (
        (10.0, 20.0),
        False,
        "10,20",
    )
    swept = make_plan(CompareRequest(backends="csr", rate="sweep", arrivals="constant"), lucene_available=False)
    assert (swept.request.rates, swept.request.sweeps_rates, swept.arguments()["rate"]) == ((), True, "sweep")
    assert "--rate sweep" in " ".join(swept.command())
    assert "rates up to saturation (constant, " in plan_text([Preview(swept, KNOWN)], "table")
    with pytest.raises(UsageError, match="write --rate 50,100, or sweep"):
        make_plan(CompareRequest(backends="csr", rate="sweeep"), lucene_available=False)
