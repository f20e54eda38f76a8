"""Average report files: read reports and guarantees, average, fit, write."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil import __version__
from tensorveil.errors import InputError, TensorveilError
from tensorveil.local import (
    LocalMechanism,
    MeanEstimate,
    Projected,
    combine,
    low_rank_mean,
    mean_of,
    mechanism_from_json,
    shuffle,
)
from tensorveil.memory import check_file_memory
from tensorveil.privacy import Approximate, Guarantee, Part, Unit
from tensorveil.runs.perturb import FORMAT, guarantee_path
from tensorveil.tensor.files.atomic import replace_file
from tensorveil.tensor.files.formats import array_format, read_array

BIAS = "Reports in a basis: what the basis leaves out is a bias that standard errors do not show."
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class AggregateRequest:
    """Which reports to average, and what to make of the mean.

    Parameters
    ----------
    reports
        Files written by `perturb_file`, each with its guarantee beside it.
    output
        NPZ file to write; it must not exist.
    by
        How groups with different budgets are combined: "precision" or "people"; see `combine`.
    low_rank
        Also fit a CP model of this rank to the mean.
    clip
        Cut means to the declared bounds: closer to the truth, but no longer unbiased.
    shuffled
        Whether the reports came through a trusted shuffler; then ``delta`` is needed.
    delta
        The delta of the shuffled reports' guarantee, above 0.
    variable
        NPZ reports: the array to read.
    """

    reports: Sequence[Path]
    output: Path
    by: str = "precision"
    low_rank: int | None = None
    clip: bool = False
    shuffled: bool = False
    delta: float | None = None
    variable: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class AggregateResult:
    """What was written, and what is promised to the owners of the reports."""

    output: Path
    arrays: tuple[str, ...]
    reports: int
    groups: int
    standard_error: float
    guarantee: Guarantee
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "tensorveil": __version__,
            "output": str(self.output),
            "arrays": list(self.arrays),
            "reports": self.reports,
            "groups": self.groups,
            "standard_error": self.standard_error,
            "guarantee": self.guarantee.to_json(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Report files with one mechanism and budget."""

    mechanism: LocalMechanism
    paths: tuple[Path, ...]


def aggregate_files(request: AggregateRequest) -> AggregateResult:
    """Average the reports of files and write the mean."""
    _check(request)
    groups = _group(request.reports)
    _check_groups(groups)
    check_file_memory(24 * math.prod(groups[0].mechanism.shape))  # all groups have this shape, which a file declares
    estimates = [mean_of(_stream(group, request.variable), group.mechanism.shape) for group in groups]
    estimate = estimates[0] if len(estimates) == 1 else combine(estimates, request.by)
    guarantee = _weakest_guarantee(groups, estimates, request)
    arrays = _make_arrays(estimate, request, groups[0].mechanism.declared_bounds if request.clip else None)
    with replace_file(request.output) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return AggregateResult(
        output=request.output,
        arrays=tuple(sorted(arrays)),
        reports=estimate.count,
        groups=len(groups),
        standard_error=estimate.noise_variance**0.5,
        guarantee=guarantee,
        notes=(BIAS,) if isinstance(groups[0].mechanism, Projected) else (),
    )


def _check(request: AggregateRequest) -> None:
    output = request.output
    if output.suffix.lower() != ".npz":
        raise InputError("output must end in .npz: it holds the mean and its standard error.")
    if output.exists() or not output.parent.is_dir():
        raise InputError(f"output: {output} exists already, or its folder does not. Choose another name.")
    if request.shuffled != (request.delta is not None):
        raise InputError("shuffled and delta go together: give both, or neither. Try delta=1e-6.")


def _check_groups(groups: Sequence[_Group]) -> None:
    if len({group.mechanism.shape for group in groups}) != 1:
        raise InputError("reports must be about tensors of one shape. Aggregate others separately.")
    if len({Unit.parse(group.mechanism.unit) for group in groups}) != 1:
        raise InputError("reports must be about one unit: no guarantee speaks of several. Aggregate others separately.")
    if len(groups) > 1 and any(isinstance(group.mechanism, Projected) for group in groups):
        # What a basis leaves out is a bias that standard errors do not show.
        raise InputError("reports in a basis cannot be combined with others. Aggregate them separately.")


def _group(reports: Sequence[Path]) -> list[_Group]:
    """Sort report files by mechanism; refuse a file that is named twice, whose owners would count twice."""
    found: dict[str, list[Path]] = {}
    for path in reports:
        found.setdefault(_read_description(path), []).append(path)
    # By the file and not by its content: short reports of different owners may well be equal.
    if len({(path.stat().st_dev, path.stat().st_ino) for path in reports}) < len(reports):
        raise InputError("reports must be different files, because each owner counts once. Name each file once.")
    groups = []
    for key, paths in found.items():
        settings = json.loads(key)
        settings.pop("owners")
        groups.append(_Group(mechanism=mechanism_from_json(settings), paths=tuple(paths)))
    return groups


def _read_description(path: Path) -> str:
    """Return the mechanism of a report file, as text that is equal for equal mechanisms."""
    beside = guarantee_path(path)
    if not beside.is_file():
        raise InputError(f"{path.name} has no {beside.name} beside it. Reports are made by tensorveil perturb.")
    check_file_memory(20 * beside.stat().st_size)
    try:
        facts = json.loads(beside.read_text(encoding="utf-8"))
        if facts["format"] != FORMAT:
            raise InputError(f"{beside.name} was written in another format. Try to upgrade tensorveil.")
        promised = Guarantee.from_json(facts["guarantee"])
        if not promised.private:
            raise InputError(f"{beside.name} says that its reports are not private. They are not aggregated.")
        kept = mechanism_from_json(facts["mechanism"]).guarantee()
        if any(getattr(kept, name) != getattr(promised, name) for name in ("unit", "epsilon", "delta", "event")):
            raise InputError(f"{beside.name} promises other than its mechanism keeps: one of them was changed.")
        return json.dumps(facts["mechanism"] | {"owners": facts["owners"]}, sort_keys=True)
    except TensorveilError:
        raise
    except Exception:  # whatever a text leads to: nested too deeply, numbers beyond floats
        raise InputError(f"{beside.name} is damaged, or was not written by this program.") from None


def _stream(group: _Group, variable: str | None) -> Iterator[Any]:
    """Yield reports file by file, with a leading axis; NPY files are memory-mapped, not loaded."""
    for path in group.paths:
        values = read_array(path, variable).values
        if not array_format(path).exact:
            raise InputError(f"{path.name} was rounded and cut, so its means would be biased. Perturb to .npy.")
        yield values[None] if values.shape == group.mechanism.shape else values


def _weakest_guarantee(
    groups: Sequence[_Group], estimates: Sequence[MeanEstimate], request: AggregateRequest
) -> Guarantee:
    """Return the weakest local guarantee of all groups, or that of shuffled reports."""
    if request.shuffled:
        assert request.delta is not None  # checked at the start
        if len(groups) != 1:
            raise InputError("shuffled reports must come from one mechanism with one budget.")
        return shuffle(groups[0].mechanism.guarantee(), estimates[0].count, request.delta)
    promised = [group.mechanism.guarantee() for group in groups]
    weakest = max(promised, key=lambda each: (each.epsilon, each.delta))
    delta = max(each.delta for each in promised)
    if delta == weakest.delta:
        return weakest
    # Where one has the largest epsilon and another the largest delta, both together are what holds for all.
    event = Approximate(weakest.epsilon, delta)
    part = Part(name="reports", statistic="reports of several mechanisms, one per owner", event=event)
    return replace(weakest, delta=delta, event=event, composition=(part,))


def _make_arrays(estimate: MeanEstimate, request: AggregateRequest, bounds: tuple[float, float] | None) -> Arrays:
    """Return the arrays to write; ``bounds`` are those to which means are cut."""
    if request.clip and bounds is None:
        raise InputError("clip needs reports with declared bounds; these declare a radius. Leave it out.")
    mean = estimate.mean if bounds is None else estimate.clip(bounds)
    arrays = {"mean": mean, "standard_error": estimate.standard_error, "count": np.array(estimate.count)}
    if request.low_rank is not None:
        arrays["low_rank_mean"] = low_rank_mean(estimate, request.low_rank, bounds=bounds).mean
    return arrays
