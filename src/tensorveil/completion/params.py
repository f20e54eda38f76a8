"""scikit-learn's parameter conventions, kept without importing scikit-learn: it takes longer to load than most fits."""

from __future__ import annotations

import inspect
from typing import Any, Self

from tensorveil.errors import InputError


class Params:
    """Constructor arguments as parameters: what ``sklearn.base.clone`` and grid searches need."""

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` is there for scikit-learn and changes nothing."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name."""
        names = self._names()
        for name, value in params.items():
            if name not in names:
                raise InputError(f"{name} is not a parameter of {type(self).__name__}. Try one of: {', '.join(names)}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [f"{n}={v!r}" for n, v in self.get_params().items() if v is not defaults[n].default]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True),
            regressor_tags=RegressorTags(),
            input_tags=InputTags(two_d_array=True, sparse=False, allow_nan=False),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")
