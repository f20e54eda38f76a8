"""Rounds of users, learning and federated runs, each with one piece broken on purpose: the catalogue's audits find it.

The same audits find nothing against what is not broken (`test_catalogue`). None of this is in the package.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tensorveil.federated import client
from tensorveil.federated.secure import masking
from tensorveil.federated.trust import Trust, part_deviation
from tensorveil.kernels import bounding
from tensorveil.kernels import users as compiled_users
from tensorveil.learning import ClassMeans, ClassMoments
from tensorveil.local import PrivUnit
from tensorveil.noise import SeededSource, rounded_gaussian
from tensorveil.rounds import records, runner
from tensorveil_evidence.subjects import users
from tensorveil_evidence.subjects.catalogue import list_subjects
from tests.users_reference import add_bounded, entry_norms, no_norms

SUBJECTS = list_subjects()


@dataclass(frozen=True)
class Mutant:
    """A subject of the catalogue, what is broken, and how many draws it takes to see it."""

    name: str
    subject: str
    break_it: Callable[[Any], None]
    samples: int = 20_000


# --- users ---------------------------------------------------------------------------------------------------------


def users_not_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compiled_users, "add_bounded", functools.partial(add_bounded, broken="no clip"))
    patch.setattr(compiled_users, "slice_norms", no_norms)


def entries_cut_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """Lengths are taken of single entries, as if no two fell into one row."""
    patch.setattr(compiled_users, "add_bounded", functools.partial(add_bounded, broken="linear sums ignored"))
    patch.setattr(compiled_users, "slice_norms", entry_norms)


def records_not_cut(patch: pytest.MonkeyPatch) -> None:
    """Long records are neither scaled down nor bounded."""
    patch.setattr(records, "_shorten", lambda made, room: np.ones(len(made.entries)))
    patch.setattr(compiled_users, "add_bounded", functools.partial(add_bounded, broken="no clip"))


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    original = rounded_gaussian
    patch.setattr(runner, "rounded_gaussian", lambda scale, size, source: original(scale / 2, size, source))


# --- learning ------------------------------------------------------------------------------------------------------


def scale_rows(factor: float) -> Any:
    """Return the bound's stand-in, which multiplies contributions and bounds nothing."""

    def add_rows(rows: Any, times: Any, groups: Any, per_unit: Any, limit: Any, out: Any) -> None:
        np.add.at(out, groups, np.rint(factor * rows * times[:, None] * per_unit).astype(np.int64))

    return add_rows


def contributions_not_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bounding, "add_bounded_rows", scale_rows(1.0))


def twice_as_long(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bounding, "add_bounded_rows", scale_rows(2.0))


def gradients_cut_together(patch: pytest.MonkeyPatch) -> None:
    """The mean gradient is cut, not each record's."""

    def add_rows(rows: Any, times: Any, groups: Any, per_unit: Any, limit: Any, out: Any) -> None:
        mean = rows.mean(axis=0) * per_unit
        out[0] += np.rint(len(rows) * mean * min(1.0, limit / np.linalg.norm(mean))).astype(np.int64)

    patch.setattr(bounding, "add_bounded_rows", add_rows)


def users_only_added(patch: pytest.MonkeyPatch) -> None:
    """The limit is that of one user's contribution, where a user may be replaced by the opposite one."""
    patch.setattr(ClassMeans, "limit", property(lambda self: self.longest))


def products_not_charged(patch: pytest.MonkeyPatch) -> None:
    """The limit of moments forgets that products are summed too, and nothing bounds what is added."""
    patch.setattr(ClassMoments, "norm", property(lambda self: math.sqrt(1.25)))
    contributions_not_cut(patch)


def some_reports_as_they_are(patch: pytest.MonkeyPatch) -> None:
    """One report in fifty is not perturbed."""
    original = PrivUnit.perturb

    def perturb(self: Any, x: Any, *, source: Any = None, out: Any = None) -> Any:
        reports = original(self, x, source=source, out=out)
        kept = SeededSource(int(source.uniform64(1)[0])).uniform64(len(reports)) % np.uint64(50) == 0
        reports[kept] = x[kept]
        return reports

    patch.setattr(PrivUnit, "perturb", perturb)


# --- federated -----------------------------------------------------------------------------------------------------


def parts_too_small(patch: pytest.MonkeyPatch) -> None:
    """Each of n clients adds an n-th of the deviation, as if deviations added up, and not variances."""
    original = part_deviation
    patch.setattr(client, "part_deviation", lambda this, trust: original(this, trust) ** 2 * this.mu / this.limit)


def colluding_parts_counted(patch: pytest.MonkeyPatch) -> None:
    """Noise that colluding or missing clients should have added is counted on."""
    patch.setattr(Trust, "counted", property(lambda self: self.clients))


def masks_of_32_bits(patch: pytest.MonkeyPatch) -> None:
    """The upper half of every word stays as it is."""
    for name in ("expand_mask", "sum_pair_masks"):
        original = getattr(masking, name)
        patch.setattr(masking, name, lambda *given, original=original: original(*given) >> np.uint64(33))


MUTANTS = [
    Mutant("users who are not cut", "users/biases 1", users_not_cut),
    Mutant("tastes that are not cut", "users/tastes", users_not_cut),
    Mutant("entries of a user that are cut one by one", "users/counts", entries_cut_one_by_one),
    Mutant("records that are not cut", "users/records", records_not_cut),
    Mutant("shares of records that are not cut", "users/records, refinement 1", users_not_cut),
    Mutant("half the noise of a round", "users/pairs, film", half_the_noise),
    Mutant("half the noise of all rounds", "users/whole fit", half_the_noise, samples=200),
    Mutant("gradients that are not cut", "learning/private gradients", contributions_not_cut),
    Mutant("gradients that are cut together", "learning/private gradients", gradients_cut_together),
    Mutant("users who are only added", "learning/class means", users_only_added),
    Mutant("means that are not cut", "learning/class means", twice_as_long),
    Mutant("contrasts that are not cut", "learning/class contrasts", twice_as_long),
    Mutant("offsets that are not cut", "learning/class contrasts, offsets", twice_as_long),
    Mutant("parameters that are not cut", "learning/averaged parameters, norm", contributions_not_cut),
    Mutant("products that are not charged", "learning/class moments", products_not_charged),
    Mutant("reports left as they are", "learning/reports of directions", some_reports_as_they_are),
    Mutant("parts of noise that are too small", "federated/secure", parts_too_small),
    Mutant("masks of half a word", "federated/secure, one masked vector", masks_of_32_bits),
    Mutant("noise of a curious client", "federated/secure, two clients", colluding_parts_counted),
    Mutant("noise of the absent", "federated/secure, one colluding and one missing", colluding_parts_counted),
    Mutant("noise of others in a local model", "federated/local", colluding_parts_counted),
]


@pytest.fixture(autouse=True)
def _known_before() -> None:
    """What is kept between audits, the states of rounds and who is looked for, must not come from a mutant."""
    users._groups()
    users._record_states()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_is_found(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.break_it(monkeypatch)
    found = SUBJECTS[mutant.subject].audit(samples=mutant.samples, confidence=0.999)
    assert found.violated, found.sentence()
    assert found.confidence == 0.999


def test_every_new_family_has_mutants() -> None:
    families = {mutant.subject.split("/")[0] for mutant in MUTANTS}
    assert families == {"users", "learning", "federated"}
