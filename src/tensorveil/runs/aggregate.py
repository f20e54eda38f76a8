"""The work behind `tensorveil aggregate`: read reports and guarantees, average, fit, write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil import __version__, local
from tensorveil.cli.common import console, print_json
from tensorveil.errors import InputError
from tensorveil.local import LocalMechanism, MeanEstimate
from tensorveil.privacy import Guarantee
from tensorveil.runs.perturb import FORMAT, guarantee_path
from tensorveil.tensor.files.atomic import replacing
from tensorveil.tensor.files.dense import read_dense

BIAS = "Reports in a basis: what the basis leaves out is a bias that standard errors do not show."


def aggregate_files(reports: Sequence[Path], output: Path, options: dict[str, Any], *, as_json: bool) -> None:
    """Average the reports of files and write the mean."""
    if output.suffix.lower() != ".npz":
        raise InputError("--output must end in .npz: it holds the mean and its standard error.")
    if output.exists() or not output.parent.is_dir():
        raise InputError(f"--output: {output} exists already, or its folder does not. Choose another name.")
    if options["shuffled"] != (options["delta"] is not None):
        raise InputError("--shuffled and --delta go together. Try --shuffled --delta 1e-6.")
    groups = _groups(reports)
    shapes = {mechanism.shape for mechanism, _ in groups}
    if len(shapes) != 1:
        raise InputError("reports must be of tensors of one shape. Aggregate others apart.")
    if len(groups) > 1 and any(isinstance(mechanism, local.Projected) for mechanism, _ in groups):
        # What a basis leaves out is a bias that standard errors do not show.
        raise InputError("reports in a basis cannot be combined with others. Aggregate them apart.")
    estimates = [local.mean_of(_stream(paths, mechanism, options), mechanism.shape) for mechanism, paths in groups]
    estimate = estimates[0] if len(estimates) == 1 else local.combine(estimates)
    promise = _promise(groups, estimates, options)
    bounds = groups[0][0].declared_bounds if options["clip"] else None
    arrays = _arrays(estimate, options, bounds)
    with replacing(output) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    facts = _facts(estimate, arrays, promise, output, groups)
    if as_json:
        print_json(facts)
    else:
        _show(facts)


def _groups(reports: Sequence[Path]) -> list[tuple[LocalMechanism, list[Path]]]:
    """Sort report files by mechanism."""
    found: dict[str, list[Path]] = {}
    for path in reports:
        beside = guarantee_path(path)
        if not beside.is_file():
            raise InputError(f"{path.name} has no {beside.name} beside it. Reports are made by tensorveil perturb.")
        try:
            facts = json.loads(beside.read_text(encoding="utf-8"))
            if facts["format"] != FORMAT:
                raise InputError(f"{beside.name} was written in another format. Try to upgrade tensorveil.")
            if not Guarantee.from_json(facts["guarantee"]).private:
                raise InputError(f"{beside.name} says that its reports are not private. They are not aggregated.")
            settings = facts["mechanism"] | {"owners": facts["owners"]}
        except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError):
            raise InputError(f"{beside.name} is damaged, or was not written by this program.") from None
        found.setdefault(json.dumps(settings, sort_keys=True), []).append(path)
    return [(_mechanism(json.loads(key)), paths) for key, paths in found.items()]


def _mechanism(settings: dict[str, Any]) -> LocalMechanism:
    settings.pop("owners")
    return local.mechanism_from_json(settings)


def _stream(paths: list[Path], mechanism: LocalMechanism, options: dict[str, Any]) -> Iterator[Any]:
    """Yield reports file by file, with a leading axis; NPY files are memory-mapped, not loaded."""
    for path in paths:
        values = read_dense(path, options["variable"]).values
        if path.suffix.lower() == ".png":
            raise InputError(f"{path.name}: a PNG was rounded and cut, so means of it are biased. Perturb to .npy.")
        yield values[None] if values.shape == mechanism.shape else values


def _promise(
    groups: list[tuple[LocalMechanism, list[Path]]], estimates: list[MeanEstimate], options: dict[str, Any]
) -> Guarantee:
    """Give the weakest local guarantee of all groups, or that of shuffled reports."""
    if options["shuffled"]:
        if len(groups) != 1:
            raise InputError("--shuffled needs reports of one mechanism with one budget.")
        return local.shuffled(groups[0][0], estimates[0].count, options["delta"])
    return max((mechanism.guarantee() for mechanism, _ in groups), key=lambda g: (g.epsilon, g.delta))


def _arrays(
    estimate: MeanEstimate, options: dict[str, Any], bounds: tuple[float, float] | None
) -> dict[str, np.ndarray[Any, Any]]:
    if options["clip"] and bounds is None:
        raise InputError("--clip needs reports with declared bounds; these declare a radius.")
    mean = estimate.mean if bounds is None else estimate.clipped(bounds)
    arrays = {"mean": mean, "standard_error": estimate.standard_error, "count": np.array(estimate.count)}
    if options["low_rank"] is not None:
        arrays["low_rank_mean"] = local.low_rank_mean(estimate, options["low_rank"], bounds=bounds).mean
    return arrays


def _facts(
    estimate: MeanEstimate,
    arrays: dict[str, np.ndarray[Any, Any]],
    promise: Guarantee,
    output: Path,
    groups: list[tuple[LocalMechanism, list[Path]]],
) -> dict[str, Any]:
    return {
        "tensorveil": __version__,
        "output": str(output),
        "arrays": sorted(arrays),
        "reports": estimate.count,
        "groups": len(groups),
        "standard_error": estimate.noise_variance**0.5,
        "guarantee": promise.to_json(),
        "notes": [BIAS] if isinstance(groups[0][0], local.Projected) else [],
    }


def _show(facts: dict[str, Any]) -> None:
    from rich.markup import escape

    out = console()
    out.print(f"{facts['reports']:,} reports; standard error of an entry of the mean {facts['standard_error']:.4g}")
    out.print(f"[bold]{escape(facts['guarantee']['sentence'])}[/bold]")
    for note in [*facts["notes"], *facts["guarantee"]["notes"]]:
        out.print(escape(note))
    out.print(f"written: {escape(facts['output'])} ({', '.join(facts['arrays'])})", soft_wrap=True)
