"""The records of a run, in the forms that methods ask for: images, features, flows, texts; and digits for tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tensorveil.learning import (
    Directions,
    Network,
    Samples,
    Training,
    predict,
    principal_directions,
    signal_of_users,
    subset,
    train,
    train_extractor,
)
from tensorveil.learning.features import Extractor
from tensorveil.learning.loaders import Parts, load_samples
from tensorveil.local import Basis
from tensorveil.privacy.gdp import gdp_mu
from tensorveil_evidence.studies.learning import reports, rounds
from tensorveil_evidence.studies.learning.glove import GloveNetwork, read_reviews, read_vectors
from tensorveil_evidence.studies.learning.mechanisms import DELTA
from tensorveil_evidence.studies.learning.mobilenet import LARGEST, SIZE, extract_features
from tensorveil_evidence.studies.learning.rounds import USERS

PUBLIC = 400  # digits that play the public data where digits are the private ones too
IMDB_SPAN = 400_001.0  # Delta for IMDB in table 4 of Yuan et al.
# Microseconds and rates, after logarithms: most lie between 0 and 16. Public guesses, not read off the flows.
FLOW_LEVEL, FLOW_SPREAD = 8.0, 8.0
PUBLIC_LEVEL = -0.9  # most of MobileNet's features are small on any image


@cache
def load_parts(name: str) -> Parts:
    """Read a data set once per process."""
    return load_samples(name)


def _records(name: str, sizes: dict[str, Any], run: int) -> tuple[Samples, Samples]:
    parts = load_parts(name)
    return subset(parts.train, sizes["train"], run), subset(parts.test, sizes["test"], 0)


def _network(train_on: Samples, test_x: Any, plan: Network, how: Training, seed: int) -> Any:
    """Train a network and give the classes of the test tensors; far too large numbers are cut so as not to overflow."""
    bounded = train_on.with_x(np.clip(train_on.x, -1e15, 1e15))
    return predict(train(plan.make(seed), bounded, how, seed=seed), test_x)


def image_case(name: str, run: int, sizes: dict[str, Any]) -> reports.Case:
    """Type I: images as they are, in the bounds of their format."""
    low, high = load_parts(name).bounds
    private, test = _records(name, sizes, run)
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    entries = int(np.prod(private.shape))
    plan = Network(kind="mlp", sizes={"inputs": entries, "classes": private.classes, "hidden": [sizes["hidden"]]})
    if "width" in sizes:
        channels = 1 if len(private.shape) == 2 else private.shape[0]
        wide = {"channels": channels, "classes": private.classes, "width": sizes["width"]}
        plan = Network(kind="mobilenet", sizes=wide)
    how = Training(epochs=sizes["epochs"])

    def learn(reports: Samples) -> Any:
        return _network(reports.with_x((reports.x - middle) / half), (test.x - middle) / half, plan, how, run)

    # Images of handwriting are dark where nothing is written; those of things are grey.
    centre = middle if len(private.shape) == 3 else low
    told = Directions(basis=Basis.dct(private.shape, sizes["keep"]), centre=centre)
    return reports.Case(
        run=run, train=private, test=test, bounds=(low, high), learn=learn, directions=told
    )  # fmt: skip


def public_digits(shape: tuple[int, ...]) -> Samples:
    """scikit-learn's digits, in [-1, 1], as they are or enlarged to 20 x 20 within an empty margin, as in MNIST."""
    whole = load_parts("digits").train
    x = whole.x / 8.0 - 1.0
    if shape == (8, 8):
        return whole.with_x(x).take(slice(0, PUBLIC))
    from scipy.ndimage import zoom

    large = np.clip(zoom(x, (1, 2.5, 2.5), order=1), -1.0, 1.0)
    plain = np.pad(large, ((0, 0), (4, 4), (4, 4)), constant_values=-1.0)
    bold = np.clip(2.2 * (_shift(plain, 1) + 1) - 1, -1.0, 1.0)  # MNIST has more contrast
    return Samples(x=np.concatenate([plain, _shift(plain, 0), bold]), y=np.tile(whole.y, 3), classes=10)


def _shift(images: Any, seed: int) -> Any:
    """Move every image by up to two pixels either way, at random."""
    moves = np.random.default_rng(seed).integers(-2, 3, (len(images), 2))
    return np.stack([np.roll(image, tuple(move), (0, 1)) for image, move in zip(images, moves, strict=True)])


@cache
def extractor_for(shape: tuple[int, ...]) -> Extractor:
    """Train the public extractor, once per process."""
    public = public_digits(shape)
    epochs, width = (12, 8) if shape == (8, 8) else (5, 12)
    return train_extractor(public, Training(epochs=epochs, batch=32, rate=0.003), seed=0, width=width)


def feature_case(name: str, run: int, sizes: dict[str, Any]) -> tuple[reports.Case, Any]:
    """Type II: features of a public network; also what that network answers by itself, without private data."""
    low, high = load_parts(name).bounds
    private, test = _records(name, sizes, run)
    if name == "digits":
        private = subset(load_parts(name).train.take(slice(PUBLIC, None)), sizes["train"], run)

    def scaled(x: Any) -> Any:
        return (np.asarray(x, dtype=np.float64) - low) / (0.5 * (high - low)) - 1.0

    if private.shape == (3, 32, 32):
        return _imagenet_case(private, test, run, sizes), None
    extractor = extractor_for(private.shape)
    features = private.with_x(extractor(scaled(private.x)))
    seen = test.with_x(extractor(scaled(test.x)))
    plan = Network(kind="mlp", sizes={"inputs": extractor.size, "classes": private.classes})
    how = Training(epochs=sizes["epochs"])
    case = reports.Case(
        run=run,
        train=features,
        test=seen,
        bounds=(-1.0, 1.0),
        learn=lambda reports: _network(reports, seen.x, plan, how, run),
        directions=principal_directions(extractor(public_digits(private.shape).x), sizes["keep"]),
    )
    return case, predict(extractor.network, scaled(test.x))


def _imagenet_case(private: Samples, test: Samples, run: int, sizes: dict[str, Any]) -> reports.Case:
    """Type II on colour images: features of MobileNet as trained on ImageNet, which knows none of these classes.

    No public images are at hand whose features would show principal directions, so ours tells random ones.
    """
    features, seen = (part.with_x(extract_features(part.x.astype(np.uint8))) for part in (private, test))
    plan = Network(kind="mlp", sizes={"inputs": SIZE, "classes": private.classes})
    how = Training(epochs=sizes["epochs"])
    return reports.Case(
        run=run,
        train=features,
        test=seen,
        bounds=(-1.0, 1.0),
        learn=lambda reports: _network(reports, seen.x, plan, how, run),
        directions=_random_directions(sizes["keep"]),
    )


def _random_directions(keep: int) -> Directions:
    """Return so many random directions of MobileNet's features, the same ones always."""
    rows = np.linalg.qr(np.random.default_rng(0).standard_normal((SIZE, keep)))[0].T
    return Directions(basis=Basis.own(rows, (SIZE,)), centre=PUBLIC_LEVEL)


def image_rounds(name: str, run: int, sizes: dict[str, Any]) -> rounds.Case:
    """Type III on grey images: a network of one hidden layer, on images of half the side where they are large."""
    low, high = load_parts(name).bounds
    private, test = _records(name, sizes, run)
    fold = 1 if private.shape == (8, 8) else 2
    side = private.shape[-1] // fold

    def rows(x: Any) -> Any:
        scaled = (np.asarray(x, dtype=np.float64) - low) / (0.5 * (high - low)) - 1.0
        return scaled.reshape(-1, side, fold, side, fold).mean(axis=(2, 4))

    plan = Network(
        kind="mlp", sizes={"inputs": side * side, "classes": private.classes, "hidden": [sizes["hidden"]]}
    )  # fmt: skip
    told = Directions(basis=Basis.dct(private.shape, sizes["keep"]), centre=low)
    linear = _small(sizes["keep"], private.classes, sizes)
    return rounds.Case(
        run=run,
        train=private,
        test=test,
        network=plan,
        rows=rows,
        small=linear,
        small_rows=told,
        directions=told,
        told_rows=lambda x: x,
        products=True,
        contrasts=lambda epsilon: (uneven(told.basis), lambda x: x),
        steps=sizes["steps"],
        descent=sizes["descent"],
        epochs=sizes["epochs"],
        rate=sizes["rate"],
    )


def colour_rounds(name: str, run: int, sizes: dict[str, Any]) -> rounds.Case:
    """Type III on colour images: a hidden layer and a last one behind MobileNet's features, which stay as they are."""
    private, test = _records(name, sizes, run)
    told = _random_directions(sizes["keep"])

    def rows(x: Any) -> Any:
        return extract_features(np.asarray(x, dtype=np.uint8))

    def positive(x: Any) -> Any:
        return 0.5 * LARGEST * (x + 1.0)  # as the network gives them: most are near 0, which helps those who learn

    plan = {"inputs": SIZE, "classes": private.classes, "hidden": [sizes["hidden"]]}
    return rounds.Case(
        run=run,
        train=private.with_x(rows(private.x)),
        test=test.with_x(rows(test.x)),
        network=Network(kind="mlp", sizes=plan),
        rows=positive,
        small=_small(sizes["keep"], private.classes, sizes),
        small_rows=told,
        directions=told,
        told_rows=_as_it_is,
        products=True,
        contrasts=lambda epsilon: (told, _as_it_is),
        steps=sizes["steps"],
        descent=sizes["descent"],
        epochs=sizes["epochs"],
        rate=sizes["rate"],
    )


def _as_it_is(x: Any) -> Any:
    return x


def _small(inputs: int, classes: int, sizes: dict[str, Any]) -> Network:
    """Return the network of methods that need a gradient per record: linear, or with a hidden layer where named."""
    hidden = [sizes["small_hidden"]] if "small_hidden" in sizes else []
    return Network(kind="mlp", sizes={"inputs": inputs, "classes": classes, "hidden": hidden})


def flow_rounds(name: str, run: int, sizes: dict[str, Any]) -> rounds.Case:
    """Type III on flows: the paper's network of four hidden layers."""
    private, test = _records(name, sizes, run)
    features = private.shape[0]
    told = uneven_groups(features)

    def rows(x: Any) -> Any:
        return (np.asarray(x, dtype=np.float64) - FLOW_LEVEL) / FLOW_SPREAD

    plan = {"inputs": features, "classes": private.classes, "hidden": [256, 256, 256, 128], "dropout": 0.3}
    return rounds.Case(
        run=run,
        train=private,
        test=test,
        network=Network(kind="mlp", sizes=plan),
        rows=rows,
        small=_small(features, private.classes, sizes),
        small_rows=rows,
        directions=told,
        told_rows=rows,
        products=True,
        contrasts=lambda epsilon: (told, rows),
        steps=sizes["steps"],
        descent=sizes["descent"],
        epochs=sizes["epochs"],
        rate=sizes["rate"],
        last_only=bool(sizes["last_only"]),
        passes=sizes["passes"],
    )


def bag_of_words(x: Any, words: int) -> Any:
    """Return how often each of so many groups of words occurs in a row of word numbers, as square roots."""
    numbers = np.asarray(x, dtype=np.int64)
    places = numbers % words + words * np.arange(len(numbers))[:, None]
    counts = np.bincount(places[numbers > 0], minlength=words * len(numbers)).reshape(len(numbers), words)
    return np.sqrt(counts)


def uneven(basis: Basis) -> Directions:
    """Tell all of a basis of images but its first vector, the even one: it is much the same for all, and tells little.

    What all records have in common only costs where noise is large: noise along it is one for all of them.
    """
    return Directions(basis=Basis.own(basis.synthesise(np.eye(basis.keep))[1:], basis.shape), centre=0.0)


def uneven_groups(groups: int) -> Directions:
    """Tell how often groups of words occur, but for what is the same for all groups (Helmert's basis)."""
    from scipy.linalg import helmert

    return Directions(basis=Basis.own(helmert(groups), (groups,)), centre=0.0)


def groups_for(epsilon: float, most: int) -> int:
    """Return how many groups of words a user tells of at a true epsilon: public, a power of two.

    Eight for each that could be told by itself: with more, noise hides them all; with fewer, words are mixed up.
    """
    signal = signal_of_users(USERS, gdp_mu(epsilon, DELTA))
    return int(min(max(2 ** math.floor(math.log2(8 * signal**2)), 64), most))


def text_rounds(name: str, run: int, sizes: dict[str, Any]) -> rounds.Case:
    """Type III on texts: a BiLSTM over the first words; groups of words for the methods that are not recurrent."""
    parts = read_reviews()
    private, test = subset(parts.train, sizes["train"], run), subset(parts.test, sizes["test"], 0)
    words, length = sizes["words"], sizes["length"]
    told = uneven_groups(words)

    def bag(x: Any) -> Any:
        return bag_of_words(np.asarray(x)[:, 0], words)

    def rows(x: Any) -> Any:
        return told(bag(x))

    def contrasts(epsilon: float) -> tuple[Directions, Callable[[Any], Any]]:
        groups = groups_for(epsilon, words)
        return uneven_groups(groups), lambda x: bag_of_words(np.asarray(x)[:, 0], groups)

    linear = {"inputs": told.dimension, "classes": 2}
    glove: Any = GloveNetwork(vectors=read_vectors()[1], hidden=sizes["hidden"], layers=sizes["layers"])
    return rounds.Case(
        run=run,
        train=private,
        test=test,
        network=glove,
        rows=lambda x: np.asarray(x)[:, 1, :length],
        small=Network(kind="mlp", sizes=linear),
        small_rows=rows,
        layered=Network(kind="mlp", sizes={**linear, "hidden": [sizes["small_hidden"]]}),
        layered_rows=rows,
        directions=told,
        told_rows=bag,
        products=False,
        contrasts=contrasts,
        steps=sizes["steps"],
        descent=sizes["descent"],
        epochs=sizes["epochs"],
        span=IMDB_SPAN,
        rate=sizes["rate"],
        last_only=bool(sizes["last_only"]),
    )
