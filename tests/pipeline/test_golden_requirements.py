"""Requirements: their syntax, their verdicts, and how many questions would have to change."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.pipeline.check.requirements import Sample, SliceOf, judge, parse_requirement, parse_requirements


def mean(values):
    return float(values.mean())


@pytest.mark.parametrize(
    ("text", "canonical", "quantity", "bound"),
    [
        ("Hit@5>=0.9", "Hit@5>=0.9", "Success@5", 0.9),
        (" hit@5 >= 90% ", "Hit@5>=0.9", "Success@5", 0.9),
        ("MRR>=.7", "MRR@5>=0.7", "RR@5", 0.7),
        ("ndcg>0.5", "nDCG@5>0.5", "nDCG@5", 0.5),
        ("Recall@3 < 1", "Recall@3<1", "R@3", 1.0),
        ("AP(rel=2)@5>=0.1", "AP(rel=2)@5>=0.1", "AP(rel=2)@5", 0.1),
        ("Rprec>=0.1", "Rprec>=0.1", "Rprec", 0.1),
        ("p95_ms<=5e1", "p95_ms<=50", "p95_ms", 50.0),
        ("parity>=1.0", "parity>=1", "parity", 1.0),
    ],
)
def test_what_is_understood(text, canonical, quantity, bound):
    found = parse_requirement(text, 5)
    assert (found.text, str(found.quantity), found.bound, found.slice) == (canonical, quantity, bound, None)


@pytest.mark.parametrize("k", [1, 3, 5, 100])
def test_examples_in_messages_are_taken_as_they_are(k):
    with pytest.raises(UsageError) as raised:
        parse_requirement("Hit@5", k)
    examples = str(raised.value.fix).removeprefix("write it like ").replace(" or ", ", ").split(", ")
    assert [str(parse_requirement(example, k).text) for example in examples] == [
        f"Hit@{k}>=0.9", "p95_ms<=50", "parity>=1", f"lang=de: MRR@{k}>=0.7",
    ]  # fmt: skip


def test_a_slice_stands_before_the_colon():
    found = parse_requirement("lang=de: Hit@5>=0.8", 5)
    assert (found.text, found.slice) == ("lang=de: Hit@5>=0.8", SliceOf("lang", "de"))
    assert parse_requirement("kind=a:b=c: MRR>=0.8", 5).slice == SliceOf("kind", "a:b=c")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hit@5",
        "Hit@5=0.9",
        "Hit@5>=",
        "Hit@5>=much",
        "Hit@5>=nan",
        "=de: Hit@5>=1",
        "NumRet>=3",
        "Hit@6>=0.1",
        "Hit@0>=1",
    ],
)
def test_what_is_not_understood_is_refused(text):
    with pytest.raises(UsageError):
        parse_requirement(text, 5)


@pytest.mark.parametrize("text", ["Hit@5>=90", "parity>=100", "MRR<=-1", "nDCG@5>100.5%"])
def test_a_bound_that_no_share_reaches_is_refused(text):
    with pytest.raises(UsageError, match=r"lies between 0 and 1\n.*>=90%"):
        parse_requirement(text, 5)
    assert parse_requirement("DCG@5>=3", 5).bound == 3.0


def test_an_operator_the_wrong_way_round_is_shown_the_right_way():
    with pytest.raises(UsageError, match=r"'Hit@5=>0.9' is malformed\n.*Hit@5>=0.9"):
        parse_requirement("Hit@5=>0.9", 5)


def test_an_unknown_measure_gets_the_nearest_name():
    with pytest.raises(UsageError, match="nDCG"):
        parse_requirement("nDGC@5>=0.9", 5)
    with pytest.raises(UsageError, match="did you mean 'p95_ms'"):
        parse_requirement("p95<=50", 5)
    with pytest.raises(UsageError, match=r"unknown quantity 'latency'\n.*of latency: p50_ms, .*mean_ms"):
        parse_requirement("latency<=50", 5)


def test_all_mistakes_are_named_and_repeats_dropped():
    assert len(parse_requirements(["Hit@5>=0.9", "hit@5 >= 90%"], 5)) == 1
    with pytest.raises(UsageError) as raised:
        parse_requirements(["Hit@5", "Hit@9>=1"], 5)
    assert "'Hit@5'" in str(raised.value)
    assert "--k 9" in str(raised.value)


@pytest.mark.parametrize(
    ("operator", "value", "met"),
    [
        (">=", 0.9, True),
        (">", 0.9, False),
        ("<=", 0.9, True),
        ("<", 0.9, False),
        (">=", 0.8999, False),
        ("<", 0.89, True),
    ],
)
def test_a_figure_against_its_bound(operator, value, met):
    assert parse_requirement(f"Hit@5{operator}0.9", 5).met_by(value) is met


def test_a_mean_that_equals_its_bound_but_for_rounding_meets_it():
    values = np.array([0.7, 0.1] * 3)
    assert mean(values) == pytest.approx(0.4)
    assert mean(values) != 0.4
    assert parse_requirement("MRR>=0.4", 5).met_by(mean(values))
    assert not parse_requirement("MRR>0.4", 5).met_by(mean(values))


VALUES = st.lists(st.sampled_from([0.0, 0.2, 0.25, 1 / 3, 0.5, 1.0]), min_size=1, max_size=7)


@given(
    values=VALUES,
    bound=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]),
    operator=st.sampled_from([">=", ">", "<=", "<"]),
)
def test_flips_are_the_least_number_of_questions(values, bound, operator):
    """Against every choice of questions, each at its best or worst."""
    requirement = parse_requirement(f"MRR{operator}{bound}", 5)
    array = np.array(values)
    judged = judge(requirement, Sample(array, np.ones(len(array)), np.zeros(len(array)), mean))
    assert judged.passed == requirement.met_by(mean(array))
    assert judged.flips == least_by_trying(array, requirement, judged.passed)


def least_by_trying(array, requirement, passed):
    for count in range(1, len(array) + 1):
        for chosen in itertools.combinations(range(len(array)), count):
            for extreme in (0.0, 1.0):
                changed = array.copy()
                changed[list(chosen)] = extreme
                if requirement.met_by(mean(changed)) != passed:
                    return count
    return None


@given(
    values=st.lists(st.integers(1, 100), min_size=1, max_size=7),
    bound=st.integers(1, 100),
    share=st.sampled_from([50, 90, 95]),
)
def test_flips_of_a_percentile(values, bound, share):
    requirement = parse_requirement(f"p{share}_ms<={bound}", 5)
    array = np.array(values, dtype=np.float64)

    def percentile(sample):
        return float(np.percentile(sample, share, method="inverted_cdf"))

    judged = judge(requirement, Sample(array, np.zeros(len(array)), np.full(len(array), 1e9), percentile))
    found = next(
        count
        for count in range(1, len(array) + 1)
        if any(
            requirement.met_by(percentile(np.where(np.isin(np.arange(len(array)), chosen), extreme, array)))
            != judged.passed
            for chosen in itertools.combinations(range(len(array)), count)
            for extreme in (0.0, 1e9)
        )
    )
    assert judged.flips == found


def test_a_question_cannot_become_better_than_its_best():
    """Recall@1 of a question that expects two documents is at most one half."""
    sample = Sample(np.array([0.0, 0.5]), np.array([0.5, 0.5]), np.zeros(2), mean)
    assert judge(parse_requirement("Recall@1>=0.5", 5), sample).flips == 1
    assert judge(parse_requirement("Recall@1>=0.6", 5), sample).flips is None
