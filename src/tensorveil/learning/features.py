"""Type II: a feature extractor that is public because it was trained on public data; features lie in (-1, 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from tensorveil.learning.networks import MobileNet, Network
from tensorveil.learning.samples import Samples
from tensorveil.learning.training import Training, fix_randomness, train

__all__ = ["Extractor", "train_extractor"]

Array = NDArray[Any]
ROWS = 512


@dataclass(frozen=True, kw_only=True, eq=False)
class Extractor:
    """All of a network but its last layer, with tanh in place of ReLU6, as in Yuan et al. (section 5.2.2)."""

    network: MobileNet

    @property
    def size(self) -> int:
        """The number of features of a tensor."""
        return int(self.network.last.in_features)

    def __call__(self, x: ArrayLike) -> Array:
        """Return the features of every tensor, each by itself."""
        with np.errstate(all="ignore"):  # a warning would tell of a tensor
            images = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
        with torch.no_grad(), fix_randomness(0):
            found = [self.network.features(part) for part in torch.split(images, ROWS)]
        return torch.cat(found).numpy().astype(np.float64)


def train_extractor(public: Samples, how: Training, *, seed: int, width: int = 8) -> Extractor:
    """Train a small MobileNet-like network with tanh on public images, grey (n, height, width) or (n, c, h, w).

    Use it only for public data: what is learnt here is not protected.
    """
    channels = 1 if len(public.shape) == 2 else public.shape[0]
    sizes = {"channels": channels, "classes": public.classes, "width": width, "tanh": True}
    network = Network(kind="mobilenet", sizes=sizes).make(seed)
    assert isinstance(network, MobileNet)
    train(network, public, how, seed=seed)
    return Extractor(network=network)
