"""The catalogue of solvers: what users may ask for by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorveil.solvers.adam import Adam, solve_adam
from tensorveil.solvers.als import ALS, solve_als
from tensorveil.solvers.altmin import AltMin, solve_altmin
from tensorveil.solvers.bayes import Bayes, solve_bayes
from tensorveil.solvers.dlnm_qr import DLNMQR, solve_dlnm_qr
from tensorveil.solvers.lbfgs import LBFGS, solve_lbfgs
from tensorveil.solvers.sgd import SGD, solve_sgd
from tensorveil.solvers.sor import SOR, solve_sor
from tensorveil.solvers.task import Solution, Task
from tensorveil.solvers.watch import Watch

Solve = Callable[[Task, Any, Watch], Solution]
# By name: a solver's settings and its function.
Solvers = Mapping[str, tuple[type[Any], Solve]]

SOLVERS: Solvers = {
    "bayes": (Bayes, solve_bayes),
    "als": (ALS, solve_als),
    "sgd": (SGD, solve_sgd),
    "adam": (Adam, solve_adam),
    "lbfgs": (LBFGS, solve_lbfgs),
}
MATRIX_SOLVERS: Solvers = {
    **SOLVERS,
    "dlnm_qr": (DLNMQR, solve_dlnm_qr),
    "sor": (SOR, solve_sor),
    "altmin": (AltMin, solve_altmin),
}
