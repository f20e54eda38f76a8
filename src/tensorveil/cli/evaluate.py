"""`tensorveil evaluate MODEL --at FILE`: the errors of a saved model at held-out cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensorveil.cli.common import (
    ReadingOptions,
    check_tensor,
    common_options,
    console,
    print_json,
    reading_options,
    unlisted_option,
)

if TYPE_CHECKING:
    from tensorveil.completion.evaluation import Evaluation


@click.command()
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--at",
    required=True,
    type=click.Path(exists=True),
    callback=check_tensor,
    help="Held-out cells with their values: a column per mode, with the model's labels, and the value; or a store.",
)
@unlisted_option
@click.option(
    "--exclude",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="Cells that are known already, such as the fitted ones: no zeros, no candidates. Can be repeated.",
)
@click.option("--along", metavar="MODE", help="Rank the candidates of this mode: recall, NDCG, MRR.")
@click.option("-k", type=click.IntRange(min=1), default=20, show_default=True, help="How many of the best count.")
@click.option(
    "--duplicates",
    type=click.Choice(["mean", "sum", "first", "last"]),
    help="What becomes of held-out cells that are listed more than once [default: refused].",
)
@click.option(
    "--missing", type=click.Choice(["error", "drop"]), help="Held-out cells without a value [default: refused]."
)
@reading_options
@common_options
def evaluate(
    model: Path,
    at: str,
    unlisted: str | None,
    exclude: tuple[Path, ...],
    along: str | None,
    k: int,
    duplicates: str | None,
    missing: str | None,
    reading: ReadingOptions,
    as_json: bool,
) -> None:
    """Measure a model that `complete` saved at cells that it was not fitted to. MODEL is its file or its folder.

    Deviance by the model's own loss, RMSE, calibration; where values are 0 and 1 also AUC and average precision; with
    --along how well the candidates of a mode are ranked. Of private data these numbers are private too.

    \b
    Examples:
      tensorveil evaluate result/model.npz --at held-out.csv
      tensorveil evaluate result/model.npz --at test.csv --exclude train.csv --unlisted zero --along tail -k 10
    """
    from tensorveil.runs.evaluate import EvaluationRun, evaluate_model

    at_file = reading.reading(at, unlisted=unlisted, duplicates=duplicates, missing=missing)
    found = evaluate_model(EvaluationRun(model=model, at=at_file, exclude=exclude, along=along, k=k))
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)


def _show(found: Evaluation) -> None:
    from rich.table import Table

    table = Table(show_header=False)
    table.add_row("cells", f"{found.cells:,}{', zeros among them sampled' if found.sampled else ''}")
    if found.left_out:
        table.add_row("left out", f"{found.left_out:,} whose labels the model does not know")
    rows: list[tuple[str, Any]] = [
        (f"mean deviance ({found.loss})", found.deviance),
        ("of the constant's taken away", found.explained),
        ("RMSE", found.rmse),
        ("mean prediction", found.mean_predicted),
        ("mean value", found.mean_found),
        ("calibration error", found.calibration.error),
        ("AUC", found.auc),
        ("average precision", found.average_precision),
    ]
    ranking = found.ranking
    if ranking is not None:
        rows += [
            (f"recall@{ranking.k} ({ranking.rows:,} rows)", ranking.recall),
            (f"NDCG@{ranking.k}", ranking.ndcg),
            (f"MRR ({ranking.links:,} links)", ranking.mrr),
            (f"hits@{ranking.k}", ranking.hits),
        ]
    for name, value in rows:
        if value is not None:
            table.add_row(name, f"{value:.5g}")
    console().print(table)
