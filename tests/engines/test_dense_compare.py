"""Stored dense vectors beside those of the encoder: what rounding may do, and what is another vector."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from harness.data.types import Float32Array
from harness.engines.external_index import same_vectors


def one_after_the_other(squares: Float32Array) -> Float32Array:
    return np.cumsum(squares, axis=1, dtype=np.float32)[:, -1]


def in_eight_lanes(squares: Float32Array) -> Float32Array:
    return one_after_the_other(np.cumsum(squares.reshape(len(squares), -1, 8), axis=1, dtype=np.float32)[:, -1])


def given(dimensions: int) -> Float32Array:
    generator = np.random.default_rng(dimensions)
    lengths = generator.uniform(1e-3, 1e3, (200, 1))
    return (generator.standard_normal((200, dimensions)) * lengths).astype(np.float32)


def divided(vectors: Float32Array, sums: Callable[[Float32Array], Float32Array]) -> Float32Array:
    return vectors / np.sqrt(sums(np.square(vectors)))[:, None]


@pytest.mark.parametrize("sums", [one_after_the_other, in_eight_lanes])
@pytest.mark.parametrize("dimensions", [8, 384, 4096])
def test_a_length_summed_in_any_order_is_the_same_vector(
    dimensions: int, sums: Callable[[Float32Array], Float32Array]
) -> None:
    vectors = given(dimensions)
    stored = divided(vectors, sums)
    assert same_vectors(stored, vectors, "unit").all()
    assert same_vectors(stored * np.float32(3), vectors, "direction").all()
    assert same_vectors(stored.astype(np.float16).astype(np.float32), vectors, "unit", half=True).all()
    assert not same_vectors(stored, vectors, "bits").any()


def test_a_vector_of_length_one_may_be_left_as_it_is() -> None:
    vectors = divided(given(64), one_after_the_other)
    assert same_vectors(vectors, vectors, "unit").all()
    assert same_vectors(vectors, vectors, "bits").all()


def test_another_vector_is_none_of_them() -> None:
    vectors = given(384)
    stored = divided(vectors, one_after_the_other)
    moved = stored.copy()
    moved[:, 5] += 4 * np.spacing(np.abs(moved[:, 5]))
    assert not same_vectors(moved, vectors, "unit").any()
    assert not same_vectors(stored * np.float32(1.0001), vectors, "unit").any()
    assert not same_vectors(-stored, vectors, "direction").any()
    assert not same_vectors(np.full_like(stored, np.nan), vectors, "direction").any()
    assert not same_vectors(vectors, vectors, "unit").any()


def test_half_precision_keeps_what_it_can() -> None:
    vectors = given(64)
    halved = vectors.astype(np.float16).astype(np.float32)
    assert same_vectors(halved, vectors, "bits", half=True).all()
    assert not same_vectors(halved, vectors, "bits").any()
    assert not same_vectors(np.nextafter(halved, np.float32(np.inf)), vectors, "bits", half=True).any()
