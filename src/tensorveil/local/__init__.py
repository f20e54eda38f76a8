"""Perturb a tensor before it leaves its owner: proven mechanisms, how to choose one, what to do with many reports."""

from tensorveil.local.dtldp import DTLDP
from tensorveil.local.gaussian import ExactGaussian
from tensorveil.local.hybrid import Hybrid
from tensorveil.local.piecewise import Piecewise
from tensorveil.local.privunit import PrivUnit
from tensorveil.local.privunitg import PrivUnitG
from tensorveil.local.randomized_response import RandomizedResponse
from tensorveil.local.staircase import Staircase

__all__ = [
    "DTLDP",
    "ExactGaussian",
    "Hybrid",
    "Piecewise",
    "PrivUnit",
    "PrivUnitG",
    "RandomizedResponse",
    "Staircase",
]
