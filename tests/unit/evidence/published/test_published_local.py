"""TLDP and its baselines: claims, what is true (with golden values), expected errors, kinds of arrays."""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tensorveil.errors import InputError
from tensorveil.local import DTLDP
from tensorveil.privacy import Unit
from tensorveil.privacy.gdp import gdp_epsilon
from tensorveil_evidence.published import (
    DPHSGD,
    IDN,
    LLAGP,
    MVG,
    TLDP,
    GaussianNoise,
    LaplaceNoise,
    ReleaseRefusedError,
    explain,
    hutchinson_diagonal,
    table5,
)
from tensorveil_evidence.published.array_kinds import mirror
from tensorveil_evidence.published.truth import laplace_epsilon

MNIST: dict[str, Any] = {"shape": (28, 28), "bounds": (0, 255), "span": 256}
BOX: dict[str, Any] = {"shape": (28, 28), "bounds": (-1, 1), "epsilon": 1.0, "delta": 1e-5}


def tldp(noise: str = "laplace", reading: str = "algorithm", epsilon: float = 1.0, **options: Any) -> Any:
    return TLDP(noise=noise, reading=reading, epsilon=epsilon, **(MNIST | options))


@pytest.mark.parametrize(
    ("epsilon", "pure", "laplace", "mu", "gaussian"),
    [(0.1, 78, 14.8, 12.5, 130), (0.5, 391, 135.5, 27.9, 507), (1.0, 781, 380, 39.4, 945)],
)
def test_what_can_be_said_of_the_papers_own_parameters(
    epsilon: float, pure: Any, laplace: Any, mu: Any, gaussian: Any
) -> None:
    first = tldp("laplace", "proof", epsilon).truth("tensor")
    assert first.noisy == pytest.approx(pure, rel=2e-3)
    assert first.epsilon == pytest.approx(laplace, rel=5e-3)
    assert first.least_delta < 1e-30
    second = tldp("gaussian", "proof", epsilon).truth("tensor")
    assert second.mu == pytest.approx(mu, rel=3e-3)
    assert second.epsilon == pytest.approx(gaussian, rel=2e-3)
    assert second.pure == math.inf


def test_the_two_readings_of_p() -> None:
    assert tldp("laplace", "algorithm").keep == pytest.approx(1 / 513)
    sigma = 256 / math.sqrt(2)
    exponent = math.exp(-1.0)
    assert tldp("gaussian", "algorithm").keep == pytest.approx(exponent / (sigma * math.sqrt(2 * math.pi) + exponent))
    assert tldp("laplace", "proof").keep == 0.0  # about 1e-343
    small = TLDP(noise="laplace", reading="proof", epsilon=1.0, shape=(2, 2), bounds=(0, 1), span=1.0)
    assert small.keep == pytest.approx(math.exp(-3) / (2 + math.exp(-3)))


def test_a_kept_entry_is_an_atom() -> None:
    mechanism = tldp()
    x = np.full((28, 28), 100.0)
    same = np.mean([np.mean(mechanism.perturb(x, seed) == 100.0) for seed in range(200)])
    assert same == pytest.approx(1 / 513, rel=0.15)
    truth = mechanism.truth("local entry")
    assert (truth.pure, truth.epsilon) == (math.inf, math.inf)
    assert truth.least_delta == pytest.approx(1 / 513)
    assert mechanism.truth("tensor").least_delta == pytest.approx(1 - (512 / 513) ** 784)
    # Beyond the atom's chance, the noise alone counts.
    assert mechanism.truth("local entry", delta=0.01).epsilon <= 255 / 256
    # Untouched pixels of an image of whole numbers give themselves away, and no others do.
    image = np.random.default_rng(0).integers(0, 256, (28, 28)).astype(float)
    noisy = mechanism.perturb(image, 1)
    assert np.array_equal(noisy == np.round(noisy), noisy == image)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("reading", ["algorithm", "proof"])
def test_claims_about_whole_tensors_are_refuted(noise: Any, reading: Any) -> None:
    guarantee = tldp(noise, reading).guarantee("tensor")
    assert guarantee.status == "refuted"
    assert not guarantee.private
    assert "Theorem 1" in explain(guarantee)
    entry = tldp(noise, reading).guarantee("local entry")
    assert entry.status == ("claimed" if (noise, reading) == ("laplace", "proof") else "refuted")
    assert not entry.private
    with pytest.raises(ReleaseRefusedError):
        tldp(noise, reading).save("report.npy")


def test_composed_laplace_noise_is_bounded_from_both_sides() -> None:
    # One entry in closed form; two by quadrature of the loss; never below a lower bound from the tail of the losses.
    assert laplace_epsilon(1.0, 1, 1e-9) == pytest.approx(1.0, abs=1e-8)
    assert laplace_epsilon(1.0, 1, 0.5) == 0.0
    for count in (2, 5):
        found = laplace_epsilon(0.7, count, 1e-3)
        rng = np.random.default_rng(0)
        y = rng.laplace(size=(400_000, count))
        losses = (np.abs(y - 0.7) - np.abs(y)).sum(axis=1)
        measured = np.maximum(0, -np.expm1(found - losses)).mean()
        assert measured <= 1e-3 * 1.1
        assert measured >= 1e-3 * 0.8
        assert found <= 0.7 * count


def test_baselines_and_their_true_epsilon() -> None:
    """28 x 28, range [-1, 1], delta 1e-5, nominal epsilon 1."""
    mvg, idn, classic = MVG(**BOX), IDN(**BOX), GaussianNoise(calibration="classic", **BOX)
    assert mvg.sigma == pytest.approx(1.94e5, rel=3e-3)
    assert mvg.truth("tensor").epsilon == pytest.approx(0.0004, abs=2e-5)
    assert idn.sigma == pytest.approx(1769, rel=1e-3)
    assert idn.truth("tensor").epsilon == pytest.approx(0.097, abs=1e-3)
    assert classic.sigma == pytest.approx(271, rel=3e-3)
    assert classic.truth("tensor").epsilon < 1
    for mechanism in (mvg, idn, classic):
        assert mechanism.guarantee().status == "claimed"
        assert mechanism.truth("local entry").epsilon < mechanism.truth("tensor").epsilon
    # Gaussian noise never has a pure epsilon, and the classic formula fails for large epsilon.
    paper = GaussianNoise(calibration="paper", epsilon=1.0, **MNIST)
    assert paper.guarantee().status == "refuted"
    large = GaussianNoise(calibration="classic", **(BOX | {"epsilon": 60.0}))
    assert large.truth("tensor").epsilon > 60
    assert large.guarantee().status == "refuted"
    laplace = LaplaceNoise(epsilon=1.0, **MNIST)
    assert laplace.truth("tensor").pure == pytest.approx(255 / 256)
    assert laplace.guarantee().status == "claimed"


def test_directional_noise() -> None:
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(28, 28)))[0]
    shares = np.linspace(1, 3, 28) / np.linspace(1, 3, 28).sum()
    mechanism = MVG(directions=turn, shares=shares, **BOX)
    assert mechanism.measured_error(40, 1) == pytest.approx(mechanism.rms_error, rel=0.05)
    even = MVG(directions=np.eye(28), shares=np.full(28, 1 / 28), **BOX)
    assert np.allclose(even.row_variances, MVG(**BOX).sigma ** 2)
    assert even.truth("tensor").mu == pytest.approx(MVG(**BOX).truth("tensor").mu)
    # On a ball nothing beats isotropic noise: the bound by the smallest variance is larger.
    turned, isotropic = mechanism.truth("tensor").mu, even.truth("tensor").mu
    assert turned is not None
    assert isotropic is not None
    assert turned > isotropic
    tensor = MVG(shape=(3, 4, 5), epsilon=1.0, bounds=(0, 1), delta=1e-5, mode=1,
                 directions=np.eye(4), shares=np.full(4, 0.25))  # fmt: skip
    assert tensor.perturb(np.zeros((3, 4, 5)), 0).shape == (3, 4, 5)
    for wrong in ({"shares": shares}, {"directions": np.ones((28, 28)), "shares": shares},
                  {"directions": turn, "shares": np.ones(28)}, {"mode": 2}):  # fmt: skip
        with pytest.raises(InputError):
            MVG(**(BOX | wrong))


def test_table_5_by_formula_and_by_simulation() -> None:
    rows = {row.method: row for row in table5((28, 28), 1.0, (0, 255), 256, 1e-5, runs=30)}
    size, span = 784, 256
    assert rows["Laplace"].printed == pytest.approx(span * size * math.sqrt(2 * size))
    assert rows["TLDP-L, p of the proof"].printed == pytest.approx(span * math.sqrt(2 * size))
    assert rows["TLDP-G, p of the proof"].printed == pytest.approx(span / 2 * math.sqrt(size))
    for name, row in rows.items():
        assert row.measured == pytest.approx(row.formula, rel=0.05), name
        assert row.nominal_epsilon == 1.0
    # The printed errors of Laplace noise are those of the noise; the Gaussian ones are not.
    for name in ("Laplace", "TLDP-L, p of the algorithm", "TLDP-L, p of the proof"):
        assert rows[name].printed == pytest.approx(rows[name].formula)
    assert rows["TLDP-G, p of the proof"].formula == pytest.approx(span / math.sqrt(2) * 28)
    assert rows["TLDP-G, p of the proof"].formula > 1.4 * rows["TLDP-G, p of the proof"].printed
    assert rows["TLDP-L, p of the proof"].epsilon_tensor > 300
    assert rows["Laplace"].pure_tensor <= 1


def test_weights_lower_the_chance_to_keep() -> None:
    weights = np.zeros((28, 28))
    weights[:14] = 1.0
    mechanism = tldp(weights=weights)
    x = np.full((28, 28), 50.0)
    kept = np.mean([mechanism.perturb(x, seed) == 50.0 for seed in range(100)], axis=0)
    assert kept[:14].max() == 0
    assert kept[14:].mean() == pytest.approx(1 / 513, rel=0.3)
    assert mechanism.name == "TLDP-L-w"
    assert mechanism.truth("local entry").least_delta == pytest.approx(1 / 513)
    assert tldp(weights=np.full((28, 28), 0.5)).truth("local entry").least_delta == pytest.approx(0.5 / 513)
    columns = TLDP(noise="gaussian", reading="algorithm", epsilon=1.0, shape=(2, 3, 4), bounds=(0, 1), span=1.0,
                   weights=np.ones((2, 3)))  # fmt: skip
    assert columns.rms_error == pytest.approx(columns.scale * math.sqrt(24))
    assert "read off the values" in explain(tldp(weights="data").guarantee("tensor"))


def test_a_weight_matrix_fits_images_with_channels_first_or_last() -> None:
    weights = np.zeros((32, 32))
    weights[:, :16] = 1.0
    for shape, place in (
        ((3, 32, 32), (None, slice(None), slice(None))),
        ((32, 32, 3), (slice(None), slice(None), None)),
    ):
        mechanism = TLDP(noise="laplace", reading="algorithm", epsilon=1.0, shape=shape, bounds=(0, 1), span=1.0,
                         weights=weights)  # fmt: skip
        np.testing.assert_array_equal(mechanism.weights, np.broadcast_to(weights[place], shape))
        x = np.full(shape, 0.5)
        kept = np.mean([mechanism.perturb(x, seed) == 0.5 for seed in range(20)], axis=0)
        heavy = np.broadcast_to(weights[place], shape) == 1.0
        assert kept[heavy].max() == 0
        assert kept[~heavy].mean() == pytest.approx(1 / 3, abs=0.03)
    square = TLDP(noise="laplace", reading="algorithm", epsilon=1.0, shape=(4, 4, 4), bounds=(0, 1), span=1.0,
                  weights=np.arange(16).reshape(4, 4) / 16)  # fmt: skip
    assert square.weights[1, 2, 0] == square.weights[1, 2, 3] == 6 / 16
    with pytest.raises(InputError, match="first or last modes"):
        TLDP(noise="laplace", reading="algorithm", epsilon=1.0, shape=(3, 4, 5), bounds=(0, 1), span=1.0,
             weights=np.zeros((3, 5)))  # fmt: skip


def test_symmetric_tensors_stay_symmetric() -> None:
    x = mirror(np.random.default_rng(0).uniform(-1, 1, size=(5, 5, 5)))
    for made in (
        TLDP(
            noise="laplace", reading="algorithm", epsilon=1.0, shape=(5, 5, 5), bounds=(-1, 1), span=2, symmetric=True
        ),
        LaplaceNoise(epsilon=1.0, shape=(5, 5, 5), bounds=(-1, 1), span=2, symmetric=True),
    ):
        noisy = made.perturb(x, 0)
        for axes in [(0, 2, 1), (1, 0, 2), (2, 1, 0)]:
            assert np.array_equal(noisy, np.transpose(noisy, axes))
        assert made.differing("tensor") == 35  # sorted indices only
    with pytest.raises(InputError, match="symmetric"):
        tldp(shape=(3, 4), symmetric=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_numpy_kinds_come_back(dtype: Any) -> None:
    x = np.full((6, 28, 28), 7, dtype=dtype)
    noisy = tldp().perturb(x, 0)
    assert noisy.shape == x.shape
    assert noisy.dtype == (np.float64 if dtype == np.uint8 else dtype)


def test_torch_tensors_come_back_as_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    for kind in (torch.float32, torch.float64, torch.uint8):
        x = torch.full((2, 3, 4), 7, dtype=kind)
        mechanism = TLDP(noise="laplace", reading="algorithm", epsilon=1.0, shape=(2, 3, 4), bounds=(0, 255), span=256)
        noisy = mechanism.perturb(x, 0)
        assert isinstance(noisy, torch.Tensor)
        assert noisy.dtype == (torch.float64 if kind == torch.uint8 else kind)
        assert noisy.shape == x.shape
        again = mechanism.perturb(np.full((2, 3, 4), 7.0), 0)
        assert np.allclose(noisy.numpy(), again, rtol=1e-5)
    layers = [torch.ones(8, 3, requires_grad=True), torch.ones(8, 2, 2)]
    noisy = LLAGP(clip_norms=(1.0, 1.0), noise_multiplier=1.0, steps=5).noisy_means(layers, 1, 0)
    assert [tuple(layer.shape) for layer in noisy] == [(3,), (2, 2)]
    assert all(isinstance(layer, torch.Tensor) for layer in noisy)


def test_layers_share_the_budget() -> None:
    mechanism = LLAGP(clip_norms=(1.0, 2.0, 0.5), noise_multiplier=2.0, steps=20, kappa=0.6)
    for step in (0, 7, 20):
        shares = mechanism.shares(step)
        assert shares.sum() == pytest.approx(1.0)
        assert np.all(np.diff(shares) <= 0)
        # Per layer mu^2 = C^2 / sigma^2 = share / z^2: together 1 / z^2.
        sigmas = np.array(mechanism.clip_norms) * 2.0 / np.sqrt(shares)
        assert ((np.array(mechanism.clip_norms) / sigmas) ** 2).sum() == pytest.approx(0.25)
    assert mechanism.guarantee(1e-5).epsilon == pytest.approx(gdp_epsilon(math.sqrt(20) / 2, 1e-5), rel=1e-9)
    assert LLAGP(clip_norms=(1.0,), noise_multiplier=1.0, steps=1).shares(1).tolist() == [1.0]


def test_gradients_are_clipped_and_noised_per_layer() -> None:
    rng = np.random.default_rng(0)
    layers = [100 * rng.normal(size=(50, 4)), rng.normal(size=(50, 2, 3)) * 1e-3]
    quiet = LLAGP(clip_norms=(1.0, 1.0), noise_multiplier=1e-9, steps=2).noisy_means(layers, 1, 0)
    clipped = layers[0] / np.linalg.norm(layers[0], axis=1, keepdims=True)
    assert np.allclose(quiet[0], clipped.mean(axis=0), atol=1e-6)
    assert np.allclose(quiet[1], layers[1].mean(axis=0), atol=1e-6)
    mechanism = DPHSGD(clip_norm=1.0, clip_range=(0.1, 2.0), noise_multiplier=3.0, layers=2, steps=10)
    noisy = np.array([mechanism.noisy_means(layers, [0.5, 1.5], seed)[0] for seed in range(400)])
    assert noisy.std(axis=0).mean() == pytest.approx(3.0 * 0.5 / 50, rel=0.1)
    assert mechanism.guarantee(1e-5).epsilon == pytest.approx(gdp_epsilon(math.sqrt(20) / 3, 1e-5), rel=1e-9)


def test_the_diagonal_is_estimated_without_the_matrix() -> None:
    rng = np.random.default_rng(3)
    hessian = np.diag([1.0, 4.0, 9.0, 16.0]) + 0.1 * rng.normal(size=(4, 4))
    hessian = (hessian + hessian.T) / 2

    def product(v: Any) -> Any:
        image = hessian @ np.concatenate([part.reshape(-1) for part in v])
        return [image[:1], image[1:].reshape(3, 1)]

    found = hutchinson_diagonal(product, [(1,), (3, 1)], 2000, 0)
    assert np.allclose(np.concatenate([part.reshape(-1) for part in found]), np.diag(hessian), atol=0.05)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tldp(noise="uniform"), "noise"),
        (lambda: tldp(reading="third"), "reading"),
        (lambda: tldp(epsilon=0.0), "epsilon"),
        (lambda: tldp(epsilon=math.inf), "epsilon"),
        (lambda: tldp(span=-1), "span"),
        (lambda: tldp(bounds=(1, 0)), "bounds"),
        (lambda: tldp(shape=(0, 3)), "shape"),
        (lambda: tldp(weights=np.full((28, 28), 1.5)), "weights"),
        (lambda: tldp(weights=np.full((28, 28), np.nan)), "weights"),
        (lambda: tldp(weights=np.zeros((3, 3))), "weights"),
        (lambda: tldp(weights="pixels"), "weights"),
        (lambda: tldp().truth("value"), "unit"),
        (lambda: tldp().perturb(np.full((28, 28), np.nan)), "finite"),
        (lambda: tldp().perturb(np.full((28, 28), 300.0)), "bounds"),
        (lambda: tldp().perturb(np.zeros((3, 3))), "shape"),
        (lambda: tldp().perturb(np.zeros((0, 28, 28))), "empty"),
        (lambda: tldp().perturb(np.full((28, 28), "a")), "numbers"),
        (lambda: IDN(shape=(2,), epsilon=1.0, bounds=(0, 1), delta=0.0), "delta"),
        (lambda: GaussianNoise(shape=(2,), epsilon=1.0, bounds=(0, 1), calibration="new"), "calibration"),
        (lambda: GaussianNoise(shape=(2,), epsilon=1.0, bounds=(0, 1), calibration="paper"), "span"),
        (lambda: LLAGP(clip_norms=(), noise_multiplier=1.0, steps=1), "clip_norms"),
        (lambda: LLAGP(clip_norms=(1.0,), noise_multiplier=1.0, steps=0), "steps"),
        (lambda: LLAGP(clip_norms=(1.0,), noise_multiplier=1.0, steps=1).noisy_means([], 1), "layer"),
        (lambda: LLAGP(clip_norms=(1.0,), noise_multiplier=1.0, steps=1).shares(2), "step"),
        (lambda: DPHSGD(clip_norm=1, clip_range=(2, 1), noise_multiplier=1, layers=1, steps=1), "clip_range"),
        (
            lambda: DPHSGD(clip_norm=1, clip_range=(1, 1), noise_multiplier=1, layers=1, steps=1).noisy_means([], []),
            "layers",
        ),
        (lambda: hutchinson_diagonal(lambda v: v, [(1,)], 0, 0), "probes"),
    ],
)
def test_bad_input_is_refused(make: Any, words: Any) -> None:
    with pytest.raises(InputError, match=words):
        make()


def exact_ratio(first: Any, second: Any, answers: Any) -> Any:
    """The largest log-ratio, over answers, of two laws of one DTLDP entry, by their closed form."""

    def law(mechanism: Any, value: Any) -> Any:
        found = mechanism._law(mechanism._epsilons[0])
        a, keep = math.exp(-1 / float(found.scale)), found.chance / 2**64
        return (1 - keep) * (1 - a) / (1 + a) * a ** np.abs(answers - value) + keep * (answers == value)

    return float(np.abs(np.log(law(*first)) - np.log(law(*second))).max())


def test_weights_from_the_data_void_a_guarantee_that_public_weights_keep() -> None:
    """One pixel of a weighted mechanism: with its weight public, epsilon holds; with its own value as weight, not."""
    common: dict[str, Any] = {"shape": (1,), "unit": "local entry", "bounds": (0, 255), "points": 256}
    answers = np.arange(-600, 860)
    fixed = DTLDP(epsilon=0.5, **common)
    assert exact_ratio((fixed, 0), (fixed, 255), answers) <= 0.5 + 1e-9
    # Algorithm 2 in spirit: epsilon_i proportional to 1 - weight, weight = value / 256.
    ratios = [
        exact_ratio((DTLDP(epsilon=1.0, **common), 0), (DTLDP(epsilon=1 - value / 256, **common), value), answers)
        for value in (64, 128, 192, 255)
    ]
    assert ratios == sorted(ratios)
    assert ratios[-1] > 3.0  # and it grows without limit with the answers looked at
    assert (
        exact_ratio((DTLDP(epsilon=1.0, **common), 0), (DTLDP(epsilon=0.5, **common), 128), np.arange(-6000, 6000)) > 10
    )
    assert Unit.parse("local entry") == Unit.local_entry()


def lower_bound(first: Any, second: Any, n: int) -> Any:
    """Clopper-Pearson at confidence 0.999 on the log-ratio of the chances of an event."""
    low = stats.beta.ppf(0.0005, first, n - first + 1) if first else 0.0
    high = stats.beta.ppf(0.9995, second + 1, n - second) if second < n else 1.0
    return math.log(low / high) if low > high else 0.0


def test_weights_read_off_mnist_images_are_refuted_and_public_ones_are_not() -> None:
    """Two images that differ in one pixel, nominal epsilon 1 for the whole image, answers of that pixel."""
    path = Path(os.environ.get("TENSORVEIL_DATA", "")) / "mnist" / "train-images-idx3-ubyte.gz"
    if not os.environ.get("TENSORVEIL_DATA") or not path.is_file():
        pytest.skip("TENSORVEIL_DATA has no mnist")
    with gzip.open(path) as file:
        image = np.frombuffer(file.read(16 + 784), dtype=np.uint8, offset=16).reshape(28, 28).astype(float)
    other, n = image.copy(), 20_000
    place = tuple(np.argwhere(image == image.max())[0])
    other[place] = 0
    public = np.zeros((28, 28))
    public[4:24, 4:24] = 0.8

    def told(x: Any, weights: Any) -> Any:
        """Count answers other than the constant that an unreported pixel has."""
        mechanism = DTLDP(shape=(28, 28), epsilon=1.0, unit="tensor", bounds=(0, 255), points=256, weights=weights)
        answers = [mechanism.perturb(np.broadcast_to(x, (2000, 28, 28)))[(slice(None), *place)] for _ in range(10)]
        return int(np.count_nonzero(np.concatenate(answers) != 127.5))

    assert lower_bound(told(other, other / image.max()), told(image, image / image.max()), n) > 5
    assert lower_bound(told(other, public), told(image, public), n) <= 1
    # As printed, with such weights, a background pixel that comes out as exactly 0 was 0: the witness needs no bound.
    mechanism = tldp(weights="data")
    kept = [sum(mechanism.perturb(x, seed)[place] == 0.0 for seed in range(4000)) for x in (other, image)]
    assert kept[0] > 0
    assert kept[1] == 0
    assert mechanism.guarantee("local entry").status == "refuted"
