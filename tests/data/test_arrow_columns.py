"""Arrow columns made of buffers are those that Arrow itself makes, and come back as NumPy gave them."""

from __future__ import annotations

import gc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from harness.data.arrow import (
    as_numpy,
    byte_strings,
    numbers,
    numbers_or_null,
    read_parquet,
    strings,
    take_or_null,
    text_content,
    text_scalar,
    text_where,
)

TEXTS = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), st.text("ab", max_size=3))
KINDS = [np.bool_, np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64]
VECTORS = st.sampled_from(KINDS).flatmap(lambda kind: arrays.arrays(kind, st.integers(0, 20)))


@given(st.lists(st.none() | TEXTS, max_size=12), st.integers(1, 100))
def test_texts_are_the_column_that_arrow_makes(few, times):
    given_texts = few * times  # on both sides of what is joined at once
    found = strings(iter(given_texts))
    found.validate(full=True)
    assert found.type == pa.string()
    assert found.null_count == given_texts.count(None)
    assert found.equals(pa.array(given_texts, pa.string()))


@pytest.mark.parametrize("given_texts", [["a", 3], [b"a"], ["é", None, 1.5]])
def test_what_is_no_text_is_refused(given_texts):
    with pytest.raises(TypeError):
        strings(given_texts)


def test_a_lone_surrogate_is_refused():
    with pytest.raises(UnicodeEncodeError):
        strings(["a", "\ud800"])


def test_more_text_than_one_array_holds_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("harness.data.arrow._MOST_BYTES", 6)  # instead of 2 GiB
    assert strings(["abé", "de"]).to_pylist() == ["abé", "de"]
    with pytest.raises(pa.ArrowCapacityError, match="7 bytes"):
        strings(["abé", "def"])


@given(TEXTS)
def test_a_text_scalar_is_that_of_arrow(text):
    assert text_scalar(text).equals(pa.scalar(text, pa.string()))


@given(st.lists(st.binary(min_size=4, max_size=4)))
def test_byte_strings_are_the_column_that_arrow_makes(values):
    assert byte_strings(values, 4).equals(pa.array(values, pa.binary(4)))


def test_byte_strings_of_another_width_are_refused():
    with pytest.raises(pa.ArrowInvalid, match="4 bytes"):
        byte_strings([b"abcd", b"abc", b"abcde"], 4)


@given(VECTORS, st.integers(1, 3))
def test_numbers_are_the_column_that_arrow_makes(values, step):
    given_values = values[::step]
    found = numbers(given_values)
    found.validate(full=True)
    expected = pa.array(given_values)
    assert found.type == expected.type
    assert found.null_count == 0
    np.testing.assert_array_equal(as_numpy(found), expected.to_numpy(zero_copy_only=False))


@given(arrays.arrays(st.sampled_from([np.float32, np.float64]), st.integers(0, 20)))
def test_nan_becomes_null_where_asked_for(values):
    found = numbers_or_null(values)
    assert found.equals(pa.array(values, from_pandas=True))
    assert found.null_count == np.isnan(values).sum()
    np.testing.assert_array_equal(as_numpy(found, null=np.nan), values)


@given(VECTORS, st.data())
def test_any_slices_and_chunks_give_the_numbers_back(values, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    first, last = (cuts[0], cuts[-1]) if cuts else (0, 0)
    whole = numbers(values)
    parts = [whole[start:end] for start, end in pairwise(cuts)]
    found = as_numpy(pa.chunked_array(parts, type=whole.type))
    assert found.dtype == values.dtype
    assert not found.flags.writeable
    np.testing.assert_array_equal(found, values[first:last])
    np.testing.assert_array_equal(as_numpy(whole[first:last]), values[first:last])


@given(
    st.lists(st.none() | st.integers(-5, 5), max_size=20),
    st.integers(0, 20),
    st.sampled_from([pa.int32(), pa.float64()]),
)
def test_nulls_become_what_the_caller_names(values, start, kind):
    column = pa.array(values, kind)[start:]
    expected = [-7 if value is None else value for value in values[start:]]
    assert as_numpy(column, null=-7).tolist() == expected
    assert as_numpy(pa.chunked_array([column, column]), null=-7).tolist() == expected * 2


def test_nulls_without_a_name_are_refused():
    with pytest.raises(pa.ArrowInvalid, match="1 of 3 values"):
        as_numpy(pa.array([1, None, 2]))
    assert as_numpy(pa.array([True, None, False]), null=False).tolist() == [True, False, False]


@pytest.mark.parametrize("column", [pa.array(["a"]), pa.array([[1]]), pa.chunked_array([], pa.binary())])
def test_a_column_without_numbers_is_refused(column):
    with pytest.raises(pa.ArrowTypeError, match="holds no numbers"):
        as_numpy(column)


def test_arrays_that_are_no_column_are_refused():
    with pytest.raises(pa.ArrowInvalid, match="shape"):
        numbers(np.zeros((2, 2)))
    with pytest.raises(pa.ArrowTypeError, match="<U1"):
        numbers(np.array(["a"]))
    with pytest.raises(pa.ArrowTypeError, match=">f4"):
        numbers(np.zeros(2, ">f4"))


def test_numbers_are_shared_and_outlive_their_owner():
    values = np.arange(1000)
    column = numbers(values)
    assert np.shares_memory(as_numpy(column), values)
    assert np.shares_memory(as_numpy(pa.chunked_array([column[10:]])), values)
    view = as_numpy(column)
    del values, column
    gc.collect()
    assert view.sum() == 499_500


def test_parquet_is_read_whole_or_by_column(tmp_path: Path):
    table = pa.table({"name": ["a", None], "value": [1.5, 2.5]})
    pq.write_table(table, tmp_path / "table.parquet")
    assert read_parquet(tmp_path / "table.parquet").equals(table)
    assert read_parquet(tmp_path / "table.parquet", ["value"]).equals(table.select(["value"]))
    with pytest.raises(FileNotFoundError):
        read_parquet(tmp_path / "none.parquet")
    (tmp_path / "none.parquet").write_bytes(b"PAR?")
    with pytest.raises(pa.ArrowInvalid):
        read_parquet(tmp_path / "none.parquet")


@given(st.text(max_size=4), st.lists(st.booleans(), max_size=20))
def test_a_text_where_a_mask_is_true_is_the_column_of_its_texts(text: str, mask: list[bool]) -> None:
    column = text_where(np.array(mask, dtype=np.bool_), text)
    column.validate(full=True)
    assert column.equals(pa.array([text if flag else None for flag in mask], pa.string()))


def test_more_of_a_text_than_one_array_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.data.arrow._MOST_BYTES", 5)
    assert text_where(np.array([True, False]), "12345").to_pylist() == ["12345", None]
    with pytest.raises(pa.ArrowCapacityError, match="6 bytes of text"):
        text_where(np.array([True, False, True]), "123")


@given(st.lists(st.lists(st.none() | st.text(max_size=3), max_size=9), max_size=4), st.integers(0, 3))
def test_the_content_of_texts_does_not_depend_on_slices(parts: list[list[str | None]], start: int) -> None:
    for kind in (pa.string(), pa.large_string()):
        column = pa.chunked_array([pa.array(part, kind).slice(start) for part in parts], kind)
        texts = [text for text in column.to_pylist() if text is not None]
        assert b"".join(text_content(column)) == "".join(texts).encode()


def test_rows_below_zero_are_null() -> None:
    assert take_or_null(strings(["a", "b"]), np.array([1, -1, 0])).to_pylist() == ["b", None, "a"]
    assert take_or_null(strings([]), np.array([-1])).to_pylist() == [None]
    with pytest.raises(IndexError):
        take_or_null(strings(["a"]), np.array([1]))
