"""Options that reach a command together, as facts."""

from __future__ import annotations

from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from tensorveil.cli.common import ReadingOptions, add_options, gather, reading_options


@dataclass(frozen=True, kw_only=True)
class Size:
    width: int
    height: int | None


def test_options_are_gathered_and_listed_in_order() -> None:
    seen = []

    @click.command()
    @click.option("--width", type=int, default=3)
    @click.option("--height", type=int)
    @click.option("--name")
    @gather(size=Size)
    def draw(size: Size, name: str | None) -> None:
        """Draw."""
        seen.append((size, name))

    assert CliRunner().invoke(draw, ["--height", "4", "--name", "a"]).exit_code == 0
    assert seen == [(Size(width=3, height=4), "a")]
    assert [parameter.name for parameter in draw.params] == ["width", "height", "name"]
    assert draw.help == "Draw."


def test_groups_can_be_stacked() -> None:
    seen = []

    @click.command()
    @lambda function: add_options(
        gather(size=Size)(function), [click.option("--width", type=int, default=1), click.option("--height", type=int)]
    )
    @reading_options
    def show(size: Size, reading: ReadingOptions) -> None:
        seen.append((size, reading.reading("x.csv", duplicates="mean")))

    assert CliRunner().invoke(show, ["--modes", "a,b", "--no-header", "--height", "2"]).exit_code == 0
    ((size, reading),) = seen
    assert size == Size(width=1, height=2)
    assert (reading.file, reading.modes, reading.header, reading.duplicates) == ("x.csv", ["a", "b"], False, "mean")


@click.command()
@reading_options
def show_bins(reading: ReadingOptions) -> None:
    click.echo(repr(reading.reading("x.csv").bins))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["time=day"], {"time": ("day",)}),
        (
            ["time=3600", "at=week:2024-01-01..2024-02-01"],
            {"time": ("3600",), "at": ("week", "2024-01-01", "2024-02-01")},
        ),
        (["time=hour:2024-01-01T00:00..2024-01-02"], {"time": ("hour", "2024-01-01T00:00", "2024-01-02")}),
    ],
)
def test_bins_are_told_by_mode(given: list[str], told: dict[str, tuple[str, ...]]) -> None:
    asked = [word for text in given for word in ("--bin", text)]
    assert CliRunner().invoke(show_bins, asked).output.strip() == repr(told)


@pytest.mark.parametrize("given", ["time", "=day", "time=", "time=day:2024-01-01", "time=day:a..b..c"])
def test_bins_that_say_nothing_are_refused(given: str) -> None:
    found = CliRunner().invoke(show_bins, ["--bin", given])
    assert (found.exit_code, "give MODE=WIDTH once" in " ".join(found.output.split())) == (2, True)
    assert CliRunner().invoke(show_bins, ["--bin", "a=day", "--bin", "a=week"]).exit_code == 2
