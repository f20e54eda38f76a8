"""What errors and notes of the command advise, its verb must have: what tests make it say is looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
OTHER_VERB = re.compile(r"tensorveil ([a-z]+)|`([a-z]+)[ `]|\b(predict|recommend)\b")


def options_of(verb: str) -> set[str]:
    """Return the options of a verb, and of the whole command."""
    from tensorveil.cli.main import cli

    context = click.Context(cli)
    commands = [cli, cli.get_command(context, verb)]
    todo = [each for each in commands if each is not None]
    found = {"--help", "--debug"}
    while todo:
        command = todo.pop()
        found |= {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        if isinstance(command, click.Group) and command is not cli:
            todo += list(command.commands.values())
    return found


def find_missing(verb: str, message: str) -> set[str]:
    """Return the options that a message advises and the verb lacks, unless the message names another verb with them."""
    known = options_of(verb)
    for names in OTHER_VERB.findall(message):
        for name in filter(None, names):
            known |= options_of(name)
    return {*OPTION.findall(message)} - known


@pytest.fixture
def advice_can_be_followed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail whatever test makes a verb advise an option that it lacks."""
    from tensorveil.cli import main

    verb = ""
    run_cli, reword = main.cli.main, vars(main)["in_shell_words"]

    def note_verb(args: Any = None, *more: Any, **settings: Any) -> Any:
        nonlocal verb
        verb = next((each for each in args or () if not each.startswith("-")), "")
        return run_cli(args, *more, **settings)

    wrong: list[str] = []

    def check(message: str) -> str:
        said: str = reword(message)
        if verb and (missing := find_missing(verb, said)):
            wrong.append(f"{verb} has no {', '.join(sorted(missing))}, which it advises: {said}")
        return said

    monkeypatch.setattr(main.cli, "main", note_verb)
    monkeypatch.setattr(main, "in_shell_words", check)
    yield
    assert not wrong, "\n".join(wrong)
