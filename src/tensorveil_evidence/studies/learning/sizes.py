"""How much of each data set the studies take, and how large their networks are: what two cores do in minutes.

`PAPER_SIZES` has the paper's own sizes, for who has the full data sets and the days: its records, passes and rate, and
for flows and texts its network. Images of type I go through a MobileNet-like network of that width, untrained at first.
"""

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
    "cifar10-12k": {"train": 3_000, "test": 1_000, "keep": 32, "epochs": 10},
    "svhn-11k": {"train": 3_000, "test": 1_000, "keep": 32, "epochs": 10},
}
COLOUR: Final = {
    "train": 3_000,
    "test": 1_000,
    "keep": 64,
    "hidden": 64,
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
        "train": 4_000,
        "test": 3_000,
        "epochs": 25,
        "rate": 0.003,
        "small_hidden": 32,
        "steps": 15,
        "descent": 8.0,
        "last_only": 1,
        "passes": 5,
    },
    "imdb": {
        "train": 6_000,
        "test": 400,
        "length": 50,
        "words": 512,
        "hidden": 128,
        "layers": 2,
        "small_hidden": 32,
        "epochs": 5,
        "rate": 0.003,
        "steps": 30,
        "descent": 4.0,
        "last_only": 1,
    },
}
# Fewer records for a look, and less of what takes long.
QUICK: Final[Sizes] = {
    "digits": {"train": 400, "test": 200},
    "mnist": {"train": 1_200, "test": 500},
    "cifar10-subset": {"train": 400, "test": 300},
    "cifar10-12k": {"train": 300, "test": 200, "epochs": 2},
    "svhn-11k": {"train": 300, "test": 200, "epochs": 2},
    "tor-vpn": {"train": 600, "test": 400, "epochs": 2, "passes": 2},
    "imdb": {"train": 240, "test": 120, "length": 30, "epochs": 2, "steps": 10},
}
# By type and data set of the study: the full data set, and what replaces the study's own sizes.
PAPER_SIZES: Final[dict[tuple[str, str], tuple[str, dict[str, Any]]]] = {
    ("I", "mnist"): ("mnist", {"train": 60_000, "test": 10_000, "width": 32, "epochs": 10}),
    ("I", "cifar10-subset"): ("cifar10", {"train": 50_000, "test": 10_000, "width": 32, "epochs": 10}),
    ("I", "svhn-11k"): ("svhn", {"train": 73_257, "test": 26_032, "width": 32, "epochs": 10}),
    ("II", "mnist"): ("mnist", {"train": 60_000, "test": 10_000, "epochs": 10}),
    ("II", "cifar10-12k"): ("cifar10", {"train": 50_000, "test": 10_000, "epochs": 10}),
    ("II", "svhn-11k"): ("svhn", {"train": 73_257, "test": 26_032, "epochs": 10}),
    ("III", "mnist"): ("mnist", {"train": 60_000, "test": 10_000, "epochs": 10}),
    ("III", "cifar10-12k"): ("cifar10", {"train": 50_000, "test": 10_000, "epochs": 10}),
    ("III", "svhn-11k"): ("svhn", {"train": 73_257, "test": 26_032, "epochs": 10}),
    ("III", "tor-vpn"): (
        "darknet",
        {"train": 113_184, "test": 28_297, "epochs": 25, "rate": 0.001, "last_only": 0, "passes": 25},
    ),
    ("III", "imdb"): (
        "imdb",
        {"train": 25_000, "test": 25_000, "length": 500, "hidden": 256, "epochs": 50, "rate": 0.001, "last_only": 0},
    ),
}
