"""What may depend on private data is wrapped, so that it cannot be printed, counted or compared by mistake."""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar

__all__ = ["Private"]

T = TypeVar("T")


class Private(Generic[T]):
    """Something that depends on private data. It shows nothing of itself; `reveal` gives what it holds.

    Only code that sums bounded contributions and adds noise has a reason to call `reveal`: a test lists the modules
    that do, and looks at what they print and raise.

    >>> secret = Private([3.5, 4.0])
    >>> secret, f"{secret}"
    (<private>, '<private>')
    >>> len(secret)
    Traceback (most recent call last):
        ...
    TypeError: this depends on private data and cannot be counted, compared or passed on. Sum it under noise instead.
    """

    __slots__ = ("_content",)

    def __init__(self, content: T) -> None:
        self._content = content

    def reveal(self) -> T:
        """Return what must not leave without noise."""
        return self._content

    def __repr__(self) -> str:
        return "<private>"

    def __format__(self, _: str) -> str:
        return repr(self)

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(
            "this depends on private data and cannot be counted, compared or passed on. Sum it under noise instead."
        )

    __len__ = __bool__ = __iter__ = __int__ = __float__ = __index__ = __hash__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __getitem__ = _refuse
    __array__ = __reduce__ = __reduce_ex__ = __getstate__ = _refuse
