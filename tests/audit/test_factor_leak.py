"""The attack on factors: exact on a converged fit, whatever noise one factor got; harmless against our releases."""

from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.audit.factor_leak import Leak, recover, residual
from tensorveil.audit.model_leak import model_leak
from tensorveil.errors import InputError
from tensorveil.mechanisms.names import BY_UNIT
from tensorveil.models.cp_algebra import cp_design

RIDGE = 0.05


def converged(per_entry: Any, sweeps: int = 4000) -> Any:
    """Fit by plain alternating least squares until nothing moves."""
    tensor = tv.synthetic_cp((7, 6, 5), 2, snr=4.0, missing=0.3, random_state=0).train
    columns, values = tensor.columns, tensor.values.astype(float)
    rng = np.random.default_rng(1)
    factors = [rng.normal(size=(size, 2)) for size in tensor.shape]
    for _ in range(sweeps):
        for mode in range(3):
            design = cp_design(columns, factors, mode)
            for i in range(tensor.shape[mode]):
                here = columns[mode] == i
                h = design[here]
                ridge = RIDGE * (here.sum() if per_entry else 1) * np.eye(2)
                factors[mode][i] = np.linalg.solve(h.T @ h + ridge, h.T @ values[here])
    return columns, values, factors


@pytest.mark.parametrize("per_entry", [True, False])
def test_one_value_is_recovered_from_two_factors(per_entry: Any) -> None:
    columns, values, factors = converged(per_entry, 1500)
    noisy = [*factors[:2], factors[2] + np.random.default_rng(2).normal(size=factors[2].shape)]
    for hidden in (0, 17, 60):
        leak = Leak(
            columns=columns, values=values, hidden=hidden, factors=tuple(noisy), regularization=RIDGE,
            per_entry=per_entry, solved=2,
        )  # fmt: skip
        assert recover(leak, (values.min() - 1, values.max() + 1)) == pytest.approx(values[hidden], abs=1e-5)
        # With all factors noiseless there is nothing to solve.
        plain = Leak(
            columns=columns, values=values, hidden=hidden, factors=tuple(factors), regularization=RIDGE,
            per_entry=per_entry, solved=None,
        )  # fmt: skip
        assert recover(plain, (values.min() - 1, values.max() + 1)) == pytest.approx(values[hidden], abs=1e-5)


def test_the_residual_is_that_of_the_gradients() -> None:
    """The polynomial against the gradients computed anew for a candidate."""
    columns, values, factors = converged(True, 5)
    hidden, candidate = 9, 0.37
    leak = Leak(
        columns=columns, values=values, hidden=hidden, factors=tuple(factors), regularization=RIDGE, per_entry=True,
        solved=2,
    )  # fmt: skip
    tried = values.copy()
    tried[hidden] = candidate
    rows = factors[2].copy()
    design = cp_design(columns, factors, 2)
    for k in range(5):
        here = columns[2] == k
        h = design[here]
        rows[k] = np.linalg.solve(h.T @ h + RIDGE * here.sum() * np.eye(2), h.T @ tried[here])
    total = 0.0
    for mode in (0, 1):
        here = columns[mode] == columns[mode, hidden]
        row = factors[mode][columns[mode, hidden]]
        h = cp_design(columns[:, here], [*factors[:2], rows], mode)
        gradient_of_row = (h @ row - tried[here]) @ h + RIDGE * here.sum() * row
        total += gradient_of_row @ gradient_of_row
    assert float(residual(leak)(candidate)) == pytest.approx(total, rel=1e-9)


def test_the_hidden_value_is_never_read() -> None:
    columns, values, factors = converged(True, 5)
    options = {"columns": columns, "hidden": 3, "factors": tuple(factors), "regularization": RIDGE, "per_entry": True}
    other = values.copy()
    other[3] = 1e6
    found = [recover(Leak(values=v, solved=2, **options), (-1.0, 1.0)) for v in (values, other)]
    assert found[0] == found[1]
    with pytest.raises(InputError, match="hidden"):
        Leak(values=values, solved=2, **(options | {"hidden": 10_000}))


@pytest.mark.parametrize("per_entry", [True, False])
def test_a_converged_model_gives_every_entry_away(per_entry: Any) -> None:
    """Without knowing the ridge: it is estimated from the rows themselves."""
    columns, values, factors = converged(per_entry, 1500)
    tensor = tv.ObservedTensor(columns.T, values, shape=(7, 6, 5))
    leak = model_leak(tv.CPModel(factors=tuple(factors)), tensor)
    assert leak.closer > 0.97
    assert leak.recovered_error < 1e-3 * leak.predicted_error
    assert leak.found


@pytest.mark.parametrize("method", BY_UNIT["value"])
def test_private_models_give_none_away(method: Any) -> None:
    data = tv.synthetic_cp((20, 15, 10), 2, snr=4.0, random_state=1).train
    fit = tv.PrivateCP(
        2, epsilon=5.0, delta=0.0, unit="value", bounds=(-1, 2), method=method, sweeps=20, restarts=1, noise_seed=3
    ).fit(data)
    leak = model_leak(fit.model_, data)
    assert not leak.found
    assert leak.closer < 0.3
    assert "no leak found" in leak.sentence()


def test_a_model_of_other_data_is_refused() -> None:
    data = tv.synthetic_cp((6, 5, 4), 2, random_state=1).train
    with pytest.raises(InputError, match="shape"):
        model_leak(tv.CPModel(factors=(np.ones((1, 1)), np.ones((1, 1)))), data)
