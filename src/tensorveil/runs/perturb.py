"""Randomise the tensors of a file: read, make the mechanism, charge, randomise chunk by chunk, write."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil import __version__
from tensorveil.completion.charging import confirm_release, tell_charges
from tensorveil.errors import InputError
from tensorveil.local import Basis, LocalMechanism, choose, mechanism_to_json, project
from tensorveil.local.catalogue import find_mechanism
from tensorveil.privacy import Guarantee, Ledger, Unit
from tensorveil.tensor.files.atomic import new_file
from tensorveil.tensor.files.file_format import Array
from tensorveil.tensor.files.formats import array_format, read_array

FORMAT = 1
CLIPPED = "The PNG is rounded and cut to 0 .. 255, so it is no longer unbiased; .npy keeps the estimates."
NAMES = "the names of columns are public"
BASES = ("dct", "haar")
FOR_BASES = "privunit"  # coefficients have a known norm, for which it has the least error


@dataclass(frozen=True, kw_only=True)
class PerturbRequest:
    """What to randomise, and how. Bounds or a radius are declared, never read off the data.

    Parameters
    ----------
    source
        File that holds the tensor: .npy, .npz, .parquet (a matrix) or .png.
    target
        File to write, of the same kinds; it must not exist.
    epsilon
        The budget of one report, for the unit.
    unit
        "tensor", "tensor:differ=M" (at most M entries of a tensor can differ) or "local entry".
    bounds
        Declared range of the entries.
    radius
        Instead of bounds: the declared largest norm of a tensor.
    delta
        Above 0 allows Gaussian noise.
    mechanism
        A name of `tensorveil.local.names`, or "auto" for the least expected error.
    points
        Grid points in the bounds, for mechanisms on entries.
    weights
        File of public weights in [0, 1], for mechanisms on entries.
    basis
        "dct:KEEP" or "haar:KEEP": report KEEP coefficients of a public basis.
    owners
        Whether the first axis counts owners, one report for each; otherwise the file holds one tensor.
    keep_names
        Whether a table's columns keep their names, which are then public; otherwise they become x0, x1, ...
    variable
        NPZ: the array to read.
    ledger
        Ledger to charge before anything is drawn.
    purpose
        What for, in the ledger's words.
    """

    source: Path
    target: Path
    epsilon: float
    unit: str
    bounds: tuple[float, float] | None = None
    radius: float | None = None
    delta: float = 0.0
    mechanism: str = "auto"
    points: int | None = None
    weights: Path | None = None
    basis: str | None = None
    owners: bool = False
    keep_names: bool = False
    variable: str | None = None
    ledger: Path | None = None
    purpose: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class PerturbResult:
    """What was written and promised; all of it is public."""

    source: Path
    target: Path
    mechanism: LocalMechanism
    guarantee: Guarantee
    reports: int
    owners: bool
    ledger: Path | None
    release_id: str
    notes: tuple[str, ...]

    @property
    def worst_rmse_per_entry(self) -> float:
        """The largest expected deviation of an entry."""
        return float((self.mechanism.worst_mse / self.mechanism.size) ** 0.5)

    def describe_reports(self) -> dict[str, Any]:
        """Return what is written beside the reports, as plain data: all that is needed to aggregate them."""
        return {
            "format": FORMAT,
            "tensorveil": __version__,
            "reports": self.reports,
            "owners": self.owners,
            "mechanism": mechanism_to_json(self.mechanism),
            "guarantee": self.guarantee.to_json(),
            "notes": list(self.notes),
        }

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return self.describe_reports() | {
            "file": str(self.source),
            "output": str(self.target),
            "worst_rmse_per_entry": self.worst_rmse_per_entry,
            "ledger": None if self.ledger is None else str(self.ledger),
            "release_id": self.release_id,
        }


def guarantee_path(report: Path) -> Path:
    """Return the place of the guarantee of a report file."""
    return report.with_name(report.name + ".guarantee.json")


def perturb_file(request: PerturbRequest) -> PerturbResult:
    """Randomise the tensors of a file, and write the reports and what they promise."""
    _check(request)
    given = read_array(request.source, request.variable)
    shape = given.values.shape[1:] if request.owners else given.values.shape
    mechanism = make_mechanism(tuple(shape), request)
    result = PerturbResult(
        source=request.source,
        target=request.target,
        mechanism=mechanism,
        guarantee=_promise(mechanism, request),
        reports=len(given.values) if request.owners else 1,
        owners=request.owners,
        ledger=request.ledger,
        release_id=str(uuid.uuid4()),
        notes=() if array_format(request.target).exact else (CLIPPED,),
    )
    with tell_charges(request.ledger, lambda: result.release_id):
        _write(given.values, given.columns if request.keep_names else None, result, request)
        confirm_release(request.ledger, result.release_id)
    return result


def _promise(mechanism: LocalMechanism, request: PerturbRequest) -> Guarantee:
    """Return what the mechanism promises; names that are kept leave as they are, and are named as such."""
    promised = mechanism.guarantee()
    return replace(promised, conditions=(*promised.conditions, NAMES)) if request.keep_names else promised


def _check(request: PerturbRequest) -> None:
    """Refuse what can be refused before anything is read."""
    array_format(request.source)
    array_format(request.target)
    if not request.target.parent.is_dir():
        raise InputError(f"target: the folder {request.target.parent} does not exist. Make it first.")
    for path in (request.target, guarantee_path(request.target)):
        if path.exists():
            raise InputError(f"target: {path} already exists, and reports are never overwritten. Choose another name.")
    if request.bounds is None and request.radius is None:
        raise InputError("bounds (or a radius) must be declared: they are never read off the data. Try bounds=(0, 1).")
    if request.purpose is not None and request.ledger is None:
        raise InputError("purpose is written into a ledger, so it needs one. Try ledger='my.ledger'.")


def make_mechanism(shape: tuple[int, ...], request: PerturbRequest) -> LocalMechanism:
    """Make the mechanism that was asked for, or the one of least expected error."""
    unit = Unit.parse(request.unit)
    if request.basis is not None:
        return _project(shape, request)
    if request.mechanism == "auto":
        if request.points is not None or request.weights is not None:
            raise InputError("points and weights need a mechanism on entries. Try mechanism='dtldp'.")
        chosen: LocalMechanism = choose(
            shape,
            request.epsilon,
            unit,
            bounds=request.bounds,
            radius=request.radius,
            delta=request.delta,
        ).mechanism
        return chosen
    kind = find_mechanism(request.mechanism)
    settings = _settings(kind, request)
    return kind(shape=shape, epsilon=request.epsilon, unit=unit, **settings)


def _settings(kind: type[LocalMechanism], request: PerturbRequest) -> dict[str, Any]:
    """Return the settings beside shape, epsilon and unit; refuse those that the mechanism does not take."""
    asked: dict[str, Any] = {
        "bounds": request.bounds,
        "radius": request.radius,
        "points": request.points,
        "weights": _read_weights(request.weights),
    }
    takes = kind.options()
    given: dict[str, Any] = {name: setting for name, setting in asked.items() if setting is not None}
    if "radius" in given and "radius" not in takes:
        raise InputError(
            f"radius is for mechanisms on whole tensors; mechanism={kind.command!r} needs bounds. Try bounds=(-1, 1)."
        )
    for name in given:
        if name not in takes:
            raise InputError(f"{name} cannot be used with mechanism={kind.command!r}. Leave it out.")
    if "delta" in takes:
        given["delta"] = request.delta
    return given


def _project(shape: tuple[int, ...], request: PerturbRequest) -> LocalMechanism:
    """Make the mechanism that reports coefficients of a basis."""
    assert request.basis is not None
    name, _, keep = request.basis.partition(":")
    if name not in BASES or not keep.isdigit():
        raise InputError(f"basis must be dct:KEEP or haar:KEEP; got {request.basis!r}. Try basis='dct:64'.")
    if request.bounds is None or Unit.parse(request.unit) != Unit.tensor():
        # An entry is part of every coefficient, so a number of entries that can differ does not carry over.
        raise InputError("basis goes with unit 'tensor', without differ, and declared bounds. Try bounds=(0, 1).")
    kind = find_mechanism(FOR_BASES if request.mechanism == "auto" else request.mechanism)
    options: dict[str, Any] = {"delta": request.delta} if "delta" in kind.options() else {}
    if request.points is not None and "points" in kind.options():
        options["points"] = request.points
    # What is said about single entries does not carry over to coefficients either.
    refused = {"points": request.points, "weights": request.weights}
    for setting, value in refused.items():
        if value is not None and setting not in options:
            raise InputError(f"{setting} cannot be used with basis={request.basis!r}. Leave it out.")
    basis = Basis.from_settings({"kind": name, "keep": int(keep)}, shape)
    return project(basis, kind, epsilon=request.epsilon, bounds=request.bounds, **options)


def _read_weights(path: Path | None) -> Any:
    return None if path is None else np.asarray(read_array(path).values, dtype=np.float64)


def _charge(request: PerturbRequest, result: PerturbResult) -> None:
    """Charge before anything is drawn. Owners' tensors are separate, so one charge covers one report of each."""
    if request.ledger is not None:
        ledger = Ledger.open(request.ledger)
        ledger.charge(result.guarantee, request.purpose or "perturb", result.release_id)


def _write(values: Array, columns: Sequence[str] | None, result: PerturbResult, request: PerturbRequest) -> None:
    """Write the reports, chunk by chunk where the format allows it. The guarantee appears first.

    The files are there, and can be written, before the ledger is charged.
    """
    target = array_format(result.target)
    text = json.dumps(result.describe_reports(), indent=2, allow_nan=False) + "\n"
    with new_file(result.target) as temporary, new_file(guarantee_path(result.target)) as beside:
        if target.check_array is not None:
            target.check_array(values.shape)
        beside.write_text(text, encoding="utf-8")
        out = None if target.create_array is None else target.create_array(temporary, values.shape)
        _charge(request, result)
        if out is not None:
            result.mechanism.perturb(values, out=out)
            out.flush()
            del out
        else:
            assert target.write_array is not None  # whatever reads arrays writes them
            target.write_array(result.mechanism.perturb(values), temporary, columns)
