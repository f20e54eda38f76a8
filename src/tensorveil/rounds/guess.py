"""What a recipe may achieve, before anything is spent: a guess from declared numbers alone, for a typical tensor.

Of the values' variance a quarter are biases, shared evenly by the modes, a third interactions (as many equal components
as the rank), and the rest noise, as the planner of unit value has it. How many entries a user or a row has is taken to
be distributed exponentially, and errors are averaged over entries. Squared errors are shares of the values' variance.

The noise is that of the recipe's rounds, and numbers are shrunk as its stages shrink them. Latent features are followed
from sweep to sweep: from how far the basis of the largest mode agrees with the truth follows how well users' tastes are
known, and from these how far the next basis will agree. Smaller modes are taken to be found. What clipping takes off,
what users' tastes for traits explain and what noise adds to the moments of tastes is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.mechanisms.tradeoffs import BIASES, INTERACTIONS, SIGNAL
from tensorveil.privacy import Gaussian, epsilon_for, split_gaussian
from tensorveil.rounds import biases, sweeps
from tensorveil.rounds.contract import Step
from tensorveil.rounds.counts import adapt_scales, extend_reach
from tensorveil.rounds.plan import find_clear_mu
from tensorveil.rounds.recipe import Recipe

__all__ = ["describe_release", "guess_error"]

Array = NDArray[Any]

_PARTS = 32
# Means of equally probable parts of the exponential distribution, about: how far users and rows differ in activity.
_ACTIVITY: Array = -np.log1p(-(np.arange(_PARTS) + 0.5) / _PARTS)
_ACTIVITY /= _ACTIVITY.mean()
_FEWEST = 1e-9  # entries of a user, where fewer entries than users are declared: nothing is divided by zero
_NOISE = 1 - SIGNAL
_LARGEST = 100.0  # an epsilon beyond it is no advice


def guess_error(recipe: Recipe, entries: float) -> float:
    """Guess the squared error of predictions for people from their own entries, as a share of the values' variance.

    It is the error about the values without the noise of observations. Where the recipe chooses by itself, the guess
    never rises with the budget: one that begins to spend on latent features is not guessed to lose by it.

    Parameters
    ----------
    recipe
        What would be run, with the declared number of users.
    entries
        How many entries all users have together: declared, a guess itself.

    >>> facts = {"shape": (6040, 3706), "modes": ("user", "film"), "protect": "user", "bounds": (1, 5), "delta": 1e-6}
    >>> [round(guess_error(Recipe(epsilon=epsilon, **facts), 900_000), 2) for epsilon in (0.1, 1.0, 10.0)]
    [0.48, 0.4, 0.18]
    """
    guess = _Guess(recipe=recipe, entries=entries).error
    if recipe.sweeps is None and has_latent(recipe):
        guess = min(guess, _Guess(recipe=_last_plain(recipe), entries=entries).error)
    return guess


def has_latent(recipe: Recipe) -> bool:
    """Tell whether a recipe spends on latent features."""
    return any(step.kind == "sweep" for step in recipe.steps)


def describe_release(recipe: Recipe, *, done: bool = False) -> str:
    """Say what a recipe will release, and where that is less than the rank that was asked for, from when on it is more.

    ``done`` says it of one that has run.

    >>> facts = {"shape": (6040, 3706), "modes": ("user", "film"), "protect": "user", "bounds": (1, 5), "delta": 1e-6}
    >>> describe_release(Recipe(epsilon=1.0, rank=8, **facts))[:67]
    'Rank 8 is asked for, but biases and traits alone would be released:'
    >>> describe_release(Recipe(epsilon=5.0, rank=8, **facts))
    'Biases, traits and 8 latent features would be released.'
    """
    asked, found = _asked_rank(recipe), _found_rank(recipe)
    would = "are" if done else "would be"
    if has_latent(recipe):
        fewer = "" if found == asked else f" Rank {asked} is asked for, which is more than these modes can have."
        return f"Biases, traits and {found} latent features {would} released.{fewer}"
    if recipe.sweeps == 0:
        return f"Biases and traits alone {would} released, as the method says."
    epsilon = find_latent_epsilon(recipe)
    more = (
        f"They are released from epsilon {_round_up(epsilon):g} on."
        if epsilon <= _LARGEST
        else "It takes more of them."
    )
    return (
        f"Rank {asked} is asked for, but biases and traits alone {would} released: noise would drown latent features "
        f"of {max(recipe.sizes):,} rows with at most {recipe.most_users:,} indices of mode {recipe.protect!r}. {more}"
    )


def find_latent_epsilon(recipe: Recipe) -> float:
    """Return the epsilon from which on a recipe that chooses by itself spends on latent features."""
    return epsilon_for(Gaussian(find_clear_mu(recipe.most_users, recipe.sizes)), recipe.delta)


def _asked_rank(recipe: Recipe) -> int:
    return recipe.rank if isinstance(recipe.rank, int) else recipe.rank[recipe.protected]


def _found_rank(recipe: Recipe) -> int:
    return min(_asked_rank(recipe), math.prod(recipe.basis_ranks))


def _last_plain(recipe: Recipe) -> Recipe:
    """Return the recipe of the largest budget that is still spent on biases alone."""
    return replace(recipe, sweeps=0, epsilon=min(recipe.epsilon, max(find_latent_epsilon(recipe), 1e-9)))


def _round_up(number: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(max(number, 1e-9))) - 2)
    return math.ceil(number / unit - 1e-9) * unit


@dataclass(frozen=True, kw_only=True)
class _Guess:
    """The parts of a guess; each is computed once."""

    recipe: Recipe
    entries: float

    @property
    def error(self) -> float:
        """All that is not explained but should be."""
        return self.shared + self.own + self.interactions

    @property
    def bias_share(self) -> float:
        """What the biases of one mode explain."""
        return BIASES / len(self.recipe.shape)

    @cached_property
    def per_user(self) -> Array:
        """How many entries users have: equally many users each."""
        return np.maximum(self.entries / self.recipe.most_users * _ACTIVITY, _FEWEST)

    @cached_property
    def weights(self) -> Array:
        """What an entry of each of these users counts."""
        n, sizes = self.per_user, self.recipe.sizes
        lengths = sum(size / max(sizes) * (n + n * np.maximum(n - 1, 0) / size) for size in sizes)
        weights: Array = np.minimum(1.0, self.recipe.reach / np.sqrt(lengths))
        return weights

    @cached_property
    def counted(self) -> float:
        """How many entries count, as weighted."""
        return self.recipe.most_users * float(np.mean(self.weights * self.per_user))

    def counts(self, mode: int) -> Array:
        """Return how many entries count in the rows of a released mode: equally many rows each."""
        return np.maximum(self.counted / self.recipe.sizes[mode] * _ACTIVITY, _FEWEST)

    @cached_property
    def spent(self) -> list[tuple[Step, float]]:
        """The steps, and the mu of each."""
        steps = self.recipe.steps
        return list(zip(steps, split_gaussian(self.recipe.mu, [step.share for step in steps]), strict=True))

    @property
    def within(self) -> float:
        """The variance within users, by which contributions are scaled."""
        return 1 - self.bias_share

    @cached_property
    def shared(self) -> float:
        """What is not known of the biases of all released modes."""
        recipe, modes = self.recipe, range(len(self.recipe.sizes))
        scales = [math.sqrt(size / max(recipe.sizes)) for size in recipe.sizes]
        adapted = [scales[m] * adapt_scales(self.counts(m)) for m in modes]
        smaller = sum(recipe.sizes[m] * float(np.mean(self.counts(m) * adapted[m] ** 2)) for m in modes) / sum(
            recipe.sizes[m] * float(np.mean(self.counts(m))) * scales[m] ** 2 for m in modes
        )
        reach = biases.CUT * recipe.reach * math.sqrt(self.within * smaller)
        return sum(self._bias_error(m, scales[m], reach / adapted[m]) for m in modes)

    def _bias_error(self, mode: int, scale: float, reach: Array) -> float:
        """Return what is not known of the biases of one mode: their sums have noise, and so have the rows' counts."""
        counts, share = self.counts(mode), self.bias_share
        known = sum(
            counts**2 / ((reach / mu) ** 2 + 0.5 * self.within * counts)
            for step, mu in self.spent
            if step.kind == "biases"
        )
        (for_counts,) = (mu for step, mu in self.spent if step.kind == "counts")
        noise = (extend_reach(self.recipe.reach) / for_counts / scale) ** 2
        found = share * known / (1 + share * known) * counts**2 / (counts**2 + noise)
        return share * (1 - float(np.average(found, weights=counts)))

    @cached_property
    def own(self) -> float:
        """What people's own biases, computed from their entries without noise, leave."""
        n, rest = self.per_user, _NOISE + INTERACTIONS + self.shared
        return float(np.average(self.bias_share * rest / (self.bias_share * n + rest), weights=n))

    @cached_property
    def interactions(self) -> float:
        """What latent features leave of interactions, if any are released."""
        n, agreement = self.per_user, self._follow_sweeps()
        if agreement is None:
            return INTERACTIONS
        seen = n * agreement * INTERACTIONS / _found_rank(self.recipe)
        known = agreement * float(np.average(seen / (seen + self._unexplained(agreement)), weights=n))
        return INTERACTIONS * (1 - known)

    def _unexplained(self, agreement: float) -> float:
        return _NOISE + INTERACTIONS * (1 - agreement) + self.shared

    def _follow_sweeps(self) -> float | None:
        """Return how far the largest mode's basis agrees with the truth in the end (squared); None without sweeps.

        Tastes of unit length agree with the true ones as far as the basis does and as the user's entries tell them from
        noise. Their products with residuals are the rows' sums, shrunk by their noise.
        """
        recipe = self.recipe
        largest = max(range(len(recipe.sizes)), key=lambda m: recipe.sizes[m])
        turns = [mu for step, mu in self.spent if step.kind == "sweep" and step.mode == largest]
        if not turns:
            return None
        columns, features = recipe.basis_ranks[largest], math.prod(recipe.basis_ranks)
        strength = INTERACTIONS / _found_rank(recipe)
        n, weights, counts = self.per_user, self.weights * self.per_user, self.counts(largest)
        # Random directions: rows count by their entries, so that the mode has half its size.
        agreement = min(1.0, columns / max(0.5 * recipe.sizes[largest], 1.0))
        for mu in turns:
            left = self._unexplained(agreement)
            lengths = INTERACTIONS * agreement + features * left / n
            signal = float(np.average(strength * math.sqrt(agreement) / np.sqrt(lengths), weights=weights)) ** 2
            noise = (sweeps.CUT * recipe.reach * math.sqrt(self.within) / mu) ** 2 + left * counts / columns
            agreement = float(np.average(counts**2 * signal / (counts**2 * signal + noise), weights=counts))
        return agreement
