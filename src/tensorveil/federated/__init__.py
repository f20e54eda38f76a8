"""Completion over many holders of data, each of whom keeps theirs: few rounds, exact integer sums, noise where trusted.

    agreement (what all parties hold) -> server asks, clients answer -> sums of integers -> recipe advances -> release

What a round computes is the recipe's matter (`tensorveil.rounds`); who is trusted with what is `trust`; how bytes
travel is a transport's: in one process, or over Flower. docs/how-to/federated.md has the threat model.
"""

from __future__ import annotations
