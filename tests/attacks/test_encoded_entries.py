"""A budget for each feature is sold as a budget for each entry, although one entry moves all features."""

from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError
from tensorveil.learning import Samples, report
from tensorveil.local import DTLDP, Hybrid, RandomizedResponse

FEATURES = 64


def repeat_first(x: Any) -> Any:
    """A public map that looks at each tensor alone: its first entry, many times."""
    return np.repeat(x[:, :1], FEATURES, axis=1)


def records(first: float) -> Samples:
    x = np.full((5, 4), 0.5)
    x[:, 0] = first
    return Samples(x=x, y=np.zeros(5, dtype=np.int64), classes=2)


@pytest.mark.parametrize("unit", ["local entry", "tensor:differ=1"])
@pytest.mark.parametrize("kind", [RandomizedResponse, DTLDP])
def test_features_are_not_reported_by_a_mechanism_for_entries(kind: Any, unit: str) -> None:
    mechanism = kind(shape=(FEATURES,), epsilon=1.0, unit=unit, bounds=(0, 1))
    with pytest.raises(InputError, match="an entry is part of every feature"):
        report(records(0.0), mechanism, encode=repeat_first)


def test_features_are_reported_for_whole_tensors_and_the_sentence_says_how() -> None:
    mechanism = Hybrid(shape=(FEATURES,), epsilon=1.0, unit="tensor", bounds=(0, 1))
    promise = report(records(1.0), mechanism, encode=repeat_first).guarantee
    assert str(promise.unit) == "tensor"
    assert "computed from it alone" in promise.sentence()


def test_tensors_as_they_are_may_be_reported_by_entry() -> None:
    mechanism = DTLDP(shape=(4,), epsilon=1.0, unit="local entry", bounds=(0, 1))
    assert "computed from it alone" not in report(records(0.0), mechanism).guarantee.sentence()
