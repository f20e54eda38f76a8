"""The evidence for tensorveil: published algorithms as printed, studies that compare them, subjects of the audit.

A package of its own in the same repository and wheel. It imports `tensorveil`; `tensorveil` never imports it, and
finds its commands and subjects through entry points.
"""
