"""The options of private completion, and what they allow beside them. Light to import: click only."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

from tensorveil.cli.common import Function, split_shape

METHODS = {
    "value": ("mean", "margins", "input", "margins+input", "output", "gradient"),
    "entry": ("gram",),
    "slice": ("biases", "factors"),
}
PRIVATE = ("epsilon", "delta", "unit", "method", "private_shape", "ledger", "purpose", "diagnostics")
# Options that make no sense in a private run, and why.
REFUSED = {
    "solver": "the mechanism (--method) settles how the model is fitted",
    "baseline": "the mechanism (--method) settles what is subtracted",
    "regularization": "mechanisms estimate it from private statistics; one chosen by looking at the data would leak",
    "validation": "errors on held-out entries are computed from private data",
    "out_of_bounds": "values outside --bounds are always clipped; to tell or drop them would leak",
    "seed": "noise comes from the operating system's entropy, never from a seed",
    "force": "a release is never overwritten; choose another folder",
}


def private_options(function: Function) -> Function:
    """Add the options that make a completion private."""
    names = ["auto", *(name for each in METHODS.values() for name in each)]
    options = [
        click.option("--epsilon", type=float, help="Private: how much may be learned; needs --unit and --bounds."),
        click.option(
            "--delta", type=float, help="Private: 0 for pure privacy, else far below 1 / people [default: 0]."
        ),
        click.option(
            "--unit",
            callback=check_unit,
            metavar="value|entry|slice:MODE",
            help="Private: what is protected: a value (positions are public), a whole entry, or all entries of one "
            "index of a mode, such as slice:user.",
        ),
        click.option("--method", help=f"Private: mechanism: {', '.join(names)} [default: auto, by the planner]."),
        click.option(
            "--private-shape",
            callback=split_shape,
            metavar="SIZE,SIZE,...",
            help="Private: declared sizes of the modes; needed for units entry and slice.",
        ),
        click.option("--ledger", type=click.Path(dir_okay=False, path_type=Path), help="Private: ledger to charge."),
        click.option("--purpose", help="Private: what for, in the ledger's words. No data."),
        click.option(
            "--diagnostics",
            type=click.Path(path_type=Path),
            help="Private: another folder, for what must NOT be published: errors, histogram.",
        ),
    ]
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), function)


def check_unit(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Accept the units of private completion; a slice names its mode."""
    kind, colon, mode = (text or "").partition(":")
    if text is None or (kind in METHODS and (kind == "slice") == bool(colon and mode.strip())):
        return text
    raise click.BadParameter(f"{text!r} is not one of value, entry, slice:MODE. Try slice:user.")


def unit_kind(options: dict[str, Any]) -> str:
    """Return the kind of the unit, without its mode."""
    return str(options["unit"]).partition(":")[0]


def wants_privacy(options: dict[str, Any]) -> bool:
    """Tell whether a private run is asked for."""
    return options["epsilon"] is not None


def refuse_private_options(options: dict[str, Any]) -> None:
    """Refuse options of private completion without --epsilon: nobody shall believe to be protected."""
    if options["method"] in ("cp", "tucker", "matrix"):
        raise click.UsageError(f"--method names a private mechanism; for the model try --model {options['method']}.")
    given = [_flag(name) for name in PRIVATE if options[name] is not None]
    if given:
        raise click.UsageError(
            f"{', '.join(given)} would protect nothing without --epsilon. Try --epsilon 1 --unit value --bounds 1 5."
        )


def check_private_options(options: dict[str, Any]) -> None:
    """Refuse what a private run must not be asked for."""
    for name in ("unit", "bounds"):
        if options[name] is None:
            remedy = "--unit value, --unit entry or --unit slice:user" if name == "unit" else "--bounds 1 5"
            raise click.UsageError(
                f"--epsilon needs {_flag(name)}, which is declared, not read off data. Try {remedy}."
            )
    for name, reason in REFUSED.items():
        if name == "solver" and options["model"] == "matrix" and unit_kind(options) != "slice":
            continue  # perturbed values may be fitted in several ways
        if options[name] is not None and options[name] is not False:  # 0 is a setting too
            raise click.UsageError(f"{_flag(name)} cannot be used with --epsilon: {reason}.")
    known = ("auto", *METHODS[unit_kind(options)])
    if options["method"] not in (None, *known):
        raise click.UsageError(f"--method must be one of {', '.join(known)} for --unit {options['unit']}.")
    if options["purpose"] is not None and options["ledger"] is None:
        raise click.UsageError("--purpose is written into a ledger. Add --ledger PATH.")
    if unit_kind(options) != "value" and options["private_shape"] is None:
        raise click.UsageError(
            f"--unit {unit_kind(options)} needs --private-shape: read off the data, the shape would tell which indices "
            "occur. Try --private-shape 943,1682."
        )
    if unit_kind(options) == "entry":
        _check_entry(options)
    if unit_kind(options) == "slice":
        _check_slice(options)


def _check_entry(options: dict[str, Any]) -> None:
    if options["duplicates"] not in (None, "error"):
        raise click.UsageError(
            "--duplicates cannot be used with --unit entry: a row of the file would no longer be one entry. "
            "Combine them first, in a way that is part of what an entry means."
        )


def _check_slice(options: dict[str, Any]) -> None:
    if not options["delta"]:
        raise click.UsageError("--unit slice needs --delta above 0: its noise is Gaussian. Try --delta 1e-6.")
    if options["at"] is not None:
        raise click.UsageError(
            "--at cannot be used with --unit slice: predictions for a person are made from the person's entries and "
            "are not part of a release. Try tensorveil predict RELEASE/model.npz --entries FILE --at FILE."
        )
    for name in ("sweeps", "restarts"):
        if options[name] is not None:
            raise click.UsageError(f"--{name} cannot be used with --unit slice: rounds follow from the budget.")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
