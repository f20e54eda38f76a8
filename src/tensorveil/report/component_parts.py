"""The components of a model of counts as a reader wants them: one after the other, what is in each, in tables."""

from __future__ import annotations

from itertools import zip_longest

from tensorveil.markup import Markup, shorten
from tensorveil.models.components import Component, has_components, list_components
from tensorveil.report.facts import TableOf
from tensorveil.report.model_parts import AnyModel, Captioner
from tensorveil.report.page import Section, table_figure

__all__ = ["component_section"]

# Components and indices that are shown, and the longest label, in letters.
_SHOWN, _INDICES, _LABEL = 24, 8, 72


def component_section(model: AnyModel, caption: Captioner) -> Section | None:
    """Show what is in each component; None for models that are more than a sum of components."""
    if not has_components(model):
        return None
    found = list_components(model, most=_INDICES)
    if not found:
        return None
    more = f" The {len(found) - _SHOWN} weakest are not shown." if len(found) > _SHOWN else ""
    return Section(
        name="components",
        title="The components, one by one",
        lead="A component is a group of indices that occur together. Its share is its part of all that the model "
        f"expects; the share of an index is its part of the component.{more}",
        blocks=tuple(_show(number, each, caption) for number, each in enumerate(found[:_SHOWN], 1)),
    )


def _show(number: int, component: Component, caption: Captioner) -> Markup:
    columns = [name for mode in component.indices for name in (mode, f"share of {mode}")]
    rows = [
        [
            cell
            for entry in entries
            for cell in (("", "") if entry is None else (shorten(str(entry[0]), _LABEL), f"{entry[1]:.1%}"))
        ]
        for entries in zip_longest(*component.indices.values())
    ]
    table = TableOf(
        title=f"Component {number}: {component.share:.1%}",
        columns=tuple(columns),
        rows=tuple(map(tuple, rows)),
        caption=caption("The strongest indices of every mode, and their shares of the component."),
    )
    return table_figure(f"component-{number}", table)
