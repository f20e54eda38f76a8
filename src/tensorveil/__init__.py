"""tensorveil: complete sparse tensors and matrices, fast, from Python and from the shell.

>>> import tensorveil as tv
>>> tensor = tv.load_dataset("covid19-serology")
>>> tensor.shape
(438, 6, 11)

Names are imported when they are first used, so that ``import tensorveil`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        choose_privately,
        evaluate,
    )
    from tensorveil.errors import (
        ChangedWarning,
        DataNotFoundError,
        GuessWarning,
        InputError,
        LeftOutWarning,
        LowerRankWarning,
        MemoryLimitError,
        MissingDependencyError,
        NoLedgerWarning,
        NotFittedError,
        TensorveilError,
    )
    from tensorveil.models import CPModel, TuckerModel, from_tensorly, load_model
    from tensorveil.models.components import list_components
    from tensorveil.models.synthesis import synthesise
    from tensorveil.privacy import Budget, Ledger, Unit
    from tensorveil.privacy.reading import read_privately
    from tensorveil.release.release import load_release, write_release
    from tensorveil.runs.split_store import split_store
    from tensorveil.runs.store import write_store
    from tensorveil.solvers.csvd_qr import csvd_qr
    from tensorveil.solvers.loss import Loss
    from tensorveil.tensor import (
        Mode,
        ObservedTensor,
        StoredTensor,
        cell_split,
        list_datasets,
        load_dataset,
        paper_problem,
        random_split,
        read,
        synthetic_cp,
        synthetic_tucker,
    )

__version__ = "0.1.0"

_HOMES = {
    "tensorveil.completion": (
        "CP",
        "LowRankMatrix",
        "PrivateCP",
        "PrivateLowRankMatrix",
        "PrivateTucker",
        "Tucker",
        "UserLevelCP",
        "UserLevelCounts",
        "UserLevelMatrix",
        "UserLevelTucker",
        "choose_privately",
        "evaluate",
    ),
    "tensorveil.errors": (
        "ChangedWarning",
        "DataNotFoundError",
        "GuessWarning",
        "InputError",
        "LeftOutWarning",
        "LowerRankWarning",
        "MemoryLimitError",
        "MissingDependencyError",
        "NoLedgerWarning",
        "NotFittedError",
        "TensorveilError",
    ),
    "tensorveil.privacy": ("Budget", "Ledger", "Unit"),
    "tensorveil.privacy.reading": ("read_privately",),
    "tensorveil.release.release": ("load_release", "write_release"),
    "tensorveil.runs.split_store": ("split_store",),
    "tensorveil.runs.store": ("write_store",),
    "tensorveil.solvers.csvd_qr": ("csvd_qr",),
    "tensorveil.solvers.loss": ("Loss",),
    "tensorveil.models": ("CPModel", "TuckerModel", "from_tensorly", "load_model"),
    "tensorveil.models.components": ("list_components",),
    "tensorveil.models.synthesis": ("synthesise",),
    "tensorveil.tensor": (
        "Mode",
        "ObservedTensor",
        "StoredTensor",
        "list_datasets",
        "load_dataset",
        "cell_split",
        "paper_problem",
        "random_split",
        "read",
        "synthetic_cp",
        "synthetic_tucker",
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 - plain alphabetical order
    "Budget",
    "CP",
    "CPModel",
    "ChangedWarning",
    "DataNotFoundError",
    "GuessWarning",
    "InputError",
    "Ledger",
    "LeftOutWarning",
    "Loss",
    "LowRankMatrix",
    "LowerRankWarning",
    "MemoryLimitError",
    "MissingDependencyError",
    "Mode",
    "NoLedgerWarning",
    "NotFittedError",
    "ObservedTensor",
    "PrivateCP",
    "PrivateLowRankMatrix",
    "PrivateTucker",
    "StoredTensor",
    "TensorveilError",
    "Tucker",
    "TuckerModel",
    "Unit",
    "UserLevelCP",
    "UserLevelCounts",
    "UserLevelMatrix",
    "UserLevelTucker",
    "cell_split",
    "choose_privately",
    "csvd_qr",
    "evaluate",
    "from_tensorly",
    "list_components",
    "list_datasets",
    "load_dataset",
    "load_model",
    "load_release",
    "paper_problem",
    "random_split",
    "read",
    "read_privately",
    "split_store",
    "synthesise",
    "synthetic_cp",
    "synthetic_tucker",
    "write_release",
    "write_store",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tensorveil' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
