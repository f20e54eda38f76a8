"""Weighted TLDP on images: public weights may hold, weights that are read off the image are refuted.

An entry of weight 1 is never kept and has plain Laplace noise, so that at such a pixel the claim holds for one pixel
that differs. With the image as its own weights the same pixel is kept now and then once it is black: an atom.
"""

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.audit import Claim, audit
from tensorveil.local import DTLDP
from tensorveil_evidence.published import TLDP
from tensorveil_evidence.subjects.subject import source


def small_digits() -> Any:
    """Two digits of 8 x 8 pixels, 0 to 16, from scikit-learn."""
    images = pytest.importorskip("sklearn.datasets").load_digits().images
    return images[0], images[1], 16.0


def mnist_digits() -> Any:
    folder = Path(os.environ.get("TENSORVEIL_DATA", "")) / "mnist"
    if not os.environ.get("TENSORVEIL_DATA") or not folder.is_dir():
        pytest.skip("TENSORVEIL_DATA has no mnist folder")
    with gzip.open(folder / "t10k-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), dtype=np.uint8, offset=16)
    images = pixels.reshape(-1, 28, 28).astype(float)
    return images[0], images[1], 255.0


def centre(shape: tuple[int, ...]) -> Any:
    """Public weights: what is in the middle matters, the rim does not; no image is looked at."""
    weights = np.zeros(shape)
    rim = shape[0] // 8
    weights[rim:-rim, rim:-rim] = 1.0
    return weights


def one_pixel(image: Any) -> Any:
    """A neighbour without the brightest pixel of the middle, and where that is."""
    pixel = np.unravel_index(np.argmax(image * centre(image.shape)), image.shape)
    changed = image.copy()
    changed[pixel] = 0.0
    return changed, pixel


def tldp(shape: tuple[int, ...], top: Any, weights: Any) -> Any:
    return TLDP(
        shape=shape, epsilon=1.0, bounds=(0, top), span=top + 1, noise="laplace", reading="algorithm", weights=weights
    )


def perturbed_pixel(mechanism: Any, pixel: Any) -> Any:
    """Perturb whole images, then look at one pixel."""

    def many(image: Any, rng: np.random.Generator, n: int) -> Any:
        tiled = np.broadcast_to(image, (n, *image.shape))
        return (tiled + mechanism._noise(tiled, rng))[(slice(None), *pixel)]

    return many


def verdicts(image: Any, top: Any, samples: Any) -> Any:
    changed, pixel = one_pixel(image)
    found = {}
    for name, weights in (("public", centre(image.shape)), ("data", "data")):
        mechanism = tldp(image.shape, top, weights)
        found[name] = audit(
            perturbed_pixel(mechanism, pixel), (image, changed), Claim(epsilon=1.0), samples=samples, batched=True,
            kinds=("law", "atom"),
        )  # fmt: skip
    return found


def check(found: Any) -> None:
    assert not found["public"].violated, found["public"].sentence()
    assert found["public"].lower_bound > 0.75
    assert found["data"].violated, found["data"].sentence()
    assert found["data"].witness.kind == "atom"
    assert min(found["data"].witness.hits) == 0


def test_digits_refute_weights_of_the_data() -> None:
    image, _, top = small_digits()
    check(verdicts(image, top, 20_000))


@pytest.mark.slow
def test_mnist_refutes_weights_of_the_data() -> None:
    image, _, top = mnist_digits()
    check(verdicts(image, top, 100_000))


def test_public_weights_do_not_mend_the_rim() -> None:
    """Where the weight is 0, the first reading keeps pixels, whoever chose the weights."""
    image, _, top = small_digits()
    mechanism = tldp(image.shape, top, centre(image.shape))
    brighter = image.copy()
    brighter[0, 0] = top
    found = audit(
        perturbed_pixel(mechanism, (0, 0)), (image, brighter), Claim(epsilon=1.0), samples=20_000, batched=True,
        kinds=("law", "atom"),
    )  # fmt: skip
    assert found.violated


def shared_out(weights_of: Any) -> Any:
    """The proven mechanism, with a budget shared out by weights: public ones, or those that a function gives."""

    def many(image: Any, rng: np.random.Generator, n: int) -> Any:
        mechanism = DTLDP(
            shape=image.shape, epsilon=8.0, unit="tensor", bounds=(0, 16), points=17, weights=weights_of(image)
        )
        return mechanism.perturb(np.broadcast_to(image, (n, *image.shape)), source=source(rng))

    return many


def test_the_proven_mechanism_is_no_longer_proven_with_weights_of_the_data() -> None:
    first, second, top = small_digits()
    public = audit(
        shared_out(lambda image: centre(image.shape)), (first, second), Claim(epsilon=8.0), samples=4_000, batched=True
    )
    assert not public.violated, public.sentence()
    private = audit(shared_out(lambda image: image / top), (first, second), Claim(epsilon=8.0), samples=30_000,
                    batched=True)  # fmt: skip
    assert private.lower_bound > 7.0  # all that so many draws can show of an epsilon that is infinite
    assert private.lower_bound > 0.9 * private.ceiling
    assert audit(shared_out(lambda image: image / top), (first, second), Claim(epsilon=1.0), samples=2_000,
                 batched=True).violated  # fmt: skip
