"""The work behind `tensorveil perturb`: read, make the mechanism, charge, randomise chunk by chunk, write."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import click
import numpy as np

from tensorveil import __version__, local
from tensorveil.cli.common import State, console, print_json
from tensorveil.cli.perturb import MECHANISMS
from tensorveil.errors import InputError
from tensorveil.local import LocalMechanism
from tensorveil.local.ball import BallMechanism
from tensorveil.local.storage import MECHANISMS as CLASSES
from tensorveil.privacy import Ledger, Unit
from tensorveil.tensor.files.atomic import replacing
from tensorveil.tensor.files.dense import Dense, dense_kind, read_dense, write_dense

FORMAT = 1
CLIPPED = "The PNG is rounded and cut to 0 .. 255, so it is no longer unbiased; .npy keeps the estimates."


def guarantee_path(report: Path) -> Path:
    """Give where the guarantee of a report file stands."""
    return report.with_name(report.name + ".guarantee.json")


def perturb_file(source: Path, target: Path, options: dict[str, Any], *, as_json: bool) -> None:
    """Randomise the tensors of a file, and say what was promised."""
    state = click.get_current_context().obj
    if isinstance(state, State):
        state.private = True
    _check_target(source, target, options)
    given = read_dense(source, options["variable"])
    shape = given.values.shape[1:] if options["owners"] else given.values.shape
    mechanism = make_mechanism(tuple(shape), options)
    release_id = str(uuid.uuid4())
    ledger = _charge(mechanism, options, release_id)
    count = len(given.values) if options["owners"] else 1
    facts = _facts(mechanism, source, target, count, options, release_id)
    _write(mechanism, given, target, facts)
    if ledger is not None:
        ledger.confirm(release_id)
    if as_json:
        print_json(facts)
    else:
        _show(facts)


def _check_target(source: Path, target: Path, options: dict[str, Any]) -> None:
    dense_kind(source)
    dense_kind(target)
    if not target.parent.is_dir():
        raise InputError(f"OUT: the folder {target.parent} does not exist. Make it first.")
    for path in (target, guarantee_path(target)):
        if path.exists():
            raise InputError(f"OUT: {path} already exists, and reports are never overwritten. Choose another name.")
    if not options["bounds"] and options["radius"] is None:
        raise InputError("--bounds LOW HIGH (or --radius) is needed: declared, never read off the data.")
    if options["purpose"] is not None and options["ledger"] is None:
        raise InputError("--purpose is written into a ledger. Add --ledger PATH.")


def make_mechanism(shape: tuple[int, ...], options: dict[str, Any]) -> LocalMechanism:
    """Make what the options ask for."""
    unit = Unit.parse(options["unit"])
    common = {"epsilon": options["epsilon"], "unit": unit, "outside": options["outside"]}
    domain = {"bounds": options["bounds"] or None, "radius": options["radius"]}
    name = options["mechanism"]
    extras = {key: options[key] for key in ("points", "differ") if options[key] is not None}
    if options["weights"] is not None:
        extras["weights"] = np.asarray(read_dense(options["weights"]).values, dtype=np.float64)
    if options["basis"] is not None:
        return _projected(shape, options, extras)
    if name == "auto":
        if "points" in extras or "weights" in extras:
            raise InputError("--points and --weights need a mechanism on entries. Try --mechanism dtldp.")
        settings = {**domain, **extras, "delta": options["delta"], "outside": options["outside"]}
        chosen: LocalMechanism = local.choose(shape, options["epsilon"], unit, **settings).mechanism
        return chosen
    made = CLASSES[MECHANISMS[name]]
    if issubclass(made, BallMechanism):
        _refuse_extras(name, extras, allowed=("differ",) if name == "gaussian" else ())
        if name == "gaussian":
            extras["delta"] = options["delta"]
        return made(shape=shape, **common, **domain, **extras)
    if domain["radius"] is not None:
        raise InputError(f"--radius is for mechanisms on whole tensors; --mechanism {name} needs --bounds.")
    return made(shape=shape, **common, bounds=domain["bounds"], **extras)  # type: ignore[call-arg]


def _projected(shape: tuple[int, ...], options: dict[str, Any], extras: dict[str, Any]) -> LocalMechanism:
    kind, _, keep = options["basis"].partition(":")
    if kind not in ("dct", "haar") or not keep.isdigit():
        raise InputError(f"--basis must be dct:KEEP or haar:KEEP; got {options['basis']!r}. Try --basis dct:64.")
    if not options["bounds"] or options["unit"] != "tensor":
        raise InputError("--basis goes with --unit tensor and --bounds.")
    name = "privunit" if options["mechanism"] == "auto" else options["mechanism"]
    _refuse_extras("--basis", extras, allowed=("points",) if name not in ("privunit", "privunitg", "gaussian") else ())
    if name == "gaussian":
        extras = extras | {"delta": options["delta"]}
    basis = getattr(local.Basis, kind)(shape, int(keep))
    made = CLASSES[MECHANISMS[name]]
    return local.project(
        basis, made, epsilon=options["epsilon"], bounds=options["bounds"], outside=options["outside"], **extras
    )


def _refuse_extras(name: str, extras: dict[str, Any], allowed: tuple[str, ...]) -> None:
    for key in extras:
        if key not in allowed:
            raise InputError(f"--{key} cannot be used with {name}. Leave it out.")


def _charge(mechanism: LocalMechanism, options: dict[str, Any], release_id: str) -> Ledger | None:
    """Charge before anything is drawn. Owners' tensors are apart, so one charge covers one report of each."""
    if options["ledger"] is None:
        return None
    ledger = Ledger.open(options["ledger"])
    ledger.charge(mechanism.guarantee(), options["purpose"] or "perturb", release_id)
    return ledger


def _facts(
    mechanism: LocalMechanism, source: Path, target: Path, count: int, options: dict[str, Any], release_id: str
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "tensorveil": __version__,
        "file": str(source),
        "output": str(target),
        "reports": count,
        "owners": bool(options["owners"]),
        "worst_rmse_per_entry": (mechanism.worst_mse / mechanism.size) ** 0.5,
        "mechanism": local.mechanism_to_json(mechanism),
        "guarantee": mechanism.guarantee().to_json(),
        "ledger": None if options["ledger"] is None else str(options["ledger"]),
        "release_id": release_id,
        "notes": [CLIPPED] if target.suffix.lower() == ".png" else [],
    }


def _write(mechanism: LocalMechanism, given: Dense, target: Path, facts: dict[str, Any]) -> None:
    """Write the reports; arrays too large for memory go chunk by chunk to the disk. The guarantee appears first."""
    kind = target.suffix.lower()
    kept = {
        name: facts[name] for name in ("format", "tensorveil", "reports", "owners", "mechanism", "guarantee", "notes")
    }
    text = json.dumps(kept, indent=2, allow_nan=False) + "\n"
    with replacing(target) as temporary:
        if kind == ".npy":
            out = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float64, shape=given.values.shape)
            mechanism.perturb(given.values, out=out)
            out.flush()
            del out
        else:
            write_dense(temporary, mechanism.perturb(given.values), kind, given.columns)
        with replacing(guarantee_path(target)) as beside:
            beside.write_text(text, encoding="utf-8")


def _show(facts: dict[str, Any]) -> None:
    from rich.markup import escape

    out = console()
    out.print(f"[bold]{escape(facts['guarantee']['sentence'])}[/bold]")
    out.print(f"mechanism: {escape(facts['guarantee']['mechanism'])}; at worst a deviation of "
              f"{facts['worst_rmse_per_entry']:.4g} per entry")  # fmt: skip
    for note in facts["notes"]:
        out.print(escape(note))
    out.print(f"written: {escape(facts['output'])}, {escape(facts['output'])}.guarantee.json", soft_wrap=True)
