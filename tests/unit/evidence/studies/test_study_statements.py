"""What a paper says of its figures is answered in its own words, and no score at the level of a guess is a win."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tensorveil_evidence.studies import wei_statements
from tensorveil_evidence.studies.learning import compared, findings, names, presentation, statements
from tensorveil_evidence.studies.learning.gradient_statements import tell_of_gradients
from tensorveil_evidence.studies.learning.scores import guess_of
from tensorveil_evidence.studies.learning.settings import tell_paper_sizes, tell_smaller
from tensorveil_evidence.studies.learning.template import Facts
from tensorveil_evidence.studies.reference import CONSTANT
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
    assert "keeping pace with TLDP" in told(points, "imdb")
    flows = told(points, "tor")
    assert "poorest performance" in flows
    assert "the study starts at 100" in flows
    assert "on the flows that stand for that data set" in flows
    assert "on the flows" not in told(points, "svhn")


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
def test_which_is_more_private_is_read_off_the_notes_for_both_units(gaussian: tuple[float, float], words: str) -> None:
    rows = [
        Row(
            panel=names.NOMINAL, method=method, status="refuted", run=100, x=x, metric=names.F1, value=0.5,
            note=f"tensor {5 + number}, local entry {entry:g}; record: no better than tensor",
        )
        for number, (method, entries) in enumerate(((names.LAPLACE, (1.0, 10.0)), (names.GAUSSIAN, gaussian)))
        for x, entry in zip(EPSILONS, entries, strict=True)
    ]  # fmt: skip
    results = Results(rows=rows, quick=False)
    told = statements._worth(results, EPSILONS)
    assert f"For one entry {words}" in told
    assert "the panel protects TLDP-G is the less private of the two throughout" in told
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


def test_a_score_within_two_standard_errors_of_a_guess_is_no_win() -> None:
    points = [
        Point(
            panel=names.SAME, method=method, status="proven", x=1.0, metric=names.F1, runs=4, diverged=0, mean=mean,
            deviation=0.2,
        )
        for method, mean in ((names.PRIVUNIT, 0.42), ("Laplace", 0.1))
    ]  # fmt: skip
    assert "nothing can be told apart" in findings._best([*points, point(names.GUESS, 0.3, panel="")], names.SAME)
    assert "at least as good" in findings._best([*points, point(names.GUESS, 0.1, panel="")], names.SAME)


def test_a_clear_loss_of_ours_is_told_even_near_a_guess() -> None:
    page = panel(0.1, 0.34)
    assert "Neither is clearly better" not in page
    assert "At 1 it is behind by 0.240, beyond two standard errors" in page


def test_the_most_frequent_class_is_a_guess_where_it_scores_more() -> None:
    points = [point(names.GUESS, 0.3, panel=""), point(names.MAJORITY, 0.6, panel="")]
    assert guess_of(points) == 0.6
    assert guess_of(points[:1]) == 0.3
    assert guess_of([]) == 0.0


def test_steps_down_are_fluctuations_beyond_two_standard_errors() -> None:
    steady, falling = scores(IDN=(0.2, 0.8)), scores(IDN=(0.8, 0.2))
    assert "two standard errors: none." in statements._fluctuations(steady, EPSILONS)
    told = statements._fluctuations(falling, EPSILONS)
    assert "two standard errors: IDN from 100 to 1000." in told
    assert "IDN 0.200 to 0.800" in told
    assert "clearly above a guess, 0.300, IDN has 0.800 at 100" in told


def test_levels_below_one_do_not_count_one_itself() -> None:
    points = [
        point(name, 0.9 if x == 1 else 0.2, x) for name in (*names.BASELINES, *names.AS_PRINTED) for x in (0.3, 1)
    ]
    told = "\n".join(statements._tell_of_data(points, (0.3, 1.0), "svhn", ""))
    assert "below 1, at best, TLDP-L 0.200" in told
    assert "at 1 TLDP-L 0.900" in told


def test_where_a_method_of_ours_was_not_run_the_page_says_why() -> None:
    points = [point(names.MOMENTS, 0.5, x, names.RECORD) for x in (1.0, 2.0)]
    assert presentation._left_out(points, names.RECORD) == ""
    points.append(point(names.DESCENT, 0.5, 1.0, names.RECORD))
    assert "it was run at epsilon 1, to show what it comes to" in presentation._left_out(points, names.RECORD)
    points.append(point(names.DESCENT, 0.5, 2.0, names.RECORD))
    assert presentation._left_out(points, names.RECORD) == ""


def wei_points(errors: dict[float, float], deviations: dict[str, tuple[float, float]] | None = None) -> list[Point]:
    """All curves of Wei et al. with the same errors, and a constant of 1; deviations by method."""
    found = [
        Point(
            panel="cp", method=name, status="claimed", x=x, metric="RMSE", runs=5, diverged=0, mean=error,
            deviation=None if deviations is None else deviations.get(name, (0.1, 0.1))[k],
        )
        for name in wei_statements.CURVES
        for k, (x, error) in enumerate(errors.items())
    ]  # fmt: skip
    return found


def test_an_error_that_grows_with_epsilon_is_named_though_it_grows_in_small_steps() -> None:
    slowly = {1.0: 0.100, 3.0: 0.1015, 10.0: 0.103}
    told = wei_statements._growing(wei_points(slowly), {"cp": "cp"}, tuple(slowly))
    assert "so it is here but for CP, gradient (0.103 at 10 after 0.100 at 1, 3.0% more)" in told
    falling = {1.0: 0.2, 3.0: 0.1, 10.0: 0.101}
    assert "so it is here (" in wei_statements._growing(wei_points(falling), {"cp": "cp"}, tuple(falling))


def test_falls_of_deviations_are_compared_where_neither_method_diverged() -> None:
    spreads: dict[str, list[float | None]] = {
        "input": [None, 0.4, 0.1],
        "output": [9.0, 0.2, 0.1],
        "input, clamped": [0.4, 0.3, 0.2],
    }
    told = wei_statements._compare_falls(spreads, (0.1, 1.0, 10.0))
    assert told.startswith("that of OP is 9.000 at 0.1, 0.200 at 1, 0.100 at 10; ")
    assert (
        "from 1 to 10 that of input comes to 0.25 of itself and that of OP to 0.50: IP drops and OP drops less "
        "sharply, against the paper" in told
    )
    assert "that of input, clamped comes to 0.50 of itself and that of OP to 0.01: IP drops and OP drops more" in told
    lone: dict[str, list[float | None]] = {
        "input": [None, None, 0.1], "output": [9.0, 0.2, 0.1], "input, clamped": [0.1, 0.2, 0.3]
    }  # fmt: skip
    found = wei_statements._compare_falls(lone, (0.1, 1.0, 10.0))
    assert "input has deviations at 1 epsilon only" in found
    assert "IP does not drop and OP drops more sharply, against the paper" in found


def test_the_least_deviation_is_counted_beside_clamped_input_too() -> None:
    points = wei_points({1.0: 0.1, 10.0: 0.1}, {"gradient": (0.05, 0.05), "input, clamped": (0.01, 0.2)})
    of = wei_statements.find_steadiest
    assert of(points, "cp", (1.0, 10.0), ("output", "input")) == [1.0, 10.0]
    assert of(points, "cp", (1.0, 10.0), wei_statements.CURVES[1:]) == [10.0]


def test_models_are_called_apart_where_they_are_and_one_that_diverges_alone_is_named() -> None:
    cp = wei_points({1.0: 0.1, 10.0: 0.1})
    tucker = [replace(p, panel="tucker", mean=None if p.method == "input" and p.x == 1.0 else 0.2) for p in cp]
    lines = [point(CONSTANT, 0.1, panel=panel) for panel in ("cp", "tucker")]
    lines = [replace(each, metric="RMSE") for each in lines]
    told = wei_statements._models([*cp, *tucker, *lines], {"cp": "cp", "tucker": "tucker"}, (1.0, 10.0))
    assert "gradient 2.00 2.00" in told
    assert "More than 15% apart are gradient at epsilon 1, 10; output at epsilon 1, 10; input at epsilon 10;" in told
    assert "Of one model alone runs diverged: Tucker, input at 1." in told


def test_an_order_is_one_of_privacy_only_where_no_pair_is_against_it() -> None:
    def true(method: str, mean: float, x: float) -> Point:
        return point(method, mean, x, names.TRUE)

    guess = point(names.GUESS, 0.1, panel="")
    steady = [guess, true("Laplace", 0.1, 1.0), true("IDN", 0.6, 50.0)]
    assert "1 of 1 pairs" in findings.tell_order_of_privacy(steady)
    assert "one of privacy, not of methods." in findings.tell_order_of_privacy(steady)
    told = findings.tell_order_of_privacy([*steady, true("MVG", 0.1, 70.0)])
    assert "1 of 2 pairs" in told
    assert "MVG has 0.100 at a true 70, IDN 0.600 at 50. So the order is not one of privacy alone." in told
    assert "No two" in findings.tell_order_of_privacy([guess])


def test_what_a_rival_has_beyond_the_network_without_noise_is_its_training() -> None:
    page = told(scores(LLAGP=(0.7, 0.9), TLDP_L=(0.1, 0.8)), "mnist")
    assert "At epsilon 1000 it is above 0.800, what the network of the others scores without any noise" in page
    assert "What LLAGP has beyond that is due to this training, and" in page


def test_a_rise_above_a_guess_that_the_rule_leaves_out_is_named() -> None:
    points = scores(Gaussian=(0.1, 0.34))
    told = compared.tell_low(points, EPSILONS)
    assert "none is clearly above a guess" in told
    assert "by no more than 0.05: Gaussian at 1000, 0.340, after 0.100 at 100." in told
    assert "two standard errors" not in compared.tell_low(scores(), EPSILONS)


@pytest.mark.parametrize(
    ("kind", "data", "sizes", "words"),
    [
        (
            "II",
            "svhn-11k",
            {"train": 3000, "test": 1000, "epochs": 10},
            "73,257 records for training, 26,032 for tests.",
        ),
        ("III", "svhn-11k", {"train": 3000, "test": 1000, "epochs": 5}, "26,032 for tests, 10 passes."),
        ("I", "digits", {"train": 3, "test": 3, "epochs": 5}, ""),
    ],
)
def test_the_paper_is_said_to_have_more_of_what_it_has_more_of(
    kind: str, data: str, sizes: dict[str, int], words: str
) -> None:
    facts = Facts(name="one", title="", figure=1, kind=kind, data=data, epsilons=(), budgets=(), minutes=(1, 1))
    told = tell_paper_sizes(facts, sizes)
    assert words in told
    assert bool(words) is bool(told)
    assert ("fewer rounds" in told) is (kind == "III")
    assert ("fewer records and passes" in tell_smaller(facts, sizes)) is (kind == "III")
    assert bool(words) is bool(tell_smaller(facts, sizes))


def test_one_run_has_no_standard_error() -> None:
    assert "behind by 0.200, beyond two standard errors" in panel(0.4, 0.6)
    assert "behind by 0.200, in one run." in panel(0.4, 0.6, runs=1)
