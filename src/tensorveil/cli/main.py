"""Entry point: the group of verbs, and what becomes of errors.

Exit codes: 0 done; 1 something unexpected; 2 wrong usage or input that breaks a rule; 3 an audit found a violation;
130 interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import click

from tensorveil import __version__
from tensorveil.cli.common import State
from tensorveil.cli.messages import in_shell_words
from tensorveil.cli.plugins import Verbs
from tensorveil.errors import (
    STANDS,
    ChangedWarning,
    GuessWarning,
    LeftOutWarning,
    LowerRankWarning,
    TensorveilError,
    list_notes,
)
from tensorveil.markup import clean

# What a path that was typed can be wrong by.
WRONG_PATH = (
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EROFS, errno.ELOOP,
)  # fmt: skip
TOLD = (ChangedWarning, GuessWarning, LeftOutWarning, LowerRankWarning)
OK, UNEXPECTED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


# What the list of verbs says of each; tensorveil/cli/ has a module for it, which is imported when it is called.
VERBS = {
    "info": "Show what a file holds: modes, labels, entries, density, values.",
    "store": "Put files that may be larger than memory into a store.",
    "plan": "Ask what accuracy a budget may buy, or which budget it takes.",
    "complete": "Fit a model, privately or not, and fill in what is missing.",
    "predict": "Predict the cells listed in a table with a saved model.",
    "recommend": "Recommend what people do not have yet, by a saved model.",
    "evaluate": "Measure a saved model at cells that it was not fitted to.",
    "synthesise": "Draw a synthetic tensor from a release of counts.",
    "perturb": "Randomise a tensor, so that it may leave its owner.",
    "aggregate": "Average what was randomised, with standard errors.",
    "federate": "Complete a tensor whose users are spread over several holders.",
    "budget": "Show a privacy ledger, or create one.",
    "audit": "Try to refute a privacy claim by experiment.",
    "desk": "Serve a page for private completions, to this machine alone.",
    "demo": "Complete a real tensor privately: antibody measurements.",
    "doctor": "Check the installation, and compile what it needs ahead.",
}


@click.group(
    cls=Verbs,
    own=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 unexpected, 2 wrong usage or input, 3 violated (audit), 130 interrupted.",
)
@click.version_option(__version__, message="tensorveil %(version)s")
def cli() -> None:
    """Complete sparse tensors under differential privacy: fill in what was not observed from what was.

    \b
    Try it:
      tensorveil demo --output demo-output
      tensorveil info ratings.csv
      tensorveil plan ratings.csv --bounds 1 5 --epsilon 1 --epsilon 5
      tensorveil complete ratings.csv --value rating --epsilon 1 --unit value --bounds 1 5 --output release
      tensorveil predict release/model.npz --at questions.csv --output answers.csv
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    # A polite kill unwinds the stack, so that half-written folders are removed on the way out.
    for polite in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, polite) and signal.getsignal(getattr(signal, polite)) is not signal.SIG_IGN:  # as by nohup
            signal.signal(getattr(signal, polite), _terminated)
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a letter gets its number
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    state = State()
    try:
        with _guesses_told():
            code = cli.main(args=None if arguments is None else list(arguments), standalone_mode=False, obj=state)
        return code if isinstance(code, int) else OK
    except BaseException as error:
        notes = list_notes(error)
        for note in notes:
            click.echo(clean(note), err=True)
        if isinstance(error, KeyboardInterrupt):
            return _say(_interrupted(notes), INTERRUPTED)
        if not isinstance(error, Exception):
            raise  # somebody ends the process
        if state.debug:
            _print_traceback(error, state)
        return _explain(error, notes)


@contextlib.contextmanager
def _guesses_told() -> Iterator[None]:
    """Say what was guessed, and what will be less than was asked for; other warnings are Python's."""
    with warnings.catch_warnings():
        show = warnings.showwarning
        told = set()
        for known in TOLD:
            warnings.simplefilter("always", known)

        def tell(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, TOLD):
                if str(message) not in told:  # a file may be looked at several times
                    click.echo(f"note: {clean(in_shell_words(str(message)))}", err=True)
                told.add(str(message))
            else:
                show(message, category, *where, **more)

        warnings.showwarning = tell
        yield


def _interrupted(notes: Sequence[str]) -> str:
    stands = any(note.startswith(STANDS) for note in notes)
    return "Interrupted." if stands else "Interrupted; nothing was written."


def _print_traceback(error: Exception, state: State) -> None:
    """Show where it happened; in a private run without the texts of errors, which may quote the data."""
    if state.private:
        click.echo("Traceback (most recent call last):\n" + "".join(traceback.format_tb(error.__traceback__)), err=True)
    else:
        traceback.print_exception(error)


def _explain(error: Exception, notes: Sequence[str]) -> int:
    """Print one clear message and choose the exit code."""
    if isinstance(error, click.Abort):
        return _say(_interrupted(notes), INTERRUPTED)
    if isinstance(error, click.ClickException):
        error.show()
        return BAD_INPUT
    if isinstance(error, TensorveilError):
        return _say(f"Error: {in_shell_words(str(error))}", BAD_INPUT)
    if isinstance(error, BrokenPipeError):
        # The reader of our output has left; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNEXPECTED
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return _say(f"Error: {error.strerror}{where}", BAD_INPUT if error.errno in WRONG_PATH else UNEXPECTED)
    # The text of a foreign error may quote the data, so only its kind is shown.
    return _say(f"Error: unexpected {type(error).__name__}. Add --debug to see where it happened.", UNEXPECTED)


def _say(message: str, code: int) -> int:
    click.echo(clean(message), err=True)
    return code


def _terminated(sent: int, _: Any) -> None:
    sys.exit(128 + sent)
