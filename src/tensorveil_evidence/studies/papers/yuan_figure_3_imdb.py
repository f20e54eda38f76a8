"""Figure 3 of Yuan et al., IMDB: averaged parameters of three users."""

from __future__ import annotations

from tensorveil_evidence.studies.learning.sizes import QUICK, ROUNDS
from tensorveil_evidence.studies.learning.template import Facts, learning_study

STUDY = learning_study(
    Facts(
        name="yuan-figure-3-imdb",
        title="Private parameters: IMDB",
        figure=3,
        kind="III",
        data="imdb",
        epsilons=(1e4, 1e6, 1e8, 1e10, 1e13),
        budgets=(1.0, 4.0, 16.0, 64.0, 256.0),
        record_budgets=(0.5, 1.0, 2.0, 4.0, 8.0),
        minutes=(0.4, 5),
    ),
    ROUNDS["imdb"],
    QUICK["imdb"],
)
