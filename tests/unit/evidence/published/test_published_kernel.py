"""Algorithm 2 entry by entry, against a plain loop that follows its lines."""

from typing import Any

import numpy as np
import pytest

from tensorveil.kernels.padded import pad, unpad
from tensorveil_evidence.kernels.published import cp_sgd_published, tucker_sgd_published
from tensorveil_evidence.kernels.published_private import sgd_published_private

ETA, LAM, LAM_G = 0.03, 0.2, 0.1


def problem(order: int, core: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    shape = tuple(range(3, 3 + order))
    ranks = tuple(2 + m % 2 for m in range(order)) if core else (3,) * order
    factors = [rng.standard_normal((size, rank)) for size, rank in zip(shape, ranks, strict=True)]
    columns = np.stack([rng.integers(0, size, 25, dtype=np.int32) for size in shape])
    middle = rng.standard_normal(ranks) if core else None
    return columns, rng.standard_normal(25), rng.permutation(25), middle, factors, rng


def predict(core: Any, rows: Any) -> Any:
    if core is None:
        return np.prod(rows, axis=0).sum()
    out = core
    for row in rows:
        out = np.tensordot(row, out, axes=(0, 0))
    return float(out)


def gradient(x: Any, core: Any, rows: Any, mode: Any) -> Any:
    """By the definition: the prediction is linear in a row, so its derivative is its value at unit rows."""
    h = np.array([predict(core, [*rows[:mode], unit, *rows[mode + 1 :]]) for unit in np.eye(len(rows[mode]))])
    return -2 * (x - predict(core, rows)) * h + 2 * LAM * rows[mode]


def plain_loop(
    columns: Any, values: Any, order: Any, core: Any, factors: Any, noise: Any, noisy: Any, clip: Any
) -> Any:
    """Follow the lines; ``noisy`` None: every mode and the core, whose noise stands side by side."""
    factors = [f.copy() for f in factors]
    core = None if core is None else core.copy()
    for visit, p in enumerate(order):
        at = columns[:, p]
        rows = [f[i] for f, i in zip(factors, at, strict=True)]  # views: updates show at once
        drawn = noise[visit]
        for mode in sorted(range(len(rows)), key=lambda m: (m == noisy, m)):
            g = gradient(values[p], core, rows, mode)
            if noisy in (None, mode):
                n, drawn = drawn[: len(g)], drawn[len(g) :]
                g = g / max(1, np.linalg.norm(g) / clip) + n
            rows[mode][:] = rows[mode] - ETA * g
        if core is not None:
            outer = rows[0]
            for row in rows[1:]:
                outer = np.multiply.outer(outer, row)
            g = -2 * (values[p] - predict(core, rows)) * outer + 2 * LAM_G * core
            if noisy is None:
                g = g / max(1, np.linalg.norm(g) / clip) + drawn.reshape(core.shape)
            core = core - ETA * g
    return core, factors


@pytest.mark.parametrize("clip", [0.05, 1.0, 1e6])
@pytest.mark.parametrize(("order", "noisy"), [(2, 1), (3, 2), (3, 0), (4, 1), (2, None), (3, None)])
@pytest.mark.parametrize("with_core", [False, True])
def test_follows_the_printed_lines(order: int, noisy: Any, with_core: Any, clip: Any) -> None:
    columns, values, visits, core, factors, rng = problem(order, with_core)
    sizes = [f.shape[1] for f in factors] + ([core.size] if with_core else [])
    noise = rng.standard_normal((25, sum(sizes) if noisy is None else sizes[noisy]))
    expected_core, expected = plain_loop(columns, values, visits, core, factors, noise, noisy, clip)
    padded = pad(factors)
    sgd_published_private(columns, values, visits, core, padded, noise, noisy, clip, ETA, LAM, LAM_G)
    for got, want in zip(unpad(padded), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    if with_core:
        np.testing.assert_allclose(core, expected_core, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("with_core", [False, True])
def test_without_noise_and_clipping_it_is_the_published_descent_to_the_bit(with_core: Any) -> None:
    columns, values, visits, core, factors, _ = problem(3, with_core)
    one, other = pad(factors), pad(factors)
    noise = np.zeros((25, factors[-1].shape[1]))
    mine = None if core is None else core.copy()
    total = sgd_published_private(columns, values, visits, mine, one, noise, 2, 1e300, ETA, LAM, LAM_G)
    if with_core:
        same = tucker_sgd_published(
            columns, values, visits, core, other, step=2 * ETA, decay=2 * ETA * LAM, core_decay=2 * ETA * LAM_G
        )
        np.testing.assert_array_equal(mine, core)
    else:
        same = cp_sgd_published(columns, values, visits, other, step=2 * ETA, decay=2 * ETA * LAM)
    assert total == same
    np.testing.assert_array_equal(one.flat, other.flat)


def test_clipped_steps_are_short() -> None:
    columns, values, _, _, factors, _ = problem(3, False)
    padded = pad(factors)
    sgd_published_private(columns, 100 * values, np.array([4]), None, padded, np.zeros((1, 3)), 2, 0.05, ETA, LAM)
    step = np.linalg.norm(unpad(padded)[2] - factors[2])
    assert step == pytest.approx(ETA * 0.05, rel=1e-9)


def test_the_first_step_of_other_modes_is_free_of_noise() -> None:
    """What refutes the claim: A is released, and moved by a value before any noise is drawn."""
    columns, values, _, _, factors, rng = problem(3, False)
    moved = []
    for x in (values[4], values[4], values[4] + 1):
        padded = pad(factors)
        noise = 1e6 * rng.standard_normal((1, 3))
        changed = values.copy()
        changed[4] = x
        sgd_published_private(columns, changed, np.array([4]), None, padded, noise, 2, 0.05, ETA, LAM)
        moved.append(unpad(padded)[0])
    np.testing.assert_array_equal(moved[0], moved[1])
    assert np.abs(moved[2] - moved[0]).max() > 1e-3
