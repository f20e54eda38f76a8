"""Papers' algorithms as printed, for study: each says what is claimed and what is true, and writes no release.

Nothing here uses the secure source of noise, on purpose. Only tests, benchmarks, studies and audits import this folder.
"""

from tensorveil.published.biscaling import BiScaled, biscale
from tensorveil.published.claims import explain
from tensorveil.published.gradient_perturbation import GradientPerturbation
from tensorveil.published.input_perturbation import InputPerturbation
from tensorveil.published.matrix_perturbation import MatrixPerturbation
from tensorveil.published.output_perturbation import OutputPerturbation
from tensorveil.published.refusal import ReleaseRefusedError

__all__ = [
    "BiScaled",
    "GradientPerturbation",
    "InputPerturbation",
    "MatrixPerturbation",
    "OutputPerturbation",
    "ReleaseRefusedError",
    "biscale",
    "explain",
]
