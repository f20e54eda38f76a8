"""Secure sums of integer vectors: pairwise masks that cancel, self-masks, and shares of both in case clients drop out.

After Bonawitz et al., *Practical secure aggregation for privacy-preserving machine learning* (2017), with keys for all
rounds exchanged once. docs/how-to/federated.md#secure-aggregation says against whom it protects.
"""
