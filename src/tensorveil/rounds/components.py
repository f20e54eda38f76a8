"""From tastes for all products of basis columns to a CP or Tucker model of the rank asked for: post-processing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_STARTS, _ROUNDS = 8, 300


@dataclass(frozen=True, kw_only=True, eq=False)
class Components:
    """Latent components: per component a tensor over the bases' columns, and how tastes for it follow from the others.

    ``weights`` (components, columns of mode 1, ...); ``turn`` (components, products of columns) maps tastes;
    ``mixing`` holds, for CP, one (columns, components) matrix per mode, whose products the weights are.
    """

    weights: Array
    turn: Array
    mixing: tuple[Array, ...] | None


def tucker_components(covariance: Array, ranks: tuple[int, ...], wanted: int) -> Components:
    """Return the leading directions of tastes: their covariance's eigenvectors."""
    vectors = _leading(covariance, wanted)
    return Components(weights=vectors.T.reshape(-1, *ranks), turn=vectors.T, mixing=None)


def cp_components(covariance: Array, ranks: tuple[int, ...], wanted: int) -> Components:
    """Return components that are products of one column per mode and span the leading directions of tastes.

    If users' tastes for true components are uncorrelated or not, the leading directions are mixtures of products; which
    products is a CP decomposition of a small dense tensor, solved by alternating least squares from several starts.
    """
    vectors = _leading(covariance, wanted)
    if len(ranks) == 1:
        return Components(weights=vectors.T, turn=vectors.T, mixing=(vectors,))
    strength = np.sqrt(np.maximum(np.einsum("pk,pq,qk->k", vectors, covariance, vectors), 0.0))
    mixing = decompose((vectors * strength).T.reshape(-1, *ranks), vectors.shape[1])
    products = _products(mixing)
    return Components(weights=products.T.reshape(-1, *ranks), turn=np.linalg.pinv(products), mixing=mixing)


def _leading(covariance: Array, wanted: int) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    out: Array = vectors[:, ::-1][:, : min(wanted, len(values))]
    return out


def decompose(tensor: Array, rank: int) -> tuple[Array, ...]:
    """Return the factors, with unit columns, of the best CP decomposition found; not that of the first axis."""
    rng = np.random.default_rng(0)
    found = [_alternate(tensor, rank, rng) for _ in range(_STARTS)]
    _, factors = min(found, key=lambda each: each[0])
    return tuple(factors[1:])


def _alternate(tensor: Array, rank: int, rng: np.random.Generator) -> tuple[float, list[Array]]:
    factors = [rng.standard_normal((size, rank)) for size in tensor.shape]
    for _ in range(_ROUNDS):
        for mode in range(tensor.ndim):
            others = _products([factor for m, factor in enumerate(factors) if m != mode])
            unfolded = np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)
            gram = others.T @ others
            ridge = 1e-9 * max(float(np.trace(gram)), 1e-300) * np.eye(rank)
            solved = np.linalg.solve(gram + ridge, (unfolded @ others).T).T
            factors[mode] = solved if mode == 0 else solved / np.maximum(np.linalg.norm(solved, axis=0), 1e-300)
    left = tensor.reshape(len(tensor), -1) - factors[0] @ _products(factors[1:]).T
    return float(np.sum(left**2)), factors


def _products(factors: list[Array] | tuple[Array, ...]) -> Array:
    """Return the columnwise Kronecker products, the last factor's index running fastest."""
    out = factors[0]
    for factor in factors[1:]:
        out = (out[:, None, :] * factor[None, :, :]).reshape(-1, out.shape[1])
    return out
