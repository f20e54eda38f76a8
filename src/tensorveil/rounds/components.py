"""From tastes for all products of basis columns to a CP or Tucker model of the requested rank: post-processing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_STARTS, _ROUNDS = 8, 300


@dataclass(frozen=True, kw_only=True, eq=False)
class Components:
    """Latent components, each a combination of products of the bases' columns.

    Parameters
    ----------
    weights
        A tensor over the bases' columns per component: (components, columns of mode 1, ...).
    turn
        Maps tastes for all products of columns to tastes for components: (components, products of columns).
    mixing
        For CP, one (columns, components) matrix per mode; the weights are their products.
    """

    weights: Array
    turn: Array
    mixing: tuple[Array, ...] | None


def find_tucker_components(covariance: Array, ranks: tuple[int, ...], wanted: int) -> Components:
    """Return the leading directions of tastes: the eigenvectors of their covariance."""
    vectors = _find_leading(covariance, wanted)
    return Components(weights=vectors.T.reshape(-1, *ranks), turn=vectors.T, mixing=None)


def find_cp_components(covariance: Array, ranks: tuple[int, ...], wanted: int) -> Components:
    """Return components that are products of one column per mode and span the leading directions of tastes.

    Whether or not users' tastes for the true components are correlated, the leading directions are mixtures of
    products. Finding the products is a CP decomposition of a small dense tensor, solved by alternating least squares
    from several starts.
    """
    vectors = _find_leading(covariance, wanted)
    if len(ranks) == 1:
        return Components(weights=vectors.T, turn=vectors.T, mixing=(vectors,))
    strength = np.sqrt(np.maximum(np.einsum("pk,pq,qk->k", vectors, covariance, vectors), 0.0))
    mixing = decompose((vectors * strength).T.reshape(-1, *ranks), vectors.shape[1])
    products = _multiply(mixing)
    return Components(weights=products.T.reshape(-1, *ranks), turn=np.linalg.pinv(products), mixing=mixing)


def _find_leading(covariance: Array, wanted: int) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    out: Array = vectors[:, ::-1][:, : min(wanted, len(values))]
    return out


def decompose(tensor: Array, rank: int) -> tuple[Array, ...]:
    """Return the factors of the best CP decomposition found, with unit columns, without that of the first axis."""
    rng = np.random.default_rng(0)
    found = [_alternate(tensor, rank, rng) for _ in range(_STARTS)]
    _, factors = min(found, key=lambda each: each[0])
    return tuple(factors[1:])


def _alternate(tensor: Array, rank: int, rng: np.random.Generator) -> tuple[float, list[Array]]:
    factors = [rng.standard_normal((size, rank)) for size in tensor.shape]
    for _ in range(_ROUNDS):
        for mode in range(tensor.ndim):
            others = _multiply([factor for m, factor in enumerate(factors) if m != mode])
            unfolded = np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)
            gram = others.T @ others
            ridge = 1e-9 * max(float(np.trace(gram)), 1e-300) * np.eye(rank)
            solved = np.linalg.solve(gram + ridge, (unfolded @ others).T).T
            factors[mode] = solved if mode == 0 else solved / np.maximum(np.linalg.norm(solved, axis=0), 1e-300)
    left = tensor.reshape(len(tensor), -1) - factors[0] @ _multiply(factors[1:]).T
    return float(np.sum(left**2)), factors


def _multiply(factors: list[Array] | tuple[Array, ...]) -> Array:
    """Return the columnwise Kronecker products, the last factor's index running fastest."""
    out = factors[0]
    for factor in factors[1:]:
        out = (out[:, None, :] * factor[None, :, :]).reshape(-1, out.shape[1])
    return out
