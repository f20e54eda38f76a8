"""Figure 2 of Yuan et al., MNIST: learning from perturbed features."""

from __future__ import annotations

from tensorveil_evidence.studies.learning.sizes import FEATURES, QUICK
from tensorveil_evidence.studies.learning.template import Facts, learning_study

STUDY = learning_study(
    Facts(
        name="yuan-figure-2-mnist",
        title="Private features: MNIST",
        figure=2,
        kind="II",
        data="mnist",
        epsilons=(3.0, 30.0, 100.0, 300.0, 1000.0),
        budgets=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        minutes=(0.4, 7),
    ),
    FEATURES["mnist"],
    QUICK["mnist"],
)
