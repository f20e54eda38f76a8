"""Reports whose noise came from a seed do not become private by shuffling: whoever has the seed takes the noise off."""

from __future__ import annotations

import numpy as np

from tensorveil.local import RandomizedResponse, shuffle
from tensorveil.noise import SecureSource, SeededSource

MECHANISM = RandomizedResponse(shape=(1,), epsilon=1.0, unit="tensor", bounds=(0, 1), points=2)


def test_the_promise_follows_from_the_source_of_the_reports() -> None:
    x = np.repeat([[0.0], [1.0]], 3000, axis=0)
    seeded = SeededSource(4)
    assert np.array_equal(MECHANISM.perturb(x, source=seeded), MECHANISM.perturb(x, source=SeededSource(4)))
    promised = shuffle(MECHANISM.guarantee(source=seeded), len(x), 1e-5)
    assert not promised.private
    assert promised.sentence().startswith("NOT PRIVATE")
    assert shuffle(MECHANISM.guarantee(source=SecureSource()), len(x), 1e-5).private
