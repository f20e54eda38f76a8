"""Secure sums of integer vectors: pairwise masks that cancel, self-masks, shares of both for those who drop out.

After Bonawitz et al., *Practical secure aggregation for privacy-preserving machine learning* (2017), with keys for all
rounds agreed on once. docs/how-to/federated.md#secure-aggregation says against whom it holds.
"""
