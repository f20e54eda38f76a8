"""Figure 4 of Wei et al.: MovieLens 100K by user, film and day; published methods, and ours on the rating scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorveil.completion import CP, PrivateCP, PrivateTucker, Tucker
from tensorveil.tensor import ObservedTensor, load_dataset
from tensorveil_evidence.published import (
    GradientPerturbation,
    InputPerturbation,
    OutputPerturbation,
    PublishedDescent,
    biscale,
)
from tensorveil_evidence.studies import drawing, reference, wording
from tensorveil_evidence.studies.drawing import Style
from tensorveil_evidence.studies.reference import (
    CLAMPED,
    CONSTANT,
    DESCENT_LINE,
    FIT_LINE,
    GRADIENT,
    INPUT,
    KINDS,
    OUTPUT,
    rmse,
)
from tensorveil_evidence.studies.study import NOT_PRIVATE, Cell, Results, Row, Settings, Stated, Study, seeds_of
from tensorveil_evidence.studies.summary import Point, mean_at, pick, summarise
from tensorveil_evidence.studies.wei_statements import tell_statements

DATASET, SPLITS, SLICES, RANK = "ml-100k", ("ua", "ub"), 212, 3
EPSILONS = (0.1, 1.0, 3.0, 10.0)
RATINGS = (1.0, 5.0)
# In slices of a day whole rows are explained by means alone and scales run to zero; this keeps held-out cells finite.
LEAST_SCALE = 0.3
DESCENT: dict[str, dict[str, float]] = {
    "cp": {"learning_rate": 0.005, "regularization": 0.01},
    "tucker": {"learning_rate": 0.003, "regularization": 0.01, "core_regularization": 0.001},
}
PUBLISHED: dict[str, Callable[..., Any]] = {
    GRADIENT: lambda kind, **o: GradientPerturbation(kind, RANK, clip_constant=reference.CLIP, **o),
    OUTPUT: lambda kind, **o: OutputPerturbation(kind, RANK, lipschitz=reference.LIPSCHITZ, **o),
    INPUT: lambda kind, **o: InputPerturbation(kind, RANK, bounds="data", **o),
    CLAMPED: lambda kind, **o: InputPerturbation(kind, RANK, bounds="data", clamp=True, **o),
}
OURS_RANK = {"cp": 10, "tucker": 5}
FIT_RANK = {"cp": 12, "tucker": 6}
DAYS, FLAT = "ours, by day", "ours, without days"
BIASES, RESTORED = "biases alone", "published descent, restored"
LINES, RATING_LINES = (CONSTANT, DESCENT_LINE, FIT_LINE), (CONSTANT, BIASES, FIT_LINE)
STYLES = {
    GRADIENT: Style(colour=drawing.VERMILION, marker="o"),
    OUTPUT: Style(colour=drawing.ORANGE, marker="s"),
    INPUT: Style(colour=drawing.PURPLE, marker="D"),
    CLAMPED: Style(colour=drawing.SKY, marker="v"),
    DAYS: Style(colour=drawing.GREEN, marker="P", width=2.0),
    FLAT: Style(colour=drawing.BLUE, marker="*", width=2.0),
    CONSTANT: Style(colour=drawing.GREY, width=1.3, stroke=(0, (6, 2))),
    DESCENT_LINE: Style(colour=drawing.GREY, width=1.3),
    BIASES: Style(colour=drawing.BLACK, width=1.2, stroke=(0, (1, 1))),
    FIT_LINE: Style(colour=drawing.BLACK, width=1.3),
}


def name_panel(kind: str) -> str:
    """Name the panel in bi-scaled units."""
    return f"{kind}, bi-scaled"


def cells(runs: int, quick: bool) -> list[Cell]:
    """One cell per model, split and run; a quick run has one split."""
    return [
        Cell(settings={"model": kind, "split": split, "run": seed})
        for seed in seeds_of(runs)
        for kind in KINDS
        for split in (SPLITS[:1] if quick else SPLITS)
    ]


def compute(settings: Settings) -> Iterator[Row]:
    """Run everything on one split."""
    kind, split, seed = settings["model"], settings["split"], settings["run"]
    train, test = (load_dataset(DATASET, part=f"{split}.{part}", time=SLICES) for part in ("base", "test"))
    yield from _scaled_rows(kind, seed, train, test)
    yield from _rating_rows(kind, seed, split, train, test)


def _scaled_rows(kind: str, seed: int, train: ObservedTensor, test: ObservedTensor) -> Iterator[Row]:
    """Run the papers' procedure: scale all ratings, split, perturb, measure in scaled units."""
    scaling = biscale(load_dataset(DATASET, time=SLICES))
    known, hidden = scaling.transform(train), scaling.transform(test)

    def row(method: str, status: str, fit: Any, x: float | None = None) -> Row:
        value = None if fit is None else rmse(fit.predict(test), hidden.values)
        return Row(panel=name_panel(kind), method=method, status=status, run=seed, x=x, value=value)

    constant = rmse(known.values.mean(), hidden.values)
    yield Row(panel=name_panel(kind), method=CONSTANT, status=NOT_PRIVATE, run=seed, value=constant)
    yield row(DESCENT_LINE, NOT_PRIVATE, _descent(kind, seed).fit(known))
    yield row(FIT_LINE, NOT_PRIVATE, _estimator(kind)(RANK, random_state=seed, threads=1).fit(known))
    for name, make in PUBLISHED.items():
        for epsilon in EPSILONS:
            estimator = make(kind, epsilon=epsilon, random_state=seed, verbose=False, **DESCENT[kind])
            fit = reference.fit_unless_divergent(estimator, known)
            yield row(name, estimator.guarantee_.status, fit, epsilon)


def _rating_rows(kind: str, seed: int, split: str, train: ObservedTensor, test: ObservedTensor) -> Iterator[Row]:
    """Run ours on ratings, and lines for what ratings can be predicted by."""
    flat = tuple(load_dataset(DATASET, part=f"{split}.{part}") for part in ("base", "test"))

    def row(method: str, status: str, value: float, x: float | None = None, note: str = "") -> Row:
        return Row(panel=kind, method=method, status=status, run=seed, x=x, value=value, note=note)

    yield row(CONSTANT, NOT_PRIVATE, rmse(train.values.mean(), test.values))
    scaling = biscale(train, least_scale=LEAST_SCALE)
    restored = scaling.restore(test.coords, _descent(kind, seed).fit(scaling.tensor).predict(test))
    yield row(RESTORED, NOT_PRIVATE, rmse(restored, test.values))
    options: dict[str, Any] = {"baseline": "biases", "sweeps": 60, "random_state": seed, "threads": 1}
    yield row(FIT_LINE, NOT_PRIVATE, _estimator(kind)(FIT_RANK[kind], **options).fit(train).rmse(test))
    # Margins at a budget that leaves no noise to speak of are a bias model.
    yield row(BIASES, NOT_PRIVATE, _ours(kind, 1e6, seed, "margins").fit(flat[0]).rmse(flat[1]))
    for name, (known, hidden) in {DAYS: (train, test), FLAT: flat}.items():
        for epsilon in EPSILONS:
            fit = _ours(kind, epsilon, seed, "auto").fit(known)
            yield row(name, fit.guarantee_.status, fit.rmse(hidden), epsilon, fit.plan_.method)


def _estimator(kind: str) -> Any:
    return {"cp": CP, "tucker": Tucker}[kind]


def _descent(kind: str, seed: int) -> PublishedDescent:
    return reference.plain_descent(kind, RANK, seed, DESCENT[kind])


def _ours(kind: str, epsilon: float, seed: int, method: str) -> Any:
    estimator: Any = {"cp": PrivateCP, "tucker": PrivateTucker}[kind]
    return estimator(
        OURS_RANK[kind], epsilon=epsilon, delta=0.0, unit="value", bounds=RATINGS, method=method, threads=1,
        random_state=seed, noise_seed=1000 + seed,
    )  # fmt: skip


def caption(results: Results) -> Stated:
    """State what the reader must know."""
    number = len({row.run for row in results.rows})
    splits = "split ua" if results.quick else "each of two splits (ua, ub)"
    return wording.caption(
        results,
        shown=(
            "MovieLens 100K, held-out RMSE. Above: published methods on ratings bi-scaled day by day, held-out ratings "
            "included, as the paper seems to do, in scaled units; what is scaled so has no guarantee for ratings. "
            "Below: "
            "ours on the rating scale, with the published descent brought back to it from a scaling that knows "
            "training "
            "ratings alone. Bands: one standard deviation; triangles: the descent diverged in at least one run."
        ),
        unit="value (one rating; who rated what and when is public)",
        epsilon="horizontal axis; for published methods nominal",
        delta="0",
        runs=f"{number} on {splits}",
    )


def draw(results: Results) -> Any:
    """Draw published methods above, ours below; CP left, Tucker right."""
    points = summarise(results.rows)
    figure, body, axes = drawing.new_figure(
        9.6, 7.4, str(caption(results)), rows=2, columns=2, sharex=True, sharey="row"
    )
    for above, below, kind in zip(*axes, KINDS, strict=True):
        title = reference.TITLES[kind]
        drawing.draw_panel(above, pick(points, panel=name_panel(kind)), STYLES, lines=LINES, curves=tuple(PUBLISHED))
        drawing.draw_panel(below, pick(points, panel=kind), STYLES, lines=RATING_LINES, curves=(DAYS, FLAT))
        above.set_title(f"{title}: published, bi-scaled", fontsize=10)
        below.set_title(f"{title}: ours, rating scale", fontsize=10)
        for axis in (above, below):
            drawing.mark_ticks(axis, EPSILONS)
        above.set_yscale("log")
        above.set_yticks([1.0, 1.5, 2.0, 3.0], ["1", "1.5", "2", "3"])
        above.minorticks_off()
        below.set_ylim(0.9, 1.2)
        told = f"{RESTORED}: {mean_at(points, kind, RESTORED):.2f}, off the scale"
        below.annotate(told, (0.98, 0.95), xycoords="axes fraction", ha="right", va="top", fontsize=8)
        below.set_xlabel("epsilon", fontsize=9)
    for axis, unit in zip(axes[:, 0], ("scaled units", "stars"), strict=True):
        axis.set_ylabel(f"held-out RMSE, {unit}", fontsize=9)
    drawing.shared_legend(body, list(axes.flat), columns=3)
    return figure


def page(results: Results) -> str:
    """Write the page: the numbers, and what agrees with the paper."""
    points = summarise(results.rows)
    parts = [SETTINGS_TEXT, "## Numbers\n\nMean ± standard deviation over runs and splits.\n"]
    for kind in KINDS:
        title = reference.TITLES[kind]
        parts.append(f"### {title}, bi-scaled units\n\n" + wording.curves_table(pick(points, panel=name_panel(kind))))
        parts.append(f"### {title}, rating scale\n\n" + wording.curves_table(pick(points, panel=kind)))
    parts.append("## What agrees with the paper, and what does not\n\n" + _findings(points))
    parts.append(tell_statements(points, {kind: name_panel(kind) for kind in KINDS}, EPSILONS) + _comparable(points))
    return "\n".join(parts)


SETTINGS_TEXT = f"""## Settings

The paper's: 943 users x 1682 films x 212 slices of time, splits ua and ub, 100 passes; CP with lambda 0.01 and learning
rate 0.005; Tucker with 0.01, 0.001 for the core, and 0.003. It prints no rank, no m and no L: here rank {RANK}, and m
and L
of [figure 2](wei-figure-2.md). Published input perturbation takes its range from the data, as scaled ratings have no
other. Ours has declared bounds (1, 5), CP of rank {OURS_RANK["cp"]} and Tucker of rank {OURS_RANK["tucker"]}, chosen
by the
planner (`method="auto"`), on the same tensor and on user x film alone.

Bi-scaling standardises the rows and columns of every day. The paper does not say whether its constants know the
held-out
ratings. If they do not, a film that was not rated on that day has no constants, and predictions are off by stars: the
line
*published descent, restored* below. So they probably do, and that is what is drawn above. Scaling stops after 20 rounds
and has not converged then: scales of rows that means alone explain go on falling, for thousands of rounds
([bi-scaling](../published.md#bi-scaling) says what changes if it goes on).
"""


def _comparable(points: Sequence[Point]) -> str:
    """Give errors as multiples of the constant's; the page of both figures has those on synthetic tensors beside."""
    words = []
    for kind in KINDS:
        for name in PUBLISHED:
            found = wording.tell_multiples(points, name_panel(kind), name, CONSTANT, EPSILONS)
            words.append(f"{reference.TITLES[kind]}, {name} {found}")
    told = (
        f"in multiples of the constant's error, at epsilon {wording.join_numbers(EPSILONS)} (- where a run diverged): "
        f"{'; '.join(words)}. Beside those of the synthetic tensors: [both](wei-across.md)."
    )
    return f"{wording.answer('wei-comparable', told)}\n"


def _findings(points: Sequence[Point]) -> str:
    lines = []
    for kind in KINDS:

        def at(method: str, epsilon: float | None = None, panel: str = kind) -> float:
            return mean_at(points, panel, method, epsilon)

        units, title = name_panel(kind), reference.TITLES[kind]
        order, clamped = (
            [e for e in EPSILONS if at(GRADIENT, e, units) <= at(OUTPUT, e, units) <= at(last, e, units)]
            for last in (INPUT, CLAMPED)
        )
        below = [e for e in EPSILONS if min(at(name, e, units) for name in PUBLISHED) < at(CONSTANT, None, units)]
        lines += [
            f"- {title}, scaled units: the constant has {at(CONSTANT, None, units):.3f}, the published descent without "
            f"noise {at(DESCENT_LINE, None, units):.3f}, a well-solved fit {at(FIT_LINE, None, units):.3f}: once "
            f"users, "
            "films and days are scaled away with the help of the held-out ratings, next to nothing is left to predict. "
            f"A published method is below the constant {wording.at_epsilons(below)}.",
            f"- {title}: the paper's order (gradient, output, input) holds {wording.at_epsilons(order)}, and with "
            f"clamped input {wording.at_epsilons(clamped)}.",
            f"- {title}, rating scale: ours without days has {at(FLAT, 1.0):.3f} at epsilon 1 and "
            f"{at(FLAT, 10.0):.3f} at "
            f"10; with days {at(DAYS, 1.0):.3f} and {at(DAYS, 10.0):.3f}; the constant {at(CONSTANT):.3f}, biases "
            f"alone "
            f"{at(BIASES):.3f}, a well-solved fit {at(FIT_LINE):.3f}. The published descent, restored from a scaling "
            f"that "
            f"knows no held-out rating, has {at(RESTORED):.2f}.",
        ]
    return "\n".join(lines) + "\n"


STUDY = Study(
    name="wei-figure-4",
    title="MovieLens 100K by epsilon",
    source="Wei, Li, Mao and Wang, Applying Differential Privacy to Tensor Completion, figure 4 of the long version",
    runs=(1, 5),
    cells=cells,
    compute=compute,
    draw=draw,
    page=page,
    caption=caption,
    settings={
        "rank": RANK,
        "epsilons": EPSILONS,
        "slices": SLICES,
        "clip": reference.CLIP,
        "lipschitz": reference.LIPSCHITZ,
        "descent": DESCENT,
        "least scale": LEAST_SCALE,
        "ranks of ours": OURS_RANK,
        "ranks of the fits": FIT_RANK,
    },
    minutes=(3.7, 32),
    dataset=DATASET,
)
