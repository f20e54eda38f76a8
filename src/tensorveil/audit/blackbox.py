"""The black-box audit: draw outputs on neighbours, choose events on some, confirm them on the others.

For a true (epsilon, delta) claim every event E satisfies P[M(x) in E] <= e^epsilon P[M(x') in E] + delta. An event is
fixed before the confirming draws, so its hits are binomial, and Clopper-Pearson bounds turn them into a lower bound of
epsilon that is wrong with probability at most its share of 1 - confidence; the shares of all events of all pairs add up
to 1 - confidence. Nothing is assumed about the mechanism except that its runs are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.claim import Claim, lower_rate, upper_rate
from tensorveil.audit.cuts import Cut, choose_cuts
from tensorveil.audit.sampling import Mechanism, Progress, Sampler
from tensorveil.audit.scores import Score, law_scores, replace_infinities
from tensorveil.audit.structure import finite_scores, structural_scores
from tensorveil.audit.verdict import CurvePoint, Verdict, Witness
from tensorveil.errors import InputError

Array = NDArray[Any]
Pair = tuple[Any, Any]
_Confirmed = tuple[Witness, tuple[CurvePoint, ...]]

LEAST_SAMPLES = 40
KINDS = ("law", "atom", "support", "low bits")
_CHOOSING_SHARE, _MOST_CHOOSING = 0.25, 200_000
_MOST_NUMBERS = 1 << 23  # kept for choosing events, so that wide outputs do not fill the memory


def audit(
    mechanism: Mechanism,
    neighbours: Pair | Sequence[Pair],
    claim: Claim,
    *,
    samples: int = 100_000,
    confidence: float = 0.999,
    seed: int = 0,
    batched: bool = False,
    kinds: Collection[str] = KINDS,
    scores: Mapping[str, Callable[[Array], Array]] | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Try to refute a claim about a mechanism from its outputs alone.

    Parameters
    ----------
    mechanism
        ``mechanism(data, rng)`` returns one output: a number or an array, always of the same size. With ``batched`` it
        is ``mechanism(data, rng, n)`` and returns n outputs. Use ``rng`` (numpy's) or randomness of your own.
    neighbours
        A pair of data sets that differ in one unit, or a list of pairs, of which the worst counts. Choose extreme
        ones: values at their bounds, rows with a single entry.
    claim
        `Claim(epsilon=...)`, with a delta, or `Claim(mu=...)`.
    samples
        Runs of the mechanism on each neighbour. A quarter of them (at most 200,000, fewer if outputs are wide) choose
        the events, the rest confirm them.
    confidence
        With at least this probability a true claim is not called violated.
    seed
        Seeds ``rng`` and nothing else.
    kinds
        What to look for: "law" (smooth differences), "atom" (single values), "support" (remainders, decimals), "low
        bits". All of them unless you want to know about the law alone.
    scores
        Further functions of outputs (n, d) by name, such as an attack of your own.
    progress
        Called with the runs done and the runs to do.

    Examples
    --------
    >>> def half_the_noise(data, rng, n):
    ...     return sum(data) + rng.laplace(scale=0.5, size=n)
    >>> verdict = audit(half_the_noise, ([0, 1, 1], [0, 1, 0]), Claim(epsilon=1.0), samples=20_000, batched=True)
    >>> verdict.violated, verdict.lower_bound > 1.5
    (True, True)
    """
    pairs = [neighbours] if isinstance(neighbours, tuple) else list(neighbours)
    _check(pairs, samples, confidence, kinds)
    sampler = Sampler(mechanism, np.random.default_rng(seed), batched, progress, 2 * samples * len(pairs))
    most = min(_MOST_CHOOSING, _MOST_NUMBERS // sampler.width(pairs[0][0]))
    choosing = max(int(min(_CHOOSING_SHARE * samples, most)), LEAST_SAMPLES // 2)
    draws = samples - choosing
    error = (1.0 - confidence) / len(pairs)
    found: list[_Confirmed] = []
    for index, pair in enumerate(pairs):
        cuts = _choose(sampler, pair, claim, choosing, draws, kinds, scores or {})
        found += _confirm(sampler, pair, index, cuts, claim, draws, error)
    found.sort(key=lambda each: -each[0].level)
    strongest = _share_error(1, error)[0]
    return Verdict(
        claim=claim,
        lower_bound=found[0][0].level if found else 0.0,
        confidence=confidence,
        draws=samples,
        chosen_on=choosing,
        events=len(found),
        ceiling=claim.ceiling(draws, strongest),
        detectable=claim.detectable(draws, strongest),
        witnesses=tuple(witness for witness, _ in found),
        curve=found[0][1] if found else (),
    )


def _check(pairs: list[Pair], samples: int, confidence: float, kinds: Collection[str]) -> None:
    if not pairs or any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise InputError(
            "neighbours must be a pair (x, x') or a list of pairs. Try neighbours=([0.0], [1.0]) as a tuple."
        )
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < LEAST_SAMPLES:
        raise InputError(f"samples must be an integer of at least {LEAST_SAMPLES}. Try samples=100000.")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1; got {confidence}. Try confidence=0.999.")
    if not set(kinds) <= set(KINDS):
        raise InputError(f"kinds must be among {', '.join(KINDS)}; got {', '.join(map(str, kinds))}.")


def _share_error(cuts: int, error: float) -> list[float]:
    """Share the probability of error among cuts: half for the most promising one, the rest for the others."""
    return ([error / 2] + [error / 2 / max(cuts - 1, 1)] * (cuts - 1))[:cuts]


def _choose(
    sampler: Sampler,
    pair: Pair,
    claim: Claim,
    choosing: int,
    draws: int,
    kinds: Collection[str],
    given: Mapping[str, Callable[[Array], Array]],
) -> list[Cut]:
    """Learn scores from half of the draws for choosing, and their thresholds from the other half."""
    outputs = [sampler.draw(data, choosing) for data in pair]
    half = choosing // 2
    learn = [rows[:half] for rows in outputs]
    scores = [Score(kind="given", name=name, function=function) for name, function in given.items()]
    scores += finite_scores(*learn)
    clean = [replace_infinities(rows) for rows in learn]
    with np.errstate(all="ignore"):  # outputs may be any numbers
        if "law" in kinds:
            scores += law_scores(*clean)
        scores += structural_scores(learn[0], learn[1], kinds, claim)
    return choose_cuts(scores, outputs[0][half:], outputs[1][half:], claim, draws)


def _confirm(
    sampler: Sampler, pair: Pair, index: int, cuts: list[Cut], claim: Claim, draws: int, error: float
) -> list[_Confirmed]:
    """Count fresh draws above each cut; return what each cut shows, and its trade-off curve."""
    counts = [
        [sum(column) for column in zip(*([cut.count(rows) for cut in cuts] for rows in chunks), strict=True)]
        for chunks in (sampler.chunks(data, draws) for data in pair)
    ]
    found = []
    for cut, share, *both in zip(cuts, _share_error(len(cuts), error), *counts, strict=True):
        witness = _describe(cut, index, (int(both[0][0]), int(both[1][0])), claim, draws, share)
        curve = _draw_curve(both[cut.favoured][1:], both[1 - cut.favoured][1:], draws, share)
        found.append((witness, curve))
    return found


def _describe(cut: Cut, pair: int, hits: tuple[int, int], claim: Claim, draws: int, error: float) -> Witness:
    """Return what a cut shows, in terms of its complement where that shows more."""
    at_least = lower_rate(hits[cut.favoured], draws, error / 2)
    at_most = upper_rate(hits[1 - cut.favoured], draws, error / 2)
    inside, outside = claim.event_level(at_least, at_most), claim.event_level(1.0 - at_most, 1.0 - at_least)
    favoured, side = cut.favoured, "at least"
    if outside > inside:
        favoured, side, hits = 1 - favoured, "below", (draws - hits[0], draws - hits[1])
    return Witness(
        kind=cut.score.kind,
        event=_describe_event(cut, side),
        pair=pair,
        favoured=favoured,
        hits=hits,
        draws=draws,
        level=float(max(inside, outside)),
    )


def _describe_event(cut: Cut, side: str) -> str:
    score = cut.score
    if score.indicator:
        return score.name if side == "at least" else f"not: {score.name}"
    examples = score.explain(cut.threshold) if score.explain is not None and side == "at least" else ""
    return f"{score.name} {side} {cut.threshold:.6g}" + (f", such as {examples}" if examples else "")


def _draw_curve(likely: Array, unlikely: Array, draws: int, error: float) -> tuple[CurvePoint, ...]:
    highest = upper_rate(unlikely, draws, error / 2)
    missed = 1.0 - lower_rate(likely, draws, error / 2)
    points = zip(unlikely / draws, 1.0 - likely / draws, highest, missed, strict=True)
    return tuple(
        CurvePoint(false_positive=float(a), missed=float(b), false_positive_at_most=float(c), missed_at_most=float(d))
        for a, b, c, d in points
    )
