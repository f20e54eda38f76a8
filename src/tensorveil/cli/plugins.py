"""Verbs of other installed packages, found by entry points of the group ``tensorveil.commands``."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points

import click

GROUP = "tensorveil.commands"


class Verbs(click.Group):
    """A group of commands to which installed packages add their own.

    Nothing of theirs is imported before it is asked for, and a package that cannot be imported spoils its own verb
    alone.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(context), *_find_points()})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command by its name; own commands come first."""
        own = super().get_command(context, name)
        if own is not None:
            return own
        point = _find_points().get(name)
        return None if point is None else _load(point)


@functools.cache
def _find_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _load(point: EntryPoint) -> click.Command:
    try:
        command = point.load()
    except Exception:  # whatever is wrong with another package, help and all other verbs must work
        command = None
    return command if isinstance(command, click.Command) else _stand_in(point)


def _stand_in(point: EntryPoint) -> click.Command:
    """Return a command that says why it is not the one that was asked for."""

    @click.command(
        point.name,
        short_help="(cannot be loaded)",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def command() -> None:
        """Say that the package of this verb cannot be loaded."""
        raise click.ClickException(f"{point.name} cannot be loaded from {point.value}. Install its package anew.")

    return command
