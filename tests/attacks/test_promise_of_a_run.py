"""What a run of rounds promises comes with its result: a run with seeded noise, or with none, cannot be called private.

Whoever holds the seed takes the noise off. So the promise must speak of the noise that was drawn, and not of another
source that somebody names afterwards.
"""

from __future__ import annotations

import numpy as np
import pytest

from tensorveil import learning
from tensorveil.learning import ClassMoments, Directions, Samples, learn_in_rounds
from tensorveil.local import Basis
from tensorveil.noise import NoiseSource, SecureSource, SeededSource

RECIPE = ClassMoments(epsilon=1.0, delta=1e-5, most_users=9, directions=Directions(basis=Basis.dct((2,), 2)), classes=2)
DATA = Samples(x=[[0.0, 1.0], [1.0, 0.0]], y=[0, 1], classes=2)


@pytest.mark.parametrize(("source", "private"), [(SeededSource(1), False), (SecureSource(), True)])
def test_the_result_says_which_noise_it_has(source: NoiseSource, private: bool) -> None:
    promised = learn_in_rounds(RECIPE, [DATA], source).guarantee
    assert promised is not None
    assert promised.private is private
    assert promised.sentence().startswith("NOT PRIVATE") is not private


def test_without_noise_nothing_is_promised() -> None:
    found = learn_in_rounds(RECIPE, [DATA], None)
    assert found.guarantee is None
    assert np.allclose(found.state["sums"].reshape(2, -1)[:, 0], 0.5)  # exact counts, which nobody may publish


def test_no_promise_can_be_made_about_a_run_from_outside() -> None:
    assert not hasattr(learning, "promise_of")
