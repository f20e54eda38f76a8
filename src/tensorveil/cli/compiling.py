"""What a terminal is told while kernels are compiled."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import click

__all__ = ["tell_compiling"]


@contextlib.contextmanager
def tell_compiling() -> Iterator[None]:
    """Say once on a terminal's standard error that kernels are being compiled, if they are."""
    if not sys.stderr.isatty():
        yield
        return
    from numba.core import event

    class Teller(event.Listener):  # type: ignore[misc]
        told = False

        def on_start(self, happened: Any) -> None:
            if not self.told:
                self.told = True
                click.echo("compiling (once; later runs find it in the kernel cache) ...", err=True)

        def on_end(self, happened: Any) -> None:
            pass

    with event.install_listener("numba:compile", Teller()):
        yield
