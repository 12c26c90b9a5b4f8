"""Vectors rounded to whole numbers: their products, how far these may be off, and searches that begin with them."""

from __future__ import annotations

import numpy as np
import pytest

from harness.data.jit import kernel
from harness.data.types import Float32Array, Int16Array, Int32Array, Similarity
from harness.exact import DenseIndex
from harness.exact.dense import search
from harness.exact.dense.estimates import WHOLE, Coarse, rounding_error
from harness.exact.integer_products import SIDE, TALL, WIDE, multiply_tile, round_sixteen, transpose_square
from harness.exact.warm_up import compile_dense_kernels

GENERATOR = np.random.default_rng(21)
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot", "l2")


@kernel
def _round(values: Float32Array, scale: np.float32, rounded: Int16Array) -> None:
    round_sixteen(values, np.uint64(3), scale, rounded, np.uint64(2))


@kernel
def _transpose(given: Int32Array, stride: int, turned: Int32Array) -> None:
    transpose_square(given, np.uint64(2), np.uint64(stride), turned, np.uint64(5))


@kernel
def _multiply(left: Int32Array, right: Int32Array, pairs: int, products: Float32Array) -> None:
    multiply_tile(
        left, np.uint64(TALL), right, np.uint64(WIDE), np.uint64(pairs), products, np.uint64(1), np.uint64(20)
    )


def test_sixteen_numbers_are_rounded_to_the_nearest() -> None:
    values, rounded = GENERATOR.uniform(-1, 1, 30).astype(np.float32), np.zeros(20, dtype=np.int16)
    values[3:7] = [0.5 / 4, 1.5 / 4, -2.5 / 4, 1.0]
    _round(values, np.float32(4), rounded)
    assert rounded[2:6].tolist() == [0, 2, -2, 4]
    assert rounded.tolist() == [0, 0, *np.rint(values[3:19] * np.float32(4)).tolist(), 0, 0]


def test_a_square_is_transposed() -> None:
    given, turned = np.arange(100, dtype=np.int32), np.zeros(SIDE * WIDE + 5, dtype=np.int32)
    _transpose(given, 11, turned)
    rows = np.array([given[2 + 11 * row : 10 + 11 * row] for row in range(SIDE)])
    assert np.array_equal(turned[5:].reshape(SIDE, WIDE)[:, :SIDE], rows.T)
    assert not turned[5:].reshape(SIDE, WIDE)[:, SIDE:].any()


@pytest.mark.parametrize("pairs", [1, 2, 7, 192])
def test_products_are_exact_before_they_are_rounded_to_float32(pairs: int) -> None:
    most = int(np.sqrt((2**31 - 1) / (2 * pairs)))
    left, right = (
        GENERATOR.integers(-most, most + 1, (count, 2 * pairs)).clip(-32767, 32767).astype(np.int16)
        for count in (TALL, WIDE)
    )
    products = np.full((TALL, 20), np.nan, dtype=np.float32)
    laid = (np.concatenate([one.view(np.int32).T[:1], one.view(np.int32).T]).ravel() for one in (left, right))
    _multiply(*laid, pairs, products.ravel())
    exact = left.astype(np.int64) @ right.astype(np.int64).T
    assert np.array_equal(products[:, 1 : WIDE + 1], exact.astype(np.float32))
    assert np.isnan(products[:, WIDE + 1 :]).all()


@pytest.mark.parametrize("dimensions", [1, 3, 64, 384, 3072])
def test_rounding_moves_a_cosine_by_no_more_than_is_said(dimensions: int) -> None:
    vectors = GENERATOR.standard_normal((2, 50, dimensions))
    # the worst: every value half-way between two whole numbers, and both vectors the same
    halves = np.floor(np.abs(vectors[0, 0]) / np.linalg.norm(vectors[0, 0]) * WHOLE) + 0.499
    vectors[:, 0] = halves / np.linalg.norm(halves)
    unit = vectors / np.linalg.norm(vectors, axis=2, keepdims=True)
    rounded = np.rint(unit.astype(np.float32) * np.float32(WHOLE)).astype(np.float64)
    off = np.abs(rounded[0] @ rounded[1].T / WHOLE**2 - unit[0] @ unit[1].T).max()
    assert off <= rounding_error(dimensions)
    assert dimensions < 3 or off > rounding_error(dimensions) / 400


def _begun(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each batch of queries began with rounded vectors."""
    begun: list[bool] = []
    begin = search._begin

    def noted(*arguments: object) -> Coarse | None:
        coarse = begin(*arguments)  # type: ignore[arg-type]
        begun.append(coarse is not None)
        return coarse

    monkeypatch.setattr(search, "_begin", noted)
    return begun


def _searched(index: DenseIndex, queries: Float32Array, k: int, similarity: Similarity) -> list[list[float]]:
    found = index.retrieve(queries, k, similarity=similarity)
    return [found.rows.tolist(), found.scores.tolist()]


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("dimensions", [5, 16, 50])
def test_a_search_that_begins_with_rounded_vectors_finds_the_same(
    similarity: Similarity, dimensions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = GENERATOR.uniform(0.7, 1.4, (16_411, 1))
    documents = (GENERATOR.standard_normal((16_411, dimensions)) * lengths).astype(np.float32)
    index, queries = DenseIndex.build(documents), documents[:61] + np.float32(0.1)
    begun = _begun(monkeypatch)
    for k in (1, 20, 900):
        found = _searched(index, queries, k, similarity)
        with monkeypatch.context() as patched:
            patched.setattr(search, "_FEW_QUERIES", 1000)
            assert _searched(index, queries, k, similarity) == found
    assert begun == [True] * 3


def test_vectors_that_rounding_makes_alike_are_multiplied_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    centre = GENERATOR.standard_normal(24)
    documents = (centre + 1e-4 * GENERATOR.standard_normal((17_000, 24))).astype(np.float32)
    index, queries = DenseIndex.build(documents), documents[:40]
    begun = _begun(monkeypatch)
    found = _searched(index, queries, 10, "cosine")
    assert begun == [False]
    monkeypatch.setattr(search, "_MORE", np.inf)
    assert _searched(index, queries, 10, "cosine") == found
    assert begun == [False, True]
    monkeypatch.setattr(search, "_FEW_QUERIES", 1000)
    assert _searched(index, queries, 10, "cosine") == found
    assert len(begun) == 2


def test_a_query_of_zeros_is_no_cause_to_search_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its slack is infinite, and nothing may be taken from infinity."""
    documents = (GENERATOR.standard_normal(24) + 1e-4 * GENERATOR.standard_normal((17_000, 24))).astype(np.float32)
    index, queries = DenseIndex.build(documents), documents[:40].copy()
    queries[7] = 0.0
    with monkeypatch.context() as patched:
        begun = _begun(patched)
        patched.delattr(search, "_search_again")
        found = _searched(index, queries, 10, "dot")
    assert begun == [False]
    monkeypatch.setattr(search, "_FEW_QUERIES", 1000)
    assert _searched(index, queries, 10, "dot") == found


def test_warming_up_compiles_what_many_queries_need(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = _begun(monkeypatch)
    compile_dense_kernels()
    assert begun == [True]


def test_vectors_that_need_scaling_are_not_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = GENERATOR.standard_normal((17_000, 8)).astype(np.float32) * np.float32(1e-15)
    index, begun = DenseIndex.build(documents), _begun(monkeypatch)
    assert _searched(index, documents[:40], 1, "cosine")[0] == list(range(40))
    assert begun == [False]
