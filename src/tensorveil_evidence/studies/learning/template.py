"""Studies of learning, made of their facts: cells, what to compute for one, figure and page. Torch is imported late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tensorveil_evidence.studies.learning import presentation
from tensorveil_evidence.studies.learning.names import (
    AS_PRINTED,
    BASELINES,
    CONTRASTS,
    DESCENT,
    FAMILIES,
    FAMILIES_OF_ROUNDS,
    GAUSSIAN,
    GRADIENTS,
    HYBRID,
    LAPLACE,
    MOMENTS,
    NOMINAL,
    PRIVUNIT,
    PUBLIC_ALONE,
    RECORD,
    RELEASED,
    WEIGHTED,
)
from tensorveil_evidence.studies.learning.sizes import PAPER_SIZES
from tensorveil_evidence.studies.study import NOT_PRIVATE, PAPER_SIZE, Cell, Results, Row, Settings, Study, seeds_of

COLOUR = ("cifar10-12k", "svhn-11k", "cifar10", "svhn")  # data sets whose features are those of MobileNet
PAPER_HOURS = {"I": 40, "II": 6, "III": 100}  # of one core, roughly; texts take months
ONE_TRAINING = ("imdb", "tor-vpn")  # data sets where noise falls on the last average only
OWN, EQUAL, WHOLE = "lines and ours", "same", "all"  # cells that compute more than one published method
PAPER = "Yuan, Tang, Huang, Wu and Wang, Local Differential Privacy for Tensors in Distributed Computing Systems"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One panel of a figure.

    Parameters
    ----------
    kind
        "I", "II" or "III".
    data
        The data set.
    epsilons
        Nominal ones.
    budgets
        True ones, for tensors (I, II) or users (III); ``record_budgets`` for records (III).
    minutes
        On one core, quick and in full.
    """

    name: str
    title: str
    figure: int
    kind: str
    data: str
    epsilons: tuple[float, ...]
    budgets: tuple[float, ...]
    record_budgets: tuple[float, ...] = ()
    minutes: tuple[float, float]

    @property
    def methods(self) -> tuple[str, ...]:
        """Published methods with a nominal epsilon."""
        weighted = WEIGHTED if self.kind == "I" and self.data in ("mnist", "digits") else ()
        gradients = GRADIENTS if self.kind == "III" else ()
        return (*BASELINES, *AS_PRINTED, *weighted, LAPLACE, GAUSSIAN, *gradients)

    @property
    def pieces(self) -> tuple[str, ...]:
        """What cells compute, one each; all of it for texts and flows, whose methods share one long training."""
        pieces = (OWN, *self.methods, EQUAL)
        return ("+".join(pieces),) if self.data in ONE_TRAINING else pieces


def cells(facts: Facts, runs: int, sizes: Mapping[str, Any]) -> list[Cell]:
    """One cell per run and piece; a quick run, whose sizes are given, has one per run, as reading takes longest."""
    if sizes:
        return [Cell(settings={"run": run, "piece": WHOLE, **sizes}) for run in seeds_of(runs)]
    return [Cell(settings={"run": run, "piece": piece}) for run in seeds_of(runs) for piece in facts.pieces]


def compute(facts: Facts, settings: Settings, sizes: Mapping[str, Any]) -> Iterator[Row]:
    """Compute a cell; what its settings say of sizes goes before the sizes of the full study."""
    run, piece = settings["run"], settings["piece"]
    sizes = {**sizes, **{name: settings[name] for name in settings if name not in ("run", "piece")}}
    work = _rounds if facts.kind == "III" else _reports
    if piece == WHOLE:  # every second epsilon
        facts = replace(
            facts, epsilons=facts.epsilons[::2], budgets=facts.budgets[1::2], record_budgets=facts.record_budgets[1::2]
        )
        yield from work(facts, run, "+".join(facts.pieces).split("+"), dict(sizes))
    else:
        yield from work(facts, run, piece.split("+"), dict(sizes))


def _reports(facts: Facts, run: int, pieces: Sequence[str], sizes: dict[str, Any]) -> Iterator[Row]:
    from tensorveil_evidence.studies.learning import cases

    if facts.kind == "I":
        case, alone = cases.image_case(facts.data, run, sizes), None
    else:
        case, alone = cases.feature_case(facts.data, run, sizes)
    for piece in pieces:
        if piece == OWN:
            yield from case.lines()
            if alone is not None:
                yield case.row("", PUBLIC_ALONE, NOT_PRIVATE, None, alone)
            for method in (PRIVUNIT, HYBRID):
                yield from case.run_ours(method, facts.budgets)
        elif piece == EQUAL:
            for family in FAMILIES:
                yield from case.at_true(family, facts.budgets)
        else:
            yield from case.run_published(piece, facts.epsilons)


def _rounds(facts: Facts, run: int, pieces: Sequence[str], sizes: dict[str, Any]) -> Iterator[Row]:
    from tensorveil_evidence.studies.learning import cases

    flows = dict.fromkeys(("tor-vpn", "darknet"), cases.flow_rounds)
    kinds = {"imdb": cases.text_rounds, **flows, **dict.fromkeys(COLOUR, cases.colour_rounds)}
    make = kinds.get(facts.data, cases.image_rounds)
    case = make(facts.data, run, sizes)
    for piece in pieces:
        if piece == OWN:
            yield from case.lines()
            yield from case.run_ours(CONTRASTS, facts.budgets)
            yield from case.run_ours(MOMENTS, facts.record_budgets)
            # One record's gradient at a time takes long; one or two places show what it comes to.
            places = slice(1, 2) if "small_hidden" in sizes else slice(1, None, 3)
            yield from case.run_ours(DESCENT, facts.record_budgets[places])
        elif piece == EQUAL:
            for family in FAMILIES_OF_ROUNDS:
                yield from case.at_true(family, facts.budgets)
        else:
            yield from _published_rounds(case, piece, facts)


def _published_rounds(case: Any, piece: str, facts: Facts) -> Iterator[Row]:
    if piece in GRADIENTS:
        yield from case.gradients(piece, facts.epsilons, NOMINAL)
        yield from case.gradients(RELEASED if piece == "DPHSGD" else piece, facts.record_budgets, RECORD)
    else:
        yield from case.run_published(piece, facts.epsilons)


def _needed_besides(facts: Facts) -> tuple[str, ...]:
    """Return the folders with what is needed besides the records: trained weights, or vectors of words."""
    if facts.data in COLOUR and facts.kind != "I":
        return ("mobilenet-v2",)
    return ("glove-100d-25k",) if facts.data == "imdb" else ()


def _explain_missing(facts: Facts) -> str | None:
    """Say what is missing besides the records; None if nothing is."""
    from tensorveil_evidence.studies.learning import mobilenet

    if facts.data in COLOUR and facts.kind != "I":
        return mobilenet.explain_missing()
    if facts.data == "imdb":
        from tensorveil_evidence.studies.learning import glove

        return glove.explain_missing()
    return None


def _at_paper_size(
    facts: Facts, sizes: dict[str, Any], quick: Mapping[str, Any], data: str, larger: dict[str, Any]
) -> Study:
    """Make the study with the paper's records, passes and, where it can be had, network."""
    name, title = facts.name + PAPER_SIZE, f"{facts.title}, the paper's size"
    hours = PAPER_HOURS[facts.kind]
    named = replace(facts, name=name, title=title, data=data, minutes=(facts.minutes[0], 60.0 * hours))
    return learning_study(named, {**sizes, **larger}, quick)


def learning_study(facts: Facts, sizes: dict[str, Any], quick: Mapping[str, Any]) -> Study:
    """Make the study of these facts; a quick run has sizes of its own in place of some, and so has the paper's size."""
    larger = PAPER_SIZES.get((facts.kind, facts.data))

    def used(results: Results) -> dict[str, Any]:
        return {**sizes, **quick} if results.quick else sizes

    def draw(results: Results) -> Any:
        return presentation.draw(results, facts)

    return Study(
        name=facts.name,
        title=facts.title,
        source=f"{PAPER}, figure {facts.figure}",
        runs=(1, 3),
        cells=lambda runs, brief: cells(facts, runs, quick if brief else {}),
        compute=lambda settings: compute(facts, settings, sizes),
        draw=draw,
        page=lambda results: presentation.page(results, facts, used(results)),
        caption=lambda results: presentation.caption(results, facts),
        settings={**asdict(facts), "minutes": None, "sizes": sizes},
        minutes=facts.minutes,
        dataset=facts.data if facts.data != "digits" else None,
        also=_needed_besides(facts),
        lacks=lambda: _explain_missing(facts),
        paper_size=None if larger is None else lambda: _at_paper_size(facts, sizes, quick, *larger),
    )
