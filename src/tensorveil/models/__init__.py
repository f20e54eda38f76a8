"""Fitted models: predict, slice, rank, fold in new rows, save, load, and to and from TensorLy."""

from tensorveil.models.cp import CPModel
from tensorveil.models.errors import Errors
from tensorveil.models.folding import NewRows
from tensorveil.models.loading import from_tensorly, load_model
from tensorveil.models.ranking import Ranking
from tensorveil.models.tucker import TuckerModel

__all__ = ["CPModel", "Errors", "NewRows", "Ranking", "TuckerModel", "from_tensorly", "load_model"]
