"""What was typed into the page, as facts: checked field by field, then turned into requests of `tensorveil.runs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tensorveil.desk.errors import FieldError
from tensorveil.desk.places import Places
from tensorveil.errors import InputError
from tensorveil.privacy import Unit
from tensorveil.privacy.gate import check_bounds

if TYPE_CHECKING:
    from tensorveil.runs.plan import PlanRun
    from tensorveil.runs.private import PrivateRun
    from tensorveil.runs.reading import Reading

__all__ = [
    "Asked",
    "Spending",
    "read_asked",
    "read_entries",
    "read_number",
    "read_spending",
    "read_unit",
    "text_of",
]

UNITS: Final = ("value", "entry", "slice")
WIDTHS: Final = ("hour", "day", "week", "month")
EPSILONS: Final = (0.5, 1.0, 2.0, 5.0, 10.0)  # what a plan compares besides
LONGEST: Final = 300  # characters of a name or a number


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Which data, how they are read, and what is promised.

    Parameters
    ----------
    file
        The data.
    modes, value
        The columns that are modes, and the one that holds the value; None for files that say so themselves.
    unit, bounds, delta
        As for the private estimators.
    lists
        Public lists of labels by mode, as `read_labels` takes them.
    sizes
        Declared sizes of modes by name.
    bins
        Columns of moments, and the bins that they are put into: a width, or (width, start, end) where positions are
        private.
    indices
        Whether columns without a list hold numbers from 0 rather than labels.
    duplicates
        Unit value: what becomes of entries that share a cell.
    model, rank
        The form of the model.
    """

    file: Path
    modes: tuple[str, ...] | None
    value: str | None
    unit: str
    bounds: tuple[float, float]
    delta: float
    lists: Mapping[str, str]
    sizes: Mapping[str, int]
    bins: Mapping[str, Any]
    indices: bool
    duplicates: str | None
    model: str
    rank: Any

    @property
    def kind(self) -> str:
        """The kind of the unit."""
        return Unit.parse(self.unit).kind

    @property
    def shape(self) -> Any:
        """Declared sizes, as an estimator takes them: by name for tables, in order for other files."""
        if self.kind == "value" or not self.sizes:
            return None
        return dict(self.sizes) if self.modes is not None else tuple(self.sizes.values())

    def check_lists(self) -> None:
        """Refuse lists that cannot be read, and modes of which nothing is declared where it must be."""
        if self.kind == "value":
            self.make_reading()
        else:
            self._declared_shape()

    def make_reading(self) -> Reading:
        """Return how the data are read."""
        from tensorveil.runs.lists import read_lists
        from tensorveil.runs.reading import Reading

        return Reading(
            file=self.file, modes=self.modes, value=self.value, labels=read_lists(self.lists, str(self.file)),
            indices=self.indices, duplicates=self.duplicates, bins=self.bins or None,
        )  # fmt: skip

    def make_plan(self, epsilon: float, entries: int | None) -> PlanRun:
        """Return what is to be guessed: from positions in unit value, else from what is declared alone."""
        from tensorveil.runs.plan import PlanRun

        epsilons = tuple(sorted({*EPSILONS, epsilon}))
        facts: dict[str, Any] = {"reading": self.make_reading()}
        if self.kind != "value":
            facts = {"shape": self._declared_shape(), "entries": entries}
            if self.kind == "slice":
                facts["modes"] = self.modes or tuple(self.sizes)
        return PlanRun(
            bounds=self.bounds, epsilons=epsilons, delta=self.delta, unit=self.unit, model=self.model, rank=self.rank,
            **facts,
        )  # fmt: skip

    def _declared_shape(self) -> tuple[int, ...]:
        """Return the sizes of all modes: declared, or as long as their public lists."""
        from tensorveil.runs.lists import read_lists
        from tensorveil.tensor.bins import settle_bins
        from tensorveil.tensor.lists import settle_lists

        settled = settle_lists(read_lists(self.lists, str(self.file)) or {})
        lengths = {name: len(mode.labels) for name, mode in settled.items() if mode.labels is not None}
        ranges = {name: each.labels for name, each in settle_bins(self.bins).items()}
        known = {**self.sizes, **lengths, **{name: len(each) for name, each in ranges.items() if each is not None}}
        missing = [name for name in self.modes or () if name not in known]
        if missing:
            raise FieldError("lists", f"mode {missing[0]!r} needs a public list, or the size that it can have at most.")
        return tuple(known[name] for name in self.modes or tuple(self.sizes))


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What a run spends, on what account, and what it is to leave."""

    epsilon: float
    ledger: Path
    purpose: str
    output: Path
    fill: str | None

    def make_run(self, asked: Asked) -> PrivateRun:
        """Return the same request that ``tensorveil complete`` makes."""
        from tensorveil.runs.cells import Filling
        from tensorveil.runs.estimators import DEFAULT_RANK, PRIVATE, USER_LEVEL
        from tensorveil.runs.private import PrivateRun

        estimator = (USER_LEVEL if asked.kind == "slice" else PRIVATE)[asked.model](
            asked.rank or DEFAULT_RANK[asked.model], epsilon=self.epsilon, delta=asked.delta, unit=asked.unit,
            bounds=asked.bounds, shape=asked.shape, ledger=self.ledger, purpose=self.purpose,
        )  # fmt: skip
        filling = None if self.fill is None else Filling(format=self.fill, value_name=asked.value)
        return PrivateRun(reading=asked.make_reading(), estimator=estimator, output=self.output, filling=filling)


def read_asked(form: Mapping[str, Any], places: Places) -> Asked:
    """Check what was typed about the data and the promise."""
    modes, value = _read_columns(form)
    unit, kind = read_unit(form), text_of(form, "unit")
    low, high = (read_number(form, name, "bounds") for name in ("low", "high"))
    return Asked(
        file=places.find(_required(form, "file", "choose a file first.")),
        modes=modes,
        value=value,
        unit=unit,
        bounds=check_bounds((low, high)),
        delta=read_number(form, "delta"),
        lists={} if modes is None else _read_lists(form, modes, places),
        sizes={} if kind == "value" else _read_sizes(form),
        bins={} if modes is None else _read_bins(form, modes, with_range=kind != "value"),
        indices=form.get("indices") is True and modes is not None,
        duplicates=_choice(form, "duplicates", ("mean", "sum", "first", "last")) if kind == "value" else None,
        model=_choice(form, "model", ("cp", "tucker", "matrix")) or "cp",
        rank=_read_rank(form),
    )


def read_spending(form: Mapping[str, Any], places: Places) -> Spending:
    """Check what was typed about the run."""
    return Spending(
        epsilon=read_number(form, "epsilon"),
        ledger=places.find(_required(form, "ledger", "choose a ledger, or start one."), "ledger"),
        purpose=_required(form, "purpose", "say what the release is for, in a few words, without data."),
        output=places.make_name(text_of(form, "output"), "output"),
        fill=_choice(form, "fill", ("csv", "parquet")),
    )


def read_unit(form: Mapping[str, Any]) -> str:
    """Return what is protected."""
    kind = text_of(form, "unit")
    if kind not in UNITS:
        raise FieldError("unit", "choose what is protected: single values, single entries, or all that one person did.")
    if kind != "slice":
        return kind
    return f"slice:{_required(form, 'protect', 'choose whose entries belong together.')}"


def text_of(form: Mapping[str, Any], name: str) -> str:
    """Return a text that was typed, without spaces around it."""
    given = form.get(name, "")
    if not isinstance(given, str) or len(given) > LONGEST:
        raise FieldError(name, f"must be a text of at most {LONGEST} characters.")
    return given.strip()


def read_number(form: Mapping[str, Any], name: str, field: str | None = None) -> float:
    """Return a number that was typed."""
    text = text_of(form, name)
    try:
        return float(text)
    except ValueError:
        raise FieldError(field or name, f"{field or name} must be a number, with a point for decimals.") from None


def read_entries(form: Mapping[str, Any]) -> int:
    """Return the declared number of entries, which a plan for entries or whole users guesses with."""
    return _whole(text_of(form, "entries"), "entries", "say about how many entries there are, such as 100000.")


def _required(form: Mapping[str, Any], name: str, remedy: str) -> str:
    text = text_of(form, name)
    if not text:
        raise FieldError(name, remedy)
    return text


def _choice(form: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str | None:
    text = text_of(form, name)
    if text and text not in choices:
        raise FieldError(name, f"must be one of {', '.join(choices)}.")
    return text or None


def _read_columns(form: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, str | None]:
    """Return modes and value; None for both where the file says what they are."""
    roles = form.get("roles")
    if roles is None:
        return None, None
    if not isinstance(roles, Mapping) or not all(isinstance(role, str) for role in roles.values()):
        raise FieldError("modes", "say of each column whether it is a mode, the value, or not used.")
    modes = tuple(name for name, role in roles.items() if role == "mode")
    values = [name for name, role in roles.items() if role == "value"]
    if len(modes) < 2 or len(values) != 1:
        raise FieldError("modes", "choose at least two columns as modes, and exactly one as the value.")
    return modes, values[0]


def _read_lists(form: Mapping[str, Any], modes: tuple[str, ...], places: Places) -> dict[str, str]:
    given, found = _mapping(form, "lists"), {}
    for name in modes:
        entry = given.get(name)
        if not isinstance(entry, Mapping) or not text_of(entry, "file"):
            continue
        path, column = places.find(text_of(entry, "file"), "lists"), text_of(entry, "column")
        found[name] = f"{path}:{column}" if column else str(path)
    return found


def _read_sizes(form: Mapping[str, Any]) -> dict[str, int]:
    given = _mapping(form, "sizes")
    return {
        name: _whole(text_of(given, name), "lists", "sizes of modes must be whole numbers, such as 1000.")
        for name in given
        if text_of(given, name)
    }


def _read_bins(form: Mapping[str, Any], modes: tuple[str, ...], *, with_range: bool) -> dict[str, Any]:
    """Return the bins of columns of moments; where positions are private, with the range that was declared."""
    from tensorveil.tensor.bins import settle_bins

    given, ranges, found = _mapping(form, "bins"), _mapping(form, "ranges"), {}
    for name in modes:
        width = text_of(given, name)
        if not width:
            continue
        if width not in WIDTHS:
            raise FieldError("modes", f"bins of {name!r} must be of an hour, a day, a week or a month.")
        ends = ranges.get(name) if with_range else ()
        if not isinstance(ends, list | tuple) or not all(isinstance(end, str) and end.strip() for end in ends):
            ends = None
        if ends is None or len(ends) != 2 * with_range:
            raise FieldError("lists", f"say from when to when {name!r} can be, such as 2024-01-01 and 2024-12-31.")
        found[name] = (width, *ends)
        try:
            settle_bins({name: found[name]})
        except InputError:
            raise FieldError(
                "lists", f"{name!r} must be from one day to a later one, such as 2024-01-01 and 2024-12-31."
            ) from None
    return found


def _mapping(form: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    given = form.get(name, {})
    if not isinstance(given, Mapping):
        raise FieldError("lists", f"{name} must be given by mode.")
    return given


def _read_rank(form: Mapping[str, Any]) -> Any:
    text = text_of(form, "rank")
    if text in ("", "auto"):
        return text or None
    remedy = "rank must be a whole number such as 8, or one per mode, such as 4,4,4."
    ranks = tuple(_whole(part.strip(), "rank", remedy) for part in text.split(","))
    if min(ranks) < 1:
        raise FieldError("rank", remedy)
    return ranks[0] if len(ranks) == 1 else ranks


def _whole(text: str, field: str, remedy: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise FieldError(field, remedy)
    return int(text)
