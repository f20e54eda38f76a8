"""Figure 3 of Yuan et al., SVHN: averaged parameters of three users."""

from __future__ import annotations

from tensorveil_evidence.studies.learning.sizes import QUICK, ROUNDS
from tensorveil_evidence.studies.learning.template import Facts, learning_study

STUDY = learning_study(
    Facts(
        name="yuan-figure-3-svhn",
        title="Private parameters: SVHN",
        figure=3,
        kind="III",
        data="svhn-11k",
        epsilons=(1e2, 1e3, 1e4, 1e5, 1e6, 1e7),
        budgets=(1.0, 4.0, 16.0, 64.0, 256.0),
        record_budgets=(0.5, 1.0, 2.0, 4.0, 8.0),
        minutes=(0.4, 3),
    ),
    ROUNDS["svhn-11k"],
    QUICK["svhn-11k"],
)
