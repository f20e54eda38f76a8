"""Figure 1 of Yuan et al., SVHN: learning from perturbed images."""

from __future__ import annotations

from tensorveil_evidence.studies.learning.sizes import IMAGES, QUICK
from tensorveil_evidence.studies.learning.template import Facts, learning_study

STUDY = learning_study(
    Facts(
        name="yuan-figure-1-svhn",
        title="Private data: SVHN",
        figure=1,
        kind="I",
        data="svhn-11k",
        epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
        budgets=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        minutes=(0.3, 4),
    ),
    IMAGES["svhn-11k"],
    QUICK["svhn-11k"],
)
