"""`tensorveil desk`: private completion in a page of the browser, on this machine alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import click

from tensorveil.cli.common import mark_private


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of 127.0.0.1 [default: any free one].")
@click.option("--max-upload", metavar="SIZE", default="1GB", show_default=True, help="What uploads may have in all.")
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
def desk(folder: Path, port: int, max_upload: str, open_browser: bool) -> None:
    """Serve a page for private completions, to this machine alone.

    Open the printed address in a browser: choose a file, say what is protected, see the plan and the ledger, run,
    read and download the release. Data, ledgers and releases are in FOLDER, and nothing outside it can be opened.
    Whoever has the address can do all this until the desk is ended by Ctrl-C.

    \b
    Examples:
      tensorveil desk
      tensorveil desk studies --open
      tensorveil desk studies --port 8642
    """
    import logging
    import warnings

    from tensorveil.desk.server import open_desk
    from tensorveil.memory import parse_size

    mark_private()
    with contextlib.ExitStack() as until_ended:
        until_ended.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # they may follow the data
        until_ended.callback(logging.disable, logging.root.manager.disable)
        logging.disable()
        opened = until_ended.enter_context(open_desk(folder, port=port, max_upload=parse_size(max_upload), tell=_say))
        click.echo(opened.address)
        click.echo("The desk is open at this address, for this machine alone. Ctrl-C ends it.", err=True)
        with (
            _handed_over(opened.address) if open_browser else contextlib.nullcontext(),
            contextlib.suppress(KeyboardInterrupt),  # which ends it
        ):
            opened.serve()


def _say(note: str) -> None:
    click.echo(note, err=True)


@contextlib.contextmanager
def _handed_over(address: str) -> Iterator[None]:
    """Open the browser by a file of this user's: on a command line everybody could read the token."""
    import tempfile
    import webbrowser

    handle, name = tempfile.mkstemp(suffix=".html", prefix="tensorveil-desk-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">')
    try:
        webbrowser.open(Path(name).as_uri())
        yield
    finally:
        Path(name).unlink(missing_ok=True)
