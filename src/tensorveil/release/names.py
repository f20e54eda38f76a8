"""What reports are called. Light to import, for verbs that only name them."""

from __future__ import annotations

__all__ = ["OWNER_REPORT", "REPORT"]

REPORT = "report.html"
OWNER_REPORT = "DO_NOT_PUBLISH-report.html"
