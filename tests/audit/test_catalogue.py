"""Every mechanism of the project under audit: what is proven stands, what is false falls, no bound beats a proof."""

import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks import audit as audit_table

from tensorveil.audit.subject import find_subjects, holds
from tensorveil.errors import InputError
from tensorveil.federated.recipes import KINDS as RECIPES
from tensorveil.federated.trust import KINDS as TRUST_KINDS
from tensorveil.local import __all__ as local_names
from tensorveil.local.catalogue import all_mechanisms
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import __all__ as noise_names
from tensorveil.rounds.plan import STAGES
from tensorveil_evidence.studies.papers import claims
from tensorveil_evidence.subjects.catalogue import list_subjects

ROOT = Path(__file__).parents[2]
SUBJECTS = list_subjects()
# Whole fits of the reference case take a tenth of a second and more each; of the others one variant is enough here.
COSTLY = {
    name for name in SUBJECTS if name.startswith("attack/") or name.endswith("gradient perturbation, secret start")
}
COSTLY |= {name for name in SUBJECTS if name.startswith("completion/gradient, tucker") or name.endswith(", delta")}
QUICK = {
    "completion/": 40,
    "selection/": 2_000,
    "one run/": 2_000,
    "users/whole fit": 60,
    "learning/averaged parameters, whole run": 40,
    "learning/private gradients, whole run": 40,
    "federated/": 4_000,
    "published/output perturbation, secret start": 60,
    "local/400": 2_000,
}


def quick_samples(subject: Any) -> Any:
    """Fewer draws for what is proven: a wrong verdict of "violated" would show with any number."""
    few = [count for prefix, count in QUICK.items() if subject.name.startswith(prefix)]
    if few:
        return few[0]
    return min(subject.samples, 10_000) if holds(subject) else subject.samples


def check(subject: Any, verdict: Any) -> None:
    assert verdict.violated != holds(subject), f"{subject.name}: {verdict.sentence()}"
    proven = subject.proven
    if proven is not None and proven.parameter == verdict.claim.parameter and proven.delta == verdict.claim.delta:
        assert verdict.lower_bound <= proven.level, f"{subject.name}: {verdict.sentence()}"
    assert verdict.confidence == 0.999


@pytest.mark.parametrize("name", sorted(set(SUBJECTS) - COSTLY))
def test_the_verdict_is_the_right_one(name: str) -> None:
    subject = SUBJECTS[name]
    check(subject, subject.audit(samples=quick_samples(subject)))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_the_verdict_is_the_right_one_with_many_draws(name: str) -> None:
    """A million draws of everything that can be drawn in bulk; as many whole runs as minutes allow of the rest."""
    subject = SUBJECTS[name]
    check(subject, subject.audit(samples=subject.many, seed=1))


def whole_runs(name: str) -> Any:
    """Whole runs of completion and of rounds cost milliseconds each; their statistics are drawn by the million."""
    return SUBJECTS[name].about == "whole runs" or name.startswith("attack/")


def test_a_million_draws_of_everything_that_is_proven() -> None:
    """What the slow tests promise: the numbers in the catalogue."""
    for name, subject in SUBJECTS.items():
        if not name.startswith("published/") and not whole_runs(name):
            assert subject.many >= 1_000_000, name
            assert holds(subject), name


# --- what is proven must be here: from the project's own lists -----------------------------------------------------


def audited(beginning: Any) -> Any:
    """Tell whether there are subjects with this beginning that are drawn by the million, all of them proven."""
    names = [name for name in SUBJECTS if name.startswith(beginning) and not whole_runs(name)]
    return bool(names) and all(holds(SUBJECTS[name]) and SUBJECTS[name].many >= 1_000_000 for name in names)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_private_completion_is_audited(method: Any) -> None:
    assert f"completion/{method}, laplace" in SUBJECTS
    assert f"completion/{method}, gaussian" in SUBJECTS
    assert audited(f"one run/PrivateCP {method}")
    assert {"one run/PrivateTucker output, delta", "one run/PrivateLowRankMatrix input"} <= set(SUBJECTS)


def test_every_noised_statistic_is_audited() -> None:
    bought = [
        name for name, made in vars(Spend).items() if getattr(made, "__annotations__", {}).get("return") == "Noisy"
    ]
    public = [name.replace("_", " ") for name in bought if not name.startswith("_")]
    assert len(public) >= 4
    for name in public:
        assert audited(f"statistic/{name}, laplace"), name
        assert audited(f"statistic/{name}, gaussian"), name


def test_every_noise_is_audited() -> None:
    mechanisms = [name.removesuffix("_mechanism") for name in noise_names if name.endswith("_mechanism")]
    assert len(mechanisms) >= 4
    for name in [*mechanisms, "discrete_gaussian"]:
        assert audited(f"noise/{name.replace('_', ' ')}"), name


@pytest.mark.parametrize("name", all_mechanisms())
def test_every_local_mechanism_is_audited(name: str) -> None:
    examples = all_mechanisms()[name].examples(1.0)
    assert examples
    for example, mechanism in examples.items():
        assert type(mechanism).__name__ == name
        assert audited(f"local/{example}, epsilon 1"), example
        assert audited(f"local/{example}, epsilon 6"), example
    assert name in local_names, "a mechanism is not public"


def test_shuffled_reports_are_audited() -> None:
    assert audited("local/400 shuffled")


@pytest.mark.parametrize("kind", STAGES)
def test_every_kind_of_round_of_user_level_fits_is_audited(kind: Any) -> None:
    assert audited(f"users/{kind}")
    assert {"users/whole fit", "one run/users, biases", "one run/users, factors"} <= set(SUBJECTS)


@pytest.mark.parametrize("kind", RECIPES)
def test_every_recipe_that_runs_in_rounds_is_audited(kind: Any) -> None:
    assert audited({"users": "users/", "records": "users/records"}.get(kind, f"learning/{kind}"))


@pytest.mark.parametrize("kind", TRUST_KINDS)
def test_every_trust_model_is_audited(kind: Any) -> None:
    assert audited(f"federated/{kind}")


# Paragraphs of docs/guarantees.md, and who stands for them here. A new proof asks for a new subject.
PROVEN_BY = {
    "sums": "statistic/sums",
    "input": "statistic/values",
    "linear": "statistic/linear",
    "counts": "statistic/counts",
    "pair-products": "statistic/pair products",
    "stages": "one run/PrivateCP staged",
    "errors": "statistic/counts",
    "output": "one run/PrivateCP output",
    "gradient": "one run/PrivateCP gradient",
    "entry": "statistic/bounded rows",
    "entry-products": "statistic/entry products",
    "crosstabs": "statistic/tallies",
    "counts-of-cells": "statistic/sums of cells",
    "selection": "selection/errors",
    "slice": "users/",
    "records": "users/records",
    "federated": "federated/",
    "parts-of-noise": "federated/parts of noise",
    "secure-aggregation": "federated/secure",
    "local-reports": "local/",
    "windows": "local/piecewise",
    "hybrid": "local/hybrid",
    "staircase": "local/staircase",
    "dtldp": "local/DTLDP",
    "privunit": "local/PrivUnit,",
    "privunitg": "local/PrivUnitG",
    "exact-gaussian": "local/exact Gaussian",
    "projection": "local/projected",
    "reports-for-learning": "learning/reports",
    "learning-in-rounds": "learning/",
    "shuffling": "local/400 shuffled",
    "noise": "noise/",
    "keyed-noise": "noise/values by cell",
}
NO_MECHANISMS = {"the-gate", "the-bound", "post-processing", "composition", "what-leaks-all-the-same"}


def proofs() -> Any:
    """The paragraphs that there are, and those that the code points at."""
    written = re.findall(r"^## (.+)$", (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {
        anchor
        for path in (ROOT / "src").rglob("*.py")
        for anchor in re.findall(r"guarantees\.md#([\w-]+)", path.read_text(encoding="utf-8"))
    }
    return {title.lower().replace(" ", "-") for title in written}, named


def test_every_proof_has_a_subject() -> None:
    written, named = proofs()
    assert named <= written
    assert written == set(PROVEN_BY) | NO_MECHANISMS
    for paragraph, beginning in PROVEN_BY.items():
        assert audited(beginning), paragraph


def test_subjects_are_found_by_name_beginning_and_pattern() -> None:
    assert [s.name for s in find_subjects("noise/laplace, fine grid", SUBJECTS)] == ["noise/laplace, fine grid"]
    assert {s.name for s in find_subjects("noise/laplace", SUBJECTS)} == {
        "noise/laplace, fine grid",
        "noise/laplace, coarse grid",
    }
    assert all(s.name.endswith("gaussian") for s in find_subjects("completion/*gaussian", SUBJECTS))
    with pytest.raises(InputError, match="no subject"):
        find_subjects("nothing", SUBJECTS)


def test_every_subject_has_a_place_in_the_tables() -> None:
    for families in (claims.FAMILIES, audit_table.FAMILIES):
        assert [subject.name for subject in SUBJECTS.values() if not subject.name.startswith(tuple(families))] == []
