"""Learn classifiers from tensors that their owners keep private: the data, features of them, or model parameters.

    type I    samples -> report -> the server learns from the reports
    type II   samples -> features of a public network -> report -> the server learns a classifier
    type III  users train; rounds of bounded sums with noise -> shared parameters, or moments of the classes

Torch is imported when the first network is made; reports and discriminants do not need it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tensorveil.errors import MissingDependencyError
from tensorveil.learning.contrasts import ClassContrasts, signal_of_users
from tensorveil.learning.discriminant import Discriminant, Moments, fit_discriminant, moments_of_reports
from tensorveil.learning.encoding import Directions, principal_directions
from tensorveil.learning.linear import Linear
from tensorveil.learning.reports import Reports, learn_from_directions, report
from tensorveil.learning.rounds import Learned, LearningRounds, learn_in_rounds
from tensorveil.learning.samples import Samples, share_out, subset
from tensorveil.learning.scores import majority_f1, weighted_f1
from tensorveil.learning.statistics import ClassMeans, ClassMoments

if TYPE_CHECKING:
    from tensorveil.learning.features import Extractor, train_extractor
    from tensorveil.learning.gradients import PrivateGradients, record_gradients
    from tensorveil.learning.networks import Network
    from tensorveil.learning.parameters import AveragedParameters
    from tensorveil.learning.training import Training, parameters_of, predict, train

_NEED_TORCH = {
    "AveragedParameters": "parameters",
    "Extractor": "features",
    "Network": "networks",
    "PrivateGradients": "gradients",
    "Training": "training",
    "parameters_of": "training",
    "predict": "training",
    "record_gradients": "gradients",
    "train": "training",
    "train_extractor": "features",
}

__all__ = [
    "AveragedParameters",
    "ClassContrasts",
    "ClassMeans",
    "ClassMoments",
    "Directions",
    "Discriminant",
    "Extractor",
    "Learned",
    "LearningRounds",
    "Linear",
    "Moments",
    "Network",
    "PrivateGradients",
    "Reports",
    "Samples",
    "Training",
    "fit_discriminant",
    "learn_from_directions",
    "learn_in_rounds",
    "majority_f1",
    "moments_of_reports",
    "parameters_of",
    "predict",
    "principal_directions",
    "record_gradients",
    "report",
    "share_out",
    "signal_of_users",
    "subset",
    "train",
    "train_extractor",
    "weighted_f1",
]


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module 'tensorveil.learning' has no attribute {name!r}")
    if find_spec("torch") is None:
        raise MissingDependencyError("networks need torch. Install it with: pip install 'tensorveil[learning]'")
    value = getattr(import_module(f"tensorveil.learning.{_NEED_TORCH[name]}"), name)
    globals()[name] = value
    return value
