"""The decorator of every compiled function: no interpreter lock, kept on disk between runs where possible.

``nogil`` is what lets plain Python threads run kernels side by side; ``cache`` keeps machine code per signature beside
the source. Numba recognises a changed file by its time stamp and size, so a new comment compiles a module anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on first use and cache it in NUMBA_CACHE_DIR, beside the package or in the user's folder.

    If none of these can be written (a read-only install without a home), the function is compiled anew in every
    process instead of failing on import.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:
            return njit(nogil=True, **options)(function)

    return decorate
