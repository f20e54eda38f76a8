"""Papers' algorithms as printed, for study: each says what is claimed and what is true, and writes no release.

Nothing here uses the secure source of noise, on purpose. Only tests, benchmarks, studies and audits import this folder.
"""

from tensorveil.published.baselines import IDN, MVG, GaussianNoise, LaplaceNoise
from tensorveil.published.biscaling import BiScaled, biscale
from tensorveil.published.claims import explain
from tensorveil.published.gradient_perturbation import GradientPerturbation
from tensorveil.published.gradients import DPHSGD, LLAGP, hutchinson_diagonal
from tensorveil.published.input_perturbation import InputPerturbation
from tensorveil.published.matrix_perturbation import MatrixPerturbation
from tensorveil.published.output_perturbation import OutputPerturbation
from tensorveil.published.refusal import ReleaseRefusedError
from tensorveil.published.table5 import table5
from tensorveil.published.tldp import TLDP
from tensorveil.published.truth import Truth

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
    "MatrixPerturbation",
    "OutputPerturbation",
    "ReleaseRefusedError",
    "Truth",
    "biscale",
    "explain",
    "hutchinson_diagonal",
    "table5",
]
