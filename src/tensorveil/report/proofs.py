"""The proofs that guarantees cite, in a sentence or two each: for readers who have only the release."""

from __future__ import annotations

from typing import Final

from tensorveil.markup import Markup, join, tag

__all__ = ["IN_SHORT", "proof_items"]

# By section of docs/guarantees.md, which has the whole proof.
IN_SHORT: Final = {
    "sums": (
        "Every number is clipped to declared bounds and becomes an integer of bounded size, so that one of "
        "them moves a sum by at most a public limit. Noise is scaled to that limit, in exact arithmetic."
    ),
    "counts": (
        "A histogram: a changed value leaves one bin and enters another, so counts move by 2 in all, to which "
        "noise is scaled."
    ),
    "pair-products": (
        "Products of pairs of residuals in a cell, each clipped and rounded: a changed value moves a cell's "
        "contribution by at most a public limit, to which noise is scaled."
    ),
    "stages": (
        "What is measured next is decided by noisy numbers that were paid for and by public facts, so the "
        "parts of the budget add up whatever is decided."
    ),
    "input": (
        "Every value is answered for by itself: near it with a known chance, else anywhere in the range, or "
        "by the value plus noise scaled to the range. All that is fitted to these answers follows from them."
    ),
    "linear": (
        "Weighted sums with public or already private weights: each product is clipped, so that one value "
        "moves a sum by at most a public limit, to which noise is scaled."
    ),
    "output": (
        "With all other modes private, a row follows from weighted sums of clipped residuals; noise is scaled "
        "to how far one value can move the row."
    ),
    "gradient": (
        "In every pass noise is added to sums of clipped residuals times private numbers; passes and modes add up."
    ),
    "errors": (
        "A histogram of the residuals of the released predictions, with noise: one value moves two counts by one."
    ),
    "entry": ("One entry adds one vector of bounded length to one row's sums; noise is scaled to that length."),
    "entry-products": (
        "Products of pairs of clipped residuals in a cell: one entry more moves a cell's contribution by at "
        "most a public limit, to which noise is scaled."
    ),
    "crosstabs": (
        "Every table gets one bounded row from an entry, in one of its cells; noise is scaled to the row's "
        "length, and what is measured next follows from what has been released."
    ),
    "counts-of-cells": (
        "One entry adds a number between 0 and 1 to one cell of a table, so that listing it or not moves one sum by at "
        "most 1; every cell gets noise scaled to that, empty ones too."
    ),
    "selection": (
        "Fits are compared on cells that none of them sees; which part a cell is in follows from its own "
        "position. All fits and the noisy comparison are paid for."
    ),
    "slice": (
        "In every round a user's whole contribution is one vector of bounded length, computed from that "
        "user's entries alone; noise is scaled to that length, and rounds add up."
    ),
    "records": (
        "In every round a user's whole record becomes one vector of bounded length, computed from that user's entries "
        "alone. The sum of all vectors gets noise that is scaled to that length; components follow from noisy sums."
    ),
    "federated": (
        "A round is the exact sum of bounded contributions, whatever the server sends; a client answers each "
        "round once."
    ),
    "post-processing": ("Whatever is computed from released numbers without looking at the data again costs nothing."),
}
_BEFORE = "docs/guarantees.md#"


def proof_items(proof: str) -> tuple[Markup, ...]:
    """Return one item per section that a guarantee cites: its name, and the argument in short.

    >>> proof_items("docs/guarantees.md#post-processing")[0][:40]
    '<strong>post-processing</strong>: Whatev'
    """
    cited = [each.strip() for each in proof.split(",") if each.strip()]
    return tuple(_item(each) for each in cited)


def _item(cited: str) -> Markup:
    name = cited.removeprefix(_BEFORE)
    short = IN_SHORT.get(name) if cited.startswith(_BEFORE) else None
    return join(cited) if short is None else join(tag("strong", name), f": {short}")
