"""Figure 1 of Yuan et al., MNIST: learning from perturbed images."""

from __future__ import annotations

from tensorveil_evidence.studies.learning.sizes import IMAGES, QUICK
from tensorveil_evidence.studies.learning.template import Facts, learning_study

STUDY = learning_study(
    Facts(
        name="yuan-figure-1-mnist",
        title="Private data: MNIST",
        figure=1,
        kind="I",
        data="mnist",
        epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
        budgets=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        minutes=(0.2, 6),
    ),
    IMAGES["mnist"],
    QUICK["mnist"],
)
