"""What stands at the top of the page: whom each line is about."""

from __future__ import annotations

from sample_report import sample_report

from harness.report.documents.verdicts import comparison_verdicts as verdicts
from harness.results.schema import ParityStats, Result, TrialResult


def stats(tie_equivalent: int, causes: dict[str, int]) -> ParityStats:
    return ParityStats(
        reference="flat",
        mode="cosine",
        tolerance=1e-6,
        queries=64,
        bit_equal=0,
        identical=tie_equivalent,
        tie_equivalent=tie_equivalent,
        different=64 - tie_equivalent,
        overlap={"10": 0.9969, "100": 0.9758},
        rbo=1.0,
        max_abs_score_diff=0.0,
        max_rel_score_diff=0.0,
        causes=causes,
    )


def report(**parity: ParityStats | None) -> Result:
    sample = sample_report()
    (model, *_) = (one for one in sample.trials if one.status == "ok")
    backends: list[TrialResult] = [
        model.model_copy(update={"name": label, "label": label, "parity": held, "metrics": {}})
        for label, held in parity.items()
    ]
    return sample.model_copy(update={"trials": backends, "differences": []})


def headlines(**parity: ParityStats | None) -> list[tuple[str, str]]:
    return [(one.tone, one.headline) for one in verdicts(report(**parity)) if "latency" not in one.headline]


RIGHT, GRAPH = stats(64, {}), stats(16, {"approximate search": 48})


def test_every_backend_is_said_of_all_and_of_none_less() -> None:
    assert headlines(a=RIGHT, b=RIGHT) == [("good", "every backend returns what its scoring function says")]
    assert headlines(a=RIGHT, b=RIGHT, fused=None) == [("good", "a and b return what their scoring functions say")]
    assert headlines(a=RIGHT, fused=None) == [("good", "a returns what its scoring function says")]


def test_what_an_approximate_index_finds_stands_beside_those_that_are_right() -> None:
    assert headlines(flat=RIGHT, chroma=GRAPH) == [
        ("plain", "Of what exact search finds, chroma has 99.69 % of the best 10 and 97.58 % of the best 100"),
        ("good", "flat returns what its scoring function says"),
    ]


def test_nearly_all_is_not_said_to_be_all() -> None:
    nearly = GRAPH.model_copy(update={"overlap": {"10": 0.99999, "100": 1.0}})
    assert headlines(chroma=nearly)[0][1].endswith("chroma has 99.99 % of the best 10 and 100.00 % of the best 100")


def test_who_differs_otherwise_is_named_with_the_cause() -> None:
    (tied, unknown, _) = verdicts(report(a=stats(57, {"ties": 7}), b=stats(60, {"unknown": 4}), c=None))
    assert (tied.tone, tied.headline) == ("unsure", "a differs from its exact reference on 7 of 64 queries")
    assert tied.detail == "proven causes: ties (7)"
    assert unknown.tone == "bad"


def test_of_several_datasets_what_is_said_of_each_is_said_once() -> None:
    first = report(a=RIGHT, b=RIGHT)
    other = first.datasets[0].model_copy(update={"name": "other"})
    moved = [
        trial.model_copy(update={"dataset": "other"}) for trial in report(a=RIGHT, b=stats(60, {"ties": 4})).trials
    ]
    both = first.model_copy(update={"datasets": [first.datasets[0], other], "trials": [*first.trials, *moved]})
    name = first.datasets[0].name
    said = [(line.headline, line.detail) for line in verdicts(both) if "return" in line.headline]
    assert said == [
        (
            f"a returns what its scoring function says on {name} and other",
            "128 rankings, the same as exact search up to ties",
        ),
        (f"b returns what its scoring function says on {name}", "64 rankings, the same as exact search up to ties"),
    ]
    assert [line.headline for line in verdicts(both) if "differs" in line.headline] == [
        "other: b differs from its exact reference on 4 of 64 queries"
    ]
    assert [line.headline for line in verdicts(both) if "latency" in line.headline] == [
        f"a has the lowest median latency on {name} and other"
    ]
