"""Figure 1 of Yuan et al., a subset of CIFAR-10: learning from perturbed images."""

from __future__ import annotations

from tensorveil_evidence.studies.learning.sizes import IMAGES, QUICK
from tensorveil_evidence.studies.learning.template import Facts, learning_study

STUDY = learning_study(
    Facts(
        name="yuan-figure-1-cifar10",
        title="Private data: a subset of CIFAR-10",
        figure=1,
        kind="I",
        data="cifar10-subset",
        epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
        budgets=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        minutes=(0.2, 7),
    ),
    IMAGES["cifar10-subset"],
    QUICK["cifar10-subset"],
)
