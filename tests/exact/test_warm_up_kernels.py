"""What is compiled beforehand is all that a search needs: nothing is compiled while something is timed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
import numpy as np
from numba.core.dispatcher import Dispatcher
from scipy.sparse import csr_array
from harness.exact import DenseIndex, SparseIndex, compile_dense_kernels, compile_kernels

def compiled():
    kernels = (one for one in gc.get_objects() if isinstance(one, Dispatcher))
    return {(one.py_func.__module__, one.py_func.__qualname__, len(one.signatures)) for one in kernels}

compile_kernels()
compile_dense_kernels()
before = compiled()
generator = np.random.default_rng(0)
values = generator.random((20_000, 300)) * (generator.random((20_000, 300)) < 0.2)
index = SparseIndex.build(csr_array(values))
index.retrieve(csr_array(values[:5]), 10)
dense = DenseIndex.build(values.astype(np.float32))
dense.retrieve(values[0], 10)
dense.retrieve(values[:64], 10)
print(sorted(compiled() - before))
"""


def test_nothing_is_compiled_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
