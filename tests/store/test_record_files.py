"""Dataclasses come back from a folder as they were saved, and nothing else is taken for one of them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from warm_harness import script_command

from harness.data.types import Float32Array, Ids, Int64Array, SparseVectors
from harness.errors import CacheError
from harness.store.record_files import is_saved, load, save


class Cost(NamedTuple):
    took_ns: int
    times: Int64Array
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    role: Literal["documents", "queries"]
    place: Path


@dataclass(frozen=True, eq=False, slots=True)
class Everything:
    ids: Ids
    scores: Float32Array
    flags: npt.NDArray[np.bool_]
    vectors: SparseVectors | None
    cost: Cost
    parts: tuple[Part, ...]
    lists: Mapping[str, Cost]
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    note: str | None = None


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
paths = st.lists(st.text("abc é\n.", min_size=1, max_size=4), max_size=3).map(lambda parts: Path(*parts))
parameters = names | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()


def columns(dtype: npt.DTypeLike) -> st.SearchStrategy[npt.NDArray[Any]]:
    return arrays.arrays(dtype, arrays.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=3))


costs = st.builds(Cost, st.integers(0, 2**62), columns(np.int64), st.none() | st.integers(0, 2**62))
everything = st.builds(
    Everything,
    ids=st.lists(names, unique=True, max_size=4).map(Ids.of),
    scores=columns(np.float32),
    flags=columns(np.bool_),
    vectors=st.none() | st.builds(SparseVectors, *map(columns, (np.int64, np.int32, np.float32)), st.integers(0, 9)),
    cost=costs,
    parts=st.lists(st.builds(Part, st.sampled_from(["documents", "queries"]), paths), max_size=2).map(tuple),
    lists=st.dictionaries(names, costs, max_size=2),
    parameters=st.dictionaries(names, parameters, max_size=3),
    note=st.none() | names,
)


def assert_same(one: object, other: object) -> None:
    """Equal in type and value, arrays and ids compared as such."""
    if isinstance(one, Ids):
        assert isinstance(other, Ids)
        assert one.to_list() == other.to_list()
    elif isinstance(one, np.ndarray):
        assert isinstance(other, np.ndarray)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif is_dataclass(one):
        assert type(one) is type(other)
        for each in fields(one):
            assert_same(getattr(one, each.name), getattr(other, each.name))
    elif isinstance(one, tuple):
        assert type(one) is type(other)
        assert isinstance(other, tuple)
        for mine, its in zip(one, other, strict=True):
            assert_same(mine, its)
    elif isinstance(one, dict):
        assert isinstance(other, dict)
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    else:
        assert type(one) is type(other) or isinstance(one, Path)
        assert one == other


@given(everything, everything)
def test_a_record_comes_back_as_it_was_saved_last(first: Everything, second: Everything) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        for record in (first, second):
            save(folder, record)
            assert_same(load(folder, Everything), record)


def test_a_mapping_need_not_be_a_dict_and_a_path_may_be_written_as_text(tmp_path: Path) -> None:
    nothing = np.zeros(0, dtype=np.float32)
    cost = Cost(0, np.zeros(0, dtype=np.int64))
    parts = (Part("queries", "somewhere"),)  # type: ignore[arg-type]
    save(tmp_path, Everything(Ids.of([]), nothing, nothing > 0, None, cost, parts, {}, MappingProxyType({"k": 1})))
    again = load(tmp_path, Everything)
    assert again.parameters == {"k": 1}
    assert again.parts == (Part("queries", Path("somewhere")),)


def test_records_of_several_classes_lie_beside_each_other(tmp_path: Path) -> None:
    save(tmp_path, Part("queries", Path("a")))
    save(tmp_path, Cost(3, np.arange(2)))
    assert is_saved(tmp_path, Part)
    assert not is_saved(tmp_path, Everything)
    assert (load(tmp_path, Part), load(tmp_path, Cost).took_ns) == (Part("queries", Path("a")), 3)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"", "truncated"),
        (b'{"role":"queries"}', "missing required field `place`"),
        (b'{"role":"answers","place":"a"}', "Invalid enum value 'answers'"),
        (b'{"role":"queries","place":3}', ""),
    ],
)
def test_a_damaged_record_is_refused_with_its_file(tmp_path: Path, written: bytes, said: str) -> None:
    (tmp_path / "Part.json").write_bytes(written)
    with pytest.raises(CacheError, match=rf"cannot read '.*Part.json': .*{said}"):
        load(tmp_path, Part)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"Cost\.json"):
        load(tmp_path, Cost)
    save(tmp_path, Cost(3, np.arange(2)))
    (tmp_path / "Cost.0.npy").unlink()
    with pytest.raises(CacheError, match=r"Cost\.0\.npy"):
        load(tmp_path, Cost)


def test_objects_are_never_pickled(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        save(tmp_path, Cost(3, np.array([object()])))
    with pytest.raises(NotImplementedError, match="cannot hold a object"):
        save(tmp_path, Part("queries", object()))  # type: ignore[arg-type]


AT_ONCE = """
import sys
import threading
from dataclasses import field, make_dataclass
from pathlib import Path
from harness.store.record_files import load, save

sys.setswitchinterval(1e-6)

def load_at_once(folder, record, barrier):
    barrier.wait()
    assert load(folder, record).f3 == "3"

for number in range(100):
    inner = make_dataclass(f"Inner{number}", [(f"i{n}", "dict[str, tuple[int, ...]] | None", None) for n in range(8)])
    outer = make_dataclass(f"Outer{number}", [*((f"f{n}", "str | None") for n in range(8)), ("inner", inner, None)])
    folder = Path(sys.argv[1], str(number))
    folder.mkdir()
    save(folder, outer(*map(str, range(8)), inner()))
    barrier = threading.Barrier(4)
    threads = [threading.Thread(target=load_at_once, args=(folder, outer, barrier)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("all loaded")
"""


def test_a_class_can_be_loaded_for_the_first_time_by_several_threads(tmp_path: Path) -> None:
    script = tmp_path / "at_once.py"
    script.write_text(AT_ONCE)
    result = subprocess.run(
        [*script_command(), str(script), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "all loaded\n"), result.stderr[-2000:]
