"""`tensorveil doctor`: what this installation can do here, and what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tensorveil.cli.common import common_options, console, print_json

if TYPE_CHECKING:
    from tensorveil.runs.doctor import Examination, Extra, Requirement


@click.command()
@common_options
def doctor(as_json: bool) -> None:
    """Check the installation: versions, threads, compiled kernels, data folder, extras.

    Exits with code 1 if something that tensorveil needs does not work.

    \b
    Examples:
      tensorveil doctor
      tensorveil doctor --json
    """
    from tensorveil.runs import doctor as run

    found = run.examine()
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)
    if found.problems:
        click.get_current_context().exit(1)


def _show(found: Examination) -> None:
    from rich.table import Table

    from tensorveil.cli.common import escape

    table = Table(show_header=False)
    table.add_row("tensorveil", f"{found.tensorveil}, Python {found.python}, {found.system}")
    table.add_row("needs", ", ".join(map(_colour, found.needs)) or "unknown")
    table.add_row("threads", f"{found.threads_usable} usable of {found.threads_of_machine}")
    table.add_row("SIMD", ", ".join(found.simd) or "unknown")
    kernels = found.kernels
    state = escape(kernels.error or f"work (first call {kernels.seconds or 0.0:.2f} s)")
    table.add_row("compiled kernels", f"[red]{state}[/red]" if kernels.error else state)
    if kernels.cache:
        advice = "" if kernels.cache_writable else " (not writable: set NUMBA_CACHE_DIR to a folder that is)"
        table.add_row("kernel cache", escape(kernels.cache + advice))
    folder, missing = found.data_folder, "" if found.data_folder_exists else " (not found)"
    table.add_row("data folder", escape(folder + missing) if folder else "not set: set TENSORVEIL_DATA to use one")
    for extra in found.extras:
        table.add_row(f"extra: {extra.name}", _describe(extra))
    out = console()
    out.print(table)
    for problem in found.problems:
        out.print(f"[red]problem:[/red] {escape(problem)}")
    if not found.problems:
        out.print("[green]Everything that tensorveil needs works.[/green]")


def _colour(each: Requirement) -> str:
    from tensorveil.cli.common import escape

    return escape(each.state) if each.met else f"[red]{escape(each.state)}[/red]"


def _describe(extra: Extra) -> str:
    from tensorveil.cli.common import escape

    words = ", ".join(each.state for each in extra.packages)
    return escape(words if extra.install is None else f"{words}: {extra.install}")
