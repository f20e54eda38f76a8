from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError, MissingDependencyError
from tensorveil.models import CPModel, TuckerModel, from_tensorly
from tests.unit.models.model_cases import brute_force, random_model

tl = pytest.importorskip("tensorly")


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("offset", [0.0, 0.7])
@pytest.mark.parametrize("shape", [(4, 3), (4, 5, 3), (2, 3, 2, 3)])
def test_the_baseline_becomes_part_of_the_tensor(kind: Any, shape: tuple[int, ...], offset: Any, biases: Any) -> None:
    model = random_model(kind, shape, offset=offset, biases=biases)
    theirs = model.to_tensorly()
    dense = tl.cp_to_tensor(theirs) if kind == "cp" else tl.tucker_to_tensor(theirs)
    np.testing.assert_allclose(dense, brute_force(model), atol=1e-12)
    again = from_tensorly(theirs, modes=model.modes, bounds=(-1, 1))
    assert type(again) is type(model)
    np.testing.assert_allclose(again.dense(clip=False), model.dense(), atol=1e-12)
    assert again.bounds == (-1.0, 1.0)


def test_the_baseline_can_be_left_out(kind: Any) -> None:
    model = random_model(kind)
    theirs = model.to_tensorly(include_baseline=False)
    assert theirs.rank == model.rank
    dense = tl.cp_to_tensor(theirs) if kind == "cp" else tl.tucker_to_tensor(theirs)
    bare = random_model(kind, offset=0.0)
    np.testing.assert_allclose(dense + sum(np.ix_(*model.biases)), bare.dense(), atol=1e-12)


def test_weights_of_any_sign_are_kept() -> None:
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(size, 3)) for size in (4, 5, 2)]
    theirs = tl.cp_tensor.CPTensor((np.array([2.0, -3.0, 0.0]), factors))
    np.testing.assert_allclose(from_tensorly(theirs).dense(), tl.cp_to_tensor(theirs), atol=1e-12)
    plain = from_tensorly((None, factors))
    assert isinstance(plain, CPModel)
    np.testing.assert_array_equal(plain.factors[0], factors[0])
    assert isinstance(from_tensorly((np.ones((3, 3, 3)), factors)), TuckerModel)


def test_other_objects_are_refused() -> None:
    with pytest.raises(InputError, match="obj must be"):
        from_tensorly(3)
    with pytest.raises(InputError, match="2 axes"):
        from_tensorly((np.ones((2, 2)), [np.ones((2, 2))] * 3))


def test_without_tensorly_the_message_says_how_to_get_it(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorly", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        random_model(kind).to_tensorly()
