"""Every mechanism of the project under audit: what is proven stands, what is false falls, no bound beats a proof."""

import pytest

from tensorveil.audit.catalogue import find_subjects, subjects
from tensorveil.audit.subjects.subject import holds
from tensorveil.errors import InputError
from tensorveil.local import __all__ as local_names
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.noise import __all__ as noise_names

SUBJECTS = subjects()
# Whole fits of the reference case take a tenth of a second and more each; of the others one variant is enough here.
COSTLY = {
    name for name in SUBJECTS if name.startswith("attack/") or name.endswith("gradient perturbation, secret start")
}
COSTLY |= {name for name in SUBJECTS if name.startswith("completion/gradient, tucker") or name.endswith(", delta")}
QUICK = {
    "completion/": 40,
    "one run/users": 400,
    "one run/": 2_000,
    "published/output perturbation, secret start": 60,
    "local/400": 2_000,
}


def quick_samples(subject):
    """Fewer draws for what is proven: a wrong verdict of "violated" would show with any number."""
    few = [count for prefix, count in QUICK.items() if subject.name.startswith(prefix)]
    if few:
        return few[0]
    return min(subject.samples, 10_000) if holds(subject) else subject.samples


def check(subject, verdict):
    assert verdict.violated != holds(subject), f"{subject.name}: {verdict.sentence()}"
    proven = subject.proven
    if proven is not None and proven.parameter == verdict.claim.parameter and proven.delta == verdict.claim.delta:
        assert verdict.lower_bound <= proven.level, f"{subject.name}: {verdict.sentence()}"
    assert verdict.confidence == 0.999


@pytest.mark.parametrize("name", sorted(set(SUBJECTS) - COSTLY))
def test_the_verdict_is_the_right_one(name):
    subject = SUBJECTS[name]
    check(subject, subject.audit(samples=quick_samples(subject)))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_the_verdict_is_the_right_one_with_many_draws(name):
    """A million draws of everything that can be drawn in bulk; as many whole runs as minutes allow of the rest."""
    subject = SUBJECTS[name]
    check(subject, subject.audit(samples=subject.many, seed=1))


def test_a_million_draws_of_every_noised_primitive_and_a_million_canaries_of_every_method():
    """What the slow tests promise: the numbers in the catalogue."""
    for name, subject in SUBJECTS.items():
        if name.startswith(("noise/", "statistic/", "local/", "one run/Private")):
            assert subject.many >= 1_000_000, name
            assert holds(subject), name


def test_nothing_is_left_out():
    """A mechanism that is added to the project must be added here."""
    text = " ".join(SUBJECTS)
    for method in METHODS:
        assert f"completion/{method}, laplace" in SUBJECTS
        assert f"completion/{method}, gaussian" in SUBJECTS
        assert f"one run/PrivateCP {method}" in SUBJECTS
    assert all(f"one run/{name}" in text for name in ("PrivateTucker", "PrivateLowRankMatrix"))
    assert {"one run/users, biases", "one run/users, factors"} <= set(SUBJECTS)
    for words in ("laplace", "gaussian", "norm", "bounded values"):
        assert f"noise/{words}" in text
    mechanisms = [name for name in noise_names if name.endswith("_mechanism")]
    assert sorted(mechanisms) == [
        "bounded_values_mechanism", "gaussian_mechanism", "laplace_mechanism", "norm_mechanism"
    ]  # fmt: skip
    for words in ("k-RR", "staircase", "piecewise", "hybrid", "DTLDP", "PrivUnit", "PrivUnitG", "exact Gaussian"):
        assert f"local/{words}" in text
    known = {
        "DTLDP",
        "ExactGaussian",
        "Hybrid",
        "Piecewise",
        "PrivUnit",
        "PrivUnitG",
        "RandomizedResponse",
        "Staircase",
    }
    mechanism_names = {name for name in local_names if name[0].isupper()}
    assert known <= mechanism_names


def test_subjects_are_found_by_name_beginning_and_pattern():
    assert [s.name for s in find_subjects("noise/laplace, fine grid")] == ["noise/laplace, fine grid"]
    assert {s.name for s in find_subjects("noise/laplace")} == {
        "noise/laplace, fine grid",
        "noise/laplace, coarse grid",
    }
    assert all(s.name.endswith("gaussian") for s in find_subjects("completion/*gaussian"))
    with pytest.raises(InputError, match="no subject"):
        find_subjects("nothing")
