"""What `complete` can be asked, as facts, and what goes with --epsilon. Light to import: click only."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tensorveil.cli.common import Function, add_options, gather, split_named_shape
from tensorveil.mechanisms.names import BY_UNIT

MODELS = ("cp", "tucker", "matrix")
# Options that make no sense in a private run, and why.
REFUSED = {
    "solver": "the mechanism (--method) settles how the model is fitted",
    "baseline": "the mechanism (--method) settles what is subtracted",
    "regularization": "mechanisms estimate it from private statistics; one chosen by looking at the data would leak",
    "smooth": "of private fits only those for --unit value take smooth modes",
    "side": "of private fits only those for --unit slice:MODE take public tables of features",
    "implicit": "which cells were observed is private in units entry and slice, and not used in unit value",
    "keep": "the mechanism (--method) settles how the model is fitted",
    "validation": "errors on held-out entries are computed from private data",
    "out_of_bounds": "values outside --bounds are always clipped; to tell or drop them would leak",
    "loss": "with --unlisted zero expected counts are fitted by themselves, others by squared error; with --unit value "
    "it may be poisson or bernoulli",
    "nonnegative": "the mechanism settles the signs; with --unlisted zero no factor is negative",
    "unlisted_weight": "private fits weigh all cells that count alike",
    "same": "private fits have a factor for every mode",
    "seed": "noise comes from the operating system's entropy, never from a seed",
    "force": "a release is never overwritten; choose another folder",
}


@dataclass(frozen=True, kw_only=True)
class PrivateOptions:
    """What only private runs can be asked."""

    epsilon: float | None
    delta: float | None
    accept_delta: bool | None
    unit: str | None
    method: str | None
    spread: float | None
    private_shape: tuple[int, ...] | dict[str, int] | None
    ledger: Path | None
    purpose: str | None
    diagnostics: Path | None

    @property
    def unit_kind(self) -> str:
        """The kind of the unit, without its mode."""
        return str(self.unit).partition(":")[0]


@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """What only open runs can be asked; a solver is an option of private matrices too."""

    solver: str | None
    baseline: str | None
    regularization: float | None
    validation: float | None
    smooth: dict[Any, str] | None
    side: dict[Any, str] | None
    implicit: list[str] | None
    keep: str | None
    out_of_bounds: str | None
    seed: int | None
    force: bool
    loss: str | None
    nonnegative: bool
    unlisted: str | None
    unlisted_weight: float | None
    same: list[str] | None


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What both kinds of runs can be asked about the model and the data."""

    model: str
    rank: int | tuple[int, ...] | str | None
    sweeps: int | None
    restarts: int | None
    threads: int | None
    bounds: tuple[float, float] | None
    duplicates: str | None
    missing: str | None


@dataclass(frozen=True, kw_only=True)
class WritingOptions:
    """What both kinds of runs can be asked about their output."""

    output: Path
    at: Path | None
    no_fill: bool
    max_cells: int
    filled_format: str
    interval: float | None
    safe_csv: bool
    no_report: bool


PRIVATE = tuple(field.name for field in dataclasses.fields(PrivateOptions))


def private_options(function: Function) -> Function:
    """Add the options that make a completion private; the command gets them as ``private``."""
    names = ["auto", *(name for each in BY_UNIT.values() for name in each)]
    options = [
        click.option("--epsilon", type=float, help="Private: how much may be learned; needs --unit and --bounds."),
        click.option(
            "--delta", type=float, help="Private: 0 for pure privacy, else far below 1 / people [default: 0]."
        ),
        click.option(
            "--accept-delta",
            is_flag=True,
            default=None,
            help="Private: allow a delta that promises next to nothing; the guarantee says so.",
        ),
        click.option(
            "--unit",
            callback=check_unit,
            metavar="value|entry|slice:MODE",
            help="Private: what is protected: a value (positions are public), a whole entry, or all entries of one "
            "index of a mode, such as slice:user.",
        ),
        click.option("--method", help=f"Private: mechanism: {', '.join(names)} [default: auto, which adapts]."),
        click.option(
            "--spread",
            type=float,
            help="Private: standard deviation of the values, if one is known without looking; for the guess only.",
        ),
        click.option(
            "--private-shape",
            callback=split_named_shape,
            metavar="SIZE,SIZE,...|MODE=SIZE,...",
            help="Private: declared sizes of the modes that have no --labels; for units entry and slice.",
        ),
        click.option("--ledger", type=click.Path(dir_okay=False, path_type=Path), help="Private: ledger to charge."),
        click.option("--purpose", help="Private: what for, in the ledger's words. No data."),
        click.option(
            "--diagnostics",
            type=click.Path(path_type=Path),
            help="Private: another folder, for what must NOT be published: errors, histogram.",
        ),
    ]
    return add_options(gather(private=PrivateOptions)(function), options)


def check_unit(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Accept the units of private completion; a slice names its mode."""
    kind, colon, mode = (text or "").partition(":")
    if text is None or (kind in BY_UNIT and (kind == "slice") == bool(colon and mode.strip())):
        return text
    raise click.BadParameter(f"{text!r} is not one of value, entry, slice:MODE. Try slice:user.")


def refuse_private_options(private: PrivateOptions) -> None:
    """Refuse options of private completion without --epsilon, so that nobody believes they are protected."""
    if private.method in MODELS:
        raise click.UsageError(f"--method names a private mechanism; for the model try --model {private.method}.")
    given = [_flag(name) for name in PRIVATE if getattr(private, name) is not None]
    if given:
        raise click.UsageError(
            f"{', '.join(given)} would protect nothing without --epsilon. Try --epsilon 1 --unit value --bounds 1 5."
        )


def check_interval(private: PrivateOptions, writing: WritingOptions) -> None:
    """Refuse intervals where no errors are measured, or where there is no table to write them to."""
    if private.epsilon is None or private.unit_kind == "slice":
        raise click.UsageError(
            "--interval needs --epsilon and --unit value or entry: such runs measure their own errors. Leave it out."
        )
    if writing.no_fill or writing.filled_format == "png":
        raise click.UsageError("--interval adds columns to a table of filled cells. Leave out --no-fill and png.")


def check_private_options(
    private: PrivateOptions, beside: OpenOptions, fit: FitOptions, writing: WritingOptions, *, listed: bool = False
) -> None:
    """Refuse what a private run must not be asked for."""
    _check_declared(private, fit)
    for name, reason in REFUSED.items():
        if name == "solver" and fit.model == "matrix" and private.unit_kind != "slice":
            continue  # perturbed values may be fitted in several ways
        if name == "smooth" and private.unit_kind == "value":
            continue  # what somebody knows of the subject costs nothing
        if name == "loss" and private.unit_kind == "value" and beside.loss != "gamma":
            continue  # noisy numbers are decoded by it
        if name == "side" and private.unit_kind == "slice":
            continue  # users' tastes for public features stay with the users
        given = getattr(beside, name)
        if given is not None and given is not False:  # 0 is a setting too
            raise click.UsageError(f"{_flag(name)} cannot be used with --epsilon: {reason}.")
    known = ("auto", *BY_UNIT[private.unit_kind])
    if private.method not in (None, *known):
        raise click.UsageError(f"--method must be one of {', '.join(known)} for --unit {private.unit}.")
    if private.purpose is not None and private.ledger is None:
        raise click.UsageError("--purpose is written into a ledger. Add --ledger PATH.")
    if private.unit_kind != "value" and private.private_shape is None and not listed:
        raise click.UsageError(
            f"--unit {private.unit_kind} needs public lists of labels, or --private-shape: read off the data, labels "
            "and sizes would tell what occurs. Give --labels film=films.csv for a mode with labels, and "
            "--private-shape user=SIZE for one without."
        )
    if beside.unlisted == "zero" and private.unit_kind == "value":
        raise click.UsageError(
            "--unlisted zero needs --unit entry, which protects whether a cell is listed, or --unit slice:MODE. Or "
            "leave it out: other cells are then unknown."
        )
    if beside.unlisted == "zero" and private.unit_kind == "slice" and fit.model != "cp":
        raise click.UsageError("--unlisted zero with --unit slice fits --model cp alone. Leave --model out.")
    if private.method == "records" and beside.unlisted != "zero":
        raise click.UsageError("--method records is for counts: add --unlisted zero.")
    if private.unit_kind == "entry" and fit.duplicates not in (None, "error"):
        raise click.UsageError(
            "--duplicates cannot be used with --unit entry: every row of the file is an entry of its own, also where "
            "two share a cell. Leave it out."
        )
    if private.unit_kind == "entry" and writing.at is not None:
        raise click.UsageError(
            "--at cannot be used with --unit entry: the list of cells would be published with the release. Predict "
            "from it: tensorveil predict RELEASE/model.npz --at FILE."
        )
    if private.unit_kind != "value" and private.spread is not None:
        raise click.UsageError(
            f"--spread is for --unit value: a run for unit {private.unit_kind} guesses no error. Ask tensorveil plan."
        )
    if private.unit_kind == "slice":
        _check_slice(private, fit, writing)


def _check_declared(private: PrivateOptions, fit: FitOptions) -> None:
    remedies = {"unit": "--unit value, --unit entry or --unit slice:user", "bounds": "--bounds 1 5"}
    for name, given in (("unit", private.unit), ("bounds", fit.bounds)):
        if given is None:
            raise click.UsageError(
                f"--epsilon needs --{name}, which is declared, not read off data. Try {remedies[name]}."
            )


def _check_slice(private: PrivateOptions, fit: FitOptions, writing: WritingOptions) -> None:
    if not private.delta:
        raise click.UsageError("--unit slice needs --delta above 0: its noise is Gaussian. Try --delta 1e-6.")
    if writing.at is not None:
        raise click.UsageError(
            "--at cannot be used with --unit slice: predictions for a person are made from the person's entries and "
            "are not part of a release. Try tensorveil predict RELEASE/model.npz --entries FILE --at FILE."
        )
    for name in ("sweeps", "restarts"):
        if getattr(fit, name) is not None:
            raise click.UsageError(f"--{name} cannot be used with --unit slice: rounds follow from the budget.")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
