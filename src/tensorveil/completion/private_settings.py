"""The settings that the private estimators share. What a guarantee rests on has no default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorveil.completion.charging import AnyLedger
from tensorveil.completion.params import Params
from tensorveil.privacy import Unit


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSettings(Params):
    """What to promise, and how a private fit is charged.

    Parameters
    ----------
    epsilon, delta
        The budget. With delta=0 noise is Laplace and norm-shaped and epsilon is pure; with a delta noise may be
        Gaussian. A delta above 0.01, or no smaller than one in all units, promises nothing and is refused. Units are
        counted by what is public: entries in unit "value", the longest mode of the declared shape in unit "entry", the
        declared size of the protected mode in unit "slice".
    accept_delta
        Allow such a delta all the same. The guarantee's sentence then says what it means.
    bounds
        Lowest and highest possible value: declared, never read off the data. Values outside are clipped.
    method
        "auto" measures in stages in unit "value", deciding by what it has released, and chooses from public facts in
        the others; or the name of one method of the unit, as listed in `tensorveil.mechanisms.names.BY_UNIT`.
    ledger, purpose
        A `Ledger` or its path: the fit is charged there, for this purpose, before anything is computed.
    threads
        Number of threads; default: all processors this process may use.
    random_state
        Seed of starting points. It never seeds noise.
    noise_seed
        For tests and studies only: seeded noise, and a guarantee that says NOT PRIVATE.
    """

    epsilon: float
    delta: float
    unit: str | Unit
    bounds: Sequence[float]
    shape: Sequence[int] | Mapping[str, int] | None
    accept_delta: bool = False
    method: str = "auto"
    ledger: AnyLedger = None
    purpose: str = "private completion"
    threads: int | None = None
    random_state: Any = None
    noise_seed: int | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class CentralSettings(PrivateSettings):
    """What single values or entries need besides.

    Parameters
    ----------
    unit
        "value": neighbours differ in one value, and positions (who has rated what) are public. "entry": neighbours
        differ by one entry, and positions are private; ``shape`` must be declared, by public lists of labels too
        (`tensorveil.read_privately`). To protect all that one user did, use `UserLevelCP`, `UserLevelTucker` or
        `UserLevelMatrix`.
    shape
        Shape of the tensor; for unit "entry" declared: in the order of the modes or by name, {"user": 1000}. Modes with
        a public list of labels need none.
    spread
        A standard deviation of the values, if one is known without looking at the data. Only the planner uses it, for
        its guess of the error and, with a delta, of the better kind of noise; otherwise a tenth of the bounds' width.
    sweeps, restarts
        Of the solver: post-processing, so any number costs the same budget.
    smooth
        In unit "value": modes in which neighbouring indices are alike, such as ``{"day": "walk", "hour": "cycle"}``,
        and two modes that make one time, ``{("day", "hour"): "walk"}``. It is what somebody knows of the subject, not
        of the data, so it costs no budget; how alike they are, if at all, is learnt from noisy numbers.
    loss
        In unit "value": what values are, "poisson" for counts and "bernoulli" for yes and no. What was measured is
        decoded so that predictions are positive counts or chances. By default it is decoded by squared error.
    """

    shape: Sequence[int] | Mapping[str, int] | None = None
    spread: float | None = None
    sweeps: int = 100
    restarts: int = 3
    smooth: Mapping[Any, str] | None = None
    loss: str | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class UserLevelSettings(PrivateSettings):
    """What whole users need besides.

    Parameters
    ----------
    unit
        "slice:user" or `Unit.slice("user")`: neighbours differ by all entries of one index of the mode "user". With
        `Unit.slice("user", contributions=50)` fifty entries of one user count in full; by default their number follows
        from the budget.
    epsilon, delta
        The budget. Noise is Gaussian, so delta must be above 0.
    shape
        Declared shape of the tensor, in the order of the modes or by name, {"user": 1000}; for the protected mode, an
        upper bound. Modes with a public list of labels (`tensorveil.read_privately`) need none.
    side
        Public tables of features of the other modes, such as ``{"film": films}``: pandas, polars or Arrow, with a
        column named as the mode that holds its labels (or indices). Users' tastes for features stay with the users, so
        tables cost no budget; the guarantee says that they were taken as public. They must not be made from the data.
    """

    side: Mapping[str, Any] | None = None
