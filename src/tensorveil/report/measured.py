"""What a fit's own measures say: deviance, ranking of yes and no, calibration."""

from __future__ import annotations

from tensorveil.completion.evaluation import Evaluation
from tensorveil.report.facts import Chart, Series
from tensorveil.report.lines import chart_figure
from tensorveil.report.model_parts import Captioner
from tensorveil.report.page import Section, data_table

__all__ = ["measured_section"]


def measured_section(found: Evaluation, caption: Captioner) -> Section:
    """Show measures that fit the loss, and predictions beside what was found."""
    rows: list[list[str | float | int | None]] = [
        ["mean deviance", found.deviance],
        ["share of the constant's deviance taken away", found.explained],
        ["RMSE", found.rmse],
        ["mean prediction", found.mean_predicted],
        ["mean value", found.mean_found],
    ]
    if found.auc is not None:
        rows += [["AUC", found.auc], ["average precision", found.average_precision]]
    groups = found.calibration
    chart = Chart(
        title="Predicted and found",
        x="mean prediction",
        y="mean value",
        series=(
            Series(name="found", x=groups.predicted, y=groups.found),
            Series(name="perfect", x=groups.predicted, y=groups.predicted),
        ),
        caption=caption("Means in ten groups of cells of about equal size, by prediction."),
    )
    which = "its entries and a sample of the cells that are not listed" if found.sampled else "all known cells"
    return Section(
        name="measures",
        title="Measures that fit the values",
        lead=f'Loss "{found.loss}", on {which}; the model was fitted to them.',
        blocks=(data_table("measures", ["measure", "value"], rows), chart_figure("calibration", chart)),
    )
