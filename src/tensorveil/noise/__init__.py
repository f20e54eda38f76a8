"""The only place where release randomness is drawn: secure bits, exact samplers on the integers, mechanisms on a grid.

    source -> uniform -> laplace, gaussian, norm (samplers) -> grid -> adding (mechanisms)

The compiled kernels are imported when the first draw is made. docs/explanation/noise.md holds the proofs.
"""

from __future__ import annotations

from tensorveil.noise.adding import (
    Noisy,
    bounded_steps,
    bounded_values_mechanism,
    gaussian_mechanism,
    laplace_mechanism,
    norm_mechanism,
)
from tensorveil.noise.basic import bernoulli_exp, uniform_below
from tensorveil.noise.gaussian import (
    discrete_gaussian,
    discrete_gaussian_variance,
    rounded_gaussian,
    rounded_gaussian_variance,
)
from tensorveil.noise.grid import (
    Grid,
    snap,
    sqrt_up,
    stochastic_round,
)
from tensorveil.noise.laplace import discrete_laplace, discrete_laplace_variance
from tensorveil.noise.norm import norm_laplace, norm_laplace_variance
from tensorveil.noise.source import NoiseSource, SecureSource, SeededSource

__all__ = [
    "Grid",
    "NoiseSource",
    "Noisy",
    "SecureSource",
    "SeededSource",
    "bernoulli_exp",
    "bounded_steps",
    "bounded_values_mechanism",
    "discrete_gaussian",
    "discrete_gaussian_variance",
    "discrete_laplace",
    "discrete_laplace_variance",
    "gaussian_mechanism",
    "laplace_mechanism",
    "norm_laplace",
    "norm_laplace_variance",
    "norm_mechanism",
    "rounded_gaussian",
    "rounded_gaussian_variance",
    "snap",
    "sqrt_up",
    "stochastic_round",
    "uniform_below",
]
