"""scikit-learn's parameter conventions, kept without importing scikit-learn: it takes longer to load than most fits."""

from __future__ import annotations

import inspect
from typing import Any, Self

from tensorveil.errors import InputError

# Stands in the docstring of an estimator for the parameters that it inherits.
SETTINGS = "**settings"
_HEADING = "Parameters\n----------\n"


class Params:
    """Constructor arguments as parameters: what ``sklearn.base.clone`` and grid searches need."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Write the parameters that a class inherits into its docstring, where ``help`` shows them."""
        super().__init_subclass__(**options)
        own = cls.__dict__.get("__doc__")
        if own and SETTINGS in own:
            inherited = [base.__doc__ for base in cls.__mro__[1:] if issubclass(base, Params) and base.__doc__]
            cls.__doc__ = merge_parameters(own, inherited)

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` is accepted for scikit-learn and changes nothing."""
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


def merge_parameters(own: str, inherited: list[str]) -> str:
    """Return a docstring with inherited parameters in the place of ``**settings``, as far as it does not explain them.

    >>> head = "Parameters\\n----------\\na\\n"
    >>> base = head + "    First.\\nb\\n    Second.\\n"
    >>> print(merge_parameters(head + "    Mine.\\n**settings\\n    Those of the base.\\n", [base]))
    Parameters
    ----------
    a
        Mine.
    b
        Second.
    """
    text = inspect.cleandoc(own)
    entries = _parameter_entries(text)
    known = {name for names in entries for name in names.split(", ")}
    more: list[str] = []
    for docstring in inherited:
        for names, entry in _parameter_entries(inspect.cleandoc(docstring)).items():
            if not known.issuperset(names.split(", ")):
                more.append(entry)
                known.update(names.split(", "))
    return text.replace(entries[SETTINGS], "\n".join(more))


def _parameter_entries(text: str) -> dict[str, str]:
    """Return the entries of the section "Parameters" of a clean docstring by their names."""
    entries: dict[str, str] = {}
    names = ""
    for line in text.partition(_HEADING)[2].split("\n\n")[0].splitlines():
        if line.startswith(" "):
            entries[names] += f"\n{line}"
        else:
            names = line
            entries[names] = line
    return entries
