"""Pictures: axes that hold their values, labels that do not overlap, and words with the same figures."""

from __future__ import annotations

import html
import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.document.figures import (
    Bar,
    Bars,
    Curve,
    Curves,
    Differences,
    Distribution,
    Matrix,
    Percentiles,
    Saturation,
    Spot,
    Strips,
    Throughput,
    Tradeoff,
)
from harness.report.html.pictures import (
    bars,
    curves,
    differences,
    distribution,
    matrix,
    percentiles,
    saturation,
    spread_out,
    strips,
    tradeoff,
)
from harness.report.html.svg import Svg, linear, logarithmic, room_for, short_names
from harness.wording import counted

VALUES = st.floats(-1e6, 1e6)


def test_a_title_speaks_of_intervals_only_where_some_are_drawn() -> None:
    sure, unsure = Bar("a", 0.5, 0.4, 0.6, 0), Bar("b", 0.5, None, None, 1)
    assert Bars("AP", [unsure, sure]).title() == "AP, with 95 % intervals"
    assert Bars("AP", [unsure]).title("mean over datasets") == "AP, mean over datasets"


@given(low=VALUES, span=st.floats(1e-6, 1e6))
def test_linear_axes_hold_their_values_between_their_ticks(low: float, span: float) -> None:
    axis = linear(low, low + span, 0, 100)
    assert axis.ticks[0] <= low + 1e-6 * span
    assert axis.ticks[-1] >= low + span * (1 - 1e-6)
    assert 2 <= len(axis.ticks) <= 9
    assert (axis.position(axis.low), axis.position(axis.high)) == (0, 100)


@given(low=st.floats(1e-6, 1e4), factor=st.floats(1, 1e6))
def test_logarithmic_axes_hold_their_values(low: float, factor: float) -> None:
    axis = logarithmic(low, low * factor, 0, 100)
    assert axis.low <= low * (1 + 1e-9)
    assert axis.high >= low * factor * (1 - 1e-9)
    assert 0 <= axis.position(low) <= axis.position(low * factor) <= 100


@given(st.lists(st.floats(0, 300), max_size=8))
def test_labels_are_moved_apart_and_keep_their_order(places: list[float]) -> None:
    moved = spread_out(places, 15)
    order = sorted(range(len(places)), key=lambda at: places[at])
    gaps = [moved[after] - moved[before] for before, after in pairwise(order)]
    assert all(gap >= 15 - 1e-6 for gap in gaps)


def test_long_labels_lose_their_middle() -> None:
    long = "a" * 30 + "b" * 30
    assert short_names(["qdrant", long]) == {"qdrant": "qdrant", long: "a" * 12 + "…" + "b" * 11}
    alike = [f'faiss:model=random;index="IVF64,{kind}";nprobe=16' for kind in ("Flat", "PQ16")]
    assert short_names(alike) == dict(zip(alike, ["faiss[IVF64,Flat]", "faiss[IVF64,PQ16]"], strict=True))


def test_the_short_labels_of_the_document_stand_in_its_pictures_and_the_long_ones_in_tips() -> None:
    long = 'faiss:model=random;index="IVF64,HNSW16";nprobe=16'
    drawn = str(bars(Bars("AP", [Bar(long, 0.5, None, None, 0)]), labels={long: "faiss[nprobe=16]"}))
    assert re.findall(r'class="label"[^>]*>([^<]+)<', drawn) == ["faiss[nprobe=16]"]
    assert f"<title>{html.escape(long)}: 0.5000</title>" in drawn


def test_wide_letters_have_room() -> None:
    """Of a font in which a W is twice as wide as an n."""
    assert room_for(["W" * 10]) - room_for(["n" * 10]) > 40


@pytest.mark.parametrize(("share", "ends"), [(1.0, (0.5, 1.0)), (0.75, (0.25, 1.0)), (0.0, (0.0, 0.5))])
def test_the_axis_of_one_share_stays_within_0_and_1(share: float, ends: tuple[float, float]) -> None:
    axis = linear(share, share, 0, 100)
    assert (axis.low, axis.high) == pytest.approx(ends, abs=0.1)
    assert 0 <= axis.low < axis.high <= 1


def test_a_line_leaves_out_the_points_that_stand_alone() -> None:
    points = [(0.1, 0.2), (0.5, 0.9), (1.0, 0.4)]
    drawn = str(curves(Curves("recall", "share", [Curve("csr", points, 0, apart=frozenset({1}))])))
    (line,) = re.findall(r'<path d="([^"]+)" class="curve', drawn)
    assert len(re.findall(r"[ML]", line)) == 2
    assert "0.9000 at 0.5" in drawn


def words(svg: Svg) -> str:
    """The text alternative of a picture, which must be well-formed and have no style of its own."""
    root = ET.fromstring(str(svg))
    assert root.get("role") == "img"
    assert " style=" not in svg
    assert not re.search(r"\bnan\b|\binf\b", str(svg))
    return str(root.get("aria-label"))


def test_bars_and_curves_of_nothing_but_zeros_have_the_axis_of_a_share() -> None:
    drawn = [
        bars(Bars("Hit@3", [Bar("csr", 0.0, 0.0, 0.0, 0)])),
        curves(Curves("R", "k", [Curve("csr", [(1, 0.0), (10, 0.0)], 0)])),
    ]
    for picture in drawn:
        ticks = re.findall(r">([^<]+)</text>", str(picture))
        assert "1" in ticks
        assert not [one for one in ticks if "e−" in one]


def test_words_have_the_figures() -> None:
    numbers = {"a": 0, "<b>": 7}
    assert "a: 0.5000 [0.400, 0.600]; <b>: no value" in words(
        bars(Bars("AP", [Bar("a", 0.5, 0.4, 0.6, 0), Bar("<b>", None, None, None, 7)]))
    )
    assert "1 worse, 1 tied, 2 better" in words(
        differences(Differences("a", "<b>", "AP", np.array([0.5, 0.25, 0.0, -0.1])))
    )
    rows = [Curve("a", [(1, 0.1), (10, 0.5)], 0), Curve("<b>", [(1, 0.2), (10, 0.7)], 7, frozenset([0]))]
    drawn = curves(Curves("R", "k", rows, "few"))
    assert "a: 0.1000 at 1, 0.5000 at 10; <b>: 0.2000 at 1 (few), 0.7000 at 10" in words(drawn)
    assert str(drawn).count('class="knee"') == 1
    spots = [Spot("a", 0.5, 0.4, 0.6, 2.0, 0), Spot("<b>", 0.6, None, None, 9.5, 7)]
    assert "<b>: AP 0.6000, p95 latency 9.500 ms. On the frontier: a, <b>." in words(
        tradeoff(Tradeoff("AP", "p95 latency", "ms", spots))
    )
    assert "a: p50 1.000, p90 2.000, p95 3.000, p99 4.000 ms" in words(
        percentiles(Percentiles({"a": (1, 2, 3, 4)}, numbers))
    )
    samples = np.arange(1.0, 102.0)
    assert "<b>: p50 51.000, p95 96.000, p99 100.000 ms of 101 samples" in words(
        distribution(Distribution({"<b>": samples}, numbers))
    )
    assert "a and <b> 0.2500" in words(matrix(Matrix("Overlap", ["a", "<b>"], np.array([[1, 0.25], [0.25, 1]]))))
    assert "<b>: 3 good, 1 bad" in words(strips(Strips("Queries", ["good", "bad"], {"a": [0, 0], "<b>": [3, 1]}, "≡≠")))


@pytest.mark.parametrize("values", [[], [0.0] * 3, [1e-12], np.linspace(-1, 1, 3001).tolist()])
def test_differences_of_any_number_of_queries(values: list[float]) -> None:
    assert f" on {counted(len(values), 'query')}, sorted" in words(
        differences(Differences("a", "b", "AP", np.array(values)))
    )


def test_a_ring_marks_the_knee_of_each_backend() -> None:
    rows = [Throughput("a", [(10.0, 1.0), (20.0, 1.5)], 1, 0), Throughput("<b>", [(10.0, 2.0)], None, 1)]
    drawn = saturation(Saturation(rows))
    assert str(drawn).count('class="knee"') == 1
    assert "a: knee at 20.0/s, p99 1.500 ms; 10.0/s, p99 1.000 ms, 20.0/s, p99 1.500 ms" in words(drawn)
    assert "<b>: no knee; 10.0/s, p99 2.000 ms." in words(drawn)


def test_the_frontier_is_what_no_other_backend_beats() -> None:
    rows = {"cheap": (0.3, 1.0), "dear and worse": (0.2, 5.0), "good": (0.5, 4.0), "as good and dearer": (0.5, 6.0)}
    spots = [Spot(label, quality, None, None, cost, 0) for label, (quality, cost) in rows.items()]
    assert [spot.label for spot in Tradeoff("AP", "peak memory", "MiB", spots).frontier] == ["cheap", "good"]
