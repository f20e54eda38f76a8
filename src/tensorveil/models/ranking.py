"""The best candidates for a row: the films for a user, the hours for a road."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models.contract import Floats, Multilinear
from tensorveil.models.evaluate import clip_values
from tensorveil.models.indexing import index_positions
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.lists import match_columns
from tensorveil.tensor.modes import find_axis


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """Candidates of one mode, best first."""

    mode: str
    indices: NDArray[np.intp]
    values: Floats
    labels: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.indices)


def rank_candidates(
    model: Multilinear, n: int, given: Mapping[Any, Any], along: str | int, exclude: Any, largest: bool
) -> Ranking:
    """Rank the indices of mode ``along`` by their prediction at the given indices of other modes."""
    target = find_axis(model.modes, along)
    fixed = index_positions(given, model.modes, model.shape, "given")
    if target in fixed:
        raise InputError(f"mode {model.modes[target].name!r} is both given and ranked along. Drop it from given.")
    return rank_positions(model, n, fixed, target, exclude, largest=largest)


def rank_positions(
    model: Multilinear, n: int, fixed: Mapping[int, int], target: int, exclude: Any, *, largest: bool
) -> Ranking:
    """Rank the indices of mode ``target`` where others are fixed at an index, and the rest is averaged."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InputError(f"n must be a whole number of at least 1; got {n!r}. Try n=10.")
    scores = _scores(model, fixed, target)
    allowed = np.ones(len(scores), dtype=bool)
    if exclude is not None:
        allowed[_find_excluded(exclude, fixed, target, model)] = False
    candidates = np.flatnonzero(allowed)
    best = candidates[_order(scores[candidates], n, largest)]
    labels = model.modes[target].labels
    return Ranking(
        mode=model.modes[target].name,
        indices=best,
        values=clip_values(model.link.mean(scores[best]), model.bounds),
        labels=None if labels is None else labels[best],
    )


def _scores(model: Multilinear, fixed: Mapping[int, int], target: int) -> Floats:
    """Return the linear part along the target mode, unclipped so that ties at a bound keep their order."""
    rows, baseline = [], model.offset
    for m, factor in enumerate(model.factors):
        if m == target:
            rows.append(factor)
            continue
        # Predictions are linear in each row, so the mean row gives the mean prediction exactly.
        rows.append(factor[fixed[m]][None] if m in fixed else factor.mean(axis=0, keepdims=True))
        if model.biases is not None:
            baseline += float(model.biases[m][fixed[m]] if m in fixed else model.biases[m].mean())
    scores: Floats = model.grid(rows).reshape(-1) + model.dtype.type(baseline)
    if model.biases is not None:
        scores += model.biases[target]
    if model.remainder is not None:
        modes = range(len(model.shape))
        picks = tuple(slice(fixed[m], fixed[m] + 1) if m in fixed else slice(None) for m in modes)
        scores += model.remainder[picks].mean(axis=tuple(m for m in modes if m != target))
    return scores


def _find_excluded(exclude: Any, fixed: Mapping[int, int], target: int, model: Multilinear) -> NDArray[Any]:
    """Return candidate indices to leave out: a list of them, or those already observed at these indices."""
    if isinstance(exclude, ObservedTensor):
        if exclude.order != len(model.shape):
            raise InputError(f"exclude must have {len(model.shape)} modes like the model; got {exclude.order}.")
        columns = match_columns(exclude, model.modes, (target, *fixed))
        matches = columns[target] >= 0  # what the model does not know is no candidate
        for m, index in fixed.items():
            matches &= columns[m] == index
        indices: NDArray[Any] = columns[target][matches]
    else:
        indices = np.asarray(exclude)
        if indices.size == 0:
            return np.zeros(0, dtype=np.intp)
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise InputError("exclude must be an observed tensor or a list of indices of the ranked mode.")
    if len(indices) and (indices.min() < 0 or indices.max() >= model.shape[target]):
        raise InputError("exclude holds indices outside the ranked mode.")
    return indices


def _order(scores: Floats, n: int, largest: bool) -> NDArray[np.intp]:
    """Order the n best; ties keep the order of their indices."""
    keys = -scores if largest else scores
    if n < len(keys):
        threshold = np.partition(keys, n - 1)[n - 1]
        near = np.flatnonzero(keys <= threshold)
    else:
        near = np.arange(len(keys))
    chosen: NDArray[np.intp] = near[np.argsort(keys[near], kind="stable")][:n]
    return chosen
