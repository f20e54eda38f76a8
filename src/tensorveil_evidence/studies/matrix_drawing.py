"""What the figures of Guo's two tables share: relative errors of all methods, and the printed numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorveil_evidence.studies import drawing
from tensorveil_evidence.studies.drawing import Style
from tensorveil_evidence.studies.planted_matrix import AS_CLAIMED, BOUNDS, CONSTANT, MEASURED, OURS
from tensorveil_evidence.studies.summary import Point, pick

STYLES = {
    "SOR": Style(colour=drawing.ORANGE, marker="s"),
    "DLNM_QR": Style(colour=drawing.VERMILION, marker="o"),
    "AM": Style(colour=drawing.PURPLE, marker="D"),
    AS_CLAIMED: Style(colour=drawing.SKY, marker="v"),
    OURS: Style(colour=drawing.GREEN, marker="P", width=2.2),
    CONSTANT: Style(colour=drawing.GREY),
}
NOTE = (
    "Relative error (RSE) by the true matrix, rank 10, 15 % observed, 400 sweeps; SOR and DLNM_QR with their noisy "
    "entries kept, as the paper measures them, the others by the low-rank estimate; crosses: as printed. A well-solved "
    "fit of the noiseless entries recovers the matrix to {fit:.0e} and lies far below the axis."
)
UNIT = (
    f"value; for ours any value within {BOUNDS}, for the published methods and for Laplace noise as claimed a value "
    "that changes by at most 1"
)


def draw_errors(axis: Any, points: Sequence[Point], printed: Mapping[str, Mapping[Any, float]]) -> None:
    """Draw every method's relative error with the printed numbers as crosses."""
    for method, style in STYLES.items():
        own = pick(points, method=method, metric=MEASURED.get(method, "low rank"))
        drawing.draw_curve(axis, own, style)
        if method in printed:
            drawing.draw_printed(axis, printed[method], style)
    axis.set(yscale="log")
    axis.set_ylabel("relative error (RSE)", fontsize=9)


def fit_error(points: Sequence[Point]) -> float:
    """Return the largest error of the well-solved fits, which are not drawn."""
    return max(point.mean or 0.0 for point in pick(points, method="well-solved fit", metric="low rank"))
