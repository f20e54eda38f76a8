"""Two kinds of subjects: outputs drawn on neighbours, and one run with many canaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.blackbox import KINDS, Pair, audit
from tensorveil.audit.claim import Claim
from tensorveil.audit.one_run import Canaries, audit_one_run
from tensorveil.audit.sampling import Progress
from tensorveil.audit.verdict import Verdict
from tensorveil.noise import SeededSource

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class BlackBox:
    """A subject whose outputs are drawn on neighbours. ``neighbours`` is called when it is audited."""

    name: str
    unit: str
    claim: Claim
    proven: Claim | None
    about: str
    neighbours: Callable[[], Sequence[Pair]]
    mechanism: Callable[..., Any]
    batched: bool = True
    kinds: tuple[str, ...] = KINDS
    samples: int = 100_000
    many: int = 1_000_000

    def audit(
        self, *, samples: int | None = None, confidence: float = 0.999, seed: int = 0, progress: Progress | None = None
    ) -> Verdict:
        """Try to refute the claim from outputs."""
        return audit(
            self.mechanism,
            list(self.neighbours()),
            self.claim,
            samples=samples or self.samples,
            confidence=confidence,
            seed=seed,
            batched=self.batched,
            kinds=self.kinds,
            progress=progress,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class OneRun:
    """A subject that is trained once, with many canaries, of which a share is guessed."""

    name: str
    unit: str
    claim: Claim
    proven: Claim | None
    about: str
    run: Callable[[Array, np.random.Generator], Array]
    samples: int = 2_000
    many: int = 1_000_000
    guessed: float = 0.2

    def audit(
        self, *, samples: int | None = None, confidence: float = 0.999, seed: int = 0, progress: Progress | None = None
    ) -> Verdict:
        """Try to refute the claim from one run; ``samples`` is the number of canaries."""
        count = samples or self.samples
        canaries = Canaries(count=count, guesses=max(int(self.guessed * count), 1))
        return audit_one_run(self.run, canaries, self.claim, confidence=confidence, seed=seed)


def noisy_statistic(
    name: str, unit: str, claim: Claim, pair: Pair, mechanism: Callable[[Any, np.random.Generator, int], Array]
) -> BlackBox:
    """Return the subject of a proven statistic that can be drawn in bulk."""
    return BlackBox(
        name=name,
        unit=unit,
        claim=claim,
        proven=claim,
        about="noisy statistics",
        neighbours=lambda: [pair],
        mechanism=mechanism,
    )


def source(rng: np.random.Generator) -> SeededSource:
    """Return the release's generator with a random key, so that an audit can be repeated; its law is the same."""
    return SeededSource(int(rng.integers(2**62)))
