"""Perturb a tensor before it leaves its owner: proven mechanisms, how to choose one, what to do with many reports."""

from tensorveil.local.aggregate import LowRankMean, MeanEstimate, combine, low_rank_mean, mean_of
from tensorveil.local.allocation import weights_of_importance
from tensorveil.local.basis import Basis
from tensorveil.local.choose import Choice, choose
from tensorveil.local.contract import LocalMechanism
from tensorveil.local.dtldp import DTLDP
from tensorveil.local.gaussian import ExactGaussian
from tensorveil.local.hybrid import Hybrid
from tensorveil.local.piecewise import Piecewise
from tensorveil.local.privunit import PrivUnit
from tensorveil.local.privunitg import PrivUnitG
from tensorveil.local.projected import Projected, project
from tensorveil.local.randomized_response import RandomizedResponse
from tensorveil.local.shuffle import shuffled, shuffled_epsilon
from tensorveil.local.staircase import Staircase
from tensorveil.local.storage import mechanism_from_json, mechanism_to_json

__all__ = [
    "DTLDP",
    "Basis",
    "Choice",
    "ExactGaussian",
    "Hybrid",
    "LocalMechanism",
    "LowRankMean",
    "MeanEstimate",
    "Piecewise",
    "PrivUnit",
    "PrivUnitG",
    "Projected",
    "RandomizedResponse",
    "Staircase",
    "choose",
    "combine",
    "low_rank_mean",
    "mean_of",
    "mechanism_from_json",
    "mechanism_to_json",
    "project",
    "shuffled",
    "shuffled_epsilon",
    "weights_of_importance",
]
