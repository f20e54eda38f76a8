"""How a ledger adds up charges that were chosen one after the other, each with knowledge of earlier releases.

Composing the events by whichever bound is smallest in the end would not be sound: an analyst who picks the next kind of
mechanism after seeing a release could gain from it. So a ledger settles on one composition at its first charge, before
anything is released, and converts every later charge to that currency:

- "sum": epsilon and delta add up (Rogers, Roth, Ullman and Vadhan 2016);
- "gaussian": mu^2 adds up (Smith and Thakurta 2022), pure events count with the mu that contains them;
- "zcdp": rho adds up (Feldman and Zrnic 2021), Gaussian events count mu^2/2 and pure ones epsilon^2/2.

Proofs: docs/explanation/accounting.md#ledger.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from tensorveil.errors import InputError
from tensorveil.privacy.accounting import epsilon_for, mu_of, rho_of
from tensorveil.privacy.budget import Budget
from tensorveil.privacy.errors import BudgetExceededError
from tensorveil.privacy.events import ZCDP, Approximate, Composed, Event, Gaussian
from tensorveil.privacy.exact import (
    at_least,
    at_most,
    exactly,
    probability,
    root_at_most,
    show_at_least,
    show_at_most,
)
from tensorveil.privacy.gdp import gdp_mu
from tensorveil.privacy.profile import profile_of
from tensorveil.privacy.zcdp import zcdp_largest_rho

__all__ = ["COMPOSITIONS", "Balance", "admit", "balances", "settle"]

COMPOSITIONS = ("sum", "gaussian", "zcdp")


@dataclass(frozen=True, kw_only=True)
class Balance:
    """An amount spent or left: (epsilon, delta), its fraction of the budget, and the event that it amounts to."""

    epsilon: float
    delta: float
    fraction: float
    event: Event


def settle(event: Event, budget: Budget) -> str:
    """Choose the composition in which the first charge costs least."""
    profile = profile_of(event)
    if budget.delta == 0 or profile.by_pair or profile.sampled or not profile.smooth:
        return "sum"
    if profile.rho:
        return "zcdp"
    if profile.pure and exactly(mu_of(profile, pure=True)) ** 2 > _limit("gaussian", budget):
        return "sum"
    return "gaussian"


def admit(event: Event, charged: Iterable[Event], composition: str, budget: Budget, delta: float | None) -> Event:
    """Convert an event to the ledger's currency, or refuse it if it would exceed the budget. Only a sum needs delta."""
    charged = list(charged)
    if not profile_of(event).private:
        raise BudgetExceededError(
            "the charge has no finite cost: something in it is not protected. Nothing was charged."
        )
    if composition == "sum":
        return _admit_sum(event, charged, budget, delta)
    cost = _convert(event, composition)
    if _amount(composition, [*charged, cost]) > _limit(composition, budget):
        raise _refusal(epsilon_for(cost, budget.delta), charged, composition, budget)
    return cost


def _admit_sum(event: Event, charged: list[Event], budget: Budget, delta: float | None) -> Event:
    profile = profile_of(event)
    deltas = sum((exactly(cost.delta) for cost in charged if isinstance(cost, Approximate)), Fraction(0))
    left = exactly(budget.delta) - deltas
    if profile.smooth:
        share = at_most(left) if delta is None else probability("delta", delta)
    else:
        share = at_least(profile.delta)
    epsilon = epsilon_for(event, share)
    total = _amount("sum", charged) + (exactly(epsilon) if math.isfinite(epsilon) else 2 * exactly(budget.epsilon))
    if share > left or total > exactly(budget.epsilon):
        raise _refusal(epsilon, charged, "sum", budget, share)
    return Approximate(epsilon, share)


def _convert(event: Event, composition: str) -> Event:
    profile = profile_of(event)
    if profile.by_pair or profile.sampled or (composition == "gaussian" and profile.rho):
        raise InputError(
            f"this ledger composes by {composition}, which this kind of event does not allow. "
            "Keep such releases in a ledger created with composition='sum'."
        )
    if composition == "gaussian":
        return Gaussian(mu_of(profile, pure=True))
    return ZCDP(rho_of(profile, pure=True))


def _amount(composition: str, charged: Iterable[Event]) -> Fraction:
    """Add up charges in the ledger's currency."""
    total = Fraction(0)
    for cost in charged:
        if composition == "sum" and isinstance(cost, Approximate):
            total += exactly(cost.epsilon)
        elif composition == "gaussian" and isinstance(cost, Gaussian):
            total += exactly(cost.mu) ** 2
        elif composition == "zcdp" and isinstance(cost, ZCDP):
            total += exactly(cost.rho)
        else:
            raise InputError("a charge is not in the ledger's currency. Was the file written by this program?")
    return total


def _limit(composition: str, budget: Budget) -> Fraction:
    """Return the most that may be charged, in the ledger's currency."""
    if composition == "sum":
        return exactly(budget.epsilon)
    if composition == "gaussian":
        return exactly(gdp_mu(budget.epsilon, budget.delta)) ** 2
    return exactly(zcdp_largest_rho(budget.epsilon, budget.delta))


def balances(charged: Iterable[Event], composition: str | None, budget: Budget) -> tuple[Balance, Balance]:
    """Return what was spent and what is left. Spent rounds up, left rounds down."""
    charged = list(charged)
    if composition is None:
        whole = Balance(
            epsilon=budget.epsilon,
            delta=budget.delta,
            fraction=1.0,
            event=Approximate(budget.epsilon, budget.delta),
        )
        return Balance(epsilon=0.0, delta=0.0, fraction=0.0, event=Composed(())), whole
    amount, limit = _amount(composition, charged), _limit(composition, budget)
    rest = max(limit - amount, Fraction(0))
    if composition == "sum":
        deltas = sum((exactly(cost.delta) for cost in charged if isinstance(cost, Approximate)), Fraction(0))
        spent: Event = Approximate(at_least(amount), at_least(deltas))
        left: Event = Approximate(at_most(rest), max(0.0, at_most(exactly(budget.delta) - deltas)))
    elif composition == "gaussian":
        spent, left = Gaussian(mu_of(profile_of(Composed(charged)), pure=False)), Gaussian(root_at_most(rest))
    else:
        spent, left = ZCDP(at_least(amount)), ZCDP(at_most(rest))
    return _balance(spent, amount / limit, budget), _balance(left, rest / limit, budget)


def _balance(event: Event, fraction: Fraction, budget: Budget) -> Balance:
    if isinstance(event, Approximate):
        return Balance(epsilon=event.epsilon, delta=event.delta, fraction=float(fraction), event=event)
    epsilon = epsilon_for(event, budget.delta)
    return Balance(epsilon=epsilon, delta=budget.delta, fraction=float(fraction), event=event)


def _refusal(
    epsilon: float, charged: list[Event], composition: str, budget: Budget, delta: float | None = None
) -> BudgetExceededError:
    """Return an error that says what was requested and what is left; both are public numbers."""
    left = balances(charged, composition, budget)[1]
    asked = _pair(epsilon, budget.delta if delta is None else delta)
    remedy = "Ask for a smaller epsilon, or release nothing more."
    if budget.delta == 0 and delta:
        remedy = "This ledger has no delta at all: release with delta=0, or keep the data's budget in one that has."
    return BudgetExceededError(
        f"the charge would exceed the budget {budget}: by {composition}, as this ledger composes, it costs {asked}; "
        f"epsilon = {show_at_most(left.epsilon)}, delta = {show_at_most(left.delta)} is left. Nothing was charged. "
        f"{remedy}"
    )


def _pair(epsilon: float, delta: float) -> str:
    return f"epsilon = {show_at_least(epsilon)}, delta = {show_at_least(delta)}"
