"""How much of each data set the studies take, and how large their networks are: what two cores do in minutes."""

from __future__ import annotations

from typing import Any, Final

Sizes = dict[str, dict[str, Any]]

# records for training and for tests, coefficients that ours tells, hidden layer, passes of a network
IMAGES: Final[Sizes] = {
    "digits": {"train": 1347, "test": 450, "keep": 24, "hidden": 32, "epochs": 6},
    "mnist": {"train": 20_000, "test": 5_000, "keep": 64, "hidden": 64, "epochs": 3},
    "cifar10-subset": {"train": 10_000, "test": 2_000, "keep": 64, "hidden": 64, "epochs": 3},
}
FEATURES: Final[Sizes] = {
    "digits": {"train": 947, "test": 450, "keep": 24, "epochs": 10},
    "mnist": {"train": 20_000, "test": 5_000, "keep": 32, "epochs": 5},
}
ROUNDS: Final[Sizes] = {
    "digits": {"train": 1347, "test": 450, "keep": 24, "hidden": 16, "epochs": 3, "rate": 0.005},
    "mnist": {"train": 12_000, "test": 5_000, "keep": 64, "hidden": 32, "epochs": 5, "rate": 0.001},
    "imdb": {"train": 6_000, "test": 4_000, "length": 80, "words": 512, "epochs": 5, "rate": 0.003},
}
