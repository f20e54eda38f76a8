"""Figure 2 of Yuan et al., SVHN: learning from perturbed features of MobileNet."""

from __future__ import annotations

from tensorveil_evidence.studies.learning.sizes import FEATURES, QUICK
from tensorveil_evidence.studies.learning.template import Facts, learning_study

STUDY = learning_study(
    Facts(
        name="yuan-figure-2-svhn",
        title="Private features: SVHN",
        figure=2,
        kind="II",
        data="svhn-11k",
        epsilons=(3.0, 30.0, 100.0, 300.0, 1000.0),
        budgets=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        minutes=(0.5, 1.3),
    ),
    FEATURES["svhn-11k"],
    QUICK["svhn-11k"],
)
