"""A Gram matrix without its diagonal, times a thin matrix, against matrices."""

import numpy as np
import pytest

from tensorveil.kernels.unfolding import multiply_gram


@pytest.mark.parametrize("width", [1, 3, 8, 19])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_the_product_is_that_of_the_matrix(width: int, kind: type) -> None:
    rng = np.random.default_rng(width)
    unfolded = rng.normal(size=(12, 40)) * (rng.random((12, 40)) < 0.15)  # with columns of no entry and of one
    columns, rows = np.nonzero(unfolded.T)
    starts = np.searchsorted(columns, np.arange(41))
    basis = rng.normal(size=(12, width))
    gram = unfolded @ unfolded.T
    want = (gram - np.diag(np.diag(gram))) @ basis
    got = multiply_gram(starts.astype(kind), rows.astype(kind), unfolded[rows, columns], basis)
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-10)


def test_entries_that_are_alone_say_nothing() -> None:
    empty = np.zeros(0)
    assert not multiply_gram(np.arange(4), np.arange(3), np.ones(3), np.ones((3, 2))).any()
    assert not multiply_gram(np.zeros(1, int), empty.astype(int), empty, np.ones((3, 2))).any()
