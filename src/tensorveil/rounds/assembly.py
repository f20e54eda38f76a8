"""From the last state of a fit to the model that all users share: post-processing, from public numbers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.components import Components, find_cp_components, find_tucker_components
from tensorveil.rounds.contract import BIASES, OFFSET, SPREAD, TASTE_COVARIANCE, TASTE_MEAN, TRAITS, State
from tensorveil.rounds.own_part import count_plain_tastes, get_bases, has_bases
from tensorveil.rounds.shared import SharedModel
from tensorveil.rounds.stage import Setup
from tensorveil.tensor import Mode

__all__ = ["assemble_model"]

Array = NDArray[Any]


def assemble_model(setup: Setup, state: State) -> SharedModel:
    """Return the model to release, from the state after the last round."""
    plain = count_plain_tastes(setup, state)
    components = _find_components(setup, state, plain)
    latent = 0 if components is None else len(components.weights)
    turn = np.zeros((plain + latent, len(state[TASTE_MEAN])))
    turn[:plain, :plain] = np.eye(plain)
    if components is not None:
        turn[plain:, plain:] = components.turn
    factors, core = _make_factors(setup, state, components)
    return SharedModel(
        modes=tuple(Mode(name) for name in setup.modes),
        shape=setup.shape,
        protect=setup.protected,
        bounds=setup.bounds,
        offset=float(state[OFFSET][0]),
        biases=tuple(np.array(state[BIASES][part]) for part in setup.rows.slices),
        factors=factors,
        core=core,
        n_traits=plain - 1,
        spread=float(state[SPREAD][0]),
        taste_mean=turn @ state[TASTE_MEAN],
        taste_covariance=turn @ state[TASTE_COVARIANCE] @ turn.T,
    )


def _find_components(setup: Setup, state: State, plain: int) -> Components | None:
    """Return the latent components of the requested rank, if there are any."""
    if not has_bases(state):
        return None
    covariance = state[TASTE_COVARIANCE][plain:, plain:]
    if isinstance(setup.rank, int):
        return find_cp_components(covariance, setup.basis_ranks, setup.rank)
    return find_tucker_components(covariance, setup.basis_ranks, setup.rank[setup.protected])


def _make_factors(setup: Setup, state: State, components: Components | None) -> tuple[tuple[Array, ...], Array | None]:
    """Return the factors of the released modes, and the core of a Tucker model: traits first, then what is latent."""
    traits = [state[TRAITS][part] for part in setup.rows.slices]
    bases = get_bases(setup, state) if components is not None else tuple(np.empty((len(t), 0)) for t in traits)
    if isinstance(setup.rank, int):
        mixing = () if components is None else components.mixing or ()
        latent = [basis @ mixed for basis, mixed in zip(bases, mixing, strict=True)] if mixing else list(bases)
        return tuple(_join_columns(traits, m, latent[m]) for m in range(len(traits))), None
    # A Tucker factor holds the basis, a column of ones and the mode's traits; traits meet the ones of other modes.
    factors = tuple(np.column_stack([basis, np.ones(len(t)), t]) for basis, t in zip(bases, traits, strict=True))
    n_latent = 0 if components is None else len(components.weights)
    core = np.zeros((sum(t.shape[1] for t in traits) + n_latent, *(f.shape[1] for f in factors)))
    ones, at = [basis.shape[1] for basis in bases], 0
    for m, trait in enumerate(traits):
        for k in range(trait.shape[1]):
            core[at, *(ones[i] + (1 + k if i == m else 0) for i in range(len(ones)))] = 1.0
            at += 1
    if components is not None:
        core[at:, *(slice(n) for n in ones)] = components.weights
    return factors, core


def _join_columns(traits: list[Array], mode: int, latent: Array) -> Array:
    """Return a CP factor: a mode's own traits, ones for those of the other modes, then the latent columns."""
    columns = [trait if m == mode else np.ones((len(latent), trait.shape[1])) for m, trait in enumerate(traits)]
    return np.column_stack([*columns, latent])
