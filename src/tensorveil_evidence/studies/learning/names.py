"""Names of panels, methods and lines, which both computing and drawing use."""

from __future__ import annotations

from typing import Final

NOMINAL, TRUE, SAME = "nominal epsilon", "true epsilon", "same true epsilon"
USER, RECORD = "same true epsilon, user", "same true epsilon, record"
MAJORITY, CLEAN, CLEAN_OURS = "most frequent class", "no noise, network", "no noise, discriminant"
PUBLIC_ALONE, GUESS = "public data alone", "even guess"
PRIVUNIT, HYBRID = "ours, PrivUnit", "ours, hybrid"
CONTRASTS, MOMENTS, DESCENT = "ours, class contrasts", "ours, class moments", "ours, private gradients"
OURS = (PRIVUNIT, HYBRID, CONTRASTS, MOMENTS, DESCENT)
GRADIENTS = ("LLAGP", "DPHSGD")
RELEASED = "DPHSGD, released curvature"  # its Hessian made of released numbers: what its claim needs
BASELINES = ("Laplace", "Gaussian", "MVG", "IDN")
AS_PRINTED = ("TLDP-L", "TLDP-G")
WEIGHTED = ("TLDP-L-w", "TLDP-G-w")
LAPLACE, GAUSSIAN = "TLDP-L, p of the proof", "TLDP-G, p of the proof"
# At the same true epsilon these are one mechanism each: Laplace noise, and Gaussian noise, the same on every entry.
# TLDP is so in the proof's reading, where nothing is kept; in the algorithm's, no true epsilon is finite. In rounds MVG
# takes layer by layer, each with its own scale: it is neither of the two there.
FAMILIES_OF_ROUNDS: Final = {
    "Laplace noise (Laplace, TLDP-L)": "Laplace",
    "Gaussian noise (Gaussian, IDN, TLDP-G)": "Gaussian",
}
FAMILIES: Final = {
    "Laplace noise (Laplace, TLDP-L)": "Laplace",
    "Gaussian noise (Gaussian, MVG, IDN, TLDP-G)": "Gaussian",
}
F1: Final = "F1"
