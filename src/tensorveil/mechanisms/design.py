"""Designs of the multilinear model: what a row, or the core, is multiplied by in the prediction of each entry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorveil.mechanisms.data import Array, Form
from tensorveil.models.cp_algebra import cp_design, cp_values
from tensorveil.models.tucker_algebra import tucker_design, tucker_values


def make_row_design(columns: Array, core: Array | None, factors: Sequence[Array], mode: int) -> Array:
    """Return (n, rank): the prediction is design . row of ``mode``."""
    if core is None:
        return cp_design(columns, factors, mode)
    return tucker_design(columns, core, factors, mode)


def make_entry_design(columns: Array, core: Array | None, factors: Sequence[Array], mode: int) -> Array:
    """Return the same as `make_row_design`, every entry's design being computed from this entry alone, bit by bit."""
    from tensorveil.kernels.entry_designs import design_cp, design_tucker

    others = [m for m in range(len(factors)) if m != mode]
    ranks = np.array([factor.shape[1] for factor in factors])
    starts = np.concatenate([[0], np.cumsum([factor.size for factor in factors])[:-1]])
    flat = np.concatenate([factor.ravel() for factor in factors])
    out = np.empty((columns.shape[1], ranks[mode]))
    if core is None:
        design_cp(columns, np.array(others), flat, starts, ranks, out)
    else:
        arranged = np.ascontiguousarray(core.transpose([mode, *others])).ravel()
        design_tucker(columns, np.array(others), flat, starts, ranks, arranged, out)
    return out


def make_core_design(columns: Array, factors: Sequence[Array]) -> Array:
    """Return (n, elements of the core): the prediction is design . core."""
    out: Array = factors[0][columns[0]]
    for factor, column in zip(factors[1:], columns[1:], strict=True):
        out = (out[:, :, None] * factor[column][:, None, :]).reshape(len(out), out.shape[1] * factor.shape[1])
    return out


def predict_entries(columns: Array, core: Array | None, factors: Sequence[Array], threads: int | None) -> Array:
    """Return the multilinear part at every entry."""
    if core is None:
        return cp_values(columns, factors, threads)
    return tucker_values(columns, core, factors, threads)


def draw_start(shape: tuple[int, ...], form: Form) -> tuple[Array | None, list[Array]]:
    """Return random factors and core of unit mean square. They do not depend on the data."""
    rng = np.random.default_rng(form.seed)
    factors = [scale_columns(rng.standard_normal(s)) for s in zip(shape, form.ranks, strict=True)]
    core = None
    if form.core:
        core = rng.standard_normal(form.ranks)
        core /= np.sqrt(np.mean(core**2))
    return core, factors


def scale_columns(factor: Array) -> Array:
    """Return the factor with columns of unit mean square; a column of zeros stays as it is."""
    size = np.sqrt(np.mean(factor**2, axis=0))
    scaled: Array = factor / np.where(size > 0, size, 1.0)
    return scaled


def drop_weak_components(core: Array | None, factors: Sequence[Array]) -> list[Array]:
    """Return factors with negligible CP components set to zero: rescaled to unit size they would be noise."""
    if core is not None:
        return list(factors)
    strength = np.prod([np.sqrt(np.mean(factor**2, axis=0)) for factor in factors], axis=0)
    kept = strength > 1e-3 * strength.max(initial=0.0)
    return [factor * kept for factor in factors]


def rebalance(core: Array | None, factors: Sequence[Array], mode: int | None) -> tuple[Array | None, list[Array]]:
    """Return the same model with all scale in one part: the rows of ``mode``, or with ``mode=None`` the core.

    The columns of all other factors, and the core, get unit mean square.
    """
    out = list(factors)
    for k, factor in enumerate(factors):
        if k == mode:
            continue
        size = np.sqrt(np.mean(factor**2, axis=0))
        size = np.where(size > 0, size, 1.0)
        out[k] = factor / size
        if core is not None:
            core = core * size.reshape([-1 if axis == k else 1 for axis in range(core.ndim)])
        elif mode is not None:
            out[mode] = out[mode] * size
    if core is not None and mode is not None:
        scale = float(np.sqrt(np.mean(core**2)))
        if scale > 0:
            core, out[mode] = core / scale, out[mode] * scale
    return core, out
