"""Verbs that are imported when they are called: our own, and those of other packages, by ``tensorveil.commands``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

GROUP = "tensorveil.commands"


class Verbs(click.Group):
    """A group of commands: our own, each in a module of its name, and those that installed packages add.

    None is imported before it is asked for, and a package that cannot be imported spoils its own verb alone. ``own``
    are our verbs, with what the list of verbs says of them.
    """

    def __init__(self, *, own: Mapping[str, str], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.own = own

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*self.own, *_find_points()})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command by its name; own commands come first."""
        if name in self.own:
            command: click.Command = getattr(import_module(f"tensorveil.cli.{name}"), name)
            return command
        point = _find_points().get(name)
        return None if point is None else _load(point)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb that was typed, or the one that was meant."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], self.list_commands(ctx), 1)
            if close:
                raise click.UsageError(f"No such command {args[0]!r}. Did you mean {close[0]!r}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs."""
        points, most = _find_points(), formatter.width - 20
        others = {name: _load(point).get_short_help_str(most) for name, point in points.items() if name not in self.own}
        rows = sorted({**self.own, **others}.items())
        with formatter.section("Commands"):
            formatter.write_dl(rows)


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
