"""`tensorveil doctor`: what this installation can do here, and what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tensorveil.cli.common import common_options, console, print_json

if TYPE_CHECKING:
    from tensorveil.runs.doctor import Examination, Extra, Requirement
    from tensorveil.runs.warm import Warmed


@click.command()
@click.option("--warm", is_flag=True, help="Compile the usual kernels into the cache now, which takes a few minutes.")
@common_options
def doctor(warm: bool, as_json: bool) -> None:
    """Check the installation: versions, threads, compiled kernels, data folder, extras.

    Exits with code 1 if something that tensorveil needs does not work. With --warm the first fits of every kind wait
    for no compiler: run it once after installing, or while building an image.

    \b
    Examples:
      tensorveil doctor
      tensorveil doctor --warm
      tensorveil doctor --json
    """
    from tensorveil.runs import doctor as run

    found = run.examine()
    warmed = _warm() if warm and not found.problems else None
    if as_json:
        print_json(found.to_json() | ({} if warmed is None else {"warmed": warmed.to_json()}))
    else:
        _show(found)
        if warmed is not None:
            console().print(f"compiled: {', '.join(warmed.seconds)} ({sum(warmed.seconds.values()):.0f} s)")
    if found.problems:
        click.get_current_context().exit(1)


def _warm() -> Warmed:
    from tensorveil.runs.progress import count_progress
    from tensorveil.runs.warm import warm_kernels

    with count_progress("compiling kernels") as progress:
        return warm_kernels(progress=progress)


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
