"""How much of each data set the studies take, and how large their networks are: what two cores do in minutes."""

from __future__ import annotations

from typing import Any, Final

Sizes = dict[str, dict[str, Any]]

# records for training and for tests, coefficients that ours tells, hidden layer, passes of a network
IMAGES: Final[Sizes] = {
    "digits": {"train": 1347, "test": 450, "keep": 24, "hidden": 32, "epochs": 6},
    "mnist": {"train": 20_000, "test": 5_000, "keep": 64, "hidden": 64, "epochs": 3},
    "cifar10-subset": {"train": 10_000, "test": 2_000, "keep": 64, "hidden": 64, "epochs": 3},
    "svhn-11k": {"train": 8_000, "test": 3_000, "keep": 64, "hidden": 64, "epochs": 3},
}
FEATURES: Final[Sizes] = {
    "digits": {"train": 947, "test": 450, "keep": 24, "epochs": 10},
    "mnist": {"train": 20_000, "test": 5_000, "keep": 32, "epochs": 5},
    "cifar10-12k": {"train": 6_000, "test": 2_000, "keep": 32, "epochs": 5},
    "svhn-11k": {"train": 6_000, "test": 2_000, "keep": 32, "epochs": 5},
}
COLOUR: Final = {
    "train": 6_000,
    "test": 2_000,
    "keep": 64,
    "hidden": 32,
    "small_hidden": 32,
    "epochs": 5,
    "rate": 0.001,
    "steps": 15,
    "descent": 8.0,
}
ROUNDS: Final[Sizes] = {
    "digits": {
        "train": 1347,
        "test": 450,
        "keep": 24,
        "hidden": 16,
        "epochs": 3,
        "rate": 0.005,
        "steps": 15,
        "descent": 8.0,
    },
    "mnist": {
        "train": 12_000,
        "test": 5_000,
        "keep": 64,
        "hidden": 32,
        "epochs": 5,
        "rate": 0.001,
        "steps": 15,
        "descent": 8.0,
    },
    "cifar10-12k": COLOUR,
    "svhn-11k": COLOUR,
    "tor-vpn": {
        "train": 8_000,
        "test": 4_000,
        "epochs": 5,
        "rate": 0.001,
        "small_hidden": 32,
        "steps": 15,
        "descent": 8.0,
    },
    "imdb": {
        "train": 6_000,
        "test": 4_000,
        "length": 80,
        "words": 512,
        "epochs": 5,
        "rate": 0.003,
        "steps": 30,
        "descent": 4.0,
    },
}
# Fewer records for a look, and less of what takes long.
QUICK: Final[Sizes] = {
    "digits": {"train": 400, "test": 200},
    "mnist": {"train": 1_200, "test": 500},
    "cifar10-subset": {"train": 400, "test": 300},
    "cifar10-12k": {"train": 400, "test": 300},
    "svhn-11k": {"train": 400, "test": 300},
    "tor-vpn": {"train": 600, "test": 400, "epochs": 2},
    "imdb": {"train": 450, "test": 300, "epochs": 3, "steps": 10},
}
