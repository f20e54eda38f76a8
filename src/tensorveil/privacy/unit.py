"""The unit of privacy: what two neighbouring data sets differ in. A guarantee without a unit means nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorveil.errors import InputError
from tensorveil.privacy.exact import positive

__all__ = ["Unit"]

KINDS = ("value", "entry", "slice", "tensor", "local entry")


@dataclass(frozen=True)
class Unit:
    """What is protected; make one with `Unit.value()`, `Unit.entry()`, `Unit.slice("user")`, or `Unit.parse(text)`.

    Parameters
    ----------
    kind
        One of "value", "entry", "slice", "tensor", "local entry".
    mode
        For "slice": the name of the mode whose slices are protected.
    contributions
        For "slice": how many entries of one index count in full; by default this follows from the budget. It says how
        the unit is protected and not what is protected, so units that differ in nothing else are equal.
    differ
        For "tensor": neighbours differ in at most this many entries of the owner's tensor; None for all of them. Other
        neighbours make another unit: what is spent on one says nothing about the other.

    Examples
    --------
    >>> Unit.value().neighbours
    'replace one value'
    >>> Unit.parse("slice:user") == Unit.slice("user")
    True
    >>> Unit.slice("user", contributions=50) == Unit.slice("user")
    True
    >>> str(Unit.tensor(differ=3)), Unit.parse("tensor:differ=3") == Unit.tensor()
    ('tensor:differ=3', False)
    """

    kind: str
    mode: str | None = None
    contributions: float | None = field(default=None, compare=False, kw_only=True)
    differ: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"unit must be one of {', '.join(KINDS)}; got {self.kind!r}. Try unit='value'.")
        if self.kind == "slice" and (not isinstance(self.mode, str) or not self.mode.strip()):
            raise InputError("unit 'slice' needs the name of a mode. Try Unit.slice('user') or 'slice:user'.")
        if self.kind != "slice" and self.mode is not None:
            raise InputError(f"unit {self.kind!r} takes no mode; only 'slice' does. Try Unit.slice('user').")
        if self.contributions is not None:
            self._check_contributions(self.contributions)
        if self.differ is not None:
            self._check_differ(self.differ)

    def _check_contributions(self, given: float) -> None:
        if self.kind != "slice":
            raise InputError(f"contributions is for unit 'slice'; the unit is {self.kind!r}. Leave it out.")
        if positive("contributions", given, "50") < 1:
            raise InputError(f"contributions must be at least 1; got {given}. Try contributions=50.")

    def _check_differ(self, given: int) -> None:
        if self.kind != "tensor":
            raise InputError(f"differ is for unit 'tensor'; the unit is {self.kind!r}. Leave it out.")
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise InputError(f"differ must be a whole number of entries, at least 1; got {given!r}. Try differ=3.")

    @classmethod
    def value(cls) -> Unit:
        """Protect the value of one entry: positions are public, values lie within declared bounds."""
        return cls("value")

    @classmethod
    def entry(cls) -> Unit:
        """Protect one whole entry, position and value: neighbours add or remove it."""
        return cls("entry")

    @classmethod
    def slice(cls, mode: str, *, contributions: float | None = None) -> Unit:
        """Protect all entries of one index of the named mode, such as everything that one user did.

        ``contributions`` is how many entries of one index count in full; by default this follows from the budget.
        """
        return cls("slice", mode, contributions=contributions)

    @classmethod
    def tensor(cls, *, differ: int | None = None) -> Unit:
        """Protect an owner's whole tensor, or any ``differ`` of its entries, perturbed before it leaves its owner."""
        return cls("tensor", differ=differ)

    @classmethod
    def local_entry(cls) -> Unit:
        """Protect one entry of an owner's tensor, perturbed before it leaves its owner."""
        return cls("local entry")

    @classmethod
    def parse(cls, text: str | Unit) -> Unit:
        """Read a unit from text: value, entry, slice:MODE, tensor, tensor:differ=M, local entry."""
        if isinstance(text, Unit):
            return text
        if not isinstance(text, str):
            raise InputError(f"unit must be a Unit or text; got {type(text).__name__}. Try unit='value'.")
        kind, colon, mode = text.partition(":")
        kind = " ".join(kind.replace("_", " ").replace("-", " ").split()).lower()
        if kind in ("tensor", "local entry") and colon:
            return cls(kind, differ=_read_differ(mode))
        return cls(kind, mode.strip() if colon else None)

    @property
    def neighbours(self) -> str:
        """Say what turns a data set into a neighbouring one."""
        few = self._few
        return {
            "value": "replace one value",
            "entry": "add or remove one entry",
            "slice": f"add or remove all entries of one index of mode {self.mode!r}",
            "tensor": "replace the owner's whole tensor"
            if few is None
            else f"replace up to {few} of the owner's tensor",
            "local entry": "replace one entry of the owner's tensor",
        }[self.kind]

    @property
    def replaces(self) -> bool:
        """Tell whether neighbours replace something, rather than add or remove it."""
        return self.kind in ("value", "tensor", "local entry")

    @property
    def sentence(self) -> str:
        """Finish "learns almost the same whether or not ...": what the reader may imagine changed."""
        few = self._few
        return {
            "value": "any single value in the data was different",
            "entry": "any single entry was in the data",
            "slice": f"all that the data hold about any one index of mode {self.mode!r} was in them",
            "tensor": "the owner's whole tensor was a different one"
            if few is None
            else f"up to {few} of the owner's tensor {'was' if self.differ == 1 else 'were'} different",
            "local entry": "any single entry of the owner's tensor was different",
        }[self.kind]

    @property
    def protects(self) -> str:
        """Finish "differential privacy for ..."."""
        few = self._few
        return {
            "value": "single values",
            "entry": "single entries",
            "slice": f"all entries of one index of mode {self.mode!r}",
            "tensor": f"{'whole tensors' if few is None else f'up to {few} of a tensor'}, without a trusted collector",
            "local entry": "single entries of a tensor, without a trusted collector",
        }[self.kind]

    @property
    def _few(self) -> str | None:
        """How many entries may differ, in words, if not all of them."""
        return None if self.differ is None else "1 entry" if self.differ == 1 else f"{self.differ} entries"

    def __str__(self) -> str:
        if self.differ is not None:
            return f"{self.kind}:differ={self.differ}"
        return self.kind if self.mode is None else f"{self.kind}:{self.mode}"


def _read_differ(text: str) -> int:
    """Read what stands behind "tensor:"."""
    name, _, number = text.replace(" ", "").lower().partition("=")
    if name != "differ" or not (number.isascii() and number.isdigit()):
        raise InputError(
            "unit 'tensor' takes the number of entries that can differ, or nothing. Try 'tensor:differ=3'."
        )
    return int(number)
