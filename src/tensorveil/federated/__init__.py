"""Completion over many holders of data who keep their data: few rounds, exact integer sums, noise by those trusted.

    agreement (held by all parties) -> server asks, clients answer -> sums of integers -> recipe advances -> release

A recipe (`tensorveil.rounds`) decides what a round computes, `trust` who is trusted with what, and a transport how
bytes travel: within one process, or over Flower. docs/how-to/federated.md has the threat model.
"""

from __future__ import annotations
