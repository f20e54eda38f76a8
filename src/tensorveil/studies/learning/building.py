"""Studies of learning, made of their facts: cells, what to compute for one, figure and page. Torch is imported late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tensorveil.studies.learning import presenting
from tensorveil.studies.learning.names import (
    AS_PRINTED,
    BASELINES,
    DESCENT,
    FAMILIES,
    GAUSSIAN,
    GRADIENTS,
    HYBRID,
    LAPLACE,
    MEANS,
    MOMENTS,
    NOMINAL,
    PRIVUNIT,
    PUBLIC_ALONE,
    RECORD,
    WEIGHTED,
)
from tensorveil.studies.study import NOT_PRIVATE, Cell, Results, Row, Settings, Study, seeds_of

PAPER = "Yuan, Tang, Huang, Wu and Wang, Local Differential Privacy for Tensors in Distributed Computing Systems"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One panel of a figure.

    Parameters
    ----------
    kind: "I", "II" or "III".
    data: the data set.
    epsilons: nominal ones.
    budgets: true ones, for tensors (I, II) or users (III); ``record_budgets`` for records (III).
    minutes: on one core, quick and in full.
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
        """What cells compute, one each; texts take long to read, so that their cells are larger."""
        if self.data == "imdb":
            return ("lines and ours", "+".join(BASELINES), "+".join(AS_PRINTED), f"{LAPLACE}+{GAUSSIAN}",
                    "+".join(GRADIENTS), "same")  # fmt: skip
        return ("lines and ours", *self.methods, "same")


def cells(facts: Facts, runs: int) -> list[Cell]:
    """One cell per run and piece."""
    return [Cell(settings={"run": run, "piece": piece}) for run in seeds_of(runs) for piece in facts.pieces]


def compute(facts: Facts, settings: Settings) -> Iterator[Row]:
    """Compute a cell."""
    run, piece = settings["run"], settings["piece"]
    work = _rounds if facts.kind == "III" else _reports
    yield from work(facts, run, piece)


def _reports(facts: Facts, run: int, piece: str) -> Iterator[Row]:
    from tensorveil.studies.learning import cases

    if facts.kind == "I":
        case = cases.image_case(facts.data, run)
    else:
        case, alone = cases.feature_case(facts.data, run)
    if piece == "lines and ours":
        yield from case.lines()
        if facts.kind == "II":
            yield case.row("", PUBLIC_ALONE, NOT_PRIVATE, None, alone)
        for method in (PRIVUNIT, HYBRID):
            yield from case.ours(method, facts.budgets)
    elif piece == "same":
        for family in FAMILIES:
            yield from case.at_true(family, facts.budgets)
    else:
        yield from case.published(piece, facts.epsilons)


def _rounds(facts: Facts, run: int, piece: str) -> Iterator[Row]:
    from tensorveil.studies.learning import cases

    make = cases.text_rounds if facts.data == "imdb" else cases.image_rounds
    case = make(facts.data, run)
    if piece == "lines and ours":
        yield from case.lines()
        yield from case.ours(MEANS, facts.budgets)
        yield from case.ours(MOMENTS, facts.record_budgets)
        yield from case.ours(DESCENT, facts.record_budgets[1::3])  # one record's gradient at a time takes long
    elif piece == "same":
        for family in FAMILIES:
            yield from case.at_true(family, facts.budgets)
    else:
        for method in piece.split("+"):
            if method in GRADIENTS:
                yield from case.gradients(method, facts.epsilons, NOMINAL)
                yield from case.gradients(method, facts.record_budgets, RECORD)
            else:
                yield from case.published(method, facts.epsilons)


def learning_study(facts: Facts, sizes: dict[str, Any]) -> Study:
    """Make the study of these facts."""

    def draw(results: Results) -> Any:
        return presenting.draw(results, facts)

    return Study(
        name=facts.name,
        title=facts.title,
        source=f"{PAPER}, figure {facts.figure}",
        runs=(1, 3),
        cells=lambda runs, quick: cells(facts, runs),
        compute=lambda settings: compute(facts, settings),
        draw=draw,
        page=lambda results: presenting.page(results, facts, sizes),
        caption=lambda results: presenting.caption(results, facts),
        settings={**asdict(facts), "minutes": None, "sizes": sizes},
        minutes=facts.minutes,
        dataset=facts.data if facts.data != "digits" else None,
    )
