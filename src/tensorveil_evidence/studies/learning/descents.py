"""LLAGP and DPHSGD on a network of fully connected layers, over disjoint batches: a record takes part once per pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from tensorveil.learning import Samples, predict
from tensorveil.learning.training import fix_randomness
from tensorveil.privacy.gdp import gdp_mu
from tensorveil_evidence.published import DPHSGD, LLAGP, LinearGradients
from tensorveil_evidence.published.gradients import hutchinson_diagonal
from tensorveil_evidence.studies.learning.mechanisms import DELTA
from tensorveil_evidence.studies.learning.names import RELEASED

BATCH: Final = 128
RATE: Final = 0.003
PROBES: Final = 4  # random signs for one estimate of curvature


def linear_gradients(network: nn.Module, x: Any, y: Any) -> list[LinearGradients]:
    """Return the gradients of the cross entropy by record of a network all of whose parameters are in linear layers."""
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def keep(_: nn.Module, given: Any, answer: torch.Tensor) -> None:
        answer.retain_grad()
        seen.append((given[0], answer))

    hooks = [layer.register_forward_hook(keep) for layer in linear_layers(network)]
    try:
        network.eval()
        with fix_randomness(0):
            answer = network(torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)))
            nn.functional.cross_entropy(answer, torch.from_numpy(y), reduction="sum").backward()  # type: ignore[no-untyped-call]
    finally:
        for hook in hooks:
            hook.remove()
    return [
        LinearGradients(inputs=_doubles(inputs), back=_doubles(answer.grad)) for inputs, answer in seen
    ]  # fmt: skip


def _doubles(tensor: Any) -> Any:
    return tensor.detach().numpy().astype(np.float64)


def linear_layers(network: nn.Module) -> list[nn.Linear]:
    """Return the linear layers, which must hold all parameters."""
    found = [each for each in network.modules() if isinstance(each, nn.Linear)]
    assert sum(1 for _ in network.parameters()) == 2 * len(found), "every parameter must belong to a linear layer"
    return found


def curvatures(network: nn.Module, x: Any, y: Any, rng: np.random.Generator) -> list[float]:
    """Return per layer the mean size of the Hessian's diagonal, as Hutchinson estimates it on these very records."""
    parameters = list(network.parameters())
    with fix_randomness(0):
        loss = nn.functional.cross_entropy(
            network(torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))), torch.from_numpy(y)
        )
        slopes = torch.autograd.grad(loss, parameters, create_graph=True)

        def product(signs: list[Any]) -> list[Any]:
            given = [torch.from_numpy(sign.astype(np.float32)) for sign in signs]
            found = torch.autograd.grad(slopes, parameters, given, retain_graph=True, allow_unused=True)
            return [np.zeros(sign.shape) if h is None else h.numpy() for h, sign in zip(found, signs, strict=True)]

        diagonal = hutchinson_diagonal(product, [tuple(p.shape) for p in parameters], PROBES, rng)
    pairs = zip(diagonal[::2], diagonal[1::2], strict=True)  # weights and offsets of a layer
    return [float(np.mean(np.abs(np.concatenate([w.reshape(-1), b.reshape(-1)])))) for w, b in pairs]


def descend(
    method: str, budget: float, *, network: nn.Module, train: Samples, test: Any, passes: int, seed: Sequence[int]
) -> Any:
    """Train with Adam on noisy means of gradients, layer by layer, and give predictions of the test tensors."""
    rng = np.random.default_rng(seed)
    layers, mu = linear_layers(network), gdp_mu(budget, DELTA)
    batches = math.ceil(len(train) / BATCH)
    means_of = _make_rule(method, mu, len(layers), passes, batches)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    for _ in range(passes):
        for number, batch in enumerate(np.array_split(rng.permutation(len(train)), batches)):
            found = means_of(network, train.x[batch], train.y[batch], number, rng)
            for layer, mean in zip(layers, found, strict=True):
                slope = torch.from_numpy(mean.astype(np.float32))
                layer.weight.grad, layer.bias.grad = slope[:, :-1].contiguous(), slope[:, -1].contiguous()
            optimizer.step()
            optimizer.zero_grad()
    return predict(network, test)


def _make_rule(method: str, mu: float, layers: int, passes: int, batches: int) -> Callable[..., list[Any]]:
    """Return what gives a batch's noisy means: LLAGP, DPHSGD as published, or DPHSGD with released numbers only."""
    steps = passes * batches
    if method == "LLAGP":
        by_share = LLAGP(clip_norms=(1.0,) * layers, noise_multiplier=math.sqrt(passes) / mu, steps=steps)
        count = iter(range(1, steps + 1))
        return lambda network, x, y, number, rng: by_share.noisy_means(
            linear_gradients(network, x, y), next(count), rng
        )
    by_curvature = DPHSGD(
        clip_norm=1.0, clip_range=(0.1, 2.0), noise_multiplier=math.sqrt(passes * layers) / mu, layers=layers,
        steps=steps,
    )  # fmt: skip
    first: list[float] = []
    now = [1.0] * layers

    def means(network: nn.Module, x: Any, y: Any, number: int, rng: np.random.Generator) -> list[Any]:
        nonlocal first, now
        if method != RELEASED and number == 0:  # once per pass, on private records, outside the noise
            now = curvatures(network, x, y, rng)
            first = first or now
        clips = by_curvature.thresholds(first or now, now)
        found = by_curvature.noisy_means(linear_gradients(network, x, y), clips, rng)
        if method == RELEASED:
            # The squared gradient stands for the Hessian's diagonal (Gauss and Newton): released numbers only.
            now = [float(np.mean(np.square(mean))) for mean in found]
            first = first or now
        return found

    return means
