"""Figure 3 of Yuan et al., in place of DarkNet the flows that it was made of."""

from __future__ import annotations

from tensorveil_evidence.studies.learning.sizes import QUICK, ROUNDS
from tensorveil_evidence.studies.learning.template import Facts, learning_study

STUDY = learning_study(
    Facts(
        name="yuan-figure-3-darknet",
        title="Private parameters: Tor, VPN and other flows",
        figure=3,
        kind="III",
        data="tor-vpn",
        epsilons=(1e2, 1e3, 1e4, 1e5, 1e6, 1e7),
        budgets=(1.0, 4.0, 16.0, 64.0, 256.0),
        record_budgets=(0.5, 1.0, 2.0, 4.0, 8.0),
        minutes=(0.4, 1.7),
    ),
    ROUNDS["tor-vpn"],
    QUICK["tor-vpn"],
)
