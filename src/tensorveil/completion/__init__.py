"""What users call: estimators that choose a solver or a private mechanism, fit a model and keep its guarantee."""

from tensorveil.completion.cp import CP
from tensorveil.completion.evaluation import Evaluation, evaluate
from tensorveil.completion.matrix import LowRankMatrix
from tensorveil.completion.private_cp import PrivateCP
from tensorveil.completion.private_matrix import PrivateLowRankMatrix
from tensorveil.completion.private_tucker import PrivateTucker
from tensorveil.completion.records import UserLevelCounts
from tensorveil.completion.selection import Chosen, Selection, choose_privately
from tensorveil.completion.tucker import Tucker
from tensorveil.completion.user_level import UserLevelCP, UserLevelMatrix, UserLevelTucker

__all__ = [
    "CP",
    "Chosen",
    "Evaluation",
    "LowRankMatrix",
    "PrivateCP",
    "PrivateLowRankMatrix",
    "PrivateTucker",
    "Selection",
    "Tucker",
    "UserLevelCP",
    "UserLevelCounts",
    "UserLevelMatrix",
    "UserLevelTucker",
    "choose_privately",
    "evaluate",
]
