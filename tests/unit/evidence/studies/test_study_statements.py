"""What a paper says of its figures is answered in its own words, and no score at the level of a guess is a win."""

from __future__ import annotations

from typing import Any

import pytest

from tensorveil_evidence.studies.learning import findings, names, statements
from tensorveil_evidence.studies.learning.gradient_statements import tell_of_gradients
from tensorveil_evidence.studies.study import Results, Row
from tensorveil_evidence.studies.summary import Point

EPSILONS = (100.0, 1000.0)


def point(method: str, mean: float, x: float | None = None, panel: str = names.NOMINAL, runs: int = 3) -> Point:
    return Point(
        panel=panel, method=method, status="claimed", x=x, metric=names.F1, runs=runs, diverged=0, mean=mean,
        deviation=0.01 if runs > 1 else None,
    )  # fmt: skip


def scores(**first_and_last: tuple[float, float]) -> list[Point]:
    """Points of all methods at two epsilons, 0.1 where nothing is given; a guess of 0.3, and 0.8 without noise."""
    given = {name.replace("_", "-"): pair for name, pair in first_and_last.items()}
    all_names = (*names.BASELINES, *names.AS_PRINTED, *names.GRADIENTS)
    found = [
        point(name, value, x)
        for name in all_names
        for x, value in zip(EPSILONS, given.get(name, (0.1, 0.1)), strict=True)
    ]
    return [*found, point(names.GUESS, 0.3, panel=""), point(names.CLEAN, 0.8, panel="")]


def told(points: list[Point], data: str) -> str:
    return "\n".join(tell_of_gradients(points, EPSILONS, data, passes=5))


def test_llagp_is_held_against_its_rivals_and_against_tldp_apart() -> None:
    page = told(scores(LLAGP=(0.6, 0.6), TLDP_L=(0.1, 0.8)), "mnist")
    assert "above Laplace, Gaussian, MVG, IDN and DPHSGD at epsilon 100, 1000" in page
    assert "against the paper that far above the better TLDP at epsilon 100 (" in page


def test_what_is_said_of_one_data_set_is_answered_there_alone() -> None:
    points = scores(LLAGP=(0.6, 0.6))
    assert "performs worst on the CIFAR-10 dataset" in told(points, "cifar10")
    assert "across most scenarios except" not in told(points, "cifar10")
    assert "performs best on the SVHN dataset" in told(points, "svhn")
    assert "keeps pace with TLDP" in told(points, "imdb")
    flows = told(points, "tor")
    assert "poorest performance" in flows
    assert "the study starts at 100" in flows
    assert "only delivers good performance on the Darknet" not in flows


def test_what_training_lacks_is_not_put_down_to_privacy() -> None:
    page = told(scores(LLAGP=(0.5, 0.5), DPHSGD=(0.8, 0.8)), "mnist")
    assert "5 passes" in page
    assert "What LLAGP lacks is due to this training, not to privacy" in page


@pytest.mark.parametrize(
    ("last", "words"), [(0.78, "they have converged"), (0.5, "they have not converged")], ids=["near", "far"]
)
def test_both_halves_of_the_caption_are_answered(last: float, words: str) -> None:
    points = scores(TLDP_L=(0.7, 0.8), TLDP_G=(0.4, last))
    page = statements._converging(points, EPSILONS)
    assert "TLDP-L is more than 0.05 above TLDP-G at epsilon 100" in page
    assert words in page


@pytest.mark.parametrize(
    ("gaussian", "words"),
    [
        ((9.0, 90.0), "TLDP-G is the less private of the two throughout"),
        ((0.1, 0.2), "TLDP-G is the more private of the two throughout"),
        ((9.0, 0.2), "TLDP-G is the less private of the two at epsilon 100, and the more elsewhere"),
    ],
)
def test_which_is_more_private_is_read_off_the_notes(gaussian: tuple[float, float], words: str) -> None:
    rows = [
        Row(
            panel=names.NOMINAL, method=method, status="refuted", run=100, x=x, metric=names.F1, value=0.5,
            note=f"tensor 5, local entry {entry:g}; record: no better than tensor",
        )
        for method, entries in ((names.LAPLACE, (1.0, 10.0)), (names.GAUSSIAN, gaussian))
        for x, entry in zip(EPSILONS, entries, strict=True)
    ]  # fmt: skip
    results = Results(rows=rows, quick=False)
    assert words in statements._worth(results, EPSILONS)
    assert statements._worth(Results(rows=[], quick=False), EPSILONS) == ""


def panel(ours: float, theirs: float, runs: int = 3, guess: float = 0.3) -> str:
    points: list[Any] = [
        point(names.PRIVUNIT, ours, 1.0, names.SAME, runs),
        point("Laplace", theirs, 1.0, names.SAME, runs),
        point(names.GUESS, guess, panel=""),
    ]
    return findings._best(points, names.SAME)


def test_a_score_at_the_level_of_a_guess_is_no_win() -> None:
    assert "nothing can be told apart" in panel(0.34, 0.2)
    assert "Neither is clearly better than a guess, 0.300, at epsilon 1." in panel(0.34, 0.2)
    assert "at least as good as every published one at epsilon 1 " in panel(0.5, 0.2)


def test_one_run_has_no_standard_error() -> None:
    assert "behind by 0.200, beyond two standard errors" in panel(0.4, 0.6)
    assert "behind by 0.200, in one run." in panel(0.4, 0.6, runs=1)
