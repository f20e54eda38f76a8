"""What the verbs share: common options, option types, and printing. Light to import: click only."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tensorveil.markup import clean

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from tensorveil.runs.reading import Reading

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass
class State:
    """What error handling needs to know of the options; the one mutable thing here."""

    debug: bool = False
    private: bool = False  # then not even --debug shows the texts of foreign errors, which may quote the data


def _set_debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and isinstance(context.obj, State):
        context.obj.debug = True


def mark_private() -> None:
    """Keep texts of foreign errors, which may quote data, from being shown."""
    state = click.get_current_context().obj
    if isinstance(state, State):
        state.private = True


@contextlib.contextmanager
def telling(place: Path, ledger: str | Path | None, release_id: str) -> Iterator[None]:
    """Note on an error in a block that only tells of a release that it stands, and was charged.

    The disk that the words are written to may be full, and their reader may have left.
    """
    from tensorveil.completion.charging import tell_charges
    from tensorveil.errors import STANDS, note_errors

    with tell_charges(ledger, lambda: release_id), note_errors(lambda: f"{STANDS} {place}."):
        yield


def add_options(function: Function, options: Sequence[Callable[[Function], Function]]) -> Function:
    """Add options to a command, in the order in which its help is to list them."""
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), function)


def gather(**groups: type[Any]) -> Callable[[Function], Function]:
    """Hand options to a command as facts: all fields of a dataclass together, under the group's name."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def command(**given: Any) -> Any:
            for name, kind in groups.items():
                given[name] = kind(**{field.name: given.pop(field.name) for field in dataclasses.fields(kind)})
            return function(**given)

        return command  # type: ignore[return-value]

    return decorate


def _set_max_memory(_: click.Context, __: click.Parameter, value: str | None) -> None:
    from tensorveil.errors import InputError
    from tensorveil.memory import set_memory_limit

    try:
        set_memory_limit(value)
    except InputError:
        raise click.BadParameter("give a number of bytes, such as 4GB or 500MB.") from None


def common_options(function: Function) -> Function:
    """Add --json, --max-memory and --debug."""
    debug = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_set_debug, help="Show tracebacks of errors."
    )
    memory = click.option(
        "--max-memory",
        "--memory",
        metavar="SIZE",
        expose_value=False,
        callback=_set_max_memory,
        help="Refuse what needs more memory than this, such as 4GB [default: what is free].",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, everything else on stderr.")
    return as_json(memory(debug(function)))


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How a tensor file is to be read."""

    modes: list[str] | None
    value: str | None
    file_format: str | None
    labels: dict[str, str]
    indices: bool
    no_header: bool
    variable: str | None
    bins: dict[str, Any]
    delimiter: str | None
    decimal: str | None
    encoding: str | None

    @property
    def given(self) -> bool:
        """Whether any of them was asked for."""
        return any(getattr(self, field.name) for field in dataclasses.fields(self))

    def reading(self, file: str, **policies: Any) -> Reading:
        """Return the facts that a run reads a file by."""
        from tensorveil.runs.lists import read_lists
        from tensorveil.runs.reading import Reading

        return Reading(
            file=file,
            modes=self.modes,
            value=self.value,
            format=self.file_format,
            labels=read_lists(self.labels, file),
            indices=self.indices,
            header=not self.no_header,
            variable=self.variable,
            bins=self.bins,
            delimiter=self.delimiter,
            decimal=self.decimal,
            encoding=self.encoding,
            **policies,
        )


def reading_options(function: Function) -> Function:
    """Add the options that say how a tensor file is to be read; the command gets them as ``reading``."""
    options = [
        click.option(
            "--modes",
            callback=split_names,
            metavar="NAME,NAME,...",
            help="Columns that are the modes, in order: user,film,day.",
        ),
        click.option("--value", help="Column that holds the value [default: 'value', else the last one]."),
        click.option("--format", "file_format", help="File format, where the name does not tell it."),
        click.option(
            "--labels",
            multiple=True,
            callback=split_lists,
            metavar="MODE=FILE[:COLUMN]",
            help="Public list of a mode's labels, film=films.csv; rows with others are left out. Repeatable.",
        ),
        click.option(
            "--indices", is_flag=True, help="Mode columns without a list hold 0-based indices; otherwise labels."
        ),
        click.option("--no-header", is_flag=True, help="CSV, TSV: no line of names; columns are f0, f1, ..."),
        click.option("--variable", help="MATLAB: the variable to read; SQLite, DuckDB: the table."),
        bin_option,
        dialect_options,
    ]
    return add_options(gather(reading=ReadingOptions)(function), options)


def check_tensor(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    """Accept a file, or a folder that is a store, where a verb works on both."""
    from pathlib import Path

    from tensorveil.tensor.stored import is_store

    if path is not None and Path(path).is_dir() and not is_store(path):
        raise click.BadParameter("this folder is no store: it has no manifest.json. Make one: tensorveil store FILES.")
    return path


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Where the parts of a store are worked on."""

    engine: str | None
    checkpoint: Path | None
    trust_network: bool | None

    @property
    def given(self) -> list[str]:
        """Which of them were asked for, as options."""
        names = [field.name for field in dataclasses.fields(self) if getattr(self, field.name) is not None]
        return [f"--{name.replace('_', '-')}" for name in names]


def engine_options(function: Function) -> Function:
    """Add the options that say where a store is worked on; the command gets them as ``engines``."""
    from pathlib import Path

    options = [
        click.option(
            "--engine",
            metavar="loop|dask:ADDRESS|spark[:MASTER]",
            help="Stores: where their parts are worked on [default: loop, one after the other, here].",
        ),
        click.option(
            "--checkpoint",
            type=click.Path(file_okay=False, path_type=Path),
            help="Stores: folder that keeps every round; the same command goes on from there if it was killed.",
        ),
        click.option(
            "--trust-network",
            is_flag=True,
            default=None,
            help="Stores: allow clusters beyond this machine whose connections are not encrypted.",
        ),
    ]
    return add_options(gather(engines=EngineOptions)(function), options)


def loss_options(function: Function) -> Function:
    """Add the options that say what values are."""
    options = [
        click.option(
            "--loss",
            type=click.Choice(["gaussian", "poisson", "bernoulli", "gamma"]),
            help="What values are: any numbers, counts, yes or no (1 or 0), positive numbers [default: gaussian].",
        ),
        click.option("--nonnegative", is_flag=True, help="Factors without negative numbers: predictions are sums."),
        unlisted_option,
        click.option(
            "--unlisted-weight",
            type=click.FloatRange(min=0, min_open=True),
            help="With --unlisted zero: what such a cell counts beside a listed one [default: 1].",
        ),
        click.option(
            "--same", callback=split_names, metavar="NAME,NAME", help="Modes that are the same thing: head,tail."
        ),
    ]
    return add_options(function, options)


unlisted_option = click.option(
    "--unlisted",
    type=click.Choice(["unknown", "zero"]),
    help="What cells without a row hold [default: unknown, or as the file says].",
)


def safe_csv_option(function: Function) -> Function:
    """Add --safe-csv."""
    option = click.option(
        "--safe-csv",
        is_flag=True,
        help="CSV, TSV: put an apostrophe before texts that a spreadsheet would take for a formula.",
    )
    return option(function)


def split_lists(_: click.Context, __: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    """Parse MODE=FILE."""
    lists: dict[str, str] = {}
    for text in texts:
        name, sign, place = text.partition("=")
        if not (name.strip() and sign and place.strip()) or name.strip() in lists:
            raise click.BadParameter("give MODE=FILE once for a mode, such as film=films.csv or film=films.csv:title.")
        lists[name.strip()] = place.strip()
    return lists


def split_bins(_: click.Context, __: click.Parameter, texts: Sequence[str]) -> dict[str, Any]:
    """Parse MODE=WIDTH and MODE=WIDTH:START..END."""
    bins: dict[str, Any] = {}
    for text in texts:
        name, sign, said = text.rpartition("=")
        width, colon, ends = said.partition(":")
        parts = [part.strip() for part in ends.split("..")] if colon else []
        if not (sign and name.strip() and width.strip()) or len(parts) not in (0, 2) or name.strip() in bins:
            raise click.BadParameter(
                "give MODE=WIDTH once for a mode, such as time=day or time=day:2024-01-01..2024-03-31."
            )
        bins[name.strip()] = (width.strip(), *parts)
    return bins


def dialect_options(function: Function) -> Function:
    """Add --delimiter, --decimal and --encoding."""
    options = [
        click.option("--delimiter", help="CSV, TSV: what stands between fields, such as ';' [default: detected]."),
        click.option(
            "--decimal", type=click.Choice([".", ","]), help="CSV, TSV: mark of decimals [default: detected]."
        ),
        click.option("--encoding", help="CSV, TSV: such as utf-16 or latin-1 [default: detected]."),
    ]
    return add_options(function, options)


bin_option = click.option(
    "--bin",
    "bins",
    multiple=True,
    callback=split_bins,
    metavar="MODE=WIDTH[:START..END]",
    help="Moments to bins of an hour, day, week, month or a number of seconds: time=day. A range is public: "
    "time=day:2024-01-01..2024-03-31. Repeatable.",
)


def split_names(_: click.Context, __: click.Parameter, text: str | None) -> list[str] | None:
    """Parse comma-separated names."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise click.BadParameter("give names separated by commas, such as user,film,day.")
    return names


def split_settings(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[Any, str] | None:
    """Turn ``day=walk`` and ``day+hour=walk`` into modes, or pairs of them, and what is said of them."""
    found: dict[Any, str] = {}
    for value in values:
        modes, equals, kind = value.rpartition("=")
        if not equals or not modes:
            raise click.BadParameter("give a mode, an equals sign and what is said of the mode, such as day=walk.")
        names = tuple(modes.split("+"))
        if (names if len(names) > 1 else names[0]) in found:
            raise click.BadParameter("names the same mode twice. Name it once.")
        found[names if len(names) > 1 else names[0]] = kind
    return found or None


def split_ranks(_: click.Context, __: click.Parameter, text: str | None) -> int | tuple[int, ...] | str | None:
    """Parse one rank, or one per mode separated by commas, or "auto" (matrices)."""
    if text is None or text == "auto":
        return text
    try:
        ranks = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(
            f"rank must be a whole number, or one per mode; got {text!r}. Try 8 or 4,4,4."
        ) from None
    if min(ranks) < 1:
        raise click.BadParameter(f"rank must be at least 1; got {min(ranks)}. Try 8.")
    return ranks[0] if len(ranks) == 1 else ranks


def split_shape(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Parse sizes of modes separated by commas."""
    shape = split_sizes(_, __, text)
    if shape is not None and len(shape) < 2:
        raise click.BadParameter(
            f"a shape has a size of at least 1 for each of 2 or more modes; got {text!r}. Try 943,1682."
        )
    return shape


def split_named_shape(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[int, ...] | dict[str, int] | None:
    """Parse sizes of modes: in their order, 943,1682, or by name, user=943."""
    if text is None or "=" not in text:
        if text is not None and "," not in text:
            raise click.BadParameter(f"give the size of a mode by its name, user=943; got {text!r}.")
        return split_shape(context, parameter, text)
    parts = [part.partition("=") for part in text.split(",")]
    names = [name.strip() for name, _, _ in parts]
    if not all(names) or len(set(names)) != len(names):
        raise click.BadParameter(f"give the size of each mode once, user=943,day=7; got {text!r}.")
    sizes = split_sizes(context, parameter, ",".join(size or "?" for _, _, size in parts))
    assert sizes is not None
    return dict(zip(names, sizes, strict=True))


def split_sizes(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Parse sizes of a tensor, or of a vector, separated by commas."""
    if text is None:
        return None
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"a shape is whole numbers and commas; got {text!r}. Try 943,1682.") from None
    if min(shape) < 1:
        raise click.BadParameter(f"a shape has sizes of at least 1; got {text!r}. Try 943,1682.")
    return shape


def console(*, as_json: bool = False) -> Console:
    """Return the console for people: stdout, or stderr when stdout is for a machine."""
    from rich.console import Console

    # soft_wrap off and a generous width when piped: tables stay whole in logs.
    stream = sys.stderr if as_json else sys.stdout
    width = None if stream.isatty() else 110
    return Console(file=stream, width=width, highlight=False)


def escape(text: str) -> str:
    """Return a text that a console prints as it is: no markup, and nothing that a terminal would obey."""
    from rich import markup

    return markup.escape(clean(text))


# What JSON lets through, and some terminals obey.
_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F))}


def print_json(content: Any) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).translate(_CONTROLS))
