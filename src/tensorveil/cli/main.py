"""Entry point: the group of verbs, and what becomes of errors.

Exit codes: 0 done; 1 something unexpected; 2 wrong usage or input that breaks a rule; 3 an audit found a violation;
130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from tensorveil import __version__
from tensorveil.cli.aggregate import aggregate
from tensorveil.cli.audit import audit
from tensorveil.cli.budget import budget
from tensorveil.cli.common import State
from tensorveil.cli.complete import complete
from tensorveil.cli.demo import demo
from tensorveil.cli.doctor import doctor
from tensorveil.cli.evaluate import evaluate
from tensorveil.cli.federate import federate
from tensorveil.cli.info import info
from tensorveil.cli.messages import in_shell_words
from tensorveil.cli.perturb import perturb
from tensorveil.cli.plan import plan
from tensorveil.cli.plugins import Verbs
from tensorveil.cli.predict import predict
from tensorveil.cli.recommend import recommend
from tensorveil.errors import STANDS, TensorveilError, list_notes
from tensorveil.markup import clean

# What a path that was typed can be wrong by.
WRONG_PATH = (
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EROFS, errno.ELOOP,
)  # fmt: skip
OK, UNEXPECTED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


@click.group(
    cls=Verbs,
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


VERBS = (
    info,
    plan,
    complete,
    predict,
    recommend,
    evaluate,
    perturb,
    aggregate,
    federate,
    budget,
    audit,
    demo,
    doctor,
)
for verb in VERBS:
    cli.add_command(verb)


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
