"""The one way to test what is random.

All statistical tests together raise a false alarm with probability at most BUDGET: each gets BUDGET / MOST_TESTS, and
no more than MOST_TESTS may register. A test without power proves nothing, so each must also reject a law that is
wrong by a fifth, on the same sample. Seeds are fixed; there are no retries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

BUDGET = 1e-6
MOST_TESTS = 1000
LEVEL = BUDGET / MOST_TESTS
WRONG = 1.2
LEAST_EXPECTED = 25  # cells are merged up to this expectation; chi-square tails are then trustworthy

_registered: set[str] = set()


def register(name: str) -> float:
    """Take a share of the budget; the same test run again within a session is the same share."""
    _registered.add(name)
    assert len(_registered) <= MOST_TESTS, "too many statistical tests for the budget: raise MOST_TESTS"
    return LEVEL


def merged(counts: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge neighbouring cells until each expects enough."""
    out_counts, out_expected, have = [], [], [0.0, 0.0]
    for count, expectation in zip(counts.tolist(), expected.tolist(), strict=True):
        have = [have[0] + count, have[1] + expectation]
        if have[1] >= LEAST_EXPECTED:
            out_counts.append(have[0])
            out_expected.append(have[1])
            have = [0.0, 0.0]
    if have != [0.0, 0.0] and out_counts:
        out_counts[-1] += have[0]
        out_expected[-1] += have[1]
    return np.array(out_counts), np.array(out_expected)


def fit_pvalue(counts: Sequence[int] | np.ndarray, probabilities: Sequence[float] | np.ndarray) -> float:
    """Chi-square goodness of fit of counts to cell probabilities (which must add up to 1)."""
    counts, probabilities = np.asarray(counts, dtype=float), np.asarray(probabilities, dtype=float)
    assert abs(probabilities.sum() - 1) < 1e-9, "cell probabilities must add up to 1"
    if np.any(counts[probabilities <= 0] > 0):
        return 0.0
    seen, expected = merged(counts, counts.sum() * probabilities)
    if len(seen) < 2:
        return 1.0
    return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1))


def assert_fits(name: str, counts: Sequence[int] | np.ndarray, law: Callable[[float], Sequence[float]]) -> None:
    """Accept the counts under law(1.0), and reject them under the law with a scale wrong by a fifth either way."""
    level = register(name)
    p = fit_pvalue(counts, law(1.0))
    assert p > level, f"{name}: the sample does not follow its law (p = {p:.2g})"
    for factor in (WRONG, 1 / WRONG):
        assert fit_pvalue(counts, law(factor)) < level, f"{name}: no power against a scale wrong by {factor:.2f}"


def assert_mean(name: str, values: np.ndarray, mean: float, deviation: float) -> None:
    """Accept a mean (by the normal law) and reject one that is wrong by a fifth of the deviation."""
    level = register(name)
    error = deviation / math.sqrt(len(values))

    def pvalue(mean: float) -> float:
        return float(2 * stats.norm.sf(abs(float(np.mean(values)) - mean) / error))

    assert pvalue(mean) > level, f"{name}: the mean is wrong (p = {pvalue(mean):.2g})"
    for wrong in (mean + 0.2 * deviation, mean - 0.2 * deviation):
        assert pvalue(wrong) < level, f"{name}: no power against a mean wrong by a fifth of a deviation"


def assert_second_moment(name: str, values: np.ndarray, second: float) -> None:
    """Accept a second moment about 0 and reject that of a scale wrong by a fifth; the error is estimated."""
    level = register(name)
    squares = np.asarray(values, dtype=float) ** 2
    error = float(squares.std()) / math.sqrt(len(squares))

    def pvalue(second: float) -> float:
        return float(2 * stats.norm.sf(abs(float(squares.mean()) - second) / error))

    assert pvalue(second) > level, f"{name}: the second moment is wrong (p = {pvalue(second):.2g})"
    for factor in (WRONG, 1 / WRONG):
        assert pvalue(second * factor**2) < level, f"{name}: no power against a scale wrong by {factor:.2f}"


def same_pvalue(first: np.ndarray, second: np.ndarray) -> float:
    """Chi-square test that two samples of integers have one law."""
    cells = np.union1d(first, second)
    table = np.array([np.bincount(np.searchsorted(cells, sample), minlength=len(cells)) for sample in (first, second)])
    share = len(first) / (len(first) + len(second))
    both = table.sum(axis=0)
    # Merge on the pooled counts: under equality the first sample's part of every cell is binomial.
    total, wide = merged(both.astype(float), both * min(share, 1 - share))
    mine, _ = merged(table[0].astype(float), both * min(share, 1 - share))
    if len(wide) < 2:
        return 1.0
    parts = (mine - total * share) ** 2 / (total * share * (1 - share))
    return float(stats.chi2.sf(parts.sum(), len(total) - 1))


def assert_same_law(name: str, first: np.ndarray, second: np.ndarray, wrong: Sequence[np.ndarray]) -> None:
    """Accept that two samples have one law, and reject samples whose scale is wrong by a fifth."""
    level = register(name)
    p = same_pvalue(first, second)
    assert p > level, f"{name}: the samples differ in law (p = {p:.2g})"
    for sample in wrong:
        assert same_pvalue(first, sample) < level, f"{name}: no power against a scale wrong by a fifth"


def assert_uncorrelated(name: str, first: np.ndarray, second: np.ndarray) -> None:
    """Accept zero correlation of two sequences, and reject a fifth of one mixed into the other."""
    level = register(name)

    def pvalue(a: np.ndarray, b: np.ndarray) -> float:
        return float(2 * stats.norm.sf(abs(np.corrcoef(a, b)[0, 1]) * math.sqrt(len(a))))

    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    assert pvalue(first, second) > level, f"{name}: the sequences are correlated"
    mixed = second + 0.2 * first * (second.std() / first.std())
    assert pvalue(first, mixed) < level, f"{name}: no power against a correlation of a fifth"


def assert_rate_at_most(name: str, hits: int, trials: int, most: float, wrong_hits: int) -> None:
    """Accept that something happens with probability at most ``most``; reject what a wrong procedure did as often."""
    level = register(name)

    def pvalue(hits: int) -> float:
        return float(stats.binom.sf(hits - 1, trials, most))

    assert pvalue(hits) > level, f"{name}: happened {hits} times in {trials} (p = {pvalue(hits):.2g})"
    assert pvalue(wrong_hits) < level, f"{name}: no power against a wrong procedure"
