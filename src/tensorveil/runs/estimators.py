"""The estimators by the names that people type, and what rank each has where none is given."""

from __future__ import annotations

from typing import Any, Final

from tensorveil.completion import (
    CP,
    LowRankMatrix,
    PrivateCP,
    PrivateLowRankMatrix,
    PrivateTucker,
    Tucker,
    UserLevelCounts,
    UserLevelCP,
    UserLevelMatrix,
    UserLevelTucker,
)

__all__ = ["DEFAULT_RANK", "OPEN", "PRIVATE", "USER_LEVEL", "USER_LEVEL_COUNTS", "name_estimator"]

OPEN: Final[dict[str, Any]] = {"cp": CP, "tucker": Tucker, "matrix": LowRankMatrix}
PRIVATE: Final[dict[str, Any]] = {"cp": PrivateCP, "tucker": PrivateTucker, "matrix": PrivateLowRankMatrix}
USER_LEVEL: Final[dict[str, Any]] = {"cp": UserLevelCP, "tucker": UserLevelTucker, "matrix": UserLevelMatrix}
# Where cells without an entry are zero: one kind of model.
USER_LEVEL_COUNTS: Final[Any] = UserLevelCounts
# Of private estimators, whose rank is public and must be chosen without looking at the data.
DEFAULT_RANK: Final[dict[str, int | str]] = {"cp": 8, "tucker": 4, "matrix": "auto"}


def name_estimator(estimator: Any) -> str:
    """Return the name of an estimator's kind."""
    for name, kind in (*OPEN.items(), *PRIVATE.items(), *USER_LEVEL.items()):
        if isinstance(estimator, kind):
            return name
    return "cp" if isinstance(estimator, USER_LEVEL_COUNTS) else type(estimator).__name__
