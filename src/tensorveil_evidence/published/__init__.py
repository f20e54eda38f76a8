"""Papers' algorithms as printed, for study: each says what is claimed and what is true, and writes no release.

Nothing here uses the secure source of noise, on purpose. Only tests, benchmarks, studies and audits import this folder.
"""

from tensorveil_evidence.published.baselines import IDN, MVG, GaussianNoise, LaplaceNoise
from tensorveil_evidence.published.biscaling import BiScaled, biscale
from tensorveil_evidence.published.claims import explain
from tensorveil_evidence.published.estimator import PublishedDescent
from tensorveil_evidence.published.gradient_perturbation import GradientPerturbation
from tensorveil_evidence.published.gradients import DPHSGD, LLAGP, hutchinson_diagonal
from tensorveil_evidence.published.input_perturbation import InputPerturbation
from tensorveil_evidence.published.layer_gradients import LinearGradients
from tensorveil_evidence.published.matrix_perturbation import MatrixPerturbation
from tensorveil_evidence.published.output_perturbation import OutputPerturbation
from tensorveil_evidence.published.refusal import ReleaseRefusedError
from tensorveil_evidence.published.table5 import table5
from tensorveil_evidence.published.tldp import TLDP
from tensorveil_evidence.published.truth import Truth

__all__ = [
    "DPHSGD",
    "IDN",
    "LLAGP",
    "MVG",
    "TLDP",
    "BiScaled",
    "GaussianNoise",
    "GradientPerturbation",
    "InputPerturbation",
    "LaplaceNoise",
    "LinearGradients",
    "MatrixPerturbation",
    "OutputPerturbation",
    "PublishedDescent",
    "ReleaseRefusedError",
    "Truth",
    "biscale",
    "explain",
    "hutchinson_diagonal",
    "table5",
]
