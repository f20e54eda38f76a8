from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorveil.learning as learning
from tensorveil.errors import InputError
from tensorveil.learning import Samples, majority_f1, share_out, subset, weighted_f1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60))
def test_weighted_f1_is_that_of_scikit_learn(pairs: Any) -> None:
    from sklearn.metrics import f1_score

    truth, found = (np.array(column) for column in zip(*pairs, strict=True))
    expected = f1_score(truth, found, average="weighted", labels=[0, 1, 2, 3], zero_division=0.0)
    assert weighted_f1(truth, found, 4) == pytest.approx(expected, abs=1e-12)


def test_the_majority_answers_with_one_class() -> None:
    # Of the test set a quarter is class 1: precision 1/4, recall 1, F1 2/5, weight 1/4.
    assert majority_f1([1, 1, 0], [0, 1, 2, 3], 4) == pytest.approx(0.1)


@given(st.integers(1, 40), st.integers(1, 10), st.integers(0, 5))
def test_shares_are_even_and_whole(n: int, users: Any, seed: int) -> None:
    samples = Samples(x=np.arange(n)[:, None], y=np.zeros(n, dtype=int), classes=2)
    if users > n:
        with pytest.raises(InputError, match="users must be between"):
            share_out(samples, users, seed)
        return
    parts = share_out(samples, users, seed)
    assert sorted(np.concatenate([part.x[:, 0] for part in parts]).tolist()) == list(range(n))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_subsets_are_of_the_records_and_repeatable() -> None:
    samples = Samples(x=np.arange(50)[:, None], y=np.zeros(50, dtype=int), classes=2)
    first, again = subset(samples, 7, 3), subset(samples, 7, 3)
    assert first.x.tolist() == again.x.tolist()
    assert len(set(first.x[:, 0].tolist())) == 7
    assert subset(samples, 80, 0) is samples


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": [1.0, 2.0]}, "x must hold numbers"),
        ({"y": [0]}, "one integer per record"),
        ({"classes": 1}, "classes must be at least 2; got 1"),
    ],
)
def test_samples_are_checked(change: Any, words: Any) -> None:
    with pytest.raises(InputError, match=words):
        Samples(**({"x": [[0.0], [1.0]], "y": [0, 1], "classes": 2} | change))


def test_public_names() -> None:
    assert sorted(learning.__all__) == list(learning.__all__)
    for name in learning.__all__:
        assert getattr(learning, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = learning.nothing


def test_torch_is_imported_late() -> None:
    import subprocess
    import sys

    code = "import sys, tensorveil.learning; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_what_is_no_number_or_no_class_is_brought_into_range_without_a_word() -> None:
    found = Samples(x=[[np.nan], [np.inf], [2.0]], y=[-3, 1, 7], classes=2)
    assert found.x[:, 0].tolist() == [0.0, np.finfo(float).max, 2.0]
    assert found.y.tolist() == [0, 1, 1]
    large = Samples(x=[[0.0], [1.0]], y=np.array([0, 2**64 - 1], dtype=np.uint64), classes=2)
    assert large.y.tolist() == [0, 1]
