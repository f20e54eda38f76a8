"""How good a fitted model is at cells that it was not fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tensorveil.completion.settings import whole_number
from tensorveil.errors import InputError
from tensorveil.memory import check_memory
from tensorveil.models import CPModel, TuckerModel, measures
from tensorveil.models.evaluate import baseline_at
from tensorveil.models.indexing import like_model
from tensorveil.solvers.losses import LOSSES, deviance_explained
from tensorveil.solvers.task import Array
from tensorveil.tensor import ObservedTensor, StoredTensor
from tensorveil.tensor.modes import find_axis
from tensorveil.tensor.unlisted import known_cells

# So many rows are ranked at a time.
_CHUNK = 512


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """How well the candidates of one mode are ranked: means over rows, and over links for ``mrr`` and ``hits``.

    A row is one choice of indices of all other modes. Recall is of as many as can be among the ``k`` best. Ranks are
    among candidates that are not known to be right (filtered), equal scores counting half.
    """

    along: str
    k: int
    rows: int
    links: int
    recall: float
    ndcg: float
    mrr: float
    hits: float


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Errors of a model at cells with known values, which its own loss and others measure.

    Parameters
    ----------
    cells, sampled
        How many cells were compared; and whether the zeros among them are a sample.
    loss, deviance, explained
        The model's loss, its mean over the cells, and the share of the best constant's that the model takes away. For
        "gaussian" the deviance is the mean squared error. None for a loss of the user's own.
    rmse
        Root mean squared error.
    mean_predicted, mean_found
        Mean prediction, and mean value.
    auc, average_precision
        Where all values are 0 or 1, and both occur.
    calibration
        Mean predictions and values in ten groups.
    ranking
        Where ``along`` was given.
    left_out
        How many cells of a file were not compared, as the model does not know their labels.
    """

    cells: int
    sampled: bool
    loss: str
    deviance: float | None
    explained: float | None
    rmse: float
    mean_predicted: float
    mean_found: float
    auc: float | None
    average_precision: float | None
    calibration: measures.Calibration
    ranking: Ranked | None = None
    left_out: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return {**asdict(self), "calibration": {**asdict(self.calibration), "error": self.calibration.error}}


def evaluate(
    model: CPModel | TuckerModel | Any,
    held_out: ObservedTensor | StoredTensor,
    *,
    exclude: ObservedTensor | Sequence[ObservedTensor] = (),
    along: str | int | None = None,
    k: int = 20,
    seed: int = 0,
) -> Evaluation:
    """Measure a model, or a fitted estimator, at held-out cells.

    If these data are private, so is every number: a diagnostic and no part of a release.

    Parameters
    ----------
    model
        A model, or an estimator that has been fitted.
    held_out
        The cells to compare with. Where its unlisted cells are zeros they count too: all of them in small tensors, a
        random part in large ones. Of a store one part after the other is compared; only values and predictions are in
        memory at once.
    exclude
        What is known already, such as the tensor that was fitted: its cells are not among the zeros, and in rankings
        not among the candidates.
    along
        A mode to rank: for every choice of the other modes that has a positive held-out value, how high its candidates
        with such a value come.
    k
        How many of the best count in recall, NDCG and hits.
    seed
        Of the random part.

    Examples
    --------
    >>> import tensorveil as tv
    >>> links = tv.ObservedTensor([[0, 0], [1, 1], [2, 0]], [1, 1, 1], shape=(3, 2), unlisted="zero")
    >>> fitted = tv.LowRankMatrix(2, loss="bernoulli", regularization=0.01, random_state=0).fit(links)
    >>> tv.evaluate(fitted, links).auc
    1.0
    """
    whole_number("k", k, 1, 20)
    fitted: CPModel | TuckerModel = getattr(model, "model_", model)
    if isinstance(held_out, StoredTensor):
        _check_numbered_alike(held_out, fitted)
    else:
        held_out = like_model(held_out, fitted.modes, fitted.shape)
    if held_out.shape != fitted.shape:
        raise InputError(
            "held_out must have the shape of the model. Read it with the model's labels: modes=model.modes."
        )
    loss = LOSSES.get(fitted.loss)
    if loss is not None:
        loss.check(held_out.entries)
    known = [
        like_model(each, fitted.modes, fitted.shape)
        for each in ((exclude,) if isinstance(exclude, ObservedTensor) else exclude)
    ]
    if isinstance(held_out, StoredTensor):
        _check_passed_over(held_out, known, along)
        truth, predicted = _pass_over(fitted, held_out)
        weights = np.ones(len(truth))
    else:
        cells = known_cells(held_out, without=[each.columns for each in known], seed=seed)
        predicted = np.asarray(fitted.predict(cells.columns.T), dtype=np.float64)
        truth, weights = cells.values, cells.weights
    total = float(weights.sum())
    deviance, explained = None, None
    if loss is not None:  # on the scale of its usual link: a deviance looks at expected values alone
        linear = loss.link.linear(predicted)
        deviance = float(np.sum(weights * loss.value(truth, linear)) / total)
        explained = deviance_explained(loss, linear, truth, weights)
    binary = bool(np.all((truth == 0) | (truth == 1)) and 0 < np.sum(truth) < len(truth))
    return Evaluation(
        cells=len(truth),
        sampled=bool(np.any(weights != 1)),
        loss=fitted.loss,
        deviance=deviance,
        explained=explained,
        rmse=float(np.sqrt(np.sum(weights * (predicted - truth) ** 2) / total)),
        mean_predicted=float(np.sum(weights * predicted) / total),
        mean_found=float(np.sum(weights * truth) / total),
        auc=measures.auc(truth, predicted, weights) if binary else None,
        average_precision=measures.average_precision(truth, predicted, weights) if binary else None,
        calibration=measures.calibration(truth, predicted, weights),
        ranking=None
        if along is None or isinstance(held_out, StoredTensor)
        else _rank(fitted, held_out, known, find_axis(fitted.modes, along), k),
    )


def _check_numbered_alike(stored: StoredTensor, model: CPModel | TuckerModel) -> None:
    """Refuse a store whose labels are others than the model's: its entries are compared as they are numbered."""
    for own, known in zip(stored.modes, model.modes, strict=False):
        if own.labels is not None and known.labels is not None and not np.array_equal(own.labels, known.labels):
            raise InputError(
                "held_out: the store has other labels than the model. Give the files that it was made of, or load it, "
                "if it fits: stored.load()."
            )


def _check_passed_over(stored: StoredTensor, known: Sequence[ObservedTensor], along: str | int | None) -> None:
    """Refuse what one pass over a store cannot tell."""
    if along is not None or known or stored.unlisted == "zero":
        raise InputError(
            "rankings and unlisted zeros need all entries in memory, and a StoredTensor keeps them on disk. Leave out "
            "along and exclude; or load it, if it fits: stored.load()."
        )
    if not stored.n_entries:
        raise InputError("held_out: the store holds no entry. Check the files that it was made of.")
    check_memory(6 * 8 * stored.n_entries, "comparing a store", "Compare a smaller part: split_store makes one.")


def _pass_over(model: CPModel | TuckerModel, stored: StoredTensor) -> tuple[Array, Array]:
    """Return the values of a store and a model's predictions of them, part after part."""
    truth, predicted, at = np.empty(stored.n_entries), np.empty(stored.n_entries), 0
    for block in stored.entries.blocks():
        here = slice(at, at + len(block.values))
        truth[here], predicted[here] = block.values, model.predict(block.columns.T)
        at = here.stop
    return truth, predicted


def _rank(
    model: CPModel | TuckerModel, held_out: ObservedTensor, known: Sequence[ObservedTensor], along: int, k: int
) -> Ranked:
    """Rank the candidates of a mode for every row that has a positive held-out value."""
    rows, links = _group(held_out, along)
    if not rows:
        raise InputError("held_out must have positive values to rank candidates by. Leave out along.")
    seen: dict[tuple[int, ...], list[int]] = {}
    for tensor in known:
        for key, places in zip(*_group(tensor, along), strict=True):
            seen.setdefault(key, []).extend(places)
    recall: list[float] = []
    ndcg: list[float] = []
    ranks: list[Array] = []
    for start in range(0, len(rows), _CHUNK):
        scores = _scores(model, rows[start : start + _CHUNK], along)
        for row, found, candidates in zip(rows[start:], links[start:], scores, strict=False):
            positives = np.setdiff1d(found, seen.get(row, []))
            if not len(positives):
                continue
            candidates[seen.get(row, [])] = -np.inf
            recall.append(measures.recall_at(candidates, positives, k))
            ndcg.append(measures.ndcg_at(candidates, positives, k))
            ranks.append(measures.rank_of(candidates, positives))
    found_at = np.concatenate(ranks)
    return Ranked(
        along=model.modes[along].name,
        k=k,
        rows=len(recall),
        links=len(found_at),
        recall=float(np.mean(recall)),
        ndcg=float(np.mean(ndcg)),
        mrr=float(np.mean(1 / found_at)),
        hits=float(np.mean(found_at <= k)),
    )


def _group(tensor: ObservedTensor, along: int) -> tuple[list[tuple[int, ...]], list[list[int]]]:
    """Return the indices of the other modes that have a positive value, and for each the indices of ``along``."""
    columns = tensor.columns[:, tensor.values > 0]
    others = np.delete(columns, along, axis=0)
    kinds, place = np.unique(others, axis=1, return_inverse=True)
    order = np.argsort(place.reshape(-1), kind="stable")
    parts = np.split(columns[along][order], np.cumsum(np.bincount(place.reshape(-1)))[:-1]) if len(order) else []
    return [tuple(kind) for kind in kinds.T.tolist()], [part.tolist() for part in parts]


def _scores(model: CPModel | TuckerModel, rows: Sequence[tuple[int, ...]], along: int) -> Array:
    """Return the linear part of every candidate at these indices of the other modes, (rows, candidates)."""
    columns = np.insert(np.array(rows, dtype=np.int32).T, along, 0, axis=0)
    scores = model.design(columns, along).astype(np.float64) @ model.factors[along].T.astype(np.float64)
    base = np.asarray(baseline_at(model, columns, without=along), dtype=np.float64)
    scores += base.reshape(-1, 1) if base.ndim else base
    if model.biases is not None:
        scores += model.biases[along]
    out: Array = scores
    return out
