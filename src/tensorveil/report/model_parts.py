"""Parts that pages about a model share: factors mode by mode, a slice of the predictions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tensorveil.markup import Markup, shorten, tag
from tensorveil.models import CPModel, TuckerModel
from tensorveil.privacy import Guarantee
from tensorveil.privacy.exact import show_at_least
from tensorveil.report.factors import SHORT, Loadings, index_labels, loading_plots, loading_table, mode_loadings
from tensorveil.report.facts import OPEN, Caption, Standing
from tensorveil.report.heat import Slice, choose_slice, gather_observed, heat_plots
from tensorveil.report.page import Section, figure
from tensorveil.rounds import SharedModel
from tensorveil.tensor import ObservedTensor

__all__ = [
    "Captioner",
    "about",
    "factor_section",
    "kind_of",
    "mean_prediction",
    "open_captions",
    "release_captions",
    "sizes",
    "slice_section",
]

Model = CPModel | TuckerModel
AnyModel = Model | SharedModel
# Gives a text the caption of the page that it stands on.
Captioner = Callable[[str], Caption]
_MOST_CELLS = 20_000
SEEDED = "The noise was drawn from a seed: not private."


def release_captions(guarantee: Guarantee, *, also: str = "") -> Captioner:
    """Return captions of figures that show one private release, with ``also`` in small print."""

    def caption(text: str) -> Caption:
        return Caption(
            text=text,
            unit=str(guarantee.unit),
            epsilon=show_at_least(guarantee.epsilon),
            delta=guarantee.delta,
            runs=1,
            methods=(Standing(name=guarantee.mechanism, status=guarantee.status),),
            small_print=" ".join(filter(None, (also, "" if guarantee.secure_noise else SEEDED))),
        )

    return caption


def open_captions(name: str) -> Captioner:
    """Return captions of figures that show a model without any protection."""

    def caption(text: str) -> Caption:
        methods = (Standing(name=name, status=OPEN),)
        return Caption(text=text, unit="none", epsilon="infinite", delta="none", runs=1, methods=methods)

    return caption


def kind_of(model: AnyModel) -> str:
    """Name a model: "CP, rank 8"."""
    rank = model.rank
    kind = f"Tucker, rank {' × '.join(map(str, rank))}" if isinstance(rank, tuple) else f"CP, rank {rank}"
    return f"{kind}, what users share" if isinstance(model, SharedModel) else kind


def about(model: AnyModel) -> str:
    """Name the modes: "user × film"."""
    return " × ".join(mode.name for mode in model.modes)


def sizes(model: AnyModel) -> str:
    """Return the sizes of the modes: "943 × 1,682"."""
    return " × ".join(f"{size:,}" for size in model.shape)


def mean_prediction(model: Model) -> tuple[float, str]:
    """Return the mean of the predictions, and over which cells: all, or as many at equal distances as can be drawn."""
    cells = math.prod(model.shape)
    places = np.linspace(0, cells - 1, min(cells, _MOST_CELLS)).astype(np.int64)
    coords = np.stack(np.unravel_index(places, model.shape), axis=1)
    told = "all cells" if cells <= _MOST_CELLS else f"{_MOST_CELLS:,} cells at equal distances"
    return float(np.mean(model.predict(coords), dtype=np.float64)), told


def factor_section(model: AnyModel, caption: Captioner) -> Section:
    """Show what the model holds about every mode; of a protected mode it holds nothing."""
    drawn, hidden = (model.example(), model.protect) if isinstance(model, SharedModel) else (model, None)
    loadings = {place: mode_loadings(drawn, place) for place in range(len(model.shape)) if place != hidden}
    blocks = [_factor_figure(f"factors-{place + 1}", found, caption) for place, found in loadings.items()]
    if not any(found.names for found in loadings.values()):
        blocks = [tag("p", "This model is a constant: it tells nothing about any index, and there is nothing to draw.")]
    if hidden is not None:
        name = model.modes[hidden].name
        blocks.append(tag("p", f"Mode {name} is protected: the release holds no number about any of its indices."))
    return Section(
        name="factors",
        title="The factors, mode by mode",
        lead="A prediction is a constant plus, for every component, the product of one number per mode. "
        "Indices with similar numbers behave alike. Turning the signs in two modes at once changes nothing.",
        blocks=tuple(blocks),
    )


def _factor_figure(name: str, loadings: Loadings, caption: Captioner) -> Markup:
    size, mode = len(loadings.columns), loadings.mode
    if not loadings.names:
        return tag("p", f"Mode {mode.name}: the model holds no numbers about it.")
    text = "Each column is scaled to a largest size of 1; strongest component first."
    if size > SHORT and mode.labels is not None and mode.labels.dtype.kind == "T":
        text += f" The {size:,} indices are sorted by each column; named are the highest and the lowest."
    elif size > SHORT:
        text += f" The {size:,} indices stand in their own order."
    if loadings.left_out:
        text += f" {loadings.left_out} weaker components are not drawn."
    title = f"Mode {mode.name}"
    return figure(name, title, loading_plots(loadings), caption(text), numbers=loading_table(loadings))


def slice_section(model: AnyModel, caption: Captioner, observed: ObservedTensor | None = None) -> Section | None:
    """Show a slice of the predictions; with the observed values, which are private, also before.

    None where there is nothing to see: the predictions of a constant, or a model that predicts for nobody.
    """
    if isinstance(model, SharedModel):
        return None
    part = choose_slice(model)
    if observed is None and np.ptp(part.predicted) == 0:
        return None
    after = ("after: every cell predicted", part.predicted)
    panels = [after] if observed is None else [("before: as observed", gather_observed(part, observed)), after]
    down, across = model.modes[part.down], model.modes[part.across]
    where = ", ".join(
        f"{model.modes[m].name} {index_labels(model.modes[m], 0, np.array([k]))[0]}" for m, k in part.fixed.items()
    )
    title = f"{down.name} × {across.name}" + (f" at {where}" if where else "")
    names = index_labels(down, len(part.rows), part.rows)
    summary = f"Heat map of {title}: {len(panels)} panel{'s' if len(panels) > 1 else ''} of {len(part.rows)} rows."
    plots = heat_plots(part, panels, names, _across(part, across.name), summary)
    text = "Blue is below the model's constant, orange above it. The slice was chosen by the model alone."
    if part.sorted_columns:
        text += " Columns are sorted by their mean prediction."
    size = part.shown_of[0]
    if len(part.rows) < size:
        text += f" Of the {size:,} indices of mode {down.name}, {len(part.rows):,} at equal distances are drawn."
    return Section(
        name="slice",
        title="A slice, before and after" if observed is not None else "A slice of the predictions",
        lead="",
        blocks=(figure("heat", title, plots, caption(text)),),
    )


def _across(part: Slice, name: str) -> str:
    size = part.shown_of[1]
    shown = f"all {size:,}" if len(part.columns) == size else f"{len(part.columns):,} of {size:,}"
    return f"{shorten(name, 24)}: {shown}"
