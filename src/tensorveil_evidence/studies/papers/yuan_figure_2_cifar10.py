"""Figure 2 of Yuan et al., CIFAR-10: learning from perturbed features of MobileNet."""

from __future__ import annotations

from tensorveil_evidence.studies.learning.sizes import FEATURES, QUICK
from tensorveil_evidence.studies.learning.template import Facts, learning_study

STUDY = learning_study(
    Facts(
        name="yuan-figure-2-cifar10",
        title="Private features: CIFAR-10",
        figure=2,
        kind="II",
        data="cifar10-12k",
        epsilons=(3.0, 30.0, 100.0, 300.0, 1000.0),
        budgets=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        minutes=(0.5, 1.4),
    ),
    FEATURES["cifar10-12k"],
    QUICK["cifar10-12k"],
)
