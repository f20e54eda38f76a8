"""Figure 3 of Yuan et al., CIFAR-10: averaged parameters of three users."""

from __future__ import annotations

from tensorveil_evidence.studies.learning.sizes import QUICK, ROUNDS
from tensorveil_evidence.studies.learning.template import Facts, learning_study

STUDY = learning_study(
    Facts(
        name="yuan-figure-3-cifar10",
        title="Private parameters: CIFAR-10",
        figure=3,
        kind="III",
        data="cifar10-12k",
        epsilons=(1e2, 1e3, 1e4, 1e5, 1e6, 1e7),
        budgets=(1.0, 4.0, 16.0, 64.0, 256.0),
        record_budgets=(0.5, 1.0, 2.0, 4.0, 8.0),
        minutes=(0.4, 2),
    ),
    ROUNDS["cifar10-12k"],
    QUICK["cifar10-12k"],
)
