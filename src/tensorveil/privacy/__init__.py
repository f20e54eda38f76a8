"""What is protected, what it costs, and what was spent: unit, budget, guarantee, accounting, ledger."""

from tensorveil.privacy.accounting import delta_for, epsilon_for
from tensorveil.privacy.budget import Budget
from tensorveil.privacy.calibration import gaussian_mu, gaussian_sigma, split_gaussian, split_pure, zcdp_rho
from tensorveil.privacy.errors import BudgetExceededError, LedgerError
from tensorveil.privacy.events import (
    ZCDP,
    Approximate,
    Composed,
    Event,
    Gaussian,
    NonPrivate,
    Parallel,
    Pure,
    Repeated,
    SampledGaussian,
    event_from_json,
    event_to_json,
)
from tensorveil.privacy.filters import Balance
from tensorveil.privacy.guarantee import Guarantee, Part
from tensorveil.privacy.ledger import Charge, Ledger, Statement
from tensorveil.privacy.unit import Unit

__all__ = [
    "ZCDP",
    "Approximate",
    "Balance",
    "Budget",
    "BudgetExceededError",
    "Charge",
    "Composed",
    "Event",
    "Gaussian",
    "Guarantee",
    "Ledger",
    "LedgerError",
    "NonPrivate",
    "Parallel",
    "Part",
    "Pure",
    "Repeated",
    "SampledGaussian",
    "Statement",
    "Unit",
    "delta_for",
    "epsilon_for",
    "event_from_json",
    "event_to_json",
    "gaussian_mu",
    "gaussian_sigma",
    "split_gaussian",
    "split_pure",
    "zcdp_rho",
]
